"""Removals that wait for their turn are recalled when their victims may not, or need not, leave any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gangsched.core.actions import Mark, Nominate, Remove, Spare, SuspendJob, Unmark, WithdrawNomination, Write
from gangsched.core.events import Gone, Outcome
from gangsched.model.records import Job
from tests.builders import SIGS, gang, node, pdb, pod
from tests.core.eviction.draining import cluster as cluster_of_queues
from tests.core.eviction.draining import opened, stopped
from tests.core.eviction.recalls import recalled, whole_gang
from tests.core.harness import Cluster, nodes_of
from tests.core.queues import queued
from tests.core.stories import G, assert_clean, evicted, go_on, names, preempting, stopped_in

COUNT = 6
PROTECTED = {"scheduling.koordinator.sh/disable-preemptible": "true"}


def removing(**options: Any) -> Cluster:
    """Gang g needs six nodes; the removals of their pods v0 to v5 wait, but for that of v0, which is leaving."""
    cluster = Cluster(
        *(node(f"n{i}") for i in range(COUNT)),
        gang("g").min(COUNT).timeout(60),
        *(pod(f"v{i}").cpu(3).priority(1).on(f"n{i}") for i in range(COUNT)),
        *(pod(f"m{i}").cpu(3).priority(5).gang("g") for i in range(COUNT)),
        **options,
    )
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    cluster.answer("v0")
    cluster.run()
    assert len(cluster.waiting) == COUNT - 1
    return cluster


def protect(cluster: Cluster, name: str) -> None:
    """From now on the pod may not be evicted."""
    cluster.change(name, labels=PROTECTED, hints=pod("x").label(**PROTECTED).obj().hints)


def take_in(cluster: Cluster) -> None:
    """The core is told what has happened and decides nothing."""
    for action in cluster.handle():
        cluster.log.append(action)
        cluster._carry_out(action)


def lower(cluster: Cluster) -> None:
    """The gang's members have a lower priority than the victims now."""
    for i in range(COUNT):
        cluster.change(f"m{i}", priority=0)


def forsake(cluster: Cluster) -> None:
    """The gang's members are deleted."""
    for i in range(COUNT):
        cluster.delete(f"m{i}")


