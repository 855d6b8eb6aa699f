"""Announced evictions: who has to leave is told when, and may save its work or end until then."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from gangsched.core.actions import Mark, Remove, Unmark
from gangsched.core.actuation.records import read_owners
from gangsched.model.records import Stakes
from gangsched.model.times import parse_time
from tests.builders import gang, node, pod
from tests.core.harness import Cluster, nodes_of, reports, texts, writes
from tests.core.stories import G, assert_clean, evicted, names, preempting

NOTICE = 30.0


def announced(**options: Any) -> Cluster:
    """Both victims of gang g have been told that they leave in 30 s."""
    cluster = preempting(notice=(("", NOTICE),), **options)
    cluster.run()
    return cluster


def marks(cluster: Cluster) -> list[tuple[str, bool]]:
    """Who was marked or told, in order, and whether it was marked."""
    return [(a.pod.name, bool(a.message)) for a in cluster.log if isinstance(a, Mark)]


def not_before(cluster: Cluster, name: str) -> float:
    """The time that stands on a pod; 0 without one."""
    said = cluster.pod(name).evicted_for
    found = read_owners(said.message) if said is not None and said.status == "True" else None
    return max((parse_time(o.not_before, "") for o in found or ()), default=0.0)


def test_who_has_notice_is_told_first_and_leaves_when_it_is_over() -> None:
    """Nominate, tell, wait; then mark, remove and bind, none of it a moment before."""
    cluster = announced()
    assert marks(cluster) == [("v1", False), ("v2", False)]
    assert [not_before(cluster, name) for name in ("v1", "v2")] == [NOTICE, NOTICE]
    assert cluster.pod("v1").disruption is None
    assert cluster.core.states() == {G: "Notice"}
    told = reports(cluster.log, "EvictionAnnounced")
    assert sorted(each.regarding[3] for each in told) == ["v1", "v2"]
    assert all("not before 1970-01-01T00:00:30Z" in each.note and G in each.note for each in told)
    assert any("they have notice until 1970-01-01T00:00:30Z" in text for _, text in texts(cluster.log, "m1"))
    cluster.pass_time(NOTICE - 1)
    assert not names(cluster, Remove)
    cluster.pass_time(1)
    assert marks(cluster)[2:] == [("v1", True), ("v2", True)]
    assert names(cluster, Remove) == {"v1", "v2"}
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}


@pytest.mark.parametrize(
    ("notice", "begins"),
    [((("batch", 20.0),), 20.0), ((("batch", 20.0), ("web", 40.0)), 40.0), ((("x", 9.0),), 0.0)],
)
def test_notice_may_differ_by_priority_class(notice: tuple[tuple[str, float], ...], begins: float) -> None:
    """All victims of a plan leave together, after the longest notice of any of them; other classes have none."""
    cluster = preempting(notice=notice)
    for name, found in (("v1", "batch"), ("v2", "web")):
        cluster.change(name, priority_class=found)
    cluster.run()
    assert (not names(cluster, Remove)) is bool(begins)
    assert not_before(cluster, "v1") == begins
    if begins:
        cluster.pass_time(begins - 1)
        assert not names(cluster, Remove)
    cluster.pass_time(1)
    assert names(cluster, Remove) == {"v1", "v2"}


def test_the_time_of_the_gang_begins_when_the_notice_is_over() -> None:
    """It has a minute, of which a notice of five takes nothing."""
    cluster = preempting(notice=(("", 300.0),))
    cluster.pass_time(300.0)
    assert names(cluster, Remove) == {"v1", "v2"}
    cluster.pass_time(59)
    assert not names(cluster, Unmark)
    assert cluster.core.states() == {G: "WaitingForVictims"}
    cluster.pass_time(2)
    assert any("timed out" in text for _, text in texts(cluster.log, "m1"))


# -- what happens meanwhile --------------------------------------------------------------------------------


def test_all_victims_that_end_in_time_need_not_be_evicted() -> None:
    """The gang has its room at once, and no pod was removed for it."""
    cluster = announced()
    for name in ("v1", "v2"):
        cluster.change(name, phase="Succeeded")
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}
    assert not names(cluster, Remove)


def test_room_elsewhere_ends_the_notice() -> None:
    """The victims are told that they stay after all."""
    cluster = announced()
    cluster.show(node("n3"), node("n4"))
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}
    assert names(cluster, Unmark) == {"v1", "v2"}
    cluster.pass_time(2 * NOTICE)
    assert not names(cluster, Remove)
    assert_clean(cluster)


def test_a_gang_that_goes_takes_its_notice_back() -> None:
    """No member is left that needs the room."""
    cluster = announced()
    for name in ("m1", "m2"):
        cluster.delete(name)
    cluster.pass_time(2 * NOTICE)
    assert names(cluster, Unmark) == {"v1", "v2"}
    assert not names(cluster, Remove)
    assert_clean(cluster)


def test_a_victim_that_may_not_leave_any_more_stays() -> None:
    """Its priority has risen while it had notice: nobody is removed for a plan that cannot be carried out."""
    cluster = announced()
    cluster.change("v1", priority=9)
    cluster.pass_time(2 * NOTICE)
    assert not names(cluster, Remove)
    assert_clean(cluster)


def one_of_two(**options: Any) -> Cluster:
    """A pod that needs the room of either ``a`` or ``b``, of which ``a`` has lost less work by now, and is told so."""
    cluster = Cluster(
        *(node(f"n{i}") for i in (1, 2)),
        pod("a").cpu(3).priority(1).on("n1", 0.0).field(stakes=Stakes(checkpoint=900.0)),
        pod("b").cpu(3).priority(1).on("n2", 0.0).field(stakes=Stakes(checkpoint=800.0)),
        notice=(("", NOTICE),),
        **options,
    )
    cluster.now = 1000.0
    cluster.show(pod("new").cpu(3).priority(5))
    cluster.run()
    assert marks(cluster) == [("a", False)]
    return cluster


def test_who_saves_its_work_is_weighed_again_and_told_once() -> None:
    """It is the better victim still: it is marked and removed in the moment that it was told."""
    cluster = one_of_two()
    cluster.now = 1010.0
    cluster.change("a", stakes=Stakes(checkpoint=1010.0))
    cluster.pass_time(NOTICE - 11)
    assert not names(cluster, Remove)
    cluster.pass_time(1)
    assert names(cluster, Remove) == {"a"}
    assert len(reports(cluster.log, "EvictionAnnounced")) == 1


def test_another_choice_is_told_in_its_turn() -> None:
    """``b`` has saved its work later than ``a``, so it leaves, after a notice of its own; then that is settled."""
    cluster = one_of_two()
    cluster.now = 1010.0
    cluster.change("a", stakes=Stakes(checkpoint=1005.0))
    cluster.change("b", stakes=Stakes(checkpoint=1009.0))
    cluster.pass_time(NOTICE)
    assert marks(cluster)[-1] == ("b", False)
    assert names(cluster, Unmark) == {"a"}
    cluster.change("b", stakes=Stakes(checkpoint=1041.0))
    cluster.change("a", stakes=Stakes(checkpoint=1045.0))
    cluster.pass_time(NOTICE + 1)
    assert names(cluster, Remove) == {"b"}


def test_a_victim_that_ended_is_not_made_up_for_by_needless_ones() -> None:
    """One of two has ended by itself: the other leaves at the time that it was told."""
    cluster = announced()
    cluster.change("v1", phase="Succeeded")
    cluster.pass_time(NOTICE - 1)
    assert not names(cluster, Remove)
    cluster.pass_time(1)
    assert names(cluster, Remove) == {"v2"}
    cluster.leave()
    cluster.run()
    assert set(nodes_of(cluster.log)) == {"m1", "m2"}


# -- a process that takes over -----------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0.0, 10.0, NOTICE - 1])
def test_another_process_keeps_the_time(seconds: float) -> None:
    """The notice stands on the pods: nothing is nominated or told again, and nobody leaves sooner or later."""
    cluster = announced()
    cluster.pass_time(seconds)
    cluster.restart(notice=(("", NOTICE),))
    cluster.log.clear()
    cluster.run()
    cluster.change("m1", labels={"app": "red"})  # a member that is looked at again is still as planned
    cluster.pass_time(NOTICE - 1 - seconds)
    assert writes(cluster.log) == []
    assert not reports(cluster.log, "EvictionAnnounced")
    cluster.pass_time(1)
    assert names(cluster, Remove) == {"v1", "v2"}


def test_another_process_that_comes_late_marks_before_it_removes() -> None:
    """The notice was over while no process led."""
    cluster = announced()
    cluster.now = 2 * NOTICE
    cluster.restart(notice=(("", NOTICE),))
    cluster.log.clear()
    cluster.run()
    kinds = [kind for kind, _ in writes(cluster.log)]
    assert kinds == ["Mark", "Mark", "Remove", "Remove"]
    assert evicted(cluster) == {"v1", "v2"}


def test_another_process_finishes_no_gang_of_which_a_member_ended_while_it_had_notice() -> None:
    """Nobody has been removed by then: the other member stays, since the room of the first is enough."""
    cluster = Cluster(
        *(node(f"n{i}") for i in (1, 2)),
        gang("low").min(2),
        *(pod(f"w{i}").cpu(3).priority(1).gang("low").on(f"n{i}") for i in (1, 2)),
        pod("p").cpu(3).priority(5),
        notice=(("", NOTICE),),
    )
    cluster.run()
    cluster.change("w1", phase="Succeeded")
    cluster.restart(notice=(("", NOTICE),))
    cluster.pass_time(NOTICE + 1)
    assert evicted(cluster) == set()
    assert nodes_of(cluster.log) == {"p": "n1"}
    assert_clean(cluster)


def test_another_process_takes_back_a_notice_that_nobody_needs() -> None:
    """The gang is gone when it comes."""
    cluster = announced()
    for name in ("m1", "m2"):
        cluster.delete(name)
    cluster.restart(notice=(("", NOTICE),))
    cluster.log.clear()
    cluster.pass_time(2 * NOTICE)
    assert names(cluster, Unmark) == {"v1", "v2"}
    assert not names(cluster, Remove)


@pytest.mark.parametrize("time", ["soon", "2026-13-01T00:00:00Z", 5])
def test_a_time_that_cannot_be_understood_is_none(time: object) -> None:
    """Another client has changed the condition: the plan is decided anew, and the victims have notice again."""
    cluster = announced()
    for name in ("v1", "v2"):
        said = cluster.pod(name).evicted_for
        assert said is not None
        data = json.loads(said.message)
        data["owners"][0]["notBefore"] = time
        cluster.change(name, evicted_for=msgspec.structs.replace(said, message=json.dumps(data)))
    cluster.restart(notice=(("", NOTICE),))
    cluster.pass_time(NOTICE)
    assert names(cluster, Remove) == {"v1", "v2"}
