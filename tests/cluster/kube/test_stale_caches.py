"""No pod is removed by what is not known to be so any more: caches have an age, which bounds what may be written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import cast

import pytest
import structlog.testing

from gangsched.cluster.kinds import CORE_KINDS
from gangsched.cluster.kube.adapter import KubeCluster
from gangsched.cluster.kube.client import Client, ListMeta, Page, SilentError, UnreachableError
from gangsched.cluster.kube.connection import Connection
from gangsched.cluster.kube.preconditions import GIVEN_UP_SECONDS, SHOWN_SECONDS, Preconditions
from gangsched.cluster.kube.reflector import FRESH, STALE_SECONDS, Caches, Reflector
from gangsched.cluster.kube.retry import TokenBucket
from gangsched.cluster.kube.writer import Writer
from gangsched.core.actions import Action, Bind, PodRef, Remove
from gangsched.core.events import Changed, Event, Gone, Outcome, WriteDone
from gangsched.model.convert import Converter
from tests.builders import pod
from tests.controlplane.client import wait_until

POD = PodRef("default", "p", "uid")


class Server:
    """As much of a client as the writer needs; it counts attempts."""

    def __init__(self) -> None:
        self.bucket = TokenBucket(1000.0, 1000)
        self.attempts = 0

    async def attempt(self, *_: object, **__: object) -> bytes:
        """Succeeds."""
        self.attempts += 1
        return b"{}"


async def written(action: Action, stale: str, stale_kind: str = "Pod") -> tuple[int, WriteDone]:
    """How often the server was asked for it, and the answer, while this kind is known by an old cache."""
    server, answers = Server(), asyncio.Queue[Event]()
    writer = Writer(
        cast("Client", server),
        lambda events: answers.put_nowait(events[0]),
        now=lambda: 0.0,
        fence=lambda: float("inf"),
        controller="c",
        instance="i",
        stale=lambda kinds: stale if stale_kind in kinds else "",
    )
    task = asyncio.create_task(writer.run())
    writer.submit([action])
    answer = await asyncio.wait_for(answers.get(), 10.0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert isinstance(answer, WriteDone)
    return server.attempts, answer


async def test_no_pod_is_removed_by_an_old_cache() -> None:
    """The reason is in the answer, and the removal is asked for again later: nothing has been sent."""
    attempts, answer = await written(Remove(1, POD), "old")
    assert (attempts, answer) == (0, WriteDone(1, Outcome.TRANSIENT, "old"))


@pytest.mark.parametrize("kind", ["Pod", "Node"])
async def test_no_pod_is_bound_by_an_old_cache(kind: str) -> None:
    """The node may be full by now, or gone. The binding is tried again later."""
    attempts, answer = await written(Bind(1, POD, "node"), "old", kind)
    assert (attempts, answer) == (0, WriteDone(1, Outcome.TRANSIENT, "old"))


async def test_budgets_have_no_bearing_on_bindings() -> None:
    """Where nothing is heard of budgets, no pod is evicted, and pods are bound all the same."""
    assert (await written(Bind(1, POD, "node"), "old", "PodDisruptionBudget"))[0] == 1
    assert (await written(Remove(1, POD), "old", "PodDisruptionBudget"))[0] == 0


@pytest.mark.parametrize("kind", sorted(FRESH))
async def test_one_old_cache_of_three_is_enough(kind: str) -> None:
    """Of pods, nodes or budgets; others have no bearing on who leaves."""
    caches = Caches(cast("Client", None), lambda _: None)
    for each in CORE_KINDS:
        caches._mirror(each)
    assert sorted(caches.ages()) == ["nodes", "poddisruptionbudgets", "pods"]
    assert caches.stale() == ""
    for each in CORE_KINDS:
        reflector = caches._reflectors[each.resource]
        if each.name not in FRESH or each.name == kind:
            reflector.heard_at = time.monotonic() - STALE_SECONDS - 5
    assert "nothing has been heard of" in caches.stale()
    assert max(caches.ages(), key=lambda name: caches.ages()[name]).startswith(kind.lower())
    for task in caches._tasks.values():
        task.cancel()
    await asyncio.gather(*caches._tasks.values(), return_exceptions=True)


async def test_the_log_says_once_that_caches_are_old() -> None:
    """One line when nothing is heard any more, and one when it is over."""
    caches = Caches(cast("Client", None), lambda _: None)
    for each in CORE_KINDS:
        caches._mirror(each)
    seen = [caches.stale() for _ in range(3)]
    pods = caches._reflectors["pods"]
    with structlog.testing.capture_logs() as captured:
        for age in (STALE_SECONDS - 1, STALE_SECONDS + 1, STALE_SECONDS + 2, 0.0, 0.0):
            pods.heard_at = time.monotonic() - age
            seen.append(caches.stale())
    assert [bool(text) for text in seen] == [False] * 4 + [True] * 2 + [False] * 2
    assert caches.stale(("Node",)) == ""
    lines = [line["event"] for line in captured]
    assert ["no pod is bound" in line for line in lines] == [True, False]
    for task in caches._tasks.values():
        task.cancel()
    await asyncio.gather(*caches._tasks.values(), return_exceptions=True)


def test_a_binding_that_the_watch_does_not_show_tells_that_pods_are_known_by_an_old_cache() -> None:
    """After 10 s nothing is bound or evicted, long before the silence of the watch tells. It is logged once."""
    known, bound = Preconditions(), pod("p", "default").on("node").uid(POD.uid).obj()
    known.leaves(Bind(1, POD, "node"))
    known.accepted(Bind(1, POD, "node"), 100.0)
    with structlog.testing.capture_logs() as captured:
        texts = [known.unshown(100.0 + after) for after in (0.0, SHOWN_SECONDS, SHOWN_SECONDS + 1, SHOWN_SECONDS + 2)]
        known.delivered([Changed(bound)])
        texts.append(known.unshown(113.0))
    assert [bool(text) for text in texts] == [False, False, True, True, False]
    assert ["no pod is bound" in line["event"] for line in captured] == [True, False]


@pytest.mark.parametrize("how", ["shown first", "gone", "never shown"])
def test_a_binding_is_not_waited_for_for_ever(how: str) -> None:
    """The watch may be quicker than the answer, the pod may be deleted, or become unreadable."""
    known, bound = Preconditions(), pod("p", "default").on("node").uid(POD.uid).obj()
    if how == "shown first":
        known.delivered([Changed(bound)])
    known.accepted(Bind(1, POD, "node"), 100.0)
    if how == "gone":
        known.delivered([Gone("Pod", "default", "p", uid=POD.uid)])
    assert known.unshown(100.0 + (GIVEN_UP_SECONDS + 1 if how == "never shown" else SHOWN_SECONDS + 1)) == ""


async def test_an_accepted_binding_is_expected_on_the_watch() -> None:
    """The writer notes each, so that the next one is not sent by an old cache."""
    known, answers = Preconditions(), asyncio.Queue[Event]()
    writer = Writer(
        cast("Client", Server()),
        lambda events: answers.put_nowait(events[0]),
        now=lambda: 0.0,
        fence=lambda: float("inf"),
        controller="c",
        instance="i",
        preconditions=known,
    )
    task = asyncio.create_task(writer.run())
    writer.submit([Bind(1, POD, "node")])
    assert await asyncio.wait_for(answers.get(), 10.0) == WriteDone(1, Outcome.OK, "")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert "does not show it" in known.unshown(time.monotonic() + SHOWN_SECONDS + 1)


def test_writes_of_a_cluster_wait_for_the_watch_that_does_not_show_a_binding() -> None:
    """Those that rest on pods; others go on."""
    cluster = KubeCluster(Connection("none", None), lease=None)
    cluster._preconditions.accepted(Bind(1, POD, "node"), time.monotonic() - SHOWN_SECONDS - 1)
    assert "does not show it" in cluster._writer._stale(("Pod", "Node"))
    assert cluster._writer._stale(("Node",)) == ""


async def test_what_has_no_bearing_may_be_old() -> None:
    """Classes and volumes hardly ever change, and hear nothing for hours."""
    caches = Caches(cast("Client", None), lambda _: None)
    for each in CORE_KINDS:
        caches._mirror(each)
        if each.name not in FRESH:
            caches._reflectors[each.resource].heard_at -= 10_000.0
    assert caches.stale() == ""
    for task in caches._tasks.values():
        task.cancel()
    await asyncio.gather(*caches._tasks.values(), return_exceptions=True)


class Watched:
    """As much of a client as a reflector needs: an empty list, one watch that ends in some way, and one that stays."""

    def __init__(self, end: Exception | None) -> None:
        self.end = end
        self.watches = 0

    async def list_pages(self, *_: object) -> AsyncIterator[Page]:
        """One page without objects."""
        body = b'{"kind":"NodeList","metadata":{"resourceVersion":"7"},"items":[]}'
        yield Page(ListMeta(resource_version="7"), body)

    async def watch_lines(self, *_: object, **__: object) -> AsyncIterator[list[bytes]]:
        """Accepted, and then over."""
        self.watches += 1
        yield []
        if self.watches > 1:
            await asyncio.Event().wait()
        if self.end is not None:
            raise self.end


@pytest.mark.parametrize(
    ("end", "silence", "reason"),
    [
        (None, 90.0, "closed"),
        (SilentError("silent"), 30.0, "renewed"),
        (SilentError("silent"), 90.0, "silent"),
        (UnreachableError("cut"), 30.0, "broken"),
    ],
)
async def test_an_idle_watch_has_not_broken(end: Exception | None, silence: float, reason: str) -> None:
    """What is asked anew before the server's bookmark is due, or was closed by it in time, is counted as regular."""
    ended: list[str] = []

    def observe(name: str, value: float, labels: Mapping[str, str]) -> None:
        if name == "watch_ended" and value:
            ended.append(labels["reason"])

    kind = next(each for each in CORE_KINDS if each.name == "Node")
    client = cast("Client", Watched(end))
    reflector = Reflector(kind, client, Converter(), lambda _: None, observe=observe, silence_seconds=silence)
    running = asyncio.create_task(reflector.run())
    await wait_until(lambda: ended)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert ended == [reason]
    assert (reflector.problem, reflector.listed.is_set()) == ("", True)
