"""Gangs whose parts have a topology, as the guides of each API have them: where `plan` places the parts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gangsched.api import Decision, load, plan
from gangsched.model.errors import InvalidInputError
from tests.cluster.dialects import OURS

Object = dict[str, Any]
#: Zone, block and rack of each node, and how many CPUs it has. In each zone some rack is too small.
NODES: Mapping[str, tuple[str, str, str, int]] = {
    "n1": ("east", "b1", "r1", 3),
    "n2": ("east", "b1", "r2", 4),
    "n3": ("west", "b1", "r1", 3),
    "n4": ("west", "b2", "r3", 3),
    "n5": ("west", "b2", "r4", 5),
}


def nodes() -> list[Object]:
    """The nodes."""
    found = []
    for name, (zone, block, rack, cpus) in NODES.items():
        labels = {"zone": zone, "block": block, "rack": rack, "kubernetes.io/hostname": name}
        status = {"allocatable": {"cpu": str(cpus), "memory": "64Gi", "pods": "110"}}
        found.append(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}
        )
    return found


TEMPLATE = {
    "spec": {
        "schedulerName": OURS,
        "containers": [{"name": "main", "image": "example.com/x", "resources": {"requests": {"cpu": "1"}}}],
    }
}


def pods(part: str, count: int, **meta: Any) -> list[Object]:
    """Members of a part with this metadata."""
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{part}-{i}", **meta}, **TEMPLATE}
        for i in range(count)
    ]


def obj(api: str, kind: str, name: str, spec: Object) -> Object:
    """An object."""
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}


def decided(folder: Path, *objects: Object) -> Decision:
    """The decision about the one gang."""
    (folder / "all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes(), *objects]}))
    (found,) = plan(load(folder / "all.json")).decisions
    return found


def places(found: Decision, part: str) -> set[str]:
    """The nodes of a part."""
    return {node for pod, node in found.placements.items() if pod.startswith(f"default/{part}-")}


def kai(decode: int) -> list[Object]:
    """One zone for all, one block for prefill and decode, one rack for each of them."""

    def within(level: str) -> Object:
        return {"topologyConstraint": {"topology": "t", "requiredTopologyLevel": level}}

    levels = [{"nodeLabel": "zone"}, {"nodeLabel": "block"}, {"nodeLabel": "rack", "alias": "the-rack"}]
    sub_groups = [
        {"name": "api", "minMember": 1},
        {"name": "workers", **within("block")},
        {"name": "prefill", "minMember": 3, "parent": "workers", **within("the-rack")},
        {"name": "decode", "minMember": decode, "parent": "workers", **within("rack")},
    ]
    members = [
        pod
        for part, count in (("api", 1), ("prefill", 3), ("decode", decode))
        for pod in pods(part, count, annotations={"pod-group-name": "g"}, labels={"kai.scheduler/subgroup-name": part})
    ]
    group = {"subGroups": sub_groups, **within("zone")}
    return [
        obj("kai.scheduler/v1alpha1", "Topology", "t", {"levels": levels}),
        obj("scheduling.run.ai/v2alpha2", "PodGroup", "g", group),
        *members,
    ]


def test_a_tree_of_kai(tmp_path: Path) -> None:
    """Its domains are paths: the racks and blocks of one name in two zones are others."""
    found = decided(tmp_path, *kai(5))
    assert (found.outcome, found.required) == ("bind", 9)
    assert [places(found, part) for part in ("prefill", "decode", "api")] == [{"n4"}, {"n5"}, {"n3"}]
    assert decided(tmp_path, *kai(6)).outcome == "unschedulable"


def test_a_tree_of_kai_waits_for_its_topology(tmp_path: Path) -> None:
    """The message names it."""
    _, *others = kai(5)
    found = decided(tmp_path, *others)
    assert found.outcome == "unschedulable"
    assert "of Topology t" in found.message


@pytest.mark.parametrize(("worker", "outcome"), [(4, "bind"), (5, "unschedulable")])
def test_a_podgang_of_grove(worker: int, outcome: str, tmp_path: Path) -> None:
    """A zone for all, a block for each replica of a scaling group, a host for each of its groups."""

    def within(level: str) -> Object:
        return {"topologyConstraint": {"packConstraint": {"required": level}}}

    counts = {"s-0-router": 1, "s-0-w-0-leader": 1, "s-0-w-0-worker": worker}
    groups = [
        {
            "name": name,
            "minReplicas": count,
            "podReferences": [{"namespace": "default", "name": f"{name}-{i}"} for i in range(count)],
            **(within("kubernetes.io/hostname") if name.startswith("s-0-w") else {}),
        }
        for name, count in counts.items()
    ]
    config = {"name": "s-0-w-0", "podGroupNames": ["s-0-w-0-leader", "s-0-w-0-worker"], **within("block")}
    spec = {"podgroups": groups, "topologyConstraintGroupConfigs": [config], **within("zone")}
    members = [
        pod
        for name, count in counts.items()
        for pod in pods(name, count, labels={"grove.io/podgang": "g", "grove.io/podclique": name})
    ]
    east = [
        {
            **pod,
            "metadata": {"name": f"other-{i}"},
            "spec": {**pod["spec"], "nodeName": "n5"},
            "status": {"phase": "Running"},
        }
        for i, pod in enumerate(pods("other", 2))
    ]
    found = decided(tmp_path, obj("scheduler.grove.io/v1alpha1", "PodGang", "g", spec), *members, *east)
    assert found.outcome == outcome
    if outcome == "bind":
        assert places(found, "s-0-w-0-worker") == {"n2"}
        assert places(found, "s-0-w-0-leader") <= {"n1", "n2"}


def test_partitions_of_a_vcjob_before_it_is_submitted(tmp_path: Path) -> None:
    """Each partition is in one HyperNode of tier 1, and all are in one of tier 2."""

    def hyper(name: str, tier: int, kind: str, *members: str) -> Object:
        selected = [{"type": kind, "selector": {"exactMatch": {"name": each}}} for each in members]
        return obj("topology.volcano.sh/v1alpha1", "HyperNode", name, {"tier": tier, "members": selected})

    def within(tier: int) -> Object:
        return {"networkTopology": {"mode": "hard", "highestTierAllowed": tier}}

    racks = [hyper(f"r-{name}", 1, "Node", name) for name in NODES]
    spines = [
        hyper(f"s-{i}", 2, "HyperNode", *members)
        for i, members in enumerate((["r-n1", "r-n2"], ["r-n3", "r-n4", "r-n5"]))
    ]
    policy = {"totalPartitions": 3, "partitionSize": 3, "minPartitions": 3, **within(1)}
    task = {"name": "train", "replicas": 9, "partitionPolicy": policy, "template": TEMPLATE}
    job = obj("batch.volcano.sh/v1alpha1", "Job", "j", {"minAvailable": 9, "tasks": [task], **within(2)})
    found = decided(tmp_path, *racks, *spines, job)
    assert (found.outcome, found.required) == ("bind", 9)
    partitions = [{found.placements[f"default/j-train-{3 * p + i}"] for i in range(3)} for p in range(3)]
    assert sorted(map(sorted, partitions)) == [["n3"], ["n4"], ["n5"]]


def clique(name: str, replicas: int, **more: Any) -> Object:
    """A clique of a PodCliqueSet."""
    return {"name": name, "spec": {"replicas": replicas, "podSpec": TEMPLATE["spec"]}, **more}


def pod_clique_set(**more: Any) -> list[Object]:
    """A frontend, and a scaling group of a leader and three workers of which one replica of two must be available."""
    levels = [{"domain": name, "key": name} for name in ("zone", "block", "rack")]
    workers = {"name": "prefill", "cliqueNames": ["leader", "worker"], "replicas": 2}
    template = {
        "cliques": [
            clique("frontend", 2),
            clique("leader", 1),
            clique("worker", 3, topologyConstraint={"topologyName": "t", "pack": {"required": "rack"}}),
        ],
        "podCliqueScalingGroups": [{**workers, "topologyConstraint": {"topologyName": "t", "packDomain": "block"}}],
        "topologyConstraint": {"topologyName": "t", "pack": {"required": "zone"}},
        **more,
    }
    return [
        obj("grove.io/v1alpha1", "ClusterTopologyBinding", "t", {"levels": levels}),
        obj("grove.io/v1alpha1", "PodCliqueSet", "s", {"replicas": 1, "template": template}),
    ]


def test_a_pod_clique_set_before_it_is_submitted(tmp_path: Path) -> None:
    """Its base PodGang starts; the names of domains are those of the binding. A warning tells of the other replica."""
    (tmp_path / "all.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes(), *pod_clique_set()]})
    )
    loaded = load(tmp_path / "all.json")
    (found,) = plan(loaded).decisions
    assert (found.gang, found.kind, found.outcome, found.required) == ("default/s-0", "PodGang", "bind", 6)
    worker, leader = places(found, "s-0-prefill-0-worker"), places(found, "s-0-prefill-0-leader")
    zones = {NODES[node][0] for node in found.placements.values()}
    assert (len(worker), len({NODES[node][:2] for node in worker | leader}), len(zones)) == (1, 1, 1)
    (warned,) = loaded.warnings
    assert warned["field"] == "spec.template.podCliqueScalingGroups"
    assert warned["message"].startswith("1 replicas of scaling groups wait")


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"topologyConstraint": {"pack": {"required": "row"}}}, "spec.template.topologyConstraint"),
        ({"podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["x"]}]},
         "spec.template.podCliqueScalingGroups[0].cliqueNames"),
        ({"cliques": [clique("a", -1)], "podCliqueScalingGroups": []}, "spec.template.cliques[0].spec.replicas"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_pod_clique_set(more: Object, field: str, tmp_path: Path) -> None:
    """The field is named."""
    (tmp_path / "all.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": pod_clique_set(**more)})
    )
    with pytest.raises(InvalidInputError, match=re.escape(field)):
        load(tmp_path / "all.json")
