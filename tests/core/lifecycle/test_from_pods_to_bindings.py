"""The whole core on a cluster that answers: phases, waiting, binding, and what people are told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gangsched.core.actions import Action, Bind, Mark, Nominate, Remove, Report, SetCondition, WithdrawNomination, Write
from gangsched.core.events import Gone, Outcome, WriteDone
from gangsched.model.constraints import PodTerm
from tests.builders import PodBuilder, gang, node, pod, selects
from tests.core.harness import Built, Cluster, nodes_of, reports, writes

G = "d/g"


def preempting(kind: type[Cluster] = Cluster, **options: Any) -> Cluster:
    """Gang g of two needs both nodes; v1 and v2 are in the way."""
    return kind(
        node("n1"),
        node("n2"),
        gang("g").min(2).timeout(60),
        *(pod(f"v{i}").cpu(3).priority(1).on(f"n{i}") for i in (1, 2)),
        *(pod(f"m{i}").cpu(3).priority(5).gang("g") for i in (1, 2)),
        **options,
    )


def state(cluster: Cluster, name: str = G) -> str | None:
    """The gang's state; None when nothing is left to do for it."""
    return cluster.core.states().get(name)


# -- phases ------------------------------------------------------------------------------------------------


def test_a_gang_that_fits_is_bound_at_once() -> None:
    """Nothing is nominated, marked or removed for a gang that fits."""
    cluster = Cluster(node("n1"), node("n2"), gang("g").min(2), *(pod(f"m{i}").cpu(3).gang("g") for i in (1, 2)))
    actions = cluster.run()
    assert writes(actions) == [("Bind", "m1"), ("Bind", "m2")]
    assert nodes_of(actions) == {"m1": "n1", "m2": "n2"}
    assert state(cluster) is None


def test_the_whole_way_of_a_preemption() -> None:
    """Nominate all, mark all, remove all, wait for all, bind all."""
    cluster = preempting()
    assert writes(cluster.run()) == [
        ("Nominate", "m1"), ("Nominate", "m2"),
        ("Mark", "v1"), ("Mark", "v2"),
        ("Remove", "v1"), ("Remove", "v2"),
    ]  # fmt: skip
    assert state(cluster) == "WaitingForVictims"
    cluster.leave("v1")
    assert writes(cluster.run()) == []
    cluster.leave("v2")
    assert writes(cluster.run()) == [("Bind", "m1"), ("Bind", "m2")]
    assert state(cluster) is None


class PlainWords(Cluster):
    """A cluster whose answers to writes are plain strings."""

    def handle(self, *events: Built) -> list[Action]:
        self._events = [
            msgspec.structs.replace(e, outcome=str(e.outcome.value)) if isinstance(e, WriteDone) else e
            for e in self._events
        ]
        return super().handle(*events)


def test_answers_in_plain_words_are_the_same() -> None:
    """Whoever says ``"ok"`` where an outcome is meant is understood."""
    usual, plain = preempting(), preempting(PlainWords)
    for cluster in (usual, plain):
        cluster.run()
        cluster.leave()
        cluster.run()
    assert plain.log == usual.log
    assert nodes_of(plain.log) == {"m1": "n1", "m2": "n2"}


@pytest.mark.parametrize(
    ("slow", "forbidden"),
    [(Nominate, {"Mark", "Remove", "Bind"}), (Mark, {"Remove", "Bind"}), (Remove, {"Bind"})],
    ids=["nominate", "mark", "remove"],
)
def test_a_phase_begins_when_every_write_of_the_last_is_answered(slow: type[Write], forbidden: set[str]) -> None:
    """One outstanding answer holds the next phase back."""
    cluster = preempting()
    cluster.slow = lambda write: isinstance(write, slow)
    cluster.run()
    for _ in range(2):
        assert len(cluster.waiting) > 0
        assert not forbidden & {kind for kind, _ in writes(cluster.log)}
        cluster.answer(cluster.waiting[0].pod.name)
        cluster.run()
    cluster.leave()
    cluster.run()
    assert {kind for kind, _ in writes(cluster.log)} == {"Nominate", "Mark", "Remove", "Bind"}


def test_no_bind_before_the_last_answer_though_the_victims_are_gone() -> None:
    """A removal that is not answered yet may still do something."""
    cluster = preempting()
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.sent = True
    cluster.run()
    for name in ("v1", "v2"):
        cluster.delete(name)
    cluster.run()
    assert not nodes_of(cluster.log)
    cluster.answer()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}


