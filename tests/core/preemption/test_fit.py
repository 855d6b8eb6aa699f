"""Members that want certain pods near them are counted, not placed, as long as they are not such pods themselves."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gangsched.core.decision import PREEMPT, UNSCHEDULABLE
from gangsched.core.preemption.fit import CountedFit
from gangsched.model.constraints import PodTerm
from tests.builders import PodBuilder, gang, node, pod, selects
from tests.core.harness import Built, plan, victims
from tests.core.preemption.asked import asked

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def beside(key: str = HOSTNAME, **labels: str) -> PodTerm:
    """Required affinity to pods with these labels."""
    return PodTerm(key, selects(**labels), ("d",))


def members(count: int, *terms: PodTerm, **labels: str) -> list[PodBuilder]:
    """Pending members of gang d/g, two cores each."""
    made = [pod(f"g{i}").cpu(2).priority(10).gang("g").shape(affinity=terms) for i in range(count)]
    return [m.label(**labels) for m in made]


def full(anchors: Mapping[str, int]) -> list[Built]:
    """Six nodes in three zones, each full of a small pod and a large one; ``anchors`` by node, with their priority."""
    out: list[Built] = []
    for i in range(6):
        name = f"n{i}"
        out.append(node(name).cpu(2.5).label(**{HOSTNAME: name, ZONE: f"z{i // 2}"}))
        out.append(pod(f"v{i}").cpu(2).on(name))
        if name in anchors:
            out.append(pod(f"anchor{i}").cpu(0.5).label(role="anchor").priority(anchors[name]).on(name))
    return out


def test_only_room_beside_the_anchors_counts() -> None:
    """Victims come from nodes with an anchor; what fits nowhere near one makes no difference."""
    objects = full({"n1": 100, "n4": 100})
    assert isinstance(asked(*objects, gang("g").min(2), *members(2, beside(role="anchor"))).fit(), CountedFit)
    found = plan(*objects, gang("g").min(2), *members(2, beside(role="anchor")))["d/g"]
    assert found.outcome == PREEMPT
    assert victims(found) == ["v1", "v4"]
    more = plan(*objects, gang("g").min(3), *members(3, beside(role="anchor")))["d/g"]
    assert more.outcome == UNSCHEDULABLE


def test_a_whole_zone_is_near() -> None:
    """Over a wider label every node of the anchor's domain is open."""
    found = plan(*full({"n2": 100}), gang("g").min(2), *members(2, beside(ZONE, role="anchor")))["d/g"]
    assert found.outcome == PREEMPT
    assert victims(found) == ["v2", "v3"]


def test_every_term_must_hold_for_the_same_pod() -> None:
    """Two terms, two anchors with one of the labels each: no pod satisfies both."""
    objects: list[Built] = [
        node("n1").cpu(3).label(**{HOSTNAME: "n1"}),
        pod("v").cpu(2).on("n1"),
        pod("a").cpu(0.5).label(role="a").priority(100).on("n1"),
        pod("b").cpu(0.5).label(tier="b").priority(100).on("n1"),
    ]
    terms = beside(role="a"), beside(tier="b")
    assert plan(*objects, gang("g").min(1), *members(1, *terms))["d/g"].outcome == UNSCHEDULABLE
    both = pod("c").cpu(0).label(role="a", tier="b").priority(100).on("n1")
    assert plan(*objects, both, gang("g").min(1), *members(1, *terms))["d/g"].outcome == PREEMPT


@pytest.mark.parametrize("role", ["anchor", "other"])
def test_members_that_are_such_pods_themselves_find_company(role: str) -> None:
    """Near the anchors that stay there is room for one only; the next node is near the first member, if it counts."""
    objects = [*full({"n1": 100}), node("n6").cpu(2.5).label(**{ZONE: "z0"})]
    found = plan(*objects, gang("g").min(2), *members(2, beside(ZONE, role="anchor"), role=role))["d/g"]
    assert found.outcome == PREEMPT
    assert len(found.victims) == 1
