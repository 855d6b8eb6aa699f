"""Places for members that only ask for room, against all ways to assign them."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from gangsched.core.arrays import Bools, Floats
from gangsched.core.decision import BIND
from gangsched.core.placement import arrangement
from gangsched.core.placement.arrangement import packed
from tests.builders import gang, node, pod
from tests.core.harness import Built, plan


def there_is_room(request: Floats, mask: Bools, kinds: list[int], free: Floats) -> bool:
    """Is there an assignment of members of these kinds?"""
    for rows in product(range(free.shape[1]), repeat=len(kinds)):
        left = free.copy()
        for kind, row in zip(kinds, rows, strict=True):
            left[:, row] -= request[kind]
        if (left >= 0).all() and all(mask[k, r] for k, r in zip(kinds, rows, strict=True)):
            return True
    return False


def test_there_are_places_whenever_all_ways_have_one() -> None:
    """And the places found have room for each member, on nodes that it may go to."""
    answers = {True: 0, False: 0}
    for seed in range(80):
        chance = np.random.default_rng(seed)
        need = tuple(chance.integers(1, 3, size=2 + seed % 2).tolist())
        request = chance.integers(1, 5, size=(len(need), 2)).astype(np.float64)
        mask = chance.random((len(need), 4)) < 0.8
        free = chance.integers(2, 8, size=(2, 4)).astype(np.float64)
        found = packed(request, mask, need, free)
        kinds = [k for k, n in enumerate(need) for _ in range(n)]
        assert found.known
        assert (found.counts is not None) == there_is_room(request, mask, kinds, free), f"seed {seed}"
        answers[found.counts is not None] += 1
        if found.counts is not None:
            assert tuple(found.counts.sum(axis=1)) == need
            assert (request.T @ found.counts <= free).all()
            assert mask[found.counts > 0].all()
    assert min(answers.values()) >= 20


@pytest.mark.parametrize("limit", ["_TABLE", "_LOOKS"])
def test_what_is_too_large_is_not_known(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit says whether the question is answered, never how."""
    request, free = np.array([[2.0], [3.0]]), np.array([[5.0, 5.0, 4.0]])
    for most in (0, 10**6):
        monkeypatch.setattr(arrangement, limit, most)
        found = packed(request, np.ones((2, 3), dtype=np.bool_), (3, 2), free)
        assert found.known == (most > 0)
        assert (found.counts is not None) == (most > 0)


@pytest.mark.parametrize("seed", range(5))
def test_a_gang_that_leaves_no_room_over_is_placed_without_evictions(seed: int) -> None:
    """Twenty members of four sizes that fill seven nodes to the last CPU, beside a node with a pod that could go."""
    chance = random.Random(seed)
    question: list[Built] = [node("full").cpu(13), pod("low").cpu(13).priority(0).on("full")]
    sizes: list[int] = []
    for row in range(7):
        left = 13
        while left >= 3:
            sizes.append(chance.choice([size for size in (3, 4, 5, 6) if size <= left]))
            left -= sizes[-1]
        question.append(node(f"n{row}").cpu(13 - left))
    chance.shuffle(sizes)
    members = [pod(f"g{n:02d}").cpu(size).priority(9).gang("g") for n, size in enumerate(sizes)]
    assert plan(*question, *members, gang("g").min(len(sizes)))["d/g"].outcome == BIND
