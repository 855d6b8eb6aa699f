"""The scheduler is killed in the middle of a preemption and started again, on a real API server."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.controlplane import plane
from tests.controlplane.client import Change, Client, Object
from tests.controlplane.plane import ControlPlane
from tests.e2e.handover import ELECTION, MEMBERS, VICTIMS, ended, of, plans, removals, start, uids, victims
from tests.e2e.scheduler import running_scheduler
from tests.e2e.stories import EXAMPLES, condition, first, is_marked, nodes_ready, running, split
from tests.faulty_proxy import Fault, FaultyProxy

pytestmark = pytest.mark.controlplane

Seen = Callable[[], Awaitable[None]]


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[FaultyProxy]:
    """What the scheduler speaks through: here writes can be kept from arriving."""
    with FaultyProxy(control_plane.server, control_plane.ca_file) as between:
        yield between


def marks(name: str) -> Fault:
    """Marks of this pod do not arrive."""
    return Fault(path=f"/pods/{name}/status$", method="PATCH", times=None, cut_before=True)


async def tempt(admin: Client) -> None:
    """A further node, full of a pod that would be a cheaper victim than those on the list."""
    early, _ = split(EXAMPLES / "koordinator")
    node = copy.deepcopy(next(t for t in early if t["kind"] == "Node"))
    node["metadata"]["name"] = node["metadata"]["labels"]["kubernetes.io/hostname"] = "node-3"
    pod = copy.deepcopy(next(t for t in early if t["kind"] == "Pod"))
    pod["metadata"]["name"] = "cheap"
    pod["spec"]["nodeName"] = "node-3"
    del pod["spec"]["priorityClassName"]
    await admin.apply([node])
    await nodes_ready(admin)
    await admin.apply([pod])
    await running(admin, ["cheap"])


async def killed_when(kubeconfig: Path, folder: Path, admin: Client, late: list[Object], seen: Seen) -> None:
    """A scheduler that gets its gang, and SIGKILL as soon as the watch shows what it is killed for."""
    async with running_scheduler(kubeconfig, folder, leaderElection=ELECTION) as scheduler:
        await admin.apply(late)
        await seen()
        scheduler.process.kill()
        await scheduler.process.wait()


#: What is seen before the scheduler is killed, by which victims, and which of its writes have not arrived by then.
MOMENTS: dict[str, tuple[Callable[[Change], bool], list[str], list[Fault]]] = {
    "first-victim-marked": (is_marked, ["lp-pod-1"], [marks("lp-pod-2")]),
    "all-victims-marked": (is_marked, VICTIMS, [removals(v) for v in VICTIMS]),
    "first-victim-terminating": (ended, ["lp-pod-1"], [removals("lp-pod-2")]),
}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_killed_scheduler_finishes_when_it_is_back(
    admin: Client,
    crds: list[str],
    control_plane: ControlPlane,
    scheduler_kubeconfig: Path,
    proxy: FaultyProxy,
    tmp_path: Path,
    moment: str,
) -> None:
    """The gang is bound whole, its two victims leave, and no other pod is touched, cheaper or not."""
    kubeconfig = control_plane.kubeconfig(plane.SCHEDULER_USER, proxy.url)
    late = await start(admin)
    sign, by, faults = MOMENTS[moment]
    complete = moment != "first-victim-marked"
    for fault in faults:
        proxy.fail(copy.copy(fault))
    async with admin.record("Pod") as recorder:

        async def seen() -> None:
            for name in by:
                await recorder.wait(of(name, sign))

        with pytest.raises(AssertionError, match="the scheduler ended with -9"):
            await killed_when(kubeconfig, tmp_path, admin, late, seen)
        assert victims(recorder.changes, is_marked) == (VICTIMS if complete else by)
        assert victims(recorder.changes, ended) == (by if sign is ended else [])
        proxy.heal()
        if complete:
            await tempt(admin)
        before = await uids(admin)
        async with running_scheduler(kubeconfig, tmp_path, leaderElection=ELECTION):
            await running(admin, MEMBERS)
        changes = list(recorder.changes)
    for victim in VICTIMS:
        story = [c for c in changes if c.name == victim]
        assert first(story, is_marked) < first(story, ended)
    after = await uids(admin)
    assert before.keys() - after.keys() <= set(VICTIMS)
    assert all(before[name] == uid for name, uid in after.items())
    assert {c.name for c in changes} - {"cheap"} == {*MEMBERS, *VICTIMS}
    for name in before.keys() - {*MEMBERS, *VICTIMS}:
        assert not condition(await admin.get("Pod", name), "DisruptionTarget"), name
    assert {(await admin.get("Pod", m))["spec"]["nodeName"] for m in MEMBERS} == {"node-1", "node-2"}
    # A list that was complete is finished under the plan that it was made for.
    assert len(plans(changes)) == (1 if complete else 2)
