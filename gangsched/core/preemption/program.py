"""How little harm is possible at least, and plans that do no more: branch and bound over whole plans of small clusters.

Each node takes one of its fillings (:mod:`.node_prices`) or none; units of which a pod leaves are interrupted; limited
sets give no more than they may. The components of harm are minimised one after another, each under what is known of
those before it. A linear program bounds from below, and says of which units the question has to be asked.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints, distinct, isin, ordered_by, runs
from gangsched.core.preemption.candidates import Candidates
from gangsched.core.preemption.demand import Demand
from gangsched.core.preemption.harm import Component, Floor, Harm, components, place
from gangsched.core.preemption.node_prices import Fillings
from gangsched.core.preemption.places import Placing
from gangsched.core.preemption.simplex import Table

#: Entries of a table up to which it is worth its time.
_ENTRIES = 1_500_000
#: Entries changed for one question.
_QUESTION = 150_000_000
#: Entries changed in the time of one node and pod looked at.
_SIMPLEX = 20
#: The fixed cost of a question, in entries: the table is copied, shrunk, and bounds are read.
_ASKED = 50_000
#: The cost of a term of a row, in nodes and pods read, and when a table is made of rows.
_TERM, _TERM_AGAIN = 12, 6
#: Entries of fillings compared at once.
_COMPARED = 4_000_000
#: A number this near to a whole one is that.
_NEAR = 1e-6
#: The most of additional costs: :data:`.simplex._NUDGE` for each variable.
_WHOLE = 1e-2


class Row(msgspec.Struct):
    """``sum of terms <= limit``. It says nothing once one of the variables ``void`` is 1."""

    terms: dict[int, float]
    limit: float
    void: tuple[int, ...] = ()


class Program:
    """The program for these fillings. Variables: the fillings, the units, pods that may leave alone or with a unit,
    and by how much each budget is exceeded. No more than ``most`` pods leave, where that is given.
    """

    def __init__(self, candidates: Candidates, demand: Demand, fillings: Fillings, most: int | None = None) -> None:
        self.c, self._f, self._need = candidates, fillings, demand.need
        self.fillings = len(fillings.row)
        self.units = self.fillings + np.arange(len(candidates.units_of))
        self.size = self.fillings + len(self.units)
        self.costs: dict[Component, dict[int, float]] = {}
        self.rows: list[Row] = []
        self.alone: dict[int, int] = {}  # variable by pod that may leave alone or with its unit
        for row in distinct(fillings.row).tolist():
            self.rows.append(Row(dict.fromkeys(np.flatnonzero(fillings.row == row).tolist(), 1.0), 1.0))
        for k, need in enumerate(demand.need):
            some = np.flatnonzero(fillings.members[:, k])
            terms = dict(zip(some.tolist(), (-fillings.members[some, k]).astype(float).tolist(), strict=True))
            self.rows.append(Row(terms, -float(need)))
        self._link()
        self._limit()
        if most is not None:
            pods = [terms for (kind, _), terms in self.costs.items() if kind == "pods"]
            self.rows.append(Row(dict(sum(map(Counter, pods), Counter[int]())), float(most)))
        self._entries = _entries(self.rows)
        self._leaving = np.bincount(fillings.of, minlength=self.size)
        #: ``(size,)``, for the last table: variables that may be 1 and count nothing; and what stands for others.
        self.free: Bools = np.zeros(self.size, dtype=np.bool_)
        self.instead: Ints = np.arange(self.size)
        made = len(fillings.pods) + len(self._entries.row)
        #: What it takes to make this, and each table.
        self.work, self.work_again = _TERM * made, _TERM_AGAIN * made

    def _add(self, component: Component, variable: int, amount: float) -> None:
        costs = self.costs.setdefault(component, {})
        costs[variable] = costs.get(variable, 0.0) + amount

    def _new(self) -> int:
        self.size += 1
        return self.size - 1

    def _link(self) -> None:
        """Pods leave alone at their own price, or with their unit."""
        c = self.c
        links: dict[tuple[int, int], dict[int, float]] = {}
        for of, pod in zip(self._f.of.tolist(), self._f.pods.tolist(), strict=True):
            unit = int(c.unit[pod])
            if not c.leaves_whole[pod]:
                self._add(("pods", int(c.level[pod])), of, 1.0)
            elif not c.single[pod]:
                links.setdefault((int(c.row[pod]), unit), {})[of] = 1.0
            else:
                if pod not in self.alone:
                    self.alone[pod] = self._new()
                    self._add(("pods", int(c.level[pod])), self.alone[pod], 1.0)
                links.setdefault((-1 - pod, unit), {self.alone[pod]: -1.0})[of] = 1.0
        for (_, unit), terms in links.items():
            terms[int(self.units[unit])] = -1.0
            self.rows.append(Row(terms, 0.0, tuple(v for v, amount in terms.items() if amount < 0)))
        for variable, found in zip(self.units.tolist(), c.units_of, strict=True):
            if found.gangs:
                self._add(("gangs", found.level), variable, float(found.gangs))
            if found.whole:
                self._add(("pods", found.level), variable, float(len(found.slots)))

    def _limit(self) -> None:
        """Limited sets give no more than they may: budgets at a price, surpluses unless their gang is interrupted."""
        c = self.c
        under = np.zeros(c.size, dtype=np.int64)
        for limited in c.limited:
            under[limited.pods] += bool(limited.budget)
        share = 1.0 / max(1, int(under.max(initial=1)))  # a pod under several budgets is beyond them once
        freed: dict[int, list[int]] = {}
        for variable, unit in zip(self.units.tolist(), c.units_of, strict=True):
            for number in unit.limited:
                freed.setdefault(number, []).append(variable)
        for number, limited in enumerate(c.limited):
            terms = self._drawn(limited.pods)
            if limited.budget:
                drawn = c.drawn_whole(limited.pods)
                terms |= {int(self.units[n]): float(drawn[n]) for n in np.flatnonzero(drawn).tolist()}
                if terms:
                    beyond = self._new()
                    terms[beyond] = -1.0
                    self._add(("pdb", 0), beyond, share)
            for variable in freed.get(number, ()):
                whole = c.units_of[variable - self.fillings].whole
                terms[variable] = float(limited.limit - (0 if whole else len(limited.pods)))
            if terms:
                self.rows.append(Row(terms, float(limited.limit), tuple(freed.get(number, ()))))

    def _drawn(self, pods: Ints) -> dict[int, float]:
        """The rows that use a set of pods which are evicted singly."""
        inside: Bools = np.zeros(self.c.size, dtype=np.bool_)
        inside[pods] = True
        drawn = np.bincount(
            self._f.of[inside[self._f.pods] & ~self.c.leaves_whole[self._f.pods]], minlength=self.fillings
        )
        terms = {n: float(drawn[n]) for n in np.flatnonzero(drawn).tolist()}
        return terms | {variable: 1.0 for pod, variable in self.alone.items() if inside[pod]}

    def placing(self, values: Floats) -> tuple[Placing, frozenset[int]]:
        """Variables that are all whole as places, with the units gone that are interrupted."""
        f, chosen = self._f, np.flatnonzero(values[: self.fillings] > 0.5)
        counts: Ints = np.zeros((f.members.shape[1], len(self.c.count)), dtype=np.int64)
        left = np.array(self._need)
        for n in chosen.tolist():  # the last may have room for more than are left
            counts[:, f.row[n]] = np.minimum(f.members[n], left)
            left -= counts[:, f.row[n]]
        gone: Bools = np.zeros(self.c.size, dtype=np.bool_)
        gone[f.pods[isin(f.of, chosen.tolist())]] = True
        units = set(np.flatnonzero(values[self.units] > 0.5).tolist())
        for number in distinct(self.c.unit[gone]).tolist():
            if number >= 0 and self.free[self.units[number]] and self._interrupted(number, gone):
                units.add(number)
        for number in units:
            if self.c.units_of[number].whole:
                gone[self.c.units_of[number].pods] = True
        return Placing(counts, gone, 0j), frozenset(units)

    def _interrupted(self, number: int, gone: Bools) -> bool:
        """Return True if these pods cannot leave without their unit."""
        unit, limited = self.c.units_of[number], self.c.limited
        alone = self.c.single[unit.pods] | ~gone[unit.pods]
        return not alone.all() or any(gone[limited[n].pods].sum() > limited[n].limit for n in unit.limited)

    @property
    def components(self) -> list[Component]:
        """From the worst down."""
        return sorted(self.costs, key=place)

    def table(self, component: Component, caps: dict[Component, int], out: Bools) -> Table | None:
        """To minimise a component under these caps, without the variables that are ``out`` ``(size,)``, to which those
        are added that are zero under the caps. None if it would be too large.

        Entries that count only for later components are removed. Of 1,841 fillings of a cluster of 34 nodes and 71
        gangs, 331 remain for the first component, which takes a tenth of the time. Without this, the plan is not
        proven.
        """
        cost = np.zeros(self.size)
        cost[list(self.costs[component])] = list(self.costs[component].values())
        for k, n in caps.items():
            if not n:
                out[list(self.costs[k])] = True
        capped = [Row(self.costs[k], float(n)) for k, n in caps.items() if n]
        e = self._relevant(self._entries.joined(_entries(capped, len(self.rows))), cost, out)
        self.instead = self._cover(e, cost)
        e = e.filtered((self.instead == np.arange(self.size))[e.variable])
        asks = np.bincount(e.row[e.amount > 0], minlength=len(e.limit)) > 0
        e = e.filtered((asks | (e.limit < 0))[e.row])
        rows, names = np.flatnonzero(asks | (e.limit < 0)), distinct(e.variable)
        if (len(rows) + 1) * (len(names) + 1) > _ENTRIES:
            return None
        matrix: Floats = np.zeros((len(rows), len(names)))
        matrix[np.searchsorted(rows, e.row), np.searchsorted(names, e.variable)] = e.amount
        most = np.where(names < self.fillings + len(self.units), 1.0, float(self.c.size))
        return Table(matrix, e.limit[rows], cost[names], most, names)

    def _relevant(self, e: Entries, cost: Floats, out: Bools) -> Entries:
        """The rows without the variables that are ``out``, and without those that are free: of no cost, and only in
        rows that they make void.
        """
        bound = np.zeros(self.size, dtype=np.bool_)
        bound[e.variable[~e.voids]] = True
        self.free = ~bound & (cost == 0) & ~out
        void = np.zeros(len(e.limit), dtype=np.bool_)
        void[e.row[self.free[e.variable]]] = True
        e = e.filtered(~void[e.row])
        while True:
            e = e.filtered(~out[e.variable])
            gives = np.bincount(e.row[e.amount < 0], minlength=len(e.limit)) > 0
            never = e.variable[(e.amount > e.limit[e.row]) & ~gives[e.row]]
            if not len(never):
                return e
            out[never] = True

    def _cover(self, e: Entries, cost: Floats) -> Ints:
        """Return ``(size,)``: a replacement of each variable. It is a filling of the same node that needs no more of
        any row and costs no more, with the fewest evicted pods first; else the variable itself.
        """
        instead: Ints = np.arange(self.size)
        mine = np.flatnonzero(e.variable < self.fillings)
        order, starts, _ = runs(self._f.row[e.variable[mine]])
        for some in np.split(mine[order], starts[1:]) if len(mine) else ():
            rows, names = distinct(e.row[some]), distinct(e.variable[some])
            asked = np.zeros((len(rows) + 1, len(names)))
            asked[np.searchsorted(rows, e.row[some]), np.searchsorted(names, e.variable[some])] = e.amount[some]
            asked[-1] = cost[names]
            order = ordered_by(asked.sum(axis=0), self._leaving[names])
            asked, names = np.take(asked, order, axis=1), names[order]
            step = max(1, _COMPARED // asked.size)
            for begin in range(0, len(names), step):
                part = slice(begin, begin + step)
                less = (asked[:, :, None] <= asked[:, None, part]).all(axis=0)
                instead[names[part]] = names[less.argmax(axis=0)]
        return instead


class Entries(msgspec.Struct, eq=False):
    """Rows as arrays: ``row``, ``variable`` and ``amount`` of each term, and whether the variable ``voids`` the row;
    ``limit`` by row.
    """

    row: Ints
    variable: Ints
    amount: Floats
    voids: Bools
    limit: Floats

    def filtered(self, some: Bools) -> Entries:
        """Return only some of the terms."""
        return Entries(self.row[some], self.variable[some], self.amount[some], self.voids[some], self.limit)

    def joined(self, other: Entries) -> Entries:
        """With more rows."""
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return Entries(*(np.concatenate(pair) for pair in pairs))


def _entries(rows: Sequence[Row], first: int = 0) -> Entries:
    """These rows, the first of which has the number ``first``."""
    lengths = [len(row.terms) for row in rows]
    variable: Ints = np.array([v for row in rows for v in row.terms], dtype=np.int64)
    amount: Floats = np.array([n for row in rows for n in row.terms.values()], dtype=np.float64)
    voids: Bools = np.array([v in row.void for row in rows for v in row.terms], dtype=np.bool_)
    number = np.repeat(np.arange(first, first + len(rows)), lengths)
    return Entries(number, variable, amount, voids, np.array([row.limit for row in rows], dtype=np.float64))


class Proof:
    """Minimises one component after another. ``adopt`` looks at places with these units gone, and tells their harm if
    that is less than ever before; ``late`` says that the budget is spent.
    """

    def __init__(
        self,
        program: Program,
        adopt: Callable[[Placing, frozenset[int]], Harm | None],
        late: Callable[[], bool],
    ) -> None:
        self._p = program
        self._adopt = adopt
        self._late = late
        self._least: dict[Component, int] = {}
        self.work = program.work

    def run(self, best: Harm) -> dict[Component, int]:
        """What is proven of each component, given a plan of this harm; the last may be less than the best plan has."""
        self._note(best)
        known: dict[Component, int] = {}
        out: Bools = np.zeros(self._p.size, dtype=np.bool_)
        for component in self._p.components:
            if not self._least[component]:
                known[component] = 0
                continue
            root = None if self._late() else self._p.table(component, known, out)
            self.work += self._p.work_again
            if root is None:
                break
            self._solve(root)
            known[component] = self._tree(root.copy(), component)
            if known[component] < self._least[component]:
                break
            out[root.dear(self._least[component] + _WHOLE)] = True
            out |= out[self._p.instead]
        return known

    def _note(self, best: Harm) -> None:
        mine = components(best.beyond_budget, best.levels)
        self._least = {component: mine.get(component, 0) for component in self._p.components}

    def _taken(self, values: Floats) -> Harm | None:
        """The plan of values that are all whole, if it is better than the best."""
        found = self._adopt(*self._p.placing(values))
        if found is not None:
            self._note(found)
        return found

    def _solve(self, table: Table) -> bool | None:
        before = table.work
        table.solve(_QUESTION)
        self.work += (table.work - before + _ASKED + 4 * table.size) // _SIMPLEX
        return table.solved

    def _tree(self, root: Table, component: Component) -> int:
        """Return a lower bound of the component, equal to the best plan if none is below it. Depth-first branch and
        bound takes every better plan that it finds.
        """
        open_ = [(0, root)]
        stopped: list[int] = []
        while open_:
            least, here = open_.pop()
            most = self._least[component]
            if least >= most:
                continue
            if here.changed and self._late():
                stopped.append(least)
                continue
            state = self._solve(here) if here.changed else here.solved
            if state is False:
                continue
            bound = max(least, math.ceil(here.bound() - _WHOLE))
            if bound >= most:
                continue
            if state is None:
                stopped.append(bound)
                continue
            values = np.zeros(self._p.size)
            values[here.names] = here.values()
            variable = self._fractional(values)
            if variable is None:
                if self._taken(values) is None or bound < self._least[component]:
                    stopped.append(bound)  # whole, and yet not better: rules that the program does not know
                continue
            here.shrink(most - 1 + _WHOLE)
            without = here.copy()
            column = int(np.searchsorted(here.names, variable))
            without.without(np.array([column]))
            here.with_one(column)
            open_ += [(bound, without), (bound, here)]
        return min([self._least[component], *stopped])

    def _fractional(self, values: Floats) -> int | None:
        """The unit, or else the filling, that is least decided."""
        for some in (self._p.units, np.arange(self._p.fillings)):
            off = np.minimum(values[some] % 1.0, 1.0 - values[some] % 1.0)
            if len(off) and off.max() > _NEAR:
                return int(some[int(np.argmax(off))])
        return None


def floor_of(known: Mapping[Component, int]) -> Floor:
    """What is proven, as a floor."""
    levels = sorted({level for kind, level in known if kind != "pdb"}, reverse=True)
    found = ((n, known.get(("gangs", n), 0), known.get(("pods", n), 0)) for n in levels)
    return Floor(known.get(("pdb", 0), 0), tuple(level for level in found if level[1] or level[2]))
