"""What goes together as a victim, what may be taken singly, and what may never be taken."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched.core.preemption.units import Units
from tests.builders import OTHERS, SIGS, UPSTREAM, PodBuilder, gang, node, pod
from tests.core.preemption.units import found, told


def three(family: str = SIGS) -> list[PodBuilder]:
    """Three running members of gang g."""
    return [pod(f"g{i}").gang("g", family).on(f"n{i}") for i in (1, 2, 3)]


EVERY = ["g1", "g2", "g3"]


@pytest.mark.parametrize(
    ("mode", "minimum", "expected"),
    [
        ("off", 2, ([], EVERY, 3)),
        ("minimal", 2, ([], EVERY, 3)),
        ("atomic", 2, (EVERY, [], 0)),
        ("elastic", 2, (EVERY, EVERY, 1)),
        ("elastic", 1, (EVERY, EVERY, 2)),
        ("elastic", 3, (EVERY, [], 0)),
        ("elastic", 5, (EVERY, [], 0)),
    ],
)
def test_gang_modes(mode: str, minimum: int, expected: tuple[list[str], list[str], int]) -> None:
    """Off and minimal: pods one by one; atomic: all of it; elastic: the surplus singly, beyond that all of it."""
    assert told(found(gang("g").min(minimum), *three(), gang_mode=mode)) == {"d/g": expected}


@pytest.mark.parametrize(
    ("disruption", "options", "expected"),
    [
        ("gang", {"gang_mode": "off"}, (EVERY, [], 0)),
        ("gang", {"gang_mode": "elastic"}, (EVERY, [], 0)),
        ("pod", {"gang_mode": "atomic"}, ([], EVERY, 3)),
        ("pod", {"gang_mode": "atomic", "pod_disruption_mode": "gangMode"}, (EVERY, [], 0)),
        (None, {"gang_mode": "atomic"}, (EVERY, [], 0)),
    ],
)
def test_disruption_mode_of_the_group(
    disruption: str | None, options: dict[str, Any], expected: tuple[list[str], list[str], int]
) -> None:
    """What the API says about a group wins over the configuration, unless `pod` is to be overridden."""
    made = gang("g").family(UPSTREAM).min(2).field(disruption=disruption)
    assert told(found(made, *three(UPSTREAM), **options)) == {"d/g": expected}


@pytest.mark.parametrize(
    ("builder", "taken"),
    [
        (pod("v").priority(9), True),
        (pod("v").priority(10), False),
        (pod("v").priority(11), False),
        (pod("v").priority(-1).scheduler(OTHERS), True),
        (pod("v").static(), False),
        (pod("v").owner("DaemonSet", "d"), False),
        (pod("v").owner("ReplicaSet", "d"), True),
        (pod("v").labels({"scheduling.koordinator.sh/disable-preemptible": "true"}), False),
        (pod("v").labels({"quota.scheduling.koordinator.sh/preemptible": "false"}), False),
        (pod("v").hint("volcano.sh/preemptable", "false"), False),
        (pod("v").terminating(), False),
    ],
)
def test_single_pods(builder: PodBuilder, taken: bool) -> None:
    """Strictly lower priority, of any scheduler; never protected, static, DaemonSet or terminating pods."""
    assert ("d/v" in told(found(builder.on("n1")))) is taken


def test_daemonset_pods_when_configured() -> None:
    """They come back at once on the same node, so they are only taken when somebody asks for it."""
    assert "d/v" in told(found(pod("v").owner("DaemonSet", "d").on("n1"), evict_daemonset_pods=True))


def test_finished_pods_are_no_victims() -> None:
    """They take no room."""
    assert found(pod("v").on("n1").phase("Succeeded")).empty


def test_pods_on_nodes_that_are_not_ready_or_going_are_not_taken_singly() -> None:
    """A kubelet that does not answer frees no room."""
    units = found(node("n1").not_ready(), node("n2").deleting(), *(pod(f"v{i}").on(f"n{i}") for i in (1, 2, 3)))
    assert list(told(units)) == ["d/v3"]


def test_pods_on_nodes_that_no_member_may_use_go_only_with_their_unit() -> None:
    """Their room is no use, but a whole gang is a whole gang."""
    units = found(gang("g").min(3), *three(), pod("v").on("n1"), unusable=("n1",))
    assert told(units) == {"d/g": (EVERY, [], 0)}


def test_members_on_nodes_that_are_not_ready_go_with_the_unit() -> None:
    """Everywhere means everywhere; but they are not taken as surplus."""
    units = found(node("n1").not_ready(), gang("g").min(2), *three())
    assert told(units) == {"d/g": (EVERY, ["g2", "g3"], 1)}


def test_terminating_members_do_not_count() -> None:
    """They leave anyway: neither victims nor surplus; what is left is at its minimum."""
    pods = [pod("g1").gang("g").on("n1").terminating(), *three()[1:]]
    assert told(found(gang("g").min(2), *pods)) == {"d/g": (["g2", "g3"], [], 0)}


@pytest.mark.parametrize(
    "member",
    [
        pod("g1").gang("g").on("n1").labels({"scheduling.koordinator.sh/disable-preemptible": "true"}),
        pod("g1").gang("g").on("n1").priority(10),
        pod("g1").gang("g").on("n1").static(),
    ],
    ids=["protected", "not-lower", "static"],
)
def test_a_unit_with_a_member_that_may_not_go_is_not_taken_whole(member: PodBuilder) -> None:
    """It may still lose its surplus singly, but never that member; a gang at its minimum is spared and said to be."""
    units = found(gang("g").min(3), member, *three()[1:])
    assert told(units) == {}
    assert [(s.name, bool(why)) for s, why in units.spared] == [("d/g", True)]
    assert told(found(gang("g").min(2), member, *three()[1:])) == {"d/g": ([], ["g2", "g3"], 1)}


@pytest.mark.parametrize(
    ("own", "members", "whole"),
    [(5, (1, 1, 1), True), (10, (1, 1, 1), True), (5, (1, 1, 10), False), (None, (9, 1, 1), True)],
    ids=["lower", "group-raises-nothing", "a-member-not-lower", "highest-member"],
)
def test_priority_of_a_whole_unit(own: int | None, members: tuple[int, ...], whole: bool) -> None:
    """The highest of its members', or its own if that is lower. Every member must be strictly lower too."""
    pods = [p.priority(n) for p, n in zip(three(), members, strict=True)]
    units = found(gang("g").min(3).field(priority=own), *pods)
    assert bool(units.blocks and units.blocks[0].whole) is whole


