"""What each alert is for, done to a scheduler at work. The time of the rules passes sixty times faster here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from tests.alerts.stage import WAIT_SECONDS, Stage, group, pod
from tests.controlplane.client import wait_until
from tests.e2e.stories import events
from tests.faulty_proxy import Fault

REFUSAL = b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}'


async def nothing(stage: Stage) -> None:
    """Gangs evict others, run and end, three times; one waits for room all the time."""
    first, second = await stage.nodes(2)
    async with stage.scheduler():
        await stage.admin.apply([group("vast", 2), *(pod(f"vast-{n}", cpu="100", gang="vast") for n in (1, 2))])
        for turn in "abc":
            victims = [pod(f"low-{turn}-{name}", nodeName=name) for name in (first, second)]
            await stage.admin.apply(victims)
            await stage.runs(*(each["metadata"]["name"] for each in victims))
            members = [pod(f"{turn}-{n}", gang=turn, priorityClassName="high") for n in (1, 2)]
            await stage.admin.apply([group(turn, 2), *members])
            await stage.runs(f"{turn}-1", f"{turn}-2")
            await asyncio.sleep(6)
            await stage.remove(f"{turn}-1", f"{turn}-2")


async def leader_killed(stage: Stage) -> None:
    """The only replica gets SIGKILL."""
    async with stage.scheduler() as scheduler:
        await asyncio.sleep(5)
        scheduler.process.kill()
        await asyncio.sleep(8)


async def no_room(stage: Stage) -> None:
    """Work of the same priority has the only node. A gang that is larger than the cluster waits too, of which no alert
    tells.
    """
    (node,) = await stage.nodes(1)
    await stage.admin.apply([pod("has-it", nodeName=node)])
    async with stage.scheduler():
        await stage.admin.apply([group("vast", 2), *(pod(f"vast-{n}", gang="vast") for n in (1, 2)), pod("waits")])
        await asyncio.sleep(80)


async def victim_stays(stage: Stage) -> None:
    """The only victim takes all of the five minutes that it may take to end."""
    (node,) = await stage.nodes(1)
    await stage.admin.apply([pod("slow", nodeName=node, grace=300)])
    await stage.runs("slow")
    async with stage.scheduler():
        await stage.admin.apply([pod("high", priorityClassName="high")])
        await stage.admin.wait_for(
            "Pod", "slow", lambda found: "deletionTimestamp" in found["metadata"], timeout=WAIT_SECONDS
        )
        await asyncio.sleep(40)


async def room_stolen(stage: Stage) -> None:
    """Of each gang's two nodes the first is free earlier, and another scheduler binds a pod there."""
    pairs = [await stage.nodes(2) for _ in range(3)]
    for number, pair in enumerate(pairs):
        for name, used in zip(pair, ("1s", "10s"), strict=True):
            await stage.admin.patch("Node", name, {"metadata": {"labels": {"pair": str(number)}}})
            victim = pod(f"low-{name}", nodeName=name, grace=10)
            victim["metadata"]["annotations"]["sim.gangsched.dev/grace-used"] = used
            await stage.admin.apply([victim])
        await stage.runs(*(f"low-{name}" for name in pair))

    async def steal(node: str) -> None:
        await stage.admin.wait_gone("Pod", f"low-{node}", timeout=WAIT_SECONDS)
        thief = pod(
            f"thief-{node}", schedulerName="other", priorityClassName="high", tolerations=[{"operator": "Exists"}]
        )
        await stage.admin.apply([thief])
        await stage.admin.bind(f"thief-{node}", node)

    async with stage.scheduler(), asyncio.TaskGroup() as work:
        for number, (first, _) in enumerate(pairs):
            gang = f"robbed-{number}"
            chosen: dict[str, Any] = {"priorityClassName": "high", "nodeSelector": {"pair": str(number)}}
            await stage.admin.apply([group(gang, 2), *(pod(f"{gang}-{n}", gang=gang, **chosen) for n in (1, 2))])
            work.create_task(steal(first))

        async def told() -> bool:
            return len({each["regarding"]["name"] for each in await events(stage.admin, "FreedRoomTaken")}) == len(
                pairs
            )

        await wait_until(told, WAIT_SECONDS, what="each gang has lost its room")
        await asyncio.sleep(3)


