"""Which terminating pods a decision waits for: on the nodes it has chosen, and wherever their rules reach from."""

from __future__ import annotations

import pytest

from gangsched.core.actions import Remove
from gangsched.core.decision import BIND, PREEMPT, UNSCHEDULABLE, WAIT
from gangsched.core.lifecycle.group import ROUND_PAUSE_SECONDS
from gangsched.model.constraints import PodTerm
from tests.builders import NodeBuilder, PodBuilder, gang, node, pod, selects
from tests.core.harness import Built, Cluster, kept, nodes_of, plan, texts

APART = (PodTerm("zone", selects(app="web"), ("d",)),)


def evicted(cluster: Cluster) -> set[str]:
    """Pods whose removal was asked for."""
    return {a.pod.name for a in cluster.log if isinstance(a, Remove)}


def zone(*names: str) -> list[NodeBuilder]:
    """Nodes of one zone."""
    return [node(name).label(zone="a") for name in names]


def web(name: str, cpu: float = 1) -> PodBuilder:
    """A pending pod of the app web."""
    return pod(name).cpu(cpu).label(app="web")


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        ([pod("t").on("n2").shape(anti_affinity=APART).terminating()], web("p")),
        ([pod("t").on("n2").label(app="web").terminating()], pod("p").cpu(1).shape(anti_affinity=APART)),
    ],
)
def test_a_pod_on_another_node_of_the_domain_is_awaited(there: list[Built], wanted: PodBuilder) -> None:
    """Anti-affinity reaches over the whole domain, in both directions, until the pod is gone."""
    others = [pod(f"u{n}").on("n2").terminating() for n in range(5)]
    found = plan(*zone("n1", "n2"), *there, *others, wanted)["d/p"]
    assert (found.outcome, [(a.pod, a.node) for a in found.awaiting]) == (WAIT, [("d/t", "n2")])


def test_nobody_is_awaited_where_the_rules_do_not_reach() -> None:
    """In another zone the terminating pod is no hindrance."""
    stranger = pod("t").on("n2").shape(anti_affinity=APART).terminating()
    found = plan(node("n1").label(zone="a"), node("n2").label(zone="b"), stranger, web("p"))["d/p"]
    assert (found.outcome, found.awaiting) == (BIND, ())


def test_room_and_rules_are_awaited_together() -> None:
    """A gang waits for the pod that has its room, and for one elsewhere that keeps it off the zone."""
    there = [
        pod("room").cpu(3).on("n1").terminating(),
        pod("rule").on("n2").shape(anti_affinity=APART).terminating(),
        pod("other").cpu(1).on("n2").terminating(),
        pod("full").cpu(3).on("n2"),
    ]
    members = [web(f"m{n}", 2).gang("g") for n in range(2)]
    found = plan(*zone("n1", "n2"), *there, gang("g").min(2), *members)["d/g"]
    assert (found.outcome, sorted(a.pod for a in found.awaiting)) == (WAIT, ["d/room", "d/rule"])


# -- overdue -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("now", "outcome"), [(100.0, WAIT), (130.0, WAIT), (130.5, UNSCHEDULABLE)])
def test_a_pod_that_should_be_gone_holds_its_room(now: float, outcome: str) -> None:
    """It is counted on to leave until 30 s after its deletionTimestamp, which is the end of its grace period."""
    found = plan(node("n1"), pod("t").cpu(3).on("n1").terminating(100.0), pod("p").cpu(3), now=now)
    assert found["d/p"].outcome == outcome


@pytest.mark.parametrize(("after", "outcome"), [(9.0, PREEMPT), (10.0, WAIT)])
def test_when_a_pod_is_overdue_is_a_setting(after: float, outcome: str) -> None:
    """Another pod is evicted instead from then on, and not before."""
    there = [pod("t").cpu(3).on("n1").terminating(100.0), pod("v").cpu(3).on("n2").priority(1)]
    found = plan(node("n1"), node("n2"), *there, pod("p").cpu(3).priority(5), now=110.0, overdue_after_seconds=after)
    assert found["d/p"].outcome == outcome
    assert [v.name for v in found["d/p"].victims] == (["v"] if outcome == PREEMPT else [])


