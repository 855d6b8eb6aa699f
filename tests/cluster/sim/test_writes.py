import pytest

from gangsched.cluster.sim import SimCluster
from gangsched.core.actions import (
    AskRemoval,
    Bind,
    GangStatus,
    Mark,
    Nominate,
    Remove,
    Report,
    SetCondition,
    Unmark,
    WithdrawNomination,
)
from gangsched.core.events import Gone, Outcome, WriteDone, record_of
from gangsched.model.records import Pod
from tests.cluster.sim.objects import budget, condition, gang, get, node, outcomes, pod, ref, world

NOMINATE = Nominate(1, ref("a"), "n1", "p1", "plan p1: n1")


def test_bind():
    """A binding puts the pod on its node, and what was nominated is no longer needed."""
    there = world(node("n1"), pod("a"))
    assert outcomes(there, NOMINATE, Bind(2, ref("a"), "n1")) == [Outcome.OK, Outcome.OK]
    bound = get(there, "a")
    assert (bound.node, bound.nominated_node) == ("n1", "")
    assert condition(there, "a", "scheduled_condition").status == "True"


@pytest.mark.parametrize("where", ["n1", "n2"])
def test_binding_twice_is_a_conflict(where):
    """A bound pod stays where it is; the second binding is refused, also to the same node."""
    there = world(node("n1"), node("n2"), pod("a"))
    assert outcomes(there, Bind(1, ref("a"), "n1"), Bind(2, ref("a"), where)) == [Outcome.OK, Outcome.CONFLICT]
    assert get(there, "a").node == "n1"


@pytest.mark.parametrize("fields", [{"deleting_since": 30.0}, {"gates": ("wait",)}], ids=["terminating", "gated"])
def test_pods_that_cannot_be_bound(fields):
    """Terminating and gated pods are not bound."""
    there = world(node("n1"), pod("a", **fields))
    assert outcomes(there, Bind(1, ref("a"), "n1")) == [Outcome.CONFLICT]
    assert get(there, "a").node == ""


@pytest.mark.parametrize(
    "action",
    [
        Bind(1, ref("a", "old"), "n1"),
        Nominate(1, ref("a", "old"), "n1", "p", "m"),
        WithdrawNomination(1, ref("a", "old"), "R", "m"),
        Mark(1, ref("a", "old"), "m"),
        Unmark(1, ref("a", "old"), "m"),
        Remove(1, ref("a", "old")),
        Remove(1, ref("a", "old"), evict=True),
        AskRemoval(1, ref("a", "old")),
    ],
    ids=lambda a: type(a).__name__ + ("-evict" if isinstance(a, Remove) and a.evict else ""),
)
def test_writes_mean_one_incarnation(action):
    """A write that names the UID of an earlier pod is answered with gone, and the pod of today is not touched."""
    there = world(node("n1"), pod("a", uid="new"))
    before = get(there, "a")
    assert outcomes(there, action) == [Outcome.GONE]
    assert get(there, "a") == before


def test_nomination_and_its_withdrawal():
    """The intent record holds the plan, and says False after it was withdrawn."""
    there = world(node("n1"), pod("a"))
    outcomes(there, NOMINATE)
    assert get(there, "a").nominated_node == "n1"
    intent = condition(there, "a", "intent")
    assert (intent.status, intent.message) == ("True", "plan p1: n1")
    outcomes(there, WithdrawNomination(2, ref("a"), "Timeout", "too late"))
    assert get(there, "a").nominated_node == ""
    intent = condition(there, "a", "intent")
    assert (intent.status, intent.reason) == ("False", "Timeout")


def test_repeated_writes_are_fine_and_keep_the_time_of_the_condition():
    """Marking twice is ok, changes nothing the second time, and keeps since."""
    there = world(node("n1"), pod("a", node="n1"))
    assert outcomes(there, Mark(1, ref("a"), "go")) == [Outcome.OK]
    first = get(there, "a")
    there.clock.advance_to(10.0)
    assert outcomes(there, Mark(2, ref("a"), "go")) == [Outcome.OK]
    assert get(there, "a") == first
    assert [e.changed for e in there.history.with_verbs("mark")] == [True, False]


def test_delete_is_graceful():
    """DELETE sets the end of the grace period; the kubelet lets the pod go then, and not before."""
    there = world(node("n1"), pod("a", node="n1", grace_seconds=5.0))
    assert outcomes(there, Remove(1, ref("a"))) == [Outcome.OK]
    asked_at = there.timing.write_seconds
    assert get(there, "a").deleting_since == asked_at + 5.0
    there.clock.advance_to(asked_at + 4.9)
    assert get(there, "a").deleting_since is not None
    there.clock.advance_to(asked_at + 5.0)
    assert there.store.pods == {}


def test_deleting_a_terminating_pod_does_not_prolong_it():
    """A second DELETE leaves the end of the grace period where it is."""
    there = world(node("n1"), pod("a", node="n1", grace_seconds=5.0))
    outcomes(there, Remove(1, ref("a")))
    end = get(there, "a").deleting_since
    there.clock.advance_to(2.0)
    assert outcomes(there, Remove(2, ref("a"))) == [Outcome.OK]
    assert get(there, "a").deleting_since == end


