"""What changes while a preemption is under way: the gang's own rules, its victims, its budgets, its nodes."""

from __future__ import annotations

import pytest

from gangsched.core.actions import Bind, Mark, Nominate, Remove, Unmark, WithdrawNomination, Write
from gangsched.core.events import Gone, Outcome
from gangsched.core.lifecycle.expected_room import HOLD_SECONDS
from gangsched.core.lifecycle.group import ROUND_PAUSE_SECONDS
from tests.builders import SIGS, PodBuilder, gang, node, pdb, pod
from tests.core.harness import Cluster, nodes_of, reports, texts, writes
from tests.core.stories import PHASES, G, assert_clean, evicted, go_on, names, preempting, stopped_in

BEFORE_REMOVAL = PHASES[:2]


# -- victims -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", BEFORE_REMOVAL)
@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.label(**{"scheduling.koordinator.sh/disable-preemptible": "true"}),
        lambda v: v.gang("g"),
        lambda v: v.priority(7),
    ],
    ids=["protected", "joined-the-gang", "priority"],
)
def test_a_victim_that_may_no_longer_be_evicted_is_spared(phase: type[Write], change: object) -> None:
    """Asked anew just before the removal: neither it nor the other one goes, and no mark stays."""
    cluster = stopped_in(phase)
    assert callable(change)
    marked = cluster.pod("v2").disruption
    changed: PodBuilder = change(pod("v2").cpu(3).priority(1).on("n2"))
    cluster.show(changed.field(disruption=marked))
    go_on(cluster)
    assert names(cluster, Remove) == set()
    assert_clean(cluster)


def test_a_removal_is_not_repeated_when_it_is_not_needed_any_more() -> None:
    """v2's removal fails for a while; then the gang needs one member less: v2 stays."""
    cluster = stopped_in(Remove)
    cluster.sent = True
    cluster.judge = lambda w: (Outcome.TRANSIENT, "because") if isinstance(w, Remove) and w.pod.name == "v2" else None
    cluster.show(gang("g").min(1).timeout(60))
    go_on(cluster)
    assert evicted(cluster) == {"v1"}
    assert names(cluster, Unmark) == {"v2"}
    cluster.leave()
    cluster.run()
    assert len(nodes_of(cluster.log)) == 1
    assert cluster.pod("v2").deleting_since is None


def test_remaining_evictions_stop_when_a_stronger_gang_takes_over() -> None:
    """One victim is leaving, the removal of the other keeps failing: it is not asked for again."""
    cluster = stopped_in(Remove)
    cluster.judge = lambda w: (Outcome.TRANSIENT, "because") if isinstance(w, Remove) and w.pod.name == "v2" else None
    cluster.answer("v1")
    cluster.leave("v1")
    cluster.show(pod("high").cpu(3).priority(9).selector(**{"kubernetes.io/hostname": "n1"}))
    cluster.run()
    assert nodes_of(cluster.log) == {"high": "n1"}
    cluster.answer()
    cluster.judge = lambda _: None
    go_on(cluster)
    assert [name for kind, name in writes(cluster.log) if kind == "Remove"] == ["v1", "v2"]
    assert evicted(cluster) == set()
    assert cluster.core.states()[G] == "Backoff"
    assert_clean(cluster)


@pytest.mark.parametrize("phase", [Mark, Remove])
@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
def test_a_victim_that_ends_by_itself_was_not_preempted(phase: type[Write], end: str) -> None:
    """The gang gets its room; no Event says that it was evicted, on it or on the gang."""
    cluster = stopped_in(phase)
    cluster.change("v1", phase=end)
    go_on(cluster)
    cluster.leave("v2")
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}
    told = reports(cluster.log, "Preempted")
    assert "v1" not in {r.regarding[3] for r in told}
    if phase is Mark:
        assert not any("d/v1" in r.note for r in told)


