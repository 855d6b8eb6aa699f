"""What goes wrong in the middle: time, members, victims, nodes, thieves, a stronger gang."""

from __future__ import annotations

import pytest

from gangsched.core.actions import Bind, Mark, Nominate, PodWrite, Remove, Unmark, WithdrawNomination, Write
from gangsched.core.agenda import LONGEST_PAUSE_SECONDS
from gangsched.core.events import Gone, Outcome
from gangsched.core.lifecycle.group import ROUND_PAUSE_SECONDS
from gangsched.model.records import Job
from gangsched.model.times import render_time
from tests.builders import OTHERS, gang, node, pod
from tests.core.harness import Cluster, nodes_of, reports, texts, writes
from tests.core.stories import PHASES, G, assert_clean, evicted, go_on, names, preempting, stopped_in

# -- time --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "said"),
    [(Nominate, "Nominating"), (Mark, "Marking"), (Remove, "Removing")],
    ids=["nominate", "mark", "remove"],
)
def test_timeout_withdraws_and_unmarks(phase: type[Write], said: str) -> None:
    """When the gang's time is over in whatever phase, nominations and unused marks are taken back, and it says so."""
    cluster = stopped_in(phase)
    cluster.sent = True
    cluster.pass_time(60.5)
    go_on(cluster)
    assert cluster.core.states() == {G: "Backoff"}
    assert texts(cluster.log, "m1")[-1][1].startswith(f"timed out while {said}: ")
    assert evicted(cluster) == (set() if phase is not Remove else {"v1", "v2"})
    assert_clean(cluster)


def test_timeout_while_waiting_ends_in_backoff_and_a_new_attempt() -> None:
    """Victims that never leave block the gang no longer than its time; then it tries again and awaits them."""
    cluster = preempting()
    cluster.run()
    actions = cluster.pass_time(60.5)
    assert {n for kind, n in writes(actions) if kind == "WithdrawNomination"} == {"m1", "m2"}
    assert not names(cluster, Unmark)
    assert any(text.startswith("timed out while WaitingForVictims") for _, text in texts(actions, "m1"))
    cluster.pass_time(5)
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}
    assert names(cluster, Remove) == {"v1", "v2"}


def test_the_default_timeout_is_used_where_the_gang_has_none() -> None:
    """Options give the time for gangs that set none of their own."""
    cluster = Cluster(node("n1"), pod("v").cpu(4).on("n1"), pod("p").cpu(4).priority(1), timeout_seconds=7.0)
    cluster.run()
    assert cluster.core.wake_at() == 7.0


# -- members and victims -----------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", PHASES)
def test_a_member_deleted_in_the_middle(phase: type[Write]) -> None:
    """The gang is incomplete: it gives up what it holds and gathers again; nobody further is evicted."""
    cluster = stopped_in(phase)
    before = names(cluster, Remove)
    cluster.delete("m2")
    go_on(cluster)
    assert cluster.core.states() == {G: "Gathering"}
    assert names(cluster, Remove) == before
    assert texts(cluster.log, "m1")[-1] == ("GangNotReady", "1 of 2 members exist; 1 missing")
    assert cluster.pod("m1").nominated_node == ""
    assert_clean(cluster)


def test_a_member_deleted_while_others_can_replace_it() -> None:
    """With enough members left the gang is decided again, and the room that is freed serves it."""
    cluster = preempting()
    cluster.show(pod("m3").cpu(3).priority(5).gang("g"))
    cluster.run()
    cluster.delete("m1")
    cluster.run()
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m2", "m3"}
    assert names(cluster, Remove) == {"v1", "v2"}


def test_all_members_deleted_leaves_nothing() -> None:
    """A gang that is gone holds nothing, and what it has marked is taken back."""
    cluster = stopped_in(Mark)
    cluster.delete("m1")
    cluster.delete("m2")
    go_on(cluster)
    assert cluster.core.states() == {}
    assert names(cluster, Remove) == set()
    assert cluster.core.wake_at() is None
    assert_clean(cluster)


def test_a_recreated_member_is_another_pod() -> None:
    """A member that comes back under its name is nominated and bound by its new UID."""
    cluster = preempting()
    cluster.run()
    cluster.show(pod("m2").cpu(3).priority(5).gang("g").uid("second"))
    cluster.run()
    cluster.leave()
    cluster.run()
    assert {a.pod.uid for a in cluster.log if isinstance(a, Bind)} == {"uid-d-m1", "second"}


