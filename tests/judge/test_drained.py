"""The checks on drained queues find what they are there for, in runs that a bad scheduler could have made."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.cluster.sim import World
from gangsched.cluster.sim.history import CHANGE, USER, Cause
from gangsched.core.actions import JobRef, Mark, Remove, SuspendJob, Unmark
from gangsched.core.events import Changed, Gone
from gangsched.model.queues import STOP_DRAIN, STOP_HOLD, STOP_NONE, ClusterQueue
from gangsched.model.records import Job, Owner, Pod
from tests.cluster.sim.objects import event, node, outcomes, pod, ref, world
from tests.judge.disrupted import drained_before_marked, drained_while_open, marked_while_open
from tests.judge.invariants import unplanned_removals, unplanned_suspensions, violations

TEXT = "sched: draining ClusterQueue a, which is stopped: ns/g leaves"
MARK_X, MARK_Y = Mark(1, ref("x"), TEXT), Mark(2, ref("y"), TEXT)
REMOVE_X, REMOVE_Y = Remove(3, ref("x"), mark=TEXT), Remove(4, ref("y"), mark=TEXT)
SUSPEND = SuspendJob(5, JobRef("ns", "j", "uid-j"), "1", "sched", "ClusterQueue a", "drain of ns/j")


def cluster(policy: str = STOP_DRAIN) -> World:
    """Two pods on a node, one of them a Job's, and queue a with this policy."""
    of_job = msgspec.structs.replace(pod("z", 1, node="n1"), owner=Owner("Job", "j", "uid-j"))
    there = world(node("n1"), pod("x", 1, node="n1"), pod("y", 1, node="n1"), of_job, Job("ns", "j", "uid-j"))
    stop(there, policy)
    return there


def stop(there: World, policy: str) -> None:
    """Queue a has this policy from now on."""
    there.store.apply(Changed(ClusterQueue("a", stop=policy)), Cause(USER, CHANGE))


def test_a_good_drain_violates_nothing() -> None:
    """All are marked, then all are removed, while the queue drains."""
    there = cluster()
    outcomes(there, MARK_X, MARK_Y, REMOVE_X, REMOVE_Y, Mark(6, ref("z"), TEXT.replace("ns/g", "ns/j")), SUSPEND)
    there.clock.advance_to(60.0)
    assert violations(there.history) == []


@pytest.mark.parametrize("policy", [STOP_NONE, STOP_HOLD])
def test_a_removal_for_an_open_queue_is_found(policy: str) -> None:
    """The queue has not drained, or no longer; a moment after it was opened nobody could know."""
    there = cluster(policy)
    outcomes(there, MARK_X, REMOVE_X)
    assert len(drained_while_open(there.history)) == 1
    there = cluster()
    outcomes(there, MARK_X, MARK_Y)
    stop(there, policy)
    outcomes(there, REMOVE_X)
    assert drained_while_open(there.history) == []
    there.clock.advance_to(5.0)
    outcomes(there, REMOVE_Y, SUSPEND)
    assert [t.split(": ", 1)[1] for t in drained_while_open(there.history)] == [
        "ns/y left for ClusterQueue a, which was not drained",
        "ns/j left for ClusterQueue a, which was not drained",
    ]


def test_a_removal_for_a_queue_that_is_gone_is_found() -> None:
    """A deleted queue drains nobody, nor does one that has never been there."""
    there = cluster()
    there.store.apply(Gone("ClusterQueue", "", "a"), Cause(USER, CHANGE))
    there.clock.advance_to(5.0)
    other = TEXT.replace("Queue a", "Queue b")
    outcomes(there, MARK_X, REMOVE_X, Mark(6, ref("y"), other), Remove(7, ref("y"), mark=other))
    assert len(drained_while_open(there.history)) == 2


@pytest.mark.parametrize("before", [[], [MARK_X, Unmark(6, ref("x"), "stay")], [Mark(6, ref("x"), "another text")]])
def test_a_removal_without_the_mark_is_found(before: list[Mark | Unmark], monkeypatch: pytest.MonkeyPatch) -> None:
    """Never marked, unmarked since, or marked for something else; the server would let that pass."""
    monkeypatch.setattr(Pod, "disruption_target", property(lambda _: True))
    there = cluster()
    outcomes(there, *before, REMOVE_X)
    assert len(unplanned_removals(there.history)) == 1


def test_a_mark_after_a_removal_of_the_same_workload_is_found() -> None:
    """All pods that run are marked before the first one leaves; to mark one once more is no harm."""
    there = cluster()
    outcomes(there, MARK_X, REMOVE_X, MARK_X, MARK_Y)
    assert len(drained_before_marked(there.history)) == 1


def test_a_suspension_over_a_pod_without_a_mark_is_found() -> None:
    """A Job's pods are marked before it is suspended."""
    there = cluster()
    outcomes(there, SUSPEND)
    assert len(unplanned_suspensions(there.history)) == 1


def test_a_mark_that_outlives_its_queues_stop_is_found() -> None:
    """The queue was opened, the pod stays, and so does its mark."""
    for taken_back in (True, False):
        there = cluster()
        outcomes(there, MARK_X)
        stop(there, STOP_NONE)
        outcomes(there, *([Unmark(6, ref("x"), "stay")] if taken_back else []))
        there.clock.advance_to(5.0)
        there.store.apply(event(pod("later", 1)), Cause(USER, CHANGE))
        assert len(marked_while_open(there.history)) == (not taken_back)