def test_a_gang_whose_object_is_gone_is_one_unit() -> None:
    """Nothing says how few members it can live with."""
    assert told(found(*three())) == {"d/g": (EVERY, [], 0)}


def test_own_members_and_own_gang_group_are_never_taken() -> None:
    """A gang does not eat itself, whatever the priorities of its members, nor the other gangs of its GangGroup."""
    pair = ("d/own", "d/sister")
    units = found(
        gang("own").group(*pair),
        gang("sister").group(*pair),
        pod("a").gang("own").on("n1"),
        pod("b").gang("sister").on("n2"),
    )
    assert told(units) == {}


def test_a_member_that_owns_others_goes_only_with_them() -> None:
    """Where it is deleted those are too; it is not surplus, however few members are needed."""
    driver = pod("g1").uid("uid-Pod-g1").gang("g").on("n1")
    executors = [each.owner("Pod", "g1") for each in three()[1:]]
    assert told(found(gang("g").min(1), driver, *executors)) == {"d/g": (EVERY, ["g2", "g3"], 2)}


def test_a_gang_group_is_one_unit_after_its_surplus() -> None:
    """Surplus members of each gang go singly; more means all gangs of the group, across namespaces."""
    pair = ("d/g", "e/h")
    units = found(
        gang("g").group(*pair).min(2),
        gang("h", "e").group(*pair).min(1),
        *three(),
        pod("h1", "e").gang("h").on("n1"),
    )
    (block,) = units.blocks
    assert (block.ref.kind, block.ref.name) == ("GangGroup", "d/g,e/h")
    assert told(units) == {"d/g,e/h": ([*EVERY, "h1"], EVERY, 1)}
    assert [p.limit for p in block.parts] == [1, 0]


# -- what a choice costs -----------------------------------------------------------------------------------


def cost(units: Units, *names: str) -> tuple[list[tuple[str, int]], list[int]]:
    """``(pod, level)`` of the losses and the levels of interrupted gangs."""
    table = units.snapshot.table
    losses, interrupted = units.losses({table.slot_of[f"uid-d-{n}"] for n in names})
    return sorted((loss.pod.name, loss.level) for loss in losses), interrupted


PRIORITIES = (4, 5, 6)


def mixed(minimum: int, **options: Any) -> Units:
    """A gang whose members have priorities 4, 5 and 6."""
    return found(gang("g").min(minimum), *(p.priority(n) for p, n in zip(three(), PRIORITIES, strict=True)), **options)


@pytest.mark.parametrize(
    ("mode", "minimum", "names", "losses", "interrupted"),
    [
        ("elastic", 2, ["g1"], [("g1", 4)], []),
        ("elastic", 2, EVERY, [("g1", 6), ("g2", 6), ("g3", 6)], [6]),
        ("atomic", 1, EVERY, [("g1", 6), ("g2", 6), ("g3", 6)], [6]),
        ("minimal", 2, ["g1"], [("g1", 4)], []),
        ("minimal", 2, ["g1", "g2"], [("g1", 4), ("g2", 5)], [5]),
        ("minimal", 4, ["g1"], [("g1", 4)], [4]),
        ("off", 2, ["g1", "g2"], [("g1", 4), ("g2", 5)], []),
    ],
    ids=["surplus", "whole", "atomic", "minimal-surplus", "minimal-below", "below-already", "off"],
)
def test_losses(
    mode: str, minimum: int, names: list[str], losses: list[tuple[str, int]], interrupted: list[int]
) -> None:
    """Pods of a whole unit count at its priority, single ones at their own; below its minimum a gang is interrupted."""
    assert cost(mixed(minimum, gang_mode=mode), *names) == (losses, interrupted)


def test_a_gang_group_counts_all_its_gangs() -> None:
    """Taking a GangGroup interrupts each of its gangs."""
    pair = ("d/g", "d/h")
    units = found(
        gang("g").group(*pair).min(3), gang("h").group(*pair).min(1), *three(), pod("h1").gang("h").on("n1").priority(2)
    )
    losses, interrupted = cost(units, *EVERY, "h1")
    assert interrupted == [2, 2]
    assert [level for _, level in losses] == [2, 2, 2, 2]


def test_single_pods_interrupt_no_gang() -> None:
    """A pod without a group counts as one pod."""
    assert cost(found(pod("v").on("n1").priority(3)), "v") == ([("v", 3)], [])
