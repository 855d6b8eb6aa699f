"""A snapshot of a cluster as input: no warnings for what it has, and files beside it are laid on top."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gangsched import api
from gangsched.cli.main import main
from gangsched.cluster.manifests.objects import SNAPSHOT

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "4", "pods": "9"}},
}
OLD = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web-1", "namespace": "default", "resourceVersion": "7"},
    "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}},
}


def pod(cpu: int) -> dict[str, Any]:
    """A pod that waits."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": str(cpu)}}}
    spec = {"schedulerName": "py-gang-scheduler", "containers": [container]}
    meta = {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "8"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A file as the command writes it: a pod that is too large, and a ReplicaSet of an earlier revision."""
    begin, end = SNAPSHOT
    path = tmp_path / "cluster.json"
    path.write_text(begin + ",\n".join(map(json.dumps, [NODE, OLD, pod(9)])) + end)
    return path


def planned(capsys: pytest.CaptureFixture[str], *files: Path) -> Any:
    """The answer about these files."""
    args: Sequence[str] = [text for file in files for text in ("-f", str(file))]
    assert main(["plan", *args, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_snapshot_loads_without_a_warning(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A ReplicaSet without pods has none: all that there is of the cluster is in the file."""
    found = planned(capsys, snapshot)
    assert found["warnings"] == []
    assert [each["outcome"] for each in found["decisions"]] == ["unschedulable"]


def test_files_beside_a_snapshot_replace_its_objects(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on a cluster, in whatever order the files are named, and in Python too."""
    other = tmp_path / "smaller.json"
    other.write_text(json.dumps(pod(1)))
    for files in ((snapshot, other), (other, snapshot)):
        assert [each["outcome"] for each in planned(capsys, *files)["decisions"]] == ["bind"]
    assert [each.outcome for each in api.plan(api.load(snapshot, other)).decisions] == ["bind"]


def test_other_files_may_not_define_an_object_twice(snapshot: Path, tmp_path: Path) -> None:
    """Only a snapshot is laid below."""
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps(pod(1)))
    assert main(["plan", "-f", str(snapshot), str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 2
