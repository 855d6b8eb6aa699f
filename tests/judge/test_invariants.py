"""Each check finds what it is there for, in a run that a bad scheduler could have made, and nothing in a good one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from gangsched.cluster.sim.history import (
    DELETE,
    DISRUPTION_CONTROLLER,
    JOB_CONTROLLER,
    SUSPEND,
    UNMARK,
    USER,
    Cause,
    History,
)
from gangsched.core.actions import Bind, JobRef, Remove, SuspendJob, Unmark
from gangsched.core.events import Changed, Outcome
from gangsched.messages import notes
from gangsched.model.queues import STOP_DRAIN, STOP_HOLD, STOP_NONE, ClusterQueue
from gangsched.model.records import Job, Owner
from gangsched.model.times import render_time
from tests.cluster.sim.objects import changed, event, gang, get, node, outcomes, pod, ref, world
from tests.judge import invariants
from tests.judge.disrupted import drained_while_open
from tests.judge.made_up import (
    BIND_A,
    BIND_B,
    MARK_X,
    MARK_Y,
    NOMINATE_A,
    NOMINATE_B,
    PHASES,
    REMOVE_X,
    REMOVE_Y,
    mark,
    nominate,
    preemption,
    remove,
)
from tests.judge.rounds import rounds

UNMARK_X = Unmark(5, ref("x"), "not needed")


def after(*actions: Any) -> History:
    """What has happened when these were written, one after another."""
    there = preemption()
    outcomes(there, *actions)
    return there.history


def test_a_good_run_violates_nothing() -> None:
    """Nominate, mark, remove, wait, bind: no check complains."""
    there = preemption()
    outcomes(there, *PHASES)
    there.clock.advance_to(5.0)
    assert outcomes(there, BIND_A, BIND_B) == [Outcome.OK, Outcome.OK]
    there.clock.advance_to(10.0)
    assert invariants.violations(there.history) == []
    (only,) = rounds(there.history).plans.values()
    assert [len(phase) for phase in (only.nominated, only.marked, only.removed, only.bound)] == [2, 2, 2, 2]


# -- room ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bound", "to", "text"),
    [("b", "n1", "ns/b on n1: cpu 6000 of 4000"), ("b", "n2", "cpu 7000 of 4000"), ("a", "gone", "no such node")],
)
def test_room_that_is_given_twice_is_found(bound: str, to: str, text: str) -> None:
    """Beside a member, beside a victim that has not left, and on a node that nobody knows."""
    there = world(node("n1"), node("n2"), pod("x", 4, node="n2", grace_seconds=3.0), pod("a", 3), pod("b", 3))
    outcomes(there, remove("x"), Bind(1, ref("a"), "n1") if to == "n1" else remove("x"), Bind(2, ref(bound), to))
    there.clock.advance_to(0.5)
    assert any(text in found for found in invariants.over_allocated(there.history))


def test_over_allocation_of_the_input_is_not_ours() -> None:
    """A node that was overfull before is reported only when the scheduler adds to it."""
    there = world(node("n1"), pod("x", 3, node="n1"), pod("y", 3, node="n1"))
    assert invariants.over_allocated(there.history) == []


@pytest.mark.parametrize(("bound", "lost", "found"), [("a", "", True), ("ab", "", False), ("ab", "a", False)])
def test_partial_gangs_are_found(bound: str, lost: str, found: bool) -> None:
    """A gang of two with one bound member is partial; with two it is not, also if one is lost later."""
    there = world(node("n1"), gang("g", 2), pod("a", gang="g"), pod("b", gang="g"), pod("c", gang="g"))
    outcomes(there, *(Bind(1, ref(name), "n1") for name in bound), *map(remove, lost))
    there.clock.advance_to(60.0)
    assert bool(invariants.partial_gangs(there.history)) is found


# -- evictions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "text"),
    [
        ([NOMINATE_A, MARK_X, NOMINATE_B, MARK_Y, REMOVE_X, REMOVE_Y], "ns/b nominated after a victim was marked"),
        ([NOMINATE_A, NOMINATE_B, MARK_X, REMOVE_X, MARK_Y, REMOVE_Y], "ns/y marked after a victim was removed"),
        ([MARK_X, REMOVE_X], "nobody was nominated for it"),
        ([*PHASES, nominate("a", "n2", "p2"), nominate("b", "n1", "p2")], ""),
        ([*PHASES[:5], nominate("a", "n2", "p2"), nominate("b", "n1", "p2"), mark("y", "p2"), REMOVE_Y], ""),
    ],
)
def test_phases_out_of_order_are_found(order: Sequence[Any], text: str) -> None:
    """Each phase of a plan is complete before the next one begins; a second plan of the gang starts anew."""
    found = invariants.phases_out_of_order(after(*order))
    assert found == [] if not text else found[0].endswith(text)
    assert all(": ns/g, plan p1: " in each for each in found)


@pytest.mark.parametrize(("owner", "found"), [("ns/j", 0), ("ns/g", 1)])
def test_a_suspended_job_has_nobody_to_nominate(owner: str, found: int) -> None:
    """Its plan begins with its marks; so does one that finishes what is left of a gang."""
    there = preemption()
    there.store.apply(event(Job("ns", "j", "uid-j", suspended=True)), Cause(USER, SUSPEND))
    rest = mark("y", notes.rest_of(plan="p0"), "ns/h")
    outcomes(there, mark("x", "p1", owner), REMOVE_X, rest, REMOVE_Y)
    assert len(invariants.phases_out_of_order(there.history)) == found


def test_a_pod_on_which_two_plans_stand_is_found() -> None:
    """A pod has one owner; a stronger gang takes it over."""
    one, two = mark("x", "p1"), mark("x", "p2", "ns/h")
    assert invariants.shared_victims(after(one, two)) == []
    owners = f"{one.owners[: one.owners.index(']')]},{two.owners[two.owners.index('[') + 1 :]}"
    (text,) = invariants.shared_victims(after(msgspec.structs.replace(one, owners=owners)))
    assert text.endswith("ns/x leaves for ns/g, ns/h")


@pytest.mark.parametrize(("before", "found"), [([], 1), ([MARK_X], 0), ([MARK_X, UNMARK_X], 1)])
def test_removals_without_a_mark_are_found(before: Sequence[Any], found: int) -> None:
    """A pod that was not marked, or no longer, was in no plan."""
    assert len(invariants.unmarked_removals(after(*before, REMOVE_X))) == found


def test_a_removal_of_what_terminates_already_removes_nothing() -> None:
    """Somebody else deleted the pod, whose mark was taken back, before our removal came."""
    there = preemption()
    there.store.put_pod(changed(get(there, "x"), deleting_since=there.clock.stamp + 3.0), Cause(JOB_CONTROLLER, DELETE))
    assert outcomes(there, REMOVE_X) == [Outcome.OK]
    assert invariants.unmarked_removals(there.history) == []


@pytest.mark.parametrize("marked", [True, False])
def test_a_suspension_over_a_pod_without_a_mark_is_found(marked: bool) -> None:
    """A Job's pods are marked before it is suspended."""
    there = world(node("n1"), pod("z", 1, node="n1", owner=Owner("Job", "j", "uid-j")), Job("ns", "j", "uid-j"))
    suspends = SuspendJob(5, JobRef("ns", "j", "uid-j"), "1", "sched", "ns/g", "p1")
    outcomes(there, *([mark("z")] if marked else []), suspends)
    assert len(invariants.unmarked_removals(there.history)) == (not marked)


