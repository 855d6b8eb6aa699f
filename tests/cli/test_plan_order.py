"""The order of documents in the input of ``gangsched plan`` shows nowhere in its decisions."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import yaml

from gangsched.cli.main import main

ROOT = Path(__file__).parents[2]

#: Nodes in two zones with DaemonSet and static pods; gangs that run, under budgets; gangs that fit, that do not, that
#: evict, that want one zone; a Job.
CROWDED = """
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: middle}, value: 100}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: all}
spec: {maxUnavailable: 1, selector: {matchLabels: {tier: a}}}
"""


def crowded() -> list[dict]:
    """The documents of such a cluster."""
    documents = [d for d in yaml.safe_load_all(CROWDED) if d]
    for n in range(6):
        labels = {"kubernetes.io/hostname": f"n{n}", "zone": "ab"[n % 2]}
        status = {"capacity": {"cpu": 8, "memory": "16Gi"}}
        documents.append(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{n}", "labels": labels}, "status": status}
        )
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": True}
        documents.append(pod(f"agent-{n}", 0.5, on=f"n{n}", metadata={"ownerReferences": [owner]}))
        of = {"apiVersion": "v1", "kind": "Node", "name": f"n{n}", "uid": "", "controller": True}
        mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [of]}
        documents.append(pod(f"proxy-{n}", 0.25, on=f"n{n}", metadata=mirror))
        documents += [
            pod(f"web-{n}-{i}", 1, on=f"n{n}", metadata={"labels": {"app": "web", "tier": "ab"[i]}}) for i in (0, 1)
        ]
    for name, minimum, node in (("old", 2, 1), ("older", 3, 3)):
        documents.append(group(name, minimum))
        documents += [pod(f"{name}-{i}", 2, on=f"n{(node + i) % 6}", gang=name) for i in range(3)]
    for name, count, cores, priority in (
        ("big", 3, 8, "high"), ("wide", 4, 5, "high"), ("near", 2, 3, "middle"), ("small", 2, 1, "middle"),
        ("huge", 2, 20, "middle"),
    ):  # fmt: skip
        annotations = {}
        if name == "near":
            gather = [{"layer": "zone", "strategy": "MustGather"}]
            annotations = {
                "gang.scheduling.koordinator.sh/network-topology-spec": json.dumps({"gatherStrategy": gather})
            }
        documents.append(group(name, count, annotations))
        documents += [pod(f"{name}-{i}", cores, gang=name, priority=priority) for i in range(count)]
    template = {"metadata": {"labels": {"app": "job"}}, "spec": pod("x", 1)["spec"]}
    documents.append(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "job"},
            "spec": {"parallelism": 2, "completions": 2, "template": template},
        }
    )
    return documents


def group(name: str, minimum: int, annotations: dict | None = None) -> dict:
    """A PodGroup."""
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"minMember": minimum},
    }


def pod(
    name: str, cores: float, *, on: str = "", gang: str = "", priority: str = "", metadata: dict | None = None
) -> dict:
    """A pod of our scheduler."""
    meta = {"name": name, **(metadata or {})}
    if gang:
        meta["labels"] = {"pod-group.scheduling.sigs.k8s.io": gang}
    spec = {
        "schedulerName": "py-gang-scheduler",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": cores}}}],
    }
    spec |= {"nodeName": on} if on else {}
    spec |= {"priorityClassName": priority} if priority else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def documents_of(name: str) -> list[dict]:
    """All documents of an example, or those above."""
    if name == "crowded":
        return crowded()
    files = sorted((ROOT / "examples" / name).glob("*.yaml"))
    return [d for f in files for d in yaml.safe_load_all(f.read_text()) if d]


@pytest.fixture
def decisions(tmp_path, capsys):
    """A function that plans for documents in this order and returns the decisions."""

    def plan(documents, *arguments):
        path = tmp_path / "all.yaml"
        path.write_text(yaml.safe_dump_all(documents))
        assert main(["plan", "-f", str(path), "-o", "json", *arguments]) == 0
        found = json.loads(capsys.readouterr().out)["decisions"]
        return [{**d, "planMilliseconds": 0} for d in found]

    return plan


def test_the_crowded_cluster_is_worth_its_name(decisions):
    """It has every outcome that texts and lists come from: victims, spared units of several kinds, blockers."""
    found = decisions(crowded())
    assert {d["outcome"] for d in found} == {"bind", "preempt", "unschedulable"}
    assert any(d["blockers"] for d in found)
    assert any("DaemonSet default/agent" in d["message"] for d in found)
    assert {s["unit"]["kind"] for d in found for s in d["spared"]} == {"Pod", "PodGroup"}


@pytest.mark.parametrize("name", ["crowded", "koordinator", "workload", "quota-gpu"])
@pytest.mark.parametrize("strict", [False, True])
def test_documents_in_any_order(decisions, tmp_path, name, strict):
    """Not in placements, victims, spared units, blockers, warnings, reasons and messages."""
    config = tmp_path / "config" / "config.yaml"
    config.parent.mkdir()
    config.write_text(
        "apiVersion: gangsched.dev/v1alpha1\nkind: GangSchedulerConfiguration\n"
        f"preemption: {{pdb: {'strict' if strict else 'preferred'}}}\n"
    )
    documents = documents_of(name)
    expected = decisions(documents, "--config", str(config))
    assert expected
    for seed in range(4):
        random.Random(seed).shuffle(documents)
        assert decisions(documents, "--config", str(config)) == expected
