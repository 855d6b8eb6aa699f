"""A Job of eight that is preempted twice, on the virtual clock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gangsched.cli.main import main
from tests.cli.worlds import TWO_NODES, gang_job

CLUSTER = (
    TWO_NODES
    + """---
apiVersion: batch/v1
kind: Job
metadata: {name: train, annotations: {sim.gangsched.dev/run-for: 60s, sim.gangsched.dev/grace-used: 2s}}
spec:
  parallelism: 8
  completions: 8
  template: {spec: {schedulerName: py-gang-scheduler, containers: [{resources: {requests: {cpu: 1}}}]}}
"""
)
URGENT = """
---
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: %(name)s}
spec: {minMember: 2}
"""
MEMBER = """
---
apiVersion: v1
kind: Pod
metadata:
  name: %(name)s-%(index)d
  labels: {pod-group.scheduling.sigs.k8s.io: %(name)s}
  annotations: {sim.gangsched.dev/arrive-after: %(at)s, sim.gangsched.dev/run-for: 20s}
spec: {schedulerName: py-gang-scheduler, priorityClassName: high, containers: [{resources: {requests: {cpu: 4}}}]}
"""


def urgent(name: str, at: str) -> str:
    """A gang that takes both nodes whole."""
    members = (MEMBER % {"name": name, "index": index, "at": at} for index in (0, 1))
    return URGENT % {"name": name} + "".join(members)


@pytest.mark.parametrize("arguments", [[], ["--seed", "1"], ["--seed", "2"]])
def test_a_job_is_preempted_twice_and_completes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """It is suspended both times, comes back both times, and no pod of it counts as failed."""
    path = tmp_path / "a.yaml"
    path.write_text(CLUSTER + urgent("first", "10s") + urgent("second", "60s"))
    assert main(["simulate", "-f", str(path), "-o", "json", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    of_the_job = (e for e in found["events"] if e["kind"] == "Job")
    story = [(e["actor"], e["verb"]) for e in of_the_job if e["verb"] not in ("exists", "event", "decide")]
    twice = [("scheduler", "suspend"), ("scheduler", "resume")] * 2
    done = [("job-controller", "status")] * 7
    assert story == [*twice, *done, ("job-controller", "complete")]
    assert found["summary"]["preempted"] == 16
    assert sorted(p["phase"] for p in found["pods"].values()) == ["Deleted"] * 16 + ["Succeeded"] * 12


def test_jobs_of_one_priority_start_in_the_order_in_which_they_came(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What waits longer starts first, whatever its name."""
    jobs = (gang_job(name, at, 60) for name, at in {"c": 1, "b": 10, "a": 20}.items())
    path = tmp_path / "a.yaml"
    path.write_text(TWO_NODES + "".join(jobs))
    assert main(["simulate", "-f", str(path), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    started = [e["object"].split("/")[1][0] for e in found["events"] if e["verb"] == "bind"]
    assert started == ["c", "c", "b", "b", "a", "a"]
