"""The record of evictions: what goes into it, how large it may become, and that a real API server keeps it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from gangsched.cluster.kube.client import ApiError, UnreachableError
from gangsched.cluster.kube.history import LIMIT_BYTES, MOST_OBJECTS, History, Line, bounded, lines_of
from gangsched.core.actions import PodRef, Report
from gangsched.core.decision import UnitRef, Victim
from gangsched.core.lifecycle import report
from gangsched.messages import notes
from tests.cluster.kube.conftest import Reader
from tests.controlplane.client import Client as Admin
from tests.controlplane.client import wait_until
from tests.faulty_proxy import FaultyProxy

TRIGGER = PodRef("d", "m1", "uid-m1")
SPACE = "gangsched-system"


def evicted(number: int, gang: str = "d/g") -> Report:
    """The Event of a victim."""
    victim = Victim("d", f"v{number}", f"uid-{number}", f"n{number}", UnitRef("Pod", f"d/v{number}"), False, 0, False)
    note = notes.preempted_by(
        preemptor=gang,
        priority=9,
        trigger=TRIGGER.key,
        node=victim.node,
        reason="LowerPriority",
        why="lower priority (0 < 9)",
    )
    return report.event(victim, report.PREEMPTED, note, TRIGGER)


def line(number: int, size: int = 0) -> Line:
    """A line that differs from those of other numbers; ``size`` is that of its JSON with the line feed, in bytes."""
    plain = Line("2026-01-01T00:00:00Z", "Preempted", "Pod", f"{number:04d}", [("d", "v", "n")])
    return msgspec.structs.replace(plain, note=plain.note + "x" * max(0, size - len(msgspec.json.encode(plain)) - 1))


class Server:
    """An API server with one ConfigMap, of which each write may fail once."""

    def __init__(self) -> None:
        self.found: dict[str, Any] | None = None
        self.version = 0
        self.requests: list[str] = []
        self.fails: list[Exception] = []
        self.takes_effect = False
        self.bucket = self

    async def acquire(self) -> None:
        """A token of the bucket."""

    async def attempt(self, method: str, path: str, *, body: bytes | None, **_: Any) -> bytes:
        """One request."""
        self.requests.append(method)
        if method != "GET" and self.fails:
            failure = self.fails.pop()
            if self.takes_effect:
                self._keep(body)
            raise failure
        if method == "GET" and self.found is None:
            raise ApiError(404, "NotFound", path)
        if method == "PUT" and json.loads(body or b"")["metadata"]["resourceVersion"] != str(self.version):
            raise ApiError(409, "Conflict", path)
        if method != "GET":
            self._keep(body)
        return json.dumps(self.found).encode()

    def _keep(self, body: bytes | None) -> None:
        self.version += 1
        self.found = json.loads(body or b"")
        self.found["metadata"]["resourceVersion"] = str(self.version)

    def lines(self) -> list[Line]:
        """What is on record."""
        return list(lines_of(json.dumps(self.found).encode()))


def history(
    server: Server, fence: float = float("inf"), quiet: Callable[[float], Awaitable[bool]] | None = None
) -> Any:
    """The record that is written there."""

    async def at_once(_: float) -> bool:
        return True

    return History(
        server,  # type: ignore[arg-type]
        SPACE,
        now=lambda: 0.0,
        fence=lambda: fence,
        quiet=quiet or at_once,
        timeout_seconds=1.0,
    )


async def test_victims_of_one_plan_share_a_line_and_a_write() -> None:
    """However many pods leave together: one line, with the node of each; lines for others stand beside it."""
    server = Server()
    record = history(server)
    record.note([evicted(n) for n in range(3)])
    record.note([evicted(3, "d/other"), report.event(TRIGGER, report.SCHEDULED, "on n")])
    record.note([report.event(TRIGGER, report.PREEMPTED, "Preempted 3 pods")])
    await record.write()
    assert server.requests == ["GET", "POST"]
    first, second = server.lines()
    assert first == Line(
        "1970-01-01T00:00:00Z",
        "Preempted",
        "Pod",
        "Preempted by gang d/g (priority 9, pod d/m1) (LowerPriority): lower priority (0 < 9)",
        [("d", f"v{n}", f"n{n}") for n in range(3)],
    )
    assert [name for _, name, _ in second.objects] == ["v3"]
    await record.write()
    assert server.requests == ["GET", "POST"]


@pytest.mark.parametrize(("count", "lines"), [(MOST_OBJECTS, 1), (MOST_OBJECTS + 1, 2)])
async def test_a_line_has_so_many_objects(count: int, lines: int) -> None:
    """The text is shortened by whole lines, so none of them is as large as the text."""
    server = Server()
    record = history(server)
    record.note([evicted(n) for n in range(count)])
    await record.write()
    assert len(server.lines()) == lines
    assert sum(len(each.objects) for each in server.lines()) == count


@pytest.mark.parametrize(("beyond", "left"), [(0, ["0000", "0001"]), (1, ["0001"])])
def test_the_oldest_lines_go_first(beyond: int, left: list[str]) -> None:
    """A text that is as large as it may be stays; with one byte more its first line goes."""
    old = bounded("", [line(0, 1000)])
    text = bounded(old, [line(1, LIMIT_BYTES - 1000 + beyond)])
    assert len(text.encode()) <= LIMIT_BYTES
    assert [each["note"][:4] for each in map(json.loads, text.splitlines())] == left


def test_what_others_have_written_into_it() -> None:
    """What cannot be read is left out, and does not swallow the line behind it."""
    text = bounded("nonsense", [line(1)])
    body = json.dumps({"metadata": {}, "data": {"lines": text}}).encode()
    assert [each.note for each in lines_of(body)] == ["0001"]


@pytest.mark.parametrize("takes_effect", [False, True])
async def test_a_write_without_an_answer_is_repeated_and_counts_once(*, takes_effect: bool) -> None:
    """Whether or not it has taken effect."""
    server = Server()
    server.fails, server.takes_effect = [UnreachableError("no answer")], takes_effect
    record = history(server)
    record.note([evicted(1)])
    await record.write()
    record.note([evicted(2)])
    await record.write()
    assert [name for each in server.lines() for _, name, _ in each.objects] == ["v1", "v2"]


async def test_two_leaders_after_each_other_keep_what_the_other_wrote() -> None:
    """A conflict is no loss: the next attempt begins with what is there."""
    server = Server()
    before, after = history(server), history(server)
    before.note([evicted(1)])
    await before.write()
    server.fails = [ApiError(409, "Conflict", "another has written")]
    after.note([evicted(2)])
    await after.write()
    assert [name for each in server.lines() for _, name, _ in each.objects] == ["v1"]
    await after.write()
    assert [name for each in server.lines() for _, name, _ in each.objects] == ["v1", "v2"]


async def test_nothing_is_sent_without_the_lead() -> None:
    """What waits stays, and is written with the first line of the next term."""
    server = Server()
    record = history(server, fence=0.0)
    record.note([evicted(1)])
    await record.write()
    assert server.requests == []
    record._fence = lambda: float("inf")
    record.note([evicted(2)])
    await record.write()
    assert [name for each in server.lines() for _, name, _ in each.objects] == ["v1", "v2"]


async def test_everything_else_is_written_first() -> None:
    """The record waits until nothing else is to be written."""
    server, calm = Server(), asyncio.Event()

    async def quiet(_: float) -> bool:
        return await calm.wait()

    record = history(server, quiet=quiet)
    record.note([evicted(1)])
    task = asyncio.create_task(record.run())
    try:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert server.requests == []
        calm.set()
        await wait_until(lambda: server.found is not None)
    finally:
        task.cancel()


@pytest.mark.controlplane
async def test_a_leader_adds_to_the_record(
    make_cluster: Callable[..., Awaitable[Reader]], admin: Admin, namespace: str, proxy: FaultyProxy
) -> None:
    """With the rights of manifests/: one write for many Events, and another process goes on where one has stopped."""
    for number, expected in ((1, 40), (2, 41)):
        reader = await make_cluster(history_namespace=SPACE)
        await reader.leading()
        about = [("v1", "Pod", namespace, f"p{number}-{n}", f"u{n}") for n in range(40 if number == 1 else 1)]
        reports = [report.event(each, "Preempted", "on node n1: why", TRIGGER) for each in about]
        reader.cluster.submit(reports)

        async def objects() -> list[str]:
            found = await admin.find("ConfigMap", "gangsched-history", SPACE)
            lines = [json.loads(each) for each in (found or {"data": {"lines": ""}})["data"]["lines"].splitlines()]
            return [name for each in lines for space, name, _ in each["objects"] if space == namespace]

        async def there(count: int = expected) -> bool:
            return len(await objects()) == count

        await wait_until(there, what="the record")
        reader.cluster.stop()
    assert len(proxy.seen("POST", "/configmaps")) + len(proxy.seen("PUT", "/configmaps/")) <= 4
