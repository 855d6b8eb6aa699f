"""Several workloads at once: whose turn it is, and what is left for those behind.

There is one queue for all gangs: priority, then age, then name. Kueue takes a head of every ClusterQueue in each cycle,
those first that do not borrow; where that comes to something else on purpose, the test says so.
"""

import pytest

from gangsched.model.queues import Fungibility
from tests.core.quota.world import World, flavor, group, own, queue, workload

# -- the order -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fair", [False, True], ids=["classic", "fair"])
def test_priority_is_first(fair):
    """Then age decides, and name. Kueue would take ``borrows`` last: the others need nothing but what is their own."""
    world = World(*(queue(q, "all", cpu=2) for q in "abcde"), fair=fair)
    found = world.turns(
        workload("borrows", "a", priority=9, cpu=3),
        workload("old", "b", queued=1, cpu=1),
        workload("new-b", "c", queued=2, cpu=1),
        workload("new-a", "d", queued=2, cpu=1),
        workload("high", "e", queued=3, priority=1, cpu=1),
    )
    assert found == [(name, "bind", []) for name in ("borrows", "high", "old", "new-a", "new-b")]


def test_a_low_share_is_no_better_place():
    """With fair sharing, too, priority decides who is first. Kueue would take ``hb``, whose share would be lower; here
    ``hb`` gets its share back from ``ha`` by a preemption if both do not fit.
    """
    world = World(
        queue("a", "all", cpu=0, reclaim="Any"),
        queue("b", "all", cpu=0, reclaim="Any"),
        queue("lends", "all", cpu=6),
        fair=True,
    )
    world.runs("r", "a", cpu=3)
    found = world.turns(workload("ha", "a", priority=9, cpu=2), workload("hb", "b", cpu=3))
    assert found == [("ha", "bind", []), ("hb", "preempt", ["ha"])]


def test_a_later_one_does_not_count_on_what_an_earlier_one_took():
    """Both would fit alone; the second is told what is missing now."""
    world = World(queue("a", "all", cpu=2), queue("b", "all", cpu=2))
    found = world.turns(workload("first", "a", cpu=3), workload("second", "b", queued=1, cpu=3))
    assert found == [("first", "bind", []), ("second", "unschedulable", [])]
    assert world.cluster.decisions[-1].message == (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 2 more needed"
    )


# -- several preemptors ----------------------------------------------------------------------------------------------


def shared(*names: str) -> World:
    """Queues that own 2 cores each, all lent to ``greedy``."""
    return World(*(queue(n, "all", cpu=2, reclaim="Any") for n in names), queue("greedy", "all", cpu=0))


def preemptors(world: World, *names: str) -> dict[str, list[str]]:
    """Each asks for 2 cores of its queue; the victims of each, who then leave, so that all of them run."""
    found = world.turns(*(workload(f"p{q}", q, queued=i, cpu=2) for i, q in enumerate(names)))
    assert [outcome for _, outcome, _ in found] == ["preempt" if victims else "wait" for _, _, victims in found]
    world.cluster.leave()
    assert world.rest() == []
    assert {f"p{q}" for q in names} <= world.running()
    return {name: victims for name, _, victims in found}


def test_two_preemptors_with_victims_of_their_own():
    """The second needs one more than the first: those of the first are counted as gone."""
    world = shared("a", "b")
    world.runs("g1", "greedy", cpu=2)
    world.runs("g2", "greedy", cpu=2)
    assert preemptors(world, "a", "b") == {"pa": ["g2"], "pb": ["g1"]}


def test_two_preemptors_that_need_the_same_victim():
    """One large victim makes room for both: the second waits for it too, and has no victims."""
    world = shared("a", "b")
    world.runs("g", "greedy", cpu=4)
    assert preemptors(world, "a", "b") == {"pa": ["g"], "pb": []}


def test_three_preemptors_and_a_victim_too_small():
    """The third takes another victim, although on its own it would have taken the first."""
    world = shared("a", "b", "c")
    world.runs("g1", "greedy", cpu=2)
    world.runs("g2", "greedy", cpu=4)
    assert preemptors(world, "a", "b", "c") == {"pa": ["g2"], "pb": [], "pc": ["g1"]}


def test_a_preemptor_stays_in_its_flavor():
    """A queue that would rather displace than go on to the next flavor waits there for its victims, although the next
    has room: while they leave it is not decided anew as if there were none.
    """
    quotas = group(flavor("x", cpu=2), flavor("y", cpu=2))
    rather_here = Fungibility(when_can_preempt="MayStopSearch")
    world = World(
        queue("a", "all", group(flavor("x", cpu=2)), reclaim="Any"),
        queue("b", "all", quotas, reclaim="Any", fungibility=rather_here),
        queue("greedy", "all", group(flavor("x", cpu=0))),
    )
    world.runs("g1", "greedy", flavor="x", cpu=1)
    world.runs("g2", "greedy", flavor="x", cpu=3)
    assert preemptors(world, "a", "b") == {"pa": ["g2"], "pb": ["g1"]}
    assert world.usage()["b", "x", "cpu"] == 2


