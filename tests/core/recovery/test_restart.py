"""What a process finds that takes over from one that died in the middle of a preemption, and what it makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.actions import MARK_REASON, Bind, Mark, Nominate, Remove, Unmark, WithdrawNomination
from gangsched.core.actuation.records import EvictionOwner, Intent, Owners, intent_of, owners_of, written
from gangsched.core.events import LeadershipChanged
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.group import ROUND_PAUSE_SECONDS
from gangsched.model.records import Condition
from tests.builders import OTHERS, PodBuilder, gang, node, pod
from tests.core.harness import Built, Cluster, nodes_of, plan, reports, texts, writes
from tests.core.stories import G, assert_clean, evicted, member, names, stopped_in

OURS = "py-gang-scheduler"


def mark(
    victim: PodBuilder,
    preemptor: str = G,
    trigger: str = "d/m1",
    scheduler: str = OURS,
    plans: tuple[str, ...] = ("10-1",),
) -> PodBuilder:
    """The victim bears the mark of a preemptor, for these plans."""
    text = report.mark_message(scheduler, preemptor, trigger)
    victim = victim.field(disruption=Condition("True", MARK_REASON, text))
    data = Owners.of(EvictionOwner(each, "preemption", scheduler, preemptor, trigger) for each in plans)
    return victim.field(evicted_for=Condition("True", "Owned", written(data)))


def intend(member: PodBuilder, to: str, victims: int = 2, plan: str = "10-1") -> PodBuilder:
    """The member is nominated, with our record of it."""
    text = written(Intent(plan, victims, to))
    return member.field(nominated_node=to, intent=Condition("True", "Nominated", text))


def victim(n: int) -> PodBuilder:
    """A pod that is in the way on node n."""
    return pod(f"v{n}").cpu(3).priority(1).on(f"n{n}")


def found(*more: Built, members: bool = True, **options: Any) -> Cluster:
    """Two nodes and the gang g of two, nominated to them unless told otherwise, and what else is there."""
    base: list[Built] = [node("n1"), node("n2"), gang("g").min(2).timeout(60)]
    if members:
        base += [intend(member(n), f"n{n}") for n in (1, 2)]
    return Cluster(*base, *more, **options)


# -- what the records say ----------------------------------------------------------------------------------


@pytest.mark.parametrize("preemptor", ["d/g", "d/a,e/b"])
def test_a_mark_can_be_read_back(preemptor: str) -> None:
    """For whom the victim leaves, and by which plan if that is known."""
    made = mark(pod("v"), preemptor, "d/m1", "another").obj()
    assert owners_of(made) == (EvictionOwner("10-1", "preemption", "another", preemptor, "d/m1"),)


@pytest.mark.parametrize(
    "said",
    [
        None,
        Condition("False", MARK_REASON, report.mark_message(OURS, G, "d/m1")),
        Condition("True", "EvictionByEvictionAPI", report.mark_message(OURS, G, "d/m1")),
        Condition("True", MARK_REASON, "default-scheduler: preempting to accommodate a higher priority pod"),
    ],
)
def test_what_is_no_mark_is_not_read_as_one(said: Condition | None) -> None:
    """Marks that were taken back, and those of others, are none."""
    assert owners_of(pod("v").field(disruption=said).obj()) == ()


def test_an_intent_can_be_read_back() -> None:
    """The plan's id and the number of its victims; without a node there is no intent."""
    assert intent_of(intend(pod("m"), "n1", 3, "a7-2").obj()) == Intent("a7-2", 3, "n1")
    assert intent_of(intend(pod("m"), "", 3, "a7-2").obj()) is None
    assert intent_of(pod("m").nominated("n1", intent=False).obj()) is None


# -- nobody has left yet -----------------------------------------------------------------------------------