@pytest.mark.parametrize("phase", PHASES)
def test_a_victim_that_somebody_else_deletes_is_waited_for(phase: type[Write]) -> None:
    """It is leaving already: that is all the gang wants, and nobody else has to go."""
    cluster = stopped_in(phase)
    cluster.change("v1", deleting_since=30.0)
    go_on(cluster)
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}
    assert names(cluster, Remove) <= {"v1", "v2"}


def test_a_victim_that_is_stuck_is_named_and_planned_around() -> None:
    """It does not leave in the gang's time: the gang says so, and finds other victims instead of waiting for ever."""
    cluster = preempting()
    cluster.show(node("n3"), pod("v3").cpu(3).priority(2).on("n3"))
    cluster.run()
    cluster.leave("v2")
    assert names(cluster, Remove) == {"v1", "v2"}
    actions = cluster.pass_time(60.5)
    assert texts(actions, "m1")[0][1].startswith("timed out while WaitingForVictims: ")
    assert texts(actions, "m1")[0][1].endswith("still terminating: d/v1")
    cluster.pass_time(ROUND_PAUSE_SECONDS - 1)
    assert names(cluster, Remove) == {"v1", "v2"}
    cluster.pass_time(1)
    assert names(cluster, Remove) == {"v1", "v2", "v3"}
    cluster.leave("v3")
    cluster.run()
    assert set(nodes_of(cluster.log).values()) == {"n2", "n3"}
    assert cluster.pod("v1").deleting_since is not None


def test_a_stuck_victim_that_leaves_after_all_is_room_like_any_other() -> None:
    """Nothing is remembered of it."""
    cluster = preempting()
    cluster.run()
    cluster.pass_time(90)
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}
    assert cluster.core.world.sightings.overdue == set()


def test_a_stuck_victim_whose_room_is_not_needed_does_not_end_the_list() -> None:
    """It leaves with a gang that leaves as a whole, on a node without members: the others of the list still leave."""
    graces = {"w1": 1.0, "w2": 1.0, "w3": 100.0}
    whole = [pod(w).cpu(2).gang("w").on(f"n{w[1]}").field(grace_seconds=s) for w, s in graces.items()]
    alone = pod("alone").cpu(2).priority(1).on("n1").field(grace_seconds=1.0)
    preemptor = pod("m").cpu(4).priority(5).gang("g")
    nodes = [node("n1").cpu(4), node("n2").cpu(2), node("n3").cpu(2)]
    cluster = Cluster(*nodes, gang("w").min(3), *whole, alone, gang("g").min(1).timeout(300), preemptor)
    cluster.run()
    cluster.leave("w1")
    cluster.run()
    assert names(cluster, Remove) == set(graces)
    cluster.pass_time(90)
    assert cluster.core.world.sightings.overdue == {"uid-d-w2"}
    assert names(cluster, Unmark) == set()
    cluster.pass_time(10)
    assert names(cluster, Remove) == {*graces, "alone"}
    cluster.leave("w3", "alone")
    cluster.run()
    assert nodes_of(cluster.log) == {"m": "n1"}


@pytest.mark.parametrize("ends", [30.0, 0.5])
def test_a_short_patience_does_not_make_others_victims_stuck(ends: float) -> None:
    """A pod whose grace period is not over, or has just ended, is on its way, however soon a gang gives up."""
    cluster = Cluster(
        node("n1"),
        node("n2"),
        gang("hasty").min(1).timeout(1),
        pod("v1").cpu(3).on("n1").terminating(ends),
        pod("v2").cpu(3).priority(1).on("n2"),
        pod("h").cpu(3).priority(5).gang("hasty"),
    )
    cluster.pass_time(1.5)
    assert names(cluster, Remove) == set()
    assert cluster.core.world.sightings.overdue == set()


# -- the gang ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", BEFORE_REMOVAL)
def test_a_minimum_that_is_lowered_saves_victims(phase: type[Write]) -> None:
    """The plan is made anew for one member: one victim instead of two."""
    cluster = stopped_in(phase)
    cluster.show(gang("g").min(1).timeout(60))
    go_on(cluster)
    assert len(names(cluster, Remove)) == 1
    cluster.leave()
    cluster.run()
    assert len(nodes_of(cluster.log)) == 1
    assert_clean(cluster)


