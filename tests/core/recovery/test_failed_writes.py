"""Writes that fail, in every phase and in every way."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.core.actions import Bind, Mark, Nominate, Remove, Unmark, WithdrawNomination, Write
from gangsched.core.events import Outcome, WriteDone
from gangsched.core.framework.arguments import NodeResourcesFitArgs
from gangsched.core.framework.registry import PluginSet
from tests.builders import gang, node, pod
from tests.core.harness import Cluster, nodes_of, reports, texts, writes
from tests.core.stories import G, assert_clean, evicted, go_on, names, preempting, stopped_in

# -- failed writes -----------------------------------------------------------------------------------------


def failing(kind: type[Write], outcome: Outcome, times: int = 10**6) -> Any:
    """A judge that lets the first write of a kind to each pod fail, or so many."""
    left = {"n": times}

    def judge(write: Write) -> tuple[Outcome, str] | None:
        if isinstance(write, kind) and left["n"] > 0:
            left["n"] -= 1
            return outcome, "because"
        return None

    return judge


@pytest.mark.parametrize("kind", [Nominate, Mark])
@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.TRANSIENT])
def test_a_failed_nomination_or_mark_ends_the_plan(kind: type[Write], outcome: Outcome) -> None:
    """Without durable records nobody is evicted: everything is taken back, the reason is told, the gang backs off."""
    cluster = preempting()
    cluster.judge = failing(kind, outcome, 1)
    cluster.run()
    assert names(cluster, Remove) == set()
    assert cluster.core.states()[G] == "Backoff"
    assert texts(cluster.log, "m1")[-1][1] == f"{'Nominating' if kind is Nominate else 'Marking'}: {outcome}: because"
    assert_clean(cluster)


def test_the_status_of_its_group_does_not_end_a_backoff() -> None:
    """We write it ourselves, and it says nothing about the gang that a decision rests on; a new minimum does."""
    cluster = preempting()
    cluster.judge = failing(Nominate, Outcome.TRANSIENT, 1)
    cluster.run()
    group = gang("g").min(2).timeout(60).obj()
    cluster.show(msgspec.structs.replace(group, status={"phase": "Scheduling"}, generation=2))
    cluster.run()
    assert cluster.core.states()[G] == "Backoff"
    cluster.show(msgspec.structs.replace(group, min_member=1))
    cluster.run()
    assert cluster.core.states()[G] != "Backoff"


def test_a_failed_phase_waits_for_its_other_answers() -> None:
    """Nothing is taken back while a write of the phase may still take effect."""
    cluster = preempting()
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    cluster.judge = failing(Mark, Outcome.REFUSED, 1)
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
    cluster.judge = failing(Remove, Outcome.TRANSIENT, 5)
    cluster.run()
    assert evicted(cluster) == {"v1", "v2"}
    assert len([r for r in reports(cluster.log, "Preempted") if r.regarding[3] == "m1"]) == 1
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}


@pytest.mark.parametrize("outcome", [Outcome.BLOCKED, Outcome.REFUSED])
def test_a_removal_that_is_forbidden_ends_the_plan(outcome: Outcome) -> None:
    """A budget that has vanished, or missing rights: stop, withdraw, say so."""
    cluster = preempting()
    cluster.judge = lambda w: (outcome, "because") if isinstance(w, Remove) and w.pod.name == "v2" else None
    cluster.run()
    assert evicted(cluster) == {"v1"}
    assert cluster.core.states()[G] == "Backoff"
    assert texts(cluster.log, "m1")[-1][1] == f"Removing: {outcome}: because"
    assert_clean(cluster)


def binding(outcome: Outcome) -> Cluster:
    """A gang of two that fits; the binding of its second member comes out like this."""
    cluster = Cluster(node("n1"), node("n2"), gang("g").min(2), *(pod(f"m{i}").cpu(3).gang("g") for i in (1, 2)))
    cluster.judge = lambda w: (outcome, "because") if isinstance(w, Bind) and w.pod.name == "m2" else None
    cluster.run()
    assert nodes_of(cluster.log) == {"m1": "n1", "m2": "n2"}
    assert cluster.pod("m1").node == "n1"
    return cluster


def test_a_refused_binding_is_decided_again_after_a_backoff() -> None:
    """The member that is not bound is placed again; the others stay; no endless loop meanwhile."""
    cluster = binding(Outcome.REFUSED)
    assert cluster.core.states()[G] == "Backoff"
    tried = "which are tried on other nodes, before any weaker work"
    in_part = f"The gang is bound in part: 1 bound, 1 more needed, {tried}"
    assert texts(cluster.log, "m2")[-1] == ("Unschedulable", f"Binding: refused: because. {in_part}")
    cluster.judge = lambda _: None
    assert nodes_of(cluster.pass_time(1.5)) == {"m2": "n2"}
    assert cluster.core.states() == {}


def test_a_binding_whose_fate_is_unknown_is_repeated_and_keeps_its_room() -> None:
    """It may have taken effect: the room is nobody else's until the same binding has been answered."""
    cluster = binding(Outcome.TRANSIENT)
    cluster.show(pod("late").cpu(2))
    cluster.run()
    assert cluster.pod("late").node == ""
    cluster.judge = lambda _: None
    assert nodes_of(cluster.pass_time(1.5)) == {"m2": "n2"}
    assert cluster.core.states() == {"d/late": "Backoff"}


