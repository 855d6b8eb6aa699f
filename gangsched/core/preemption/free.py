"""Free room from which pods of the table are taken and to which they are given back, many at a time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from gangsched.core.arrays import Floats, Ints, runs
from gangsched.core.state.simulation import Simulation


class Pairs(msgspec.Struct):
    """Options broken down by node: for each (option, node) the option's number, the row, and ``(R, pairs)`` what its
    pods hold there.
    """

    owner: Ints
    rows: Ints
    amounts: Floats


class FreeRoom:
    """``free`` is ``(R, N)`` for the resource rows of ``index``, a copy of the simulation's."""

    def __init__(self, sim: Simulation, index: Ints) -> None:
        self.free: Floats = sim.free[index].copy()
        self._table = sim.snapshot.table
        self._matrix = sim.snapshot.shape_matrix()[:, index]

    def held(self, slots: Ints) -> tuple[Ints, Floats]:
        """The rows of these pods, ascending, and ``(R, rows)`` what they hold; those of unknown nodes left out."""
        rows = self._table.row[slots]
        if (rows < 0).any():
            slots = slots[rows >= 0]
            rows = self._table.row[slots]
        amounts = self._matrix[self._table.shape[slots]]
        if len(slots) <= 1:
            return rows, amounts.T
        width = self.free.shape[1]
        if len(slots) > width // 4:  # counting is quicker than sorting when most nodes are touched
            touched: Ints = np.flatnonzero(np.bincount(rows, minlength=width))
            sums = [np.bincount(rows, weights=column, minlength=width)[touched] for column in amounts.T]
            return touched, np.array(sums)
        order, starts, found = runs(rows)
        return found, np.add.reduceat(amounts[order], starts, axis=0).T

    def pairs(self, options: Sequence[Ints]) -> Pairs:
        """The options by node."""
        sizes = np.array([len(o) for o in options])
        slots = np.concatenate(options) if len(options) > 1 else options[0]
        owner = np.repeat(np.arange(len(options)), sizes)
        rows = self._table.row[slots]
        if (rows < 0).any():
            owner, slots, rows = owner[rows >= 0], slots[rows >= 0], rows[rows >= 0]
        width = self.free.shape[1]
        keys = owner * width + rows
        order, starts, found = runs(keys)
        amounts = np.add.reduceat(self._matrix[self._table.shape[slots[order]]], starts, axis=0).T
        return Pairs(found // width, found % width, amounts)
