"""The stories of the examples, on a real API server: nominate, mark, remove, wait, bind, in that order."""

from __future__ import annotations

import pytest

from tests.controlplane.client import Client, wait_until
from tests.e2e.stories import (
    EXAMPLES,
    INTENT,
    Start,
    Story,
    bystander,
    condition,
    events,
    is_marked,
    nodes_ready,
    play,
    running,
    split,
)

pytestmark = pytest.mark.controlplane


async def test_two_workers_take_the_room_of_two_pods(admin: Client, start_scheduler: Start) -> None:
    """Both members are nominated, both victims marked, removed and gone, then both members are bound."""
    async with start_scheduler():
        early, _ = split(EXAMPLES / "koordinator")
        await admin.apply([t for t in early if t["kind"] == "Node"])
        await nodes_ready(admin)
        watched = await bystander(admin, "node-1")
        recorder, members, victims = await play(admin, EXAMPLES / "koordinator", ["bystander-node-1"])
        Story(recorder, members, victims).check_order()
        assert sorted(victims) == ["lp-pod-1", "lp-pod-2"]
        for victim in victims:
            marked = next(c for c in recorder.of(victim) if is_marked(c))
            mark = condition(marked.object, "DisruptionTarget")
            assert mark["reason"] == "PreemptionByScheduler"
            assert mark["message"] == (
                "py-gang-scheduler: preempting to accommodate higher priority pods, "
                "preemptor: default/hp-training-job, triggerpod: default/hp-worker-1"
            )
        for member in members:
            nominated = next(c for c in recorder.of(member) if c.object["status"].get("nominatedNodeName"))
            assert condition(nominated.object, INTENT)["status"] == "True"
            bound = await admin.get("Pod", member)
            assert bound["spec"]["nodeName"] == nominated.object["status"]["nominatedNodeName"]
        assert {c.name for c in recorder.changes} == {*members, *victims}
        assert (await admin.get("Pod", "bystander-node-1"))["metadata"]["uid"] == watched["metadata"]["uid"]
        group = await admin.wait_for(
            "scheduling.sigs.k8s.io/v1alpha1/PodGroup",
            "hp-training-job",
            lambda g: g.get("status", {}).get("phase") == "Running",
        )
        assert group["status"]["scheduled"] == 2

        async def told() -> bool:
            about = {e["regarding"]["name"] for e in await events(admin, "Preempted")}
            return {*victims, "hp-worker-1"} <= about

        await wait_until(told, what="Preempted events on both sides")

        async def assigned() -> bool:
            return {e["regarding"]["name"] for e in await events(admin, "Scheduled")} >= set(members)

        await wait_until(assigned, what="Scheduled events")
        waiting = await events(admin, "WaitingOnPreemption")
        assert {(e["regarding"]["name"], e["type"]) for e in waiting} == {(name, "Normal") for name in members}
        assert not {e["regarding"]["name"] for e in await events(admin, "FailedScheduling")} & set(members)


async def test_a_group_with_disruption_mode_leaves_as_a_whole(admin: Client, start_scheduler: Start) -> None:
    """All four pods of the low-priority group leave together for the four of the high-priority one."""
    async with start_scheduler():
        recorder, members, victims = await play(admin, EXAMPLES / "workload", [])
        assert len(members) == 4
        assert len(victims) == 4
        Story(recorder, members, victims).check_order()
        assert {c.name for c in recorder.changes} == {*members, *victims}
        nodes = {(await admin.get("Pod", m))["spec"]["nodeName"] for m in members}
        assert len(nodes) == 4


async def test_a_gang_that_cannot_fit_evicts_nobody(admin: Client, start_scheduler: Start) -> None:
    """Members larger than the cluster stay pending, are told why, and no pod is marked or removed."""
    early, late = split(EXAMPLES / "koordinator")
    for thing in late:
        if thing["kind"] == "Pod":
            thing["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "5"}}
    async with start_scheduler():
        await admin.apply([t for t in early if t["kind"] != "Pod"])
        await nodes_ready(admin)
        await admin.apply([t for t in early if t["kind"] == "Pod"])
        await running(admin, ["lp-pod-1", "lp-pod-2"])
        async with admin.record("Pod") as recorder:
            await admin.apply(late)
            for name in ("hp-worker-1", "hp-worker-2"):
                pod = await admin.wait_for(
                    "Pod", name, lambda p: condition(p, "PodScheduled").get("reason") == "Unschedulable"
                )
                told = condition(pod, "PodScheduled")
                assert told["status"] == "False"
                assert told["message"].startswith(("not now: ", "never fits: "))
                assert "0/2 nodes are available: 2 Insufficient cpu. preemption: " in told["message"]
        assert {c.name for c in recorder.changes} == {"hp-worker-1", "hp-worker-2"}


async def test_a_gang_below_its_minimum_says_how_many_are_missing(admin: Client, start_scheduler: Start) -> None:
    """One of two members exists: it waits with GangNotReady, and starts when the other one comes."""
    early, late = split(EXAMPLES / "koordinator")
    group, one, two = late
    async with start_scheduler():
        await admin.apply([t for t in early if t["kind"] != "Pod"])
        await nodes_ready(admin)
        await admin.apply([group, one])
        pod = await admin.wait_for(
            "Pod", one["metadata"]["name"], lambda p: condition(p, "PodScheduled").get("reason") == "GangNotReady"
        )
        assert condition(pod, "PodScheduled")["message"] == "1 of 2 members exist; 1 missing"
        await admin.apply(two)
        await running(admin, ["hp-worker-1", "hp-worker-2"])
