"""Victims of few owners: two pods of one Job rather than one of each of two, where nothing that counts more is lost.

How many owners lose pods is no sum over pods. So places are searched again at other prices instead of lost work. First
each pod costs the price of its owner, divided among all pods that the owner could give. Then it is divided among those
in the best choice so far. Budgets, gangs, the number of pods and their costs count before, as ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable

import numpy as np

from gangsched.core.arrays import Floats
from gangsched.core.preemption.candidates import Candidates, Interruption, Tariff
from gangsched.core.preemption.harm import weights, whose
from gangsched.core.preemption.places import Places
from gangsched.core.preemption.settle import Settler
from gangsched.core.preemption.units import Units

#: How often the places are searched again.
TURNS = 3
#: Among more pods that may leave no fewer owners are looked for.
_MOST = 20_000
#: The order of otherwise equal owners, in parts of one: their number, and then the lost work.
_RANK, _WORK = 1e-3, 1e-6


class OwnersOfPods:
    """The owners of those ``candidates`` that may leave by themselves, at the priorities of a choice of victims (slots)
    and beside the units that it interrupts.
    """

    def __init__(self, candidates: Candidates, taken: Collection[int]) -> None:
        self._c = c = candidates
        everything = set(taken)
        self._units = frozenset(n for n, unit in enumerate(c.units_of) if _interrupted(unit, c, everything))
        along = {s for n in self._units if c.units_of[n].whole for s in c.units_of[n].slots.tolist()}
        self._most = len(everything - along)
        self._highest = max((int(c.level[c.place[s]]) for s in taken if c.place[s] >= 0), default=0)
        self._owner_of: dict[int, Hashable] = {}
        if c.size <= _MOST and self._most > 1:
            may = c.slot[c.single & (c.level <= self._highest)].tolist()
            self._owner_of = {slot: whose(c.units.pod(slot)) for slot in may if slot not in along}
        self._could = Counter(self._owner_of.values())

    def may_be_fewer(self, taken: Collection[int]) -> bool:
        """Return whether as many pods could be those of fewer owners, wherever they run."""
        singles = self._owner_of.keys() & set(taken)
        mine = {self._owner_of[s] for s in singles}
        left = len(singles)
        for needed, (_, count) in enumerate(self._could.most_common(len(mine))):
            if left <= 0:
                return needed < len(mine)
            left -= count
        return False

    def works(self, taken: Collection[int] | None) -> Floats:
        """``(slots,)`` what pods cost by their owners, in place of the work lost with them: as far as these could give
        pods, or give some of those ``taken``.
        """
        table = self._c.units.snapshot.table
        out: Floats = np.zeros(table.size)
        if taken is None:
            share = {owner: 1.0 / min(count, self._most) for owner, count in self._could.items()}
        else:
            given = Counter(self._owner_of[s] for s in self._owner_of.keys() & set(taken))
            share = {owner: 1.0 / given.get(owner, 1) for owner in self._could}
        rank = {owner: _RANK * n / len(self._could) for n, (owner, _) in enumerate(self._could.most_common())}
        for slot, owner in self._owner_of.items():
            out[slot] = share[owner] + rank[owner]
        lost = self._c.work / (1.0 + float(self._c.work.sum()))
        out[self._c.slot] += _WORK * lost
        return weights(table.cost[: table.size], out)

    def chosen(self, other: Candidates, places: Places, *, hard: bool) -> frozenset[int] | None:
        """The victims where these candidates, the same at other prices, leave for the least; None if there are none."""
        below = (other.level <= self._highest) & ~(other.closed & hard)
        found = Settler(other, places, Tariff(other, below), below, hard=hard).settle(self._units)
        return None if found is None else other.slots_of(found.placing.gone, sorted(self._units))


def _interrupted(unit: Interruption, c: Candidates, taken: set[int]) -> bool:
    """Return whether a unit is interrupted where these slots leave."""
    if unit.whole:
        return Units.is_whole(unit.block, taken)
    limit = min((c.limited[n].limit for n in unit.limited), default=0)
    return sum(slot in taken for slot in unit.slots.tolist()) > limit
