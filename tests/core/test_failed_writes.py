"""Writes that fail, in every phase and in every way."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.actions import Bind, Mark, Nominate, Remove, Unmark, WithdrawNomination, Write
from gangsched.core.events import WriteDone
from tests.builders import gang, node, pod
from tests.core.harness import Cluster, nodes_of, reports, texts
from tests.core.stories import G, assert_clean, evicted, go_on, names, preempting, stopped_in

# -- failed writes -----------------------------------------------------------------------------------------


def failing(kind: type[Write], outcome: str, times: int = 10**6) -> Any:
    """A judge that lets the first write of a kind to each pod fail, or so many."""
    left = {"n": times}

    def judge(write: Write) -> tuple[str, str] | None:
        if isinstance(write, kind) and left["n"] > 0:
            left["n"] -= 1
            return outcome, "because"
        return None

    return judge


@pytest.mark.parametrize("kind", [Nominate, Mark])
@pytest.mark.parametrize("outcome", ["refused", "transient"])
def test_a_failed_nomination_or_mark_ends_the_plan(kind: type[Write], outcome: str) -> None:
    """Without durable records nobody is evicted: everything is taken back, the reason is told, the gang backs off."""
    cluster = preempting()
    cluster.judge = failing(kind, outcome, 1)
    cluster.run()
    assert names(cluster, Remove) == set()
    assert cluster.core.states()[G] == "Backoff"
    assert texts(cluster.log, "m1")[-1][1] == f"{'Nominated' if kind is Nominate else 'Marked'}: {outcome}: because"
    assert_clean(cluster)


def test_a_failed_phase_waits_for_its_other_answers() -> None:
    """Nothing is taken back while a write of the phase may still take effect."""
    cluster = preempting()
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    cluster.judge = failing(Mark, "refused", 1)
    cluster.answer("v1")
    cluster.run()
    assert names(cluster, WithdrawNomination) == set()
    cluster.answer("v2")
    cluster.run()
    assert names(cluster, WithdrawNomination) == {"m1", "m2"}
    assert_clean(cluster)


@pytest.mark.parametrize("kind", [Mark, Remove])
def test_a_victim_that_is_gone_is_no_failure(kind: type[Write]) -> None:
    """Victims that left by themselves have done what was wanted."""
    cluster = stopped_in(kind)
    for name in ("v1", "v2"):
        cluster.delete(name)
    go_on(cluster)
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}


def test_a_removal_that_failed_for_a_while_is_repeated() -> None:
    """The list of victims is finished exactly, however often the server is away; the preemptor tells it once."""
    cluster = preempting()
    cluster.judge = failing(Remove, "transient", 5)
    cluster.run()
    assert evicted(cluster) == {"v1", "v2"}
    assert len([r for r in reports(cluster.log, "Preempted") if r.regarding[3] == "m1"]) == 1
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}


@pytest.mark.parametrize("outcome", ["blocked", "refused"])
def test_a_removal_that_is_forbidden_ends_the_plan(outcome: str) -> None:
    """A budget that has vanished, or missing rights: stop, withdraw, say so."""
    cluster = preempting()
    cluster.judge = lambda w: (outcome, "because") if isinstance(w, Remove) and w.pod.name == "v2" else None
    cluster.run()
    assert evicted(cluster) == {"v1"}
    assert cluster.core.states()[G] == "Backoff"
    assert texts(cluster.log, "m1")[-1][1] == f"Evicting: {outcome}: because"
    assert_clean(cluster)


def binding(outcome: str) -> Cluster:
    """A gang of two that fits; the binding of its second member comes out like this."""
    cluster = Cluster(node("n1"), node("n2"), gang("g").min(2), *(pod(f"m{i}").cpu(3).gang("g") for i in (1, 2)))
    cluster.judge = lambda w: (outcome, "because") if isinstance(w, Bind) and w.pod.name == "m2" else None
    cluster.run()
    assert nodes_of(cluster.log) == {"m1": "n1", "m2": "n2"}
    assert cluster.pod("m1").node == "n1"
    return cluster


def test_a_refused_binding_is_decided_again_after_a_backoff() -> None:
    """The member that is not bound is placed again; the others stay; no endless loop meanwhile."""
    cluster = binding("refused")
    assert cluster.core.states()[G] == "Backoff"
    assert texts(cluster.log, "m2")[-1] == ("Unschedulable", "Binding: refused: because")
    cluster.judge = lambda _: None
    assert nodes_of(cluster.pass_time(1.5)) == {"m2": "n2"}
    assert cluster.core.states() == {}


def test_a_binding_whose_fate_is_unknown_is_repeated_and_keeps_its_room() -> None:
    """It may have taken effect: the room is nobody else's until the same binding has been answered."""
    cluster = binding("transient")
    cluster.show(pod("late").cpu(2))
    cluster.run()
    assert cluster.pod("late").node == ""
    cluster.judge = lambda _: None
    assert nodes_of(cluster.pass_time(1.5)) == {"m2": "n2"}
    assert cluster.core.states() == {"d/late": "Backoff"}


