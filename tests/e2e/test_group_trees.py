"""A tree of CompositePodGroups, as the API server of 1.37 has them, whose gates are off by default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import versions
from tests.controlplane.client import Client, Object, load, wait_until_served
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac
from tests.e2e.jobs import CLUSTER, template
from tests.e2e.scheduler import running_scheduler
from tests.e2e.stories import condition, nodes_ready, running

pytestmark = pytest.mark.controlplane

API = "scheduling.k8s.io/v1alpha3"
TREE, GROUP = f"{API}/CompositePodGroup", f"{API}/PodGroup"
GATES = ("TopologyAwareWorkloadScheduling", "CompositePodGroup")
PODS = [f"{part}-{i}" for part in "ab" for i in range(2)]


def obj(kind: str, name: str, policy: Object, key: str = "", above: str = "") -> Object:
    """A group with this policy, in one domain of a node label, below another."""
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": policy}}
    spec["workloadRef"] = {"workloadName": "w", "templateName": name}
    if key:
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    if above:
        spec["parentCompositePodGroupName"] = above
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def member(name: str) -> Object:
    """A pod of the group of its first letter."""
    pod = {"apiVersion": "v1", "kind": "Pod", **template("1")}
    pod["metadata"] |= {"name": name, "namespace": "default"}
    pod["spec"]["schedulingGroup"] = {"podGroupName": name[0]}
    return pod


@pytest.mark.skipif(versions.chosen()[0].split(".")[1] != "37", reason="CompositePodGroups are of 1.37")
async def test_a_tree_of_groups(tmp_path: Path) -> None:
    """Two groups of two get a node each, although one node has room for three; with the rights of the manifests."""
    host = "kubernetes.io/hostname"
    with ControlPlane(tmp_path / "plane", gates=GATES) as plane:
        async with Client(plane.admin_kubeconfig) as admin:
            await apply_manifests_crds(admin)
            await apply_manifests_rbac(admin, SCHEDULER_USER)
            await wait_until_served(admin, TREE, GROUP)
            await admin.apply(load(CLUSTER))
            await nodes_ready(admin)
            for node, cores in (("node-1", "1"), ("node-2", "2")):
                blocker = {"apiVersion": "v1", "kind": "Pod", **template(cores)}
                blocker["metadata"] |= {"name": f"blocker-{node}", "namespace": "default"}
                blocker["spec"] |= {"nodeName": node, "schedulerName": "other"}
                await admin.apply(blocker)
            async with running_scheduler(plane.scheduler_kubeconfig, tmp_path):
                groups = [obj("PodGroup", name, {"minCount": 2}, host, "tree") for name in "ab"]
                await admin.apply([*groups, *map(member, PODS)])
                waits = await admin.wait_for("Pod", "a-0", lambda p: bool(p["status"].get("conditions")))
                await admin.apply(obj("CompositePodGroup", "tree", {"minGroupCount": 2}))
                await running(admin, PODS)
                told = "PodGroupInitiallyScheduled"
                done = await admin.wait_for(GROUP, "a", lambda g: condition(g, told).get("status") == "True")
            places = {p["metadata"]["name"]: p["spec"]["nodeName"] for p in await admin.list("Pod")}
    assert "CompositePodGroup default/tree" in waits["status"]["conditions"][0]["message"]
    assert [{places[f"{part}-{i}"] for i in range(2)} for part in "ab"] in (
        [{"node-1"}, {"node-2"}],
        [{"node-2"}, {"node-1"}],
    )
    assert condition(done, told)["reason"] == "Scheduled"
