"""Gangs with parts that have a topology, on a real API server: PodGangs of Grove, and sub-groups of KAI."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.client import Client, Object, load
from tests.controlplane.rbac import MANIFESTS
from tests.e2e.jobs import CLUSTER, template
from tests.e2e.kinds import definition, served
from tests.e2e.stories import Start, condition, nodes_ready, running

pytestmark = pytest.mark.controlplane

POD_GANG = "scheduler.grove.io/v1alpha1/PodGang"
HOST = "kubernetes.io/hostname"
PODS = [f"{part}-{i}" for part in "ab" for i in range(2)]


def member(name: str, scheduler: str, cpu: str = "1", **meta: Any) -> Object:
    """A pod with these labels and annotations."""
    pod = {"apiVersion": "v1", "kind": "Pod", **template(cpu)}
    pod["metadata"] |= {"name": name, "namespace": "default", **meta}
    pod["spec"]["schedulerName"] = scheduler
    return pod


def obj(api: str, kind: str, name: str, spec: Object, **meta: str) -> Object:
    """An object."""
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **meta}, "spec": spec}


async def with_room(admin: Client, free: dict[str, int]) -> None:
    """Leave so many of the four cores of each node."""
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    for node, cores in free.items():
        pod = member(f"blocker-{node}", "other", str(4 - cores))
        pod["spec"]["nodeName"] = node
        await admin.apply(pod)
    await running(admin, [f"blocker-{node}" for node in free])


async def places(admin: Client) -> list[set[str]]:
    """The nodes of each part."""
    found = {p["metadata"]["name"]: p["spec"].get("nodeName", "") for p in await admin.list("Pod")}
    return [{found[f"{part}-{i}"] for i in range(2)} for part in "ab"]


async def test_a_podgang_of_grove(admin: Client, start_scheduler: Start) -> None:
    """Each group of two waits for a node to share: a node with room for three and one with room for one are not enough.
    The condition that a scheduler of Grove writes stands beside that of the operator, with the rights of the manifests.
    """
    await with_room(admin, {"node-1": 3, "node-2": 1})
    crd = definition("scheduler.grove.io", "v1alpha1", "PodGang", "podgangs")
    crd["spec"]["versions"][0]["subresources"] = {"status": {}}
    host = {"topologyConstraint": {"packConstraint": {"required": HOST}}}
    groups = [{"name": f"g-{part}", "minReplicas": 2, "podReferences": [], **host} for part in "ab"]
    gang = obj("scheduler.grove.io/v1alpha1", "PodGang", "g", {"podgroups": groups}, namespace="default")
    name = "py-gang-scheduler"
    pods = [member(each, name, labels={"grove.io/podgang": "g", "grove.io/podclique": f"g-{each[0]}"}) for each in PODS]
    async with served(admin, crd):
        await admin.apply(gang)
        initialized = {"type": "Initialized", "status": "True", "reason": "PodGangPodsCreated", "message": "x"}
        initialized["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        status = {"phase": "Pending", "conditions": [initialized]}
        await admin.patch(POD_GANG, "g", {"status": status}, subresource="status")
        async with start_scheduler():
            await admin.apply(pods)
            waits = await admin.wait_for(POD_GANG, "g", lambda g: bool(condition(g, "Scheduled")))
            assert not [
                p for p in await admin.list("Pod") if p["metadata"]["name"] in PODS and p["spec"].get("nodeName")
            ]
            await admin.delete("Pod", "blocker-node-2")
            await running(admin, PODS)
            ran = await admin.wait_for(POD_GANG, "g", lambda g: g["status"].get("phase") == "Running")
            parts = await places(admin)
    assert (waits["status"]["phase"], condition(waits, "Scheduled")["status"]) == ("Pending", "False")
    assert list(map(len, parts)) == [1, 1]
    assert condition(ran, "Scheduled")["status"] == condition(ran, "Initialized")["status"] == "True"


async def test_sub_groups_of_kai(admin: Client, start_scheduler: Start) -> None:
    """The same with a Topology, whose level is called by its alias. The gang waits until the Topology is there."""
    await with_room(admin, {"node-1": 3, "node-2": 2})
    definitions = [each for path in sorted((MANIFESTS / "kai").iterdir()) for each in load(path)]
    levels = {"levels": [{"nodeLabel": HOST, "alias": "host"}]}
    topology = obj("kai.scheduler/v1alpha1", "Topology", "t", levels)
    host = {"topologyConstraint": {"topology": "t", "requiredTopologyLevel": "host"}}
    groups = [{"name": part, "minMember": 2, **host} for part in "ab"]
    group = obj("scheduling.run.ai/v2alpha2", "PodGroup", "g", {"subGroups": groups}, namespace="default")
    pods = [
        member(
            each,
            "kai-scheduler",
            annotations={"pod-group-name": "g"},
            labels={"kai.scheduler/subgroup-name": each[0]},
        )
        for each in PODS
    ]
    async with served(admin, *definitions), start_scheduler(profiles=[{"schedulerName": "kai-scheduler"}]):
        await admin.apply([group, *pods])
        waits = await admin.wait_for("Pod", "a-0", lambda p: bool(p["status"].get("conditions")))
        await admin.apply(topology)
        await running(admin, PODS)
        parts = await places(admin)
    assert "host of Topology t" in waits["status"]["conditions"][0]["message"]
    assert sorted(map(sorted, parts)) == [["node-1"], ["node-2"]]
