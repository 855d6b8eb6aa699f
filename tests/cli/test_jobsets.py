"""JobSets in files: planned as what they will be, suspended as a whole, simulated to their end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gangsched.cli.main import main
from tests.cli.worlds import TWO_NODES

JOBSET = """
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: train
  labels: %(labels)s
  annotations: {sim.gangsched.dev/run-for: 60s, sim.gangsched.dev/grace-used: 2s}
spec:
  suspend: %(suspend)s
  replicatedJobs:
  - name: workers
    replicas: 2
    template:
      spec:
        parallelism: 4
        completions: 4
        backoffLimit: 0
        template: {spec: {schedulerName: py-gang-scheduler, containers: [{resources: {requests: {cpu: 1}}}]}}
"""
RUNNING = """
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, uid: js}
spec: {replicatedJobs: [{name: w, template: {spec: {parallelism: 2}}}]}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: train-w-0
  uid: j
  ownerReferences: [{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, name: train, uid: js, controller: true}]
spec:
  parallelism: 2
  backoffLimit: 0
  template: {spec: {containers: [{resources: {requests: {cpu: 2}}}]}}
"""
POD = """
---
apiVersion: v1
kind: Pod
metadata:
  name: train-w-0-%(index)d
  labels: {jobset.sigs.k8s.io/jobset-name: train}
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train-w-0, uid: j, controller: true}]
spec: {nodeName: n%(index)d, containers: [{resources: {requests: {cpu: 2}}}]}
"""
URGENT = """
---
apiVersion: v1
kind: Pod
metadata:
  name: vip
  annotations: {sim.gangsched.dev/arrive-after: 20s, sim.gangsched.dev/run-for: 20s}
spec:
  schedulerName: py-gang-scheduler
  priorityClassName: high
  containers: [{resources: {requests: {cpu: 4}}}]
"""
QUEUES = """
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: small}
spec:
  nodeLabels: {kind: small}
  tolerations: [{key: small, operator: Exists}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: cq}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: small, resources: [{name: cpu, nominalQuota: %d}]}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: team}
spec: {clusterQueue: cq}
"""
SMALL = """
---
apiVersion: v1
kind: Node
metadata: {name: small-%d, labels: {kind: small}}
spec: {taints: [{key: small, effect: NoSchedule}]}
status: {capacity: {cpu: 4}}
"""


def jobset(queue: str = "", suspend: bool = False) -> str:
    """Two Jobs of four pods, none of which may fail."""
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    return JOBSET % {"labels": json.dumps(labels), "suspend": json.dumps(suspend)}


def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, text: str, *more: str) -> tuple[int, str]:
    """The exit code and the output of one command on one file."""
    path = tmp_path / "in.yaml"
    path.write_text(text)
    code = main([command, *more, "-f", str(path)])
    out = capsys.readouterr()
    return code, out.out + out.err


def test_plan_says_that_the_jobset_is_suspended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both pods leave with it, though one would be enough; its Job has a backoffLimit of 0."""
    text = TWO_NODES + RUNNING + "".join(POD % {"index": i} for i in (1, 2)) + URGENT
    _, out = run(tmp_path, capsys, "plan", text, "-o", "json")
    [decision] = json.loads(out)["decisions"]
    found = {(v["pod"], v["method"], v["unit"]["kind"], v["unit"]["name"]) for v in decision["victims"]}
    assert found == {(f"default/train-w-0-{i}", "suspend", "JobSet", "default/train") for i in (1, 2)}
    assert decision["warnings"] == []
    code, shown = run(tmp_path, capsys, "explain", text, "default/train-w-0-1")
    assert code == 0
    assert "by suspending its owner" in shown


def test_a_held_jobset_is_planned_from_its_templates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No pod is there: eight members, in the flavor of its queue, whose labels and tolerations they get."""
    text = TWO_NODES + "".join(SMALL % i for i in (1, 2)) + QUEUES % 8 + jobset("team", suspend=True)
    _, out = run(tmp_path, capsys, "plan", text, "-o", "json")
    [decision] = json.loads(out)["decisions"]
    assert (decision["kind"], decision["gang"]) == ("JobSet", "default/train")
    assert decision["quota"]["clusterQueue"] == "cq"
    assert len(decision["placements"]) == 8
    assert set(decision["placements"].values()) == {"small-1", "small-2"}
    _, shown = run(tmp_path, capsys, "explain", text, "train")
    assert "8 members can start now" in shown


def test_the_pods_of_a_jobset_with_a_queue_are_one_workload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The label on the JobSet reaches all of them: with quota for seven of eight, nobody starts."""
    text = TWO_NODES + "".join(SMALL % i for i in (1, 2)) + QUEUES % 7 + jobset("team")
    _, out = run(tmp_path, capsys, "plan", text, "-o", "json")
    [decision] = json.loads(out)["decisions"]
    assert (decision["outcome"], decision["required"]) == ("unschedulable", 8)


def test_simulate_preempts_resumes_and_completes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Suspended at 20 s, on again when the urgent pod has run, and complete with all of its pods."""
    code, out = run(tmp_path, capsys, "simulate", TWO_NODES + jobset() + URGENT, "--until", "5m", "-o", "json")
    assert code == 0, out
    found = json.loads(out)
    events = [e for e in found["events"] if e["verb"] not in ("exists", "event", "decide")]
    told = [(e["actor"], e["verb"]) for e in events if e["kind"] == "JobSet"]
    assert told == [("scheduler", "suspend"), ("scheduler", "resume"), ("jobset-controller", "complete")]
    assert not [e for e in events if e["kind"] == "Job" and e["verb"] == "fail"]
    assert sorted(p["phase"] for p in found["pods"].values()) == ["Deleted"] * 8 + ["Succeeded"] * 9


@pytest.mark.parametrize(
    ("broken", "field"),
    [
        (("replicas: 2", "replicas: -1"), "spec.replicatedJobs[0].replicas"),
        (("replicas: 2", "replicas: two"), "spec.replicatedJobs[0].replicas"),
        (("name: workers", "nome: workers"), "spec.replicatedJobs[0].name"),
        (("cpu: 1}", "cpu: 1x}"), "spec.replicatedJobs[0].template.spec.template.spec.containers[0].resources"),
        (("replicas: 2", "dependsOn: [{name: driver, status: Ready}]"), "spec.replicatedJobs[0].dependsOn[0].name"),
        (("parallelism: 4", "parallelism: -4"), "spec.replicatedJobs[0].template.spec.parallelism"),
    ],
)
def test_a_bad_jobset_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], broken: tuple[str, str], field: str
) -> None:
    """File, object and field."""
    code, out = run(tmp_path, capsys, "plan", TWO_NODES + jobset().replace(*broken))
    assert code != 0
    assert "in.yaml" in out
    assert "JobSet default/train" in out
    assert field in out
