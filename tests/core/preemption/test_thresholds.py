"""The same question among more and more pods that are no use: on both sides of every threshold the same answer."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.core.preemption import branch_and_bound, gangs, node_prices, places
from gangsched.model.records import Node, Pod
from tests.amounts import amount
from tests.core.preemption.asked import asked_in
from tests.oracle.case import NOW, Case, Maker
from tests.oracle.generate import case

SEEDS = range(amount(16, 4))


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
@pytest.mark.parametrize("beyond", [branch_and_bound.MAX_DECISIONS, 400, 1000, node_prices._PODS])
def test_among_more_pods_the_same_leave(beyond: int, mixed: bool) -> None:
    """With as many candidates as a threshold allows and with one more: the same victims, as among few."""
    compared = 0
    for seed in SEEDS:
        made = case(seed, mixed=mixed)
        if not any(g.name == "want" for g in made.gangs):
            continue
        asked = asked_in(made)
        alone = asked.search().run()
        more = beyond - asked.candidates.size
        if alone is None or not alone.taken or more <= 0:
            continue
        for extra in (0, 1):
            found = asked_in(among(made, more + extra)).search().run()
            assert found is not None, f"seed {seed}"
            assert found.harm[:3] == alone.harm[:3], f"seed {seed} with {extra} more"
        compared += 1
    assert compared >= amount(6, 1)


def test_with_as_many_units_as_are_pulled_along_and_with_one_more_the_same_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where places pull no units along the covers find what has to leave."""
    compared = 0
    for seed in SEEDS:
        made = case(seed, mixed=False)
        if not any(g.name == "want" for g in made.gangs):
            continue
        found = []
        for fewer in (0, 1):
            asked = asked_in(made)
            monkeypatch.setattr(gangs, "_FEW", len(asked.candidates.units_of) - fewer)
            found.append(asked.search().run())
        first, second = found
        assert (first is None) == (second is None), f"seed {seed}"
        if first is not None and second is not None and first.taken:
            assert first.harm[:3] == second.harm[:3], f"seed {seed}"
            compared += 1
    assert compared >= amount(6, 1)


def test_kinds_that_are_placed_once_more_never_cost_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the rounds that there are, and with one less and one more: no more harm the more there are."""
    monkeypatch.setattr(places, "_TABLE", 0)
    usual, compared = places._ROUNDS, 0
    for seed in SEEDS:
        made = case(seed, mixed=True)
        if not any(g.name == "want" for g in made.gangs):
            continue
        prices = []
        for rounds in (usual - 1, usual, usual + 1):
            monkeypatch.setattr(places, "_ROUNDS", rounds)
            asked = asked_in(made)
            found = asked.places().best(asked.offer([1.0] * asked.candidates.size))
            prices.append(float("inf") if found is None else found.price.real)
        assert prices[0] >= prices[1] >= prices[2], f"seed {seed}"
        compared += prices[0] < float("inf")
    assert compared >= amount(6, 1)
