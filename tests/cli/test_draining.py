"""A stopped queue in ``plan``, ``explain`` and ``simulate``: who leaves, by which queue, and how."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gangsched.cli.main import main
from tests.pages import read_schema

CLUSTER = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "8", pods: "20"}}}
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: f}}
- apiVersion: kueue.x-k8s.io/v1beta1
  kind: ClusterQueue
  metadata: {name: team}
  spec:
    namespaceSelector: {}
    stopPolicy: CLUSTER_POLICY
    resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 8}]}]}]
- {apiVersion: kueue.x-k8s.io/v1beta1, kind: LocalQueue, metadata: {name: lq}, spec: {clusterQueue: team, stopPolicy: LOCAL_POLICY}}
- apiVersion: batch/v1
  kind: Job
  metadata: {name: train, uid: u-train, labels: {kueue.x-k8s.io/queue-name: lq}}
  spec: {parallelism: 2, completions: 2, template: {spec: &spec {schedulerName: py-gang-scheduler, restartPolicy: Never, terminationGracePeriodSeconds: 5, containers: [{name: c, resources: {requests: {cpu: "2"}}}]}}}
- {apiVersion: v1, kind: Pod, metadata: &of {name: train-0, labels: {app: train}, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train, uid: u-train, controller: true}]}, spec: {<<: *spec, nodeName: n1}}
- {apiVersion: v1, kind: Pod, metadata: {<<: *of, name: train-1}, spec: {<<: *spec, nodeName: n1}}
- {apiVersion: v1, kind: Pod, metadata: {name: single, labels: {kueue.x-k8s.io/queue-name: lq}}, spec: {<<: *spec, nodeName: n1}}
- {apiVersion: v1, kind: Pod, metadata: {name: other}, spec: {<<: *spec, containers: [{name: c, resources: {requests: {cpu: "6"}}}]}}
"""  # noqa: E501 - one object a line

BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: keep}
spec: {minAvailable: 1, selector: {matchLabels: {app: train}}}
"""

STRICT = """
apiVersion: gangsched.dev/v1alpha1
kind: GangSchedulerConfiguration
preemption: {pdb: strict}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """The cluster with its ClusterQueue drained."""
    return written(tmp_path, "HoldAndDrain", "None")


def written(folder: Path, cluster_policy: str, local_policy: str) -> str:
    """The cluster with these stop policies, as a file."""
    path = folder / "cluster.yaml"
    path.write_text(CLUSTER.replace("CLUSTER_POLICY", cluster_policy).replace("LOCAL_POLICY", local_policy))
    return str(path)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, schema: str = "plan-v1") -> dict[str, Any]:
    """The JSON that a command prints, which is as its schema says."""
    assert main([*arguments, "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, read_schema(schema))
    return found


@pytest.mark.parametrize(
    ("cluster_policy", "local_policy", "kind", "name"),
    [("HoldAndDrain", "None", "ClusterQueue", "team"), ("Hold", "HoldAndDrain", "LocalQueue", "default/lq")],
)
def test_a_plan_says_who_is_drained_and_waits_for_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cluster_policy: str, local_policy: str, kind: str, name: str
) -> None:
    """The Job leaves by a suspension, the single pod by a deletion; who needs their room waits for it."""
    found = answer(capsys, "plan", "-f", written(tmp_path, cluster_policy, local_policy))
    assert {each["workload"]: [(p["pod"], p["method"]) for p in each["pods"]] for each in found["drained"]} == {
        "default/train": [("default/train-0", "suspend"), ("default/train-1", "suspend")],
        "default/single": [("default/single", "delete")],
    }
    assert {(each["queue"]["kind"], each["queue"]["name"], each["reason"]) for each in found["drained"]} == {
        (kind, name, f"{kind}Stopped")
    }
    [decision] = found["decisions"]
    assert (decision["gang"], decision["outcome"]) == ("default/other", "wait")
    assert decision["awaiting"]


@pytest.mark.parametrize("policy", ["None", "Hold"])
def test_a_plan_without_a_drained_queue_says_nothing_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: str
) -> None:
    """A queue that only holds makes nobody leave."""
    assert "drained" not in answer(capsys, "plan", "-f", written(tmp_path, policy, "None"))


def test_tables_name_the_queue(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan for people, and why a pod has to leave."""
    assert main(["plan", "-f", cluster]) == 0
    assert "DRAINED  ClusterQueue team is stopped (HoldAndDrain)" in capsys.readouterr().out
    assert main(["explain", "default/train-1", "-f", cluster]) == 0
    said = capsys.readouterr().out
    assert "DRAINED  it is evicted because ClusterQueue team is stopped (HoldAndDrain)" in said
    assert "all of default/train leaves: default/train-0, default/train-1" in said
    assert [each["workload"] for each in answer(capsys, "explain", "single", "-f", cluster)["drained"]] == [
        "default/single"
    ]


def test_a_strict_budget_keeps_a_workload(tmp_path: Path, cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It says which budget, in the plan and for one of the pods; with ``preferred`` the budget is broken."""
    (tmp_path / "budget.yaml").write_text(BUDGET)
    (tmp_path / "strict.yaml").write_text(STRICT)
    files = ["-f", cluster, str(tmp_path / "budget.yaml")]
    strict = ["--config", str(tmp_path / "strict.yaml")]
    why = "default/keep does not allow all of its 2 pods to go"
    blocked = {each["workload"]: each["blocked"] for each in answer(capsys, "plan", *files, *strict)["drained"]}
    assert blocked == {"default/train": why, "default/single": None}
    assert main(["explain", "train-0", *files, *strict]) == 0
    assert f"default/train leaves as a whole or not at all, and {why}" in capsys.readouterr().out
    assert main(["plan", *files, *strict]) == 0
    assert f"it stays for now: {why}" in capsys.readouterr().out
    broken = [p["pdbViolation"] for e in answer(capsys, "plan", *files)["drained"] for p in e["pods"]]
    assert sorted(broken) == [False, False, True]


def test_a_simulation_drains_the_queue(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Marked, suspended or deleted, gone; then who waited for the room is bound, and the Job waits for its queue."""
    found = answer(capsys, "simulate", "-f", cluster, "--until", "60s", schema="simulate-v1")
    pods, summary = found["pods"], found["summary"]
    assert {name for name, pod in pods.items() if pod.get("drainedBy") == "ClusterQueue team"} == {
        "default/single",
        "default/train-0",
        "default/train-1",
    }
    assert (pods["default/other"]["node"], pods["default/other"]["preemptedBy"]) == ("n1", None)
    assert (summary["drained"], summary["preempted"]) == (3, 0)
    order = [(e["verb"], e["object"]) for e in found["events"] if e["verb"] in ("mark", "suspend", "bind")]
    assert order.index(("mark", "default/train-1")) < order.index(("suspend", "default/train"))
    assert order[-1] == ("bind", "default/other")
    told = [e["detail"]["note"] for e in found["events"] if e.get("detail", {}).get("reason", "").startswith("Evicted")]
    assert all(note.startswith("The ClusterQueue is stopped: ClusterQueue team is drained") for note in told)
    assert main(["simulate", "-f", cluster, "--until", "60s"]) == 0
    assert "3 drained" in capsys.readouterr().out