REST = {f"v{i}" for i in range(1, COUNT)}
CHANGES: dict[str, Callable[[Cluster], object]] = {
    "gang deleted": lambda c: c.show(Gone("PodGroup", "d", "g", group=SIGS)),
    "members deleted": forsake,
    "priority raised": lambda c: c.change("v3", priority=7),
    "protected": lambda c: protect(c, "v3"),
    "gang of lower priority": lower,
    "room elsewhere": lambda c: c.show(*(node(f"new{i}") for i in range(COUNT))),
    "room freed by others": lambda c: c.show(node("n9").cpu(4 * COUNT)),
    "node lost": lambda c: c.show(node("n1").cordoned()),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_has_not_been_sent_is_recalled(change: Callable[[Cluster], object]) -> None:
    """Of six victims the one that was removed leaves; nobody else is deleted by what was asked for before."""
    cluster = removing()
    change(cluster)
    cluster.run()
    assert recalled(cluster) == REST
    assert cluster.waiting == []
    assert evicted(cluster) == {"v0"}


@pytest.mark.parametrize("change", ["gang deleted", "members deleted", "gang of lower priority"])
def test_who_is_spared_bears_no_mark(change: str) -> None:
    """Nobody waits for them any more."""
    cluster = removing()
    CHANGES[change](cluster)
    cluster.run()
    assert names(cluster, Unmark) == REST
    assert_clean(cluster)


def test_a_stronger_gang_that_takes_the_room_stops_the_removals_that_wait() -> None:
    """It needs one of six nodes: four of the victims would leave for nobody."""
    cluster = removing()
    cluster.leave("v0")
    cluster.show(pod("high").cpu(3).priority(9).selector(**{"kubernetes.io/hostname": "n0"}))
    cluster.run()
    assert nodes_of(cluster.log) == {"high": "n0"}
    assert recalled(cluster) == REST
    assert evicted(cluster) == set()
    assert cluster.core.states()[G] == "Backoff"
    assert_clean(cluster)


@pytest.mark.parametrize(("minimum", "leave"), [(1, 1), (3, 0)])
def test_a_gang_of_another_size_begins_anew_while_nobody_has_left(minimum: int, leave: int) -> None:
    """It needs one victim instead of two; or three members, for which there is no room."""
    cluster = preempting()
    cluster.show(pod("m3").cpu(3).priority(5).gang("g"))
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    cluster.show(gang("g").min(minimum).timeout(60))
    go_on(cluster)
    assert recalled(cluster) == {"v1", "v2"}
    assert len(evicted(cluster)) == leave
    cluster.leave()
    cluster.run()
    assert_clean(cluster)


def test_a_removal_that_has_left_keeps_its_mark_until_it_is_answered() -> None:
    """Recalled too late: nobody knows yet whether it will take effect."""
    cluster = removing()
    cluster.sent = True
    cluster.show(Gone("PodGroup", "d", "g", group=SIGS))
    cluster.run()
    assert recalled(cluster) == REST
    assert names(cluster, Unmark) == set()
    cluster.judge = lambda w: (Outcome.TRANSIENT, "no answer") if w.pod.name == "v5" else None
    go_on(cluster)
    assert evicted(cluster) == {f"v{i}" for i in range(COUNT - 1)}
    assert names(cluster, Unmark) == {"v5"}


def test_a_victim_that_ends_by_itself_is_not_deleted() -> None:
    """What it has left behind can be read; the others are removed as planned."""
    cluster = removing()
    cluster.change("v2", phase="Succeeded")
    cluster.run()
    assert recalled(cluster) == {"v2"}
    go_on(cluster)
    assert evicted(cluster) == {f"v{i}" for i in range(COUNT)} - {"v2"}
    cluster.leave()
    cluster.run()
    assert len(nodes_of(cluster.log)) == COUNT


def test_what_does_not_matter_recalls_nothing() -> None:
    """Heartbeats, other gangs, pods that come and go elsewhere without giving room enough."""
    cluster = removing()
    cluster.show(node("n1").label(a="b"), gang("other").min(2), pod("x").cpu(9).priority(0))
    cluster.change("v3", labels={"a": "b"})
    cluster.run()
    cluster.show(node("tiny").cpu(1))
    cluster.delete("x")
    cluster.run()
    assert recalled(cluster) == set()


def test_a_list_that_is_right_again_is_finished() -> None:
    """A victim was protected only for a moment, shorter than its removal took to be recalled."""
    cluster = removing()
    was = cluster.pod("v3")
    protect(cluster, "v3")
    take_in(cluster)
    cluster.show(was)
    cluster.run()
    assert recalled(cluster) == REST
    go_on(cluster)
    assert evicted(cluster) == {f"v{i}" for i in range(COUNT)}
    assert names(cluster, Unmark) == set()
    assert names(cluster, Nominate) == {f"m{i}" for i in range(COUNT)}
    assert len([a for a in cluster.log if isinstance(a, Nominate)]) == COUNT


def test_a_unit_that_has_begun_to_leave_leaves_whole() -> None:
    """Room for one member turns up, so that w2 could stay: but its gang is of no use without w1."""
    cluster = whole_gang()
    cluster.show(node("n3"))
    cluster.run()
    assert recalled(cluster) == set()
    go_on(cluster)
    assert evicted(cluster) == {"w1", "w2"}


def test_a_suspension_is_recalled_as_well() -> None:
    """The Job goes on; its pods bear no marks."""
    template = msgspec.structs.replace(pod("j").cpu(3).owner("Job", "j").obj(), uid="")
    cluster = Cluster(
        node("n1"),
        node("n2"),
        gang("g").min(2).timeout(60),
        Job("d", "j", "uid-Job-j", parallelism=2, completions=2, backoff_limit=0, template=template, version="1"),
        *(pod(f"j{i}").cpu(3).priority(1).owner("Job", "j").on(f"n{i}") for i in (1, 2)),
        *(pod(f"m{i}").cpu(3).priority(5).gang("g") for i in (1, 2)),
    )
    cluster.slow = lambda write: isinstance(write, SuspendJob)
    cluster.run()
    assert [write.pod.name for write in cluster.waiting] == ["j"]
    cluster.show(Gone("PodGroup", "d", "g", group=SIGS))
    cluster.run()
    assert recalled(cluster) == {"j"}
    assert not cluster.jobs["d", "j"].suspended
    assert names(cluster, Unmark) == {"j1", "j2"}
    assert_clean(cluster)


# -- budgets -----------------------------------------------------------------------------------------------


def with_a_choice(budget: int) -> Cluster:
    """Pod p needs one of two nodes: v1, of the lower priority, has a budget, v2 has none."""
    return Cluster(
        node("n1"),
        node("n2"),
        pod("v1").cpu(3).priority(1).label(app="v").on("n1"),
        pod("v2").cpu(3).priority(2).on("n2"),
        pod("p").cpu(3).priority(5),
        pdb("b").selects(app="v").allows(budget),
    )


@pytest.mark.parametrize("phase", [Nominate, Mark, Remove])
def test_a_budget_that_is_tightened_before_anybody_leaves_changes_the_choice(phase: type[Write]) -> None:
    """The plan is made anew, and takes the pod without a budget, as it would have in the first place."""
    cluster = with_a_choice(1)
    cluster.slow = lambda write: isinstance(write, phase)
    cluster.run()
    cluster.show(pdb("b").selects(app="v").allows(0))
    go_on(cluster)
    assert evicted(cluster) == {"v2"}
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log) == {"p": "n2"}
    assert_clean(cluster)


