"""Each check finds what it is there for, in a run that a bad scheduler could have made, and nothing in a good one."""

import pytest

from gangsched.cluster.sim.history import (
    CREATE,
    DELETE,
    DISRUPTION_CONTROLLER,
    JOB_CONTROLLER,
    SCHEDULER,
    SUSPEND,
    UNMARK,
    USER,
    Cause,
)
from gangsched.core.actions import Bind, Mark, Nominate, Remove, Unmark, WithdrawNomination
from gangsched.core.events import Outcome
from gangsched.model.records import Job
from tests.cluster.sim.objects import changed, event, gang, get, node, outcomes, pod, ref, world
from tests.judge import invariants

MESSAGE = "sched: preempting to accommodate higher priority pods, preemptor: ns/g, triggerpod: ns/a"


def preemption():
    """Two nodes held by x and y, and the gang g of a and b that needs both."""
    return world(
        node("n1"),
        node("n2"),
        pod("x", 4, node="n1", grace_seconds=3.0),
        pod("y", 4, node="n2", grace_seconds=3.0),
        gang("g", 2),
        pod("a", 3, gang="g"),
        pod("b", 3, gang="g"),
    )


def nominate(name, where, plan="p1"):
    """A nomination by this plan."""
    return Nominate(1, ref(name), where, plan, f"plan {plan}")


NOMINATE_A, NOMINATE_B = nominate("a", "n1"), nominate("b", "n2")
MARK_X, MARK_Y = Mark(2, ref("x"), MESSAGE), Mark(2, ref("y"), MESSAGE)
REMOVE_X, REMOVE_Y = Remove(3, ref("x")), Remove(3, ref("y"))
BIND_A, BIND_B = Bind(4, ref("a"), "n1"), Bind(4, ref("b"), "n2")
PHASES = [NOMINATE_A, NOMINATE_B, MARK_X, MARK_Y, REMOVE_X, REMOVE_Y]


def test_a_good_run_violates_nothing():
    """Nominate, mark, remove, wait, bind: no check complains."""
    there = preemption()
    outcomes(there, *PHASES)
    there.clock.advance_to(5.0)
    assert outcomes(there, BIND_A, BIND_B) == [Outcome.OK, Outcome.OK]
    there.clock.advance_to(10.0)
    assert invariants.violations(there.history) == []
    (only,) = invariants.rounds(there.history)
    assert [len(phase) for phase in (only.nominated, only.marked, only.removed, only.bound)] == [2, 2, 2, 2]


def test_over_allocation_is_found():
    """Two pods of three CPUs do not fit a node of four."""
    there = world(node("n1"), pod("a", 3), pod("b", 3))
    outcomes(there, Bind(1, ref("a"), "n1"), Bind(2, ref("b"), "n1"))
    (text,) = invariants.over_allocated(there.history)
    assert "ns/b on n1: cpu 6000 of 4000" in text


def test_over_allocation_of_the_input_is_not_ours():
    """A node that was overfull before is reported only when the scheduler adds to it."""
    there = world(node("n1"), pod("x", 3, node="n1"), pod("y", 3, node="n1"))
    assert invariants.over_allocated(there.history) == []


def test_binding_to_a_node_that_does_not_exist_is_found():
    """A node that nobody knows has no room."""
    there = world(pod("a"))
    outcomes(there, Bind(1, ref("a"), "nowhere"))
    assert "no such node" in invariants.over_allocated(there.history)[0]


def test_what_the_kubelet_rejects_is_found():
    """A pod bound before its predecessor had left fails on its node."""
    there = world(node("n1"), pod("old", 4, node="n1"), pod("a", 4))
    outcomes(there, Remove(1, ref("old")), Bind(2, ref("a"), "n1"))
    there.clock.advance_to(1.0)
    assert "OutOfcpu" in invariants.rejected_by_kubelet(there.history)[0]


@pytest.mark.parametrize(("bound", "found"), [(["a"], True), (["a", "b"], False)])
def test_partial_gangs_are_found(bound, found):
    """A gang of two with one bound member is partial, with two it is not."""
    there = world(node("n1"), gang("g", 2), pod("a", gang="g"), pod("b", gang="g"), pod("c", gang="g"))
    outcomes(there, *(Bind(1, ref(name), "n1") for name in bound))
    assert bool(invariants.partial_gangs(there.history)) is found


