"""Orders of arrays, against those of Python."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from gangsched.core.arrays import Floats, Ints, ordered_by

KEYS = {
    "few": lambda chance: chance.randint(0, 3),
    "negative": lambda chance: chance.randint(-5, 5),
    "wide": lambda chance: chance.choice((-(2**62), -(2**31), -1, 0, 65_535, 65_536, 2**40, 2**62)),
    "parts": lambda chance: chance.choice((-2.5, -1e-300, -0.0, 0.0, 1e-300, 0.1, 0.1 + 1e-17, 1.0, 1e300)),
    "works": lambda chance: -chance.random() * 10 ** chance.randint(0, 9),
}


def array(values: list[Any]) -> Ints | Floats:
    """Of whole numbers or not."""
    if any(isinstance(x, float) for x in values):
        return np.array(values, dtype=np.float64)
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize("seed", range(20))
def test_the_first_key_decides_then_the_next_then_the_place(seed: int) -> None:
    """Numbers of any size and sign, and zeros that differ in their sign only."""
    chance = random.Random(seed)
    size = chance.choice((0, 1, 2, 50))
    columns = [[KEYS[kind](chance) for _ in range(size)] for kind in chance.choices(list(KEYS), k=3)]
    expected = sorted(range(size), key=lambda n: tuple(column[n] for column in columns))
    assert ordered_by(*map(array, columns)).tolist() == expected