def test_a_budget_that_is_broken_in_any_case_delays_the_plan_once() -> None:
    """There is no other choice: the new plan says so, and nobody asks again."""
    cluster = with_a_choice(1)
    cluster.show(pod("v2").cpu(3).priority(9).on("n2"))
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    cluster.show(pdb("b").selects(app="v").allows(0))
    go_on(cluster)
    assert evicted(cluster) == {"v1"}
    assert len([a for a in cluster.log if isinstance(a, Nominate)]) == 2


def test_a_budget_that_changes_all_the_time_does_not_keep_a_gang_from_going_on() -> None:
    """It is respected once in a round of evictions."""
    cluster = with_a_choice(1)
    cluster.show(pod("v2").cpu(3).priority(9).on("n2"))
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    for _ in range(3):
        cluster.show(pdb("b").selects(app="v").allows(0))
        cluster.answer()
        take_in(cluster)
        cluster.show(pdb("b").selects(app="v").allows(1))
        cluster.run()
    assert evicted(cluster) == {"v1"}
    assert len([a for a in cluster.log if isinstance(a, Nominate)]) == 2


def test_a_budget_that_is_used_up_by_the_first_victim_does_not_save_the_second() -> None:
    """Once somebody has been removed the list is finished: half a list helps nobody."""
    cluster = preempting()
    cluster.show(*(pod(f"v{i}").cpu(3).priority(1).label(app="v").on(f"n{i}") for i in (1, 2)))
    cluster.show(pdb("b").selects(app="v").allows(2))
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    cluster.answer("v1")
    cluster.run()
    cluster.show(pdb("b").selects(app="v").allows(0))
    go_on(cluster)
    assert evicted(cluster) == {"v1", "v2"}
    assert recalled(cluster) == set()


@pytest.mark.parametrize("allowed", [0, 1])
def test_what_is_announced_beyond_one_budget_is_not_beyond_another(allowed: int) -> None:
    """The budget of v1 allows nothing, and then one; that of v2 allows one, and then nothing, or ``allowed``."""
    cluster = preempting()
    cluster.show(*(pod(f"v{i}").cpu(3).priority(1).label(app=f"v{i}").on(f"n{i}") for i in (1, 2)))
    cluster.show(*(pdb(f"b{i}").selects(app=f"v{i}").allows(i - 1) for i in (1, 2)))
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    cluster.show(pdb("b2").selects(app="v2").allows(allowed), pdb("b1").selects(app="v1").allows(1))
    cluster.run()
    assert recalled(cluster) == (set() if allowed else {"v1", "v2"})


def test_a_victim_that_ended_by_itself_has_not_left_for_the_gang() -> None:
    """The budget of the other is tightened while nobody has been removed: the one without a budget leaves instead."""
    cluster = Cluster(
        *(node(f"n{i}") for i in (1, 2, 3)),
        gang("g").min(2).timeout(60),
        *(pod(f"v{i}").cpu(3).priority(1).label(app="v").on(f"n{i}") for i in (1, 2)),
        pod("v3").cpu(3).priority(2).on("n3"),
        *(pod(f"m{i}").cpu(3).priority(5).gang("g") for i in (1, 2)),
        pdb("b").selects(app="v").allows(2),
    )
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    cluster.change("v1", phase="Succeeded")
    cluster.run()
    cluster.answer("v1")
    cluster.run()
    cluster.show(pdb("b").selects(app="v").allows(0))
    cluster.run()
    assert recalled(cluster) == {"v1", "v2"}
    go_on(cluster)
    assert evicted(cluster) == {"v3"}
    cluster.leave()
    cluster.run()
    assert len(nodes_of(cluster.log)) == 2


