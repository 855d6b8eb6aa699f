"""Everyday pods get the answers of a real kube-scheduler; each run plays others, and CI others for each commit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from tests.amounts import amount, fresh_seed
from tests.controlplane.client import Client
from tests.controlplane.plane import ControlPlane
from tests.everyday.beside import EverydaySide, beside, case
from tests.sidebyside.kube_side import settings
from tests.sidebyside.profiles import DEFAULT


@pytest.fixture
async def kube(make_control_plane: Callable[..., ControlPlane]) -> AsyncIterator[EverydaySide]:
    """A kube-scheduler that can be asked, on a control plane of its own."""
    plane = make_control_plane(**settings())
    async with Client(plane.admin_kubeconfig) as client:
        side = EverydaySide(plane, client)
        await side.prepare()
        yield side
    plane.stop()


async def test_everyday_pods_get_the_same_answers(kube: EverydaySide) -> None:
    """Same feasible nodes, same reasons, same scores, and no illegal placement. The seed is printed if one differs:
    `python -m tests.everyday beside --first SEED` plays it again.
    """
    seed = fresh_seed()
    print(f"seed {seed}")
    tally = await beside(kube, seed, amount(2000, 300), print)
    assert (seed, tally.disagreements, tally.illegal, tally.checker) == (seed, [], [], [])
    assert tally.scheduled > 0


def test_a_case_is_the_same_for_ever() -> None:
    """The seed and the number are enough to see it again."""
    assert case(1, 3, 100, DEFAULT) == case(1, 3, 100, DEFAULT)
    assert case(1, 3, 100, DEFAULT) != case(2, 3, 100, DEFAULT)