def test_complete_marks_are_followed() -> None:
    """All victims are marked and live: they go, and nobody else, cheaper or not; nothing is nominated anew."""
    cluster = found(*(mark(victim(n)) for n in (1, 2)), node("n3"), pod("cheap").cpu(3).on("n3"))
    cluster.run()
    assert names(cluster, Nominate) | names(cluster, Mark) == set()
    assert names(cluster, Remove) == {"v1", "v2"}
    assert cluster.core.states() == {G: "WaitingForVictims"}
    assert [r.regarding[3] for r in reports(cluster.log, "Preempted")].count("m1") == 1
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log) == {"m1": "n1", "m2": "n2"}


def test_incomplete_marks_are_taken_back() -> None:
    """One of two victims is marked: nobody has died, so all is taken back and decided afresh."""
    cluster = found(mark(victim(1)), victim(2), node("n3"), pod("cheap").cpu(3).on("n3"))
    cluster.step()
    kinds = [kind for kind, name in writes(cluster.log) if name in ("m1", "m2", "v1")]
    assert kinds[:3] == ["WithdrawNomination", "WithdrawNomination", "Unmark"]
    cluster.run()
    assert names(cluster, Remove) == {"cheap", "v1"}
    assert cluster.pod("v2").disruption is None


def test_a_gang_that_is_marked_in_part_is_not_evicted_in_part() -> None:
    """The marked half would make room, but its gang goes as a whole: it is marked as a whole first."""
    cluster = Cluster(
        node("n1"),
        node("n2"),
        gang("low").min(2),
        mark(pod("low1").cpu(3).priority(1).gang("low").on("n1"), "d/p", "d/p"),
        pod("low2").cpu(3).priority(1).gang("low").on("n2"),
        intend(pod("p").cpu(3).priority(5), "n1"),
    )
    cluster.run()
    order = [(kind, name) for kind, name in writes(cluster.log) if kind in ("Mark", "Remove")]
    assert order == [("Mark", "low1"), ("Mark", "low2"), ("Remove", "low1"), ("Remove", "low2")]


def test_marks_for_a_plan_that_is_not_needed_are_taken_back() -> None:
    """Room has turned up: nobody is evicted, and nothing of the plan stays."""
    cluster = found(*(mark(victim(n)) for n in (1, 2)), node("n3"), node("n4"))
    cluster.run()
    assert names(cluster, Remove) == set()
    assert nodes_of(cluster.log) == {"m1": "n3", "m2": "n4"}
    assert_clean(cluster)


@pytest.mark.parametrize("change", ["priority", "protected", "never"])
def test_a_victim_that_may_no_longer_be_evicted_is_spared(change: str) -> None:
    """Marks do not outlive what justified them."""
    other = mark(victim(2))
    if change == "priority":
        other.priority(5)
    elif change == "protected":
        other.labels({"scheduling.koordinator.sh/disable-preemptible": "true"})
    cluster = found(mark(victim(1)), other, members=change != "never")
    if change == "never":
        cluster.show(*(intend(member(n), f"n{n}").never() for n in (1, 2)))
    cluster.run()
    assert names(cluster, Remove) == set()
    assert cluster.core.states() == {G: "Backoff"}
    assert_clean(cluster)


def test_a_marked_pod_that_has_joined_the_gang_is_spared() -> None:
    """Nobody is evicted for its own gang, whatever its mark says."""
    cluster = found(mark(victim(1)), mark(victim(2).gang("g")))
    cluster.show(gang("g").min(3).priority(5))
    cluster.run()
    assert "v2" not in names(cluster, Remove)
    assert "v2" in names(cluster, Unmark)


@pytest.mark.parametrize("lost", ["n1", "n3"])
def test_a_plan_whose_node_is_lost_is_given_up(lost: str) -> None:
    """Finishing it would not make the gang fit; as long as the nodes of the plan are there it goes on."""
    cluster = found(*(mark(victim(n)) for n in (1, 2)), node("n3"))
    cluster.show(node(lost).cordoned())
    cluster.run()
    assert names(cluster, Remove) == ({"v2"} if lost == "n1" else {"v1", "v2"})


def test_without_marks_nobody_is_evicted_for_an_old_plan() -> None:
    """The list of victims is not known: the gang is decided afresh."""
    cluster = found(victim(1), victim(2))
    cluster.step()
    assert names(cluster, WithdrawNomination) == {"m1", "m2"}
    cluster.run()
    assert names(cluster, Mark) == names(cluster, Remove) == {"v1", "v2"}


