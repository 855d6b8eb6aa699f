"""The prices of members in a domain: in the room that is there, or with the pods that have to leave for them.

Both are bounds that are never too high. Each kind of members is counted alone, and several kinds together as if all
were as small as the smallest of them in each resource.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints
from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.planning.part_table import Counts
from gangsched.core.planning.topology import Level
from gangsched.core.preemption.candidates import NEVER, Prices, rank
from gangsched.core.preemption.demand import Demand
from gangsched.core.preemption.knapsack import choose
from gangsched.core.preemption.search import Search
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.model.records import Pod

#: Of more kinds than this, not every set of the largest ones is counted.
_EACH = 8
#: The possible error of sums over all nodes, as a share of the sum.
_ROUNDED = 1e-9
#: Nodes of a domain x members of a node up to which the table of a level is made at once.
_AT_ONCE = 1_000


def _sets(request: Floats) -> list[list[int]]:
    """Each kind alone, and the largest kinds together."""
    kinds = len(request)
    share = (request / np.maximum(request.max(axis=0, initial=0.0), 1e-9)).max(axis=1, initial=0.0)
    order: list[int] = np.argsort(-share, kind="stable").tolist()
    return [[k] for k in order] + [order[:n] for n in range(kinds, 1, -(1 + max(0, kinds - 1) // _EACH))]


class _Amounts:
    """The resources that members of each kind request, and what the nodes have that some kind may use: ``request``
    ``(K, R)``, ``room`` ``(R, N)``.
    """

    def __init__(self, request: Floats, room: Floats, usable: Bools) -> None:
        self._request = request
        self._room = np.where(usable, np.maximum(room, 0.0), 0.0)
        self._sums: dict[int, tuple[Level, Floats]] = {}

    def suffice(self, level: Level, number: int, members: Counts) -> bool:
        """Return False if a domain has less of some resource than these members request together."""
        if id(level) not in self._sums:
            inside = level.codes >= 0
            codes, size = level.codes[inside], len(level.names)
            sums = [np.bincount(codes, weights=row[inside], minlength=size) for row in self._room]
            self._sums[id(level)] = level, np.array(sums, dtype=np.float64).reshape(len(sums), size)
        kinds, counts = [kind for kind, _ in members], [count for _, count in members]
        asked = np.array(counts, dtype=np.float64) @ self._request[kinds]
        return bool((asked <= self._sums[id(level)][1][:, number] * (1.0 + _ROUNDED)).all())


class RoomPrices:
    """Members in the room that a simulation has. A price is the share of the room in the domain that is left over: the
    domains that are filled best come first.
    """

    miss = 1e3j

    def __init__(self, pipeline: Pipeline, sim: Simulation, members: Sequence[Pod]) -> None:
        self._sim = sim
        classes: dict[int, PodClass] = {}
        for pod_class in sim.classes_of(members):
            classes.setdefault(pod_class.ident, pod_class)
        self._kind = {ident: n for n, ident in enumerate(classes)}
        request = np.zeros((len(classes), len(sim.free)))
        for n, pod_class in enumerate(classes.values()):
            index, amounts = sim.snapshot.vector(pod_class.shape)
            request[n, index] = amounts
        masks = [pipeline.static_mask(pod_class, sim) for pod_class in classes.values()]
        self._sets: list[tuple[list[int], Floats]] = []
        for kinds in _sets(request):
            least = request[kinds].min(axis=0)
            used = least > 0
            room = (np.maximum(sim.free[used], 0.0) / least[used, None]).min(axis=0, initial=float(len(members)))
            self._sets.append((kinds, np.floor(room) * np.logical_or.reduce([masks[k] for k in kinds])))
        usable = np.logical_or.reduce(masks) if masks else np.zeros(sim.snapshot.size, dtype=np.bool_)
        self._amounts = _Amounts(request, sim.free, usable) if len(classes) > 1 else None
        self._room: dict[int, list[Floats]] = {}
        self._levels: list[Level] = []

    def kind_of(self, pod: Pod) -> int:
        """Return the kind of a member."""
        return self._kind[self._sim.class_of(pod).ident]

    def price(self, level: Level, number: int, members: Counts) -> complex:
        """Return the share of the room that is left over; NEVER if there is too little."""
        rooms, counts, left = self._rooms(level), dict(members), 0.0
        for (kinds, _), room in zip(self._sets, rooms, strict=True):
            asked = sum(counts.get(kind, 0) for kind in kinds)
            if asked > room[number]:
                return NEVER
            if asked:
                left = max(left, (room[number] - asked) / (1.0 + room.max()))
        if len(members) > 1 and self._amounts is not None and not self._amounts.suffice(level, number, members):
            return NEVER
        return complex(0.0, left)

    def _rooms(self, level: Level) -> list[Floats]:
        found = self._room.get(id(level))
        if found is None:
            inside = level.codes >= 0
            codes, size = level.codes[inside], len(level.names)
            found = [np.asarray(np.bincount(codes, room[inside], size), dtype=np.float64) for _, room in self._sets]
            self._room[id(level)] = found
            self._levels.append(level)
        return found


class Shortage(RoomPrices):
    """How many members find no room, instead of the room that is left over: what comes nearest comes first."""

    def price(self, level: Level, number: int, members: Counts) -> complex:
        """Return how many of these members find no room in a domain."""
        rooms, counts, short = self._rooms(level), dict(members), 0.0
        for (kinds, _), room in zip(self._sets, rooms, strict=True):
            short = max(short, sum(counts.get(kind, 0) for kind in kinds) - room[number])
        return complex(short, 0.0)


class VictimPrices:
    """Members in the room of pods that leave: the least price of these, beside the unit ``gone`` that leaves anyway."""

    miss = 1e-9j

    def __init__(self, search: Search, *, lower: bool = False, gone: int | None = None) -> None:
        demand: Demand = search.demand
        self._kind = {pod.uid: n for n, pods in enumerate(demand.members) for pod in pods}
        sets = _sets(demand.request)
        curves: Callable[[list[int]], Prices] = search.curves(lower=lower, gone=gone)
        self._sets = [(kinds, curves(kinds), sum(demand.need[k] for k in kinds)) for kinds in sets]
        room = demand.resources.without(search.units.everything()) if len(sets) > 1 else demand.resources.free
        self._amounts = _Amounts(demand.request, room, np.logical_or.reduce(demand.mask))
        self._tables: dict[tuple[int, int], Prices] = {}
        self._chosen: dict[tuple[int, int, int, int], complex] = {}
        self._levels: list[Level] = []

    def kind_of(self, pod: Pod) -> int:
        """Return the kind of a member."""
        return self._kind[pod.uid]

    def price(self, level: Level, number: int, members: Counts) -> complex:
        """Return the least price of the pods that have to leave, as far as the bound tells."""
        counts, worst = dict(members), 0j
        if len(members) > 1 and not self._amounts.suffice(level, number, members):
            return NEVER
        for n, (kinds, curves, most) in enumerate(self._sets):
            asked = sum(counts.get(kind, 0) for kind in kinds)
            if asked:
                worst = max(worst, self._of(n, curves, most, level, number, asked), key=rank)
        return NEVER if worst.real >= NEVER.real else worst

    def _of(self, n: int, curves: Prices, most: int, level: Level, number: int, asked: int) -> complex:
        if (n, id(level)) not in self._tables:
            self._levels.append(level)
            sizes = np.bincount(level.codes[level.codes >= 0], minlength=1)
            fast = len(curves) * int(sizes.max()) <= _AT_ONCE
            self._tables[n, id(level)] = _table(curves, level, most) if fast else np.zeros((0, 0), dtype=np.complex128)
        table = self._tables[n, id(level)]
        if table.size:
            return complex(table[number, asked])
        key = n, id(level), number, asked
        if key not in self._chosen:
            found = choose(curves[:, level.codes == number], asked)
            self._chosen[key] = NEVER if found is None else found.price
        return self._chosen[key]


def _table(curves: Prices, level: Level, most: int) -> Prices:
    """``(D, most + 1)`` the least price of so many members in each domain: node after node, in all domains at once."""
    domains = len(level.names)
    table: Prices = np.full((domains, most + 1), NEVER)
    table[:, 0] = 0j
    usable = np.flatnonzero((level.codes >= 0) & (curves.real.min(axis=0, initial=NEVER.real) < NEVER.real))
    rows: Ints = usable[np.argsort(level.codes[usable], kind="stable")]
    codes = level.codes[rows]
    starts = np.searchsorted(codes, codes)
    for turn in range(int((np.arange(len(rows)) - starts).max(initial=-1)) + 1):
        here = rows[np.arange(len(rows)) - starts == turn]
        at = level.codes[here]
        before, now = table[at], table[at].copy()
        for x in range(1, min(len(curves), most) + 1):
            np.minimum(now[:, x:], before[:, : most + 1 - x] + curves[x - 1, here, None], out=now[:, x:])
        table[at] = now
    table[table.real >= NEVER.real] = NEVER
    return table