def test_a_gang_that_lost_a_member_later_is_not_partial():
    """A member that was bound and then removed by somebody counts as bound."""
    there = world(node("n1"), gang("g", 2), pod("a", gang="g"), pod("b", gang="g"))
    outcomes(there, Bind(1, ref("a"), "n1"), Bind(2, ref("b"), "n1"), Remove(3, ref("a")))
    there.clock.advance_to(60.0)
    assert invariants.partial_gangs(there.history) == []


@pytest.mark.parametrize(
    ("order", "text"),
    [
        ([NOMINATE_A, MARK_X, NOMINATE_B, MARK_Y, REMOVE_X, REMOVE_Y], "ns/b nominated after a victim was marked"),
        ([NOMINATE_A, NOMINATE_B, MARK_X, REMOVE_X, MARK_Y, REMOVE_Y], "ns/y marked after a victim was removed"),
    ],
)
def test_phases_out_of_order_are_found(order, text):
    """Each phase of a plan is complete before the next one begins."""
    there = preemption()
    outcomes(there, *order)
    (found,) = invariants.phases_out_of_order(there.history)
    assert text in found


def test_a_new_plan_may_nominate_again():
    """Phases are those of one plan: a second plan of the gang starts anew."""
    there = preemption()
    outcomes(there, *PHASES, nominate("a", "n2", "p2"), nominate("b", "n1", "p2"))
    assert invariants.phases_out_of_order(there.history) == []


@pytest.mark.parametrize(("again", "found"), [(MARK_X, 0), (MARK_Y, 1)], ids=["one that leaves", "one that stands"])
def test_a_mark_that_follows_an_eviction_is_of_no_plan(again, found):
    """The gang nominates by a second plan while the first is carried out, and x was evicted by that."""
    there = preemption()
    outcomes(there, NOMINATE_A, NOMINATE_B, MARK_X, MARK_Y, REMOVE_X, nominate("a", "n2", "p2"))
    outcomes(there, again, nominate("b", "n1", "p2"))
    assert len(invariants.phases_out_of_order(there.history)) == found


@pytest.mark.parametrize(("between", "found"), [([], 1), ([REMOVE_Y], 0), ([Unmark(3, ref("y"), "stay")], 0)])
def test_a_suspended_job_has_a_new_plan_when_nothing_is_left_on_its_list(between, found):
    """It nominates nobody: a mark after a removal is of a second plan if the first list is done with, else too late."""
    there = preemption()
    job = Job("ns", "g", "uid-job", suspended=True, suspended_by="sched")
    there.store.apply(event(job), Cause(SCHEDULER, SUSPEND))
    there.store.put_pod(pod("z", 4, node="n1"), Cause(USER, CREATE))
    outcomes(there, MARK_X, MARK_Y, REMOVE_X, *between, Mark(2, ref("z"), MESSAGE))
    assert len(invariants.phases_out_of_order(there.history)) == found
    assert len(invariants.rounds(there.history)) == 2 - found


def test_a_victim_that_another_gang_has_marked_since_is_on_its_list():
    """Whoever takes over reads the marks: the first gang is bound although the shared victim still leaves."""
    there = preemption()
    outcomes(there, *PHASES)
    there.store.put_pod(pod("h", 1), Cause(USER, CREATE))
    outcomes(there, Nominate(1, ref("h"), "n2", "p3", "plan p3"))
    outcomes(there, *(Mark(2, ref(name), MESSAGE.replace("ns/g", "ns/h")) for name in "xy"), BIND_A)
    assert invariants.early_binds(there.history) == []


@pytest.mark.parametrize(("said", "found"), [("ns/g", 0), ("ns/h", 1)])
def test_a_removal_belongs_to_the_plan_that_has_marked_its_victim(said, found):
    """Its gang may have nominated by another plan since; the mark that it bears is that of a third, whose marks are not
    complete.
    """
    there = preemption()
    for_h = MESSAGE.replace("ns/g", "ns/h")
    outcomes(there, NOMINATE_A, NOMINATE_B, MARK_X, MARK_Y, nominate("a", "n2", "p2"))
    there.store.put_pod(pod("h", 1), Cause(USER, CREATE))
    outcomes(there, Nominate(1, ref("h"), "n2", "p3", "plan p3"), Mark(2, ref("x"), for_h))
    outcomes(there, Remove(3, ref("x"), mark=MESSAGE.replace("ns/g", said)), Mark(2, ref("y"), for_h))
    assert len(invariants.phases_out_of_order(there.history)) == found