# -- victims are on their way out, or gone -----------------------------------------------------------------


def test_the_rest_of_a_list_is_removed() -> None:
    """One victim is terminating: the other one goes too, and nobody else; the preemptor is told of that one."""
    cluster = found(mark(victim(1)).terminating(), mark(victim(2)), node("n3"), pod("cheap").cpu(3).on("n3"))
    cluster.run()
    assert names(cluster, Remove) == {"v2"}
    assert {r.regarding[3] for r in reports(cluster.log, "Preempted")} == {"m1", "v2"}
    assert not any("d/v1" in r.note for r in reports(cluster.log, "Preempted"))
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log) == {"m1": "n1", "m2": "n2"}


def test_the_rest_of_a_list_is_removed_when_the_others_are_gone() -> None:
    """One victim is gone and its room is free: the marked one still goes."""
    cluster = found(mark(victim(2)), node("n3"), pod("cheap").cpu(3).on("n3"))
    cluster.run()
    assert names(cluster, Remove) == {"v2"}


@pytest.mark.parametrize("leaving", [True, False])
def test_a_finished_removal_is_waited_for_and_bound(leaving: bool) -> None:
    """All victims are terminating, or gone with their marks: nobody else dies, the members are bound."""
    cluster = found(*(mark(victim(n)).terminating() for n in (1, 2) if leaving))
    cluster.run()
    assert cluster.core.states() == ({G: "WaitingForVictims"} if leaving else {})
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log) == {"m1": "n1", "m2": "n2"}
    assert [kind for kind, _ in writes(cluster.log)] == ["Bind", "Bind"]


def test_a_gang_that_waits_for_room_without_victims_goes_on_waiting() -> None:
    """Terminating pods that nobody marked are awaited on the same nodes, and only then the members are bound."""
    others = [pod(f"t{n}").cpu(3).on(f"n{n}").terminating(float(n)) for n in (1, 2)]
    cluster = Cluster(node("n1"), node("n2"), gang("g").min(2), *others)
    cluster.show(*(intend(member(n), f"n{n}", victims=0) for n in (1, 2)))
    cluster.run()
    assert cluster.core.states() == {G: "WaitingForVictims"}
    cluster.leave("t1")
    cluster.run()
    assert cluster.core.states() == {G: "WaitingForVictims"}
    cluster.leave("t2")
    cluster.run()
    assert [kind for kind, _ in writes(cluster.log)] == ["Bind", "Bind"]


def test_the_room_is_held_from_the_first_moment() -> None:
    """A gang of the same priority that is older does not get the room that the restart has found held."""
    cluster = found(*(mark(victim(n)).terminating() for n in (1, 2)))
    cluster.show(gang("old").min(2).created(-5.0), *(member(n, "old") for n in (1, 2)))
    cluster.run()
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}


def test_a_nomination_without_our_record_holds_nothing() -> None:
    """Somebody else's nomination is a preference: the older gang takes the room."""
    cluster = found(*(pod(f"t{n}").cpu(3).on(f"n{n}").terminating() for n in (1, 2)), members=False)
    cluster.show(*(member(n).nominated(f"n{n}", intent=False) for n in (1, 2)))
    cluster.show(gang("old").min(2).created(-5.0), *(member(n, "old") for n in (1, 2)))
    cluster.run()
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"old1", "old2"}


def test_a_stronger_gang_takes_over_what_was_found() -> None:
    """What is resumed is a plan like any other."""
    cluster = found(*(mark(victim(n)).terminating() for n in (1, 2)))
    cluster.show(gang("h").min(2), *(member(n, "h", 9) for n in (1, 2)))
    cluster.run()
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"h1", "h2"}
    assert_clean(cluster)


def test_the_stronger_of_two_plans_for_the_same_room_is_resumed() -> None:
    """One of them had been taken over when the process died."""
    cluster = found(*(mark(victim(n), "d/h", "d/h1").terminating() for n in (1, 2)))
    cluster.show(gang("h").min(2), *(intend(member(n, "h", 9), f"n{n}", plan="6-2") for n in (1, 2)))
    cluster.run()
    assert names(cluster, WithdrawNomination) == {"m1", "m2"}
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"h1", "h2"}


