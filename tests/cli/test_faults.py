"""An error of the scheduler over one object is a line of `plan`, `explain` and `simulate`, and no traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gangsched.cli.decisions import State
from gangsched.cli.explain import _quarantined
from gangsched.cli.explanation import explain
from gangsched.cli.main import main
from gangsched.cluster.kube.published import Published, Status
from gangsched.core.events import Quarantined
from gangsched.core.options import Options
from gangsched.core.planning.cycle import Decider
from gangsched.core.world.world import World
from gangsched.runtime.running import Running
from tests.builders import gang, node, pod
from tests.core.harness import Built, event

MANIFEST = """
apiVersion: v1
kind: Node
metadata: {name: n0}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}
---
apiVersion: v1
kind: Pod
metadata: {name: evil, namespace: d}
spec: {schedulerName: py-gang-scheduler, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: good, namespace: d}
spec: {schedulerName: py-gang-scheduler, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
"""


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with an evil pod and a good one; each event of the first makes the core fail."""
    right = World.set_pod

    def broken(self: World, found: Any) -> Any:
        if found.name == "evil":
            raise KeyError("broken")
        return right(self, found)

    monkeypatch.setattr(World, "set_pod", broken)
    file = tmp_path / "cluster.yaml"
    file.write_text(MANIFEST)
    return str(file)


def test_plan_leaves_out_what_it_fails_over(manifest: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Other pods are decided; a warning names the object and the place, and the exit code is 1."""
    assert main(["plan", "-f", manifest, "-o", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert [(d["gang"], d["outcome"]) for d in answer["decisions"]] == [("d/good", "bind")]
    (warning,) = answer["warnings"]
    assert warning["object"] == "Pod d/evil"
    assert warning["message"].startswith("the scheduler failed in broken (test_faults.py:")
    assert main(["plan", "-f", manifest]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "Pod d/evil" in line


def test_explain_says_over_what_it_fails(manifest: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In one line for that object; another one is explained."""
    assert main(["explain", "evil", "-n", "d", "-f", manifest]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("gangsched: Pod d/evil: the scheduler failed in broken (test_faults.py:")
    assert main(["explain", "good", "-n", "d", "-f", manifest]) == 1
    assert "good" in capsys.readouterr().out


def test_simulate_finishes_and_says_over_what_it_fails(manifest: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The other pod is bound; one line on stderr, and exit code 1."""
    assert main(["simulate", "-f", manifest, "-o", "json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["pods"]["d/good"]["node"] == "n0"
    (line,) = err.splitlines()
    assert line.startswith("gangsched: Pod d/evil: the scheduler failed in broken (test_faults.py:")


def test_an_error_after_a_decision_is_that_of_its_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frames of the exception show the gang: its group and its members are left out."""
    right = Decider.decide

    def broken(self: Decider, question: Any) -> Any:
        if question.gangs[0].name == "evil":
            raise KeyError("broken")
        return right(self, question)

    monkeypatch.setattr(Decider, "decide", broken)
    objects: list[Built] = [node("n0").cpu(4), gang("evil").min(1), pod("m").gang("evil").cpu(1), pod("good").cpu(1)]
    state = State([event(each) for each in objects], Options(), 0.0)
    assert [decision.gang.name for decision, _ in state.decisions] == ["good"]
    assert [fault["object"] for fault in state.faults] == ["Gang d/evil, Pod d/m"]


def test_an_error_that_shows_no_object_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left out then."""

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr("gangsched.cli.decisions.foretell", broken)
    with pytest.raises(ZeroDivisionError):
        State([event(node("n0").cpu(4))], Options(), 0.0)


def test_explain_says_what_the_scheduler_of_the_cluster_leaves_out() -> None:
    """A member of the gang, or the gang itself; not what concerns others."""
    objects: list[Built] = [node("n0").cpu(4), gang("g").min(2), *(pod(f"m{i}").gang("g").cpu(1) for i in range(2))]
    state = State([event(each) for each in objects], Options(), 0.0)
    entries = (
        Quarantined("Pod", "d", "m1", "u", 2, 0.0, "why"),
        Quarantined("", "", "d/g", "", 3, 0.0, "why"),
        Quarantined("Pod", "d", "other", "u", 2, 0.0, "why"),
    )
    running = Running("ns/lease", 0.0, holder="a", published=Published({}, Status(quarantined=entries)))
    assert list(_quarantined(running, state, explain(state, "d", "g", ""), "d/g")) == [
        "Pod d/m1 until 1970-01-01T00:01:00Z: why",
        "gang d/g until 1970-01-01T00:02:00Z: why",
    ]


@pytest.mark.parametrize("command", ["get", "queues"])
def test_commands_that_decide_nothing_name_what_they_fail_over(
    command: str, manifest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A warning names the object, and all else is shown."""
    assert main([command, "-f", manifest]) == 0
    shown = capsys.readouterr()
    assert "Pod d/evil" in shown.err
    assert "Traceback" not in shown.err
    if command == "get":
        assert "good" in shown.out
