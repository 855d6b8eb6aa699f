"""Bindings by others that a decision did not know of: what counts as one, and for how long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.cluster.kube.client import ApiError, Client, UnreachableError
from gangsched.cluster.kube.preconditions import Preconditions
from gangsched.cluster.kube.retry import TokenBucket
from gangsched.cluster.kube.writer import Writer
from gangsched.core.actions import Bind, PodRef
from gangsched.core.events import Changed, Event, Gone, Outcome, WriteDone
from gangsched.model.records import Pod
from tests.builders import node, pod


def bind(name: str = "a", to: str = "n1", number: int = 1) -> Bind:
    """A binding of ours."""
    found = pod(name).obj()
    return Bind(number, PodRef(found.namespace, name, found.uid), to)


def seen(name: str, on: str = "n1") -> Changed:
    """The watch shows a pod on a node."""
    return Changed(pod(name).on(on).obj())


def gone(found: Pod) -> Gone:
    """The watch shows that a pod is gone."""
    return Gone("Pod", found.namespace, found.name, found.uid)


def test_only_what_the_decision_has_not_been_told_overtakes_it() -> None:
    """A pod of somebody else on the node, in events after those that had been taken in; other nodes do not matter."""
    preconditions = Preconditions()
    preconditions.delivered([seen("x")])
    assert preconditions.overtakes(bind(), 0) == "d/x has been bound to n1 since this was decided"
    assert preconditions.overtakes(bind(), 1) == ""
    preconditions.delivered([Changed(node("n1").obj()), seen("y")])
    assert "d/y" in preconditions.overtakes(bind(), 2)
    assert preconditions.overtakes(bind(to="n2"), 0) == ""
    assert preconditions.overtakes(bind(), 3) == ""


@pytest.mark.parametrize(
    "event",
    [
        Changed(pod("x").obj()),
        Changed(pod("x").on("n1").phase("Succeeded").obj()),
        Changed(pod("x").on("n1").phase("Failed").obj()),
        gone(pod("x").on("n1").obj()),
        Changed(node("n1").obj()),
    ],
    ids=["pending", "succeeded", "failed", "gone", "node"],
)
def test_what_takes_no_room_is_no_news(event: Event) -> None:
    """Only a pod that has been put on the node, and has not ended, overtakes a binding."""
    preconditions = Preconditions()
    preconditions.delivered([event])
    assert preconditions.overtakes(bind(), 0) == ""


def test_a_pod_is_news_once() -> None:
    """Later changes of a pod that was on the node before say nothing new; another incarnation does."""
    preconditions = Preconditions()
    preconditions.delivered([seen("x")])
    preconditions.delivered([seen("x"), Changed(pod("x").on("n1").label(a="b").obj())])
    assert preconditions.overtakes(bind(), 1) == ""
    preconditions.delivered([gone(pod("x").obj()), seen("x")])
    assert preconditions.overtakes(bind(), 3) != ""


def test_our_own_bindings_are_no_news() -> None:
    """They come back by the watch before or after their answer; one that somebody else made instead is news there."""
    preconditions = Preconditions()
    preconditions.leaves(bind("b"))
    preconditions.leaves(bind("c"))
    preconditions.delivered([seen("b"), seen("c", on="n2")])
    assert preconditions.overtakes(bind(), 0) == ""
    assert preconditions.overtakes(bind(to="n2"), 0) != ""


def test_what_may_have_taken_effect_is_not_held_back() -> None:
    """A binding that was sent, or that the watch has shown, is repeated whatever others do, until it is known to have
    failed.
    """
    preconditions = Preconditions()
    preconditions.leaves(bind())
    preconditions.delivered([seen("x")])
    assert preconditions.overtakes(bind(), 0) == ""
    preconditions.failed(bind())
    assert preconditions.overtakes(bind(), 0) != ""
    preconditions.delivered([seen("a"), seen("y")])
    assert preconditions.overtakes(bind(), 0) == ""


def test_what_was_sent_for_one_node_says_nothing_of_another() -> None:
    """A binding that was given up may have been decided anew, for another node."""
    preconditions = Preconditions()
    preconditions.leaves(bind(to="n1"))
    preconditions.delivered([seen("x", "n2")])
    assert preconditions.overtakes(bind(to="n2"), 0) != ""


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.sampled_from("sbg"), st.integers(0, 9), st.integers(0, 9)), max_size=60),
)
def test_memory_is_bounded(most: int, steps: list[tuple[str, int, int]]) -> None:
    """However many nodes and pods there are; the newest binding is always remembered."""
    preconditions, newest, there = Preconditions(most), "", set()
    for kind, number, where in steps:
        name, on = f"p{number}", f"n{where}"
        if kind == "s":
            preconditions.leaves(bind(name, on))
        elif kind == "g":
            preconditions.delivered([gone(pod(name).obj())])
            there.discard(name)
        else:
            ours = preconditions._ours.get(bind(name).pod.uid) == on
            preconditions.delivered([seen(name, on)])
            newest = on if name not in there and not ours else newest
            there.add(name)
    assert len(preconditions._ours) <= most
    assert len(preconditions._newest) <= most
    assert len(preconditions._bound) == len(there)
    assert not newest or preconditions.overtakes(bind("other", newest), -1)


# -- the writer ----------------------------------------------------------------------------------------------------


class Server:
    """As much of a client as the writer needs. Before the bytes of an attempt leave, ``meanwhile`` happens; ``answers``
    are what the attempts meet: an error, or success when there is none left. ``sent`` counts those that left.
    """

    def __init__(self, meanwhile: Callable[[], None] = lambda: None, *answers: Exception | None) -> None:
        self.bucket = TokenBucket(1000.0, 1000)
        self.meanwhile = meanwhile
        self.answers = list(answers)
        self.attempts = self.sent = 0

    async def attempt(self, *_: object, fence: Callable[[], float], **__: object) -> bytes:
        """One attempt, as :class:`Session` makes it."""
        self.attempts += 1
        self.meanwhile()
        if fence() < time.monotonic():
            raise UnreachableError("not sent")
        self.sent += 1
        if self.answers and (error := self.answers.pop(0)) is not None:
            raise error
        return b"{}"


async def write(server: Server, preconditions: Preconditions, *actions: Bind, known: int = 0) -> list[WriteDone]:
    """The answers to these bindings, which were decided when so many events had been taken in."""
    answers = asyncio.Queue[Event]()

    def answered(events: list[Event]) -> None:
        for event in events:
            answers.put_nowait(event)

    writer = Writer(
        cast("Client", server),
        answered,
        now=lambda: 0.0,
        fence=lambda: time.monotonic() + 60.0,
        preconditions=preconditions,
        controller="c",
        instance="i",
    )
    task = asyncio.create_task(writer.run())
    writer.submit(actions, known)
    done = [await asyncio.wait_for(answers.get(), 10.0) for _ in actions]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return cast("list[WriteDone]", done)


async def test_a_binding_that_was_overtaken_while_it_waited_is_not_sent() -> None:
    """The answer says why; bindings to other nodes, and later decisions, are sent."""
    preconditions, server = Preconditions(), Server()
    preconditions.delivered([seen("x")])
    first, second = await write(server, preconditions, bind("a"), bind("b", "n2", 2))
    assert first == WriteDone(1, Outcome.OUTDATED, "d/x has been bound to n1 since this was decided")
    assert second == WriteDone(2, Outcome.OK)
    assert server.attempts == 1
    assert await write(server, preconditions, bind("a"), known=1) == [WriteDone(1, Outcome.OK)]


async def test_a_binding_that_is_overtaken_while_it_gets_its_connection_is_not_sent() -> None:
    """What the watch brings until the bytes leave counts; the answer does not wait for another attempt."""
    preconditions = Preconditions()
    server = Server(lambda: preconditions.delivered([seen("x")]))
    [answer] = await write(server, preconditions, bind())
    assert answer.outcome == Outcome.OUTDATED
    assert (server.attempts, server.sent) == (1, 0)


async def test_a_binding_whose_answer_was_lost_is_repeated_in_spite_of_news() -> None:
    """It may have taken effect: only the same binding again can tell."""
    preconditions = Preconditions()
    server = Server(lambda: None, UnreachableError("lost"))
    server.meanwhile = lambda: preconditions.delivered([seen("x")]) if server.sent else None
    assert await write(server, preconditions, bind()) == [WriteDone(1, Outcome.OK)]
    assert server.sent == 2


async def test_a_binding_that_is_turned_away_later_may_have_taken_effect_before() -> None:
    """The first answer was lost, the second says that there are too many requests: nothing is known of the first."""
    preconditions = Preconditions()
    server = Server(lambda: None, UnreachableError("lost"), ApiError(429, "TooManyRequests", "later", (), 0.01))
    server.meanwhile = lambda: preconditions.delivered([seen("x")]) if server.sent else None
    assert await write(server, preconditions, bind()) == [WriteDone(1, Outcome.OK)]
    assert server.sent == 3


async def test_a_binding_that_was_turned_away_is_looked_at_again() -> None:
    """Too many requests: it has not taken effect, and waits for long."""
    preconditions = Preconditions()
    server = Server(lambda: None, ApiError(429, "TooManyRequests", "later", (), 0.01))
    server.meanwhile = lambda: preconditions.delivered([seen("x")]) if server.sent else None
    [answer] = await write(server, preconditions, bind())
    assert answer.outcome == Outcome.OUTDATED
    assert server.sent == 1


async def test_a_binding_that_failed_leaves_nothing_behind() -> None:
    """Whoever binds the pod then is somebody else."""
    preconditions = Preconditions()
    server = Server(lambda: None, ApiError(404, "NotFound", "gone"))
    assert [a.outcome for a in await write(server, preconditions, bind())] == [Outcome.GONE]
    preconditions.delivered([seen("a")])
    assert preconditions.overtakes(bind("b"), 0) != ""