def test_writes_say_what_they_are_for() -> None:
    """The intent record names the plan; the mark names scheduler, gang and first member; removal carries the mark."""
    cluster = preempting()
    cluster.run()
    nominate = next(a for a in cluster.log if isinstance(a, Nominate))
    mark = next(a for a in cluster.log if isinstance(a, Mark))
    remove = next(a for a in cluster.log if isinstance(a, Remove))
    assert nominate.plan
    assert nominate.plan in nominate.message
    text = "py-gang-scheduler: preempting to accommodate higher priority pods, preemptor: d/g, triggerpod: d/m1"
    assert (mark.message, remove.mark, remove.evict) == (text, text, False)
    assert (remove.pod.name, remove.pod.uid) == ("v1", "uid-d-v1")


def test_a_preemption_that_works_is_no_failure() -> None:
    """Members wait for their victims; what nobody's leaving helps has failed."""
    cluster = preempting()
    cluster.run()
    told = reports(cluster.log, "WaitingOnPreemption")
    assert {(r.regarding[3], r.kind, r.note) for r in told} == {
        (name, "Normal", "2 members can start after 2 pods are evicted") for name in ("m1", "m2")
    }
    assert reports(cluster.log, "FailedScheduling") == []
    cluster.show(pod("large").cpu(99).priority(9))
    assert [r.regarding[3] for r in reports(cluster.run(), "FailedScheduling")] == ["large"]


def test_strict_budgets_evict() -> None:
    """With strict budgets victims leave through the eviction API."""
    cluster = preempting(strict_budgets=True)
    cluster.run()
    assert [a.evict for a in cluster.log if isinstance(a, Remove)] == [True, True]


def test_both_sides_are_told() -> None:
    """Events: on each victim once it is removed, on the preemptor once, on each member when it is bound."""
    cluster = preempting()
    cluster.run()
    told = [r.regarding[3] for r in reports(cluster.log, "Preempted")]
    assert sorted(told) == ["m1", "v1", "v2"]
    cluster.leave()
    assert [r.regarding[3] for r in reports(cluster.run(), "Scheduled")] == ["m1", "m2"]


def test_one_event_for_the_gang() -> None:
    """With one Event per gang its object hears of the bindings, once for all; victims have their own."""
    cluster = preempting(events_per_gang=True)
    cluster.run()
    assert sorted(r.regarding[3] for r in reports(cluster.log, "Preempted")) == ["m1", "v1", "v2"]
    cluster.leave()
    (report,) = reports(cluster.run(), "Scheduled")
    assert report.regarding[1:4] == ("PodGroup", "d", "g")
    assert report.note == "Successfully assigned 2 pods to 2 node(s): m1 to n1, m2 to n2"


def test_one_event_waits_for_the_last_binding() -> None:
    """A binding that has to be repeated is told of when it has succeeded, the others when nothing is on its way."""
    cluster = Cluster(node("n1"), gang("g").min(2), *(pod(f"m{i}").gang("g") for i in (1, 2)), events_per_gang=True)
    cluster.slow = lambda write: write.pod.name == "m2"
    assert reports(cluster.run(), "Scheduled") == []
    cluster.judge = lambda _: (Outcome.TRANSIENT, "the server is busy")
    cluster.answer()
    notes = [r.note for r in reports(cluster.run(), "Scheduled")]
    assert notes == ["Successfully assigned 1 pod to 1 node(s): m1 to n1"]
    cluster.judge, cluster.slow = lambda _: None, lambda _: False
    notes = [r.note for r in reports(cluster.pass_time(30), "Scheduled")]
    assert notes == ["Successfully assigned 1 pod to 1 node(s): m2 to n1"]


@pytest.mark.parametrize("known", [True, False])
def test_one_event_says_why_a_gang_waits(known: bool) -> None:
    """It is on the group object, or on the first member when there is none; every member has its condition."""
    group = [gang("g").min(2)] if known else []
    members = [pod(f"m{i}").cpu(9).gang("g") for i in (2, 1)]
    cluster = Cluster(node("n1"), *group, *members, events_per_gang=True)
    actions = cluster.run()
    told = [a for a in actions if isinstance(a, Report)]
    assert [(a.regarding[1], a.regarding[3]) for a in told] == [("PodGroup", "g") if known else ("Pod", "m1")]
    assert [a.pod.name for a in actions if isinstance(a, SetCondition)] == ["m1", "m2"]
    cluster.show(pod("m3").cpu(9).gang("g"))
    assert reports(cluster.run(), told[0].reason) == []


