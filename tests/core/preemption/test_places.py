"""The places for members of a tiny gang, against every set of pods that may leave."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from gangsched.core.preemption import node_prices, places
from gangsched.core.preemption.node_prices import MAY, Offer
from tests.amounts import amount
from tests.builders import gang, node, pod
from tests.core.harness import Built
from tests.core.preemption.asked import asked
from tests.core.preemption.crowds import RULES, crowd, found_and_least, tariff


@pytest.mark.parametrize("rule", RULES)
def test_no_places_cost_less(rule: str) -> None:
    """Places are found whenever there are some, at the least price; a lower bound is not above it."""
    needed = 0
    for seed in range(amount(25, 10)):
        made = asked(*crowd(seed, rule))
        found, least = found_and_least(made)
        assert (found is None) == (least is None), f"seed {seed}"
        if found is None or least is None:
            continue
        if rule == "away from x in a zone":  # each node of a zone pays for the pods that leave all of it
            assert found.price.real >= least.real, f"seed {seed}"
        else:
            assert found.price.real == least.real, f"seed {seed}"
        bound = made.places(lower=True).bound(Offer(np.full(made.candidates.size, MAY), tariff(made)))
        assert bound is None or bound.real <= least.real, f"seed {seed}"
        assert tuple(found.counts.sum(axis=1)) == made.demand.need
        fit = made.fit()
        fit.remove(made.candidates.slot[found.gone])
        assert fit.fits()
        needed += bool(found.gone.any())
    assert needed >= amount(5, 1)


@pytest.mark.parametrize("limit", ["_TABLE", "_OPTIONS"])
@pytest.mark.parametrize("rule", ["two kinds", "three kinds", "kinds of two zones", "a port, and two kinds"])
def test_many_members_of_several_kinds_are_placed_in_turn(
    limit: str, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the table would be too large: what is found works, never costs less than the least, and mostly not more."""
    both = equal = 0
    for seed in range(amount(25, 10)):
        made = asked(*crowd(seed, rule))
        exact = made.places().best(Offer(np.full(made.candidates.size, MAY), tariff(made)))
        with monkeypatch.context() as patch:
            patch.setattr(places, limit, 0)
            found = made.places().best(Offer(np.full(made.candidates.size, MAY), tariff(made)))
        assert (found is None) == (exact is None), f"seed {seed}"
        if found is None or exact is None:
            continue
        assert found.price.real >= exact.price.real, f"seed {seed}"
        fit = made.fit()
        fit.remove(made.candidates.slot[found.gone])
        assert fit.fits(), f"seed {seed}"
        both, equal = both + 1, equal + (found.price.real == exact.price.real)
    assert both >= amount(15, 4)
    assert equal >= 0.8 * both


def uneven(chance: random.Random) -> list[Built]:
    """A node full of pods of three shapes, some with more CPU and some with more memory, and one that wants both."""
    sizes = [chance.choice(((1, 1), (1, 3), (2, 1))) for _ in range(9)]
    out: list[Built] = [node("n").cpu(sum(c for c, _ in sizes)).memory(sum(m for _, m in sizes))]
    out += [pod(f"v{n}").cpu(c).memory(m).priority(1).on("n") for n, (c, m) in enumerate(sizes)]
    return [*out, pod("g").cpu(5).memory(4).priority(9).gang("g"), gang("g").min(1)]


def test_on_nodes_that_are_looked_at_thoroughly_the_least_leaves() -> None:
    """With two resources short no order of a node's pods is the best; all sets of them are compared."""
    better = judged = 0
    for seed in range(12):
        made = asked(*uneven(random.Random(seed)))
        quick, least = found_and_least(made)
        if quick is None or least is None:
            continue
        offer = Offer(np.full(made.candidates.size, MAY), tariff(made))
        places = made.places()
        places.nodes.thorough = places.unsure(offer)
        found = places.best(offer)
        assert found is not None
        assert found.price == pytest.approx(least), f"seed {seed}"
        judged, better = judged + 1, better + (found.price.real < quick.price.real)
    assert judged >= 10
    assert better >= 5


def test_a_node_of_which_nothing_may_leave_is_looked_at_thoroughly_too() -> None:
    """It has no sets of pods, and what is free on it costs nothing."""
    made = asked(node("n").cpu(4).memory(4), pod("g").cpu(2).memory(2).priority(9).gang("g"), gang("g").min(1))
    places = made.places()
    places.nodes.thorough = np.ones(1, dtype=np.bool_)
    found = places.best(made.offer([]))
    assert found is not None
    assert not found.price


def test_where_sets_are_too_many_the_order_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many sets as are looked at the least leaves; with one more what the order of the pods says."""
    made = asked(*uneven(random.Random(1)))
    quick, least = found_and_least(made)
    offer = Offer(np.full(made.candidates.size, MAY), tariff(made))
    places = made.places()
    places.nodes.thorough = places.unsure(offer)
    pods = Counter(map(tuple, made.candidates.req.T.tolist()))
    sets = int(np.prod([n + 1 for n in pods.values()]))
    prices = []
    for most in (sets, sets - 1):
        monkeypatch.setattr(node_prices, "_SETS", most)
        found = places.best(offer)
        prices.append(None if found is None else found.price)
    assert quick is not None
    assert least is not None
    assert prices == [least, quick.price]
    assert least.real < quick.price.real


def test_where_single_plans_are_too_many_nodes_are_looked_at_thoroughly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of two CPUs and one of 3 Gi are four pods; both orders that suit one resource alone would leave five."""
    monkeypatch.setattr(node_prices, "_PODS", 0)
    question: list[Built] = []
    for row in range(5):
        question.append(node(f"n{row}").cpu(16).memory(17))
        for n, (cpu, memory) in enumerate([(1, 1)] * 3 + [(1, 3)] * 3 + [(2, 1)] * 5):
            question.append(pod(f"v{row}-{n}").cpu(cpu).memory(memory).priority(1).on(f"n{row}"))
    members = [pod(f"g{n}").cpu(7).memory(5).priority(9).gang("g") for n in range(3)]
    choice = asked(*question, *members, gang("g").min(3)).search().run()
    assert choice is not None
    assert choice.harm.levels == ((1, 0, 12),)
    assert choice.gap is None