def test_what_was_resumed_ends_with_the_time_of_the_gang() -> None:
    """The time runs anew from the restart; afterwards nothing is left on record."""
    cluster = found(*(mark(victim(n)).terminating() for n in (1, 2)))
    cluster.run()
    assert cluster.core.wake_at() == 60.0
    actions = cluster.pass_time(60.5)
    assert any("timed out while WaitingForVictims: finishing plan 10-1" in text for _, text in texts(actions, "m1"))
    assert {n for kind, n in writes(actions) if kind == "WithdrawNomination"} == {"m1", "m2"}


def test_an_evicting_round_of_an_earlier_process_counts() -> None:
    """Stolen room after a restart is no reason for more evictions than one process would make."""
    cluster = found(*(mark(victim(n)).terminating() for n in (1, 2)))
    cluster.run()
    cluster.leave()
    cluster.show(pod("thief").cpu(2).priority(3).scheduler(OTHERS).on("n1"))
    cluster.pass_time(2 * ROUND_PAUSE_SECONDS - 1)
    assert names(cluster, Remove) == set()
    assert cluster.core.states() == {G: "Backoff"}
    cluster.pass_time(1)
    assert names(cluster, Remove) == {"thief"}


def test_leadership_that_is_regained_is_a_restart() -> None:
    """Another process may have led meanwhile: the list on record is finished, as by a new process."""
    cluster = stopped_in(Remove)
    cluster.answer("v1")
    cluster.handle(LeadershipChanged(False))
    cluster.waiting.clear()
    cluster.slow = lambda _: False
    cluster.show(node("n3"), pod("cheap").cpu(3).on("n3"), LeadershipChanged(True))
    cluster.run()
    cluster.leave()
    cluster.run()
    assert names(cluster, Remove) == {"v1", "v2"}
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}


def test_a_half_bound_gang_goes_on_with_its_nominated_members() -> None:
    """The process died between two bindings: the missing one is made on its node."""
    cluster = found(member(1).on("n1"), intend(member(2), "n2"), members=False)
    cluster.run()
    assert nodes_of(cluster.log) == {"m2": "n2"}
    assert names(cluster, WithdrawNomination) == set()


def test_a_half_bound_gang_comes_before_others_of_its_priority() -> None:
    """The process died between its first binding and its second: an older pod does not get the last room."""
    first = pod("first").cpu(3).priority(5)
    cluster = Cluster(
        node("n1"), node("n2"), gang("g").min(2).created(5.0), member(1).on("n1"), member(2).created(5.0), first
    )
    cluster.run()
    assert nodes_of(cluster.log) == {"m2": "n2"}
    cluster.show(node("n3"))
    cluster.run()
    assert nodes_of(cluster.log)["first"] == "n3"


def test_plans_of_the_priority_of_a_half_bound_gang_are_made_anew() -> None:
    """What an older gang waits for in the same place is no obstacle while nobody has been removed for it."""
    cluster = Cluster(
        *map(node, ("n1", "n2", "n3")),
        gang("g").min(2).created(5.0),
        member(1).on("n1"),
        member(2),
        pod("t").cpu(3).on("n3").terminating(),
        gang("old").min(2),
        *(intend(member(n, "old"), f"n{n + 1}", victims=0) for n in (1, 2)),
    )
    cluster.run()
    assert nodes_of(cluster.log) == {"m2": "n2"}


def test_a_half_bound_gang_leaves_room_to_whom_it_was_freed_for() -> None:
    """Others of its priority whose victims are leaving already go on."""
    cluster = Cluster(
        *map(node, ("n1", "n2", "n3")),
        gang("h").min(2).created(5.0),
        member(1, "h").on("n3"),
        member(2, "h"),
        gang("g").min(2),
        *(intend(member(n), f"n{n}") for n in (1, 2)),
        *(mark(victim(n)).terminating() for n in (1, 2)),
    )
    cluster.run()
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log) == {"m1": "n1", "m2": "n2"}


