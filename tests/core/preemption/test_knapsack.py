"""Numbers of members for places, against every way to choose them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from gangsched.core.preemption.candidates import NEVER, Prices
from gangsched.core.preemption.knapsack import Taking, choose, cover


def by_all_ways(costs: Prices, members: int) -> complex | None:
    """The least price, by a table over places and members."""
    best = {0: 0j}
    for place in range(costs.shape[1]):
        after = dict(best)
        for taken, price in best.items():
            for count in range(1, len(costs) + 1):
                more = complex(costs[count - 1, place])
                total = taken + count
                if more.real < NEVER.real and total <= members:
                    known = after.get(total)
                    if known is None or key(price + more) < key(known):
                        after[total] = price + more
        best = after
    return best.get(members)


def key(price: complex) -> tuple[float, float]:
    """In the order of harm."""
    return round(price.real, 9), round(price.imag, 9)


def places(chance: random.Random, count: int, *, work: bool, gaps: float) -> Prices:
    """Rising prices of up to five members on so many places, some of which cannot be had."""
    costs = np.full((chance.randint(1, 5), count), NEVER)
    for place in range(count):
        price = 0j
        for number in range(chance.randint(0, len(costs))):
            price += chance.randint(0, 5) + (1j * chance.random() if work else 0)
            if chance.random() >= gaps:
                costs[number, place] = price
    return costs


def checked(costs: Prices, members: int) -> Taking | None:
    """The choice, after what any choice has to keep."""
    found = choose(costs, members)
    expected = by_all_ways(costs, members)
    assert (found is None) == (expected is None)
    if found is None or expected is None:
        return None
    used = np.flatnonzero(found.counts)
    assert found.counts.sum() == members
    assert key(complex(costs[found.counts[used] - 1, used].sum())) == key(found.price)
    assert key(found.price) == key(expected)
    assert found.bound.real <= expected.real + 1e-6
    return found


@pytest.mark.parametrize("work", [False, True], ids=["pods", "pods and work"])
@pytest.mark.parametrize("gaps", [0.0, 0.1, 0.5])
def test_no_choice_is_cheaper(work: bool, gaps: float) -> None:
    """Random places, with numbers that some cannot take: the price is the least, and the bound not above it."""
    solved = 0
    for seed in range(100):
        chance = random.Random(seed)
        costs = places(chance, chance.randint(1, 12), work=work, gaps=gaps)
        solved += checked(costs, chance.randint(1, max(1, costs.size // 2))) is not None
    assert solved >= 30


@pytest.mark.parametrize("seed", range(6))
def test_no_choice_is_cheaper_among_many_places(seed: int) -> None:
    """More places than are decided by trying all ways: what is left out was settled rightly."""
    chance = random.Random(seed)
    costs = places(chance, 150, work=seed % 2 == 1, gaps=0.1)
    assert checked(costs, chance.randint(20, 120)) is not None


def test_the_bound_is_tight_where_prices_rise_evenly() -> None:
    """Places whose next member is never cheaper than the one before: the bound is the price."""
    costs = np.cumsum([[1, 2, 3], [2, 2, 3], [3, 4, 3]], axis=0).astype(np.complex128)
    found = checked(costs, 5)
    assert found is not None
    assert found.bound == found.price == 1 + 2 + 2 + 2 + 3


def test_no_members_cost_nothing() -> None:
    """Without members no place is used."""
    found = choose(np.full((2, 3), NEVER), 0)
    assert found is not None
    assert (found.counts.tolist(), found.price) == ([0, 0, 0], 0j)


@pytest.mark.parametrize("members", [4, 5])
def test_more_members_than_there_is_room_for(members: int) -> None:
    """Exactly as many as places hold is a choice, one more is none."""
    costs = np.array([[1, 1], [NEVER, 2], [NEVER, 3]], dtype=np.complex128)
    assert (choose(costs, members) is None) == (members > 4)


def least_cover(gains: list[int], prices: Prices, wanted: int) -> tuple[float, float] | None:
    """The least price of any subset that gains enough."""
    best: tuple[float, float] | None = None
    for bits in range(2 ** len(gains)):
        some = [n for n in range(len(gains)) if bits >> n & 1]
        if sum(gains[n] for n in some) >= wanted:
            price = key(complex(prices[some].sum()))
            best = price if best is None or price < best else best
    return best


def test_no_cover_is_cheaper() -> None:
    """Things of several gains, some of none at all: what is chosen gains enough, and nothing else does for less."""
    covered = 0
    for seed in range(150):
        chance = random.Random(seed)
        gains = [chance.randint(0, 6) for _ in range(chance.randint(0, 9))]
        prices = np.array([complex(chance.randint(0, 3), chance.randint(0, 5)) for _ in gains], dtype=np.complex128)
        wanted = chance.randint(1, 16)
        chosen = cover(np.array(gains, dtype=np.int64), prices, wanted)
        expected = least_cover(gains, prices, wanted)
        assert (chosen is None) == (expected is None), f"seed {seed}"
        if chosen is not None:
            covered += 1
            assert len(set(chosen.tolist())) == len(chosen)
            assert sum(gains[n] for n in chosen.tolist()) >= wanted
            assert key(complex(prices[chosen].sum())) == expected, f"seed {seed}"
    assert covered >= 50
