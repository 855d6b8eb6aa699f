"""The same question among more and more pods that are no use: on both sides of every threshold the same answer."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.core.preemption import branch_and_bound, fillings
from gangsched.model.records import Node, Pod
from tests.core.preemption.asked import asked_in
from tests.oracle.case import NOW, Case, Maker
from tests.oracle.generate import case

SEEDS = range(16)


def among(made: Case, count: int) -> Case:
    """The case with so many more pods that may be evicted, on nodes that no member fits on even when they are empty."""
    make = Maker()
    shape = make.shape({"cpu": 1})
    nodes: list[Node] = []
    pods: list[Pod] = []
    for number in range(count):
        if number % 50 == 0:
            nodes.append(make.node(f"zz{number // 50:03d}", {"cpu": 60, "memory": 1}))
        pods.append(make.pod(f"zz{number:05d}", shape, node=nodes[-1].name, priority=0, started=NOW - 1))
    return msgspec.structs.replace(made, nodes=[*made.nodes, *nodes], pods=[*made.pods, *pods])


@pytest.mark.parametrize("mixed", [False, True], ids=["identical", "mixed"])
@pytest.mark.parametrize("beyond", [branch_and_bound.MAX_DECISIONS, 400, 1000, fillings._PODS])
def test_among_more_pods_the_same_leave(beyond: int, mixed: bool) -> None:
    """With as many candidates as a threshold allows and with one more: the same victims, as among few."""
    compared = 0
    for seed in SEEDS:
        made = case(seed, mixed=mixed)
        if not any(g.name == "want" for g in made.gangs):
            continue
        asked = asked_in(made)
        alone = asked.search().run()
        more = beyond - len(asked.candidates)
        if alone is None or not alone.taken or more <= 0:
            continue
        for extra in (0, 1):
            found = asked_in(among(made, more + extra)).search().run()
            assert found is not None, f"seed {seed}"
            assert found.harm[:3] == alone.harm[:3], f"seed {seed} with {extra} more"
        compared += 1
    assert compared >= 6