def test_a_gang_that_waits_for_a_pod_that_becomes_overdue_is_decided_again() -> None:
    """It evicts another one, and is bound; what is overdue is neither removed again nor waited for."""
    there = [pod("t").cpu(3).on("n1").terminating(10.0), pod("v").cpu(3).on("n2").priority(1)]
    cluster = Cluster(node("n1"), node("n2"), *there, pod("p").cpu(3).priority(5))
    cluster.pass_time(40.0)
    assert evicted(cluster) == set()
    cluster.pass_time(0.5)
    assert evicted(cluster) == {"v"}
    cluster.leave("v")
    cluster.run()
    assert nodes_of(cluster.log) == {"p": "n2"}


def test_a_victim_that_becomes_overdue_is_planned_around() -> None:
    """It was removed for the gang; half a minute after its grace period, and a pause, another leaves instead."""
    there = [pod("v").cpu(3).on("n1"), pod("w").cpu(3).on("n2").priority(1)]
    cluster = Cluster(node("n1"), node("n2"), *there, pod("p").cpu(3).priority(5))
    cluster.pass_time(1.0)
    cluster.change("v", finalizers=("example.com/hold",))
    cluster.pass_time(59.0)
    assert evicted(cluster) == {"v"}
    cluster.pass_time(0.5)
    assert evicted(cluster) == {"v"}
    assert any("d/v (finalizer example.com/hold)" in text for _, text in texts(cluster.log, "p"))
    cluster.pass_time(ROUND_PAUSE_SECONDS)
    assert evicted(cluster) == {"v", "w"}


def test_a_plan_that_depends_on_a_pod_that_becomes_overdue_is_made_anew() -> None:
    """The victim of a stronger gang does not go: who lived off its room takes another, as the stronger gang does."""
    cluster = Cluster(
        *(node(f"n{n}") for n in (1, 2)), pod("v").cpu(4).on("n1"), pod("w").cpu(4).on("n2").priority(1),
        pod("first").cpu(2).priority(5), pod("second").cpu(2).priority(4),
    )  # fmt: skip
    cluster.pass_time(60.0)
    assert evicted(cluster) == {"v"}
    cluster.pass_time(0.5)
    assert evicted(cluster) == {"v", "w"}
    cluster.leave("w")
    cluster.run()
    assert nodes_of(cluster.log) == {"first": "n2", "second": "n2"}


# -- long waits --------------------------------------------------------------------------------------------


def beside(ends: float, grace: float = 30.0) -> list[Built]:
    """A pod that terminates until then on n1, one with this grace period that could be evicted on n2, and p."""
    slow = pod("t").cpu(3).on("n1").terminating(ends).field(grace_seconds=ends)
    victim = pod("v").cpu(3).on("n2").priority(1).field(grace_seconds=grace)
    return [node("n1"), node("n2"), slow, victim, pod("p").cpu(3).priority(5)]


@pytest.mark.parametrize(("ends", "outcome"), [(120.0, WAIT), (121.0, PREEMPT), (3600.0, PREEMPT)])
def test_a_gang_that_would_wait_too_long_evicts_others(ends: float, outcome: str) -> None:
    """Two minutes are waited for, as in the default of the setting; not an hour."""
    found = plan(*beside(ends))["d/p"]
    assert (found.outcome, found.warnings) == (outcome, ())
    assert [v.name for v in found.victims] == (["v"] if outcome == PREEMPT else [])


@pytest.mark.parametrize(("wait", "outcome"), [(60.0, WAIT), (59.0, PREEMPT)])
def test_what_is_too_long_is_a_setting(wait: float, outcome: str) -> None:
    """On both sides of it."""
    assert plan(*beside(60.0), max_wait_seconds=wait)["d/p"].outcome == outcome


@pytest.mark.parametrize(("grace", "outcome"), [(3600.0, UNSCHEDULABLE), (3599.0, PREEMPT)])
def test_others_are_not_evicted_when_they_take_as_long(grace: float, outcome: str) -> None:
    """Then the gang is decided again when the wait is short enough for its room to be held; the reason says when."""
    found = plan(*beside(3600.0, grace))["d/p"]
    assert found.outcome == outcome
    assert ("01:00:00" in found.message and "preemption.maxWait" in found.message) == (outcome == UNSCHEDULABLE)
    assert found.said.startswith("waits: it fits when 1 pod that terminate") == (outcome == UNSCHEDULABLE)


