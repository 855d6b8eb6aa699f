"""Decisions as a plan shows them: outcomes, words, held room, GangGroups, the order of the queue."""

from __future__ import annotations

import pytest

from gangsched.core.decision import BIND, GATHERING, PREEMPT, UNSCHEDULABLE, WAIT
from gangsched.core.forecast import forecast
from gangsched.core.options import Options
from tests.builders import OTHERS, PodBuilder, gang, node, pod
from tests.core.harness import Built, event, placed, plan, victims

# -- words -------------------------------------------------------------------------------------------------

NOBODY = "preemption: no lower-priority pods that may be evicted where the gang could run."


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([], f"0/0 nodes are available. {NOBODY}"),
        ([node("n1").cpu(1), node("n2").cpu(1)], f"0/2 nodes are available: 2 Insufficient cpu. {NOBODY}"),
        (
            [node("n1").cpu(1), node("n2").cordoned(), node("n3").taint("x")],
            (
                "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), "
                f"1 node(s) were unschedulable. {NOBODY}"
            ),
        ),
        (
            [node("n1").cpu(1).memory(1), *(node(f"m{i}").cpu(1) for i in range(10))],
            f"0/11 nodes are available: 1 Insufficient memory, 11 Insufficient cpu. {NOBODY}",
        ),
        (
            [node("n1"), pod("x").cpu(3).on("n1")],
            (
                "0/1 nodes are available: 1 Insufficient cpu. preemption: "
                "the gang would not fit even if the only lower-priority pod were evicted."
            ),
        ),
        ([node("n1").pods(0)], f"0/1 nodes are available: 1 Too many pods. {NOBODY}"),
    ],
    ids=["no-nodes", "one-reason", "several", "sorted-as-strings", "preemption", "pods"],
)
def test_message(objects: list[Built], message: str) -> None:
    """The form that users of kube-scheduler know: counts and reasons sorted as strings, then what preemption says."""
    members = [pod(f"m{i}").cpu(2).memory(2).priority(5).gang("g") for i in range(3)]
    found = plan(*objects, gang("g").min(3), *members)["d/g"]
    assert (found.outcome, found.message) == (UNSCHEDULABLE, message)


def test_the_message_is_that_of_the_first_unplaced_required_member() -> None:
    """The others have their nodes; what the first one without one sees is what people read."""
    found = plan(node("n1"), gang("g").min(2), pod("a").cpu(3).gang("g"), pod("b").gpu(1).gang("g"))["d/g"]
    assert found.message.startswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
    assert {u.pod: u.reasons for u in found.unplaced}["d/b"] == ("1 Insufficient nvidia.com/gpu",)
    assert [u.pod for u in found.unplaced] == ["d/a", "d/b"]


def test_long_messages_are_cut() -> None:
    """Conditions hold 1024 characters; a cut is visible."""
    nodes = [node("n1")]
    wanted = pod("p")
    for i in range(60):
        wanted.requests(**{f"example.com/device_{i}_with_a_long_name": 1})
    found = plan(*nodes, wanted)["d/p"]
    assert len(found.message) == 1024
    assert found.message.endswith(" ...")


@pytest.mark.parametrize(
    ("objects", "outcome", "message"),
    [
        ([], BIND, "1 member can start now"),
        ([pod("t").cpu(4).on("n1").terminating()], WAIT, "1 member can start when 1 terminating pod is gone"),
        ([pod("v").cpu(4).on("n1")], PREEMPT, "1 member can start after 1 pod is evicted"),
        (
            [pod("t").cpu(2).on("n1").terminating(), pod("v").cpu(2).on("n1")],
            PREEMPT,
            "1 member can start after 1 pod is evicted and 1 terminating pod is gone",
        ),
    ],
    ids=["bind", "wait", "preempt", "both"],
)
def test_outcomes(objects: list[Built], outcome: str, message: str) -> None:
    """Now, when terminating pods are gone, after evictions, or both."""
    found = plan(node("n1"), *objects, pod("p").cpu(4).priority(5))["d/p"]
    assert (found.outcome, found.message) == (outcome, message)


def test_only_terminating_pods_that_are_needed_are_awaited() -> None:
    """The smallest set by name on the node that was chosen; others may terminate as long as they like."""
    found = plan(
        node("n1"),
        pod("a").cpu(2).on("n1").terminating(),
        pod("b").cpu(2).on("n1").terminating(),
        pod("p").cpu(2),
    )["d/p"]
    assert len(found.awaiting) == 1
    assert found.awaiting[0].node == "n1"


def test_a_bound_gang_has_no_entry() -> None:
    """There is nothing to decide."""
    assert plan(node("n1"), gang("g").min(1), pod("m").gang("g").on("n1")) == {}


@pytest.mark.parametrize(
    ("objects", "outcome"),
    [
        ([], BIND),
        ([pod("x").cpu(2).on("n1")], UNSCHEDULABLE),
        ([pod("x").cpu(2).on("n1").terminating()], UNSCHEDULABLE),
    ],
    ids=["fits", "does-not", "would-later"],
)
def test_a_gang_at_its_minimum(objects: list[Built], outcome: str) -> None:
    """Required is 0: bind if one fits now, else unschedulable; nobody waits or is evicted for surplus."""
    found = plan(node("n1"), gang("g").min(1), pod("m1").cpu(2).priority(9).gang("g").on("n1"), *objects,
                 pod("m2").cpu(2).priority(9).gang("g"))["d/g"]  # fmt: skip
    assert (found.required, found.outcome, found.victims) == (0, outcome, ())


