"""Lists of victims of which some are gone when another process takes over."""

from __future__ import annotations

import pytest

from gangsched.core.actions import Mark, Remove, Unmark, Write
from gangsched.core.events import Outcome
from gangsched.model.records import Condition
from tests.builders import gang, node, pdb, pod
from tests.core.harness import Cluster
from tests.core.stories import evicted


def half_removed(*, mode: str | None, minimum: int, members: int = 2) -> Cluster:
    """A single pod evicts members of a gang on n1 and n2; the first is gone when the process dies."""
    running = [pod(f"m{i}").cpu(4).gang("g").on(f"n{i}") for i in range(1, members + 1)]
    group = gang("g").min(minimum)
    cluster = Cluster(*(node(f"n{i}").cpu(4) for i in (1, 2, 3)), group.mode(mode) if mode else group, *running)
    cluster.run()
    sent: list[str] = []

    def slow(write: Write) -> bool:
        if isinstance(write, Remove):
            sent.append(write.pod.name)
        return isinstance(write, Remove) and write.pod.name != "m1"

    cluster.slow = slow
    cluster.show(
        node("n3").cordoned(), pod("top").cpu(4).priority(9).shape(node_selector=(("kubernetes.io/hostname", "n1"),))
    )
    cluster.run()
    assert "m1" in sent
    cluster.leave("m1")
    cluster.restart()
    cluster.slow = lambda _: False
    cluster.run()
    return cluster


@pytest.mark.parametrize(("mode", "minimum"), [("gang", 1), (None, 2)], ids=["by its mode", "by its minimum"])
def test_a_gang_that_leaves_as_a_whole_is_not_left_in_part(mode: str | None, minimum: int) -> None:
    """The room of the first is enough, and yet the others go: they are worth nothing alone."""
    cluster = half_removed(mode=mode, minimum=minimum)
    assert {a.pod.name for a in cluster.log if isinstance(a, Remove)} == {"m1", "m2"}
    assert not [a for a in cluster.log if isinstance(a, Unmark)]


def test_nobody_is_marked_anew() -> None:
    """The list that stands is carried out: no second one is made."""
    cluster = half_removed(mode=None, minimum=2)
    assert [a.pod.name for a in cluster.log if isinstance(a, Mark)].count("m2") == 1


def test_who_is_gone_without_an_answer_has_been_removed() -> None:
    """Both removals are answered by an error, one took effect all the same: the other member follows."""
    cluster = Cluster(
        *(node(f"n{i}").cpu(4) for i in (1, 2)),
        gang("g").min(2),
        *(pod(f"m{i}").cpu(4).gang("g").on(f"n{i}") for i in (1, 2)),
    )
    cluster.run()
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.show(pod("top").cpu(4).priority(9))
    cluster.run()
    cluster.judge = lambda write: (Outcome.TRANSIENT, "no answer") if isinstance(write, Remove) else None
    cluster.delete("m1")
    cluster.answer()
    cluster.judge = lambda _: None
    cluster.slow = lambda _: False
    cluster.run()
    assert cluster.pod("m2").deleting_since is not None
    assert not [a for a in cluster.log if isinstance(a, Unmark)]


@pytest.mark.parametrize("joins", [False, True])
def test_a_gang_that_has_begun_to_leave_leaves_whole_though_its_preemptor_is_weaker_now(joins: bool) -> None:
    """A member that ``joins`` while no process runs has a lower priority than those that were on the list."""
    cluster = Cluster(
        *(node(f"n{i}").cpu(4) for i in (1, 2)),
        gang("low").min(2),
        gang("g").min(1),
        *(pod(f"w{i}").cpu(4).priority(3).gang("low").on(f"n{i}") for i in (1, 2)),
        pod("m1").cpu(4).priority(5).gang("g"),
    )
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    cluster.answer("w1")
    if joins:
        cluster.show(pod("m2").cpu(4).priority(1).gang("g"))
    cluster.restart()
    cluster.slow = lambda _: False
    cluster.run()
    assert all(cluster.pod(name).deleting_since is not None for name in ("w1", "w2"))
    assert not [a for a in cluster.log if isinstance(a, Unmark)]


