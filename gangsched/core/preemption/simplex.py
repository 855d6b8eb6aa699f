"""A linear program in one dense table.

Lemke's dual method (C. E. Lemke, "The dual method of solving the linear programming problem", 1954), on the condensed
table that has a column per variable outside the basis. Costs are not negative, so the basis of slacks is where it
begins, and where it goes on after more was fixed, as in branch and bound. Tables are small and changes many: methods
and ufuncs are called here, not the functions around them, which take a third of the time.
"""

from __future__ import annotations

import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints

#: Smaller numbers are none: entries are sums of small whole numbers.
_ZERO = 1e-9
#: By how much a row has to be short, and how large an entry has to be to change places.
_SHORT, _PIVOT = 1e-7, 1e-6


#: The fixed cost of a change, in entries: about 20 microseconds.
_CHANGE = 8000


#: Columns get costs of up to so much in addition, all different: otherwise many are equal, and the method goes round.
_NUDGE = 1e-5


class Table:
    """``min cost x`` for ``matrix x <= limit``, ``x >= 0``; ``cost >= 0``. ``most`` ``(n,)`` is what each variable can
    be at most in any solution that is of interest: it makes :meth:`bound` safe against rounding. Variables have a place
    here, and ``names`` ``(n,)``, which only the caller understands.
    """

    def __init__(self, matrix: Floats, limit: Floats, cost: Floats, most: Floats, names: Ints) -> None:
        rows, columns = matrix.shape
        self._matrix, self._limit, self._cost, self._most, self.names = matrix, limit, cost, most, names
        self._table: Floats = np.zeros((rows + 1, columns + 1))
        self._table[:rows, :columns] = matrix
        self._table[:rows, columns] = limit
        nudge = _NUDGE * (0.5 + 0.5 * ((np.arange(1, columns + 1) * 0.6180339887) % 1.0))
        self._table[rows, :columns] = cost + nudge
        #: Variables by number; slacks come after them.
        self._basic: Ints = columns + np.arange(rows)
        self._outside: Ints = np.arange(columns)
        self._fixed: Bools = np.zeros(columns + rows, dtype=np.bool_)
        self._at_least: Floats = np.zeros(columns)
        self.size = matrix.size
        self.work = 0  # entries changed, about 3 nanoseconds each
        self.solved: bool | None = None
        self.changed = True  # since it was solved

    def copy(self) -> Table:
        """Another that can go on from here."""
        out = Table.__new__(Table)
        out.__dict__.update(self.__dict__)
        for name in ("_table", "_basic", "_outside", "_fixed", "_at_least"):
            setattr(out, name, getattr(self, name).copy())
        return out

    def without(self, variables: Ints) -> None:
        """These are zero from now on."""
        self._fixed[variables] = True
        self.changed = True

    def with_one(self, variable: int) -> None:
        """This one is at least 1 from now on."""
        table = self._table
        self._at_least[variable] += 1.0
        self.changed = True
        row = np.flatnonzero(self._basic == variable)
        if len(row):
            table[row[0], -1] -= 1.0
        else:
            table[:, -1] -= table[:, int(np.flatnonzero(self._outside == variable)[0])]

    def solve(self, work: int) -> None:
        """Go on to the least cost. ``solved`` is False if there is no solution, None if finding out takes more
        ``work``.
        """
        table = self._table
        self.solved, self.changed = None, False
        last = self.work + work
        while self.work <= last:
            row = self._leaving()
            if row is None:
                self.solved = True
                return
            entries = table[row, :-1] if table[row, -1] < 0 else -table[row, :-1]
            fine = ((entries < -_PIVOT) & ~self._fixed[self._outside]).nonzero()[0]
            if not len(fine):
                self.solved = False
                return
            ratio = np.maximum(table[-1, fine], 0.0) / -entries[fine]
            near = fine[ratio <= np.minimum.reduce(ratio) + _ZERO]
            self._change(row, int(near[entries[near].argmin()]))

    def _leaving(self) -> int | None:
        """Return the worst row, below zero or above it if the variable is fixed, by the steepest edge. It takes about
        half as many changes as the plain distance (measured with 40 nodes, 200 pods in 50 gangs).
        """
        values = self._table[:-1, -1]
        short = np.where(self._fixed[self._basic], np.abs(values), -values)
        bad = (short > _SHORT).nonzero()[0]
        if len(bad) <= 1:
            return int(bad[0]) if len(bad) else None
        entries = self._table[bad, :-1]
        return int(bad[(short[bad] ** 2 / (1.0 + np.add.reduce(entries * entries, axis=1))).argmax()])

    def dear(self, most: float) -> Ints:
        """The names of variables of which one more makes every solution cost over ``most``."""
        found: Ints = self.names[self._dear(most)]
        return found

    def _dear(self, most: float) -> Ints:
        out: Ints = self._outside[self._table[-1, :-1] > most - self.bound()]
        out = out[out < len(self._cost)]
        single: Ints = out[self._most[out] == 1.0]
        return single

    def shrink(self, most: float) -> None:
        """Leave out what is fixed, and variables of which one more makes every solution cost over ``most``."""
        self._fixed[self._dear(most)] = True
        kept = np.flatnonzero(~self._fixed[self._outside])
        self._table = np.take(self._table, np.append(kept, len(self._outside)), axis=1)
        self._outside = self._outside[kept]

    def _change(self, row: int, column: int) -> None:
        """The variable of the row leaves the basis, that of the column enters it."""
        table = self._table
        pivot = table[row, column]
        line = table[row] / pivot
        line[np.abs(line) < _ZERO] = 0.0
        line[column] = 1.0 / pivot
        factor = table[:, column].copy()
        factor[row] = 0.0
        # Whole rows: to pick columns as well takes four times as long per entry, and leaves out few.
        rows = factor.nonzero()[0]
        table[rows, column] = 0.0
        table[rows] -= factor[rows, None] * line
        table[row] = line
        self.work += len(rows) * table.shape[1] + _CHANGE
        self._basic[row], self._outside[column] = self._outside[column], self._basic[row]

    # -- results -------------------------------------------------------------------------------------------

    def values(self) -> Floats:
        """``(n,)`` the variables."""
        out: Floats = self._at_least.copy()
        known = self._basic < len(out)
        out[self._basic[known]] += self._table[:-1, -1][known]
        return out

    def bound(self) -> float:
        """No solution costs less: by the prices of rows that the table ends with, whatever was rounded on the way."""
        columns = len(self._cost)
        slack = self._outside >= columns
        price = np.zeros(len(self._limit))
        price[self._outside[slack] - columns] = np.maximum(self._table[-1, :-1][slack], 0.0)
        used = np.flatnonzero(price)
        reduced = self._cost + (self._matrix[used] * price[used, None]).sum(axis=0)
        free = (reduced < 0) & ~self._fixed[:columns]
        gain = reduced * np.where(free, self._most, self._at_least)
        return float(gain.sum() - (self._limit * price).sum())