# -- records that belong to nothing ------------------------------------------------------------------------


def test_a_gang_that_is_incomplete_loses_its_records() -> None:
    """It gathers: nominations and marks are taken back, terminating victims keep theirs."""
    cluster = Cluster(
        node("n1"),
        node("n2"),
        gang("g").min(2),
        intend(member(1), "n1"),
        intend(member(2), "n2").gated(),
        mark(victim(1)).terminating(),
        mark(victim(2)),
    )
    cluster.run()
    assert cluster.core.states() == {G: "Gathering"}
    assert sorted(writes(cluster.log)) == [
        ("Unmark", "v2"),
        ("WithdrawNomination", "m1"),
        ("WithdrawNomination", "m2"),
    ]
    assert evicted(cluster) == {"v1"}


@pytest.mark.parametrize("preemptor", ["gone", "bound", "renamed"])
def test_marks_of_nobody_are_taken_back(preemptor: str) -> None:
    """The gang that they were set for is not there any more, or needs nothing."""
    cluster = Cluster(node("n1"), node("n2"), node("n3"), gang("g").min(1), mark(victim(1)))
    if preemptor == "bound":
        cluster.show(member(1).on("n2"))
    elif preemptor == "renamed":
        cluster.show(intend(member(1), "n1", victims=1).gang("other"), gang("other"))
    cluster.run()
    assert names(cluster, Unmark) == {"v1"}
    assert names(cluster, Remove) == set()
    assert_clean(cluster)


def test_marks_of_other_schedulers_are_left_alone() -> None:
    """Another scheduler that uses the same words has its own list."""
    cluster = Cluster(node("n1"), mark(victim(1), scheduler="koord-scheduler"))
    cluster.run()
    assert writes(cluster.log) == []


def test_a_mark_names_the_gang_that_its_trigger_belongs_to() -> None:
    """A pod and a group of the same name are told apart by the pod that the mark names."""
    single = intend(pod("g").cpu(3).priority(7), "n3", victims=1)
    cluster = found(*(mark(victim(n)) for n in (1, 2)), node("n3"), mark(victim(3), trigger="d/g"), single)
    cluster.run()
    triggers = {a.pod.name: a.mark.rpartition(" ")[2] for a in cluster.log if isinstance(a, Remove)}
    assert triggers == {"v1": "d/m1", "v2": "d/m1", "v3": "d/g"}
    assert names(cluster, Unmark) == set()


def test_only_the_newest_plan_is_resumed() -> None:
    """A record that an older plan has left is withdrawn; the plan that the marks were set for goes on."""
    cluster = found(*(mark(victim(n)).terminating() for n in (1, 2)), node("n3"))
    cluster.show(intend(pod("m3").cpu(1).priority(5).gang("g"), "n3", plan="9-7"))
    cluster.step()
    assert names(cluster, WithdrawNomination) == {"m3"}
    cluster.leave()
    cluster.run()
    assert cluster.pod("m3").node
    assert {a.pod.name for a in cluster.log if isinstance(a, Bind)} == {"m1", "m2", "m3"}


def test_records_that_cannot_be_read_are_withdrawn() -> None:
    """A plan whose record has another form is not guessed at."""
    cluster = found(members=False)
    cluster.show(*(member(n).nominated(f"n{n}") for n in (1, 2)))
    cluster.run()
    assert [kind for kind, _ in writes(cluster.log)] == ["WithdrawNomination", "WithdrawNomination", "Bind", "Bind"]


def test_a_forecast_finishes_nothing() -> None:
    """What would be decided is asked of a picture in which a plan is under way: the gang still has its entry."""
    objects: list[Built] = [node("n1"), node("n2"), gang("g").min(2), *(intend(member(n), f"n{n}") for n in (1, 2))]
    waits = plan(*objects, *(mark(victim(n)).terminating() for n in (1, 2)))
    assert (waits[G].outcome, len(waits[G].placements)) == ("wait", 2)
    assert plan(*objects)[G].outcome == "bind"
