"""A lower bound of the harm of any plan, and so how good a plan is.

What couples nodes is left out: every candidate may leave by itself, whatever its gang can spare, and disruption budgets
that allow anything allow all. Each resource is looked at alone, with the pods of a node in the order that is exact for
one resource; of the prices that come out the highest holds. How many gangs have to be interrupted is bounded by the
room that each could make at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints, isin, runs
from gangsched.core.decision import Gap
from gangsched.core.preemption.candidates import Candidates, Interruption
from gangsched.core.preemption.demand import Demand
from gangsched.core.preemption.free import Pairs
from gangsched.core.preemption.harm import Harm
from gangsched.core.preemption.node_prices import MAY, STAYS, Offer
from gangsched.core.preemption.places import Places
from gangsched.core.preemption.prices import NEVER, Prices

#: More pods of one component of harm than this are not told from so many.
_DIGIT = 2.0**20


class Floor(NamedTuple):
    """No plan does less harm: ``beyond_budget`` and ``levels`` are as in :class:`~.harm.Harm`, as far as is proven."""

    beyond_budget: int
    levels: tuple[tuple[int, int, int], ...]


def gap(harm: Harm, floor: Floor) -> Gap | None:
    """How far the harm is from the floor at the first component that differs; None if none does."""
    if harm.beyond_budget > floor.beyond_budget:
        return Gap("pdb", 0, harm.beyond_budget - floor.beyond_budget)
    mine, least = ({p: (g, n) for p, g, n in levels} for levels in (harm.levels, floor.levels))
    for priority in sorted({*mine, *least}, reverse=True):
        for n, component in enumerate(("gangs", "pods")):
            more = mine.get(priority, (0, 0))[n] - least.get(priority, (0, 0))[n]
            if more > 0:
                return Gap(component, priority, more)
            if more < 0:
                return None  # paid for by a component before, which was equal
    return None


class LowerBound:
    """Bounds for one demand among these candidates."""

    def __init__(self, candidates: Candidates, demand: Demand) -> None:
        self._c = candidates
        self._answers: dict[tuple[object, ...], Any] = {}
        #: Demands of which the dearest bounds them all; where members can be chosen only what all choices have in
        #: common.
        self._parts = self._together(demand)
        self._places = [(group, Places(candidates, part, lower=True)) for group, part in self._parts]

    @staticmethod
    def _together(demand: Demand) -> list[tuple[int, Demand]]:
        """Parts of the demand, with the number of a group: parts of different groups share no node."""
        parts = list(demand.parts())
        if len(parts) == 1:
            return [(0, parts[0])]
        kinds = len(demand.need)
        group = list(range(kinds))
        for i in range(kinds):
            for j in range(i):
                if (demand.mask[i] & demand.mask[j]).any():
                    old, new = group[i], group[j]
                    group = [new if g == old else g for g in group]
        out = [(group[k], parts[k]) for k in range(kinds)]
        if len(set(group)) == 1:
            out = [(0, demand)] + [(0, part) for part in parts]
        return out

    def floor(self, harm: Harm) -> Floor:
        """The floor under a plan of this harm, as far down as it can be as high as the plan."""
        beyond = self._beyond() if harm.beyond_budget else 0
        if beyond < harm.beyond_budget:
            return Floor(beyond, ())
        stays = self._c.closed if not beyond else np.zeros(len(self._c), dtype=np.bool_)
        levels: list[tuple[int, int, int]] = []
        mine = {p: (g, n) for p, g, n in harm.levels}
        free: frozenset[int] = frozenset()  # levels at which more pods leave than the places alone would need
        spared = np.zeros(len(self._c), dtype=np.bool_)
        for level in sorted(mine, reverse=True):
            gangs, count = mine[level]
            # As little as the plan takes above: nothing of the priorities that it leaves alone, no gang that it spares.
            higher = sorted(p for p in mine if p > level)
            above = stays | spared | ((self._c.level > level) & ~isin(self._c.level, higher))
            key = (beyond, level, tuple((p, mine[p][0] > 0) for p in higher))
            least_gangs = min(gangs, self._known(("gangs", *key), partial(self._gangs, level, above))) if gangs else 0
            if not gangs:
                spared = spared | self._only_with_gangs(level)
            bound = partial(self._pods, level, above | spared, free)
            least = min(count, self._known(("pods", *key, gangs > 0, free), bound))
            exact = least == count
            if least_gangs == gangs and gangs:
                least = min(count, max(least, self._smallest(level, gangs)))
            if least_gangs or least:
                levels.append((level, least_gangs, least))
            if least_gangs < gangs or least < count:
                break
            if not exact:
                free = free | {level}
        return Floor(beyond, tuple(levels))

    def _only_with_gangs(self, level: int) -> Bools:
        """``(V,)`` pods that leave only with a gang of this priority as a whole."""
        out = np.zeros(len(self._c), dtype=np.bool_)
        for unit in self._c.units_of:
            if unit.level == level and unit.gangs and unit.whole:
                out[unit.pods] = True
        return out & ~self._c.single

    def _known(self, key: tuple[object, ...], ask: Callable[[], Any]) -> Any:
        if key not in self._answers:
            self._answers[key] = ask()
        return self._answers[key]

    @property
    def work(self) -> int:
        """Nodes x pods looked at."""
        return sum(places.nodes.work for _, places in self._places)

    def _beyond(self) -> int:
        price: Prices = np.where(self._c.closed, 1.0 + 0j, 0j)
        return int(np.ceil(self._least(np.zeros(len(self._c), dtype=np.bool_), price).real - 1e-6))

    def _pods(self, level: int, stays: Bools, free: frozenset[int]) -> int:
        """Pods of this priority that have to leave when as few as can be leave above it, priorities ``free`` aside."""
        c = self._c
        price: Prices = np.where(c.level == level, 1.0 + 0j, 0j)
        higher = (c.level > level) & ~isin(c.level, sorted(free))
        price[higher] = _DIGIT
        least = self._least(stays, price).real + 1e-6
        if least >= NEVER.real:
            return 0
        below = int((c.level == level).sum())
        rest = least % _DIGIT
        # No plan leaves more than there are: one more above, and nothing known here.
        return 0 if rest > below + 1e-3 else math.ceil(rest - 2e-6)

    def _least(self, stays: Bools, price: Prices) -> complex:
        """The least price of places for all parts."""
        offer = Offer(np.where(stays, STAYS, MAY), price)
        by_group: dict[int, complex] = {}
        for group, places in self._places:
            bound = places.bound(offer)
            if bound is None:
                continue
            before = by_group.get(group)
            if before is None or (bound.real, bound.imag) > (before.real, before.imag):
                by_group[group] = bound
        return sum(by_group.values(), 0j) if all(v.real < NEVER.real for v in by_group.values()) else NEVER

    def _smallest(self, level: int, gangs: int) -> int:
        """Pods of the smallest units of this level that make up so many gangs."""
        sizes = sorted(
            (len(u.slots) / u.gangs, u.gangs) for u in self._c.units_of if u.level == level and u.gangs and u.whole
        )
        total, left = 0.0, gangs
        for size, count in sizes:
            some = min(left, count)
            total += size * some
            left -= some
            if not left:
                break
        return int(np.ceil(total - 1e-6)) if not left else 0

    def _gangs(self, level: int, stays: Bools) -> int:
        """Gangs of this level that have to be interrupted at least, with everything below it free."""
        c = self._c
        units = [u for u in c.units_of if u.level == level and u.gangs]
        inside = np.zeros(len(c), dtype=np.bool_)
        for unit in units:
            inside[unit.pods] = True
        base = ~stays & (~inside | c.single)
        # Members that a gang can spare go without an interruption: no more than its surplus, counted as all of them.
        free, size = c.room_without(base), c.free.shape[1]
        some = np.flatnonzero(inside & ~base)
        number = np.zeros(len(c.units_of) + 1, dtype=np.int64)
        number[[n for n, u in enumerate(c.units_of) if u.level == level and u.gangs]] = np.arange(len(units))
        order, starts, keys = runs(number[c.unit[some]] * size + c.row[some])
        pairs = Pairs(keys // size, keys % size, np.add.reduceat(c.req[:, some[order]], starts, axis=1))
        parts = (part for _, part in self._parts if len(part.need) == 1)
        return max((self._gangs_for(part, units, free, pairs) for part in parts), default=0)

    def _gangs_for(self, part: Demand, units: Sequence[Interruption], free: Floats, pairs: Pairs) -> int:
        used = part.request[0] > 0
        asked = part.request[0][used]
        cap = 1.0 if part.rules.exclusive[0, 0] else float(part.need[0])
        allowed = part.mask[0]
        missing = part.need[0] - float(part.whole(0, free, allowed).sum())
        if missing <= 0:
            return 0
        size, of, rows, held = free.shape[1], pairs.owner, pairs.rows, pairs.amounts[used]
        here = np.clip(free[used][:, rows] / asked[:, None], 0.0, None)
        shared = self._shares(here, held / asked[:, None], rows, cap, size)
        shared[~allowed[rows]] = 0.0
        total = np.bincount(of, weights=shared, minlength=len(units)).tolist()
        gains = [(gain, unit.gangs) for gain, unit in zip(total, units, strict=True)]
        gains.sort(key=lambda g: -g[0] / g[1])
        count = 0.0
        for gain, number in gains:
            if missing <= 1e-6 or gain <= 0:
                break
            # A unit of several gangs counts in part: others might make up for the rest.
            count += number * min(1.0, missing / gain) if number > 1 else 1.0
            missing -= gain
        return math.ceil(count - 1e-6)

    @staticmethod
    def _shares(here: Floats, held: Floats, rows: Ints, cap: float, size: int) -> Floats:
        """``(pairs,)`` members that a unit adds to a node at most, so that no set of units adds more than the sum.

        As if all units of the node were as large as the largest: of ``t`` of them together each adds a ``t``-th. Or, if
        that is less, in fractions, the fraction that is free beside them counted for each.
        """
        now = np.minimum(np.floor(here.min(axis=0)), cap)
        several = np.bincount(rows, minlength=size)
        largest = np.zeros((len(held), size))
        for r in range(len(held)):
            np.maximum.at(largest[r], rows, held[r])
        best = np.zeros(len(rows))
        for t in range(1, int(several.max()) + 1):
            some = several[rows] >= t
            then = np.minimum(np.floor((here + t * largest[:, rows]).min(axis=0)), cap)
            best = np.where(some, np.maximum(best, (then - now) / t), best)
        part = np.minimum((here + held).min(axis=0), cap) - now
        sums = [np.bincount(rows, weights=x, minlength=size)[rows] for x in (best, part)]
        return np.where((sums[0] <= sums[1]) | (several[rows] == 1), best, part)