def test_a_pod_without_a_group_has_its_own_event() -> None:
    """One Event per gang is no different for a gang of one."""
    cluster = Cluster(node("n1"), pod("a"), pod("b"), events_per_gang=True)
    assert sorted(r.regarding[1:4] for r in reports(cluster.run(), "Scheduled")) == [("Pod", "d", n) for n in "ab"]


def test_finished_counts_as_gone() -> None:
    """A victim that succeeds or fails gives its room free although its object stays."""
    cluster = preempting()
    cluster.run()
    cluster.change("v1", phase="Succeeded")
    cluster.change("v2", phase="Failed")
    assert set(nodes_of(cluster.run())) == {"m1", "m2"}


def test_a_victim_that_is_gone_before_its_turn_is_not_missed() -> None:
    """Victims that leave by themselves, at whatever moment, are neither marked nor removed, nor waited for."""
    cluster = preempting()
    cluster.slow = lambda write: isinstance(write, Nominate)
    cluster.run()
    cluster.delete("v1")
    cluster.run()
    cluster.answer()
    cluster.slow = lambda _: False
    cluster.run()
    assert ("Mark", "v1") not in writes(cluster.log)
    assert ("Remove", "v2") in writes(cluster.log)
    cluster.leave()
    assert set(nodes_of(cluster.run())) == {"m1", "m2"}


def test_a_recreated_pod_of_a_victims_name_is_not_the_victim() -> None:
    """Another incarnation is neither marked nor removed."""
    cluster = preempting()
    cluster.slow = lambda write: isinstance(write, Nominate)
    cluster.run()
    cluster.show(pod("v1").cpu(3).priority(9).uid("another"))
    cluster.answer()
    cluster.run()
    assert {w.pod.uid for w in cluster.log if isinstance(w, Mark | Remove)} == {"uid-d-v2"}


def test_nobody_is_evicted_when_room_has_turned_up() -> None:
    """The last look before the first removal: marks and nominations are taken back when they are not needed."""
    cluster = preempting()
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    cluster.show(node("n3"), node("n4"))
    cluster.answer()
    cluster.run()
    kinds = {kind for kind, _ in writes(cluster.log)}
    assert "Remove" not in kinds
    assert set(nodes_of(cluster.log).values()) == {"n3", "n4"}
    assert {cluster.pod(n).disruption.status for n in ("v1", "v2")} == {"False"}  # type: ignore[union-attr]


@pytest.mark.parametrize("phase", [Nominate, Mark])
@pytest.mark.parametrize("how", ["gone", "failed", "terminating"])
def test_who_has_nobody_left_to_evict_keeps_its_room(phase: type[Write], how: str) -> None:
    """All victims leave by themselves while the plan is written down: weaker work that waits does not come between."""
    cluster = Cluster(node("n1"), pod("v").cpu(3).priority(1).on("n1"), pod("weak").cpu(3).priority(1))
    cluster.run()
    cluster.slow = lambda write: isinstance(write, phase)
    cluster.show(pod("p").cpu(3).priority(5))
    cluster.run()
    if how == "gone":
        cluster.delete("v")
    else:
        cluster.change("v", **({"phase": "Failed"} if how == "failed" else {"deleting_since": cluster.now}))
    cluster.slow = lambda _: False
    cluster.answer()
    cluster.run()
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log) == {"p": "n1"}
    assert {kind for kind, _ in writes(cluster.log)} <= {"Nominate", "Mark", "Bind"}


def test_waiting_for_terminating_pods_needs_no_marks() -> None:
    """Room that is being given up is held in the same way, without victims."""
    cluster = Cluster(node("n1"), pod("t").cpu(4).on("n1").terminating(), pod("p").cpu(4).priority(1))
    assert writes(cluster.run()) == [("Nominate", "p")]
    assert state(cluster, "d/p") == "WaitingForVictims"
    cluster.leave()
    assert writes(cluster.run()) == [("Bind", "p")]


