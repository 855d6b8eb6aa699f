"""Simulations use what is known of run times, as forecasts do."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import gangsched
from gangsched.cli.main import main
from tests.pages import read_schema

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", memory: 16Gi, pods: "50"}}
---
apiVersion: v1
kind: Pod
metadata: {name: new, namespace: d}
spec: {schedulerName: py-gang-scheduler, containers: [{name: c, image: x, resources: {requests: {cpu: "4"}}}]}
---
"""
RUNNING = """
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: d, uid: a, annotations: {NOTES}}SPEC
status: {phase: Running, startTime: "2026-05-04T10:00:00Z"}
"""
SPEC = """
spec: {MOREnodeName: n1, containers: [{name: c, image: x, resources: {requests: {cpu: "4"}}}]}"""
DECLARED, EXPLICIT = "gangsched.dev/expected-run-time: 30m", "sim.gangsched.dev/run-for: 5m"
BY_A_JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: d, uid: job, annotations: {gangsched.dev/expected-run-time: 30m}}
spec: {parallelism: 1, completions: 1, template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}
status: {active: 1}
---
apiVersion: v1
kind: Pod
metadata:
  name: a
  namespace: d
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train, uid: job, controller: true}]
spec: {nodeName: n1, containers: [{name: c, image: x, resources: {requests: {cpu: "4"}}}]}
status: {phase: Running, startTime: "2026-05-04T10:00:00Z"}
"""


def running(notes: str = "", more: str = "") -> str:
    """A cluster with one pod on its node, with these annotations and fields of its spec, and another that waits."""
    return CLUSTER + RUNNING.replace("NOTES", notes).replace("SPEC", SPEC.replace("MORE", more))


@pytest.mark.parametrize(
    ("cluster", "minutes"),
    [
        (running(DECLARED), 30),
        (running(more="activeDeadlineSeconds: 1200, "), 20),
        (running(f"{DECLARED}, {EXPLICIT}"), 5),
        (CLUSTER + BY_A_JOB, 30),
    ],
    ids=["declared", "deadline", "annotation for simulations", "of its Job"],
)
def test_room_is_there_when_pods_are_expected_to_end(
    cluster: str, minutes: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pod ends after its declared run time or its deadline. An annotation for simulations goes first."""
    (tmp_path / "all.yaml").write_text(cluster)
    assert main(["simulate", "-f", str(tmp_path), "--until", "1h", "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    jsonschema.validate(answer, read_schema("simulate-v1"))
    assert answer["pods"]["d/new"]["boundAt"] == pytest.approx(60 * minutes, abs=1.0)
    assert "d/a" in answer["pods"]
    assert answer["summary"]["unknownRunTimes"] == {"Pod d/new": 1}


def test_python_has_the_same_times() -> None:
    """`simulate` and `eta` agree on when a gang starts, for a plan and for an explanation."""
    cluster = gangsched.load(running(DECLARED))
    run = gangsched.simulate(cluster, until_seconds=3600)
    assert run.pods["d/new"].bound_at == pytest.approx(1800, abs=1.0)
    assert run.summary.unknown_run_times == {"Pod d/new": 1}
    (planned,) = gangsched.plan(cluster, eta=True).decisions
    (explained,) = gangsched.explain(cluster, "d/new", eta=True).decisions
    assert planned.eta is not None
    assert planned.eta.likely == "2026-05-04T10:30:00Z"
    assert explained.eta == planned.eta
    (without,) = gangsched.plan(cluster).decisions
    assert without.eta is None


def test_what_is_not_known_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pods without a known run time go on, and one line names their workloads and what would help."""
    (tmp_path / "all.yaml").write_text(running())
    for output in ("table", "html"):
        assert main(["simulate", "-f", str(tmp_path), "-o", output]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert said.count("run times unknown: 2 pods (Pod d/a, Pod d/new)") == 1
        assert "gangsched.dev/expected-run-time" in said
    (tmp_path / "all.yaml").write_text(
        running(DECLARED).replace("metadata: {name: new", f"metadata: {{annotations: {{{DECLARED}}}, name: new")
    )
    assert main(["simulate", "-f", str(tmp_path), "--until", "2h"]) == 0
    assert "unknown" not in capsys.readouterr().out