def test_binding_before_the_last_victim_is_gone_is_found():
    """One victim has left, the other has not: no member may be bound."""
    there = preemption()
    outcomes(there, *PHASES[:5])
    there.clock.advance_to(2.0)
    outcomes(there, REMOVE_Y)
    there.clock.advance_to(4.0)
    outcomes(there, BIND_A)
    (text,) = invariants.early_binds(there.history)
    assert text.startswith("at 4.005 s on n1: ns/a of ns/g, plan p1, ")
    assert text.endswith(" bound while victims were still there")


@pytest.mark.parametrize(("cpu", "found"), [(6, 0), (5, 2)])
def test_a_gang_that_fits_beside_its_victims_is_not_bound_early(cpu, found):
    """Other room turns up. A further member takes it first, which has its own from then on, and no second time."""
    there = preemption()
    outcomes(there, *PHASES)
    for late in (gang("g", 3), pod("c", 4, gang="g"), node("n3"), node("n4", cpu)):
        there.store.apply(event(late), Cause(USER, CREATE))
    outcomes(there, Bind(4, ref("c"), "n3"), Bind(5, ref("a"), "n4"), Bind(6, ref("b"), "n4"))
    there.clock.advance_to(5.0)
    assert len(invariants.early_binds(there.history)) == found


@pytest.mark.parametrize(("cpu", "found"), [(6, 0), (5, 2)])
def test_what_is_removed_for_others_once_a_gang_has_been_bound_does_not_make_that_early(cpu, found):
    """Other room has turned up before; what had been marked by then still bears the mark when it goes."""
    there = preemption()
    outcomes(there, NOMINATE_A, NOMINATE_B, MARK_X, MARK_Y)
    there.store.apply(event(node("n4", cpu)), Cause(USER, CREATE))
    outcomes(there, Bind(5, ref("a"), "n4"), Bind(6, ref("b"), "n4"), REMOVE_X, REMOVE_Y)
    there.clock.advance_to(5.0)
    assert len(invariants.early_binds(there.history)) == found


@pytest.mark.parametrize(("cpu", "found"), [(6, 0), (5, 1)])
def test_one_of_a_plan_that_is_bound_already_lacks_nothing(cpu, found):
    """Pods of a Job, each a gang of one, whose plan is for all of them: other room turns up, and one is bound first."""
    ours = [pod(name, 3) for name in "ab"]
    there = world(node("n2"), node("n4", cpu), pod("y", 4, node="n2", grace_seconds=3.0), *ours)
    withdrawn = WithdrawNomination(4, ref("a"), "Withdrawn", "another node is taken instead")
    outcomes(
        there, nominate("a", "n2"), nominate("b", "n4"), Mark(2, ref("y"), MESSAGE.replace("ns/g", "ns/a")), REMOVE_Y
    )
    outcomes(there, withdrawn, Bind(5, ref("a"), "n4"), Bind(6, ref("b"), "n4"))
    there.clock.advance_to(5.0)
    assert len(invariants.early_binds(there.history)) == found


def test_a_victim_that_never_goes_makes_every_bind_early():
    """A history that ends before the victim does is no excuse."""
    there = preemption()
    outcomes(there, *PHASES, BIND_A)
    assert len(invariants.early_binds(there.history)) == 1


def test_removals_without_a_mark_are_found():
    """A pod that was not marked, or no longer, was in no plan."""
    there = preemption()
    outcomes(there, NOMINATE_A, NOMINATE_B, MARK_X, Unmark(3, ref("x"), "never mind"), REMOVE_X, REMOVE_Y)
    found = invariants.unplanned_removals(there.history)
    assert ["ns/x" in found[0], "ns/y" in found[1]] == [True, True]


def test_a_removal_of_what_terminates_already_removes_nothing():
    """Somebody else deleted the pod, whose mark was taken back, before our removal came."""
    there = preemption()
    outcomes(there, NOMINATE_A, NOMINATE_B, MARK_X, Unmark(3, ref("x"), "never mind"))
    there.store.put_pod(changed(get(there, "x"), deleting_since=there.clock.stamp + 3.0), Cause(JOB_CONTROLLER, DELETE))
    assert outcomes(there, REMOVE_X) == [Outcome.OK]
    assert invariants.unplanned_removals(there.history) == []