# -- held room ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("priority", "winner"), [(1, "p"), (5, "p"), (6, "late")])
def test_held_room_is_for_its_gang(priority: int, winner: str) -> None:
    """While victims terminate, only a gang of higher priority may take the room they leave."""
    cluster = Cluster(node("n1"), pod("v").cpu(4).priority(1).on("n1"), pod("p").cpu(4).priority(5))
    cluster.run()
    cluster.show(pod("late").cpu(1).priority(priority))
    assert "Remove" not in {kind for kind, _ in writes(cluster.run())}
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log) == {winner: "n1"}


def test_what_victims_leave_beyond_the_request_is_not_held() -> None:
    """Only the members' own requests are held."""
    cluster = Cluster(node("n1"), pod("v").cpu(4).on("n1"), pod("p").cpu(1).priority(5))
    cluster.run()
    cluster.leave()
    cluster.slow = lambda write: isinstance(write, Bind)
    cluster.run()
    cluster.show(pod("late").cpu(3))
    cluster.run()
    assert [w.pod.name for w in cluster.waiting] == ["p", "late"]


def test_a_gang_of_higher_priority_takes_over() -> None:
    """The room goes to the stronger; the weaker withdraws and looks elsewhere, nobody is evicted twice."""
    cluster = preempting()
    cluster.run()
    cluster.show(gang("h").min(2), *(pod(f"h{i}").cpu(3).priority(9).gang("h") for i in (1, 2)))
    actions = cluster.run()
    assert {n for kind, n in writes(actions) if kind == "WithdrawNomination"} == {"m1", "m2"}
    assert "Remove" not in {kind for kind, _ in writes(actions)}
    cluster.leave()
    assert set(nodes_of(cluster.run())) == {"h1", "h2"}
    assert cluster.pod("m1").nominated_node == ""
    assert state(cluster) == "Backoff"


def test_two_gangs_do_not_split_the_cluster_between_them() -> None:
    """Each needs all of it: one gets it, the other waits, whatever the order of their pods."""
    cluster = Cluster(
        node("n1"), node("n2"), gang("a").min(2), gang("b").min(2),
        *(pod(f"{g}{i}").cpu(3).gang(g) for i in (1, 2) for g in ("b", "a")),
    )  # fmt: skip
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"a1", "a2"}
    assert state(cluster, "d/b") == "Backoff"
    for name in ("a1", "a2"):
        cluster.delete(name)
    cluster.pass_time(20)
    assert set(nodes_of(cluster.log)) == {"a1", "a2", "b1", "b2"}


def test_a_lost_node_withdraws_what_was_nominated_to_it() -> None:
    """The plan is made anew; nothing was evicted for it yet, so nothing is lost."""
    cluster = preempting()
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    cluster.show(Gone("Node", "", "n2"))
    cluster.run()
    cluster.answer()
    cluster.run()
    assert "Remove" not in {kind for kind, _ in writes(cluster.log)}
    assert {a.pod.name for a in cluster.log if isinstance(a, WithdrawNomination)} == {"m1", "m2"}
    assert state(cluster) == "Backoff"


def test_held_room_is_known_by_the_labels_that_later_terms_ask_for() -> None:
    """When the room was held nothing told its members apart; what keeps away from the one on n2 does not go there."""
    apart = PodTerm("kubernetes.io/hostname", selects(team="t"), ("d",))

    def alike(name: str) -> PodBuilder:
        return pod(name).cpu(1).priority(5).label(app=name, team="t").shape(anti_affinity=(apart,))

    cluster = Cluster(node("n3").cpu(1), alike("first"))
    cluster.run()
    cluster.show(node("n1").cpu(1), pod("v1").cpu(1).on("n1"), node("n2").cpu(4), gang("g").min(2))
    cluster.show(*(alike(f"m{i}").gang("g") for i in (1, 2)))
    cluster.run()
    assert {cluster.pod(f"m{i}").nominated_node for i in (1, 2)} == {"n1", "n2"}
    on = next(f"m{i}" for i in (1, 2) if cluster.pod(f"m{i}").nominated_node == "n2")
    away = PodTerm("kubernetes.io/hostname", selects(app=on), ("d",))
    cluster.show(pod("z").cpu(1).priority(1).shape(anti_affinity=(away,)))
    cluster.run()
    assert cluster.pod("z").node == ""
    cluster.leave()
    cluster.pass_time(60)
    assert {"m1", "m2"} <= set(nodes_of(cluster.log))
