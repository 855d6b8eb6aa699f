"""Which requests count as a candidate's, and what is told about the machine."""

from __future__ import annotations

from pathlib import Path

from tests.bench.live.api import Calls, counted
from tests.bench.publish.machine import filesystem

METRICS = """
apiserver_longrunning_requests{resource="pods",subresource="",verb="WATCH",version="v1"} 2
apiserver_longrunning_requests{resource="pods",subresource="exec",verb="CONNECT",version="v1"} 1
apiserver_request_total{code="0",resource="pods",subresource="",verb="WATCH",version="v1"} 1
apiserver_request_total{code="201",resource="pods",subresource="binding",verb="POST",version="v1"} 4
apiserver_request_total{code="409",resource="pods",subresource="binding",verb="POST",version="v1"} 1
apiserver_request_duration_seconds_count{resource="pods",verb="LIST"} 9
"""


def test_requests_are_counted_whatever_came_of_them() -> None:
    """A watch counts when it is open as when it has ended; other metrics do not count."""
    assert counted(METRICS) == {"WATCH pods": 3, "POST pods/binding": 5}


def test_what_the_server_asks_itself_does_not_count() -> None:
    """Some kinds are only its own; of Leases it renews one every ten seconds."""
    before = Calls(100.0, {"PUT leases": 7, "LIST limitranges": 1, "POST pods/binding": 1})
    kinds = {"PUT leases": 16, "LIST limitranges": 3, "GET workloads": 5, "GET /openapi/v3": 4, "POST pods/binding": 9}
    assert list(Calls(140.0, {**kinds, "LIST pods": 6}).since(before).items()) == [
        ("POST pods/binding", 8),
        ("LIST pods", 6),
        ("PUT leases", 5),
    ]
    assert Calls(140.0, {"PUT leases": 11}).since(before) == {}


def test_the_file_system_of_a_folder_is_that_of_the_nearest_mount() -> None:
    """The root is on a disk; what is mounted below it, is its own."""
    mounts = "/dev/sda / ext4 rw 0 0\ntmpfs /nowhere/fast tmpfs rw 0 0\n"
    assert filesystem(Path("/nowhere/fast/data"), mounts) == "tmpfs"
    assert filesystem(Path("/nowhere/faster"), mounts) == "ext4"