def test_what_victims_free_is_promised():
    """Nobody else is admitted on it, before they have left or afterwards."""
    world = shared("a", "b")
    world.put(queue("late", "all", cpu=0))
    world.runs("g", "greedy", cpu=4)
    late = workload("late", "late", priority=9, queued=9, cpu=1)
    preempted = world.turns(*(workload(f"p{q}", q, queued=i, cpu=2) for i, q in enumerate("ab")))
    assert [victims for _, _, victims in preempted] == [["g"], []]
    assert {outcome for _, outcome, _ in world.turns(late)} == {"unschedulable"}
    world.cluster.leave()
    assert {outcome for _, outcome, _ in world.rest()} <= {"unschedulable"}
    assert world.running() == {"pa", "pb"}


@pytest.mark.parametrize(("strategy", "runs"), [("BestEffortFIFO", "first"), ("StrictFIFO", "urgent")])
def test_a_newcomer_of_higher_priority(strategy, runs):
    """In the same queue it does not get what a preemptor waits for, unless nobody may pass it there."""
    world = World(queue("q", "all", cpu=2, reclaim="Any", strategy=strategy), queue("greedy", "all", cpu=0))
    world.runs("g", "greedy", cpu=2)
    assert world.turns(workload("first", "q", cpu=2)) == [("first", "preempt", ["g"])]
    assert {outcome for _, outcome, _ in world.turns(workload("urgent", "q", priority=9, cpu=2))} == {"unschedulable"}
    world.cluster.leave()
    world.rest()
    assert world.running() == {runs}


# -- quota that somebody waits for -----------------------------------------------------------------------------------


@pytest.mark.parametrize("reclaim", ["Never", "Any"])
def test_quota_of_a_queue_is_lent_while_its_own_workload_waits_for_more(reclaim):
    """What is left of a queue's quota is no use to a workload that needs more of it. (Kueue keeps it within the cycle,
    unless the queue may reclaim from anybody; behind a StrictFIFO head therefore always.)
    """
    world = World(queue("a", "all", cpu=4, reclaim=reclaim), queue("b", "all", cpu=0))
    world.runs("r", "a", cpu=3)
    found = world.turns(workload("blocked", "a", priority=9, cpu=2), workload("borrower", "b", cpu=1))
    assert found[:2] == [("blocked", "unschedulable", []), ("borrower", "bind", [])]


# -- within a queue --------------------------------------------------------------------------------------------------


def test_strict_fifo_waits_for_its_head():
    """Who does not fit blocks those behind it, until it fits."""
    world = World(queue("q", cpu=4, strategy="StrictFIFO"))
    world.runs("r", "q", cpu=3)
    found = world.turns(workload("large", "q", queued=1, cpu=4), workload("small", "q", queued=2, cpu=1))
    assert {(name, outcome) for name, outcome, _ in found} == {("large", "unschedulable"), ("small", "unschedulable")}
    assert world.cluster.decisions[-1].message == "d/large is ahead in ClusterQueue q (StrictFIFO)"
    world.ends("r")
    world.rest()
    assert world.running() == {"large"}


def test_best_effort_passes_the_head():
    """Those who fit run; the head gets its chance when something is given back, before those that came later."""
    world = World(queue("q", cpu=4))
    world.runs("r", "q", cpu=3)
    found = world.turns(workload("large", "q", queued=1, cpu=4), workload("small", "q", queued=2, cpu=1))
    assert found == [("large", "unschedulable", []), ("small", "bind", [])]
    world.cluster.show()
    world.ends("r", "small")
    world.turns(workload("late", "q", queued=3, cpu=4))
    assert world.running() == {"large"}


def test_who_has_flavors_left_is_looked_at_in_all_of_them():
    """What cannot be had in the first flavor, by whomever that is displaced, is had in the second at once."""
    limit = group(flavor("x", cpu=own(1)), flavor("y", cpu=2))
    world = World(
        queue("q", "", limit, within="LowerPriority", fungibility=Fungibility("MayStopSearch", "MayStopSearch"))
    )
    world.runs("low", "q", flavor="x", cpu=1)
    assert world.turns(workload("w", "q", priority=1, cpu=2)) == [("w", "bind", [])]
    assert world.usage() == {("q", "x", "cpu"): 1, ("q", "y", "cpu"): 2}


# -- when nodes are short, not quota ---------------------------------------------------------------------------------


def test_who_may_be_taken_when_there_is_quota():
    """With room in quota nobody has to go for it; who may go for the sake of nodes the policies say just the same."""
    world = World(
        queue("mine", "all", cpu=8, within="LowerPriority", reclaim="Any"),
        queue("borrows", "all", cpu=0),
        queue("owns", "all", cpu=2),
    )
    world.runs("low", "mine", priority=0, cpu=1)
    world.runs("high", "mine", priority=9, cpu=1)
    world.runs("borrower", "borrows", priority=9, cpu=1)
    world.runs("owner", "owns", priority=0, cpu=1)
    asks = workload("new", "mine", priority=5, cpu=2)
    assert world.decide(asks).outcome == "bind"
    eligible = world.quota.eligible(asks, world.assign(asks))
    names = {world.quota.admissions[uid].workload.name: reason for uid, reason in eligible.items()}
    assert names == {"borrower": "InCohortReclamation", "low": "InClusterQueue"}
