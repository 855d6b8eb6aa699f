"""Removals that wait for their turn are recalled when their victims may not, or need not, leave any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gangsched.core.actions import Mark, Nominate, Remove, Unmark, WithdrawNomination, Write
from gangsched.core.events import Gone, Outcome
from tests.builders import SIGS, gang, node, pdb, pod
from tests.core.eviction.recalls import whole_gang
from tests.core.harness import Cluster, nodes_of
from tests.core.stories import assert_clean, evicted, go_on, names, preempting

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


@pytest.mark.parametrize(("minimum", "leave"), [(1, 1), (3, 0)])
def test_a_gang_of_another_size_begins_anew_while_nobody_has_left(minimum: int, leave: int) -> None:
    """It needs one victim instead of two; or three members, for which there is no room."""
    cluster = preempting()
    cluster.show(pod("m3").cpu(3).priority(5).gang("g"))
    cluster.slow = lambda write: isinstance(write, Mark)
    cluster.run()
    cluster.show(gang("g").min(minimum).timeout(60))
    go_on(cluster)
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
    assert names(cluster, Unmark) == set()
    cluster.judge = lambda w: (Outcome.TRANSIENT, "no answer") if w.pod.name == "v5" else None
    go_on(cluster)
    assert evicted(cluster) == {f"v{i}" for i in range(COUNT - 1)}
    assert names(cluster, Unmark) == {"v5"}


def test_what_does_not_matter_recalls_nothing() -> None:
    """Heartbeats, other gangs, pods that come and go elsewhere without giving room enough."""
    cluster = removing()
    cluster.show(node("n1").label(a="b"), gang("other").min(2), pod("x").cpu(9).priority(0))
    cluster.change("v3", labels={"a": "b"})
    cluster.run()
    cluster.show(node("tiny").cpu(1))
    cluster.delete("x")
    cluster.run()


def test_a_list_that_is_right_again_is_finished() -> None:
    """A victim was protected only for a moment, shorter than its removal took to be recalled."""
    cluster = removing()
    was = cluster.pod("v3")
    protect(cluster, "v3")
    take_in(cluster)
    cluster.show(was)
    cluster.run()
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
    go_on(cluster)
    assert evicted(cluster) == {"w1", "w2"}


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


@pytest.mark.parametrize("phase", [Nominate, Mark])
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


def test_a_gang_whose_removals_came_to_nothing_keeps_its_room_until_it_is_looked_at() -> None:
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
    cluster.judge = lambda write: (Outcome.TRANSIENT, "busy") if isinstance(write, Remove) else None
    cluster.answer("v2")
    cluster.run()
    assert names(cluster, Unmark) == {"v2"}
    assert nodes_of(cluster.log) == {"strong": "n"}
