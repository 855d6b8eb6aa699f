"""What may go wrong while nodes are held: the leader dies, writes fail, nodes come and go, others edit taints.

Each kind of trouble is a round of its own. Whatever it was, the gang is whole in the end, no taint of others is lost,
and 15 seconds after a leader leads no node bears ours.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.beside.rounds import HELD, KEPT, Outcome, Round, play
from tests.controlplane.client import ApiError, Change, Client, Object, Recorder, wait_until
from tests.e2e.scheduler import RunningScheduler, start_process
from tests.faulty_proxy import Fault, FaultyProxy, Seen

#: A Lease that is over soon after its holder has died.
QUICK = {"leaseDuration": "8s", "renewDeadline": "5s", "retryPeriod": "1s"}


def _nominated(change: Change) -> bool:
    return bool(change.object["status"].get("nominatedNodeName"))


def _marked(change: Change) -> bool:
    conditions = change.object["status"].get("conditions") or []
    return any(c["type"] == "DisruptionTarget" and c["status"] == "True" for c in conditions)


def _removed(change: Change) -> bool:
    return change.terminating and bool(change.node)


def _bound(change: Change) -> bool:
    return bool(change.node) and change.object["metadata"].get("labels", {}).get("app") == "gang"


#: By the phase in which the leader dies, what shows that it has come.
PHASES: dict[str, Callable[[Change], bool]] = {
    "nominated": _nominated,
    "marked": _marked,
    "removed": _removed,
    "bound": _bound,
}


class Stage(NamedTuple):
    """Where rounds are played: a client that may do everything, and its kubeconfig; that of the scheduler, whose
    requests go through the ``proxy``; and a folder for logs.
    """

    admin: Client
    admin_kubeconfig: Path
    kubeconfig: Path
    proxy: FaultyProxy
    folder: Path


class _Process:
    """The scheduler, which may be killed and started again."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._running: RunningScheduler | None = None

    async def start(self) -> None:
        """Start it, and wait until it leads."""
        running = await start_process(self._stage.kubeconfig, self._stage.folder, leaderElection=QUICK)
        self._running = running
        await wait_until(running.ready, timeout=60, what="the scheduler is ready")

        async def leads() -> bool:
            return "gangsched_leader 1.0" in await running.metrics()

        await wait_until(leads, timeout=60, what="the scheduler leads", interval=0.2)

    async def kill(self) -> None:
        """SIGKILL."""
        if self._running is not None and self._running.process.returncode is None:
            self._running.process.kill()
            await self._running.process.wait()


@asynccontextmanager
async def _leading(stage: Stage) -> AsyncIterator[_Process]:
    """A scheduler that leads; killed at the end. When the block fails, the end of its log becomes a note."""
    process = _Process(stage)
    try:
        await process.start()
        yield process
    finally:
        await process.kill()


async def _play(stage: Stage, made: Round, meanwhile: Callable[[Client, Recorder], Awaitable[None]]) -> Outcome:
    async def also(admin: Client, recorder: Recorder) -> None:
        await meanwhile(admin, recorder)

    return await play(stage.admin, stage.admin_kubeconfig, stage.folder, made, also)


async def killed(phase: str, stage: Stage, made: Round) -> Outcome:
    """The leader dies in this phase, and another one takes over."""
    async with _leading(stage) as process:

        async def meanwhile(_: Client, recorder: Recorder) -> None:
            await recorder.wait(PHASES[phase], 60)
            await process.kill()
            await process.start()

        return await _play(stage, made, meanwhile)


async def killed_when_held(stage: Stage, made: Round) -> Outcome:
    """The leader dies when the first node bears the taint."""
    async with _leading(stage) as process:

        async def meanwhile(admin: Client, _: Recorder) -> None:
            async def held() -> bool:
                return any(map(_holds, await admin.list("Node")))

            await wait_until(held, timeout=60, interval=0.01)
            await process.kill()
            await process.start()

        return await _play(stage, made, meanwhile)


async def refused(stage: Stage, made: Round) -> Outcome:
    """Half of the writes to nodes fail, before or after they have had an effect."""
    numbers = itertools.count()

    def weather(seen: Seen) -> Fault | None:
        if seen.method != "PATCH" or "/api/v1/nodes/" not in seen.path:
            return None
        return (Fault(status=503), Fault(cut_after=True), None, None)[next(numbers) % 4]

    stage.proxy.weather = weather
    try:
        async with _leading(stage):
            return await play(stage.admin, stage.admin_kubeconfig, stage.folder, made)
    finally:
        stage.proxy.weather = lambda _: None


async def edited(stage: Stage, made: Round) -> Outcome:
    """Another client changes the taints of all nodes again and again, and each time takes ours off some of them."""
    numbers = itertools.count(1)

    async def meanwhile(admin: Client, recorder: Recorder) -> None:
        await recorder.wait(_nominated, 60)
        for _ in range(10):
            for node in await admin.list("Node", labels="beside=gpu"):
                await _edit(admin, node, next(numbers))
            await asyncio.sleep(0.2)

    async with _leading(stage):
        return await _play(stage, made, meanwhile)


async def _edit(admin: Client, node: Object, number: int) -> None:
    """Write all taints of a node, as clients do that know nothing of ours: every third time without it."""
    taints = [t for t in node["spec"].get("taints") or [] if t["key"] != "example.com/number"]
    if number % 3 == 0:
        taints = [t for t in taints if t["key"] != HELD]
    taints.insert(0, {"key": "example.com/number", "value": str(number), "effect": "PreferNoSchedule"})
    meta = {"resourceVersion": node["metadata"]["resourceVersion"]}
    try:
        await admin.patch("Node", node["metadata"]["name"], {"metadata": meta, "spec": {"taints": taints}})
    except ApiError as error:
        if error.status not in (404, 409):
            raise


async def made_anew(stage: Stage, made: Round) -> Outcome:
    """A node of the plan is deleted while its pod terminates, and created again under its name."""

    async def meanwhile(admin: Client, recorder: Recorder) -> None:
        change = await recorder.wait(_removed, 60)
        name = str(change.node)
        node = await admin.get("Node", name)
        await admin.delete("Node", name)
        metadata = {key: node["metadata"][key] for key in ("name", "labels")}
        status = {key: node["status"][key] for key in ("capacity", "allocatable")}
        again = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": [KEPT]}}
        await admin.create({**again, "status": status})

    async with _leading(stage):
        return await _play(stage, made, meanwhile)


def _holds(node: Object) -> bool:
    return any(t["key"] == HELD for t in node["spec"].get("taints") or [])


#: What goes wrong, by name.
TROUBLES: dict[str, Callable[[Stage, Round], Awaitable[Outcome]]] = {
    **{f"killed when {phase}": partial(killed, phase) for phase in PHASES},
    "killed when held": killed_when_held,
    "writes to nodes fail": refused,
    "taints are edited": edited,
    "a node is made anew": made_anew,
}