def test_ignored_resources_do_not_keep_a_binding_from_being_repeated() -> None:
    """Of a resource that the profile ignores there is always enough, whatever the node says."""
    fit = PluginSet(arguments=(("NodeResourcesFit", NodeResourcesFitArgs(ignored_resources=("example.com/foo",))),))
    cluster = Cluster(
        node("n1").cpu(4),
        node("n2").cpu(4),
        pod("p").cpu(1).requests(**{"example.com/foo": 1}),
        profiles=(("py-gang-scheduler", fit),),
    )
    cluster.judge = failing(Bind, Outcome.TRANSIENT, 1)
    cluster.run()
    (first,) = nodes_of(cluster.log).values()
    cluster.show(node(first).cpu(1))
    cluster.pass_time(30)
    assert [a.node for a in cluster.log if isinstance(a, Bind)] == [first, first]


def test_a_binding_whose_fate_is_unknown_may_turn_out_well() -> None:
    """When the cluster shows the pod bound, the repeated binding's conflict is no failure."""
    cluster = binding(Outcome.TRANSIENT)
    cluster.judge = lambda _: None
    cluster.change("m2", node="n2", phase="Running")
    cluster.pass_time(20)
    assert cluster.core.states() == {}
    assert cluster.pod("m2").node == "n2"


def test_bindings_that_keep_failing_back_off_further() -> None:
    """Each failure doubles the wait, as for gangs that do not fit."""
    cluster = Cluster(node("n1"), pod("p").cpu(1))
    cluster.judge = failing(Bind, Outcome.REFUSED)
    cluster.pass_time(16)
    assert len([a for a in cluster.log if isinstance(a, Bind)]) == 5


def test_a_binding_that_failed_gives_its_room_free() -> None:
    """Another gang gets the room of a binding that did not come about."""
    cluster = Cluster(node("n1"), pod("a").cpu(4).priority(1), pod("b").cpu(4))
    cluster.judge = lambda w: (Outcome.REFUSED, "because") if isinstance(w, Bind) and w.pod.name == "a" else None
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
    cluster.show(
        WriteDone(4711, Outcome.REFUSED, "x"), WriteDone(first, Outcome.OK), WriteDone(first, Outcome.REFUSED, "x")
    )
    cluster.run()
    assert cluster.core.states() == {G: "Nominating"}


def test_a_binding_whose_fate_is_unknown_survives_a_new_gang_group() -> None:
    """The member is bound in the end, whatever group its gang is in by then."""
    cluster = binding(Outcome.TRANSIENT)
    pair = ("d/g", "d/h")
    cluster.show(gang("g").min(2).group(*pair), gang("h").group(*pair))
    cluster.run()
    cluster.judge = lambda _: None
    cluster.show(pod("h1").cpu(1).gang("h"))
    cluster.pass_time(20)
    assert cluster.pod("h1").node
    assert cluster.pod("m2").node


