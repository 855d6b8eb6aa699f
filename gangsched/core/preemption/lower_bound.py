"""A lower bound of the harm of any plan, and so how good a plan is.

Rules across nodes are left out. Every candidate may be evicted alone, whatever the surplus of its gang, and a
disruption budget above zero allows all. Each resource is counted alone, with the pods of a node in the order that is
exact for one resource. The highest of the resulting prices is the bound. How many gangs have to be interrupted is
bounded by the room that each could make at most.

Members of too many kinds for a table are summed: nodes take amounts of a resource that some members request, and all
nodes together take what all members request. Its Lagrangian relaxation is used, as in :mod:`.simplex`. Equal nodes are
computed once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints, isin
from gangsched.core.preemption.candidates import NEVER, Candidates, Interruption, Prices
from gangsched.core.preemption.demand import Demand, Pairs
from gangsched.core.preemption.harm import Floor, Harm
from gangsched.core.preemption.knapsack import cover, hull
from gangsched.core.preemption.node_prices import MAY, STAYS, NodePrices, Offer
from gangsched.core.preemption.places import Places

#: More pods of one component of harm than this count as so many.
_DIGIT = 2.0**20
#: What is missing is counted in about so many pieces at least: gangs add parts of members to nodes that they share.
#: With a quarter of them as many plans are proven of 32.
_PIECES = 400
#: The cells of a resource, and the amounts for which nodes are computed. More of them make a bound closer, and slower.
#: With half the amounts, or a quarter of the cells, as many plans are proven of 24.
_CELLS, _AMOUNTS = 1024, 48
#: The possible error of sums over all nodes, as a share of the sum.
_ROUNDED = 1e-12


class LowerBound:
    """Bounds for one demand among these candidates."""

    def __init__(self, candidates: Candidates, demand: Demand) -> None:
        self._c = candidates
        self._answers: dict[tuple[object, ...], Any] = {}
        #: Where members can be chosen only what all choices have in common.
        self._parts = list(demand.parts())
        #: Kinds that may share nodes.
        self._groups = [
            Places(candidates, of, lower=True)
            for of in ([demand.common] if demand.common is not None else map(demand.for_kinds, _kinds_together(demand)))
        ]

    def floor(self, harm: Harm) -> Floor:
        """The floor under a plan of this harm, as far down as it can be as high as the plan."""
        beyond = self._known(("beyond",), self._beyond) if harm.beyond_budget else 0
        if beyond < harm.beyond_budget:
            return Floor(beyond, ())
        stays = self._c.closed if not beyond else np.zeros(self._c.size, dtype=np.bool_)
        levels: list[tuple[int, int, int]] = []
        mine = {p: (g, n) for p, g, n in harm.levels}
        free: frozenset[int] = frozenset()  # levels at which more pods leave than the places alone would need
        spared = np.zeros(self._c.size, dtype=np.bool_)
        for level in sorted(mine, reverse=True):
            gangs, count = mine[level]
            # As little as the plan takes above: nothing of the priorities that it leaves alone, no gang that it spares.
            higher = sorted(p for p in mine if p > level)
            above = stays | spared | ((self._c.level > level) & ~isin(self._c.level, higher))
            key = (beyond, level, tuple((p, mine[p][0] > 0) for p in higher))
            least_gangs, with_them = (
                self._known(("gangs", *key), partial(self._gangs, level, above)) if gangs else (0, 0)
            )
            if not gangs:
                spared = spared | self._only_with_gangs(level)
            if least_gangs < gangs:
                return Floor(beyond, (*levels, (level, least_gangs, 0)))
            more = sum(mine[p][1] for p in higher if p not in free)
            found = self._known(("pods", *key, gangs > 0, free), partial(self._pods, level, above | spared, free))
            least = max(0, min(count, math.ceil(found - _DIGIT * more - 2e-6)))
            exact = least == count
            least = min(count, max(least, with_them))
            if least_gangs or least:
                levels.append((level, least_gangs, least))
            if least < count:
                break
            if not exact:
                free = free | {level}
        return Floor(beyond, tuple(levels))

    def _only_with_gangs(self, level: int) -> Bools:
        """``(V,)`` pods that leave only with a gang of this priority as a whole."""
        out = np.zeros(self._c.size, dtype=np.bool_)
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
        return sum(group.nodes.work for group in self._groups)

    def _beyond(self) -> int:
        price: Prices = np.where(self._c.closed, 1.0 + 0j, 0j)
        return math.ceil(self._least(np.zeros(self._c.size, dtype=np.bool_), price) - 1e-6)

    def _pods(self, level: int, stays: Bools, free: frozenset[int]) -> float:
        """The least price where a pod of this priority costs 1, and one of a higher that is not ``free`` a digit more.
        No plan can have less of one without more of the other.
        """
        c = self._c
        price: Prices = np.where(c.level == level, 1.0 + 0j, 0j)
        price[(c.level > level) & ~isin(c.level, sorted(free))] = _DIGIT
        return self._least(stays, price)

    def _least(self, stays: Bools, price: Prices) -> float:
        """The least price of places for all groups, 0 if there are none at all."""
        offer = Offer(np.where(stays, STAYS, MAY), price)
        total = 0.0
        for group in self._groups:
            found = group.bound(offer)
            total += amount_bound(group.nodes, offer) if found is None else max(0.0, found.real)
        return total if total < NEVER.real else 0.0

    def _gangs(self, level: int, stays: Bools) -> tuple[int, int]:
        """Gangs of this level that have to be interrupted at least, with everything below it free, and pods that leave
        with so many at least.
        """
        c = self._c
        mine = np.array([u.level == level and u.gangs > 0 for u in c.units_of] + [False])
        inside = mine[c.unit]
        base = ~stays & (~inside | c.single)
        # Members that a gang can spare go without an interruption: no more than its surplus, counted as all of them.
        free, pairs = c.room_without(base), c.by_unit(inside & ~base)
        pairs.owner = (np.cumsum(mine) - 1)[pairs.owner]
        units = [u for u, fine in zip(c.units_of, mine.tolist(), strict=False) if fine]
        return max((self._gangs_for(part, units, free, pairs) for part in self._parts), default=(0, 0))

    def _gangs_for(self, part: Demand, units: Sequence[Interruption], free: Floats, pairs: Pairs) -> tuple[int, int]:
        used = part.request[0] > 0
        asked = part.request[0][used]
        cap = 1.0 if part.rules.exclusive[0, 0] else float(part.need[0])
        allowed = part.mask[0]
        missing = part.need[0] - float(part.whole(0, free, allowed).sum())
        if missing <= 0 or not units:
            return 0, 0
        size, of, rows, held = free.shape[1], pairs.owner, pairs.rows, pairs.amounts[used]
        here = np.clip(np.take(free[used], rows, axis=1) / asked[:, None], 0.0, None)
        shared = self._shares(here, held / asked[:, None], rows, cap, size)
        shared[~allowed[rows]] = 0.0
        gains = np.bincount(of, weights=shared, minlength=len(units))
        pieces = max(1, int(_PIECES / missing))
        prices = np.array([unit.gangs * _DIGIT + len(unit.slots) * unit.whole for unit in units])
        chosen = cover(np.ceil(gains * pieces - 1e-6).astype(np.int64), prices, math.ceil(missing * pieces - 1e-6))
        gangs, pods = divmod(0.0 if chosen is None else float(prices[chosen].sum()), _DIGIT)
        return int(gangs), int(pods)

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
            then = np.minimum(np.floor((here + t * np.take(largest, rows, axis=1)).min(axis=0)), cap)
            best = np.where(some, np.maximum(best, (then - now) / t), best)
        part = np.minimum((here + held).min(axis=0), cap) - now
        sums = [np.bincount(rows, weights=x, minlength=size)[rows] for x in (best, part)]
        return np.where((sums[0] <= sums[1]) | (several[rows] == 1), best, part)


def _kinds_together(demand: Demand) -> list[list[int]]:
    """The kinds in groups: those of different groups share no node."""
    kinds = range(len(demand.need))
    group = list(kinds)
    for i in kinds:
        for j in range(i):
            # With hundreds of kinds nearly all are in one group already.
            if group[i] != group[j] and (demand.mask[i] & demand.mask[j]).any():
                old, new = group[i], group[j]
                group = [new if g == old else g for g in group]
    return [[k for k in kinds if group[k] == g] for g in dict.fromkeys(group)]


def amount_bound(nodes: NodePrices, offer: Offer) -> float:
    """No places of members of these kinds cost less, with the prices of a lower bound."""
    used = np.flatnonzero(nodes.demand.request.any(axis=0)).tolist()
    return max((_bound_of(nodes, offer, r) for r in used), default=0.0)


def _bound_of(nodes: NodePrices, offer: Offer, r: int) -> float:
    """The same by one resource."""
    asked, need = nodes.demand.request[:, r], np.array(nodes.demand.need)
    room = nodes.room(offer)[r]
    top = min(float(room[nodes.mask.any(axis=0)].max(initial=0.0)), float(asked @ need))
    size = float(np.gcd.reduce(asked.astype(np.int64)))
    if size <= 0 or top < size:
        return 0.0
    size = max(size, top / _CELLS)
    takes = np.floor(asked / size + 1e-9).astype(np.int64)
    cells = int(top / size + 1e-9) + 1
    numbers: dict[bytes, int] = {}  # of nodes with the same kinds of members
    here = np.ascontiguousarray((nodes.mask & (takes > 0)[:, None]).T)
    kind = np.array([numbers.setdefault(mask.tobytes(), len(numbers)) for mask in here])
    reached = np.array([_sums(nodes.demand, takes, np.frombuffer(m, dtype=np.bool_), cells) for m in numbers])
    first = np.flatnonzero(reached.any(axis=0))
    if len(first) > _AMOUNTS:
        first = first[np.linspace(0, len(first) - 1, _AMOUNTS).astype(np.int64)]
    if not len(first):
        return 0.0
    rows, copies = _unequal(nodes, offer, r, kind, (int(first[-1]) + 1) * size)
    demand: Floats = np.zeros((nodes.demand.request.shape[1], len(first) * len(rows)))
    demand[r] = np.repeat(first * size, len(rows))
    costs = nodes.scan_one(offer, np.tile(rows, len(first)), demand, r).reshape(len(first), len(rows))
    # Any larger sum of members up to the next amount costs at least as much.
    amounts = np.maximum.reduceat(reached * np.arange(cells), first, axis=1)[kind[rows]].T
    at, gained, slope = hull(np.where(amounts > 0, costs, NEVER), amounts)
    gained = gained * copies[at]
    sums, wanted = np.cumsum(gained), int(takes @ need)
    last = int(np.searchsorted(sums, wanted))
    if last == len(sums):
        return 0.0
    gained[last] -= sums[last] - wanted
    return float(gained[: last + 1] @ slope.real[: last + 1]) * (1.0 - _ROUNDED)


def _sums(demand: Demand, takes: Ints, mask: Bools, cells: int) -> Bools:
    """``(cells,)`` the sums, from 1 on, of what some members of these kinds take that may share a node."""
    out: Bools = np.zeros(cells, dtype=np.bool_)
    out[0] = True
    for k in np.flatnonzero(mask).tolist():
        left, piece = 1 if demand.rules.exclusive[k, k] else demand.need[k], 1
        while left > 0:  # numbers that add up to each number of members: 1, 2, 4, ... and the rest
            step = min(left, piece) * int(takes[k])
            out[step:] |= out[: max(0, cells - step)].copy()
            left, piece = left - piece, 2 * piece
    if demand.rules.exclusive.all():  # one in all
        alone = takes[mask]
        out[:] = False
        out[alone[alone < cells]] = True
    out[0] = False
    return out


def _unequal(nodes: NodePrices, offer: Offer, r: int, kind: Ints, most: float) -> tuple[Ints, Ints]:
    """One node of each sort that differs in a resource, as far as members matter that take no more than ``most`` of it,
    and how many there are; ``kind`` ``(N,)`` tells apart who may go there.
    """
    c, found = nodes.c, nodes.order_for(offer, r)
    order = np.arange(c.size) if found is None else found
    paid = order[((offer.status == MAY) & (offer.price.real > 0))[order]]
    row = c.row[paid]
    place = np.arange(len(row)) - np.searchsorted(row, row)
    looks: Floats = np.zeros((len(c.count), 2 + 2 * (int(place.max(initial=-1)) + 1)))
    looks[:, 0] = kind
    # With more room than for the most members and all that has a price, all of that comes back.
    most_room = most + np.bincount(row, weights=c.req[r, paid], minlength=len(looks))
    looks[:, 1] = np.minimum(nodes.room(offer)[r], most_room)
    looks[row, 2 + 2 * place] = offer.price[paid].real
    looks[row, 3 + 2 * place] = c.req[r, paid]
    alike = Counter[bytes]()
    rows: dict[bytes, int] = {}
    for node in np.flatnonzero(nodes.mask.any(axis=0)).tolist():
        look = looks[node].tobytes()
        rows.setdefault(look, node)
        alike[look] += 1
    return np.array(list(rows.values()), dtype=np.int64), np.array([alike[look] for look in rows], dtype=np.int64)
