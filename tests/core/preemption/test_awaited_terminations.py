"""Which terminating pods a decision waits for: on the nodes it has chosen, and wherever their rules reach from."""

from __future__ import annotations

import pytest

from gangsched.core.decision import BIND, WAIT
from gangsched.model.records import PodTerm
from tests.builders import NodeBuilder, PodBuilder, gang, node, pod, selects
from tests.core.harness import Built, plan

APART = (PodTerm("zone", selects(app="web"), ("d",)),)


def zone(*names: str) -> list[NodeBuilder]:
    """Nodes of one zone."""
    return [node(name).label(zone="a") for name in names]


def web(name: str, cpu: float = 1) -> PodBuilder:
    """A pending pod of the app web."""
    return pod(name).cpu(cpu).label(app="web")


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        ([pod("t").on("n2").shape(anti_affinity=APART).terminating()], web("p")),
        ([pod("t").on("n2").label(app="web").terminating()], pod("p").cpu(1).shape(anti_affinity=APART)),
    ],
)
def test_a_pod_on_another_node_of_the_domain_is_awaited(there: list[Built], wanted: PodBuilder) -> None:
    """Anti-affinity reaches over the whole domain, in both directions, until the pod is gone."""
    others = [pod(f"u{n}").on("n2").terminating() for n in range(5)]
    found = plan(*zone("n1", "n2"), *there, *others, wanted)["d/p"]
    assert (found.outcome, [(a.pod, a.node) for a in found.awaiting]) == (WAIT, [("d/t", "n2")])


def test_nobody_is_awaited_where_the_rules_do_not_reach() -> None:
    """In another zone the terminating pod is no hindrance."""
    stranger = pod("t").on("n2").shape(anti_affinity=APART).terminating()
    found = plan(node("n1").label(zone="a"), node("n2").label(zone="b"), stranger, web("p"))["d/p"]
    assert (found.outcome, found.awaiting) == (BIND, ())


def test_room_and_rules_are_awaited_together() -> None:
    """A gang waits for the pod that has its room, and for one elsewhere that keeps it off the zone."""
    there = [
        pod("room").cpu(3).on("n1").terminating(),
        pod("rule").on("n2").shape(anti_affinity=APART).terminating(),
        pod("other").cpu(1).on("n2").terminating(),
        pod("full").cpu(3).on("n2"),
    ]
    members = [web(f"m{n}", 2).gang("g") for n in range(2)]
    found = plan(*zone("n1", "n2"), *there, gang("g").min(2), *members)["d/g"]
    assert (found.outcome, sorted(a.pod for a in found.awaiting)) == (WAIT, ["d/room", "d/rule"])