def test_taking_back_is_repeated_until_it_succeeds() -> None:
    """Nominations and marks of a plan that was given up do not stay because the server was away for a moment."""
    cluster = stopped_in(Mark)
    failed: set[tuple[str, str]] = set()

    def once(write: Write) -> tuple[Outcome, str] | None:
        key = (type(write).__name__, write.pod.name)
        if not isinstance(write, WithdrawNomination | Unmark) or key in failed:
            return None
        failed.add(key)
        return Outcome.TRANSIENT, "because"

    cluster.judge = once
    cluster.delete("m2")
    go_on(cluster)
    cluster.pass_time(30)
    assert len(failed) > 1
    assert_clean(cluster)


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        (Bind, Outcome.CONFLICT),
        (Bind, Outcome.GONE),
        (Nominate, Outcome.CONFLICT),
        (Nominate, Outcome.GONE),
        (Mark, Outcome.CONFLICT),
    ],
)
def test_a_picture_that_stays_wrong_is_not_acted_on_at_full_speed(kind: type[Write], outcome: Outcome) -> None:
    """The first surprise is followed by a new decision at once, further ones in a row by a growing pause."""
    cluster = preempting() if kind is not Bind else Cluster(node("n1"), pod("p").cpu(1))
    cluster.judge = failing(kind, outcome)
    name = "p" if kind is Bind else "m1"
    asked = Bind if kind is Bind else Nominate

    def attempts() -> int:
        return sum(isinstance(a, asked) and a.pod.name == name for a in cluster.log)

    cluster.run()
    assert attempts() == 2
    cluster.pass_time(7.5)
    assert attempts() == 5
    cluster.judge = lambda _: None
    cluster.pass_time(10)
    cluster.leave()
    cluster.run()
    assert cluster.core.states() == {}
    assert cluster.pod(name).node


@pytest.mark.parametrize("outcome", [Outcome.CONFLICT, Outcome.REFUSED])
def test_what_has_become_of_the_gangs_own_bindings_is_no_news(outcome: Outcome) -> None:
    """The first member is bound and seen so before the second one fails: no new attempt before its time."""
    cluster = Cluster(node("n1"), node("n2"), gang("g").min(2), *(pod(f"m{i}").cpu(3).gang("g") for i in (1, 2)))
    cluster.judge = lambda w: (outcome, "because") if isinstance(w, Bind) and w.pod.name == "m2" else None
    cluster.slow = lambda write: isinstance(write, Bind) and write.pod.name == "m2"
    for _ in range(2):
        cluster.run()
        cluster.answer()
    cluster.run()
    assert cluster.core.states()[G] == "Backoff"
    cluster.judge = lambda _: None
    cluster.slow = lambda _: False
    assert nodes_of(cluster.pass_time(1.5)) == {"m2": "n2"}


def test_a_binding_whose_fate_is_unknown_outlives_its_phase() -> None:
    """Its gang becomes part of another group while other answers are still to come: it is repeated all the same."""
    cluster = Cluster(node("n1"), node("n2"), gang("g").min(2), *(pod(f"m{i}").cpu(3).gang("g") for i in (1, 2)))
    cluster.judge = lambda w: (Outcome.TRANSIENT, "because") if isinstance(w, Bind) else None
    cluster.slow = lambda write: isinstance(write, Bind) and write.pod.name == "m1"
    cluster.run()
    pair = ("d/g", "d/h")
    cluster.show(gang("g").min(2).group(*pair), gang("h").group(*pair), pod("h1").cpu(1).gang("h"))
    cluster.run()
    cluster.answer()
    cluster.run()
    cluster.judge = lambda _: None
    cluster.slow = lambda _: False
    cluster.pass_time(20)
    assert {n for (_, n), p in cluster.pods.items() if p.node} == {"m1", "m2", "h1"}


def test_a_repeated_binding_that_is_refused_gives_its_room_free() -> None:
    """The member is pending again, and its new group places it anew."""
    cluster = binding(Outcome.TRANSIENT)
    pair = ("d/g", "d/h")
    cluster.show(gang("g").min(2).group(*pair), gang("h").group(*pair), pod("h1").cpu(1).gang("h"))
    cluster.run()
    cluster.judge = failing(Bind, Outcome.REFUSED, 1)
    cluster.pass_time(20)
    assert {n for (_, n), p in cluster.pods.items() if p.node} == {"m1", "m2", "h1"}
    assert cluster.core.states() == {}


