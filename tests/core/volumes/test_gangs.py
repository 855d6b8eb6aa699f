"""Members of a gang, and gangs of one plan, see each other's volumes."""

from __future__ import annotations

from gangsched.core.decision import BIND, PREEMPT, UNSCHEDULABLE
from gangsched.model.volumes import CSINode
from tests.builders import LATER, MADE, bound_claim, claim, gang, node, pod, volume
from tests.core.harness import Built, plan
from tests.core.volumes.worlds import (
    DRIVER,
    NODES,
)


def test_two_members_do_not_get_one_volume() -> None:
    """With one volume the gang does not fit; with two it does, each member where its volume is."""
    base: list[Built] = [node("n1"), node("n2"), LATER, gang("g").min(2), claim("c1"), claim("c2")]
    members = [pod(f"m{i}").gang("g").claims(f"c{i}") for i in (1, 2)]
    assert plan(*base, *members, volume("v1", "n1"))["d/g"].outcome == UNSCHEDULABLE
    found = plan(*base, *members, volume("v1", "n1"), volume("v2", "n2"))["d/g"]
    assert found.outcome == BIND
    assert sorted(p.node for p in found.placements) == ["n1", "n2"]


def test_members_count_for_limits_together() -> None:
    """A node that takes one more volume takes one member."""
    base: list[Built] = [node("n1"), MADE, gang("g").min(2), claim("c1", "made"), claim("c2", "made")]
    members = [pod(f"m{i}").gang("g").claims(f"c{i}") for i in (1, 2)]
    for limit, outcome in ((1, UNSCHEDULABLE), (2, BIND)):
        assert plan(*base, *members, CSINode("n1", ((DRIVER, limit),)))["d/g"].outcome == outcome


def test_members_with_one_claim_stay_together() -> None:
    """A new volume is made for one node: both users of the claim go there."""
    base: list[Built] = [*NODES, MADE, gang("g").min(2), claim("c", "made")]
    found = plan(*base, *(pod(f"m{i}").gang("g").claims("c") for i in (1, 2)))["d/g"]
    assert found.outcome == BIND
    assert len({p.node for p in found.placements}) == 1


def test_a_claim_for_one_pod_is_not_for_two_members() -> None:
    """ReadWriteOncePod holds within a gang."""
    base: list[Built] = [
        *NODES,
        LATER,
        gang("g").min(2),
        bound_claim("c", "v", access_modes=("ReadWriteOncePod",)),
        volume("v"),
    ]
    members = [pod(f"m{i}").gang("g").claims("c") for i in (1, 2)]
    assert plan(*base, *members)["d/g"].outcome == UNSCHEDULABLE


def test_later_gangs_see_what_earlier_ones_were_promised() -> None:
    """In one plan no volume is given away twice."""
    found = plan(
        node("n1"),
        LATER,
        claim("c1"),
        claim("c2"),
        volume("v1", "n1"),
        pod("a").priority(2).claims("c1"),
        pod("b").priority(1).claims("c2"),
    )
    assert [found["d/a"].outcome, found["d/b"].outcome] == [BIND, UNSCHEDULABLE]


def test_a_large_gang_with_claims_of_its_own_is_planned_like_one_without() -> None:
    """Members that differ in nothing but new volumes are counted, not tried out one by one."""
    nodes: list[Built] = [node(f"n{i:02}").cpu(4) for i in range(30)]
    victims: list[Built] = [pod(f"v{i:02}").cpu(3).priority(i).on(f"n{i:02}") for i in range(30)]
    members = [pod(f"m{i:02}").cpu(2).priority(99).gang("g") for i in range(24)]
    base: list[Built] = [MADE, gang("g").min(24), *nodes, *victims]
    plain = plan(*base, *members)["d/g"]
    claims = [claim(f"c{i:02}", "made") for i in range(24)]
    found = plan(*base, *claims, *(m.claims(f"c{i:02}") for i, m in enumerate(members)))["d/g"]
    assert found.outcome == plain.outcome == PREEMPT
    assert [v.name for v in found.victims] == [v.name for v in plain.victims]
    assert found.steps == plain.steps


def test_members_with_claims_on_the_same_volumes_are_tried_for_real() -> None:
    """Static volumes can be taken by one member only, whatever counting would say."""
    claims = [claim(f"c{i}") for i in range(3)]
    base: list[Built] = [LATER, gang("g").min(3), node("n1").cpu(9), node("n2").cpu(9), *claims]
    base += [volume("v1", "n1"), volume("v2", "n1"), volume("v3", "n2")]
    base += [pod(f"low{i}").cpu(9).priority(i).on(f"n{i}") for i in (1, 2)]
    found = plan(*base, *(pod(f"m{i}").cpu(1).priority(9).gang("g").claims(f"c{i}") for i in range(3)))["d/g"]
    assert [v.name for v in found.victims] == ["low1", "low2"]
    assert sorted(p.node for p in found.placements) == ["n1", "n1", "n2"]
