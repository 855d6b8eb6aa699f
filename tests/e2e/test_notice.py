"""A victim is told before it is evicted, saves its work, and leaves when its notice is over, on a real API server."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from tests.controlplane.client import Change, Client, Object, load, wait_until
from tests.e2e.jobs import CLUSTER, job, template, urgent
from tests.e2e.stories import Start, condition, events, first, is_marked, nodes_ready, running

pytestmark = pytest.mark.controlplane

NOTICE = 8
BATCH = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: batch}, value: 10}"
OURS = "gangsched.dev/EvictedFor"
SAVED = "gangsched.dev/last-checkpoint"


def stamp(moment: datetime) -> str:
    """As the API writes times."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def is_told(name: str, change: Change) -> bool:
    """The pod of this name bears our condition."""
    return change.name == name and condition(change.object, OURS).get("status") == "True"


def not_before(pod: Object) -> str:
    """The time that stands on a victim."""
    times = {owner["notBefore"] for owner in json.loads(condition(pod, OURS)["message"])["owners"]}
    assert len(times) == 1
    return str(times.pop())


async def test_the_job_that_has_saved_leaves_after_its_notice(admin: Client, start_scheduler: Start) -> None:
    """Of two equal Jobs that save every 10 minutes the one leaves that has just saved. It is told when, and is neither
    marked nor deleted before; it saves once more meanwhile, and that little is lost is what its Event says.
    """
    await admin.apply(load(f"{CLUSTER}\n---\n{BATCH}"))
    await nodes_ready(admin)
    async with start_scheduler(preemption={"notice": {"batch": f"{NOTICE}s"}}):
        now, pods = datetime.now(UTC), {}
        for name, minutes in (("long-ago", 9), ("just-now", 1)):
            made = job(name, template=template("4"), parallelism=1, completions=1)
            made["metadata"]["annotations"] = {SAVED: stamp(now - timedelta(minutes=minutes))}
            made["spec"]["template"]["spec"]["priorityClassName"] = "batch"
            await admin.apply([made])
            await admin.wait_for("Job", name, lambda found: found.get("status", {}).get("ready", 0) == 1, timeout=60)
            pods[name] = next(p for p in await admin.list("Pod", "default") if p["metadata"]["name"].startswith(name))
        victim = pods["just-now"]["metadata"]["name"]
        new = {"apiVersion": "v1", "kind": "Pod", **template("4")}
        new["metadata"] |= {"name": "urgent", "namespace": "default"}
        new["spec"]["priorityClassName"] = "urgent"
        async with admin.record("Pod") as recorder:
            await admin.apply([new])
            told = await recorder.wait(lambda c: condition(c.object, OURS).get("status") == "True")
            assert told.name == victim
            assert condition(told.object, OURS)["reason"] == "Announced"
            earliest = not_before(told.object)
            await admin.patch("Job", "just-now", {"metadata": {"annotations": {SAVED: stamp(datetime.now(UTC))}}})
            await admin.wait_for("Pod", "urgent", lambda p: p["status"].get("phase") == "Running", timeout=60)
            changes = [c for c in recorder.changes if c.name == victim]
        assert all(not is_marked(c) and not c.terminating for c in changes if condition(c.object, OURS) == {})
        marked = next(c for c in changes if is_marked(c))
        assert condition(marked.object, "DisruptionTarget")["lastTransitionTime"] >= earliest
        assert all(is_marked(c) for c in changes if c.terminating)

        async def reported() -> bool:
            return victim in {e["regarding"]["name"] for e in await events(admin, "Preempted")}

        await wait_until(reported, what="the Event about the eviction")
        announced = {e["regarding"]["name"]: e["note"] for e in await events(admin, "EvictionAnnounced")}
        assert earliest in announced[victim]
        assert "last checkpoint" in next(
            e["note"] for e in await events(admin, "Preempted") if e["regarding"]["name"] == victim
        )
        stays = await admin.get("Pod", pods["long-ago"]["metadata"]["name"])
        assert "deletionTimestamp" not in stays["metadata"]
        assert not condition(stays, OURS)


async def test_another_process_keeps_the_notice(admin: Client, start_scheduler: Start) -> None:
    """The first one ends as soon as the victims have been told. The second neither tells another time nor is early, and
    the gang runs in the place of exactly those victims.
    """
    await admin.apply(load(f"{CLUSTER}\n---\n{BATCH}"))
    await nodes_ready(admin)
    names = ["low-1", "low-2"]
    for number, name in enumerate(names, 1):
        low = {"apiVersion": "v1", "kind": "Pod", **template("4")}
        low["metadata"] |= {"name": name, "namespace": "default"}
        low["spec"] |= {"priorityClassName": "batch", "nodeName": f"node-{number}"}
        await admin.apply([low])
    await running(admin, names)
    settings = {"preemption": {"notice": f"{2 * NOTICE}s"}}
    async with admin.record("Pod") as recorder:
        async with start_scheduler(**settings):
            await admin.apply(urgent("g"))
            for name in names:
                await recorder.wait(partial(is_told, name))
        told = {not_before(await admin.get("Pod", name)) for name in names}
        async with start_scheduler(**settings):
            await running(admin, ["g-1", "g-2"])
        changes = list(recorder.changes)
    assert len(told) == 1
    for name in names:
        story = [c for c in changes if c.name == name]
        messages = {condition(c.object, OURS).get("message", "") for c in story} - {""}
        assert len(messages) == 1, messages
        marked = story[first(story, is_marked)]
        assert condition(marked.object, "DisruptionTarget")["lastTransitionTime"] >= min(told)
        assert first(story, is_marked) < first(story, lambda c: c.terminating)
