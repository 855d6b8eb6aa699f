"""A gang whose members have claims for devices, on a real API server: nobody prepares the devices, all else is real."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.controlplane import plane
from tests.controlplane.client import Client, Object, wait_until
from tests.controlplane.plane import ControlPlane
from tests.e2e.devices import device_class, devices_of, given_twice, pod, resource_slice, template, users_of
from tests.e2e.handover import ELECTION
from tests.e2e.scheduler import running_scheduler
from tests.e2e.stories import Start, nodes_ready, running
from tests.faulty_proxy import Fault, FaultyProxy

pytestmark = pytest.mark.controlplane

MEMBERS = ["m-0", "m-1"]


def node(name: str) -> Object:
    """A node with room for one member."""
    room = {"cpu": "2", "memory": "8Gi", "pods": "10"}
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"capacity": room, "allocatable": room}}


def sized(made: Object, cpu: str) -> Object:
    """The pod asks for so much CPU."""
    made["spec"]["containers"][0]["resources"]["requests"] = {"cpu": cpu}
    return made


def gang(cpu: str = "2", priority: str = "high") -> list[Object]:
    """Two members, each with a claim of its own for two devices."""
    meta = {"name": "g", "namespace": "default"}
    group = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": meta}
    out: list[Object] = [{**group, "spec": {"minMember": len(MEMBERS)}}]
    for name in MEMBERS:
        made = sized(pod(name, templates={"gpus": "two"}, priorityClassName=priority), cpu)
        made["metadata"]["labels"] = {"pod-group.scheduling.sigs.k8s.io": "g"}
        out.append(made)
    return out


def low() -> list[Object]:
    """Two pods of low priority, which take all devices and all CPU."""
    return [sized(pod(f"low-{i}", templates={"gpus": "two"}, priorityClassName="low"), "2") for i in range(2)]


async def cluster(admin: Client) -> None:
    """Two nodes with two devices each."""
    priorities = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("low", 1), ("high", 1000))
    ]
    await admin.apply([*priorities, node("n-0"), node("n-1")])
    await nodes_ready(admin)
    await admin.apply([device_class(), template("two", 2), *(resource_slice(f"n-{i}", 2) for i in range(2))])


async def claims(admin: Client) -> dict[str, Object]:
    """All claims, by the pod that owns them."""
    found = await admin.list("ResourceClaim", "default")
    return {each["metadata"]["ownerReferences"][0]["name"]: each for each in found}


async def whole(admin: Client) -> None:
    """Each member runs and has two devices of its node, reserved for it alone."""
    await running(admin, MEMBERS)
    made, used = await claims(admin), set()
    for name in MEMBERS:
        found = await admin.get("Pod", name)
        assert users_of(made[name]) == [found["metadata"]["uid"]]
        assert {pool for _, pool, _ in devices_of(made[name])} == {found["spec"]["nodeName"]}
        used |= set(devices_of(made[name]))
    assert len(used) == 4


async def test_a_gang_with_claims_preempts_and_is_bound(admin: Client, start_scheduler: Start) -> None:
    """Pods with all devices leave for it; the gang gets these when the claim controller has taken them back, before its
    first member is bound.
    """
    await cluster(admin)
    async with admin.record("ResourceClaim") as seen, admin.record("Pod") as pods, start_scheduler():
        await admin.apply(low())
        await running(admin, ["low-0", "low-1"])
        await admin.apply(gang())
        await whole(admin)
    assert given_twice(seen.changes) == []
    bound = next(n for n, c in enumerate(pods.changes) if c.name in MEMBERS and c.node)
    versions = [int(c.object["metadata"]["resourceVersion"]) for c in seen.changes if devices_of(c.object)]
    assert max(versions) < int(pods.changes[bound].object["metadata"]["resourceVersion"])


Reached = Callable[[Client], Awaitable[bool]]
Step = tuple[Fault, Reached]


async def _first_protected(admin: Client) -> bool:
    return any(c["metadata"].get("finalizers") for c in await _of_members(admin))


async def _first_given(admin: Client) -> bool:
    return any(devices_of(c) for c in await _of_members(admin))


async def _of_members(admin: Client) -> list[Object]:
    found = await claims(admin)
    return [found[name] for name in MEMBERS if name in found]


async def _all_given(admin: Client) -> bool:
    found = await _of_members(admin)
    return len(found) == len(MEMBERS) and all(devices_of(c) for c in found)


async def _first_bound(admin: Client) -> bool:
    pods = {p["metadata"]["name"]: p for p in await admin.list("Pod", "default")}
    return any(pods[name]["spec"].get("nodeName") for name in MEMBERS if name in pods)


def _lost(path: str) -> Fault:
    return Fault(path=path, times=None, cut_before=True)


#: What does not arrive, and what is seen before the scheduler is killed.
STEPS: dict[str, Step] = {
    "finalizer written": (_lost("/resourceclaims/m-.*/status$"), _first_protected),
    "one claim has devices": (_lost("/resourceclaims/m-1-.*/status$"), _first_given),
    "all claims have devices": (_lost("/pods/m-.*/binding$"), _all_given),
    "one member is bound": (_lost("/pods/m-1/binding$"), _first_bound),
}


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[FaultyProxy]:
    """What the scheduler speaks through."""
    with FaultyProxy(control_plane.server, control_plane.ca_file) as between:
        yield between


async def _runs_until(admin: Client, kubeconfig: Path, folder: Path, reached: Reached) -> None:
    async with running_scheduler(kubeconfig, folder, leaderElection=ELECTION) as scheduler:
        await admin.apply(gang())
        await wait_until(lambda: reached(admin), what="the step is reached")
        scheduler.process.kill()
        await scheduler.process.wait()


async def killed(admin: Client, kubeconfig: Path, folder: Path, proxy: FaultyProxy, step: Step) -> None:
    """A gang comes, and its scheduler is killed at this step."""
    fault, reached = step
    proxy.fail(copy.copy(fault))
    with pytest.raises(AssertionError, match="the scheduler ended with -9"):
        await _runs_until(admin, kubeconfig, folder, reached)
    proxy.heal()


@pytest.mark.parametrize("step", STEPS)
async def test_a_killed_scheduler_finishes_when_it_is_back(
    admin: Client,
    crds: list[str],
    scheduler_kubeconfig: Path,
    control_plane: ControlPlane,
    proxy: FaultyProxy,
    tmp_path: Path,
    step: str,
) -> None:
    """Whatever was written by then: each member runs with its devices, and no device was ever given out twice."""
    await cluster(admin)
    kubeconfig = control_plane.kubeconfig(plane.SCHEDULER_USER, proxy.url)
    async with admin.record("ResourceClaim") as seen:
        await killed(admin, kubeconfig, tmp_path, proxy, STEPS[step])
        async with running_scheduler(kubeconfig, tmp_path, leaderElection=ELECTION):
            await whole(admin)
    assert given_twice(seen.changes) == []


@pytest.mark.parametrize("step", ["one claim has devices", "one member is bound"])
async def test_a_preemption_is_finished_whatever_was_given_by_then(
    admin: Client,
    crds: list[str],
    scheduler_kubeconfig: Path,
    control_plane: ControlPlane,
    proxy: FaultyProxy,
    tmp_path: Path,
    step: str,
) -> None:
    """The victims have left with their devices when the scheduler dies: the gang gets these, and nobody else leaves."""
    await cluster(admin)
    kubeconfig = control_plane.kubeconfig(plane.SCHEDULER_USER, proxy.url)
    async with admin.record("ResourceClaim") as seen:
        async with running_scheduler(kubeconfig, tmp_path, leaderElection=ELECTION):
            await admin.apply(low())
            await running(admin, ["low-0", "low-1"])
        await killed(admin, kubeconfig, tmp_path, proxy, STEPS[step])
        async with running_scheduler(kubeconfig, tmp_path, leaderElection=ELECTION):
            await whole(admin)
    assert given_twice(seen.changes) == []
    assert {p["metadata"]["name"] for p in await admin.list("Pod", "default")} == set(MEMBERS)


@pytest.mark.parametrize("step", ["one claim has devices", "all claims have devices", "one member is bound"])
async def test_devices_of_members_that_are_not_bound_are_given_back(
    admin: Client,
    crds: list[str],
    scheduler_kubeconfig: Path,
    control_plane: ControlPlane,
    proxy: FaultyProxy,
    tmp_path: Path,
    step: str,
) -> None:
    """The node of those that are not bound is cordoned while no scheduler runs: their claims lose their devices, and a
    member that runs keeps its own.
    """
    await cluster(admin)
    kubeconfig = control_plane.kubeconfig(plane.SCHEDULER_USER, proxy.url)
    await killed(admin, kubeconfig, tmp_path, proxy, STEPS[step])
    for name in ("n-0", "n-1"):
        await admin.patch("Node", name, {"spec": {"unschedulable": True}})

    async def given_back() -> bool:
        pods = {p["metadata"]["name"]: p["spec"].get("nodeName") for p in await admin.list("Pod", "default")}
        made = await claims(admin)
        return all(bool(devices_of(made[name])) == bool(where) for name, where in pods.items())

    async with running_scheduler(kubeconfig, tmp_path, leaderElection=ELECTION, binding={"onFailure": "retry"}):
        await wait_until(given_back, what="devices are given back")
        if step == "one member is bound":
            assert any(devices_of(each) for each in (await claims(admin)).values())
