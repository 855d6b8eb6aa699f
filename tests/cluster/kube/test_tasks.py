"""What is told to end ends, whatever else happens to it in the same moment."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from gangsched.cluster.kinds import CORE_KINDS
from gangsched.cluster.kube.client import Client, UnreachableError
from gangsched.cluster.kube.discovery import served_resources
from gangsched.cluster.kube.reflector import Reflector, Seen
from gangsched.cluster.kube.retry import end
from gangsched.core.events import Event, Gone, KindRead, Reading
from gangsched.model.convert import Converter


class Broken:
    """A client whose every request fails when it is told to."""

    def __init__(self) -> None:
        self.fails = asyncio.Event()

    async def get(self, _: str, **__: str) -> bytes:
        """See Client.get."""
        await self.fails.wait()
        raise UnreachableError("no route to host")


@pytest.mark.parametrize("turns", range(8))
async def test_a_cancellation_that_meets_an_error_is_not_lost(turns: int) -> None:
    """A loop around discovery that tries again after errors ends all the same, in whichever turn it is cancelled."""
    client = Broken()

    async def again_and_again() -> None:
        while True:
            try:
                await served_resources(cast("Client", client))
            except UnreachableError:
                await asyncio.Event().wait()

    task = asyncio.create_task(again_and_again())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    client.fails.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=5.0)
    assert task.cancelled()


async def test_a_task_that_overhears_its_end_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It swallows two cancellations, and another has failed by itself."""
    monkeypatch.setattr("gangsched.cluster.kube.retry.AGAIN_SECONDS", 0.01)
    heard = 0

    async def deaf() -> None:
        nonlocal heard
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                heard += 1
                if heard > 2:
                    raise

    async def broken() -> None:
        raise ValueError("boom")

    tasks = [asyncio.create_task(deaf()), asyncio.create_task(broken())]
    await asyncio.sleep(0)
    await end(tasks)
    assert [task.done() for task in tasks] == [True, True]
    assert heard == 3


async def test_who_ends_others_finishes_that_before_it_ends_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """It loses patience with a task that itself waits for one that does not hear: that one ends nevertheless."""
    monkeypatch.setattr("gangsched.cluster.kube.retry.AGAIN_SECONDS", 0.01)
    heard = 0

    async def deaf() -> None:
        nonlocal heard
        while heard < 5:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                heard += 1

    child = asyncio.create_task(deaf())

    async def parent() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await end([child])

    task = asyncio.create_task(parent())
    await asyncio.sleep(0)
    await end([task])
    assert (child.done(), task.cancelled()) == (True, True)


async def test_nobody_waits_for_a_resource_that_is_not_served() -> None:
    """Whoever waits for a refresh waits on while the version changes, and no longer than the resource is served."""
    resource = next(each for each in CORE_KINDS if each.plural == "nodes")
    reflector = Reflector(resource, cast("Client", Broken()), Converter(), lambda _: None)
    waiting = asyncio.create_task(reflector.refresh())
    await asyncio.sleep(0)
    reflector.switch_version(resource.at("v2"))
    await asyncio.sleep(0)
    assert (reflector.listed.is_set(), waiting.done()) == (False, False)
    reflector.stop_delivering()
    await asyncio.wait([waiting], timeout=5.0)
    assert (reflector.listed.is_set(), waiting.done()) == (True, True)


async def test_how_much_is_known_of_a_kind_is_told_once() -> None:
    """A kind that may not be read any more is told as such, after the end of all that was delivered of it."""
    resource = next(each for each in CORE_KINDS if each.plural == "replicasets")
    told: list[Event] = []
    reflector = Reflector(resource, cast("Client", Broken()), Converter(), told.extend)
    reflector.delivered.seen["d", "web"] = Seen("u", "1")
    reflector.stop_delivering()
    reflector.stop_delivering()
    assert told == [Gone("ReplicaSet", "d", "web", "u", "apps"), KindRead("ReplicaSet.apps", Reading.CLOSED)]
