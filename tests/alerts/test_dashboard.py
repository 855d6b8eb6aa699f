"""The dashboard and the alerts, on what a real scheduler said of itself while it evicted for a gang."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.alerts.dashboard import queries
from tests.alerts.promtool import evaluated
from tests.alerts.stage import WAIT_SECONDS, Stage, group, pod
from tests.controlplane.client import Client, wait_until
from tests.controlplane.plane import ControlPlane
from tests.faulty_proxy import FaultyProxy
from tests.manifests import programs

pytestmark = pytest.mark.controlplane

#: What nothing is of where all is well and without GPUs: no gang waits in the last second.
MAY_BE_EMPTY = ("gangsched_gangs_waiting", "gangsched_oldest_startable_wait_seconds", "gangsched_device_amount")


async def test_every_query_of_the_dashboard_gives_something(
    admin: Client, crds: list[str], scheduler_kubeconfig: Path, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """A gang evicts two pods while the metrics are scraped; then Prometheus' own engine takes each query."""
    if not programs.has_promtool():
        pytest.skip("promtool is not built: make release builds it")
    with FaultyProxy(control_plane.server, control_plane.ca_file) as proxy:
        stage = Stage(admin, control_plane, proxy, tmp_path)
        await stage.clear()
        nodes = await stage.nodes(2)
        async with stage.scheduler():
            victims = [pod(f"low-{name}", nodeName=name) for name in nodes]
            await admin.apply(victims)
            await stage.runs(*(each["metadata"]["name"] for each in victims))
            await admin.apply([group("g", 2), *(pod(f"g-{n}", gang="g", priorityClassName="high") for n in (1, 2))])
            await stage.runs("g-1", "g-2")

            def scraped() -> bool:  # a rate needs two, and a counter with labels is there from its first count on
                counters = r"^gangsched_victims_total\{", r"^scheduler_schedule_attempts_total\{.*\"scheduled\""
                texts = [text or "" for text in stage.scrapes.values()]
                return sum(all(re.search(each, text, re.MULTILINE) for each in counters) for text in texts) > 3

            await wait_until(scraped, WAIT_SECONDS, what="some scrapes after the evictions")
    asked = list(queries())
    answers = await asyncio.to_thread(
        evaluated, programs.promtool(), tmp_path, stage.scrapes, [each.expression for each in asked]
    )
    empty = [each.expression for each in asked if not answers[each.expression]]
    assert [each for each in empty if not any(name in each for name in MAY_BE_EMPTY)] == []
    evicted = next(answers[each.expression] for each in asked if "victims_total" in each.expression)
    assert {each.labels["victim_namespace"] for each in evicted} == {"default"}
