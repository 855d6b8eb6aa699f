"""Beside kube-scheduler, in short: `python -m tests.beside` plays more and longer rounds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.amounts import amount
from tests.beside import claims, free_room
from tests.beside.rounds import OTHERS, Round, play
from tests.beside.troubles import TROUBLES, Stage
from tests.controlplane.client import Client
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac
from tests.e2e.scheduler import running_scheduler
from tests.faulty_proxy import FaultyProxy

pytestmark = pytest.mark.controlplane

ROUNDS = (
    Round(0, nodes=4, kind="Deployment", grace=5, members=4),
    Round(1, nodes=4, kind="StatefulSet", grace=0, members=4, wanting=4, daemons=True),
    Round(2, nodes=6, kind="ReplicaSet", grace=1, members=4, wanting=2, more=3),
)
#: Those of the troubles that are worth their time in every run.
SHORT = ("killed when removed", "taints are edited")


@pytest.fixture(scope="module")
def plane(make_control_plane: Callable[..., ControlPlane]) -> ControlPlane:
    """A control plane with kube-scheduler."""
    return make_control_plane(kube_scheduler=OTHERS)


@pytest.fixture
def proxy(plane: ControlPlane) -> Iterator[FaultyProxy]:
    """What the scheduler's requests go through."""
    with FaultyProxy(plane.server, plane.ca_file) as running:
        yield running


@pytest.fixture
async def stage(plane: ControlPlane, proxy: FaultyProxy, tmp_path: Path) -> AsyncIterator[Stage]:
    """The cluster with our CRDs and rights."""
    async with Client(plane.admin_kubeconfig) as admin:
        await apply_manifests_crds(admin)
        await apply_manifests_rbac(admin, SCHEDULER_USER)
        through = plane.kubeconfig(SCHEDULER_USER, proxy.url)
        yield Stage(admin, plane.admin_kubeconfig, through, proxy, tmp_path)


async def test_the_gang_gets_the_room_whole_whoever_wants_it_meanwhile(stage: Stage, tmp_path: Path) -> None:
    """Controllers create the evicted pods again, others wait for exactly that room, and the gang starts whole, with no
    more evictions than `plan` says.
    """
    async with running_scheduler(stage.kubeconfig, tmp_path):
        for made in ROUNDS:
            outcome = await play(stage.admin, stage.admin_kubeconfig, tmp_path, made)
            assert outcome.good, outcome


async def test_no_pod_is_evicted_for_nothing_when_another_takes_free_room(stage: Stage, tmp_path: Path) -> None:
    """A node becomes free that a gang and kube-scheduler want: the gang starts whole, or no pod leaves."""
    async with running_scheduler(stage.kubeconfig, tmp_path):
        outcome = await free_room.play(stage.admin)
        assert outcome.good, outcome


async def test_no_device_is_used_twice(stage: Stage, tmp_path: Path) -> None:
    """A gang and pods of kube-scheduler want the same devices: the gang starts whole or waits."""
    await claims.set_up(stage.admin)
    async with running_scheduler(stage.kubeconfig, tmp_path):
        for number in range(amount(20, 3)):
            outcome = await claims.play(stage.admin, number)
            assert outcome.good, outcome


@pytest.mark.parametrize("trouble", SHORT)
async def test_trouble_while_nodes_are_held(stage: Stage, trouble: str) -> None:
    """The gang is whole in the end, no taint of others is lost, and none of ours is left."""
    made = Round(0, nodes=4, kind="Deployment", grace=5, members=4, wanting=2)
    outcome = await TROUBLES[trouble](stage, made)
    assert outcome.good, outcome
