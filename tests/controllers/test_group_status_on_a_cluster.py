"""The group controllers against a real API server, with the scheduler's rights and no others."""

from __future__ import annotations

import asyncio
import copy
import gc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from gangsched.cluster.kube.adapter import KubeCluster
from gangsched.cluster.kube.connection import load_connection
from gangsched.cluster.kube.statuses import Statuses
from gangsched.controllers.operator import GroupControllers
from gangsched.core.actions import GangStatus
from gangsched.model.dialects import upstream
from tests.cluster.kube.deep import stored
from tests.controlplane.client import ApiError, Client, Object, wait_until, wait_until_served
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rbac import apply_manifests_crds
from tests.pages import ROOT

SIGS, UPSTREAM = "scheduling.sigs.k8s.io", "scheduling.k8s.io"
SIGS_KIND, UPSTREAM_KIND = f"{SIGS}/v1alpha1/PodGroup", f"{UPSTREAM}/v1beta1/PodGroup"


class Kept:
    """What sees groups, and what writes their status."""

    def __init__(self, cluster: KubeCluster, statuses: Statuses, kubeconfig: Path) -> None:
        self.cluster = cluster
        self.statuses = statuses
        self.controllers = GroupControllers(statuses, str(kubeconfig), discovery_seconds=0.5)

    def post(self, action: GangStatus) -> None:
        """A status that an object should have."""
        self.statuses.want(action)

    def start(self) -> None:
        """Begin."""
        self.cluster.start()
        self.controllers.start()

    def stop(self) -> None:
        """End."""
        self.controllers.stop()
        self.cluster.stop()


@pytest.fixture
async def kept(scheduler_kubeconfig: Path) -> Kept:
    """Controllers that look for new APIs often, and a writer; neither runs."""
    statuses = Statuses()
    connection = await load_connection(scheduler_kubeconfig)
    return Kept(KubeCluster(connection, lease=None, statuses=statuses), statuses, scheduler_kubeconfig)


@pytest.fixture
async def controllers(kept: Kept) -> AsyncIterator[Kept]:
    """They run."""
    kept.start()
    yield kept
    await asyncio.to_thread(kept.stop)
    gc.collect()  # a socket that was left open is found here, in the test that opened it


def wanted(group: Object, family: str, phase: str = "Scheduled", **fields: object) -> GangStatus:
    """What the core would say about a group."""
    meta = group["metadata"]
    status = {"phase": phase, "members": 2, "scheduled": 2, "running": 1, "succeeded": 0, "failed": 0} | fields
    return GangStatus(family=family, namespace=meta["namespace"], name=meta["name"], uid=meta["uid"], status=status)


def sigs_group(name: str = "gang") -> Object:
    """A PodGroup as Koordinator users write it."""
    return {
        "apiVersion": f"{SIGS}/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": 2},
    }


def condition(group: Object, kind: str = "PodGroupScheduled") -> tuple[str, str] | None:
    """Status and reason of a condition."""
    for each in group.get("status", {}).get("conditions", []):
        if each["type"] == kind:
            return each["status"], each["reason"]
    return None


def phase(group: Object) -> str | None:
    """The phase in the status, if there is one."""
    return group.get("status", {}).get("phase")


async def test_status_is_written_and_restored(
    admin: Client, namespace: str, crds: list[str], controllers: Kept
) -> None:
    """Phase, counts and condition reach the object, survive another writer, and leave everything else alone."""
    group = await admin.create(sigs_group(), namespace)
    controllers.post(wanted(group, SIGS))
    after = await admin.wait_for(SIGS_KIND, "gang", lambda g: phase(g) == "Scheduled", namespace)
    assert after["status"]["scheduled"] == 2
    assert after["status"]["running"] == 1
    assert after["status"]["scheduleStartTime"]
    assert condition(after) == ("True", "Scheduled")
    assert {key: after["metadata"].get(key) for key in ("annotations", "finalizers")} == {
        "annotations": group["metadata"].get("annotations"),
        "finalizers": None,
    }
    await admin.patch(
        SIGS_KIND, "gang", {"status": {"phase": "Failed", "scheduled": 0}}, namespace, subresource="status"
    )
    await admin.wait_for(
        SIGS_KIND, "gang", lambda g: (g["status"]["phase"], g["status"]["scheduled"]) == ("Scheduled", 2), namespace
    )


async def test_status_of_a_group_of_scheduler_plugins(admin: Client, namespace: str, controllers: Kept) -> None:
    """Every field that is written is one of the API, and its definition is picked up while all runs."""
    kind, crd = "scheduling.x-k8s.io/v1alpha1/PodGroup", ROOT / "manifests/coscheduling/crd-podgroups.yaml"
    await admin.apply([yaml.safe_load(crd.read_text())])
    await wait_until_served(admin, kind)
    body = {"apiVersion": kind.rpartition("/")[0], "kind": "PodGroup", "metadata": {"name": "g"}}
    group = await admin.create({**body, "spec": {"minMember": 2}}, namespace)
    family, owner = "scheduling.x-k8s.io", f"{namespace}/train"
    controllers.post(wanted(group, family, minimum=2, occupiedBy=owner, failed=1))
    after = await admin.wait_for(kind, "g", lambda g: phase(g) == "Scheduling", namespace)
    began = after["status"].pop("scheduleStartTime")
    assert began
    assert after["status"] == {"phase": "Scheduling", "occupiedBy": owner, "running": 1, "failed": 1}
    controllers.post(wanted(group, family, "Running", minimum=2, occupiedBy=owner, running=2))
    after = await admin.wait_for(kind, "g", lambda g: phase(g) == "Running", namespace)
    assert (after["status"]["running"], after["status"]["failed"]) == (2, 0)
    assert after["status"]["scheduleStartTime"] == began


