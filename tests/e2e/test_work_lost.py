"""A job that has just saved its work leaves before one that has not, on a real API server."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from tests.controlplane.client import Client, Object, load, wait_until
from tests.e2e.jobs import CLUSTER, job, template
from tests.e2e.stories import Start, events, nodes_ready

pytestmark = pytest.mark.controlplane

OLD, YOUNG = "old", "young"


async def test_the_job_that_has_just_saved_leaves(admin: Client, start_scheduler: Start) -> None:
    """It began first and has run for longest; its Job says when it has saved its work last. The Event says what is
    lost, and what cannot be read on the other Job is told to that.
    """
    await admin.apply(load(CLUSTER))
    await nodes_ready(admin)
    async with start_scheduler():
        pods: dict[str, Object] = {}
        for name in (OLD, YOUNG):
            await admin.apply([job(name, template=template("4"), parallelism=1, completions=1)])
            await admin.wait_for("Job", name, lambda found: found.get("status", {}).get("ready", 0) == 1, timeout=60)
            pods[name] = next(p for p in await admin.list("Pod", "default") if p["metadata"]["name"].startswith(name))
            await asyncio.sleep(2.0)  # starts are whole seconds
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        await admin.patch("Job", YOUNG, {"metadata": {"annotations": {"gangsched.dev/restart-cost": "soon"}}})
        await admin.patch("Job", OLD, {"metadata": {"annotations": {"gangsched.dev/last-checkpoint": now}}})

        async def told() -> bool:
            return YOUNG in {e["regarding"]["name"] for e in await events(admin, "InvalidObject")}

        await wait_until(told, what="the Event about the annotation that cannot be read")
        urgent = {"apiVersion": "v1", "kind": "Pod", **template("4")}
        urgent["metadata"] |= {"name": "urgent", "namespace": "default"}
        urgent["spec"]["priorityClassName"] = "urgent"
        await admin.apply([urgent])
        await admin.wait_for("Pod", "urgent", lambda p: p["status"].get("phase") == "Running", timeout=60)
        victim = pods[OLD]["metadata"]["name"]
        notes = {e["regarding"]["name"]: e["note"] for e in await events(admin, "Preempted")}
        assert "CPU-hours lost, last checkpoint " in notes[victim]
        stays = await admin.get("Pod", pods[YOUNG]["metadata"]["name"])
        assert stays["metadata"]["uid"] == pods[YOUNG]["metadata"]["uid"]
        assert "deletionTimestamp" not in stays["metadata"]
