"""What owners and classes say against evictions: never, or not by everybody, or not yet."""

from __future__ import annotations

import math

import pytest

from gangsched.core import events as ev
from gangsched.core.decision import PREEMPT, UNSCHEDULABLE, Decision
from gangsched.model import wire
from gangsched.model.convert import Converter
from gangsched.model.convert_refused import refused_class
from gangsched.model.errors import FieldError
from gangsched.model.preemption_toleration import PREFIXES, TOLERATION_SECONDS, preemption_toleration
from gangsched.model.records import PriorityClass, Stakes
from gangsched.model.stakes import EVICTION_COST, NEVER, stakes_of
from tests.builders import node, pod
from tests.core.harness import Built, Cluster, plan, victims
from tests.core.queues import objects, queued
from tests.core.quota.world import queue

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
