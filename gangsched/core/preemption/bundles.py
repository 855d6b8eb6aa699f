"""Whole gangs and single pods of one level chosen together.

How many gangs a level must give, and which, depends on what single pods beside them can do, and the other way round.
So sets of gangs are grown one gang at a time, a few of the most promising kept at each size (a *beam*), each
completed with the fewest single pods; the best is then improved by exchanging one gang after another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from gangsched.core.preemption.attempts import Attempts
from gangsched.core.preemption.budgets import Budgets
from gangsched.core.preemption.counted import CountedFit
from gangsched.core.preemption.fewest import Fewest, Offer, Room
from gangsched.core.preemption.harm import Harm
from gangsched.core.preemption.packed import PackedFit
from gangsched.core.preemption.search import PODS_PER_STEP, Item
from gangsched.core.preemption.units import Part, Units
from gangsched.core.state.snapshot import Ints

#: Sets of gangs kept at each size, and sets of one size that are completed with single pods.
_WIDTH = 5
_COMPLETED = 20
_EXCHANGED = 8
#: Levels with more gangs, or more pods in them, are too large for this.
_MOST_GANGS = 500
_MOST_PODS = 6000
#: Members of so many classes, one after another, may need room.
_TURNS = 12
_SETS_PER_STEP = 120


class _Level(msgspec.Struct):
    """What one level has to offer: gangs as wholes, single pods by slot, and those of lower priority that stay taken
    unless their gang goes as a whole. ``room`` ``(budgets,)`` is what budgets allow beside what is decided, ``draws``
    ``(gangs, budgets)`` what each gang takes of it. ``base`` is the state with nothing of this level taken.
    """

    level: int
    gangs: list[Item]
    options: list[np.ndarray[tuple[int], np.dtype[np.int64]]]
    room: Ints
    draws: Ints
    pool: dict[int, Item]
    later: dict[int, Item]
    below: set[int]
    base: object
    taken: set[int]
    until: int
    known: dict[frozenset[int], tuple[Harm, object, set[int]] | None] = {}
    most: dict[frozenset[int], list[int]] = {}
    prices: tuple[float, float] = (1.0, 1.0)
    fewest: dict[int, int] = {}  # by number of gangs: pods of the best set of so many


class Bundles(Attempts):
    """Levels with gangs, in clusters that are not too large."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._bundles = not len(self.units.loose)
        self._bundled_some = False
        self._reserved = True
        self._share = 1.0  # of the steps that are left, for one level
        self._allowance = 0  # pods that may go beyond budgets
        self._groups = _Groups(self.units, self.budgets)
        self._few = Fewest(1.0 / (1.0 + float(self._works.sum())))

    def _bundled(self, level: int, blocks: list[Item], singles: list[Item]) -> list[Item] | None:
        """Settle a level with these gangs and single pods, all of them taken now. Returns the pods of lower priority
        that stay taken for their own level; None, with everything as it was, when nothing was found.
        """
        if (
            self._exhausted()
            or len(blocks) > _MOST_GANGS
            or sum(len(i.slots) for i in blocks) + len(singles) > _MOST_PODS
        ):
            return None
        self._bundled_some = True
        start = self.fit.save(), set(self.taken)
        lot = self._lot(level, blocks, singles)
        best = self._grown(lot)
        if best is None:
            self.fit.restore(start[0])
            self.taken = start[1]
            return None
        chosen = self._exchanged(lot, best)
        found = lot.known[chosen]
        assert found is not None
        self.fit.restore(found[1])
        self.taken = set(found[2])
        return [i for s, i in lot.later.items() if s in self.taken and not self.units.is_whole(i.block, self.taken)]

    def _lot(self, level: int, blocks: list[Item], singles: list[Item]) -> _Level:
        """Put everything of this level back, but surplus of lower priority."""
        pool = {i.single: i for i in singles}
        later: dict[int, Item] = {}
        for item in blocks:
            for slot in self.surplus(item.block):
                single = self._single(item.block, slot)
                if single.level < level:
                    later[slot] = single
        self._give([s for i in blocks for s in i.slots if s not in later])
        self._give(list(pool))
        for block in self.units.blocks:
            if block.priority >= level and not self.units.is_whole(block, self.taken):
                for slot in block.singles:
                    if slot not in pool and slot not in self.taken and self.units.pod(slot).priority == level:
                        pool[slot] = self._single(block, slot)
        options = [i.block.array for i in blocks]
        decided = self._by_budget(self._charged(self._below(level)))
        draws = [self._by_budget(set(i.slots) - self.taken) for i in blocks]
        allowed = np.array([max(0, n) for n in self.budgets.allowed.values()], dtype=np.int64)
        until = self._spent() + int(self._share * (self.max_steps - self._spent()))
        return _Level(
            level,
            blocks,
            options,
            allowed - decided,
            np.array(draws).reshape(len(blocks), len(allowed)),
            pool,
            later,
            self._below(level),
            self.fit.save(),
            set(self.taken),
            until,
        )

    def _draws(self, slots: Iterable[int]) -> Counter[str]:
        """How many of these pods each budget is charged for."""
        return self.budgets.draws(map(self.units.pod, slots))

    def _by_budget(self, slots: Iterable[int]) -> Ints:
        """The same, ``(budgets,)``."""
        drawn = self._draws(slots)
        return np.array([drawn[key] for key in self.budgets.allowed], dtype=np.int64)

    def _charged(self, below: set[int]) -> set[int]:
        """What is taken and draws on budgets: what of lower priority is taken does so only where it was chosen so that
        budgets allow it.
        """
        return set(self.taken) if self._reserved else self.taken - below

    def _affordable(self, lot: _Level, chosen: frozenset[int]) -> list[bool]:
        """Of each gang: do the budgets allow it to go beside those chosen, as far as budgets can be kept at all?"""
        room = lot.room - lot.draws[sorted(chosen)].sum(axis=0)
        found: list[bool] = (np.maximum(0, lot.draws - room).sum(axis=1) <= self._allowance).tolist()
        return found

    def _below(self, level: int) -> set[int]:
        """What is taken and counts under a lower priority: it is decided later."""
        out = {s for s in self.units.loose_taken(self.taken) if self.units.pod(s).priority < level}
        for block in self.units.touched(self.taken):
            gone = [s for part in block.parts for s in part.bound if s in self.taken]
            if self.units.is_whole(block, self.taken):
                out.update(gone if block.priority < level else ())
            else:
                out.update(s for s in gone if self.units.pod(s).priority < level)
        return out

    # -- sets of gangs -------------------------------------------------------------------------------------

    def _grown(self, lot: _Level) -> frozenset[int] | None:
        """The best set found of the fewest gangs that are enough, as indices."""
        beam: list[frozenset[int]] = [frozenset()]
        if self._completed(lot, beam[0]):
            return beam[0]
        for _ in range(len(lot.gangs)):
            children: dict[frozenset[int], tuple[float, float]] = {}
            for chosen in beam:
                if self._late(lot):
                    return None
                soft = self._shortfalls(lot, chosen, True)
                bare = self._shortfalls(lot, chosen, False)
                affordable = self._affordable(lot, chosen)
                for n, (s, h) in enumerate(zip(soft, bare, strict=True)):
                    child = chosen | {n}
                    if n not in chosen and (child in children or affordable[n]):
                        children[child] = min(children.get(child, (np.inf, np.inf)), (s, h))
            if not children:
                return None
            sizes = {c: sum(len(lot.gangs[n].slots) for n in c) for c in children}
            hard = {c: h for c, (s, h) in children.items() if s <= 0}
            enough = self._promising(lot, hard, sizes, _COMPLETED)
            done = [c for c in enough if not self._late(lot) and self._completed(lot, c)]
            if done:
                return min(done, key=lambda c: self._cost(lot, c))
            ranked = sorted(children, key=lambda c: (round(children[c][0], 6), sizes[c], sorted(c)))
            beam = ranked[:_WIDTH]
            for chosen in beam[:4]:
                if (
                    not self._late(lot)
                    and (children[chosen][0] <= 2 or len(chosen) == len(lot.gangs))
                    and self._completed(lot, chosen)
                ):
                    return chosen
        return None

    def _exchanged(self, lot: _Level, best: frozenset[int]) -> frozenset[int]:
        """One gang for another, as long as that is less harmful; and one gang fewer, if two others do."""
        improved = True
        while improved and not self._late(lot):
            improved = False
            for out in sorted(best, key=lambda n: (-len(lot.gangs[n].slots), n)):
                if self._late(lot):
                    return best
                rest = best - {out}
                soft = self._shortfalls(lot, rest, True)
                hard = self._shortfalls(lot, rest, False)
                affordable = self._affordable(lot, rest)
                others = {rest | {n}: hard[n] for n, s in enumerate(soft) if s <= 0 and n not in best and affordable[n]}
                sizes = {c: sum(len(lot.gangs[n].slots) for n in c) for c in others}
                for other in self._promising(lot, others, sizes, _EXCHANGED):
                    if self._late(lot):
                        return best
                    if self._completed(lot, other) and self._cost(lot, other) < self._cost(lot, best):
                        best, improved = other, True
                        break
                if improved:
                    break
        return best

    @staticmethod
    def _promising(
        lot: _Level, hard: dict[frozenset[int], float], sizes: dict[frozenset[int], int], most: int
    ) -> list[frozenset[int]]:
        """Sets that single pods can complete, by their shortfall without those: the best at the price in pods that a
        member had on average, and the best at that of the dearest member.
        """
        out: list[frozenset[int]] = []
        for price in lot.prices:
            ranked = sorted(hard, key=lambda c: (round(sizes[c] + price * hard[c], 6), sorted(c)))
            out += [c for c in ranked[: most // 2] if c not in out]
        return out

    def _late(self, lot: _Level) -> bool:
        return self._spent() >= lot.until or self._exhausted()

    def _cost(self, lot: _Level, chosen: frozenset[int]) -> Harm:
        found = lot.known[chosen]
        assert found is not None
        return found[0]

    def _shortfalls(self, lot: _Level, chosen: frozenset[int], soft: bool) -> list[float]:
        """The shortfall with these gangs gone and each of the others in addition; ``soft`` with all single
        pods too, more than may go: what is not enough then never is.
        """
        self._enter(lot, chosen)
        if soft:
            self._take(self._most(lot, chosen))
        options = [np.array([s for s in o.tolist() if s not in self.taken], dtype=np.int64) for o in lot.options]
        gains = np.zeros(len(options))
        some = [n for n, o in enumerate(options) if len(o)]
        gains[some] = self._gains([options[n] for n in some])
        return [float(v) for v in self.fit.shortfall() - gains]

    def _enter(self, lot: _Level, chosen: frozenset[int]) -> None:
        self.fit.restore(lot.base)
        self.taken = set(lot.taken)
        self._take([s for n in sorted(chosen) for s in lot.gangs[n].slots if s not in self.taken])

    def _most(self, lot: _Level, chosen: frozenset[int]) -> list[int]:
        """Single pods that make room for as many members as possible, of each gang no more than it can spare."""
        found = lot.most.get(chosen)
        if found is None:
            gone = {lot.gangs[n].block.number for n in chosen}
            pool = {s: i for s, i in lot.pool.items() if i.block.number not in gone}
            alone = self.fit.lacking_alone() if isinstance(self.fit, PackedFit) else None
            found = [] if self._fits() else self._choose(lot, pool, partly=True, room=alone) or []
            lot.most[chosen] = found
        return found

    def _completed(self, lot: _Level, chosen: frozenset[int]) -> bool:
        """Add the fewest single pods with which the gang fits; False when none are enough."""
        if chosen not in lot.known:
            self._enter(lot, chosen)
            lot.known[chosen] = None
            hard = self.fit.shortfall()
            gone = {lot.gangs[n].block.number for n in chosen}
            pool = {s: i for s, i in lot.pool.items() if i.block.number not in gone}
            size = sum(len(lot.gangs[n].slots) for n in chosen)
            fewer = lot.fewest.get(len(chosen), np.inf) - size
            added = self._fewest(lot, pool, fewer) if fewer > 0 else None
            if added is not None:
                if hard > 0.5:
                    lot.prices = len(added) / hard, self._few.margin
                lot.fewest[len(chosen)] = min(lot.fewest.get(len(chosen), size + len(added)), size + len(added))
                lot.known[chosen] = self._harm_of(self.taken - lot.below), self.fit.save(), set(self.taken)
        return lot.known[chosen] is not None

    def _fewest(self, lot: _Level, pool: dict[int, Item], fewer: float) -> list[int] | None:
        """Take the fewest of these single pods with which the gang fits; None when none are enough."""
        first = self.fit.lacking_alone() if isinstance(self.fit, PackedFit) else None
        start = self.fit.save(), set(self.taken)
        found = self._filled(lot, pool, fewer)
        if first is None:
            return found
        # Members of several classes: room for the main one as if it was alone may turn out to be room for all.
        best = found, self.fit.save(), self.taken
        self.fit.restore(start[0])
        self.taken = start[1]
        other = self._filled(lot, pool, fewer if found is None else len(found), first)
        if other is None or (found is not None and len(found) <= len(other)):
            self.fit.restore(best[1])
            self.taken = best[2]
            return found
        return other

    def _filled(self, lot: _Level, pool: dict[int, Item], fewer: float, first: Room | None = None) -> list[int] | None:
        """Take single pods, class by class, until the gang fits, and put back what is not needed then."""
        added: list[int] = []
        left = dict(pool)
        for _ in range(_TURNS):
            if self._fits():
                self._give_back_singles(sorted((pool[s] for s in added), key=lambda i: (i.size, -i.work, i.name)))
                return [s for s in added if s in self.taken]
            chosen = self._choose(lot, left, fewer=fewer - len(added), room=first)
            first = None
            if not chosen:
                return None
            self._take(chosen)
            added += chosen
            left = {s: i for s, i in left.items() if s not in self.taken}
        return None

    def _choose(
        self,
        lot: _Level,
        pool: dict[int, Item],
        *,
        partly: bool = False,
        fewer: float = np.inf,
        room: Room | None = None,
    ) -> list[int] | None:
        room = room or self.fit.lacking()
        if room is None:
            if isinstance(self.fit, CountedFit):
                return self._within_surplus(self.fit, pool)
            return [i.single for i in self._take_limited(list(pool.values()))]
        table = self.units.snapshot.table
        groups = {slot: self._groups.of(item) for slot, item in sorted(pool.items())}
        spare = self._groups.spare(self.taken, self._charged(lot.below))
        offers = [
            Offer(slot, int(table.row[slot]), self.fit.holds(slot), pool[slot].work, mine)
            for slot, mine in groups.items()
            if all(spare[group] > 0 for group in mine)
        ]
        before = self._few.work
        chosen = self._few.choose(room, offers, spare, partly=partly, fewer=fewer)
        self.steps += 1 + len(offers) // PODS_PER_STEP + (self._few.work - before) // _SETS_PER_STEP
        return chosen


class _Groups:
    """Pods of which only some may go: those of a gang that can spare some, and those under a disruption budget."""

    def __init__(self, units: Units, budgets: Budgets) -> None:
        self._units, self._budgets = units, budgets
        self._numbers: dict[object, int] = {}
        self._sources: list[Part | str] = []
        self._known: dict[int, tuple[int, ...]] = {}

    def of(self, item: Item) -> tuple[int, ...]:
        """The numbers of the groups that a pod belongs to."""
        found = self._known.get(item.single)
        if found is None:
            out = []
            part = next(p for p in item.block.parts if item.single in p.single)
            if part.limit < len(part.single):
                out.append(self._number(id(part), part))
            budgets = self._budgets.matching(self._units.pod(item.single))
            out += [self._number(budget.key, budget.key) for budget in budgets]
            found = self._known[item.single] = tuple(out)
        return found

    def _number(self, key: object, source: Part | str) -> int:
        number = self._numbers.setdefault(key, len(self._sources))
        if number == len(self._sources):
            self._sources.append(source)
        return number

    def spare(self, taken: set[int], charged: set[int]) -> dict[int, int]:
        """How many more pods of each group may go beside those taken, of which some are charged to budgets."""
        used: Counter[str] = Counter()
        if self._budgets:
            used = self._budgets.draws(map(self._units.pod, charged))
        return {
            number: self._budgets.allowed[source] - used[source]
            if isinstance(source, str)
            else source.limit - sum(1 for s in source.bound if s in taken)
            for number, source in enumerate(self._sources)
        }