@pytest.mark.parametrize(
    "fields",
    [{}, {"node": "n1", "phase": "Succeeded"}, {"node": "n1", "grace_seconds": 0.0}],
    ids=["unbound", "finished", "no-grace"],
)
def test_pods_that_no_kubelet_has_to_stop_are_gone_at_once(fields):
    """Unbound and finished pods, and those without grace period, leave with the DELETE itself."""
    there = world(node("n1"), pod("a", **fields))
    assert outcomes(there, Remove(1, ref("a"))) == [Outcome.OK]
    assert there.store.pods == {}


def test_eviction_takes_from_the_budget():
    """The first eviction uses the budget up, the second is blocked, and DELETE asks no budget."""
    pods = [pod(n, node="n1", labels={"app": "web"}) for n in "abc"]
    there = world(node("n1"), *pods, budget("pdb", "web", max_unavailable=1))
    first, second = Remove(1, ref("a"), evict=True), Remove(2, ref("b"), evict=True)
    assert outcomes(there, first, second) == [Outcome.OK, Outcome.BLOCKED]
    assert get(there, "b").deleting_since is None
    assert there.store.budgets["ns", "pdb"].allowed == 0
    assert there.store.budgets["ns", "pdb"].disrupted == ("a",)
    assert outcomes(there, Remove(3, ref("c"))) == [Outcome.OK]


@pytest.mark.parametrize("evict", [False, True])
def test_who_bears_no_mark_any_more_stays(evict):
    """The removal of a victim is refused once its mark has been taken back, unless it is leaving already."""
    there = world(node("n1"), pod("a", node="n1"), pod("b", node="n1", deleting_since=30.0))
    mark, unmark = Mark(1, ref("a"), "m"), Unmark(2, ref("a"), "over")
    assert outcomes(there, mark, unmark, Remove(3, ref("a"), evict, "m"), Remove(4, ref("b"), evict, "m")) == [
        Outcome.OK,
        Outcome.OK,
        Outcome.CONFLICT,
        Outcome.OK,
    ]
    assert get(there, "a").deleting_since is None


def test_eviction_overwrites_the_mark_and_it_is_restored():
    """While an evicted pod is there, its DisruptionTarget ends up with the message of its preemptor."""
    there = world(node("n1"), pod("a", node="n1"))
    outcomes(there, Mark(1, ref("a"), "ours"), Remove(2, ref("a"), evict=True, mark="ours"))
    told = [e.record.disruption for e in there.history if e.kind == "Pod" and e.record and e.record.disruption]
    assert [c.reason for c in told][:2] == ["PreemptionByScheduler", "EvictionByEvictionAPI"]
    there.clock.advance_to(1.0)
    assert condition(there, "a").message == "ours"
    assert get(there, "a").deleting_since is not None


def test_eviction_of_a_terminating_pod_needs_no_budget():
    """A pod that is going away already does not count against a budget of zero."""
    terminating = pod("a", node="n1", labels={"app": "web"}, deleting_since=30.0)
    there = world(node("n1"), terminating, budget("pdb", "web", max_unavailable=0))
    assert outcomes(there, Remove(1, ref("a"), evict=True)) == [Outcome.OK]


def test_eviction_under_two_budgets_fails():
    """The eviction subresource cannot handle a pod with several budgets, however often it is asked."""
    there = world(
        node("n1"),
        pod("a", node="n1", labels={"app": "web"}),
        budget("one", "web", max_unavailable=1),
        budget("two", "web", max_unavailable=1),
    )
    assert outcomes(there, Remove(1, ref("a"), evict=True)) == [Outcome.REFUSED]
    assert get(there, "a").deleting_since is None


def test_conditions_events_and_statuses_are_not_answered():
    """SetCondition, Report and GangStatus take effect and send no WriteDone."""
    there = world(node("n1"), pod("a"), gang("g", 2))
    cluster = SimCluster(there)
    cluster.poll()
    cluster.submit(
        [
            SetCondition(ref("a"), "Unschedulable", "no room"),
            Report(("v1", "Pod", "ns", "a", "uid-a"), "Warning", "FailedScheduling", "Scheduling", "no room"),
            GangStatus("scheduling.k8s.io", "ns", "g", "gang-g", {"phase": "Pending"}),
        ]
    )
    events = []
    while there.clock.next_at is not None:
        events += cluster.wait(there.clock.next_at)[1]
    assert not [e for e in events if isinstance(e, WriteDone)]
    assert there.api.in_flight == 0
    assert condition(there, "a", "scheduled_condition").message == "no room"
    assert there.store.gangs["scheduling.k8s.io", "ns", "g"].status == {"phase": "Pending"}
    assert [e.detail["reason"] for e in there.history.with_verbs("event")] == ["FailedScheduling"]


def test_answers_come_after_the_effect():
    """What a write did is watched no later than its answer comes, as with a server that answers last."""
    there = world(node("n1"), pod("a"))
    cluster = SimCluster(there)
    cluster.poll()
    cluster.submit([Bind(1, ref("a"), "n1")])
    _, events = cluster.wait(None)
    assert [type(record_of(e) or e) for e in events[:2]] == [Pod, WriteDone]


def test_a_pod_that_is_gone():
    """A write to a pod that has been removed is answered with gone."""
    there = world(node("n1"), pod("a"))
    there.apply(Gone("Pod", "ns", "a", "uid-a"))
    assert outcomes(there, Bind(1, ref("a"), "n1")) == [Outcome.GONE]
    assert [(e.verb, e.outcome) for e in there.history.with_verbs("bind")] == [("bind", Outcome.GONE)]
