"""Workloads are spared where evictions would lead in a circle: who was evicted often, and who is no weaker."""

from __future__ import annotations

import pytest

from gangsched.core.decision import Decision, Preempt, Unschedulable
from gangsched.core.state.eviction_history import PROTECTED_SECONDS, WINDOW_SECONDS, EvictionHistory, unit_of
from gangsched.model.records import Pod
from tests.builders import node, pod
from tests.core.harness import plan, verdict, world
from tests.core.queues import big, objects, queued
from tests.core.quota.world import queue

HOUR = WINDOW_SECONDS


def evictions(*times: float, pods: int = 1) -> EvictionHistory:
    """Of pods of one ReplicaSet, of which there are so many."""
    out = EvictionHistory()
    for n in range(pods):
        out.seen(None, replica(n))
    for at in times:
        out.note(replica(0), at)
    return out


def replica(n: int = 0) -> Pod:
    """A pod of that ReplicaSet."""
    return pod(f"web-{n}").owner("ReplicaSet", "web").on("n1").obj()


@pytest.mark.parametrize(("times", "protected"), [((0.0, 1.0), False), ((0.0, 1.0, 2.0), True)])
def test_a_unit_is_protected_from_the_third_eviction_on(times: tuple[float, ...], protected: bool) -> None:
    """Two in an hour protect nothing."""
    until = evictions(*times).protected_until(unit_of(replica()), 3, 10.0)
    assert until == (times[-1] + PROTECTED_SECONDS if protected else 0.0)


@pytest.mark.parametrize(("now", "protected"), [(HOUR - 1, True), (HOUR, False)])
def test_only_evictions_of_the_last_hour_count(now: float, protected: bool) -> None:
    """The first of the three is an hour old at 3,600 s."""
    found = evictions(0.0, 1800.0, 3500.0)
    assert bool(found.protected_until(unit_of(replica()), 3, now)) is protected
    assert found.repeatedly(3, now) == int(protected)


@pytest.mark.parametrize(("pods", "protected"), [(2, True), (3, False)])
def test_a_unit_was_evicted_once_when_as_many_pods_were_as_it_has(pods: int, protected: bool) -> None:
    """Six evictions are three of a controller with two pods, and two of one with three."""
    found = evictions(*map(float, range(6)), pods=pods)
    assert bool(found.protected_until(unit_of(replica()), 3, 10.0)) is protected


def test_pods_that_are_gone_are_no_pods_of_the_unit() -> None:
    """Its size is that of those who live."""
    found = evictions(0.0, 1.0, 2.0, pods=2)
    assert found.times(unit_of(replica()), 3.0) == 1
    found.seen(replica(1), None)
    assert found.times(unit_of(replica()), 3.0) == 3


def borrowed(priority: int, evicted: int, **options: int) -> Decision:
    """A workload of this priority asks for its quota back from pods of priority 50 that were evicted so often."""
    core = world(
        big(),
        *objects(queue("a", "co", cpu=4, reclaim="Any"), queue("b", "co", cpu=0)),
        queued("theirs-1", "b", 4, priority=50).owner("ReplicaSet", "theirs").on("n1"),
        queued("mine", "a", 4, priority=priority),
        **options,
    )
    theirs, mine = core.world.find("d", "theirs-1"), core.world.find("d", "mine")
    assert theirs is not None
    assert mine is not None
    for n in range(evicted):
        core.world.evictions.note(theirs, float(n))
    (found,) = verdict(core, [mine.gang], now=10.0).decisions
    return found


@pytest.mark.parametrize(("evicted", "outcome"), [(2, Preempt), (3, Unschedulable)])
def test_quota_is_not_taken_back_from_what_was_evicted_three_times(evicted: int, outcome: type) -> None:
    """The workload is named, with the time from which it may be evicted again, when the gang is decided anew."""
    found = borrowed(10, evicted)
    assert isinstance(found, outcome)
    if isinstance(found, Unschedulable):
        assert "d/theirs-1: it was evicted 3 times in the last hour (preemption.protectAfterEvictions)" in found.message
        assert "it may be evicted again from 1970-01-01T00:30:02Z" in found.message
        assert found.retry_at == 2.0 + PROTECTED_SECONDS


@pytest.mark.parametrize(("priority", "outcome"), [(50, Unschedulable), (51, Preempt)])
def test_who_is_stronger_in_both_orders_may(priority: int, outcome: type) -> None:
    """A higher priority of pods and workload protects from nothing."""
    assert isinstance(borrowed(priority, 3), outcome)


def test_protection_can_be_switched_off() -> None:
    """With 0 quota is taken back at once, however often."""
    assert isinstance(borrowed(10, 30, protect_after_evictions=0), Preempt)


@pytest.mark.parametrize(("priority", "outcome"), [(50, Unschedulable), (51, Preempt)])
def test_for_nodes_alone_only_who_is_lower_in_both_orders_is_evicted(priority: int, outcome: type) -> None:
    """There is quota for both, and room for one: the rules of quota give no right to the other's node."""
    (found,) = plan(
        node("n1").cpu(4),
        *objects(queue("a", "co", cpu=8, reclaim="Any", within="LowerOrNewerEqualPriority")),
        queued("theirs", "a", 4, priority=50).on("n1").created(5.0),
        queued("mine", "a", 4, priority=priority).created(1.0),
    ).values()
    assert isinstance(found, outcome)
