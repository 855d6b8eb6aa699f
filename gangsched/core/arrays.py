"""Arrays by the kind of their elements, and sets of numbers as arrays.

``np.unique`` imports ``numpy.ma`` when it is first called, and so do functions that are made of it (``np.isin`` of some
sizes, ``np.setdiff1d``, ``np.union1d``): 40 to 60 ms in the middle of the first decision. Columns of a matrix
``np.take`` gives in a fifth of the time that indexing takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    if not len(values):
        return values
    low, high = int(values.min()), int(values.max())
    if high - low <= 4 * len(values):  # counting takes a fifth of the time
        return np.flatnonzero(np.bincount(values - low)) + low
    ordered = np.sort(values)
    first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def union(some: Ints, others: Ints) -> Ints:
    """``(k,)`` the numbers that are in either, each once, ascending."""
    return distinct(np.concatenate((some, others)))


def isin(values: Ints | Codes, wanted: Ints | Sequence[int]) -> Bools:
    """``(n,)`` which of the numbers are one of the ``wanted``.

    Both are slots, rows or codes: memory is in proportion to the range of the ``wanted``, a byte for each number in it.
    """
    return np.isin(values, np.asarray(wanted, dtype=np.int64), kind="table")


def runs(keys: Ints) -> tuple[Ints, Ints, Ints]:
    """``(order, starts, values)``: an order in which equal numbers are together, where in it each run of equals
    starts, and ``(k,)`` the different numbers, ascending. Equal ones keep their order. A number times how many there
    are must fit.
    """
    order = np.argsort(keys * len(keys) + np.arange(len(keys)))  # a stable sort takes four times as long
    ranked = keys[order]
    first = np.ones(len(ranked), dtype=np.bool_)
    np.not_equal(ranked[1:], ranked[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    return order, starts, ranked[starts]


def ordered_by(*keys: Ints | Floats) -> Ints:
    """``(n,)`` the order by the first of these ``(n,)`` keys, of equals by the second, and so on: what ``np.lexsort``
    says. Numbers are sorted by 16 bits at a time, from the least on, which numpy does in a sixth of the time that it
    takes for whole ones: of 64,000 by five keys in a third.
    """
    order: Ints = np.arange(len(keys[0]))
    for key in reversed(keys):
        for digits in _digits(key):
            order = order[np.argsort(digits[order], kind="stable")]
    return order


def _digits(values: Ints | Floats) -> Iterator[npt.NDArray[np.uint16]]:
    """Numbers of 16 bits that order as these values do, taken together, the least first."""
    bits: Ints = np.asarray(values + 0, dtype=values.dtype).view(np.int64)  # no negative zero
    if values.dtype == np.float64:
        bits = np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)
    if not len(bits):
        return
    above = bits.view(np.uint64) - np.uint64(int(bits.min()) % 2**64)  # differences of any two fit, around the end
    for shift in range(0, int(above.max()).bit_length(), 16):
        yield (above >> np.uint64(shift)).astype(np.uint16)
