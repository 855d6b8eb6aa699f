import pytest

from gangsched.core.actions import Bind, Remove
from gangsched.core.events import Changed, Gone, Outcome
from tests.cluster.sim.objects import changed, get, node, outcomes, pod, ref, world


def verbs(there, name):
    """What the kubelet did with the pod, and when (seconds)."""
    return [(e.verb, e.at_seconds) for e in there.history if e.actor == "kubelet" and e.object == f"ns/{name}"]


def test_a_bound_pod_is_admitted_and_then_runs():
    """The start time is that of the admission; Running comes after the containers have started."""
    there = world(node("n1"), pod("a"))
    outcomes(there, Bind(1, ref("a"), "n1"))
    there.clock.advance_to(5.0)
    bound_at = there.timing.write_seconds
    admitted_at = bound_at + there.timing.watch_seconds
    assert verbs(there, "a") == [("admit", admitted_at), ("run", admitted_at + there.timing.start_seconds)]
    assert get(there, "a").phase == "Running"
    assert get(there, "a").started == admitted_at


def test_run_for_completes_a_pod():
    """A pod with run-for succeeds that long after it began to run, and stays as a finished pod."""
    there = world(node("n1"), pod("a", hints={"sim.gangsched.dev/run-for": "1m"}))
    outcomes(there, Bind(1, ref("a"), "n1"))
    there.clock.advance_to(100.0)
    (_, _), (_, runs), (last, ends) = verbs(there, "a")
    assert (last, ends) == ("succeed", runs + 60.0)
    assert get(there, "a").phase == "Succeeded"


def test_run_for_of_a_pod_that_runs_already_counts_from_the_start():
    """A pod that is bound in the input ends run-for after the start of the simulation."""
    there = world(node("n1"), pod("a", node="n1", hints={"sim.gangsched.dev/run-for": "7s"}))
    there.clock.advance_to(10.0)
    assert verbs(there, "a") == [("succeed", 7.0)]


@pytest.mark.parametrize(("used", "seconds"), [(None, 5.0), ("2s", 2.0), ("1m", 5.0)])
def test_termination_takes_what_it_needs_of_the_grace_period(used, seconds):
    """grace-used shortens the end of a pod, and cannot make it longer than the grace period."""
    hints = {} if used is None else {"sim.gangsched.dev/grace-used": used}
    there = world(node("n1"), pod("a", node="n1", grace_seconds=5.0, hints=hints))
    outcomes(there, Remove(1, ref("a")))
    there.clock.advance_to(20.0)
    assert verbs(there, "a") == [("gone", pytest.approx(there.timing.write_seconds + seconds))]


def test_a_pod_that_terminates_at_the_start_goes_on_terminating():
    """A deletionTimestamp of the input is when the pod is gone."""
    there = world(node("n1"), pod("a", node="n1", deleting_since=12.0, grace_seconds=30.0))
    there.clock.advance_to(20.0)
    assert verbs(there, "a") == [("gone", 12.0)]


@pytest.mark.parametrize(
    ("others", "reason"),
    [([pod("b", 2, node="n1"), pod("c", 2, node="n1")], "OutOfcpu"), ([], None)],
    ids=["full", "empty"],
)
def test_a_node_without_room_turns_a_pod_away(others, reason):
    """A pod that does not fit beside those that were there first fails, and the others stay."""
    there = world(node("n1"), pod("a"), *others)
    outcomes(there, Bind(1, ref("a"), "n1"))
    there.clock.advance_to(5.0)
    rejected = [e.detail["reason"] for e in there.history.with_verbs("reject")]
    assert rejected == ([reason] if reason else [])
    assert get(there, "a").phase == ("Failed" if reason else "Running")
    assert all(get(there, o.name).phase == "Running" for o in others)


def test_terminating_pods_keep_their_room_until_they_are_gone():
    """A pod bound before its predecessor has left is turned away; afterwards it is taken."""
    there = world(node("n1"), pod("old", 4, node="n1", grace_seconds=5.0), pod("early", 4), pod("late", 4))
    outcomes(there, Remove(1, ref("old")), Bind(2, ref("early"), "n1"))
    there.clock.advance_to(6.0)
    outcomes(there, Bind(3, ref("late"), "n1"))
    there.clock.advance_to(10.0)
    assert get(there, "early").phase == "Failed"
    assert get(there, "late").phase == "Running"


def test_pod_slots_are_room_too():
    """A node with one pod slot takes one pod."""
    small = changed(node("n1"), allocatable=(("cpu", 4000), ("pods", 1)))
    there = world(small, pod("a", 0), pod("b", 0))
    outcomes(there, Bind(1, ref("a"), "n1"), Bind(2, ref("b"), "n1"))
    there.clock.advance_to(5.0)
    assert [e.detail["reason"] for e in there.history.with_verbs("reject")] == ["OutOfpods"]


def test_nothing_happens_on_a_node_that_is_not_ready():
    """Pods of a NotReady node neither start nor stop; both go on when it is back."""
    there = world(node("n1", ready=False), pod("a"), pod("b", node="n1", grace_seconds=2.0))
    outcomes(there, Bind(1, ref("a"), "n1"), Remove(2, ref("b")))
    there.clock.advance_to(60.0)
    assert get(there, "a").phase == "Pending"
    assert get(there, "b").deleting_since is not None
    there.apply(Changed(node("n1")))
    there.clock.advance_to(62.0)
    assert get(there, "a").phase == "Running"
    assert ("ns", "b") not in there.store.pods


def test_a_pod_on_a_node_that_does_not_exist_waits():
    """The API server binds to any name; no kubelet takes the pod."""
    there = world(pod("a"))
    assert outcomes(there, Bind(1, ref("a"), "nowhere")) == [Outcome.OK]
    there.clock.advance_to(60.0)
    assert get(there, "a").phase == "Pending"


def test_pods_of_a_node_that_is_gone_are_collected():
    """Some time after a node was removed its pods are, if it has not come back."""
    there = world(node("n1"), node("n2"), pod("a", node="n1"), pod("b", node="n2"))
    there.apply(Gone("Node", "", "n1"))
    there.apply(Gone("Node", "", "n2"))
    there.apply(Changed(node("n2")))
    there.clock.advance_to(there.timing.pod_gc_seconds)
    assert sorted(there.store.pods) == [("ns", "b")]