def test_a_binding_whose_fate_is_unknown_may_turn_out_well() -> None:
    """When the cluster shows the pod bound, the repeated binding's conflict is no failure."""
    cluster = binding("transient")
    cluster.judge = lambda _: None
    cluster.change("m2", node="n2", phase="Running")
    cluster.pass_time(20)
    assert cluster.core.states() == {}
    assert cluster.pod("m2").node == "n2"


def test_bindings_that_keep_failing_back_off_further() -> None:
    """Each failure doubles the wait, as for gangs that do not fit."""
    cluster = Cluster(node("n1"), pod("p").cpu(1))
    cluster.judge = failing(Bind, "refused")
    cluster.pass_time(16)
    assert len([a for a in cluster.log if isinstance(a, Bind)]) == 5


def test_a_binding_that_failed_gives_its_room_free() -> None:
    """Another gang gets the room of a binding that did not come about."""
    cluster = Cluster(node("n1"), pod("a").cpu(4).priority(1), pod("b").cpu(4))
    cluster.judge = lambda w: ("refused", "because") if isinstance(w, Bind) and w.pod.name == "a" else None
    cluster.run()
    cluster.pass_time(3)
    assert cluster.pod("b").node == "n1"


def test_a_pod_bound_by_somebody_else_is_not_bound_again() -> None:
    """A conflict means that the cluster knows better: the core follows what it shows."""
    cluster = Cluster(node("n1"), node("n2"), pod("p").cpu(1))
    cluster.slow = lambda write: isinstance(write, Bind)
    cluster.run()
    cluster.change("p", node="n2", phase="Running")
    cluster.answer()
    cluster.slow = lambda _: False
    cluster.run()
    assert len([a for a in cluster.log if isinstance(a, Bind)]) == 1
    assert cluster.core.states() == {}
    assert cluster.core.world.snapshot.used[1].tolist() == [0, 1000]


def test_a_member_deleted_while_it_is_being_bound() -> None:
    """The others are bound; the gang then gathers for the one that is missing."""
    cluster = Cluster(node("n1"), node("n2"), gang("g").min(2), *(pod(f"m{i}").cpu(3).gang("g") for i in (1, 2)))
    cluster.slow = lambda write: isinstance(write, Bind)
    cluster.run()
    cluster.delete("m2")
    go_on(cluster)
    assert cluster.pod("m1").node == "n1"
    assert cluster.core.states() == {}
    cluster.show(pod("m2").cpu(3).gang("g").uid("second"))
    cluster.run()
    assert cluster.pod("m2").node == "n2"


def test_unknown_and_repeated_answers_change_nothing() -> None:
    """Answers to nothing, and answers that come twice, are ignored."""
    cluster = stopped_in(Nominate)
    first = cluster.waiting[0].id
    cluster.show(WriteDone(4711, "refused", "x"), WriteDone(first, "ok"), WriteDone(first, "refused", "x"))
    cluster.run()
    assert cluster.core.states() == {G: "Nominated"}


@pytest.mark.xfail(reason="a binding of unknown fate is forgotten when its gang becomes part of another group")
def test_a_binding_whose_fate_is_unknown_survives_a_new_gang_group() -> None:
    """The member is bound in the end, whatever group its gang is in by then."""
    cluster = binding("transient")
    pair = ("d/g", "d/h")
    cluster.show(gang("g").min(2).group(*pair), gang("h").group(*pair))
    cluster.run()
    cluster.judge = lambda _: None
    cluster.show(pod("h1").cpu(1).gang("h"))
    cluster.pass_time(20)
    assert cluster.pod("h1").node
    assert cluster.pod("m2").node


@pytest.mark.xfail(reason="what is taken back without success is not taken back again")
def test_taking_back_is_repeated_until_it_succeeds() -> None:
    """Nominations and marks of a plan that was given up do not stay because the server was away for a moment."""
    cluster = stopped_in(Mark)
    failed: set[tuple[str, str]] = set()

    def once(write: Write) -> tuple[str, str] | None:
        key = (type(write).__name__, write.pod.name)
        if not isinstance(write, WithdrawNomination | Unmark) or key in failed:
            return None
        failed.add(key)
        return "transient", "because"

    cluster.judge = once
    cluster.delete("m2")
    go_on(cluster)
    cluster.pass_time(30)
    assert len(failed) > 1
    assert_clean(cluster)