@pytest.mark.parametrize("phase", BEFORE_REMOVAL)
def test_a_minimum_that_is_raised_beyond_the_cluster_costs_nobody(phase: type[Write]) -> None:
    """The third member exists, its room does not: nobody is evicted for two thirds of a gang."""
    cluster = preempting()
    cluster.show(pod("m3").cpu(3).priority(5).gang("g"))
    cluster.slow = lambda write: isinstance(write, phase)
    cluster.run()
    cluster.show(gang("g").min(3).timeout(60))
    go_on(cluster)
    assert names(cluster, Remove) == set()
    assert cluster.core.states() == {G: "Backoff"}
    assert_clean(cluster)


def test_a_minimum_that_is_raised_while_victims_leave_binds_no_part() -> None:
    """Two victims are gone, the gang now needs three members: none of them is bound before the third has room."""
    cluster = preempting()
    cluster.show(pod("m3").cpu(3).priority(5).gang("g"))
    cluster.run()
    cluster.show(gang("g").min(3).timeout(60))
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log) == {}
    assert_clean(cluster)
    cluster.show(node("n3"))
    cluster.pass_time(20)
    assert set(nodes_of(cluster.log)) == {"m1", "m2", "m3"}


@pytest.mark.parametrize("phase", PHASES)
def test_a_group_that_is_deleted_in_the_middle(phase: type[Write]) -> None:
    """Nobody knows any more what the gang needs: it gives everything back, says so, and evicts nobody further."""
    cluster = stopped_in(phase)
    before = names(cluster, Remove)
    cluster.show(Gone("PodGroup", "d", "g", group=SIGS))
    go_on(cluster)
    assert names(cluster, Remove) == before
    assert cluster.core.states() == {G: "Gathering"}
    assert texts(cluster.log, "m1")[-1] == ("GangNotReady", "PodGroup d/g does not exist")
    assert_clean(cluster)


# -- budgets and nodes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", BEFORE_REMOVAL)
def test_a_budget_that_is_tightened_in_the_middle_stops_a_strict_plan(phase: type[Write]) -> None:
    """The server says no to the second eviction: the plan stops, its other marks go, and the reason is told."""
    budget = pdb("b").selects(app="v")
    cluster = Cluster(
        node("n1"),
        node("n2"),
        gang("g").min(2).timeout(60),
        *(pod(f"v{i}").cpu(3).priority(1).label(app="v").on(f"n{i}") for i in (1, 2)),
        *(pod(f"m{i}").cpu(3).priority(5).gang("g") for i in (1, 2)),
        budget.allows(2),
        strict_budgets=True,
    )
    cluster.slow = lambda write: isinstance(write, phase)
    cluster.run()
    cluster.show(budget.allows(1))
    cluster.judge = lambda w: (Outcome.BLOCKED, "budget d/b") if isinstance(w, Remove) and w.pod.name == "v2" else None
    go_on(cluster)
    assert evicted(cluster) <= {"v1"}
    assert cluster.core.states() == {G: "Backoff"}
    assert_clean(cluster)


@pytest.mark.parametrize("phase", BEFORE_REMOVAL)
def test_a_node_that_is_tainted_before_removal_costs_nobody(phase: type[Write]) -> None:
    """The members cannot run there any more."""
    cluster = stopped_in(phase)
    cluster.show(node("n2").taint("gone", "soon"))
    go_on(cluster)
    assert names(cluster, Remove) == set()
    assert_clean(cluster)


@pytest.mark.parametrize("how", ["cordoned", "tainted", "shrunk", "deleting"])
def test_a_node_that_is_lost_while_victims_leave_is_replaced(how: str) -> None:
    """Who has left has left; the gang goes where there is room, and nobody else is evicted for it."""
    cluster = preempting()
    cluster.run()
    lost = node("n2")
    changed = {
        "cordoned": lost.cordoned,
        "tainted": lambda: lost.taint("gone", "soon"),
        "shrunk": lambda: lost.cpu(2),
        "deleting": lost.deleting,
    }[how]()
    cluster.show(changed, node("n3"))
    cluster.run()
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log).values()) == {"n1", "n3"}
    assert names(cluster, Remove) == {"v1", "v2"}


