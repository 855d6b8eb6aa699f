"""Pods that are spared after all: a removal that has not left is not sent, one that has failed is not repeated."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from gangsched.cluster.kube.client import ApiError, Client, UnreachableError
from gangsched.cluster.kube.retry import TokenBucket
from gangsched.cluster.kube.writer import UNWANTED, Writer, WriteSettings
from gangsched.cluster.queue import Item, WriteQueue
from gangsched.core.actions import JobRef, Mark, PodRef, Removal, Remove, Spare, SuspendJob, Unmark
from gangsched.core.events import Event, Outcome, WriteDone


def pod(name: str) -> PodRef:
    """A pod whose UID is its name."""
    return PodRef("default", name, name)


KINDS: list[Callable[[int], Removal]] = [
    lambda n: Remove(n, pod(f"v{n}")),
    lambda n: Remove(n, pod(f"v{n}"), evict=True),
    lambda n: SuspendJob(n, JobRef("default", f"j{n}", f"j{n}"), "1", "s", "default/g", "plan"),
]
removals = pytest.mark.parametrize("removal", KINDS, ids=["delete", "evict", "suspend"])


class Server:
    """A client whose attempts leave when ``gate`` is open, and come out as ``outcomes`` say, one after another. The
    last one counts for all that follow; None is a success.
    """

    def __init__(self, *outcomes: Exception | None) -> None:
        self.bucket = TokenBucket(1000.0, 1000)
        self.gate = asyncio.Event()
        self.answer = asyncio.Event()
        self.asked = asyncio.Semaphore(0)
        self.left: list[str] = []
        self._outcomes = list(outcomes) or [None]
        self.answer.set()
        self.gate.set()

    async def attempt(
        self, method: str, path: str, *, fence: Callable[[], float] = lambda: math.inf, **_: Any
    ) -> bytes:
        """As the client's: the fence is asked as the bytes are about to leave."""
        self.asked.release()
        await self.gate.wait()
        if fence() == -math.inf:
            raise UnreachableError("too late")
        self.left.append(path)
        await self.answer.wait()
        outcome = self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]
        if outcome is not None:
            raise outcome
        return b"{}"


class Desk:
    """A writer, and its answers by the id of the write."""

    def __init__(self, server: Server, in_flight: int = 48) -> None:
        self.server = server
        self.answers: dict[int, WriteDone] = {}
        self.told = asyncio.Event()
        self.writer = Writer(
            cast("Client", server),
            self._take,
            now=lambda: 0.0,
            fence=lambda: math.inf,
            controller="c",
            instance="i",
            settings=WriteSettings(in_flight=in_flight, total_seconds=3600.0),
        )

    def _take(self, events: list[Event]) -> None:
        for event in events:
            assert isinstance(event, WriteDone)
            assert event.action_id not in self.answers
            self.answers[event.action_id] = event
        self.told.set()

    async def spared_on_its_way(self, removal: Removal) -> None:
        """This is wanted until it has been asked for."""
        self.writer.submit([removal])
        await self.server.asked.acquire()
        self.writer.submit([Spare(removal.pod)])

    async def answered(self, *ids: int) -> dict[int, Outcome]:
        """The outcomes of these writes, when all are there."""
        async with asyncio.timeout(10.0):
            while not set(ids) <= self.answers.keys():
                self.told.clear()
                await self.told.wait()
        return {i: self.answers[i].outcome for i in ids}


