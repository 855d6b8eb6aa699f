"""Free room from which pods of the table are taken and to which they are given back, many at a time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from gangsched.core.simulation import Simulation
from gangsched.core.snapshot import Floats, Ints


class Pairs(msgspec.Struct):
    """Options broken down by node: for each (option, node) the option's number, the row, and ``(R, pairs)`` what its
    pods hold there.
    """

    owner: Ints
    rows: Ints
    amounts: Floats


class FreeRoom:
    """``_free`` is ``(R, N)`` for the resource rows of ``index``, a copy of the simulation's."""

    def __init__(self, sim: Simulation, index: Ints) -> None:
        self._free: Floats = sim.free[index].copy()
        self._table = sim.snapshot.table
        self._matrix = sim.snapshot.shape_matrix()[:, index]

    def shift(self, slots: Ints, sign: float) -> Ints:
        """Take these pods (+1) or give them back (-1); returns the rows touched."""
        rows = self._table.row[slots]
        amounts = self._matrix[self._table.shape[slots]]
        if len(slots) == 1:
            self._free[:, rows] += sign * amounts.T
            return rows
        touched, where = np.unique(rows, return_inverse=True)
        for i in range(amounts.shape[1]):
            self._free[i, touched] += sign * np.bincount(where, weights=amounts[:, i], minlength=len(touched))
        return touched

    def pairs(self, options: Sequence[Ints]) -> Pairs:
        """The options by node."""
        sizes = np.array([len(o) for o in options])
        slots = np.concatenate(options) if len(options) > 1 else options[0]
        owner = np.repeat(np.arange(len(options)), sizes)
        width = self._free.shape[1]
        keys, where = np.unique(owner * width + self._table.row[slots], return_inverse=True)
        held = self._matrix[self._table.shape[slots]]
        amounts = np.empty((held.shape[1], len(keys)))
        for i in range(held.shape[1]):
            amounts[i] = np.bincount(where, weights=held[:, i], minlength=len(keys))
        return Pairs(keys // width, keys % width, amounts)
