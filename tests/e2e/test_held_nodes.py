"""Nodes that are held against other schedulers: who gives them back, and who cannot have them closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.on_a_cluster import ran
from tests.controlplane import plane
from tests.controlplane.client import Client, Object, wait_until
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac
from tests.e2e.scheduler import running_scheduler

pytestmark = pytest.mark.controlplane
OURS = "py-gang-scheduler"
ALWAYS = {"holdRoom": "always"}
STALE = {"key": "gangsched.dev/held", "value": "19ac3f2b1c0-1.py-gang-scheduler", "effect": "NoSchedule"}
FOREIGN = {**STALE, "value": "19ac3f2b1c0-1.their-scheduler"}
STAYS = {"key": "example.com/other", "value": "x", "effect": "PreferNoSchedule"}


def a_pod(name: str, cpu: str, **spec: Any) -> Object:
    """A pod that asks for so much."""
    container: dict[str, Any] = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    if ports := spec.pop("ports", None):
        container["ports"] = [{"containerPort": port, "hostPort": port} for port in ports]
    spec = {"containers": [container], "terminationGracePeriodSeconds": 30, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def a_class(name: str, value: int) -> Object:
    """A PriorityClass."""
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


async def taints(admin: Client) -> dict[str, str]:
    """What our taint says, by node."""
    nodes = await admin.list("Node")
    return {
        node["metadata"]["name"]: taint["value"]
        for node in nodes
        for taint in node["spec"].get("taints") or []
        if taint["key"] == STALE["key"]
    }


@pytest.fixture
async def stuck(
    admin: Client, namespace: str, make_nodes: Callable[..., Awaitable[list[str]]]
) -> AsyncIterator[tuple[str, str]]:
    """A pod that a finalizer keeps on the only node, and a stronger one that waits for its room."""
    (node,) = await make_nodes(1, cpu=4)
    await admin.apply(a_class("held-nodes-high", 1000))
    victim = a_pod("victim", "4", nodeName=node)
    victim["metadata"]["finalizers"] = ["example.com/hold"]
    await admin.create(victim, namespace)
    await admin.create(a_pod("gang", "4", schedulerName=OURS, priorityClassName="held-nodes-high"), namespace)
    yield node, namespace
    if await admin.find("Pod", "victim", namespace):
        await admin.patch("Pod", "victim", {"metadata": {"finalizers": None}}, namespace)


async def held(admin: Client, node: str) -> None:
    """Wait until the node is held."""

    async def bears() -> bool:
        return node in await taints(admin)

    await wait_until(bears, what=f"{node} is held")


async def test_a_process_that_ends_gives_its_nodes_back(
    admin: Client, crds: list[str], stuck: tuple[str, str], scheduler_kubeconfig: Path, tmp_path: Path
) -> None:
    """No standby is there: after SIGTERM in the middle of a plan no node stays closed to other schedulers."""
    node, namespace = stuck
    async with running_scheduler(scheduler_kubeconfig, tmp_path, preemption=ALWAYS):
        await held(admin, node)
        code, out, _ = await ran(scheduler_kubeconfig, "status")
        assert f"{node} for {namespace}/gang" in out, (code, out)
    assert await taints(admin) == {}


async def test_a_process_that_ends_leaves_its_nodes_to_a_standby(
    admin: Client, crds: list[str], stuck: tuple[str, str], scheduler_kubeconfig: Path, tmp_path: Path
) -> None:
    """The standby goes on with the plan: the node is held without a gap until the pod is bound."""
    node, namespace = stuck
    async with running_scheduler(scheduler_kubeconfig, tmp_path, preemption=ALWAYS) as first:
        await held(admin, node)
        async with running_scheduler(scheduler_kubeconfig, tmp_path, preemption=ALWAYS) as second:
            async with admin.record("Node") as recorder:
                assert await first.stop() == 0

                async def leads() -> bool:
                    return "gangsched_leader 1.0" in await second.metrics()

                await wait_until(leads, what="the standby leads")
                assert node in await taints(admin)
                assert all(change.object["spec"].get("taints") for change in recorder.of(node))
            await admin.patch("Pod", "victim", {"metadata": {"finalizers": None}}, namespace)
            await admin.wait_for("Pod", "gang", lambda p: p["spec"].get("nodeName") == node, namespace)


async def test_pods_that_name_a_scheduler_which_is_not_there_close_no_node(
    admin: Client, crds: list[str], stuck: tuple[str, str], scheduler_kubeconfig: Path, tmp_path: Path
) -> None:
    """Before the process starts, a user puts a pod on the node by itself, and another one claims in its status that a
    scheduler has seen it. The API server drops that status, the victim is evicted, and no node is held.
    """
    _, namespace = stuck
    claim = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    await admin.create({**a_pod("theirs", "4"), "status": {"conditions": [claim]}}, namespace)
    async with admin.record("Node") as recorder, running_scheduler(scheduler_kubeconfig, tmp_path):
        await admin.wait_for("Pod", "victim", lambda p: "deletionTimestamp" in p["metadata"], namespace)
        assert await taints(admin) == {}
        assert not [t for change in recorder.changes for t in change.object["spec"].get("taints") or []]


async def test_a_person_gives_nodes_back_when_no_scheduler_is_left(
    admin: Client, crds: list[str], scheduler_kubeconfig: Path
) -> None:
    """The taint of this scheduler goes, with --all that of another one, and no other taint."""
    make = {"apiVersion": "v1", "kind": "Node"}
    for name, taint in (("stale", STALE), ("foreign", FOREIGN), ("free", STAYS)):
        both = [STAYS, taint] if taint is not STAYS else [STAYS]
        await admin.create({**make, "metadata": {"name": name}, "spec": {"taints": both}})
    try:
        _, out, _ = await ran(scheduler_kubeconfig, "status")
        assert "foreign, stale: no gang waits for them; `gangsched release --yes` gives them back" in " ".join(
            out.split()
        )
        code, out, _ = await ran(scheduler_kubeconfig, "release")
        assert code == 0
        assert "1 node closed to other schedulers" in out
        assert "nothing was changed" in out
        assert sorted(await taints(admin)) == ["foreign", "stale"]
        code, out, errors = await ran(scheduler_kubeconfig, "release", "--yes")
        assert (code, errors) == (0, "")
        assert await taints(admin) == {"foreign": FOREIGN["value"]}
        code, out, _ = await ran(scheduler_kubeconfig, "release", "--yes", "--all")
        assert (code, out.splitlines()[-1]) == (0, "1 node given back to other schedulers")
        code, out, _ = await ran(scheduler_kubeconfig, "release", "--yes")
        assert "no node is held by py-gang-scheduler" in out
        for name in ("stale", "foreign", "free"):
            kept = (await admin.get("Node", name))["spec"]["taints"]
            assert [STAYS["key"]] == [t["key"] for t in kept if not t["key"].startswith("node.kubernetes.io")]
    finally:
        for name in ("stale", "foreign", "free"):
            await admin.delete("Node", name)


async def test_small_conflicts_close_no_node_to_kube_scheduler(
    make_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    """On each of 8 nodes a pod of 10m that has an hour to terminate and stays, and a member of 10m that has to avoid
    its port: all are evicted, no node is ever held, and a pod of kube-scheduler is bound at once.
    """
    control_plane = make_control_plane(kube_scheduler="default-scheduler")
    async with Client(control_plane.admin_kubeconfig) as admin:
        await apply_manifests_crds(admin)
        await apply_manifests_rbac(admin, plane.SCHEDULER_USER)
        await admin.apply([a_class("low", 10), a_class("high", 1000)])
        room = {"cpu": "16", "memory": "64Gi", "pods": "110"}
        status = {"capacity": room, "allocatable": room}
        names = [f"n{i}" for i in range(8)]
        for name in names:
            metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
            await admin.apply({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})
            victim = a_pod(f"v-{name}", "10m", nodeName=name, priorityClassName="low", ports=[8080])
            victim["spec"]["terminationGracePeriodSeconds"] = 3600
            victim["metadata"]["finalizers"] = ["example.com/hold"]
            await admin.create(victim, "default")
        await admin.create(a_pod("nobodys", "10m", schedulerName="nobody"), "default")
        async with running_scheduler(control_plane.scheduler_kubeconfig, tmp_path), admin.record("Node") as recorder:
            members = [
                a_pod(f"m-{i}", "10m", schedulerName=OURS, priorityClassName="high", ports=[8080]) for i in range(8)
            ]
            for member in members:
                await admin.create(member, "default")

            async def all_evicted() -> bool:
                pods = await admin.list("Pod", "default")
                return sum("deletionTimestamp" in each["metadata"] for each in pods) == len(names)

            await wait_until(all_evicted, what="all victims are evicted", timeout=60)
            await admin.create(a_pod("theirs", "100m"), "default")
            await admin.wait_for("Pod", "theirs", lambda p: p["spec"].get("nodeName"), "default", timeout=60)
            assert await taints(admin) == {}
            seen = [t["key"] for change in recorder.changes for t in change.object["spec"].get("taints") or []]
            assert STALE["key"] not in seen
        await asyncio.gather(
            *(admin.patch("Pod", f"v-{name}", {"metadata": {"finalizers": None}}, "default") for name in names)
        )
