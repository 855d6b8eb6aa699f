"""Sets of numbers as arrays, beside Python's own."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gangsched.core.arrays import distinct, isin

numbers = st.lists(st.integers(-1, 5000), max_size=30)


@given(numbers)
def test_distinct_numbers_ascend(values: list[int]) -> None:
    """Each once, in order, and the array that was given stays as it was."""
    given_array = np.array(values, dtype=np.int64)
    assert distinct(given_array).tolist() == sorted(set(values))
    assert given_array.tolist() == values


@given(numbers, numbers)
def test_numbers_among_others(values: list[int], wanted: list[int]) -> None:
    """In the order of the values, however far apart the wanted numbers are; nothing is among nothing."""
    expected = [v in wanted for v in values]
    assert isin(np.array(values, dtype=np.int64), np.array(wanted, dtype=np.int64)).tolist() == expected
    assert isin(np.array(values, dtype=np.int32), wanted).tolist() == expected
