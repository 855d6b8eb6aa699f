"""The fewest single pods that make room for so many equal members."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gangsched.core.preemption.fewest import Fewest, Offer, Room

AMOUNTS = (4.0, 4.0)


def room(missing: int, nodes: int = 2) -> Room:
    """Nodes that are full."""
    return Room(np.zeros((2, nodes)), np.array(AMOUNTS), np.ones(nodes, dtype=np.bool_), missing)


def members(offers: list[Offer], slots: tuple[int, ...], nodes: int = 2) -> int:
    """How many members there is room for when these pods are gone."""
    free = np.zeros((nodes, 2))
    for offer in offers:
        if offer.slot in slots:
            free[offer.row] += offer.held
    return int(np.floor(free / AMOUNTS).min(axis=1).sum())


pods = st.lists(st.tuples(st.integers(0, 1), st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=8)


@given(pods, st.integers(1, 3))
@settings(max_examples=150, deadline=None)
def test_no_smaller_set_is_enough(given_pods: list[tuple[int, int, int]], missing: int) -> None:
    """Up to three pods per node are tried in all ways, and with two nodes and few members that is all there is."""
    offers = [Offer(n, row, (float(a), float(b)), 0.0) for n, (row, a, b) in enumerate(given_pods)]
    found = Fewest(1.0).choose(room(missing), offers, {})
    sizes = (n for n in range(len(offers) + 1) for some in combinations(range(len(offers)), n)
             if members(offers, some) >= missing)  # fmt: skip
    least = next(sizes, None)
    if found is None:
        assert least is None
    else:
        assert members(offers, tuple(found)) >= missing
        assert least is not None
        assert len(found) == least or max(len(found), least) > 3


@given(pods, st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_a_group_gives_no_more_than_it_can_spare(given_pods: list[tuple[int, int, int]], spare: int) -> None:
    """Whatever is chosen, also when not all find room."""
    offers = [
        Offer(n, row, (float(a), float(b)), 0.0, (7,) if n % 2 else ()) for n, (row, a, b) in enumerate(given_pods)
    ]
    for partly in (False, True):
        found = Fewest(1.0).choose(room(3), offers, {7: spare}, partly=partly) or []
        assert sum(s % 2 for s in found) <= spare


def test_a_price_moves_the_choice_to_others() -> None:
    """Two nodes could use the one pod that a gang can spare; the node with another way takes that."""
    offers = [
        Offer(1, 0, (4.0, 0.0), 0.0, (7,)),
        Offer(2, 0, (2.0, 0.0), 0.0),
        Offer(3, 0, (2.0, 0.0), 0.0),
        Offer(4, 1, (4.0, 4.0), 0.0, (7,)),
    ]
    wanted = room(2)
    wanted.free[1, 0] = 4.0  # enough for one member there
    assert Fewest(1.0).choose(wanted, offers, {7: 1}) == [2, 3, 4]
    assert Fewest(1.0).choose(wanted, offers, {7: 2}) == [1, 4]


def test_less_work_lost_decides_among_equal_numbers() -> None:
    """Of two pods that do the same, the one that has done less goes."""
    offers = [Offer(1, 0, (4.0, 4.0), 5.0), Offer(2, 0, (4.0, 4.0), 3.0)]
    assert Fewest(0.01).choose(room(1), offers, {}) == [2]


def test_as_many_as_possible() -> None:
    """Where they are not enough, ``partly`` tells how far they go."""
    offers = [Offer(1, 0, (4.0, 4.0), 0.0)]
    assert Fewest(1.0).choose(room(2), offers, {}) is None
    assert Fewest(1.0).choose(room(2), offers, {}, partly=True) == [1]
    assert Fewest(1.0).choose(room(2), [], {}, partly=True) == []
