"""A little of each of what ``python -m tests.resilience`` does at length on a real API server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.amounts import amount
from tests.controlplane.plane import ControlPlane
from tests.resilience import crashes, crowd, proxyload
from tests.resilience.__main__ import render, render_crowd, render_loads


@pytest.mark.controlplane
async def test_a_scheduler_that_is_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    """Five kills at random moments while gangs preempt: the audit log shows nothing that may not be."""
    outcome = await crashes.play(crashes.ONE, 5, 1, tmp_path)
    assert outcome.safe, render([outcome])
    assert outcome.kills == 5
    assert outcome.evicted > 0


@pytest.mark.controlplane
async def test_a_standby_takes_over(tmp_path: Path) -> None:
    """The leader is killed, the next one told to stop: the standby goes on."""
    outcome = await crashes.play(crashes.TWO, 2, 1, tmp_path)
    assert outcome.safe, render([outcome])
    assert set(outcome.handovers) == {"kill", "stop"}


@pytest.mark.controlplane
async def test_gangs_behind_a_network_that_fails(tmp_path: Path) -> None:
    """Gangs in a storm of errors: all become whole, and exactly the planned victims are evicted."""
    gangs = amount(40, 24)
    plane = ControlPlane(tmp_path / "plane", audit=True)
    await asyncio.to_thread(plane.start)
    try:
        outcome = await proxyload.load(plane, tmp_path, 0, gangs=gangs, nodes=8)
    finally:
        await asyncio.to_thread(plane.stop)
    assert outcome.safe, render_loads([outcome])
    assert outcome.gangs == gangs
    assert sum(outcome.faults.values()) > gangs


@pytest.mark.controlplane
async def test_a_frozen_scheduler_sends_nothing_when_it_wakes_up(tmp_path: Path) -> None:
    """Two leaders sleep for longer than the lease: the standby goes on, and nothing arrives behind its back."""
    outcome = await crashes.play(crashes.FROZEN, 2, 1, tmp_path)
    assert outcome.safe, render([outcome])
    assert outcome.freezes == 2


@pytest.mark.controlplane
async def test_many_pods(tmp_path: Path) -> None:
    """Memory and requests on their way stay bounded while the pods come and are listed anew; there is one leader."""
    outcome = await crowd.crowd(amount(1500, 1000), tmp_path)
    assert outcome.safe, render_crowd(outcome)
    assert outcome.bound == 10
