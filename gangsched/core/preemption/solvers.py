"""How many members each place takes so that all find one, at the least price; and a linear program in one dense table.

A multiple-choice knapsack: place ``n`` (a node, or a domain) takes ``x`` members for ``costs[x - 1, n]``, and the sum
of all ``x`` is to be ``m``. The lower convex hulls of all places, drawn from in the order of their slopes, give the
bound of the Lagrangian relaxation, and the optimum where they end exactly at ``m`` (Sinha and Zoltners 1979). Otherwise
the places that the bound leaves open are decided by dynamic programming (Pisinger 1995: the core).

Lemke's dual method (C. E. Lemke, "The dual method of solving the linear programming problem", 1954), on the condensed
table that has a column per variable outside the basis. Costs are not negative, so the basis of slacks is where it
begins, and where it goes on after more was fixed, as in branch and bound. Tables are small and changes many: methods
and ufuncs are called here, not the functions around them, which take a third of the time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints, distinct
from gangsched.core.preemption.candidates import NEVER, Prices

#: Places in the core, and as many more for each member that one place may take: with 32 and more, 4,000 random
#: instances of up to 200 places came out as with all places in it.
_CORE, _CORE_PER_MEMBER = 40, 8


class Taking(NamedTuple):
    """``counts`` ``(N,)`` members of each place, their ``price``, and a lower ``bound`` of any other choice."""

    counts: Ints
    price: complex
    bound: complex


def choose(costs: Prices, members: int) -> Taking | None:
    """The least price for so many members; None when the places do not hold them. ``costs`` is ``(X, N)``."""
    width, places = costs.shape
    counts: Ints = np.zeros(places, dtype=np.int64)
    if members <= 0:
        return Taking(counts, 0j, 0j)
    if not costs.size:
        return None
    if width == 1:
        first = costs[0]
        open_ = np.flatnonzero(first.real < NEVER.real)
        if len(open_) < members:
            return None
        chosen = open_[np.argsort(first[open_], kind="stable")[:members]]
        counts[chosen] = 1
        price = complex(first[chosen].sum())
        return Taking(counts, price, price)
    node, gain, slope = hull(costs, np.arange(1, width + 1)[:, None])
    total = np.cumsum(gain)
    if not len(total) or total[-1] < members:
        return _all_ways(costs, np.arange(places), counts, members, 0j) if _capacity(costs) >= members else None
    last = int(np.searchsorted(total, members))
    np.add.at(counts, node[:last], gain[:last])
    price = _price(costs, counts)
    missing = members - (int(total[last - 1]) if last else 0)
    bound = price + missing * complex(slope[last])
    if missing == gain[last]:
        counts[node[last]] += gain[last]
        return Taking(counts, bound, bound)
    return _core(costs, counts, members, complex(slope[last]), bound)


def hull(costs: Prices, amounts: Ints) -> tuple[Ints, Ints, Prices]:
    """The steps of the lower hulls, cheapest member first: the place, the members gained, the price of each. ``costs``
    ``(X, N)`` are those of so many members, ``amounts`` ``(X, N)`` or ``(X, 1)``.
    """
    width, places = costs.shape
    amounts = np.broadcast_to(amounts, costs.shape)
    at: Ints = np.zeros(places, dtype=np.int64)
    paid: Prices = np.zeros(places, dtype=np.complex128)
    nothing: Ints = at[:0]
    steps: list[tuple[Ints, Ints, Prices]] = [(nothing, nothing, paid[:0])]
    alive = np.flatnonzero(costs.real.min(axis=0, initial=NEVER.real) < NEVER.real)
    while len(alive):
        ahead = amounts[:, alive] - at[alive]
        slope = np.where(
            (ahead > 0) & (costs[:, alive].real < NEVER.real),
            (costs[:, alive] - paid[alive]) / np.maximum(ahead, 1),
            NEVER,
        )
        # Of equal slopes the longest step, so that slopes of one place never fall.
        best = width - 1 - slope[::-1].argmin(axis=0)
        lowest = slope[best, np.arange(len(alive))]
        good = lowest.real < NEVER.real
        alive, best, lowest = alive[good], best[good], lowest[good]
        steps.append((alive, amounts[best, alive] - at[alive], lowest))
        at[alive] = amounts[best, alive]
        paid[alive] = costs[best, alive]
    node, gain, slope = (np.concatenate([s[i] for s in steps]) for i in range(3))
    order = np.argsort(slope, kind="stable")
    return node[order], gain[order], slope[order]


def _price(costs: Prices, counts: Ints) -> complex:
    used = np.flatnonzero(counts)
    return complex(costs[counts[used] - 1, used].sum())


def _capacity(costs: Prices) -> int:
    most = np.where(costs.real < NEVER.real, np.arange(1, len(costs) + 1)[:, None], 0).max(axis=0)
    return int(most.sum())


def _core(costs: Prices, counts: Ints, members: int, rate: complex, bound: complex) -> Taking | None:
    """Decide the places anew whose other choices cost least more than their share of the bound."""
    width, places = costs.shape
    turns = np.arange(1, width + 1)[:, None]
    surplus = np.where(costs.real < NEVER.real, costs - rate * turns, NEVER)
    all_choices = np.concatenate([np.zeros((1, places), dtype=np.complex128), surplus])
    now = all_choices[counts, np.arange(places)]
    all_choices[counts, np.arange(places)] = NEVER
    regret = all_choices.min(axis=0) - now
    some = _CORE + _CORE_PER_MEMBER * width
    used, unused = np.flatnonzero(counts > 0), np.flatnonzero(counts == 0)
    core = np.concatenate(
        [group[np.argsort(regret[group], kind="stable")[:some]] for group in (used, unused) if len(group)]
    )
    fixed = counts.copy()
    fixed[core] = 0
    found = _all_ways(costs, core, fixed, members, bound)
    if found is None and len(core) < places:
        found = _all_ways(costs, np.arange(places), np.zeros(places, dtype=np.int64), members, bound)
    if found is None:
        return None
    # Whatever is outside the core cannot be part of a better choice if even its cheapest change is too dear.
    outside = np.ones(places, dtype=np.bool_)
    outside[core] = False
    exact = not outside.any() or complex(bound + regret[outside].min()).real > found.price.real - 1e-6
    return Taking(found.counts, found.price, found.price if exact else bound)


def _all_ways(costs: Prices, core: Ints, fixed: Ints, members: int, bound: complex) -> Taking | None:
    """Dynamic programming over the places of the core, with ``fixed`` members elsewhere."""
    width = len(costs)
    open_ = members - int(fixed.sum())
    best: Prices = np.full(open_ + 1, NEVER)
    best[0] = 0j
    picks = np.zeros((len(core), open_ + 1), dtype=np.int64)
    for turn, n in enumerate(core.tolist()):
        now = best.copy()
        for x in range(1, min(width, open_) + 1):
            cost = costs[x - 1, n]
            if cost.real >= NEVER.real:
                continue
            moved = best[: open_ + 1 - x] + cost
            better = moved < now[x:]
            now[x:][better] = moved[better]
            picks[turn, x:][better] = x
        best = now
    if best[open_].real >= NEVER.real:
        return None
    counts = fixed.copy()
    left = open_
    for turn in range(len(core) - 1, -1, -1):
        x = int(picks[turn, left])
        counts[core[turn]] += x
        left -= x
    price = _price(costs, counts)
    return Taking(counts, price, min(bound, price, key=lambda p: (p.real, p.imag)) if bound else price)


def cover(gains: Ints, prices: Prices | Floats, wanted: int) -> Ints | None:
    """The numbers of those of ``(n,)`` things that together gain at least what is ``wanted``, at the least price; None
    where all of them gain less. A table over what is gained.
    """
    order = np.lexsort((-gains, prices.imag, prices.real))
    order = order[gains[order] > 0]
    kept = np.zeros(len(order), dtype=np.bool_)
    for gain in distinct(gains[order]).tolist():
        # Of those that gain as much or more no more can matter than are enough by themselves: the cheapest.
        before = np.cumsum(gains[order] >= gain) - 1
        kept |= (gains[order] == gain) & (before * gain < wanted)
    order = order[kept]
    best = np.full(wanted + 1, NEVER.real, dtype=prices.dtype)
    best[0] = 0.0
    better = np.zeros((len(order), wanted + 1), dtype=np.bool_)
    with_it = np.empty_like(best)
    for turn, (gain, price) in enumerate(zip(gains[order].tolist(), prices[order].tolist(), strict=True)):
        with_it[:gain] = price
        with_it[gain:] = best[: wanted + 1 - gain] + price if gain <= wanted else price
        np.less(with_it, best, out=better[turn])
        np.copyto(best, with_it, where=better[turn])
    if best[wanted].real >= NEVER.real:
        return None
    out, left = [], wanted
    for turn in range(len(order) - 1, -1, -1):
        if better[turn, left]:
            out.append(int(order[turn]))
            left = max(0, left - int(gains[order[turn]]))
    return np.array(out, dtype=np.int64)


#: Smaller numbers are none: entries are sums of small whole numbers.
_ZERO = 1e-9
#: By how much a row has to be short, and how large an entry has to be to change places.
_SHORT, _PIVOT = 1e-7, 1e-6
#: What a change takes beside the entries of its rows, in entries: about 20 microseconds.
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
        """The row that is worst, below zero or above it where the variable is fixed: by the steepest edge, which takes
        about half as many changes as the plain distance (measured with 40 nodes, 200 pods in 50 gangs).
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

    # -- what came out -------------------------------------------------------------------------------------

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
