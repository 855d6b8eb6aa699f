"""The search for victims, one priority level at a time, from the top.

Harm is compared level by level from the highest priority down, so the search goes the same way: with everything
below still taken, it finds the fewest gangs, then the fewest pods, that must go at this level, and only then looks
further down. Within a level two ways are tried and the better one kept: everything leaves and comes back as far as
the gang allows (*reprieve*), and nothing leaves but the most useful, one after another (*greedy*), followed by a
reprieve. At the end small exchanges are tried. No victim is left that could be put back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from gangsched.core.preemption.counted import CountedFit
from gangsched.core.preemption.exact import Exact
from gangsched.core.preemption.exchange import Exchange
from gangsched.core.preemption.harm import Harm
from gangsched.core.preemption.search import Item
from gangsched.core.state.snapshot import Ints

#: Up to so many units that draw on overdrawn budgets are put back one by one.
_SPARED_ONE_BY_ONE = 100
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
        self._take_all()
        if not self._fits() and not self._other_surplus():
            return self._only_proof()
        items = self._taken_items()
        self._bundles = self._bundles and not self._exact().small  # few units are all tried in the end
        everything = self.fit.save(), set(self.taken)
        if self.budgets:
            self._spare_budgets(items)
            self._allowance = len(self._beyond())
        spared = self.fit.save(), set(self.taken)
        starts = [(False, False, spared)]
        if self._bundles:
            starts.insert(0, (True, True, spared))
        if self._bundles and len(self.taken) < len(everything[1]):
            starts[1:1] = [(True, False, spared), (True, False, everything)]
        self._least(starts, items)
        self._exchange()
        self._reprieve()
        cost, taken = self._proved(self._harm(), frozenset(self.taken))
        return Choice(taken, cost, self._spent(), self.stopped, self.fit.rows(taken))

    def _reprieve(self) -> None:
        """Put back every victim that the gang can do without, however little of the budget is left.

        Halves: as many as possible at once, so that it takes one question per unit that has to go and few for the
        others. The most harmful come back first, and of those the ones on the most crowded nodes, which are the least
        likely to be needed.
        """
        wholes = [self._whole(b) for b in self.units.touched(self.taken) if self.units.is_whole(b, self.taken)]
        gone = {s for item in wholes for s in item.slots}
        loose = set(self.units.loose_taken(self.taken))
        singles = sorted(self.taken - gone)
        items = wholes + [self._loose_item(s) if s in loose else self._single_of(s) for s in singles]
        rows = self.units.snapshot.table.row
        crowd = Counter(int(rows[s]) for item in items for s in item.slots)
        first = {id(item): int(rows[item.slots[0]]) for item in items}
        items.sort(key=lambda i: (-i.level, i.single >= 0, -crowd[first[id(i)]], first[id(i)], -i.work, i.name))
        stack = [items]
        spent = self.fit.steps
        while stack:
            some = stack.pop()
            slots = np.array([s for item in some for s in item.slots], dtype=np.int64)
            if not len(slots):
                continue
            self.fit.give_back(slots)
            if self.fit.fits():
                self.taken.difference_update(slots.tolist())
                continue
            self.fit.take(slots)
            if len(some) > 1:
                middle = len(some) // 2
                stack += [some[middle:], some[:middle]]
            elif some[0].single < 0:
                surplus = set(self.surplus(some[0].block))
                core = np.array([s for s in some[0].slots if s not in surplus], dtype=np.int64)
                if len(core) and len(core) < len(slots):
                    self.fit.give_back(core)
                    if self.fit.fits():
                        self.taken.difference_update(core.tolist())
                    else:
                        self.fit.take(core)
        self.fit.steps = spent

    def _least(self, starts: Sequence[tuple[bool, bool, tuple[Any, set[int]]]], items: Sequence[Item]) -> None:
        """Settle all levels from each of these starts; the least harmful end is kept. The first flag says whether
        bundles are used, the second that budgets are reserved for what is taken at lower levels.
        """
        best: tuple[Harm, Any, set[int]] | None = None
        for number, (bundles, reserved, (state, taken)) in enumerate(starts):
            if best is not None and self._exhausted():
                break
            self.fit.restore(state)
            self.taken = set(taken)
            self._bundles = bundles
            self._reserved = reserved
            self._share = 1.0 / (len(starts) - number)
            self._levels(items)
            if not self._bundled_some:  # no level was small enough: further starts would end here too
                return
            cost = self._harm()
            if self._fits() and self._closed() and (best is None or cost < best[0]):
                best = cost, self.fit.save(), set(self.taken)
        if best is not None:
            self.fit.restore(best[1])
            self.taken = best[2]

    def _beyond(self) -> set[str]:
        return self.budgets.beyond([self.units.pod(s) for s in sorted(self.taken)])

    def _levels(self, items: Sequence[Item]) -> None:
        """Settle level after level, from the highest down."""
        pending: dict[int, list[Item]] = {}
        for item in items:
            if self._is_taken(item):
                pending.setdefault(item.level, []).append(item)
        loose = self._loose_left()
        priorities = self.units.snapshot.table.priority[loose]
        levels = {*pending, *np.unique(priorities).tolist()}
        while levels:
            level = max(levels)
            levels.discard(level)
            for rest in self._level(level, pending.pop(level, []), loose[priorities == level]):
                pending.setdefault(rest.level, []).append(rest)
                levels.add(rest.level)

    def _take_all(self) -> None:
        """Take all that may leave. Where more never hurts, no higher priority than has to: whatever is above would come
        back at once.
        """
        slots, levels = self._everything()
        if self.budgets or not (isinstance(self.fit, CountedFit) and self.fit.monotone):
            self.fit.take(slots)
        else:
            for level in np.unique(levels).tolist():
                self.fit.take(slots[levels == level])
                if self._fits():
                    slots = slots[levels <= level]
                    break
        self.taken = set(slots.tolist())

    def _other_surplus(self) -> bool:
        """Choose the surplus members of gangs that cannot be taken whole by how much they help instead."""
        bound = [b for b in self.units.blocks if not b.whole and any(len(p.single) > p.limit for p in b.parts)]
        if not bound:
            return False
        self._give([s for b in bound for s in b.singles])
        left = [self._single(b, s) for b in bound for s in b.singles]
        while left and not self._exhausted():
            gains = self._gains([np.array(i.slots, dtype=np.int64) for i in left])
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
        self.units.cut_short = cost is _WORST and self.stopped
        return None if cost is _WORST else Choice(taken, cost, self._spent(), self.stopped, self.fit.rows(taken))

    def _exact(self) -> Exact:
        work = self._works
        return Exact(self.units, self.fit, self._harm_of, self._spend, lambda s: float(work[s]), self._entangled)

    def _entangled(self) -> bool:
        matching = self.budgets.matching
        return bool(self.budgets) and any(
            len(matching(self.units.pod(s))) > 2 for b in self.units.blocks for s in (*b.whole, *b.singles)
        )

    def _proved(self, cost: Harm, taken: frozenset[int]) -> tuple[Harm, frozenset[int]]:
        """With few units, look through everything that could be better."""
        exact = self._exact()
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
        if self._bundles and not len(loose) and items:
            found = self._bundled(level, blocks, singles)
            if found is not None:
                return found
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

    def _alone(self, items: Sequence[Item]) -> list[float]:
        """What each would gain if nothing else was taken."""
        state = self.fit.save()
        self.fit.give_back(np.array(sorted(self.taken), dtype=np.int64))
        gains = self._gains([np.array(i.slots, dtype=np.int64) for i in items])
        self.fit.restore(state)
        return [float(gain) for gain in gains]

    def _spare_budgets(self, items: Sequence[Item]) -> None:
        """Pods beyond a budget weigh more than anything else: put back units that draw on such a budget, those of high
        priority first, so that what the budget allows is left to those below.
        """
        drawn = [self._draws(item.slots) for item in items]
        useful = self._alone(items)
        used = self._draws(sorted(self.taken))
        order = [n for n, draws in enumerate(drawn) if draws and self._is_taken(items[n])]
        order.sort(key=lambda n: (-items[n].level, round(useful[n] / drawn[n].total(), 9), items[n].name))
        # Where taking more never hurts, trying many at once and halving on refusal ends in the same set as trying each.
        stack = [order] if len(order) > _SPARED_ONE_BY_ONE else [[n] for n in reversed(order)]
        while stack and not self.stopped:
            some = stack.pop()
            due, ahead = [], used.copy()
            for n in some:
                if any(ahead[key] > self.budgets.allowed[key] for key in drawn[n]):
                    due.append(n)
                    ahead.subtract(drawn[n])
            if not due:
                continue  # and never again, as less and less is used
            if self._give_back([s for n in due for s in items[n].slots]):
                used = ahead
            elif len(due) > 1:
                middle = len(some) // 2
                stack += [some[middle:], some[:middle]]
            else:
                item = items[due[0]]
                surplus = set(self.surplus(item.block)) if item.single < 0 else set()
                core = [s for s in item.slots if s not in surplus]
                if surplus and self._give_back(core):
                    used.subtract(self._draws(core))
                stack.append(some[some.index(due[0]) + 1 :])