@asynccontextmanager
async def desk(server: Server, in_flight: int = 48) -> AsyncIterator[Desk]:
    """A writer that runs."""
    out = Desk(server, in_flight)
    task = asyncio.create_task(out.writer.run())
    try:
        yield out
    finally:
        await out.writer.drain(0.0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def busy(seconds: float = 600.0) -> ApiError:
    """The API server asks to come back much later."""
    return ApiError(429, "TooManyRequests", "busy", (), seconds)


@removals
async def test_what_waits_for_its_turn_is_never_sent(removal: Callable[[int], Removal]) -> None:
    """It is answered at once, though what is on its way is not."""
    server = Server()
    server.answer.clear()
    async with desk(server, in_flight=1) as there:
        there.writer.submit([removal(n) for n in (1, 2, 3)])
        await server.asked.acquire()
        there.writer.submit([Spare(removal(n).pod) for n in (2, 3)])
        assert await there.answered(2, 3) == {2: Outcome.OUTDATED, 3: Outcome.OUTDATED}
        assert there.answers[2].message == UNWANTED
        server.answer.set()
        assert await there.answered(1) == {1: Outcome.OK}
    assert len(server.left) == 1


@removals
async def test_what_was_told_to_come_later_is_not_repeated(removal: Callable[[int], Removal]) -> None:
    """The answer 429 means that nothing has happened, and nobody waits for the end of the pause."""
    server = Server(busy(), None)
    async with desk(server) as there:
        there.writer.submit([removal(1)])
        await server.asked.acquire()
        await asyncio.sleep(0)
        there.writer.submit([Spare(removal(1).pod)])
        assert await there.answered(1) == {1: Outcome.OUTDATED}
    assert len(server.left) == 1


@removals
@pytest.mark.parametrize("failure", [UnreachableError("no answer"), ApiError(500, "", "oops", (), 600.0)])
async def test_what_may_have_taken_effect_stays_unknown(removal: Callable[[int], Removal], failure: Exception) -> None:
    """An attempt has left, and no answer says that it changed nothing; a later 429 does not say so either."""
    server = Server(failure, busy())
    server.answer.clear()
    async with desk(server) as there:
        await there.spared_on_its_way(removal(1))
        server.answer.set()
        assert await there.answered(1) == {1: Outcome.TRANSIENT}
        assert there.answers[1].message == UNWANTED
    assert len(server.left) == 1


@removals
async def test_the_last_look_is_as_the_bytes_leave(removal: Callable[[int], Removal]) -> None:
    """Recalled while it waits for a connection: nothing is sent."""
    server = Server()
    server.gate.clear()
    async with desk(server) as there:
        await there.spared_on_its_way(removal(1))
        server.gate.set()
        assert await there.answered(1) == {1: Outcome.OUTDATED}
    assert server.left == []


@removals
async def test_what_was_carried_out_is_answered_as_it_came_out(removal: Callable[[int], Removal]) -> None:
    """A recall that comes too late, or for what nobody knows, changes nothing."""
    server = Server()
    server.answer.clear()
    async with desk(server) as there:
        there.writer.submit([removal(1), Spare(removal(7).pod)])
        await server.asked.acquire()
        await asyncio.sleep(0)
        there.writer.submit([Spare(removal(1).pod)])
        server.answer.set()
        assert await there.answered(1) == {1: Outcome.OK}
        there.writer.submit([Spare(removal(1).pod), removal(2)])
        assert await there.answered(2) == {2: Outcome.OK}


def test_only_what_is_spared_leaves_the_queue() -> None:
    """Those behind another write of their pod too; the order of the others stays, and so does their number."""
    queue = WriteQueue()
    for action in (Mark(1, pod("a"), "m"), Remove(2, pod("a")), Remove(3, pod("b")), Remove(4, pod("c"))):
        queue.put(action, 0.0)
    first, second = queue.take(0.0), queue.take(0.0)
    assert first is not None
    assert second is not None
    queue.put(Remove(5, pod("d")), 0.0)
    spared = [item.action for name in "ca" for item in queue.put(Spare(pod(name)), 0.0)]
    assert spared == [Remove(4, pod("c")), Remove(2, pod("a"))]
    assert queue.writes_waiting == 1
    queue.done(first, 0.0)
    third = queue.take(0.0)
    assert third is not None
    assert third.action == Remove(5, pod("d"))
    assert queue.take(0.0) is None


def test_the_opposite_of_what_waits_takes_its_place() -> None:
    """A mark that is to be taken back is answered if it has not been sent; else its opposite follows."""
    queue = WriteQueue()
    for number, name in enumerate("ab"):
        queue.put(Mark(number, pod(name), "m"), 0.0)
    sent = queue.take(0.0)
    assert sent is not None
    overruled: list[Item] = []
    for number, name in enumerate("ab", start=2):
        overruled += queue.put(Unmark(number, pod(name), "m"), 0.0)
    assert [item.action for item in overruled] == [Mark(1, pod("b"), "m")]
    assert not sent.unwanted
    queue.done(sent, 0.0)
    rest = [queue.take(0.0), queue.take(0.0)]
    assert [item.action for item in rest if item] == [Unmark(2, pod("a"), "m"), Unmark(3, pod("b"), "m")]