# -- healing -----------------------------------------------------------------------------------------------


def running() -> Cluster:
    """Gang g of two runs on two nodes."""
    cluster = Cluster(
        node("n1"), node("n2"), gang("g").min(2), *(pod(f"m{i}").cpu(3).priority(5).gang("g") for i in (1, 2))
    )
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}
    return cluster


@pytest.mark.parametrize("how", ["rejected", "deleted"])
def test_a_gang_that_lost_a_member_is_healed_before_weaker_work_gets_the_room(how: str) -> None:
    """The kubelet turned it away, or it was deleted; its successor comes with a weaker pod that has waited longer."""
    cluster = running()
    cluster.show(pod("weak").cpu(3).priority(1).created(-9))
    cluster.run()
    if how == "rejected":
        cluster.change("m2", phase="Failed")
    else:
        cluster.delete("m2")
    cluster.show(pod("m2b").cpu(3).priority(5).gang("g"))
    cluster.pass_time(20)
    assert cluster.pod("m2b").node == "n2"
    assert cluster.pod("weak").node == ""


def test_a_gang_whose_successor_comes_late_takes_the_room_back() -> None:
    """A weaker pod has got the room when it was held no longer: it leaves for the member, and nobody else does."""
    cluster = running()
    cluster.delete("m2")
    cluster.show(pod("weak").cpu(3).priority(1))
    cluster.pass_time(HOLD_SECONDS)
    assert cluster.pod("weak").node == "n2"
    cluster.show(pod("m2").uid("again").cpu(3).priority(5).gang("g"))
    cluster.run()
    cluster.leave()
    cluster.pass_time(20)
    assert names(cluster, Remove) == {"weak"}
    assert cluster.pod("m2").node == "n2"


def test_a_member_whose_binding_is_refused_for_good_goes_elsewhere() -> None:
    """Its node does not take it any more: it is placed on another one, the bound member stays."""
    cluster = Cluster(node("n1"), node("n2"), gang("g").min(2), *(pod(f"m{i}").cpu(3).gang("g") for i in (1, 2)))
    cluster.judge = lambda w: (Outcome.REFUSED, "no") if isinstance(w, Bind) and w.node == "n2" else None
    cluster.run()
    cluster.show(node("n2").cordoned(), node("n3"))
    cluster.pass_time(20)
    assert {cluster.pod(f"m{i}").node for i in (1, 2)} == {"n1", "n3"}
    assert names(cluster, Remove) == names(cluster, Nominate) == names(cluster, WithdrawNomination) == set()


@pytest.mark.parametrize("phase", [Nominate, Mark, Remove])
@pytest.mark.parametrize(("needed", "leave"), [(2, {"w1", "w3"}), (1, {"w1"})])
def test_a_member_leaves_singly_only_while_it_is_surplus(phase: type[Write], needed: int, leave: set[str]) -> None:
    """Another member has failed meanwhile: who is left leaves as a whole, or not at all, if no more can be spared."""
    low = [pod(f"w{i}").cpu(4).gang("low").on(f"n{i}", 10.0 * (4 - i)) for i in (1, 2, 3)]
    cluster = Cluster(*(node(f"n{i}").cpu(4) for i in (1, 2, 3)), gang("low").min(needed), *low)
    cluster.slow = lambda write: isinstance(write, phase)
    cluster.show(pod("p").cpu(4).priority(5))
    cluster.run()
    assert {victim.name for victim in cluster.decisions[-1].victims} == {"w1"}
    cluster.show(node("n2").cpu(4).cordoned())
    cluster.change("w2", phase="Failed")
    go_on(cluster)
    cluster.pass_time(60)
    assert evicted(cluster) == leave
