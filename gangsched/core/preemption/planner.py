"""The search for victims, one priority level at a time, from the top.

Harm is compared level by level from the highest priority down, so the search goes the same way: with everything
below still taken, it finds the fewest gangs, then the fewest pods, that must go at this level, and only then looks
further down. Within a level two ways are tried and the better one kept: everything leaves and comes back as far as
the gang allows (*reprieve*), and nothing leaves but the most useful, one after another (*greedy*), followed by a
reprieve. At the end small exchanges are tried. No victim is left that could be put back.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from gangsched.core.preemption.counted import CountedFit
from gangsched.core.preemption.exact import Exact
from gangsched.core.preemption.exchange import Exchange
from gangsched.core.preemption.harm import Harm
from gangsched.core.preemption.search import Item
from gangsched.core.snapshot import Ints

#: More harm than any choice can do.
_WORST = Harm(2**62, (), 0.0, ())


class Choice(msgspec.Struct, frozen=True):
    """The victims: slots of the pod table; what they cost; what it took to find them.

    ``rows`` are nodes on which members (by UID) are known to fit then; empty where placing them is no search.
    """

    taken: frozenset[int]
    harm: Harm
    steps: int
    stopped: bool
    rows: dict[str, int]


class Search(Exchange):
    """One search for the least harmful choice."""

    def run(self) -> Choice | None:
        """The least harmful choice found, or None when the gang would not fit even with all of them gone."""
        loose = self.units.loose
        for block in self.units.blocks:
            self.taken.update(block.whole or self.surplus(block))
        self._take(sorted(self.taken), known=True)
        self.taken.update(loose.tolist())
        self.fit.take(loose)
        if not self._fits() and not self._other_surplus():
            return self._only_proof()
        items = [item for block in self.units.blocks for item in self._items(block)]
        if self.budgets:
            self._spare_budgets(items)
        pending: dict[int, list[Item]] = {}
        for item in items:
            if self._is_taken(item):
                pending.setdefault(item.level, []).append(item)
        priorities = self.units.snapshot.table.priority[loose]
        levels = {*pending, *np.unique(priorities).tolist()}
        while levels:
            level = max(levels)
            levels.discard(level)
            for rest in self._level(level, pending.pop(level, []), loose[priorities == level]):
                pending.setdefault(rest.level, []).append(rest)
                levels.add(rest.level)
        self._exchange()
        cost, taken = self._proved(self._harm(), frozenset(self.taken))
        return Choice(taken, cost, self._spent(), self.stopped, self.fit.rows(taken))

    def _other_surplus(self) -> bool:
        """Choose the surplus members of gangs that cannot be taken whole by how much they help instead."""
        bound = [b for b in self.units.blocks if not b.whole and any(len(p.single) > p.limit for p in b.parts)]
        if not bound:
            return False
        self._give([s for b in bound for s in b.singles])
        left = [self._single(b, s) for b in bound for s in b.singles]
        while left and not self._exhausted():
            gains = self.fit.gains([np.array(i.slots, dtype=np.int64) for i in left])
            self.steps += 1
            best = min(range(len(left)), key=lambda n: (-round(float(gains[n]), 9), left[n].level, left[n].name))
            item = left.pop(best)
            self._take([item.single])
            part = next(p for p in item.block.parts if item.single in p.single)
            if sum(1 for s in part.bound if s in self.taken) >= part.limit:
                left = [i for i in left if i.single not in part.single]
            if self._fits():
                return True
        return False

    def _only_proof(self) -> Choice | None:
        """No choice is known: with few units, look whether there is one at all."""
        cost, taken = self._proved(_WORST, frozenset())
        return None if cost is _WORST else Choice(taken, cost, self._spent(), self.stopped, self.fit.rows(taken))

    def _proved(self, cost: Harm, taken: frozenset[int]) -> tuple[Harm, frozenset[int]]:
        """With few units, look through everything that could be better."""
        exact = Exact(self.units, self.fit, self._harm_of, self._spend, lambda s: float(self._works[s]))
        if not exact.small:
            return cost, taken
        self.fit.give_back(np.array(sorted(self.taken), dtype=np.int64))
        self.taken = set()
        return exact.run(cost, taken)

    def _level(self, level: int, items: list[Item], loose: Ints) -> list[Item]:
        """Settle one level; returns surplus pods of lower priority that stay taken for their own level."""
        if len(loose) and self._give_back(loose.tolist()):
            loose = loose[:0]
        blocks = [i for i in items if i.single < 0]
        singles = [i for i in items if i.single >= 0]
        later: list[Item] = []
        if blocks:
            rest = self._best(blocks, self._give_back_blocks)
            singles += [i for i in rest if i.level == level]
            later = [i for i in rest if i.level != level]
        if len(loose) and isinstance(self.fit, CountedFit):
            if singles:
                loose = np.concatenate([np.array([i.single for i in singles], dtype=np.int64), loose])
            self._settle(self.fit, loose, tried=not singles)
            return later
        singles += [self._loose_item(s) for s in loose.tolist()]
        if singles:
            self._best(singles, self._give_back_singles)
        return later

    def _spare_budgets(self, items: Sequence[Item]) -> None:
        """Pods beyond a budget weigh more than anything else: put those units back first."""
        tried: set[int] = set()
        while not self.stopped:
            beyond = self.budgets.beyond([self.units.pod(s) for s in sorted(self.taken)])
            over = [
                (n, item)
                for n, item in enumerate(items)
                if n not in tried and self._is_taken(item) and any(self.units.pod(s).uid in beyond for s in item.slots)
            ]
            if not over:
                return
            for n, item in sorted(over, key=lambda e: (-e[1].level, -len(e[1].slots), e[1].name)):
                tried.add(n)
                if self._give_back(item.slots):
                    break
                surplus = self.surplus(item.block) if item.single < 0 else []
                if surplus and self._give_back([s for s in item.slots if s not in set(surplus)]):
                    break
