"""What owners and classes say against evictions: never, or not by everybody, or not yet."""

from __future__ import annotations

import math

import msgspec
import pytest

from gangsched.core import events as ev
from gangsched.core.actions import Remove
from gangsched.core.decision import PREEMPT, UNSCHEDULABLE, Decision
from gangsched.model import wire
from gangsched.model.convert import Converter
from gangsched.model.convert_refused import refused_class
from gangsched.model.errors import FieldError
from gangsched.model.preemptible import (
    EVICTION_COST,
    NEVER,
    PREFIXES,
    PRIORITY_BOOST,
    TOLERATION_SECONDS,
    preemption_toleration,
    stakes_of,
)
from gangsched.model.records import PriorityClass, Stakes
from tests.builders import node, pod
from tests.core.harness import Built, Cluster, plan, victims
from tests.core.queues import job, objects, owned, queued
from tests.core.quota.world import queue
from tests.core.stories import names

NOW = 1000.0


def decided(*running: Built, priority: int = 9, now: float = NOW, ignore: tuple[str, ...] = ()) -> Decision:
    """What is decided about a pod that wants the node of four CPUs."""
    new = pod("new").cpu(4).priority(priority)
    return plan(node("n").cpu(4), *running, new, now=now, ignore_keys=ignore)["d/new"]


# -- eviction cost -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("raw", "never"), [(NEVER, True), (NEVER - 1, False), (-(2**31), False)])
def test_the_largest_eviction_cost_says_never(raw: int, never: bool) -> None:
    """The largest of 32 bits, and no other; a deletion cost says it at no value."""
    stakes, mistake = stakes_of({EVICTION_COST: str(raw)}, of_pod=True)
    assert (stakes.never, mistake) == (never, None)
    assert not stakes_of({"controller.kubernetes.io/pod-deletion-cost": str(raw)}, of_pod=True)[0].never
    found = decided(pod("a").cpu(4).priority(1).on("n").field(stakes=stakes))
    assert found.outcome == (UNSCHEDULABLE if never else PREEMPT)


def test_who_is_never_evicted_is_named() -> None:
    """In the message, and in what is spared, with the annotation."""
    found = decided(pod("a").cpu(4).priority(1).on("n").field(stakes=Stakes(cost=NEVER, never=True)))
    assert "it would fit without pod d/a, which is never evicted" in found.message
    assert [(s.unit.name, EVICTION_COST in s.reason) for s in found.spared] == [("d/a", True)]


def test_an_ignored_key_protects_nobody() -> None:
    """The pod is the dearest then, not the safest."""
    dear = pod("a").cpu(4).priority(1).on("n").field(stakes=Stakes(cost=NEVER, never=True))
    assert victims(decided(dear, ignore=(EVICTION_COST,))) == ["a"]
    other = pod("b").cpu(4).priority(1).on("m").field(stakes=Stakes(cost=NEVER - 1))
    assert victims(decided(dear, node("m").cpu(4), other, ignore=(EVICTION_COST,))) == ["b"]


def test_quota_takes_nobody_who_says_never() -> None:
    """A workload of the queue with such a pod stays too."""
    low = queued("a", "q", 4, priority=1).on("n").field(stakes=Stakes(cost=NEVER, never=True))
    rules = objects(queue("q", cpu=4, within="LowerPriority"))
    found = plan(node("n").cpu(9), *rules, low, queued("new", "q", 4, priority=9), now=NOW)["d/new"]
    assert found.outcome == UNSCHEDULABLE


# -- priority boost ----------------------------------------------------------------------------------------------


def boosted(boost: int | None, ignore: tuple[str, ...] = (), **newcomer: int) -> Decision:
    """Of two workloads of equal priority, ``a`` is the one that began last, and has this boost. The queue is full."""
    rules = objects(queue("q", cpu=8, within="LowerPriority"))
    running = [queued(name, "q", 4, priority=1).on("n", since) for name, since in (("a", 50.0), ("b", 10.0))]
    running[0] = running[0].field(stakes=Stakes(boost=boost))
    new = queued("new", "q", 4, priority=newcomer.get("priority", 5))
    return plan(node("n").cpu(99), *rules, *running, new, now=NOW, ignore_keys=ignore)["d/new"]


@pytest.mark.parametrize(("boost", "victim"), [(None, "a"), (0, "a"), (-1, "a"), (1, "b"), (2**31 - 1, "b")])
def test_a_boost_changes_who_leaves_for_quota(boost: int | None, victim: str) -> None:
    """With no boost it is the one that began last; with one it has the higher priority of the two."""
    assert victims(boosted(boost)) == [victim]


def test_a_boost_can_protect_from_who_is_not_above_it() -> None:
    """Raised to the priority of the newcomer, no workload of the queue is lower; and lowered below it, one is."""
    stakes = Stakes(boost=4)
    rules = objects(queue("q", cpu=4, within="LowerPriority"))
    held = queued("a", "q", 4, priority=1).on("n").field(stakes=stakes)

    def outcome(held: Built, priority: int, ignore: tuple[str, ...] = ()) -> str:
        new = queued("new", "q", 4, priority=priority)
        return plan(node("n").cpu(99), *rules, held, new, now=NOW, ignore_keys=ignore)["d/new"].outcome

    assert outcome(held, 5) == UNSCHEDULABLE
    assert outcome(held, 6) == PREEMPT
    assert outcome(held, 5, (PRIORITY_BOOST,)) == PREEMPT
    lowered = queued("a", "q", 4, priority=5).on("n").field(stakes=Stakes(boost=-1))
    assert outcome(lowered, 5) == PREEMPT


