"""Quota and nodes decided together: who is admitted, where, at whose expense, and who has to wait."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.decision import UNSCHEDULABLE, Decision, Placement
from gangsched.core.events import Changed
from gangsched.core.planning.context import KnownPlan
from gangsched.model.constraints import Taint, Toleration
from gangsched.model.queues import (
    PRIORITY_LABEL,
    QUEUE_LABEL,
    ClusterQueue,
    Fungibility,
    LocalQueue,
    ResourceFlavor,
    WorkloadPriorityClass,
)
from tests.builders import node, pdb, pod
from tests.core.harness import Built, Cluster, nodes_of, plan, victims
from tests.core.queues import big, objects, queued
from tests.core.quota.world import flavor, group, own, queue


def outcome(decisions: dict[str, Decision], name: str) -> str:
    """The outcome for one gang."""
    return decisions[f"d/{name}"].outcome


def test_quota_is_a_second_limit():
    """What fits on nodes but not in the queue waits, in the words of Kueue; the next in line is not hurt."""
    found = plan(
        big(), *objects(queue("a", cpu=4)), queued("first", "a", 3), queued("later", "a", 2), pod("free").cpu(9)
    )
    assert outcome(found, "first") == outcome(found, "free") == "bind"
    assert outcome(found, "later") == "unschedulable"
    assert found["d/later"].message == (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 1 more needed"
    )
    assert found["d/free"].quota is None


def test_a_decision_says_what_it_uses():
    """ClusterQueue, flavor of each resource, and what the queue borrows with it."""
    found = plan(big(), *objects(queue("a", "co", cpu=4), queue("b", "co", cpu=4)), queued("x", "a", 6))
    use = found["d/x"].quota
    assert use is not None
    assert (use.queue, use.flavors, use.borrowed) == ("a", (("cpu", "default"),), (("cpu", "2"),))


def test_labels_mean_nothing_without_queues():
    """Without any ClusterQueue nobody is held back by a label."""
    assert outcome(plan(big(), queued("x", "a", 6)), "x") == "bind"


@pytest.mark.parametrize(
    ("label", "text"), [("q-nowhere", "LocalQueue q-nowhere doesn't exist"), ("q-gone", "ClusterQueue gone not found")]
)
def test_a_queue_that_is_not_there(label: str, text: str):
    """With ClusterQueues, a label that leads nowhere makes the pod wait, and says so."""
    others = Changed(LocalQueue("d", "q-gone", "gone"))
    found = plan(big(), *objects(queue("a", cpu=4)), others, pod("x").cpu(1).labels({QUEUE_LABEL: label}))
    assert (outcome(found, "x"), found["d/x"].message) == ("unschedulable", text)


def test_running_pods_hold_quota():
    """Bound pods with a queue label are admitted usage, of whichever scheduler they are."""
    running = queued("old", "a", 3).scheduler("default-scheduler").on("n1", started=5)
    found = plan(big(), *objects(queue("a", cpu=4)), running, queued("x", "a", 2))
    assert outcome(found, "x") == "unschedulable"


def test_a_gang_is_one_workload():
    """Quota for all required members or for none."""
    members = [queued(f"m{i}", "a", 2).light_gang("g", 3) for i in range(3)]
    assert outcome(plan(big(), *objects(queue("a", cpu=5)), *members), "g") == "unschedulable"
    found = plan(big(), *objects(queue("a", cpu=6)), *members)
    assert outcome(found, "g") == "bind"
    assert len(found["d/g"].placements) == 3


def test_further_members_need_quota_too():
    """A member beyond the minimum joins when quota and nodes have room for it."""
    members = [queued(f"m{i}", "a", 2).light_gang("g", 2) for i in range(4)]
    found = plan(big(), *objects(queue("a", cpu=7)), *members)["d/g"]
    assert [p.name for p in found.placements] == ["m0", "m1", "m2"]
    assert [u.pod for u in found.unplaced] == ["d/m3"]
    assert "insufficient unused quota" in found.unplaced[0].reasons[0]


def test_members_go_to_nodes_of_their_flavor():
    """The flavor's labels and tolerations count as the pod's own; the first flavor with quota and nodes is taken."""
    spot = ResourceFlavor("spot", {"kind": "spot"}, (), (Toleration("spot", "Exists"),))
    both = queue("a", "", group(flavor("spot", cpu=4), flavor("steady", cpu=4)))
    nodes = [
        node("n-spot").cpu(3).label(kind="spot").taint("spot"),
        node("n-steady").cpu(8).label(kind="steady"),
    ]
    records = objects(both, spot, ResourceFlavor("steady", {"kind": "steady"}))
    found = plan(*nodes, *records, queued("x", "a", 2), queued("y", "a", 2), queued("z", "a", 2))
    assert [found[f"d/{n}"].placements[0].node for n in "xyz"] == ["n-spot", "n-steady", "n-steady"]
    assert found["d/y"].quota is not None
    assert found["d/y"].quota.flavors == (("cpu", "steady"),)


@pytest.mark.parametrize(
    ("when", "room", "asking", "expected"),
    [
        ("TryNextFlavor", 4, pod, ("bind", "second")),
        ("MayStopSearch", 4, pod, ("preempt", "first")),
        ("MayStopSearch", 1, pod, ("bind", "second")),
        ("MayStopSearch", 4, lambda name: pod(name).never(), ("bind", "second")),
    ],
    ids=["next", "stop", "no node in the first", "may not preempt"],
)
def test_displace_here_or_look_further(when: str, room: int, asking: Any, expected: tuple[str, str]):
    """A queue may say that somebody is displaced in a flavor before the next one is looked at. The next one is looked
    at all the same where nodes, or the pod itself, leave no choice.
    """
    both = queue(
        "a",
        "",
        group(flavor("first", cpu=4), flavor("second", cpu=4)),
        within="LowerPriority",
        fungibility=Fungibility(when_can_preempt=when),
    )
    flavors = [ResourceFlavor(name, {"kind": name}) for name in ("first", "second")]
    nodes = [node("n1").cpu(3).label(kind="first"), node("n1b").cpu(room).label(kind="first")]
    old = queued("old", "a", 3, priority=0).on("n1")
    new = asking("new").cpu(4).labels({QUEUE_LABEL: "q-a"}).priority(5)
    found = plan(*nodes, node("n2").cpu(4).label(kind="second"), *objects(both, *flavors), old, new)["d/new"]
    assert found.quota is not None
    assert (found.outcome, found.quota.flavors) == (expected[0], (("cpu", expected[1]),))


def two_flavors(*given: ClusterQueue) -> list[Built]:
    """Queues with the flavors ``first`` and ``second``; only of the latter is there a node for a pod of 4 cores."""
    flavors = [ResourceFlavor(name, {"kind": name}) for name in ("first", "second")]
    small = [node(f"small-{i}").cpu(2).label(kind="first") for i in range(2)]
    return [*objects(*given, *flavors), *small, node("large").cpu(4).label(kind="second")]


FOUR = group(flavor("first", cpu=4), flavor("second", cpu=4))


def test_nodes_choose_among_flavors_that_must_be_borrowed():
    """All flavors have been compared for their quota, and the first is as good as any; nodes only the second has."""
    lender = queue("lends", "co", FOUR)
    borrows = group(flavor("first", cpu=0), flavor("second", cpu=0))
    asking = queue("a", "co", borrows, fungibility=Fungibility(when_can_borrow="TryNextFlavor"))
    found = plan(*two_flavors(asking, lender), queued("new", "a", 4))["d/new"]
    assert found.quota is not None
    assert (found.outcome, found.quota.flavors, found.placements[0].node) == ("bind", (("cpu", "second"),), "large")


def test_nodes_choose_among_flavors_in_which_somebody_leaves():
    """Nobody leaves in the first, whose nodes are too small all the same; and the gang gets what is freed for it."""
    cluster = Cluster(*two_flavors(queue("a", "", FOUR, within="LowerPriority")))
    cluster.show(*(queued(f"old-{i}", "a", 2, priority=0).on(f"small-{i}") for i in range(2)))
    cluster.show(queued("old", "a", 4, priority=0).on("large"), queued("new", "a", 4, priority=5))
    cluster.run()
    assert [victims(d) for d in cluster.decisions] == [["old"]]
    cluster.pass_time(5)
    cluster.leave()
    assert nodes_of(cluster.run()) == {"new": "large"}


def test_the_seed_story():
    """Team A takes its CPU back from team B, who borrowed it, and says why."""
    shared: dict[str, Any] = {"cpu": 0}
    policy: dict[str, Any] = {"reclaim": "Any", "borrow": "LowerPriority", "threshold": 100}
    records = objects(
        queue("a", "ab", group(flavor("default", **shared)), group(flavor("gpu", gpu=2)), **policy),
        queue("b", "ab", group(flavor("gpu", gpu=own(0, 0))), group(flavor("default", **shared))),
        queue("shared", "ab", cpu=10, **policy),
        WorkloadPriorityClass("dev", 100),
        WorkloadPriorityClass("prod", 1000),
    )
    running = queued("team-b", "b", 5).labels({PRIORITY_LABEL: "dev"}).on("n1", started=3)
    asking = queued("team-a", "a", 7).gpu(2).labels({PRIORITY_LABEL: "prod"})
    found = plan(big(cpu=16), *records, running, asking)["d/team-a"]
    assert found.outcome == "preempt"
    assert [(v.name, v.reason, v.unit.name) for v in found.victims] == [
        ("team-b", "InCohortReclaimWhileBorrowing", "d/team-b")
    ]
    assert found.quota is not None
    assert found.quota.flavors == (("cpu", "default"), ("nvidia.com/gpu", "gpu"))
    assert found.quota.borrowed == (("cpu", "7"),)


def test_nobody_leaves_for_one_that_has_no_node():
    """Where no node can take the preemptor, quota alone is no reason to evict."""
    records = objects(queue("a", "co", cpu=4, reclaim="Any"), queue("b", "co", cpu=0))
    running = queued("old", "b", 3).on("n1")
    found = plan(node("n1").cpu(3), *records, running, queued("x", "a", 4))["d/x"]
    assert (found.outcome, found.victims) == ("unschedulable", ())


def test_a_lender_takes_back_from_higher_priority():
    """Reclaiming does not ask for priority; without queues the same pod would be safe."""
    records = objects(queue("a", "co", cpu=4, reclaim="Any"), queue("b", "co", cpu=0))
    found = plan(big(cpu=4), *records, queued("old", "b", 3, priority=900).on("n1"), queued("x", "a", 4, priority=1))
    assert [(v.name, v.reason) for v in found["d/x"].victims] == [("old", "InCohortReclamation")]
    alone = plan(big(cpu=4), pod("old").cpu(3).priority(900).on("n1"), pod("x").cpu(4).priority(1))
    assert outcome(alone, "x") == "unschedulable"


def test_nodes_decide_which_of_the_eligible_goes():
    """Quota would be content with the first in order; only the second frees a node that is large enough."""
    records = objects(queue("a", within="LowerPriority", cpu=6))
    running = [queued("small", "a", 2).on("n1"), queued("large", "a", 3, priority=1).on("n2")]
    nodes = [node("n1").cpu(2), node("n2").cpu(3)]
    found = plan(*nodes, *records, *running, queued("x", "a", 3, priority=9))["d/x"]
    assert [(v.name, v.reason) for v in found.victims] == [("large", "InClusterQueue")]


def test_pods_without_a_queue_leave_by_priority():
    """Where nodes are short and quota is not, lower-priority pods without a queue are taken as ever."""
    records = objects(queue("a", cpu=6))
    running = pod("other").cpu(2).priority(1).on("n1")
    found = plan(node("n1").cpu(3), *records, running, queued("x", "a", 3, priority=9))["d/x"]
    assert [(v.name, v.reason) for v in found.victims] == [("other", "LowerPriority")]


def test_a_whole_gang_leaves_with_its_quota():
    """Quota is held by workloads: a gang that needs all of its members goes as one."""
    records = objects(queue("a", "co", cpu=4, reclaim="Any"), queue("b", "co", cpu=0))
    running = [queued(f"m{i}", "b", 1).light_gang("g", 4).on("n1") for i in range(4)]
    found = plan(big(), *records, *running, queued("x", "a", 1))["d/x"]
    assert {(v.unit.name, v.partial, v.reason) for v in found.victims} == {("d/g", False, "InCohortReclamation")}
    assert len(found.victims) == 4


def test_quota_that_is_being_given_back_is_awaited():
    """A workload that terminates holds its quota until it is gone; whoever needs it waits and evicts nobody."""
    records = objects(queue("a", "co", cpu=4, reclaim="Any"), queue("b", "co", cpu=0))
    running = [queued("leaves", "b", 3).on("n1").terminating(30), queued("stays", "b", 1).on("n1")]
    found = plan(big(), *records, *running, queued("x", "a", 3))["d/x"]
    assert (found.outcome, [a.pod for a in found.awaiting], found.victims) == ("wait", ["d/leaves"], ())


@pytest.mark.parametrize(("strategy", "expected"), [("StrictFIFO", "unschedulable"), ("BestEffortFIFO", "bind")])
def test_strict_order_within_a_queue(strategy: str, expected: str):
    """Under StrictFIFO nobody passes a head that does not fit; under BestEffortFIFO who fits does."""
    records = objects(queue("a", cpu=4, strategy=strategy))
    found = plan(big(), *records, queued("head", "a", 5).created(1), queued("next", "a", 1).created(2))
    assert (outcome(found, "head"), outcome(found, "next")) == ("unschedulable", expected)


def test_taints_of_a_flavor():
    """A flavor whose taint the pod does not tolerate is passed over, with a reason."""
    tainted = ResourceFlavor("gold", {}, (Taint("gold", "yes"),))
    found = plan(big(), *objects(queue("a", "", group(flavor("gold", cpu=4))), tainted), queued("x", "a", 1))["d/x"]
    assert "untolerated taint gold=yes:NoSchedule in flavor gold" in found.message


def test_the_order_of_the_input_does_not_matter():
    """The same objects in any order give the same decisions."""
    records = objects(queue("a", "co", cpu=4, reclaim="Any"), queue("b", "co", cpu=1))
    things = [big(), *records, queued("old", "b", 3).on("n1"), queued("x", "a", 4), queued("y", "b", 1)]
    assert plan(*things) == plan(*reversed(things))


def test_a_stuck_pod_gives_no_quota_back() -> None:
    """It is awaited for as long as the gang has time; then nobody counts on what it holds until it is gone."""
    cluster = Cluster(big(), *objects(queue("a", cpu=4, within="LowerPriority")))
    cluster.show(queued("old", "a", 4, priority=0).on("n1").terminating(30.0), queued("new", "a", 4, priority=10))
    cluster.run()
    assert cluster.core.states() == {"d/new": "WaitingForVictims"}
    where = [Placement("d", "new", "uid-d-new", "n1")]
    decider, gangs = cluster.core.decider, (cluster.pod("new").gang,)
    assert decider.still_holds(KnownPlan(gangs, where)).holds
    cluster.pass_time(700)
    assert not decider.still_holds(KnownPlan(gangs, where)).holds
    assert cluster.decisions[-1].outcome == UNSCHEDULABLE
    cluster.delete("old")
    cluster.run()
    assert nodes_of(cluster.log) == {"new": "n1"}


def borrowers(*names: str, allows: int) -> list[Any]:
    """Single borrowers; the first two are under a budget of this many."""
    budget = pdb("keep").selects(app="kept").allows(allows).obj()
    running = [queued(name, "b", 1).on("n1") for name in names]
    return [budget, *(each.label(app="kept") if n < 2 else each for n, each in enumerate(running))]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("need", "allows", "preferred", "strictly"),
    [
        (1, 0, ["v3"], ["v3"]),
        (2, 0, ["v3", "v4"], ["v3", "v4"]),
        (3, 0, ["v1", "v2", "v3"], []),
        (3, 1, ["v1", "v3", "v4"], ["v1", "v3", "v4"]),
    ],
)
def test_budgets_are_a_constraint_inside_the_walk(
    need: int, allows: int, preferred: list[str], strictly: list[str], strict: bool
) -> None:
    """Whom a budget keeps is passed over; if that is not enough, the order of the queue rules counts, or nothing leaves
    and the message names the budget.
    """
    known = [*objects(queue("a", "co", cpu=4, reclaim="Any"), queue("b", "co", cpu=0)), big()]
    running = borrowers("v1", "v2", "v3", "v4", allows=allows)
    found = plan(*known, *running, queued("new", "a", need), strict_budgets=strict)["d/new"]
    assert victims(found) == (strictly if strict else preferred)
    if strict and not strictly:
        assert found.outcome == "unschedulable"
        assert "PodDisruptionBudget d/keep" in found.message
