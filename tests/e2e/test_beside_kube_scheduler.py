"""The commands of the page about kube-scheduler, as readers run them beside it, and instead of it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import plane
from tests.controlplane.client import Client, Object, wait_until
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac
from tests.documented import Shell
from tests.e2e.scheduler import running_scheduler

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="readers have kubectl; this machine has not"),
]
HELD = {"key": "gangsched.dev/held", "value": "1-1.py-gang-scheduler", "effect": "NoSchedule"}
ROOM = {"cpu": "8", "memory": "16Gi", "pods": "110"}
WHICH = (
    "kubectl get nodes -o custom-columns='NODE:.metadata.name,"
    'HELD FOR:.spec.taints[?(@.key=="gangsched.dev/held")].value\''
)


def pod(name: str) -> Object:
    """A pod that asks for no scheduler in particular."""
    container = {"name": "main", "image": "example.com/x", "resources": {"requests": {"cpu": "1"}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


def node(name: str, **spec: Any) -> Object:
    """A simulated node."""
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    status = {"allocatable": ROOM, "capacity": ROOM}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


async def test_an_operator_looks_after_held_nodes(admin: Client, control_plane: ControlPlane, tmp_path: Path) -> None:
    """May nodes be held, which are, was one not, and how is a taint taken off that nobody needs any more?"""
    shell = Shell(tmp_path, KUBECONFIG=str(control_plane.admin_kubeconfig))
    await apply_manifests_rbac(admin, plane.SCHEDULER_USER)
    await admin.apply([node("n0", taints=[HELD]), node("n1")])
    may = "kubectl auth can-i patch nodes --as=system:serviceaccount:gangsched-system:gangsched"
    assert (await asyncio.to_thread(shell, may)).strip() == "yes"
    held = await asyncio.to_thread(shell, WHICH)
    assert [line.split() for line in held.splitlines()[1:]] == [["n0", HELD["value"]], ["n1", "<none>"]]
    await asyncio.to_thread(shell, "kubectl get events -A --field-selector reason=RoomNotHeld")
    await asyncio.to_thread(shell, "gangsched release --yes")
    assert HELD["value"] not in await asyncio.to_thread(shell, WHICH)


async def test_a_process_that_takes_over_takes_back_what_is_left(
    admin: Client, crds: list[str], scheduler_kubeconfig: Path, tmp_path: Path
) -> None:
    """A taint of a plan that is over goes within seconds, and nothing else of the node changes."""
    other = {"key": "example.com/other", "value": "x", "effect": "PreferNoSchedule"}
    await admin.apply(node("n0", taints=[other, HELD]))
    async with running_scheduler(scheduler_kubeconfig, tmp_path):

        async def free() -> bool:
            taints = (await admin.get("Node", "n0"))["spec"].get("taints") or []
            return HELD not in taints and other in taints

        await wait_until(free, timeout=15, what="the node is free")


async def test_without_the_right_to_patch_nodes_it_runs_and_says_so(
    make_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    """The log says so at the start, and an Event when the first victim of another scheduler leaves; the pod runs."""
    control_plane = make_control_plane()
    async with Client(control_plane.admin_kubeconfig) as admin:
        await apply_manifests_crds(admin)
        await apply_manifests_rbac(admin, plane.SCHEDULER_USER)
        role = await admin.get("ClusterRole", "gangsched")
        rules = [
            {**rule, "verbs": ["list", "watch"]} if rule.get("resources") == ["nodes"] else rule
            for rule in role["rules"]
        ]
        await admin.patch("ClusterRole", "gangsched", {"rules": rules})
        high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
        await admin.apply([high, node("n0")])
        victim, preemptor = pod("victim"), pod("preemptor")
        for each in (victim, preemptor):
            each["spec"] |= {"terminationGracePeriodSeconds": 0}
            each["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "8"}}
        preemptor["spec"] |= {"schedulerName": "py-gang-scheduler", "priorityClassName": "high"}
        async with running_scheduler(control_plane.scheduler_kubeconfig, tmp_path) as scheduler:
            await wait_until(lambda: "nodes cannot be held against other schedulers" in scheduler.log.read_text())
            # A binding that is seen shows that another scheduler is present.
            await admin.create(victim, "default")
            await admin.bind("victim", "n0")
            await admin.wait_for("Pod", "victim", lambda p: p["status"].get("phase") == "Running", "default")
            await admin.create(preemptor, "default")
            await admin.wait_for("Pod", "preemptor", lambda p: p["spec"].get("nodeName") == "n0", "default", timeout=60)

            async def said() -> bool:
                return any(e["reason"] == "RoomNotHeld" for e in await admin.list("events.k8s.io/v1/Event", "default"))

            await wait_until(said, what="an Event says so")

            async def measured() -> bool:
                return "gangsched_hold_refused 1.0" in await scheduler.metrics()

            await wait_until(measured, what="the metric says so")


async def test_the_whole_cluster_without_kube_scheduler(
    make_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    """While kube-scheduler renews its Lease its pods are left to it; when it has gone they are scheduled here."""
    election = {"leaderElect": True, "resourceNamespace": "kube-system", "resourceName": "kube-scheduler"}
    times = {"leaseDuration": "4s", "renewDeadline": "1500ms", "retryPeriod": "300ms", "resourceLock": "leases"}
    name = "default-scheduler"
    control_plane = make_control_plane(kube_scheduler=name, kube_scheduler_config={"leaderElection": election | times})
    shell = Shell(tmp_path, KUBECONFIG=str(control_plane.admin_kubeconfig))
    async with Client(control_plane.admin_kubeconfig) as admin:
        await apply_manifests_crds(admin)
        await admin.apply(node("n0"))

        async def leads() -> bool:
            return await admin.find("Lease", "kube-scheduler", "kube-system") is not None

        await wait_until(leads, what="kube-scheduler leads")
        assert "kube-scheduler" in await asyncio.to_thread(shell, "kubectl -n kube-system get lease kube-scheduler")
        with shell.running("gangsched run --config examples/config/whole-cluster.yaml"):
            control_plane.end("kube-scheduler")
            await admin.create(pod("after"), "default")
            await admin.wait_for("Pod", "after", lambda p: p["spec"].get("nodeName"), "default", timeout=90)
