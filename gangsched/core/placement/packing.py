"""Places for members of a few kinds that only ask for room, found whenever there are some.

Dynamic programming over the nodes, by how many of each kind have places: a node takes one of its largest fillings, and
where some members fit, fewer do. Nodes with the same fillings follow each other, until one more changes nothing.
"""

from __future__ import annotations

from itertools import product

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints

#: Entries of the table: numbers of each kind x fillings x nodes. About 10 ms.
_TABLE = 400_000
#: Fillings of a node, times nodes, that are looked at.
_LOOKS = 100_000


class Packed(msgspec.Struct, frozen=True, eq=False):
    """``known``: is it known whether there is room? If there is, ``counts`` ``(K, N)`` are members of each kind on each
    node; ``rows`` are for those who know the members (UIDs).
    """

    known: bool
    counts: Ints | None = None
    rows: dict[str, int] = msgspec.field(default_factory=dict)


def packed(request: Floats, mask: Bools, need: tuple[int, ...], free: Floats) -> Packed:
    """Places for ``need`` members of each kind that ask for ``request`` ``(K, R)`` each, on nodes with ``free``
    ``(R, N)`` room that ``mask`` ``(K, N)`` allows.
    """
    states = np.prod([n + 1 for n in need], dtype=np.float64)
    if states > _TABLE:  # with a single node
        return Packed(known=False)
    most = np.array([whole(request[k], free, mask[k], need[k]) for k in range(len(need))]).astype(np.int64)
    if (most.sum(axis=1) < need).any():
        return Packed(known=True)
    rows = np.flatnonzero(most.any(axis=0) & (free >= 0).all(axis=0))  # each takes one filling or more
    shape = tuple((most.max(axis=1) + 1).tolist())
    if np.prod(shape, dtype=np.float64) * len(rows) > _LOOKS or states * len(rows) > _TABLE:
        return Packed(known=False)
    vectors: Ints = np.array(list(product(*map(range, shape))), dtype=np.int64)
    fits = ((vectors @ request)[:, :, None] <= free[None][:, :, rows]).all(axis=1)
    fits &= (vectors[:, :, None] <= most[None][:, :, rows]).all(axis=1)
    by_fillings: dict[bytes, list[int]] = {}
    largest = _largest(fits.reshape(*shape, len(rows))).reshape(fits.shape)
    for number in range(len(rows)):
        by_fillings.setdefault(largest[:, number].tobytes(), []).append(number)
    if states * float(largest.sum()) > _TABLE:
        return Packed(known=False)
    return _filled(need, vectors, largest, rows, list(by_fillings.values()), free.shape[1])


def whole(asked: Floats, free: Floats, allowed: Bools, most: int) -> Floats:
    """``(n,)`` members that ask for ``asked`` ``(R,)`` on nodes with ``(R, n)`` room: no more than ``most``, and none
    where that is not ``allowed``.
    """
    used = asked > 0
    room = (free[used] / asked[used, None]).min(axis=0, initial=most)
    return np.where(allowed, np.floor(np.maximum(room, 0.0)), 0.0)


def _largest(fits: Bools) -> Bools:
    """Those fillings (an axis for the number of each kind, and the nodes) to which no member can be added."""
    out = fits.copy()
    for axis in range(fits.ndim - 1):
        fewer = [slice(None)] * fits.ndim
        more = [slice(None)] * fits.ndim
        fewer[axis], more[axis] = slice(None, -1), slice(1, None)
        out[tuple(fewer)] &= ~fits[tuple(more)]
    return out


def _filled(
    need: tuple[int, ...], vectors: Ints, largest: Bools, rows: Ints, alike: list[list[int]], nodes: int
) -> Packed:
    reached: Bools = np.zeros([n + 1 for n in need], dtype=np.bool_)
    reached[(0,) * len(need)] = True
    steps: list[tuple[int, Ints, Bools]] = []
    for same in alike:
        fillings = vectors[largest[:, same[0]]]
        before = [
            np.ix_(*(np.maximum(np.arange(n + 1) - x, 0) for n, x in zip(need, v, strict=True))) for v in fillings
        ]
        for number in same:
            now = reached.copy()
            for index in before:
                now |= reached[index]
            if (now == reached).all():
                break
            steps.append((number, fillings, reached))
            reached = now
            if reached[need]:
                return Packed(known=True, counts=_counts(need, rows, steps, nodes))
    return Packed(known=True)


def _counts(need: tuple[int, ...], rows: Ints, steps: list[tuple[int, Ints, Bools]], nodes: int) -> Ints:
    """The fillings taken, the last first; of those that leave over more than is missing, as much as is missing."""
    counts: Ints = np.zeros((len(need), nodes), dtype=np.int64)
    left: Ints = np.array(need, dtype=np.int64)
    for number, fillings, reached in reversed(steps):
        if reached[tuple(left)]:
            continue
        rest = np.maximum(left - fillings, 0)
        chosen = next(r for r in rest if reached[tuple(r)])
        counts[:, rows[number]] = left - chosen
        left = chosen
    return counts
