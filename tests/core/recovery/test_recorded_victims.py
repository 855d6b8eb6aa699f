"""A process that takes over removes victims as they were to be removed when they were chosen."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.actions import Mark, Remove, SuspendJob, Unmark, WithdrawNomination, Write
from gangsched.core.actuation.records import owners_of
from gangsched.core.events import Outcome
from gangsched.model.records import Condition
from tests.builders import gang, node, pod
from tests.core.eviction.jobs import MEMBERS, job, nodes, running, wide
from tests.core.harness import Cluster
from tests.core.stories import evicted, names


def removing(write: Write) -> bool:
    """Is it a removal?"""
    return isinstance(write, Remove | SuspendJob)


@pytest.mark.parametrize(
    ("then", "now", "method"),
    [
        ({"failed": 6}, {"failed": 0, "backoff_limit": 100}, "suspend"),
        ({"backoff_limit": 100}, {"failed": 6}, "delete"),
    ],
    ids=["it would have ended", "it would have survived"],
)
def test_the_recorded_method_is_used(then: dict[str, Any], now: dict[str, Any], method: str) -> None:
    """Whether its Job would survive the loss of the victims may have changed since they were marked; one that has lost
    the first of them loses the others too.
    """
    cluster = Cluster(*nodes(), job(**then), *running(), wide())
    cluster.slow = removing
    cluster.run()
    marked = {name: owners_of(found)[0].method for (_, name), found in cluster.pods.items() if owners_of(found)}
    assert set(marked.values()) == {method}
    first = {min(marked)} if method == "delete" else set[str]()
    for name in first:
        cluster.answer(name)
    cluster.show(job(**now))
    cluster.restart()
    cluster.log.clear()
    cluster.run()
    assert names(cluster, Mark) | names(cluster, Unmark) == set()
    if method == "suspend":
        assert len(marked) == MEMBERS
        assert names(cluster, SuspendJob) == {"train"}
        assert names(cluster, Remove) == set()
    else:
        assert names(cluster, SuspendJob) == set()
        assert names(cluster, Remove) == set(marked) - first


@pytest.mark.parametrize("minimum", [1, 2], ids=["a member alone", "the gang"])
def test_the_recorded_unit_is_used(minimum: int) -> None:
    """One of two members was to leave alone or with the other, and its removal has begun. What minimum the gang has by
    now does not matter: who was not on the list stays, and who was leaves, marked or not.
    """
    cluster = Cluster(
        node("n1"),
        node("n2"),
        gang("low").min(minimum),
        *(pod(f"w{n}").cpu(3).priority(1).gang("low").on(f"n{n}").created(-60.0) for n in (1, 2)),
        pod("p").cpu(3).priority(5),
    )
    cluster.slow = removing
    cluster.run()
    (first, *others) = sorted(name for (_, name), found in cluster.pods.items() if owners_of(found))
    assert len(others) == minimum - 1
    cluster.answer(first)
    for name in others:
        cluster.change(name, disruption=None, evicted_for=None)
    cluster.show(gang("low").min(3 - minimum))
    cluster.run()
    cluster.restart()
    cluster.slow = lambda _: False
    cluster.run()
    assert evicted(cluster) == {first, *others}


def begun() -> Cluster:
    """A gang of three is to leave for another one, and w1 of it is gone."""
    cluster = Cluster(
        *(node(f"n{n}") for n in (1, 2, 3)),
        gang("low").min(3),
        *(pod(f"w{n}").cpu(3).priority(1).gang("low").on(f"n{n}") for n in (1, 2, 3)),
        *(pod(f"p{n}").cpu(3).priority(5).gang("g") for n in (1, 2, 3)),
        gang("g").min(3).timeout(60),
    )
    cluster.slow = removing
    cluster.run()
    cluster.answer("w1")
    cluster.leave("w1")
    return cluster


@pytest.mark.parametrize(("on_record", "found"), [(True, {"w2", "w3"}), (False, set[str]())])
def test_a_mark_that_others_have_taken_back_is_no_sign_of_an_unfinished_list(on_record: bool, found: set[str]) -> None:
    """Of a gang w1 is gone, w2 is marked, and w3 was, as it says still: the list was complete, so w1 may have been
    removed by it, and the others are of no use. Were w3 never marked, w1 would have gone by itself.
    """
    cluster = begun()
    taken_back = Condition("False", "PreemptionByScheduler", "")
    cluster.change("w3", disruption=taken_back, **({} if on_record else {"evicted_for": None}))
    cluster.restart()
    cluster.show(node("n4"), node("n5"), node("n6"))
    cluster.slow = lambda _: False
    cluster.run()
    assert evicted(cluster) == found


def test_a_list_of_which_all_marks_are_taken_back_has_begun_all_the_same() -> None:
    """Of a gang w1 is gone. The others say still for whom they leave, and room has turned up: they are of no use."""
    cluster = begun()
    for name in ("w2", "w3"):
        cluster.change(name, disruption=Condition("False", "PreemptionByScheduler", ""))
    cluster.restart()
    cluster.show(node("n4"), node("n5"), node("n6"))
    cluster.slow = lambda _: False
    cluster.run()
    assert evicted(cluster) == {"w2", "w3"}


def test_a_begun_list_is_finished_though_a_mark_cannot_be_written_at_once() -> None:
    """Of a gang w1 has been removed and is gone, and others have taken the mark of w3 back: it is written again, the
    second time with success.
    """
    cluster = begun()
    cluster.change("w3", disruption=Condition("False", "PreemptionByScheduler", ""))
    cluster.restart()
    cluster.slow = lambda _: False
    answers = [(Outcome.TRANSIENT, "no answer")]
    cluster.judge = lambda write: answers.pop() if isinstance(write, Mark) and answers else None
    cluster.run()
    assert names(cluster, Unmark) | names(cluster, WithdrawNomination) == set()
    assert evicted(cluster) == {"w2", "w3"}