def test_marks_for_a_gang_without_a_plan_do_not_count():
    """A mark needs a nomination before it."""
    there = preemption()
    outcomes(there, MARK_X, REMOVE_X)
    assert len(invariants.unplanned_removals(there.history)) == 1


def test_marks_that_nobody_acts_on_are_found():
    """A victim that is marked and then forgotten; one that was unmarked or removed is fine."""
    there = preemption()
    outcomes(there, NOMINATE_A, NOMINATE_B, MARK_X, MARK_Y)
    assert len(invariants.abandoned_marks(there.history)) == 2
    outcomes(there, REMOVE_X)
    (text,) = invariants.abandoned_marks(there.history)
    assert "ns/y was marked and is neither removed nor unmarked" in text
    outcomes(there, Unmark(5, ref("y"), "not needed"))
    assert invariants.abandoned_marks(there.history) == []


@pytest.mark.parametrize(("seconds", "found"), [(59.0, 0), (61.0, 1)])
def test_a_mark_that_was_needed_just_before_the_controller_took_it_back_is_not_abandoned(seconds, found):
    """Plans follow each other, each of which writes it for itself, and waits for a pod that takes long to be gone."""
    there = preemption()
    outcomes(there, NOMINATE_A, NOMINATE_B, MARK_X)
    there.clock.advance_to(120.0 - seconds)
    outcomes(there, MARK_X)
    there.clock.advance_to(120.0)
    unmarked = changed(get(there, "x"), disruption=None)
    there.store.put_pod(unmarked, Cause(DISRUPTION_CONTROLLER, UNMARK))
    assert len(invariants.abandoned_marks(there.history)) == found


def test_the_mark_of_a_pod_that_terminates_is_not_abandoned():
    """Another hand has deleted the victim, as the Job controller does after a suspension; the one that runs counts."""
    there = preemption()
    outcomes(there, NOMINATE_A, NOMINATE_B, MARK_X, MARK_Y)
    ends = changed(get(there, "x"), deleting_since=there.clock.stamp + 150.0)
    there.store.put_pod(ends, Cause(JOB_CONTROLLER, DELETE))
    (text,) = invariants.abandoned_marks(there.history)
    assert "ns/y was marked and is neither removed nor unmarked" in text
    outcomes(there, MARK_X, Unmark(5, ref("y"), "not needed"))
    assert invariants.abandoned_marks(there.history) == []


def test_a_mark_of_which_a_run_was_cut_off_is_not_judged():
    """What was done about a mark just before the end may go on; what was done long before will not."""
    there = preemption()
    outcomes(there, NOMINATE_A, NOMINATE_B, MARK_X)
    assert invariants.abandoned_marks(there.history, there.clock.elapsed_seconds - 10.0) == []
    there.clock.advance_to(there.clock.now + 20.0)
    outcomes(there, MARK_Y)
    (text,) = invariants.abandoned_marks(there.history, there.clock.elapsed_seconds - 10.0)
    assert "ns/x was marked and is neither removed nor unmarked" in text


def test_marks_that_the_controller_takes_back_are_found():
    """The disruption controller clears an old mark; that it had to is the scheduler's fault."""
    there = preemption()
    outcomes(there, NOMINATE_A, NOMINATE_B, MARK_X)
    there.clock.advance_to(300.0)
    (text,) = invariants.abandoned_marks(there.history)
    assert "ns/x was marked, and left so" in text


def test_what_a_rollback_removes_is_not_its_preemptors():
    """Both need x to leave; it is removed for the rollback while the preemptor still marks y."""
    rollback = "sched: rolling back a gang that is bound in part: ns/low, triggerpod: ns/x"
    there = world(
        node("n1"),
        node("n2"),
        gang("low", 2),
        pod("x", 4, gang="low", node="n1", grace_seconds=3.0),
        pod("y", 4, node="n2", grace_seconds=3.0),
        gang("g", 2),
        pod("a", 3, gang="g"),
        pod("b", 3, gang="g"),
    )
    outcomes(there, Mark(2, ref("x"), rollback), NOMINATE_A, NOMINATE_B, MARK_X)
    outcomes(there, Remove(3, ref("x"), mark=rollback), MARK_Y, REMOVE_Y)
    (only,) = invariants.rounds(there.history)
    assert set(only.removed) == {"uid-y"}
    assert invariants.phases_out_of_order(there.history) == []
    assert invariants.unplanned_removals(there.history) == []