async def half_evicted(stage: Stage) -> None:
    """One of the two members of a gang leaves, the removal of the other is refused until the scheduler gives up."""
    nodes = await stage.nodes(2)
    members = [pod(f"low-{n}", gang="low", nodeName=name) for n, name in enumerate(nodes, 1)]
    await stage.admin.apply([group("low", 2), *members])
    await stage.runs("low-1", "low-2")
    stage.proxy.fail(Fault(path="/pods/low-2(/eviction)?$", method="DELETE", times=None, status=403, body=REFUSAL))
    async with stage.scheduler():
        gang = [pod(f"high-{n}", gang="high", priorityClassName="high") for n in (1, 2)]
        await stage.admin.apply([group("high", 2), *gang])
        await stage.admin.wait_gone("Pod", "low-1", timeout=WAIT_SECONDS)
        await stage.remove("high-1", "high-2")

        async def told() -> bool:
            return bool(await events(stage.admin, "GangBroken"))

        await wait_until(told, WAIT_SECONDS, what="the gang is reported as broken")
        await asyncio.sleep(3)


async def always_the_same(stage: Stage) -> None:
    """The pod of a Deployment comes back three times, and each time another pod evicts it."""
    await stage.nodes(1)
    template = pod("web")
    template = {"metadata": {"labels": {"app": "web"}}, "spec": template["spec"]}
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }

    async def back() -> bool:
        return any(
            each["status"].get("phase") == "Running" and "deletionTimestamp" not in each["metadata"]
            for each in await stage.admin.list("Pod", "default", labels="app=web")
        )

    async with stage.scheduler():
        await stage.admin.apply([web])
        for turn in (1, 2, 3):
            await wait_until(back, WAIT_SECONDS, what="the Deployment's pod runs")
            await stage.admin.apply([pod(f"high-{turn}", priorityClassName="high")])
            await stage.runs(f"high-{turn}")
            if turn < 3:
                await stage.remove(f"high-{turn}")
        await asyncio.sleep(22)


async def bindings_refused(stage: Stage) -> None:
    """Every binding is answered 403, and a pod comes each second."""
    await stage.nodes(1, cpu="64")
    stage.proxy.fail(Fault(path="/binding$", method="POST", times=None, status=403, body=REFUSAL))
    async with stage.scheduler():
        for number in range(22):
            await stage.admin.apply([pod(f"refused-{number}", cpu="1")])
            await asyncio.sleep(1)


async def searches_cut(stage: Stage) -> None:
    """24 pods need a search each, which may take ten steps: too little among gangs of many sizes."""
    nodes = await stage.nodes(26, cpu="16")
    things = []
    for number in range(len(nodes) * 2):
        gang = f"low-{number}"
        things.append(group(gang, 2))
        for member in (0, 1):
            name = nodes[(number + member * (1 + number % 5)) % len(nodes)]
            things.append(pod(f"{gang}-{member}", gang=gang, nodeName=name, cpu=str(3 + (number + member) % 2)))
    await stage.admin.apply(things)
    await stage.runs(*(each["metadata"]["name"] for each in things if each["kind"] == "Pod"))
    async with stage.scheduler(preemption={"budgetMilliseconds": 1}):
        high = [pod(f"high-{number}", cpu="9", priorityClassName="high") for number in range(24)]
        await stage.admin.apply(high)
        await stage.runs(*(each["metadata"]["name"] for each in high))
        await asyncio.sleep(50)


async def clock_wrong(stage: Stage) -> None:
    """The API server's clock jumps ahead by eight seconds, by the dates of its answers."""
    async with stage.scheduler():
        await asyncio.sleep(5)
        stage.proxy.clock_ahead_seconds = 8.0
        await asyncio.sleep(20)


class Play(NamedTuple):
    """What is done, and the alert that fires of it; None where all has to be silent."""

    play: Callable[[Stage], Awaitable[None]]
    alert: str | None


PLAYS = {
    each.play.__name__: each
    for each in (
        Play(nothing, None),
        Play(leader_killed, "GangschedNoLeader"),
        Play(no_room, "GangschedGangWaitingTooLong"),
        Play(victim_stays, "GangschedPreemptionStuck"),
        Play(room_stolen, "GangschedRoomTaken"),
        Play(half_evicted, "GangschedGangBroken"),
        Play(always_the_same, "GangschedEvictionLoop"),
        Play(bindings_refused, "GangschedWritesFailing"),
        Play(searches_cut, "GangschedSearchCutShort"),
        Play(clock_wrong, "GangschedClockSkew"),
    )
}
