"""A system clock that was wrong when the process started, and is set right while it runs."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping

import pytest

from gangsched.cluster.kube import adapter
from gangsched.cluster.kube.clock import SteadyClock
from gangsched.core.actions import Mark, Nominate, Report, SetCondition
from gangsched.core.events import ServerClock, Synced
from gangsched.core.lifecycle.report import pod_reference
from gangsched.core.state.sightings import SAME_CLOCK_SECONDS
from gangsched.model.records import Pod
from gangsched.model.times import parse_time
from tests.cluster.kube.conftest import Reader, make_pod
from tests.controlplane.client import Client, wait_until

HOUR = 3600.0


async def test_what_is_written_bears_the_time_that_is_right_now(
    make_cluster: Callable[..., Awaitable[Reader]],
    make_nodes: Callable[..., Awaitable[list[str]]],
    admin: Client,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Conditions and Events have the present wall clock; what decides goes on as it began, without a jump."""
    monkeypatch.setattr(adapter, "SteadyClock", lambda: SteadyClock(wall=lambda: time.time() - 2 * HOUR))
    await make_nodes(1)
    pod = await make_pod(admin, namespace, "a")
    reader = await make_cluster()
    await reader.leading()
    began = time.time()
    await reader.do(Nominate(1, pod, "node-0", "p1", "plan p1"), Mark(2, pod, "s: preempting"))
    note = Report(pod_reference(pod), "Warning", "FailedScheduling", "Scheduling", "0/1 nodes")
    reader.cluster.submit([SetCondition(pod, "Unschedulable", "0/1 nodes"), note])
    record = await reader.shown(Pod, lambda e: e.uid == pod.uid and e.scheduled_condition)
    conditions = (record.intent, record.disruption, record.scheduled_condition)
    assert [c is not None and abs(c.since - began) < HOUR for c in conditions] == [True] * 3

    async def told() -> list[str]:
        events = await admin.list("events.k8s.io/v1/Event", namespace)
        return [e["eventTime"] for e in events if e.get("reportingController") == "py-gang-scheduler"]

    await wait_until(told)
    assert [abs(parse_time(t, "eventTime") - began) < HOUR for t in await told()] == [True]
    assert reader.cluster.now() < began - HOUR


@pytest.mark.parametrize("behind", [0.0, 2 * HOUR])
async def test_how_far_the_servers_clock_is_ahead_is_known_before_anything_is_decided(
    make_cluster: Callable[..., Awaitable[Reader]], monkeypatch: pytest.MonkeyPatch, *, behind: float
) -> None:
    """By its own answers, within a few seconds; the metric of it is measured anew all the time."""
    monkeypatch.setattr(adapter, "SteadyClock", lambda: SteadyClock(wall=lambda: time.time() - behind))
    noted: list[float] = []

    def observe(name: str, value: float, labels: Mapping[str, str]) -> None:
        if name == "clock_ahead_seconds":
            noted.append(value)

    reader = await make_cluster(observe=observe)
    told = await reader.until(ServerClock)
    assert abs(told.ahead_seconds - behind) < SAME_CLOCK_SECONDS
    await reader.until(Synced)
    await wait_until(lambda: len(noted) > 2, 60, what="it is measured again and again")
    assert all(abs(ahead - behind) < SAME_CLOCK_SECONDS for ahead in noted)
