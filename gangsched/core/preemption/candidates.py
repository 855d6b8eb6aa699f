"""The candidates as arrays: one entry per pod, node by node in the order in which pods are put back, with its price.

Pods are bound by three kinds of rules that couple nodes: *Units* are evicted whole: a gang, a GangGroup, a Job that
would be suspended. Of a *limited* set, only so many may be evicted at the ordinary price: surplus members of a gang, or
pods that a disruption budget allows. All other questions are about one node. See :mod:`.places`.

A price is one number that is compared in the order of :func:`~.harm.harm`. A complex number is compared by numpy
lexicographically, the real part first. So it holds the components of harm as digits of a mixed radix, as many as are
exact in the real part and then in the imaginary part. The lost work is a fraction below them. Adding prices adds the
components as long as no digit overflows: each has room for all candidates of its kind.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt

from gangsched.core.arrays import Bools, Floats, Ints, distinct, ordered_by
from gangsched.core.preemption.blocks import NO_SLOTS, Block, Part
from gangsched.core.preemption.demand import Demand, Pairs
from gangsched.core.preemption.harm import Budgets, Harm
from gangsched.core.preemption.units import Units

_NONE = -1
#: The usefulness of a pod has so many steps.
_USEFUL = 1e9


class Interruption(msgspec.Struct, frozen=True, eq=False):
    """A gang that may be interrupted: ``whole`` says that all of it leaves then; else any of its pods may.

    ``pods`` are indices into :class:`Candidates`; ``slots`` all of its slots, those on unknown nodes included;
    ``level`` is the priority that it counts under, ``gangs`` the number of gangs interrupted; ``limited`` are the
    numbers of its limited sets, which do not bind once it is interrupted.
    """

    block: Block
    slots: Ints
    pods: Ints
    level: int
    gangs: int
    whole: bool
    limited: tuple[int, ...]


class Limited(msgspec.Struct, frozen=True, eq=False):
    """Pods (indices) of which ``limit`` may leave at the ordinary price. ``budget`` is its key, or empty: the surplus
    of a gang, beyond which none may leave singly.
    """

    pods: Ints
    limit: int
    budget: str = ""


class Candidates:
    """``(V,)`` columns over V pods (``size``), sorted by node and, on a node, by the order of putting back: the most
    harmful first, then the least useful, then those with most work.

    ``slot``, ``row``, ``level`` (own priority), ``useful`` (its amount of what a member lacks), ``work`` (share of the
    cluster x seconds), ``single`` (may be evicted alone), ``unit`` (number of the interruption that includes it, else
    -1); ``req`` is ``(R, V)`` in the resources that members ask for. ``start`` and ``count`` ``(N,)`` say where the
    pods of a node are. ``levels`` are the different priorities, ascending, and ``level_of`` ``(V,)`` the index of each
    pod's among them. ``free`` ``(R, N)`` is the room beside them all. With ``bands`` a level is the number of those
    below the priority, and gangs count nothing. ``by_work`` says that what is lost counts before the number of pods.
    Candidates above priority ``up_to`` are left out, as if they stayed.
    """

    def __init__(
        self,
        units: Units,
        budgets: Budgets,
        demand: Demand,
        works: Floats,
        bands: Sequence[int] | None = None,
        up_to: float = math.inf,
    ) -> None:
        self.units = units
        self._bands = bands
        self.by_work = units.options.harm_by_work and bands is None
        self.free = demand.resources.free
        table = units.snapshot.table
        wholes = [b for b in units.blocks if b.whole and b.priority <= up_to]
        parts = [(b, p) for b in units.blocks for p in b.parts if p.single]
        of_parts: Ints = np.array([s for _, p in parts for s in p.single], dtype=np.int64)
        loose, of_parts = (slots[table.priority[slots] <= up_to] for slots in (units.loose, of_parts))
        of_wholes: Ints = np.concatenate([b.array for b in wholes]) if wholes else NO_SLOTS
        slots = np.concatenate([loose, of_parts, of_wholes])
        if len(of_parts) and len(of_wholes):
            slots = np.concatenate([loose, distinct(np.concatenate([of_parts, of_wholes]))])
        slots = slots[table.row[slots] >= 0]
        row = table.row[slots]
        held = demand.resources.held(slots)
        # A pod that can only leave with its unit counts under the unit's priority.
        sizes = [len(block.array) for block in wholes]
        of_units = table.priority[: table.size].copy()
        of_units[of_wholes] = np.repeat([b.priority for b in wholes], sizes) if wholes else 0
        of_units[of_parts] = table.priority[of_parts]
        level = np.maximum(table.priority[slots], of_units[slots])
        if bands is not None:
            level = np.searchsorted(bands, level)
        short = np.maximum(demand.request.max(axis=0)[:, None] - np.maximum(self.free, 0.0), 0.0)
        useful = _useful(held, short, row)
        keys = (-works[slots], useful) if self.by_work else (useful, -works[slots])
        self.levels = distinct(level)
        level_of = np.searchsorted(self.levels, level)
        # Names decide last, so that no order of arrival shows: 48 bits tell them apart, and sort in three rounds.
        order = ordered_by((row + 1) * len(self.levels) - level_of, *keys, table.tie[slots] >> 8)
        self.size = len(order)
        self.slot, self.row, self.useful = slots[order], row[order], useful[order]
        self.level, self.level_of = level[order], level_of[order]
        self.req: Floats = demand.resources.held(self.slot)
        self.work: Floats = works[self.slot]
        nodes = units.snapshot.size
        self.count: Ints = np.bincount(self.row, minlength=nodes)
        self.start: Ints = np.concatenate([[0], np.cumsum(self.count)[:-1]]).astype(np.int64)
        self.place: Ints = np.full(table.size, _NONE, dtype=np.int64)
        self.place[self.slot] = np.arange(len(self.slot))
        self.single: Bools = np.zeros(len(self.slot), dtype=np.bool_)
        self.single[self._at(loose)] = True
        self.single[self._at(of_parts)] = True
        self.unit: Ints = np.full(len(self.slot), _NONE, dtype=np.int64)
        self.units_of: list[Interruption] = []
        self.limited: list[Limited] = []
        self._add_units(wholes, of_wholes, sizes, parts)
        told = [(u.level, u.gangs, len(u.slots)) for u in self.units_of]
        #: ``(units,)`` the level of each, the gangs interrupted, and how many pods leave with it.
        self.unit_level, self.unit_gangs, self.unit_size = np.array(told, dtype=np.int64).reshape(-1, 3).T
        if budgets:
            self._add_budgets(budgets)

    @cached_property
    def closed(self) -> Bools:
        """``(V,)``: pods under a budget that lets none go."""
        out = np.zeros(self.size, dtype=np.bool_)
        for limited in self.limited:
            if limited.budget and limited.limit <= 0:
                out[limited.pods] = True
        return out

    def room_without(self, leaving: Bools) -> Floats:
        """``(R, N)`` room when these pods (``(V,)``) have left."""
        gone, nodes = np.flatnonzero(leaving), len(self.count)
        rows = self.row[gone]
        return self.free + [np.bincount(rows, weights=held.take(gone), minlength=nodes) for held in self.req]

    def by_unit(self, pods: Bools) -> Pairs:
        """Return the room of those of these pods (``(V,)``) that are in units, by unit and node."""
        inside = np.flatnonzero(pods & (self.unit >= 0))
        inside = inside[ordered_by(self.unit[inside])]  # which leaves them node by node
        unit, row = self.unit[inside], self.row[inside]
        first = np.ones(len(inside), dtype=np.bool_)
        first[1:] = (unit[1:] != unit[:-1]) | (row[1:] != row[:-1])
        starts = np.flatnonzero(first)
        amounts = [np.add.reduceat(r[inside], starts) if len(starts) else r[:0] for r in self.req]
        return Pairs(unit[starts], row[starts], np.reshape(amounts, (len(self.req), len(starts))))

    @cached_property
    def leaves_whole(self) -> Bools:
        """``(V,)``: pods that leave with their unit."""
        whole: Bools = np.array([u.whole for u in self.units_of] + [False], dtype=np.bool_)
        return whole[self.unit]

    def drawn_whole(self, pods: Ints) -> Ints:
        """``(units,)`` how many of these pods leave with each unit."""
        return np.bincount(self.unit[pods[self.leaves_whole[pods]]], minlength=len(self.units_of))

    def _at(self, slots: Ints) -> Ints:
        """The indices of these slots, those without a known node left out."""
        found = self.place[slots]
        return found[found >= 0]

    def _add_units(
        self, wholes: Sequence[Block], of_wholes: Ints, sizes: Sequence[int], parts: Sequence[tuple[Block, Part]]
    ) -> None:
        limited: dict[int, list[int]] = {}
        for block, part in parts:
            surplus = max(0, len(part.bound) - part.minimum)
            breaks = part.counts and not block.whole and min(part.limit, len(part.single)) > surplus
            limit = surplus if breaks else part.limit
            if limit >= len(part.single):
                continue
            pods = self._at(np.array(part.single, dtype=np.int64))
            limited.setdefault(block.number, []).append(len(self.limited))
            if breaks:
                level = int(self.level[pods].min()) if len(pods) else block.priority
                self.unit[pods] = len(self.units_of)
                gangs = int(self._bands is None)
                self.units_of.append(
                    Interruption(block, self.slot[pods], pods, level, gangs, whole=False, limited=(len(self.limited),))
                )
            self.limited.append(Limited(pods, limit))
        first = len(self.units_of)
        everything = self._at(of_wholes)
        if len(everything) < len(of_wholes):  # some are on unknown nodes
            sizes = [int((self.place[block.array] >= 0).sum()) for block in wholes]
        self.unit[everything] = np.repeat(np.arange(first, first + len(wholes)), sizes)
        end = 0
        for block, size in zip(wholes, sizes, strict=True):
            begin, end = end, end + size
            pods, numbers = everything[begin:end], tuple(limited.get(block.number, ()))
            level, gangs = block.priority, block.interrupts
            if self._bands is not None:
                level, gangs = bisect_left(self._bands, level), 0
            self.units_of.append(Interruption(block, block.array, pods, level, gangs, True, numbers))

    def _add_budgets(self, budgets: Budgets) -> None:
        under = {key: self._at(slots) for key, slots in budgets.by_budget(self.units.snapshot.table, self.slot).items()}
        closed = np.zeros(self.size, dtype=np.bool_)
        for key, pods in under.items():
            closed[pods] |= budgets.allowed[key] <= 0
        for key, pods in under.items():
            allowed = max(0, budgets.allowed[key])
            # A pod of which another budget lets none go is beyond that one, and takes nothing from this one.
            self.limited.append(Limited(pods[~closed[pods]] if allowed else pods, allowed, key))

    def slots_of(self, pods: Bools, units: Sequence[int]) -> frozenset[int]:
        """The slots of these pods (a mask) and of these units that leave whole."""
        out = set(self.slot[pods].tolist())
        for number in units:
            if self.units_of[number].whole:
                out.update(self.units_of[number].slots.tolist())
        return frozenset(out)


def _useful(held: Floats, short: Floats, row: Ints) -> Ints:
    """``(V,)`` how much of what its node is short of for one member each pod holds: _USEFUL per resource at most."""
    out = np.zeros(len(row))
    for amount, lacking in zip(held, short, strict=True):
        if lacking.any():
            missing = lacking[row]
            out += np.minimum(amount, missing) / np.where(missing > 0, missing, 1.0)
    return np.asarray(np.rint(out * _USEFUL), dtype=np.int64)


Prices = npt.NDArray[np.complex128]
#: The price of impossible choices; finite, so that differences stay numbers.
NEVER = 1e300 + 0j
#: Bits of a part that are exact in float64, and those of the imaginary part that are left to the work lost.
_BITS, _WORK_BITS = 52, 22
#: All that could be lost at one priority is divided into so many steps, where that counts before the number of pods.
_LOST = 2**18


def rank(price: complex) -> tuple[float, float]:
    """To sort single prices by; Python compares no complex numbers."""
    return price.real, price.imag


class Digit(msgspec.Struct, frozen=True):
    """One ``component`` of harm (``pdb``, ``gangs``, ``pods``, or ``work`` in their place) at ``level``, and the
    ``weight`` of one more of it.
    """

    component: str
    level: int
    weight: complex


class Tariff:
    """The prices of these candidates: of a pod by itself (``pods``, ``(V,)``), of a pod beyond its budget in addition
    (``beyond``), of interrupting each unit (``units``, without its pods; ``whole`` with them).
    """

    def __init__(self, candidates: Candidates, usable: Bools) -> None:
        c, levels = candidates, distinct(np.concatenate([candidates.levels, candidates.unit_level]))
        of_pod = np.searchsorted(levels, c.levels)[c.level_of]
        of_unit = np.searchsorted(levels, c.unit_level)
        pods = np.bincount(of_pod[usable], minlength=len(levels))
        np.add.at(pods, of_unit, c.unit_size)
        gangs = np.zeros(len(levels), dtype=np.int64)
        np.add.at(gangs, of_unit, c.unit_gangs)
        limits = any(g.budget for g in c.limited)
        sizes: list[tuple[str, int, int]] = [("pdb", 0, c.size + 1)] if limits else []
        for level, gang_count, pod_count in reversed([*zip(*(a.tolist() for a in (levels, gangs, pods)), strict=True)]):
            sizes += [("gangs", level, gang_count + 1)] if gang_count else []
            sizes += [("pods", level, pod_count + 1)] if pod_count else []
        lost, single = c.unit_size.astype(np.float64), np.ones(c.size)
        counted, work = "pods", c.work / (1.0 + float(c.work.sum()))
        if c.by_work:  # what is lost with pods, in whole parts of all that could be lost, stands for their number
            total = np.bincount(of_pod, weights=c.work, minlength=len(levels))
            single = np.rint(c.work / np.where(total > 0, total, 1.0)[of_pod] * _LOST) + 1.0
            lost = np.array([single[u.pods].sum() for u in c.units_of], dtype=np.float64)
            counted, work = "work", np.full(c.size, 1.0 / (1.0 + c.size))
            most = _LOST + 2 * c.size + int(c.unit_size.sum())
            sizes = [(counted, level, most) if kind == "pods" else (kind, level, size) for kind, level, size in sizes]
        self.digits = _digits(sizes)
        weight = {(d.component, d.level): d.weight for d in self.digits}
        self.beyond = weight.get(("pdb", 0), 0j)
        by_pod, by_gang = (
            np.array([weight.get((kind, level), 0j) for level in levels.tolist()], dtype=np.complex128)
            for kind in (counted, "gangs")
        )
        self.pods: Prices = by_pod[of_pod] * single + 1j * work
        self.units: Prices = by_gang[of_unit] * c.unit_gangs
        self.whole: Prices = self.units + by_pod[of_unit] * lost
        if not c.by_work:
            inside = c.leaves_whole
            self.whole += 1j * np.bincount(c.unit[inside], weights=work[inside], minlength=len(c.units_of))

    def read(self, price: complex) -> tuple[tuple[Digit, int], ...]:
        """The components of a price, from the top."""
        real, imaginary = price.real, price.imag
        out = []
        for digit in self.digits:
            if digit.weight.real:
                count = math.floor(real / digit.weight.real + 1e-9)
                real -= count * digit.weight.real
            elif digit.weight.imag:
                count = math.floor(imaginary / digit.weight.imag + 1e-9)
                imaginary -= count * digit.weight.imag
            else:
                count = 0
            out.append((digit, count))
        return tuple(out)

    def harm(self, price: complex) -> Harm | None:
        """The harm of a price without work and names; None if some component has no digit in it."""
        if any(not digit.weight or digit.component == "work" for digit in self.digits):
            return None
        beyond = 0
        levels: dict[int, list[int]] = {}
        for digit, count in self.read(price):
            if digit.component == "pdb":
                beyond = count
            elif count:
                levels.setdefault(digit.level, [0, 0])[digit.component == "pods"] += count
        counts = ((level, gangs, pods) for level, (gangs, pods) in sorted(levels.items(), reverse=True))
        return Harm(beyond, (), tuple(counts), 0, 0, 0.0, ())


def _digits(sizes: list[tuple[str, int, int]]) -> list[Digit]:
    """Digits with room for ``sizes``; those for which there are no bits left weigh nothing."""
    bits = [max(1, math.ceil(math.log2(size))) for _, _, size in sizes]
    out: list[Digit] = []
    used, imaginary = 0, False
    places: list[tuple[bool, int]] = []
    for need in bits:
        if not imaginary and used + need > _BITS:
            used, imaginary = 0, True
        used += need
        places.append((imaginary, used))
    total = {False: sum(b for b, (i, _) in zip(bits, places, strict=True) if not i), True: _BITS - _WORK_BITS}
    for (component, level, _), (imaginary, end) in zip(sizes, places, strict=True):
        exponent = total[imaginary] - end
        weight = 0j
        if exponent >= 0:
            weight = complex(0.0, 2.0**exponent) if imaginary else complex(2.0**exponent, 0.0)
        out.append(Digit(component, level, weight))
    return out
