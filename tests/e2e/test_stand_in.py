"""A profile called default-scheduler: this process and kube-scheduler take turns under one Lease, as the docs say."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import plane
from tests.controlplane.client import Client, Object, wait_until
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac, manifest_objects
from tests.e2e.scheduler import running_scheduler

pytestmark = pytest.mark.controlplane

NAME = "default-scheduler"
LEASE = {"resourceNamespace": "kube-system", "resourceName": "kube-scheduler"}
ROOM = {"cpu": "8", "memory": "16Gi", "pods": "110"}
TIMES = {"leaseDuration": "4s", "renewDeadline": "1500ms", "retryPeriod": "300ms"}


def pod(name: str) -> Object:
    """A pod that asks for no scheduler in particular."""
    container = {"name": "main", "image": "example.com/x", "resources": {"requests": {"cpu": "1"}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


def node(name: str) -> Object:
    """A simulated node."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": ROOM, "capacity": ROOM},
    }


async def rights(admin: Client) -> None:
    """Those of manifests/, with the Role of the Lease where kube-scheduler has its own."""
    bindings = await apply_manifests_rbac(admin, plane.SCHEDULER_USER)
    role = copy.deepcopy(next(thing for thing in manifest_objects() if thing["kind"] == "Role"))
    binding = copy.deepcopy(next(thing for thing in bindings if thing["kind"] == "RoleBinding"))
    for thing in (role, binding):
        thing["metadata"] = {"name": thing["metadata"]["name"], "namespace": LEASE["resourceNamespace"]}
    for rule in role["rules"]:
        if "resourceNames" in rule:
            rule["resourceNames"] = [LEASE["resourceName"]]
    await admin.apply([role, binding])


def bound(thing: Object) -> bool:
    """Has it a node?"""
    return bool(thing["spec"].get("nodeName"))


async def holder(admin: Client) -> str:
    """Who holds the Lease."""
    found = await admin.find("Lease", LEASE["resourceName"], LEASE["resourceNamespace"])
    return str(found["spec"].get("holderIdentity") or "") if found else ""


async def test_one_lease_for_kube_scheduler_and_this_one(
    make_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    """While kube-scheduler leads, ours waits; when it ends, ours binds the pods that ask for nobody."""
    election: dict[str, Any] = {"leaderElect": True, **LEASE, **TIMES, "resourceLock": "leases"}
    control_plane = make_control_plane(kube_scheduler=NAME, kube_scheduler_config={"leaderElection": election})
    async with Client(control_plane.admin_kubeconfig) as admin:
        await apply_manifests_crds(admin)
        await rights(admin)
        await admin.apply(node("n0"))

        async def kube_scheduler_leads() -> bool:
            return bool(await holder(admin))

        await wait_until(kube_scheduler_leads, what="kube-scheduler leads")
        theirs = await holder(admin)
        async with running_scheduler(
            control_plane.scheduler_kubeconfig,
            tmp_path,
            profiles=[{"schedulerName": NAME}],
            leaderElection={**LEASE, **TIMES},
        ) as ours:
            await admin.create(pod("before"), "default")
            await admin.wait_for("Pod", "before", bound, "default")
            assert await holder(admin) == theirs
            assert "gangsched_leader 0.0" in await ours.metrics()
            control_plane.end("kube-scheduler")
            await admin.create(pod("after"), "default")
            await admin.wait_for("Pod", "after", bound, "default")
            assert await holder(admin) not in ("", theirs)
            assert "gangsched_leader 1.0" in await ours.metrics()
