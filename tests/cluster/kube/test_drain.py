"""What becomes of what still waits when writing ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import cast

import structlog.testing

from gangsched.cluster.kube.client import Client, Observe
from gangsched.cluster.kube.retry import TokenBucket
from gangsched.cluster.kube.writer import Writer, WriteSettings
from gangsched.core.actions import Bind, PodRef, Report, SetCondition
from gangsched.core.events import Event, Outcome, WriteDone
from gangsched.core.lifecycle.report import pod_reference


def pod(name: str) -> PodRef:
    """A pod whose UID is its name."""
    return PodRef("default", name, name)


class Silent:
    """A client whose server never answers."""

    def __init__(self) -> None:
        self.bucket = TokenBucket(1000.0, 1000)
        self.asked = asyncio.Semaphore(0)

    async def attempt(self, *_: object, **__: object) -> bytes:
        """For ever."""
        self.asked.release()
        await asyncio.Event().wait()
        raise AssertionError


def leading(client: Silent, answers: list[Event], observe: Observe, settings: WriteSettings) -> Writer:
    """A writer whose lease lasts for ever."""
    return Writer(
        cast("Client", client),
        answers.extend,
        now=lambda: 0.0,
        fence=lambda: float("inf"),
        controller="c",
        instance="i",
        settings=settings,
        observe=observe,
    )


async def test_what_is_given_up_is_counted_and_logged() -> None:
    """Bindings on their way are answered; conditions and Events are counted by why they were not written."""
    client, answers, dropped = Silent(), list[Event](), Counter[str]()

    def observe(name: str, value: float, labels: Mapping[str, str]) -> None:
        if name == "reports_dropped":
            dropped[labels["reason"]] += int(value)

    writer = leading(client, answers, observe, WriteSettings(in_flight=6, kept_back_seconds=0.0))
    task = asyncio.create_task(writer.run())
    events = [Report(pod_reference(pod(f"e{n}")), "Normal", "R", "A", "n") for n in range(5)]
    writer.submit([Bind(1, pod("a"), "node"), SetCondition(pod("b"), "r", "m"), *events])
    for _ in range(3):  # the binding, and a third of the window
        await client.asked.acquire()
    with structlog.testing.capture_logs() as lines:
        assert not await writer.drain(0.0)
    assert dropped == {"abandoned": 4, "failed": 2}
    [line] = [each for each in lines if each["log_level"] == "warning"]
    assert (line["waiting"], line["on_their_way"], line["reports_dropped"]) == (0, 1, 6)
    await asyncio.sleep(0)
    assert answers == [WriteDone(1, Outcome.TRANSIENT, "the write was cancelled")]
    assert writer.idle
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class Slow(Silent):
    """A client whose server answers what it is asked when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()

    async def attempt(self, *_: object, **__: object) -> bytes:
        """As soon as it may."""
        self.asked.release()
        await self.go.wait()
        return b"{}"


async def test_a_long_queue_is_left_to_the_next_leader() -> None:
    """What is on its way ends; what waits for its turn is not begun, so nothing can take effect later."""
    client, answers, left = Slow(), list[Event](), asyncio.Event()

    def observe(name: str, value: float, labels: Mapping[str, str]) -> None:
        if (name, labels.get("lane"), value) == ("writes_waiting", "write", 0):
            left.set()

    writer = leading(client, answers, observe, WriteSettings(in_flight=2))
    task = asyncio.create_task(writer.run())
    writer.submit([Bind(n, pod(f"p{n}"), "node") for n in range(1, 6)])
    for _ in range(2):
        await client.asked.acquire()
    left.clear()
    draining = asyncio.create_task(writer.drain(1.0))
    await left.wait()
    client.go.set()
    assert await draining
    assert client.asked.locked()
    assert [each.outcome for each in answers if isinstance(each, WriteDone)] == [Outcome.OK, Outcome.OK]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