@pytest.mark.parametrize("kind", [WithdrawNomination, Unmark])
def test_taking_back_pauses_longer_and_longer(kind: type[Write]) -> None:
    """Refused for good, it is repeated at the pace of other attempts, and stops with the pod."""
    cluster = stopped_in(Mark)
    cluster.judge = failing(kind, Outcome.REFUSED)
    cluster.delete("m2")
    go_on(cluster)
    cluster.pass_time(7.5)
    name = "m1" if kind is WithdrawNomination else "v1"
    assert len([a for a in cluster.log if isinstance(a, kind) and a.pod.name == name]) == 4
    for gone in ("m1", "v1", "v2"):
        cluster.delete(gone)
    cluster.pass_time(60)
    assert cluster.core.wake_at() is None


def test_what_is_taken_back_in_vain_does_not_keep_the_next_plan_waiting() -> None:
    """Its marks name another plan; the new one marks what it wants again, and the rest is repeated until it is done."""
    cluster = preempting()
    cluster.show(node("n3"), pod("v3").cpu(3).priority(2).on("n3"))
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    cluster.judge = lambda w: (Outcome.TRANSIENT, "x") if isinstance(w, Unmark) else None
    cluster.show(node("n2").cordoned())
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.answer()
    cluster.run()
    assert names(cluster, Remove) == {"v1", "v3"}
    assert cluster.pod("v2").disruption_target
    cluster.judge = lambda _: None
    cluster.pass_time(20)
    assert not cluster.pod("v2").disruption_target
    records = {name: cluster.pod(name).intent for name in ("m1", "m2")}
    assert {n: c.status for n, c in records.items() if c} == {"m1": "True", "m2": "True"}
    told = {v: [kind for kind, name in writes(cluster.log) if name == v] for v in ("v1", "v2")}
    assert told["v1"] == ["Mark", "Unmark", "Mark", "Remove"]
    assert told["v2"] == ["Mark", *["Unmark"] * (len(told["v2"]) - 1)]


def test_a_mark_that_two_plans_share_is_taken_back_by_the_last() -> None:
    """The weaker gang leaves it to the stronger one, which gives up before it has marked anything itself."""
    cluster = stopped_in(Mark)
    cluster.answer("v1")
    cluster.show(gang("h").min(2), *(pod(f"h{i}").cpu(3).priority(9).gang("h") for i in (1, 2)))
    cluster.slow = lambda write: isinstance(write, Nominate | Mark)
    cluster.run()
    assert cluster.core.states()["d/h"] == "Nominating"
    cluster.show(node("n1").cordoned(), node("n2").cordoned())
    go_on(cluster)
    assert names(cluster, Remove) == set()
    assert_clean(cluster)


def test_a_removal_that_fails_after_its_plan_was_given_up_is_no_removal() -> None:
    """The victim stays, and so its mark is taken back."""
    cluster = stopped_in(Remove)
    cluster.judge = lambda w: (Outcome.REFUSED, "because") if isinstance(w, Remove) else None
    cluster.answer("v1")
    cluster.delete("m2")
    cluster.run()
    go_on(cluster)
    assert evicted(cluster) == set()
    assert_clean(cluster)


def test_a_gang_is_not_decided_again_while_its_nominations_stand() -> None:
    """A nomination of the old plan that cannot be withdrawn yet would be one of the new: the gang waits until it is."""
    cluster = preempting()
    cluster.show(node("n3"), pod("v3").cpu(3).priority(2).on("n3"))
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    cluster.judge = lambda w: (Outcome.TRANSIENT, "x") if isinstance(w, WithdrawNomination) else None
    cluster.show(node("n2").cordoned())
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    assert names(cluster, Remove) == set()
    assert cluster.core.states() == {G: "Queued"}
    cluster.judge = lambda _: None
    cluster.pass_time(20)
    assert names(cluster, Remove) == {"v1", "v3"}