def test_a_slow_pod_of_less_harm_keeps_no_other_out() -> None:
    """Where one that takes as long would be the least harm, another one is evicted that leaves in time."""
    slow = pod("t").cpu(3).on("n1").terminating(3600.0).field(grace_seconds=3600.0)
    bait = pod("bait").cpu(1).on("n2").field(grace_seconds=10.0**9)
    quick = pod("quick").cpu(2).on("n2").priority(1)
    found = plan(node("n1"), node("n2"), slow, bait, quick, pod("p").cpu(2).priority(5))
    assert [v.name for v in found["d/p"].victims] == ["quick"]


def test_no_room_is_held_for_a_wait_that_is_too_long() -> None:
    """The owner of a small pod chooses how long it may take to leave: nodes are not kept empty for that, but for the
    last two minutes.
    """
    slow = pod("t").cpu(0.5).on("n1").terminating(3600.0).field(grace_seconds=3600.0)
    members = [pod(f"m{n}").cpu(4).gang("g") for n in range(2)]
    cluster = Cluster(node("n1"), node("n2"), slow, gang("g").min(2), *members)
    cluster.run()
    assert not kept(cluster)
    cluster.show(pod("x").cpu(2).created(1))
    cluster.run()
    assert nodes_of(cluster.log) == {"x": "n2"}
    cluster.delete("x")
    cluster.pass_time(3600.0 - 121.0)
    assert not kept(cluster)
    cluster.pass_time(2.0)
    assert kept(cluster)
    cluster.leave("t")
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"x", "m0", "m1"}


def test_a_gang_that_waited_in_vain_waits_without_room() -> None:
    """Pods that should have gone stay, one after another. For half a minute nothing is held then, and the gang is
    bound all the same when there is room.
    """
    members = [pod(f"m{n}").cpu(4).gang("g") for n in range(2)]
    cluster = Cluster(node("n1"), node("n2"), gang("g").min(2), *members)
    held = []
    for n in range(3):
        slow = pod(f"t{n}").cpu(0.5).on("n1").terminating(cluster.now + 100.0)
        cluster.show(slow.field(grace_seconds=100.0))
        if n:
            cluster.leave(f"t{n - 1}")
        cluster.run()
        held.append(bool(kept(cluster)))
        if n < 2:
            cluster.pass_time(131.0)
    assert held == [True, True, False]
    assert "had no effect" in cluster.decisions[-1].message
    cluster.pass_time(31.0)
    assert kept(cluster)
    cluster.leave("t2")
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m0", "m1"}


def test_a_victim_of_another_plan_that_takes_long_is_not_waited_for() -> None:
    """A gang that could live off what an earlier one evicts takes a pod of its own if that is gone much sooner."""
    slow = pod("s").cpu(4).on("n1").field(grace_seconds=3600.0)
    objects: list[Built] = [
        node("n1"),
        slow,
        node("n2"),
        pod("v").cpu(4).on("n2").priority(2),
        pod("first").cpu(2).priority(9),
    ]
    found = plan(*objects, pod("first").cpu(2).priority(9), pod("second").cpu(2).priority(5))
    assert [v.name for v in found["d/first"].victims] == ["s"]
    assert (found["d/second"].outcome, [v.name for v in found["d/second"].victims]) == (PREEMPT, ["v"])


def test_a_gang_that_evicts_instead_of_waiting_goes_through_with_it() -> None:
    """What leaves in an hour is no room that has turned up: the victim is removed, once, and the gang is bound."""
    cluster = Cluster(*beside(3600.0))
    cluster.pass_time(20.0)
    cluster.leave("v")
    cluster.run()
    assert (evicted(cluster), nodes_of(cluster.log)) == ({"v"}, {"p": "n2"})
    assert len([d for d in cluster.decisions if d.outcome == PREEMPT]) == 1