@pytest.mark.parametrize(("lost", "leave"), [(False, {"w3"}), (True, {"w2", "w3"})])
def test_who_is_no_surplus_any_more_is_not_removed_singly(lost: bool, leave: set[str]) -> None:
    """Of three that need two one is marked; another is gone when the next process reads that: both others leave."""
    cluster = Cluster(
        *(node(f"n{i}").cpu(4) for i in (1, 2, 3)),
        gang("low").min(2),
        *(pod(f"w{i}").cpu(4).gang("low").on(f"n{i}") for i in (1, 2, 3)),
        pod("top").cpu(4).priority(9).shape(node_selector=(("kubernetes.io/hostname", "n3"),)),
    )
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    if lost:
        cluster.delete("w1")
    cluster.log.clear()
    cluster.restart()
    cluster.slow = lambda _: False
    cluster.run()
    assert {a.pod.name for a in cluster.log if isinstance(a, Remove)} == leave


def test_a_member_whose_node_is_gone_is_not_marked_anew() -> None:
    """It was never on the list, though its gang leaves as a whole: others delete it."""
    cluster = Cluster(
        *(node(f"n{i}").cpu(4) for i in (1, 2)),
        gang("g").min(3),
        *(pod(f"m{i}").cpu(4).gang("g").on(f"n{i}") for i in (1, 2, 3)),
        pod("top").cpu(4).priority(9).shape(node_selector=(("kubernetes.io/hostname", "n1"),)),
    )
    cluster.run()
    cluster.leave("m2")
    cluster.restart()
    cluster.run()
    assert {a.pod.name for a in cluster.log if isinstance(a, Mark)} == {"m1", "m2"}
    assert {a.pod.name for a in cluster.log if isinstance(a, Remove)} == {"m1", "m2"}


@pytest.mark.parametrize(("ahead", "leave"), [(-1.0, {"m1", "m2", "m3"}), (0.0, {"m1", "m2"})], ids=["before", "after"])
def test_who_joins_a_gang_after_the_first_removal_is_not_on_the_list(ahead: float, leave: set[str]) -> None:
    """A member that comes for one that is gone, while another still terminates, is a new start of the gang. One that
    was there before and bears no mark has had it taken back.
    """
    cluster = Cluster(
        *(node(f"n{i}").cpu(4) for i in (1, 2)),
        gang("g").min(1).mode("gang"),
        *(pod(f"m{i}").cpu(4).gang("g").on(f"n{i}") for i in (1, 2)),
        pod("top").cpu(4).priority(9).shape(node_selector=(("kubernetes.io/hostname", "n1"),)),
    )
    cluster.run()
    cluster.leave("m2")
    cluster.show(node("n3").cpu(4), pod("m3").cpu(4).gang("g").on("n3").created(cluster.now + ahead))
    cluster.restart()
    cluster.run()
    assert {a.pod.name for a in cluster.log if isinstance(a, Remove)} == leave


@pytest.mark.parametrize(("since", "leave"), [(19.0, {"m1"}), (20.0, {"m1", "m2"})], ids=["before", "after"])
def test_a_mark_that_is_taken_back_after_the_notice_has_stood(since: float, leave: set[str]) -> None:
    """One of two has left, so the other leaves, too. A mark of an earlier plan says nothing of who is gone."""
    cluster = Cluster(
        *(node(f"n{i}").cpu(4) for i in (1, 2)),
        gang("g").min(2),
        *(pod(f"m{i}").cpu(4).gang("g").on(f"n{i}") for i in (1, 2)),
        pod("top").cpu(4).priority(9).shape(node_selector=(("kubernetes.io/hostname", "n1"),)),
        notice=(("", 20.0),),
    )
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    cluster.pass_time(20.0)
    cluster.answer("m1")
    cluster.leave("m1")
    cluster.change("m2", disruption=Condition("False", "PreemptionByScheduler", "", since))
    cluster.restart()
    cluster.slow = lambda _: False
    cluster.run()
    assert evicted(cluster) | {"m1"} == leave