def test_the_nearest_boost_counts() -> None:
    """A Job's counts for its pods until one of them has its own; what is no number is ignored with a remark."""
    made = msgspec.structs.replace(job("a", "q", 4), stakes=Stakes(boost=9))
    rules = objects(queue("q", cpu=4, within="LowerPriority"))

    def outcome(*boost: int) -> str:
        held = owned("a", 4).priority(1).on("n").field(stakes=Stakes(boost=boost[0] if boost else None))
        new = queued("new", "q", 4, priority=5)
        return plan(node("n").cpu(99), *rules, made, held, new, now=NOW)["d/new"].outcome

    assert outcome() == UNSCHEDULABLE
    assert outcome(0) == PREEMPT
    wrong, mistake = stakes_of({PRIORITY_BOOST: "much"})
    assert wrong.boost is None
    assert mistake is not None
    assert PRIORITY_BOOST in mistake.field


def test_a_boost_that_is_taken_back_wakes_who_waits() -> None:
    """The gang is decided anew as soon as the workload can be its victim, and not before."""
    held = queued("a", "q", 4, priority=1).on("n").field(stakes=Stakes(boost=9))
    cluster = Cluster(node("n").cpu(99), *objects(queue("q", cpu=4, within="LowerPriority")), held)
    cluster.show(queued("new", "q", 4, priority=5))
    cluster.pass_time(60)
    assert not names(cluster, Remove)
    cluster.change("a", stakes=Stakes())
    cluster.run()
    assert names(cluster, Remove) == {"a"}


# -- toleration --------------------------------------------------------------------------------------------------


def tolerant(seconds: float, priority: int = 5) -> list[Built]:
    """A pod that has run since 100 s, whose class tolerates preemption by lower priorities than this."""
    made = PriorityClass("batch", preemptable_from=priority, toleration_seconds=seconds)
    return [ev.Changed(made), pod("a").cpu(4).priority(1).on("n", 100.0).field(priority_class="batch")]


@pytest.mark.parametrize(
    ("seconds", "priority", "outcome"),
    [(900.0, 4, PREEMPT), (901.0, 4, UNSCHEDULABLE), (901.0, 5, PREEMPT), (math.inf, 4, UNSCHEDULABLE),
     (math.inf, 5, PREEMPT), (0.0, 4, PREEMPT)],
)  # fmt: skip
def test_a_class_tolerates_lower_priorities_for_a_time(seconds: float, priority: int, outcome: str) -> None:
    """Those below its bound may not evict its pods before these have run that long; others may at once."""
    assert decided(*tolerant(seconds), priority=priority).outcome == outcome


def test_it_is_told_until_when() -> None:
    """And of a toleration for ever that it is one; then there is no moment to wait for."""
    found = decided(*tolerant(1000.0), priority=4)
    assert "may be evicted from 1970-01-01T00:18:20Z" in found.spared[0].reason
    found = decided(*tolerant(math.inf), priority=4)
    assert found.spared[0].reason == "it tolerates preemption by this priority for ever, as its PriorityClass says"
    assert "may be evicted from" not in found.message


def test_a_gang_waits_for_the_end_of_a_toleration() -> None:
    """It is decided again by itself when the time is over, and never where there is no end."""
    for seconds, gone in ((1000.0, True), (math.inf, False)):
        cluster = Cluster(node("n").cpu(4), *tolerant(seconds), pod("new").cpu(4).priority(4))
        cluster.now = NOW
        cluster.pass_time(300)
        assert (cluster.pod("a").deleting_since is not None) is gone


def test_a_toleration_for_ever_can_be_ignored() -> None:
    """Then it is none; one that ends is honoured all the same."""
    assert victims(decided(*tolerant(math.inf), priority=4, ignore=(TOLERATION_SECONDS,))) == ["a"]
    assert victims(decided(*tolerant(901.0), priority=4, ignore=(TOLERATION_SECONDS,))) == []


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    ("said", "expected"),
    [({}, (11, 0.0)), ({"toleration-seconds": "60"}, (11, 60.0)), ({"toleration-seconds": "-1"}, (11, math.inf)),
     ({"minimum-preemptable-priority": "500"}, (500, 0.0))],
)  # fmt: skip
def test_annotations_of_a_class(prefix: str, said: dict[str, str], expected: tuple[int, float]) -> None:
    """Without a bound, every higher priority may evict."""
    notes = {prefix + key: value for key, value in said.items()}
    assert preemption_toleration(notes, 10) == expected
    made = Converter().priority_class(
        wire.PriorityClass(metadata=wire.ObjectMeta(name="c", annotations=notes), value=10)
    )
    assert (made.preemptable_from, made.toleration_seconds) == expected


@pytest.mark.parametrize("raw", ["", "1h", "1.5", "9" * 30])
def test_what_cannot_be_read_of_a_class_counts_as_not_said(raw: str) -> None:
    """It is told, and protects nobody."""
    notes = {TOLERATION_SECONDS: raw}
    with pytest.raises(FieldError, match="toleration-seconds"):
        preemption_toleration(notes, 10)
    made = refused_class(wire.PriorityClass(metadata=wire.ObjectMeta(name="c", annotations=notes), value=10))
    assert made.toleration_seconds == 0.0
