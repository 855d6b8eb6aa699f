"""Jobs that an eviction would end are named in the plan."""

from __future__ import annotations

import json

import pytest

from gangsched.cli.main import main

BASE = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {capacity: {cpu: 2}}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, uid: j1}
spec:
  parallelism: 2
%s
  template: {spec: {containers: [{resources: {requests: {cpu: 1}}}]}}
status: {failed: %d}
"""
POD = """
apiVersion: v1
kind: Pod
metadata:
  name: %s
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train, uid: j1, controller: true}]
spec: {nodeName: n1, containers: [{resources: {requests: {cpu: 1}}}]}
"""
NEW = """
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  schedulerName: py-gang-scheduler
  priorityClassName: high
  containers: [{resources: {requests: {cpu: %d}}}]
"""
POLICY = """  podFailurePolicy:
    rules:
    - {action: %s, onPodConditions: [{type: DisruptionTarget}]}
    - {action: %s, onPodConditions: [{type: DisruptionTarget}]}
"""


@pytest.fixture
def plan(tmp_path, capsys):
    """A function that plans these documents and returns the decisions."""

    def run(*documents):
        path = tmp_path / "a.yaml"
        path.write_text("\n---\n".join(documents))
        assert main(["plan", "-f", str(path), "-o", "json"]) == 0
        return json.loads(capsys.readouterr().out)["decisions"]

    return run


PODS = (POD % "train-a", POD % "train-b")
WOULD_FAIL = "Job default/train would fail: 2 more failed pods exceed its backoffLimit of 1"
BY_POLICY = "Job default/train would fail: its podFailurePolicy says so for evicted pods"


@pytest.mark.parametrize(
    ("spec", "failed", "expected"),
    [
        ("  backoffLimit: 1", 0, [WOULD_FAIL]),
        ("  backoffLimit: 2", 0, []),
        ("  backoffLimit: 2", 1, [WOULD_FAIL.replace("of 1", "of 2")]),
        ("", 4, []),
        ("", 5, [WOULD_FAIL.replace("of 1", "of 6")]),
        ("  backoffLimitPerIndex: 1", 5, []),
        ("  backoffLimit: 1\n" + POLICY % ("Ignore", "FailJob"), 0, []),
        ("  backoffLimit: 9\n" + POLICY % ("FailJob", "Ignore"), 0, [BY_POLICY]),
        ("  backoffLimit: 1\n" + POLICY % ("Count", "Ignore"), 0, [WOULD_FAIL]),
    ],
)
def test_a_job_that_would_fail_is_named(plan, spec, failed, expected):
    """The limit, what has failed before, and the first rule of the podFailurePolicy for evicted pods count."""
    (decision,) = plan(BASE, JOB % (spec, failed), *PODS, NEW % ("new", 2))
    assert [v["unit"] for v in decision["victims"]] == [
        {"kind": "Pod", "name": f"default/{name}"} for name in ("train-a", "train-b")
    ]
    assert decision["warnings"] == expected


def test_evictions_of_earlier_decisions_count(plan):
    """Each of two gangs takes one pod: the second is one too many."""
    first, second = plan(BASE, JOB % ("  backoffLimit: 1", 0), *PODS, NEW % ("a", 1), NEW % ("b", 1))
    assert first["warnings"] == []
    assert second["warnings"] == ["Job default/train would fail: 1 more failed pod exceeds its backoffLimit of 1"]