def test_a_list_has_begun_whoever_was_on_a_node_that_is_gone() -> None:
    """Of three members one was on such a node, and one has left: the room of that is enough, and the last leaves."""
    cluster = Cluster(
        *(node(f"n{i}").cpu(4) for i in (1, 2)),
        gang("g").min(3),
        *(pod(f"m{i}").cpu(4).gang("g").on(f"n{i}") for i in (1, 2, 3)),
        pod("top").cpu(4).priority(9).shape(node_selector=(("kubernetes.io/hostname", "n1"),)),
    )
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    cluster.answer("m1")
    cluster.leave("m1")
    cluster.restart()
    cluster.slow = lambda _: False
    cluster.log.clear()
    cluster.run()
    assert {a.pod.name for a in cluster.log if isinstance(a, Remove)} == {"m2"}
    assert not [a for a in cluster.log if isinstance(a, Unmark)]


def test_a_list_that_breaks_a_budget_is_finished_although_a_removal_fails() -> None:
    """It broke that from the start, as far as is known: no budget was tightened for which others may be better."""
    victims = [pod(f"v{i}").cpu(4).label(app="x").on(f"n{i}") for i in (1, 2, 3)]
    tops = [pod(f"top{i}").cpu(4).priority(9).gang("top") for i in (1, 2, 3)]
    nodes = [node(f"n{i}").cpu(4) for i in (1, 2, 3)]
    cluster = Cluster(*nodes, *victims, pdb("b").selects(app="x").allows(1))
    cluster.run()
    cluster.slow = lambda write: isinstance(write, Remove) and write.pod.name != "v1"
    cluster.show(gang("top").min(3), *tops)
    cluster.run()
    cluster.leave("v1")
    cluster.restart()
    failing = ["v2", "v3"]

    def busy_once(write: Write) -> tuple[Outcome, str] | None:
        if not isinstance(write, Remove) or write.pod.name not in failing:
            return None
        failing.remove(write.pod.name)
        return Outcome.TRANSIENT, "busy"

    cluster.judge = busy_once
    cluster.slow = lambda _: False
    cluster.run()
    assert not failing
    assert not [a for a in cluster.log if isinstance(a, Unmark)]
    assert cluster.pod("v2").deleting_since is not None
    assert cluster.pod("v3").deleting_since is not None


@pytest.mark.parametrize(
    ("gone", "ended", "leave"),
    [
        (("a1", "a2"), "", set[str]()),
        ((), "b1", set[str]()),
        (("a1",), "", {"a2"}),
        (("a1", "b1"), "", {"a2", "b2"}),
    ],
    ids=["the other is gone", "a member has ended", "half of the other is gone", "half of each is gone"],
)
def test_a_gang_of_which_no_member_was_removed_is_spared(gone: tuple[str, ...], ended: str, leave: set[str]) -> None:
    """Two gangs of two were to leave for one of four, which has room without them by the time of the restart."""
    cluster = Cluster(
        *(node(f"n{i}").cpu(4) for i in (1, 2, 3, 4)),
        *(gang(name).min(2) for name in "ab"),
        *(pod(f"{name}{i}").cpu(4).gang(name).on(f"n{i + 2 * (name == 'b')}") for name in "ab" for i in (1, 2)),
        gang("top").min(4),
        *(pod(f"top{i}").cpu(4).priority(9).gang("top") for i in (1, 2, 3, 4)),
    )
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    for name in gone:
        cluster.leave(name) if cluster.pod(name).deleting_since is not None else cluster.delete(name)
    if ended:
        cluster.change(ended, phase="Succeeded", ended=cluster.now + 1)
    cluster.show(*(node(f"n{i}").cpu(4) for i in (5, 6, 7, 8)))
    cluster.log.clear()
    cluster.restart()
    cluster.slow = lambda _: False
    cluster.run()
    assert {a.pod.name for a in cluster.log if isinstance(a, Remove)} == leave