def test_marks_that_nobody_acts_on_are_found() -> None:
    """A victim that is marked and then forgotten; one that was unmarked, was removed or terminates is fine."""
    there = preemption()
    outcomes(there, MARK_X, MARK_Y)
    assert len(invariants.abandoned_marks(there.history)) == 2
    assert invariants.abandoned_marks(there.history, there.clock.elapsed_seconds - 10.0) == []
    outcomes(there, REMOVE_X)
    (text,) = invariants.abandoned_marks(there.history)
    assert "ns/y was marked and is neither removed nor unmarked" in text
    outcomes(there, Unmark(5, ref("y"), "not needed"))
    assert invariants.abandoned_marks(there.history) == []


@pytest.mark.parametrize(("seconds", "found"), [(59.0, 0), (61.0, 1)])
def test_marks_that_the_controller_takes_back_are_found(seconds: float, found: int) -> None:
    """That it had to is the scheduler's fault, unless a plan had written it just before."""
    there = preemption()
    outcomes(there, MARK_X)
    there.clock.advance_to(seconds)
    there.store.put_pod(changed(get(there, "x"), disruption=None), Cause(DISRUPTION_CONTROLLER, UNMARK))
    assert len(invariants.abandoned_marks(there.history)) == found


@pytest.mark.parametrize(("later", "found"), [(5.0, 2), (-5.0, 0)])
def test_who_leaves_before_the_time_is_found(later: float, found: int) -> None:
    """Marked, and then removed, before the time that stood on it."""
    there = preemption()
    told = mark("x", not_before=render_time(there.clock.now + later))
    outcomes(there, msgspec.structs.replace(told, message=""))
    assert invariants.left_too_early(there.history, there.clock.start) == []
    outcomes(there, told, REMOVE_X)
    assert len(invariants.left_too_early(there.history, there.clock.start)) == found


# -- queues --------------------------------------------------------------------------------------------------------

TEXT = "sched: draining ClusterQueue a, which is stopped: ns/g leaves"


@pytest.mark.parametrize("policy", [STOP_NONE, STOP_HOLD, STOP_DRAIN])
def test_a_removal_for_an_open_queue_is_found(policy: str) -> None:
    """The queue has not drained, or no longer; a moment after it was opened nobody could know."""
    there = preemption()
    for each in (STOP_DRAIN, policy):
        there.store.apply(Changed(ClusterQueue("a", stop=each)), Cause(USER, SUSPEND))
    drains = [mark(name, "d1", "ClusterQueue a", "drain", TEXT) for name in "xy"]
    outcomes(there, *drains, Remove(3, ref("x"), mark=TEXT))
    assert drained_while_open(there.history) == []
    there.clock.advance_to(5.0)
    outcomes(there, Remove(3, ref("y"), mark=TEXT))
    assert len(drained_while_open(there.history)) == (policy != STOP_DRAIN)
    assert invariants.unmarked_removals(there.history) == []
    assert invariants.phases_out_of_order(there.history) == []
