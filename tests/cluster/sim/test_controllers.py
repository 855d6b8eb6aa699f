import pytest

from gangsched.core.actions import Mark, Remove
from gangsched.core.events import Changed, Outcome
from gangsched.model.budgets import desired_healthy
from tests.cluster.sim.objects import budget, changed, condition, get, node, outcomes, pod, ref, world

WEB = {"app": "web"}


def allowed(there):
    """DisruptionsAllowed of the only budget."""
    return there.store.budgets["ns", "pdb"].allowed


@pytest.mark.parametrize(
    ("spec", "expected", "wanted"),
    [
        ({"min_available": 2}, 3, 2),
        ({"max_unavailable": 1}, 3, 2),
        ({"max_unavailable": 5}, 3, 0),
        ({"min_available": "50%"}, 3, 2),
        ({"max_unavailable": "50%"}, 3, 1),
        ({}, 3, 1),
    ],
)
def test_how_many_pods_a_budget_wants_healthy(spec, expected, wanted):
    """Percentages are rounded up; a budget without numbers wants one pod."""
    assert desired_healthy(budget("pdb", "web", **spec), expected) == wanted


def test_budgets_are_known_from_the_start():
    """A budget without status has one before any scheduler looks; pending, terminating and other pods do not count."""
    there = world(
        node("n1"),
        *(pod(n, node="n1", labels=WEB) for n in "abc"),
        pod("pending", labels=WEB),
        pod("leaving", node="n1", labels=WEB, deleting_since=30.0),
        pod("other", node="n1"),
        budget("pdb", "web", min_available=1),
    )
    assert allowed(there) == 2


def test_a_budget_shrinks_when_a_pod_goes_and_does_not_recover_by_itself():
    """After a pod was deleted its controller is expected to bring it back: the budget is used up until then."""
    there = world(node("n1"), *(pod(n, node="n1", labels=WEB) for n in "abc"), budget("pdb", "web", max_unavailable=1))
    assert allowed(there) == 1
    outcomes(there, Remove(1, ref("a")))
    there.clock.advance_to(60.0)
    assert ("ns", "a") not in there.store.pods
    assert allowed(there) == 0
    there.apply(Changed(pod("a2", node="n1", labels=WEB)))
    there.clock.advance_to(61.0)
    assert allowed(there) == 1


def test_an_evicted_pod_is_charged_once():
    """Between the eviction and the pod's end the controller does not give back what the eviction took."""
    there = world(node("n1"), *(pod(n, node="n1", labels=WEB) for n in "abc"), budget("pdb", "web", max_unavailable=2))
    assert outcomes(there, Remove(1, ref("a"), evict=True)) == [Outcome.OK]
    assert allowed(there) == 1
    there.clock.advance_to(10.0)
    assert allowed(there) == 1


def test_a_status_without_a_spec_is_left_alone():
    """A budget of which only the status is known keeps it."""
    there = world(node("n1"), pod("a", node="n1", labels=WEB), budget("pdb", "web", allowed=7))
    there.clock.advance_to(10.0)
    assert allowed(there) == 7


def test_a_new_budget_is_computed_after_a_moment():
    """A budget that is created later gets its status from the controller."""
    there = world(node("n1"), *(pod(n, node="n1", labels=WEB) for n in "abc"))
    there.apply(Changed(budget("pdb", "web", min_available=2)))
    assert allowed(there) is None
    there.clock.advance_to(there.timing.controller_seconds)
    assert allowed(there) == 1


def test_a_mark_that_nobody_acts_on_is_taken_back():
    """Two minutes after a mark on a pod that was not removed, the disruption controller clears it."""
    there = world(node("n1"), pod("a", node="n1"))
    outcomes(there, Mark(1, ref("a"), "m"))
    marked_at = there.timing.write_seconds
    there.clock.advance_to(marked_at + there.timing.stale_mark_seconds - 0.001)
    assert condition(there, "a").status == "True"
    there.clock.advance_to(marked_at + there.timing.stale_mark_seconds)
    assert condition(there, "a").status == "False"


def test_marks_of_terminating_pods_stay():
    """The mark of a pod that is on its way out tells why, and stays."""
    there = world(node("n1"), pod("a", node="n1", grace_seconds=600.0))
    outcomes(there, Mark(1, ref("a"), "m"), Remove(2, ref("a")))
    there.clock.advance_to(300.0)
    assert condition(there, "a").status == "True"


def test_a_mark_that_was_renewed_lives_from_then():
    """The two minutes of a mark that was taken back and set again begin anew."""
    there = world(node("n1"), pod("a", node="n1"))
    outcomes(there, Mark(1, ref("a"), "m"))
    there.clock.advance_to(60.0)
    there.apply(Changed(changed(get(there, "a"), disruption=None)))
    outcomes(there, Mark(2, ref("a"), "m"))
    there.clock.advance_to(130.0)
    assert condition(there, "a").status == "True"
    there.clock.advance_to(190.0)
    assert condition(there, "a").status == "False"