@pytest.mark.parametrize("seen", [True, False], ids=["as it is seen", "as the API says"])
def test_a_victim_that_its_user_deleted_has_not_left_for_the_gang(seen: bool) -> None:
    """That it goes is told with the tighter budget, before it is known that its removal was not sent: then those that
    still wait are looked at again. Or it is not seen to go before that, and its removal comes too late.
    """
    cluster = Cluster(
        *(node(f"n{i}") for i in (1, 2, 3, 4)),
        gang("low").min(2).priority(1),
        gang("g").min(2).timeout(60),
        *(pod(f"w{i}").cpu(3).priority(1).label(app="w").gang("low").on(f"n{i}") for i in (1, 2)),
        *(pod(f"v{i}").cpu(3).priority(2).on(f"n{i}") for i in (3, 4)),
        *(pod(f"m{i}").cpu(3).priority(5).gang("g") for i in (1, 2)),
        pdb("b").selects(app="w").allows(2),
    )
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    if seen:
        cluster.delete("w1")
    else:
        cluster.judge = lambda write: (Outcome.GONE, "no such pod") if write.pod.name == "w1" else None
        cluster.answer("w1")
        cluster.run()
    cluster.show(pdb("b").selects(app="w").allows(0))
    cluster.run()
    assert recalled(cluster) == ({"w1", "w2"} if seen else {"w2"})
    if not seen:
        cluster.delete("w1")
    go_on(cluster)
    assert evicted(cluster) - {"w1"} == {"v3"}


def test_a_victim_whose_eviction_was_refused_has_not_left() -> None:
    """Its budget has been used up by others: the eviction of the next one is recalled while that is still possible."""
    cluster = preempting()
    cluster.show(*(pod(f"v{i}").cpu(3).priority(1).label(app="v").on(f"n{i}") for i in (1, 2)))
    cluster.show(pdb("b").selects(app="v").allows(2))
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.judge = lambda write: (Outcome.BLOCKED, "not now") if isinstance(write, Remove) else None
    cluster.run()
    cluster.answer("v1")
    cluster.run()
    cluster.show(pdb("b").selects(app="v").allows(0))
    cluster.run()
    assert recalled(cluster) == {"v2"}


def test_nobody_is_asked_twice_about_what_was_recalled() -> None:
    """That a pod is to be spared is said once, however much happens until its removal is answered."""
    cluster = stopped_in(Remove)
    cluster.sent = True
    for priority in (7, 8):
        cluster.change("v2", priority=priority)
        cluster.run()
    said = [a.pod.name for a in cluster.log if isinstance(a, Spare)]
    assert len(said) == len(set(said)) > 0


def test_a_queue_that_is_opened_again_stops_the_removals_that_wait() -> None:
    """Its workloads stay, without a mark."""
    made = cluster_of_queues(queued("x1", "a"), queued("x2", "a"))
    made.slow = lambda write: isinstance(write, Remove)
    made.show(stopped())
    made.run()
    assert {write.pod.name for write in made.waiting} == {"x1", "x2"}
    made.answer("x1")
    made.show(opened())
    made.run()
    assert recalled(made) == {"x2"}
    assert evicted(made) == {"x1"}
    assert names(made, Unmark) == {"x2"}


def test_a_gang_that_needs_no_more_victims_keeps_its_room() -> None:
    """A weaker one, which waits for room on the same node, would take it before the plan is made anew."""
    cluster = Cluster(
        node("n").cpu(6),
        pod("slow").cpu(2).priority(1).on("n").field(grace_seconds=60.0),
        pod("quick").cpu(2).priority(1).on("n").field(grace_seconds=1.0),
        pod("other").cpu(2).priority(9).on("n"),
        pod("strong").cpu(4).priority(5),
        pod("weak").cpu(2).priority(2).never(),
    )
    cluster.slow = lambda write: isinstance(write, WithdrawNomination) and write.pod.name == "strong"
    cluster.run()
    assert evicted(cluster) == {"slow"}
    cluster.delete("other")
    cluster.pass_time(60)
    assert evicted(cluster) == {"slow"}
    assert nodes_of(cluster.log) == {}
    cluster.leave()
    cluster.run()
    assert nodes_of(cluster.log) == {"strong": "n"}


@pytest.mark.parametrize("how", ["recalled", "failed"])
def test_a_gang_whose_removals_came_to_nothing_keeps_its_room_until_it_is_looked_at(how: str) -> None:
    """One of two victims has left when room turns up that does instead of the other; a weaker pod waits as well."""
    cluster = Cluster(
        node("n").cpu(6),
        *(pod(f"v{i}").cpu(2).priority(1).on("n") for i in (1, 2)),
        pod("other").cpu(2).priority(9).on("n"),
        pod("strong").cpu(4).priority(5),
        pod("weak").cpu(2).priority(2).never(),
    )
    cluster.slow = lambda write: isinstance(write, Remove | WithdrawNomination)
    cluster.run()
    cluster.answer("v1")
    cluster.leave("v1")
    cluster.delete("other")
    if how == "failed":
        cluster.judge = lambda write: (Outcome.TRANSIENT, "busy") if isinstance(write, Remove) else None
        cluster.answer("v2")
    cluster.run()
    assert names(cluster, Unmark) == {"v2"}
    assert nodes_of(cluster.log) == {"strong": "n"}
