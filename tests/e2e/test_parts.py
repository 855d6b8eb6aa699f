"""A gang of parts in racks of one spine preempts, and the scheduler is killed meanwhile, on a real API server."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.controlplane import plane
from tests.controlplane.client import Change, Client, Object, load, wait_until_served
from tests.controlplane.plane import ControlPlane
from tests.controlplane.rbac import MANIFESTS
from tests.e2e.handover import ELECTION, ended, of, removals
from tests.e2e.kinds import definition, served
from tests.e2e.scheduler import running_scheduler
from tests.e2e.stories import EXAMPLES, is_marked, nodes_ready, running
from tests.faulty_proxy import Fault, FaultyProxy

pytestmark = pytest.mark.controlplane

KAI = [{"schedulerName": "kai-scheduler"}]
SPINE, RACK = "example.com/spine", "example.com/rack"
#: Nodes of two racks of two spines each. Those of spine b that are full have to be emptied; in spine a there are more.
NODES = [f"{spine}{rack}-{n}" for spine in "ab" for rack in (1, 2) for n in (1, 2)]
FREE, VICTIMS = "b1-2", ["low-b1-1", "low-b2-1", "low-b2-2"]
MEMBERS = [f"{part}-{n}" for part in ("prefill", "decode") for n in (1, 2)]


def node(name: str) -> Object:
    """A node with four cores, kept by KWOK."""
    labels = {"kubernetes.io/hostname": name, SPINE: name[0], RACK: name[:2]}
    room = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    meta = {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"capacity": room, "allocatable": room}}


def worker(name: str, **spec: object) -> Object:
    """A pod that takes three of the four cores of a node."""
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "3"}}}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}}


def gang() -> list[Object]:
    """Two parts of two members each: a rack for each part, and one spine for both."""
    level = {"topology": "network", "requiredTopologyLevel": RACK}
    parts = [{"name": part, "minMember": 2, "topologyConstraint": level} for part in ("prefill", "decode")]
    spec = {
        "minSubGroup": 2,
        "subGroups": parts,
        "topologyConstraint": {"topology": "network", "requiredTopologyLevel": SPINE},
    }
    meta = {"name": "model", "namespace": "default"}
    out = [{"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": meta, "spec": spec}]
    for name in MEMBERS:
        pod = worker(name, schedulerName="kai-scheduler", priorityClassName="high-priority")
        pod["metadata"]["annotations"] = {"pod-group-name": "model"}
        pod["metadata"]["labels"] = {"kai.scheduler/subgroup-name": name.partition("-")[0]}
        out.append(pod)
    return out


@pytest.fixture
async def cluster(admin: Client) -> AsyncIterator[None]:
    """The kinds of KAI are served, and all nodes but one are full."""
    groups = load(MANIFESTS / "kai" / "crd-podgroups.yaml")
    await admin.apply(groups)
    await wait_until_served(admin, "scheduling.run.ai/v2alpha2/PodGroup")
    topologies = definition("kai.scheduler", "v1alpha1", "Topology", "topologies", namespaced=False)
    async with served(admin, topologies):
        levels = [{"nodeLabel": SPINE}, {"nodeLabel": RACK}]
        network = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "network"}}
        await admin.apply({**network, "spec": {"levels": levels}})
        await admin.apply(EXAMPLES / "koordinator" / "10-priorityclasses.yaml")
        await admin.apply([node(name) for name in NODES])
        await nodes_ready(admin)
        full = [name for name in NODES if name != FREE]
        wish = {"priorityClassName": "low-priority", "terminationGracePeriodSeconds": 3}
        await admin.apply([worker(f"low-{name}", nodeName=name, **wish) for name in full])
        await running(admin, [f"low-{name}" for name in full])
        yield
    for each in groups:
        await admin.delete("CustomResourceDefinition", each["metadata"]["name"])


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[FaultyProxy]:
    """The proxy between the scheduler and the API server: here writes can be kept from arriving."""
    with FaultyProxy(control_plane.server, control_plane.ca_file) as between:
        yield between


def marks(name: str) -> Fault:
    """Marks of this pod do not arrive."""
    return Fault(path=f"/pods/{name}/status$", method="PATCH", times=None, cut_before=True)


def bindings(name: str) -> Fault:
    """Bindings of this pod do not arrive."""
    return Fault(path=f"/pods/{name}/binding$", method="POST", times=None, cut_before=True)


def bound(change: Change) -> bool:
    """The pod has a node."""
    return bool(change.object["spec"].get("nodeName"))


#: What is seen of which pods before the scheduler is killed, and which of its writes have not arrived by then.
MOMENTS: dict[str, tuple[Callable[[Change], bool], list[str], list[Fault]]] = {
    "first-victim-marked": (is_marked, VICTIMS[:1], [marks(v) for v in VICTIMS[1:]]),
    "all-victims-marked": (is_marked, VICTIMS, [removals(v) for v in VICTIMS]),
    "first-victim-terminating": (ended, VICTIMS[:1], [removals(v) for v in VICTIMS[1:]]),
    "first-member-bound": (bound, MEMBERS[:1], [bindings(m) for m in MEMBERS[1:]]),
}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_killed_scheduler_brings_each_part_into_its_rack(
    admin: Client,
    cluster: None,
    control_plane: ControlPlane,
    scheduler_kubeconfig: Path,
    proxy: FaultyProxy,
    tmp_path: Path,
    moment: str,
) -> None:
    """The three pods that are in the way leave two racks of one spine. Each part is whole in a rack of it afterwards,
    and no other pod is touched.
    """
    kubeconfig = control_plane.kubeconfig(plane.SCHEDULER_USER, proxy.url)
    sign, by, faults = MOMENTS[moment]
    for fault in faults:
        proxy.fail(copy.copy(fault))
    async with admin.record("Pod") as recorder:

        async def killed() -> None:
            async with running_scheduler(kubeconfig, tmp_path, leaderElection=ELECTION, profiles=KAI) as scheduler:
                await admin.apply(gang())
                for name in by:
                    await recorder.wait(of(name, sign))
                scheduler.process.kill()
                await scheduler.process.wait()

        with pytest.raises(AssertionError, match="the scheduler ended with -9"):
            await killed()
        proxy.heal()
        async with running_scheduler(kubeconfig, tmp_path, leaderElection=ELECTION, profiles=KAI):
            await running(admin, MEMBERS)
        changed = {change.name for change in recorder.changes}
    nodes = {name: (await admin.get("Pod", name))["spec"]["nodeName"] for name in MEMBERS}
    racks = [{nodes[f"{part}-{n}"][:2] for n in (1, 2)} for part in ("prefill", "decode")]
    assert sorted(map(sorted, racks)) == [["b1"], ["b2"]]
    assert changed == {*MEMBERS, *VICTIMS}
