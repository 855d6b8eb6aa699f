"""Jobs that an eviction would end are suspended, or named in the plan where that may not be."""

from __future__ import annotations

import json

import pytest

from gangsched.cli.main import main
from tests.cli.worlds import HIGH, node

BASE = f"{HIGH}---{node('n1', cpu=2)}"
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
CONFIG = """
apiVersion: gangsched.dev/v1alpha1
kind: GangSchedulerConfiguration
preemption: {jobs: %s}
"""


@pytest.fixture
def plan(tmp_path, capsys):
    """A function that plans these documents and returns the decisions."""

    def run(*documents, jobs="delete"):
        path = tmp_path / "a.yaml"
        path.write_text("\n---\n".join(documents))
        config = tmp_path / "config.yaml"
        config.write_text(CONFIG % jobs)
        assert main(["plan", "-f", str(path), "--config", str(config), "-o", "json"]) == 0
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
    """The limit, what has failed before, and the first rule of the podFailurePolicy for evicted pods count.

    With its pods deleted it is warned of; by default exactly such Jobs are suspended instead.
    """
    (decision,) = plan(BASE, JOB % (spec, failed), *PODS, NEW % ("new", 2))
    pods = [{"kind": "Pod", "name": f"default/{name}"} for name in ("train-a", "train-b")]
    whole = [{"kind": "Job", "name": "default/train"}] * 2
    assert [v["unit"] for v in decision["victims"]] == (whole if expected else pods)
    assert decision["warnings"] == expected
    assert {v["method"] for v in decision["victims"]} == {"delete"}
    (decision,) = plan(BASE, JOB % (spec, failed), *PODS, NEW % ("new", 2), jobs="suspend")
    assert decision["warnings"] == []
    assert {v["method"] for v in decision["victims"]} == {"suspend" if expected else "delete"}
    if expected:
        assert [v["unit"] for v in decision["victims"]] == [{"kind": "Job", "name": "default/train"}] * 2


def test_evictions_of_earlier_decisions_count(plan):
    """Each of two gangs takes one pod: the second is one too many."""
    first, second = plan(BASE, JOB % ("  backoffLimit: 1", 0), *PODS, NEW % ("a", 1), NEW % ("b", 1))
    assert first["warnings"] == []
    assert second["warnings"] == ["Job default/train would fail: 1 more failed pod exceeds its backoffLimit of 1"]


def test_a_job_that_has_been_suspended_to_make_room_is_planned(plan):
    """It has no pods; the annotation says that it waits, and for whom."""
    note = "metadata: {name: train, uid: j1, annotations: {gangsched.dev/suspended-by: py-gang-scheduler}}"
    job = (JOB % ("  suspend: true", 0)).replace("metadata: {name: train, uid: j1}", note)
    (decision,) = plan(BASE, job)
    assert (decision["gang"], decision["kind"], decision["required"]) == ("default/train", "Job", 2)
    assert (decision["outcome"], decision["placements"]) == (
        "bind",
        {"default/train-0": "n1", "default/train-1": "n1"},
    )
    assert plan(BASE, JOB % ("  suspend: true", 0)) == []


@pytest.mark.parametrize(("api", "planned"), [("batch/v1", False), ("batch.volcano.sh/v1alpha1", True)])
def test_pods_of_a_job_of_another_api_are_not_those_of_the_job_of_that_name(plan, api, planned):
    """A Job whose pods are not in the input is planned, whatever a Volcano Job of its name runs."""
    other = (POD % "train-w-0").replace("apiVersion: batch/v1", f"apiVersion: {api}")
    template = "template: {spec: {schedulerName: py-gang-scheduler, containers"
    job = (JOB % ("", 0)).replace("template: {spec: {containers", template).replace("parallelism: 2", "parallelism: 1")
    assert [d["gang"] for d in plan(BASE, job, other)] == (["default/train-0"] if planned else [])


VCJOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  minAvailable: %d
  schedulerName: py-gang-scheduler
  tasks:
  - {name: master, replicas: 1, template: {spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}}
  - name: worker
    replicas: 2
    dependsOn: {name: [master]}
    template: {spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}
"""


@pytest.mark.parametrize(("minimum", "outcome"), [(1, "bind"), (3, "gathering")])
def test_a_minimum_that_counts_pods_of_tasks_that_depend_on_others(tmp_path, capsys, minimum, outcome):
    """Those are made when the others run, so none starts, as with Volcano: the plan says so."""
    path = tmp_path / "job.yaml"
    path.write_text(f"{BASE}---{VCJOB % minimum}")
    main(["plan", "-f", str(path), "-o", "json"])
    answer = json.loads(capsys.readouterr().out)
    assert [d["outcome"] for d in answer["decisions"]] == [outcome]
    warned = [w for w in answer["warnings"] if "spec.tasks[1].dependsOn" in json.dumps(w)]
    assert bool(warned) == (outcome == "gathering")