async def test_upstream_group_gets_its_condition_only(admin: Client, namespace: str, controllers: Kept) -> None:
    """An upstream PodGroup says why it is unschedulable, then that it was scheduled, and never goes back from there."""
    body = {
        "apiVersion": f"{UPSTREAM}/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "gang"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    group = await admin.create(body, namespace)
    name = upstream.CONDITION if group["apiVersion"].endswith("/v1alpha2") else upstream.CONDITION_1_37
    message = "0/2 nodes are available: 2 Insufficient cpu"
    controllers.post(wanted(group, UPSTREAM, "Scheduling", reason="Unschedulable", message=message, scheduled=0))
    after = await admin.wait_for(
        UPSTREAM_KIND, "gang", lambda g: condition(g, name) == ("False", "Unschedulable"), namespace
    )
    assert after["status"]["conditions"][0]["message"] == message
    assert set(after["status"]) == {"conditions"}
    controllers.post(wanted(group, UPSTREAM))
    await admin.wait_for(UPSTREAM_KIND, "gang", lambda g: condition(g, name) == ("True", "Scheduled"), namespace)


async def test_a_group_that_is_too_deep_has_a_status_and_so_has_its_neighbour(
    admin: Client, namespace: str, crds: list[str], control_plane: ControlPlane, controllers: Kept
) -> None:
    """What any user can create is watched, and watching goes on."""
    first = await admin.create(sigs_group("first"), namespace)
    controllers.post(wanted(first, SIGS))
    await admin.wait_for(SIGS_KIND, "first", lambda g: phase(g) == "Scheduled", namespace)
    path = f"/apis/{SIGS}/v1alpha1/namespaces/{namespace}/podgroups"
    async with stored(control_plane.admin_kubeconfig, path, sigs_group("deep")) as uid:
        odd = {"metadata": {"namespace": namespace, "name": "deep", "uid": uid}}
        controllers.post(wanted(odd, SIGS))
        seen = controllers.statuses._seen
        await wait_until(lambda: any(k.name == "deep" and s.status.get("phase") for k, s in [*seen.items()]))
        second = await admin.create(sigs_group("second"), namespace)
        controllers.post(wanted(second, SIGS))
        await admin.wait_for(SIGS_KIND, "second", lambda g: phase(g) == "Scheduled", namespace)


async def test_crd_without_status_subresource(admin: Client, namespace: str, crds: list[str], kept: Kept) -> None:
    """A CRD as Koordinator installs it has no status subresource and no conditions: phase and counts still arrive."""
    definition = await admin.get("CustomResourceDefinition", crds[0])
    (version,) = definition["spec"]["versions"]
    bare = copy.deepcopy(version)
    bare["subresources"] = {}
    del bare["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["conditions"]
    await admin.patch("CustomResourceDefinition", crds[0], {"spec": {"versions": [bare]}})
    try:
        await wait_until(lambda: has_status(admin, False), what="status is no subresource any more")
        kept.start()
        group = await admin.create(sigs_group(), namespace)
        kept.post(wanted(group, SIGS))
        after = await admin.wait_for(SIGS_KIND, "gang", lambda g: phase(g) == "Scheduled", namespace)
        assert after["spec"] == group["spec"]
        assert condition(after) is None
    finally:
        await asyncio.to_thread(kept.stop)
        await admin.patch("CustomResourceDefinition", crds[0], {"spec": {"versions": [version]}})
        await wait_until(lambda: has_status(admin, True), what="status is a subresource again")


async def has_status(admin: Client, wanted: bool) -> bool:
    """Whether discovery shows the status subresource of the sigs group, or does not, as wanted, and lists work."""
    try:
        found = await admin.request("GET", f"/apis/{SIGS}/v1alpha1")
        await admin.list(SIGS_KIND)
    except ApiError:
        return False  # storage starts anew after a change of the CRD
    return any(each["name"] == "podgroups/status" for each in found["resources"]) is wanted


async def test_crd_that_goes_and_comes(admin: Client, namespace: str, crds: list[str], controllers: Kept) -> None:
    """The controllers outlive the removal of the CRD, and pick it up again when it is installed."""
    first = await admin.create(sigs_group("first"), namespace)
    controllers.post(wanted(first, SIGS))
    await admin.wait_for(SIGS_KIND, "first", lambda g: phase(g) == "Scheduled", namespace)
    await admin.delete("CustomResourceDefinition", crds[0])
    await admin.wait_gone("CustomResourceDefinition", crds[0])
    await apply_manifests_crds(admin)
    second = await admin.create(sigs_group("second"), namespace)
    controllers.post(wanted(second, SIGS, "Pending", scheduled=0, running=0))
    await admin.wait_for(SIGS_KIND, "second", lambda g: phase(g) == "Pending", namespace)


async def test_another_object_of_the_same_name_is_left_alone(
    admin: Client, namespace: str, crds: list[str], controllers: Kept
) -> None:
    """A status that was meant for a deleted group does not reach its successor of the same name."""
    old = await admin.create(sigs_group(), namespace)
    await admin.delete(SIGS_KIND, "gang", namespace)
    await admin.wait_gone(SIGS_KIND, "gang", namespace)
    await admin.create(sigs_group(), namespace)
    marker = await admin.create(sigs_group("marker"), namespace)
    controllers.post(wanted(old, SIGS))
    controllers.post(wanted(marker, SIGS))
    await admin.wait_for(SIGS_KIND, "marker", lambda g: phase(g) == "Scheduled", namespace)
    assert "status" not in await admin.get(SIGS_KIND, "gang", namespace)