def test_pods_of_other_schedulers_get_no_decision() -> None:
    """They take room and may be victims; who places them is not us."""
    assert plan(node("n1"), pod("p").scheduler(OTHERS)) == {}


def test_several_scheduler_names() -> None:
    """One process may serve several names."""
    found = plan(node("n1"), pod("p").scheduler("a"), pod("q").scheduler("b"), scheduler_names=("a", "b"))
    assert set(found) == {"d/p", "d/q"}


# -- each on what the earlier ones leave -------------------------------------------------------------------


def order(*objects: Built) -> list[str]:
    """Gangs in the order in which they are decided."""
    return [d.gang.name for d in forecast([event(o) for o in objects], Options(), 0.0)]


def test_queue_order() -> None:
    """Priority, then age of the object or oldest member, then name; a GangGroup has the age of its oldest gang."""
    assert order(
        gang("young").created(9),
        pod("y").gang("young").created(1),
        gang("old").created(5),
        pod("o").gang("old").created(8),
        pod("single").created(7),
        pod("strong").priority(1).created(99),
        gang("b").group("d/a", "d/b").created(6),
        gang("a").group("d/a", "d/b").created(100),
        pod("a1").gang("a"),
        pod("b1").gang("b"),
        pod("z").created(5),
    ) == ["strong", "old", "z", "a", "b", "single", "young"]


def test_later_gangs_see_what_earlier_ones_take() -> None:
    """Members that are placed take their room from the decisions that follow."""
    found = plan(node("n1"), pod("a").cpu(3), pod("b").cpu(3).created(1))
    assert [found[k].outcome for k in ("d/a", "d/b")] == [BIND, UNSCHEDULABLE]


@pytest.mark.parametrize(("later", "outcome"), [(3, UNSCHEDULABLE), (1, WAIT)])
def test_room_held_for_a_preemptor_is_taken_and_the_excess_is_not(later: float, outcome: str) -> None:
    """Victims of four cores for a member of two: the other two are for whoever comes next, when they are gone."""
    found = plan(
        node("n1"), pod("v").cpu(4), pod("v").cpu(4).on("n1"), pod("a").cpu(2).priority(5), pod("b").cpu(later)
    )
    assert (found["d/a"].outcome, found["d/b"].outcome) == (PREEMPT, outcome)


def test_a_victim_is_taken_once() -> None:
    """The next preemptor finds the victims of the first gone."""
    found = plan(node("n1"), pod("v").cpu(2).on("n1"), pod("w").cpu(2).on("n1"),
                 pod("a").cpu(2).priority(5), pod("b").cpu(2).priority(4))  # fmt: skip
    assert victims(found["d/a"]) + victims(found["d/b"]) == ["v", "w"]


# -- GangGroups --------------------------------------------------------------------------------------------


def pair(a: PodBuilder, b: PodBuilder) -> list[Built]:
    """Two gangs of one member each that start together, in different namespaces."""
    return [gang("a").group("d/a", "e/b"), gang("b", "e").group("d/a", "e/b"), a.gang("a"), b.gang("b")]


def test_gangs_of_a_group_are_decided_together() -> None:
    """An entry each, with the same outcome and all of the group's victims."""
    found = plan(node("n1").cpu(2), node("n2").cpu(2), pod("v").cpu(2).on("n1"), pod("w").cpu(2).on("n2"),
                 *pair(pod("x").cpu(2).priority(5), pod("y", "e").cpu(2).priority(5)))  # fmt: skip
    assert {k: (d.outcome, d.group, victims(d)) for k, d in found.items()} == {
        "d/a": (PREEMPT, ("d/a", "e/b"), ["v", "w"]),
        "e/b": (PREEMPT, ("d/a", "e/b"), ["v", "w"]),
    }
    assert (set(placed(found["d/a"])), set(placed(found["e/b"]))) == ({"x"}, {"y"})


def test_a_group_fits_whole_or_not_at_all() -> None:
    """One of two fitting is none."""
    found = plan(node("n1").cpu(2), *pair(pod("x").cpu(2), pod("y", "e").cpu(2)))
    assert {(d.outcome, d.placements) for d in found.values()} == {(UNSCHEDULABLE, ())}


def test_a_group_with_a_gang_missing_gathers() -> None:
    """The gang that is there says which one is not."""
    found = plan(node("n1"), gang("a").group("d/a", "e/b"), pod("x").gang("a"))
    assert (found["d/a"].outcome, found["d/a"].message) == (
        GATHERING,
        "gang e/b of the GangGroup does not exist yet",
    )


def test_surplus_of_one_gang_does_not_make_up_for_another() -> None:
    """The minimum is each gang's own."""
    found = plan(
        node("n1").cpu(2),
        gang("a").group("d/a", "d/b").min(1),
        gang("b").group("d/a", "d/b").min(1),
        *(pod(f"a{i}").cpu(1).gang("a") for i in (1, 2)),
        pod("b1").cpu(2).gang("b"),
    )
    assert {d.outcome for d in found.values()} == {UNSCHEDULABLE}