def test_a_victim_recreated_by_its_controller_does_not_keep_the_room() -> None:
    """The new pod of the victim's owner is pending: it neither counts as the victim nor gets the held room."""
    cluster = preempting()
    cluster.run()
    cluster.leave("v1")
    cluster.show(pod("v1").cpu(3).priority(1).uid("second"))
    cluster.run()
    cluster.leave("v2")
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}
    assert cluster.core.states() == {"d/v1": "Backoff"}


# -- nodes and thieves -------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [Nominate, Mark])
@pytest.mark.parametrize("how", ["gone", "cordoned", "shrunk", "deleting"])
def test_a_node_lost_before_removal_costs_nobody(phase: type[Write], how: str) -> None:
    """The plan is broken before anybody died: everything is taken back."""
    cluster = stopped_in(phase)
    lost = {"cordoned": node("n2").cordoned(), "shrunk": node("n2").cpu(2), "deleting": node("n2").deleting()}
    cluster.show(Gone("Node", "", "n2") if how == "gone" else lost[how])
    go_on(cluster)
    assert names(cluster, Remove) == set()
    assert cluster.core.states()[G] == "Backoff"
    assert_clean(cluster)


def test_a_node_lost_after_removal_is_replaced() -> None:
    """The gang is planned anew and uses what was freed elsewhere."""
    cluster = preempting()
    cluster.run()
    cluster.show(Gone("Node", "", "n2"), node("n3"))
    cluster.run()
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log).values()) == {"n1", "n3"}
    assert names(cluster, Remove) == {"v1", "v2"}


@pytest.mark.parametrize("fails", [0, 2])
def test_a_member_is_not_bound_elsewhere_while_its_nomination_stands(fails: int) -> None:
    """Another scheduler takes a freed node while a third one turns up: the record is taken back before the binding,
    however often that has no answer.
    """
    cluster, failures = preempting(), [(Outcome.TRANSIENT, "no answer")] * fails
    cluster.judge = lambda write: failures.pop() if isinstance(write, WithdrawNomination) and failures else None
    cluster.run()
    cluster.show(node("n3"), pod("thief").cpu(4).priority(3).scheduler(OTHERS).on("n1"))
    cluster.leave()
    cluster.run()
    while failures or not all(p.node for (_, name), p in cluster.pods.items() if name.startswith("m")):
        assert nodes_of(cluster.log) == {}
        cluster.pass_time(60.0)
    assert set(nodes_of(cluster.log).values()) == {"n2", "n3"}
    for name, there in nodes_of(cluster.log).items():
        told = [a for a in cluster.log if isinstance(a, Nominate | WithdrawNomination | Bind) and a.pod.name == name]
        story = [(type(a), getattr(a, "node", "")) for a in told]
        bound = story.index((Bind, there))
        before = [(kind, on) for kind, on in story[:bound]][-1]
        assert before in ((Nominate, there), (WithdrawNomination, "")), name


def test_who_has_left_its_gang_is_not_bound_while_nominated() -> None:
    """The Job that made two pods a gang is gone, and so is their plan: its record is taken back before they are bound
    one by one.
    """
    template = pod("train").cpu(4).priority(1).owner("Job", "train").obj()
    job = Job("d", "train", "uid-Job-train", parallelism=2, completions=2, template=template, gang=True)
    members = [pod(f"train-{i}").cpu(4).priority(1).owner("Job", "train") for i in range(2)]
    cluster = Cluster(
        *(node(f"n{i}") for i in (1, 2)), *(pod(f"v{i}").cpu(4).on(f"n{i}") for i in (1, 2)), job, *members
    )
    cluster.run()
    assert names(cluster, Nominate) == {"train-0", "train-1"}
    cluster.show(Gone("Job", "d", "train"), node("n3"), node("n4"))
    cluster.run()
    for index in range(2):
        told = [a for a in cluster.log if isinstance(a, PodWrite) and a.pod.name == f"train-{index}"]
        assert [type(a) for a in told][-3:] == [Nominate, WithdrawNomination, Bind]


@pytest.mark.parametrize("phase", [Mark, Remove])
def test_nominations_stand_while_marks_and_removals_are_on_their_way(phase: type[Write]) -> None:
    """A plan that is given up keeps its record until the last of its writes has been answered."""
    cluster = stopped_in(phase)
    cluster.sent = True
    cluster.show(Gone("Node", "", "n2"))
    cluster.run()
    assert not names(cluster, WithdrawNomination)
    go_on(cluster)
    assert names(cluster, WithdrawNomination) == {"m1", "m2"}
    assert_clean(cluster)


