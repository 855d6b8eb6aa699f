"""Arrays by the kind of their elements, and sets of numbers as arrays.

``np.unique`` imports ``numpy.ma`` when it is first called, and so do functions that are made of it (``np.isin`` of some
sizes, ``np.setdiff1d``): 40 to 60 ms in the middle of the first decision.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
#: Small numbers that stand for the values of a label.
Codes = npt.NDArray[np.int32]
#: How many there are, per row or per domain.
Counts = npt.NDArray[np.int64]


def distinct(values: Ints) -> Ints:
    """``(k,)`` the different ones of ``(n,)`` numbers, ascending."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def isin(values: Ints | Codes, wanted: Ints | Sequence[int]) -> Bools:
    """``(n,)`` which of the numbers are one of the ``wanted``.

    Both are slots, rows or codes: memory is in proportion to the range of the ``wanted``, a byte for each number in it.
    """
    return np.isin(values, np.asarray(wanted, dtype=np.int64), kind="table")
