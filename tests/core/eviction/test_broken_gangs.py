"""Gangs that run below their minimum because a member was removed: finished, or reported, half a minute later."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.actions import Bind, Mark, Remove, Report, Unmark
from gangsched.core.events import Outcome, WriteDone
from tests.builders import gang, node, pod
from tests.core.eviction.recalls import two_gangs, whole_gang
from tests.core.harness import Built, Cluster, reports, writes
from tests.core.stories import member, names

KEPT = {"scheduling.koordinator.sh/disable-preemptible": "true"}


def refused(cluster: Cluster, *names: str, outcome: Outcome = Outcome.BLOCKED) -> list[Report]:
    """The removals of these pods are refused; the Events about gangs that are broken for that."""
    for write in [each for each in cluster.waiting if each.pod.name in names]:
        cluster.waiting.remove(write)
        cluster._events.append(WriteDone(write.id, outcome, f"budget {write.pod.name[0]} does not allow it"))
    cluster.run()
    return reports(cluster.log, "GangBroken")


def abandoned(**options: Any) -> Cluster:
    """Gang low has lost w1 to gang g; then g is gone, and nobody knows what has become of the removal of w2."""
    cluster = whole_gang(**options)
    cluster.leave("w1")
    for name in ("m1", "m2"):
        cluster.delete(name)
    refused(cluster, "w2", outcome=Outcome.TRANSIENT)
    return cluster


def test_what_is_left_of_a_gang_is_finished() -> None:
    """Its mark stays when its preemptor goes; half a minute later it is marked for what is left, and removed."""
    cluster = abandoned()
    assert cluster.pod("w2").disruption_target
    del cluster.log[:]
    cluster.pass_time(25)
    assert names(cluster, Mark) | names(cluster, Remove) == set()
    cluster.pass_time(6)
    assert names(cluster, Mark) == {"w2"}
    cluster.answer("w2")
    cluster.run()
    assert [said.regarding[3] for said in reports(cluster.log, "Preempted")] == ["w2"]


def test_a_gang_that_is_whole_again_is_left_alone() -> None:
    """Its controller has made another member in time."""
    cluster = abandoned()
    cluster.show(pod("w3").cpu(3).priority(1).gang("low").on("n1"))
    del cluster.log[:]
    cluster.pass_time(60)
    assert names(cluster, Remove) == set()


def test_a_member_that_is_being_bound_is_waited_for() -> None:
    """Of two that its controller has made one is gone again, and the answer for the other has not come yet."""
    cluster = abandoned()
    cluster.slow = lambda write: isinstance(write, Bind)
    cluster.show(gang("low").min(3).priority(1))
    cluster.show(*(pod(name).cpu(1).priority(1).gang("low") for name in ("w3", "w4")))
    cluster.pass_time(2)
    refused(cluster, "w4", outcome=Outcome.REFUSED)
    assert names(cluster, Bind) >= {"w3", "w4"}
    cluster.delete("w4")
    del cluster.log[:]
    cluster.pass_time(31)
    assert names(cluster, Mark) == set()


@pytest.mark.parametrize("mode", ["Pod", None])
def test_only_gangs_that_leave_as_a_whole_are_finished(mode: str | None) -> None:
    """Where pods may be evicted one by one the others are of use."""
    cluster = abandoned()
    low = gang("low").min(2).priority(1)
    cluster.show(low.field(disruption="pod") if mode else low)
    del cluster.log[:]
    cluster.pass_time(31)
    assert names(cluster, Remove) == (set() if mode else {"w2"})


def test_a_process_that_takes_over_finishes_it_too() -> None:
    """The marks of those that are left, or of those that terminate, say how many were to leave."""
    cluster = whole_gang()
    cluster.waiting.clear()
    for name in ("m1", "m2"):
        cluster.delete(name)
    cluster.restart()
    del cluster.log[:]
    cluster.run()
    assert cluster.pod("w2").disruption_target
    cluster.slow = lambda write: False
    cluster.pass_time(31)
    assert names(cluster, Remove) == {"w2"}


def test_a_gang_is_told_that_it_is_left_in_part() -> None:
    """In strict mode a budget keeps its second pod; for which gang the first has left stands in its own Event."""
    cluster = whole_gang(strict_budgets=True)
    refused(cluster, "w2")
    cluster.pass_time(31)
    [said] = refused(cluster, "w2")
    assert (said.kind, said.regarding[1], said.regarding[3]) == ("Warning", "PodGroup", "low")
    assert said.note == (
        "Left in part: others of it, or of its GangGroup, have left for gang d/g (plan rest of 0-1), and these stay:"
        " d/w2 (blocked: budget w does not allow it)"
    )


def test_a_gang_that_is_protected_by_now_is_told() -> None:
    """What may not be evicted stays, and its gang says so."""
    cluster = abandoned()
    cluster.show(pod("w2").cpu(3).priority(1).gang("low").on("n2").labels(KEPT))
    del cluster.log[:]
    cluster.pass_time(31)
    assert names(cluster, Mark) == set()
    [said] = reports(cluster.log, "GangBroken")
    assert said.regarding[3] == "low"


def held_back(*objects: Built, **options: Any) -> Cluster:
    """Gang g needs two nodes; the removals of those who run there wait."""
    cluster = Cluster(gang("g").min(2).timeout(60), *(member(n) for n in (1, 2)), *objects, **options)
    cluster.slow = lambda write: isinstance(write, Remove)
    cluster.run()
    return cluster


def test_a_gang_of_which_no_pod_has_left_is_not_told() -> None:
    """Both removals are refused: it is whole."""
    cluster = two_gangs(strict_budgets=True)
    refused(cluster, "w1", "w2")
    cluster.pass_time(60)
    assert reports(cluster.log, "GangBroken") == []


def test_a_gang_that_is_still_at_its_minimum_is_left_alone() -> None:
    """Only a member to spare has left, of a gang that leaves as a whole."""
    low = gang("low").min(1).priority(1).mode("PodGroup")
    pods = [pod(f"w{n}").cpu(3).priority(1).gang("low").on(f"n{n}") for n in (1, 2)]
    cluster = held_back(node("n1"), node("n2"), low, *pods)
    cluster.answer("w1")
    cluster.run()
    cluster.leave("w1")
    for name in ("m1", "m2"):
        cluster.delete(name)
    refused(cluster, "w2", outcome=Outcome.TRANSIENT)
    del cluster.log[:]
    cluster.pass_time(60)
    assert writes(cluster.log) == [("Unmark", "w2")]


def lost_and_refused() -> Cluster:
    """The answer to the removal of w1 is lost, and that of w2 is refused: the plan of gang g ends."""
    cluster = two_gangs()
    refused(cluster, "w1", outcome=Outcome.TRANSIENT)
    refused(cluster, "w2", outcome=Outcome.REFUSED)
    return cluster


@pytest.mark.parametrize("restarts", [False, True])
def test_a_member_whose_removal_was_not_answered_counts_as_removed(*, restarts: bool) -> None:
    """The marks stay, for this process and for another one, until it is known what has become of the gang."""
    cluster = lost_and_refused()
    assert cluster.pod("w2").disruption_target
    assert names(cluster, Unmark) == set()
    cluster.delete("w1")
    if restarts:
        cluster.restart()
    del cluster.log[:]
    cluster.slow = lambda _: False
    cluster.pass_time(35)
    assert "w2" in names(cluster, Remove)


def test_marks_are_taken_back_when_no_member_has_left() -> None:
    """The lost removal had no effect: half a minute later the gang is whole, and bears no mark."""
    cluster = lost_and_refused()
    for name in ("m1", "m2"):
        cluster.delete(name)
    cluster.pass_time(35)
    assert names(cluster, Unmark) == {"w1", "w2"}
    assert not any(cluster.pod(name).disruption_target for name in ("w1", "w2"))