def test_a_node_that_changes_without_harm_breaks_no_plan() -> None:
    """A heartbeat, a label or more room is no reason to start again."""
    cluster = preempting()
    cluster.run()
    cluster.show(node("n1").label(new="x"), node("n2").cpu(5))
    assert writes(cluster.run()) == []
    cluster.leave()
    assert set(nodes_of(cluster.run())) == {"m1", "m2"}


def thief(cluster: Cluster, name: str) -> None:
    """Another scheduler binds a pod of high priority to n1 as soon as it is free."""
    cluster.leave()
    cluster.show(pod(name).cpu(2).priority(3).scheduler(OTHERS).on("n1"))


def test_stolen_room_is_planned_again_after_a_pause_that_doubles() -> None:
    """The thief is named; nobody is evicted before the pause is over, and the gang says until when and why."""
    cluster = preempting()
    cluster.run()
    until = 0.0
    for n in range(8):
        thief(cluster, f"t{n}")
        cluster.run()
        pause = min(2 * ROUND_PAUSE_SECONDS * 2**n, LONGEST_PAUSE_SECONDS)  # twice, for the room was taken
        assert cluster.core.states()[G] == "Backoff"
        assert any(f"d/t{n} (default-scheduler)" in r.note for r in reports(cluster.log, "FreedRoomTaken"))
        cluster.pass_time(pause - 1)
        assert f"t{n}" not in names(cluster, Remove)
        until += pause
        why = f"{n + 1} rounds of evictions in a row have" if n else "a round of evictions has"
        why += " not led to its binding, for others took the room"
        text = f"{why}, and so the gang pauses; no pod is evicted for it until"
        told = [r.note for r in reports(cluster.log, "FailedScheduling")]
        assert any(f"{text} {render_time(until)}" in note for note in told)
        first = f"waits: until {render_time(until)}, when it may evict others: {why}"
        assert any(note.startswith(first) for note in told)
        cluster.pass_time(1)
        assert f"t{n}" in names(cluster, Remove)


def test_room_that_turns_up_ends_a_pause() -> None:
    """It is for evictions alone; whoever is bound begins anew."""
    cluster = preempting()
    cluster.run()
    thief(cluster, "t")
    cluster.run()
    assert cluster.core.states()[G] == "Backoff"
    cluster.show(node("n3"))
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}
    assert names(cluster, Remove) == {"v1", "v2"}


def test_rounds_that_end_otherwise_count_too() -> None:
    """Evictions for plans that broke are evictions: here a node is gone, and there is no other at that time."""
    cluster = preempting()
    cluster.run()
    assert names(cluster, Remove) == {"v1", "v2"}
    cluster.show(Gone("Node", "", "n2"))
    cluster.run()
    cluster.show(pod("v3").cpu(3).priority(1).on("n3"), node("n3"))
    cluster.pass_time(ROUND_PAUSE_SECONDS - 1)
    assert names(cluster, Remove) == {"v1", "v2"}
    cluster.pass_time(1)
    assert names(cluster, Remove) == {"v1", "v2", "v3"}


# -- takeover ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", PHASES)
def test_a_higher_gang_takes_over_in_any_phase(phase: type[Write]) -> None:
    """The stronger gang gets the room, the weaker one ends clean, and no third pod dies."""
    cluster = stopped_in(phase)
    cluster.show(gang("h").min(2), *(pod(f"h{i}").cpu(3).priority(9).gang("h") for i in (1, 2)))
    go_on(cluster)
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"h1", "h2"}
    assert names(cluster, Remove) == {"v1", "v2"}
    assert cluster.core.states() == {G: "Backoff"}
    assert_clean(cluster)


def test_the_mark_of_a_shared_victim_stays() -> None:
    """Who gives up does not take back a mark that the stronger gang has set on the same victim."""
    cluster = stopped_in(Mark)
    cluster.show(gang("h").min(2), *(pod(f"h{i}").cpu(3).priority(9).gang("h") for i in (1, 2)))
    go_on(cluster)
    for name in evicted(cluster):
        found = cluster.pod(name).disruption
        assert found is not None
        assert found.status == "True"
    assert evicted(cluster) == {"v1", "v2"}
