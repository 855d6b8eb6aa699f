"""Ways to settle one level: which of these gangs or pods go, with everything below still taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from gangsched.core.preemption.counted import CountedFit
from gangsched.core.preemption.harm import Harm
from gangsched.core.preemption.search import PODS_PER_STEP, Item, SearchState
from gangsched.core.state.snapshot import Ints

#: With more pods than this in the items of a level, only the quickest way is tried.
_HEAVY_PODS = 2500
#: How often a choice among all single pods is mended when it takes more of a gang than its surplus.
_POOL_ROUNDS = 30
#: Levels with more items than this are searched greedily only: reprieve from "all taken" would cost too much.
REPRIEVE_ITEMS = 400


class Attempts(SearchState):
    """*Reprieve*: everything leaves and comes back in some order as far as the gang allows. *Greedy* and *pooled*:
    nothing leaves but what helps most. The least harmful outcome is kept.
    """

    def _best(self, items: list[Item], reprieve: Callable[[list[Item]], list[Item]]) -> list[Item]:
        """Try the ways to settle these items and keep the least harmful outcome."""
        if self._give_back([s for i in items for s in i.slots]):
            return []
        counted = isinstance(self.fit, CountedFit) and items[0].single >= 0
        if len(items) > REPRIEVE_ITEMS and not counted:
            items = self._shrink(items)
        start = self.fit.save(), set(self.taken)
        best: tuple[Harm, object, set[int], list[Item]] | None = None
        attempts = self._attempts(items, reprieve)
        for number, attempt in enumerate(attempts):
            if self._exhausted() and (number or not isinstance(self.fit, CountedFit)):  # to count once more is cheap
                break
            self.fit.restore(start[0])
            self.taken = set(start[1])
            rest = attempt()
            if not self._fits():
                continue
            if len(attempts) == 1:
                return rest
            cost = self._harm()
            if best is None or cost < best[0]:
                best = cost, self.fit.save(), set(self.taken), rest
        if best is None:
            self.fit.restore(start[0])
            self.taken = start[1]
            return []
        self.fit.restore(best[1])
        self.taken = best[2]
        return best[3]

    def _shrink(self, items: list[Item]) -> list[Item]:
        """Of very many items keep the most useful that are enough together, and give the others back.

        Usefulness is members gained per pod: of a gang for itself, of single pods for all on one node together,
        since a member often needs the room of several.
        """
        groups: dict[tuple[int, int], list[Item]] = {}
        rows = self.units.snapshot.table.row
        for n, item in enumerate(items):
            groups.setdefault((1, int(rows[item.single])) if item.single >= 0 else (0, n), []).append(item)
        parts = list(groups.values())
        slots = [
            part[0].block.array if part[0].single < 0 else np.array([i.single for i in part], dtype=np.int64)
            for part in parts
        ]
        everything = np.concatenate(slots)
        self.taken.difference_update(everything.tolist())
        self.fit.give_back(everything)
        gains = self._gains(slots)
        ratio = np.round(gains / np.array([len(s) for s in slots]), 9)
        work = np.array([sum(i.work for i in part) for part in parts])
        names = np.array([part[0].name for part in parts])
        order = np.lexsort((names, work, -ratio)).tolist()
        low, high = 0, len(order)  # with all of them the gang fits, with none it does not
        base = self.fit.save()
        now = 0  # so many of them are taken

        def enough(first: int) -> bool:
            nonlocal now
            moved = np.concatenate([slots[n] for n in order[min(now, first) : max(now, first)]])
            (self.fit.take if first > now else self.fit.give_back)(moved)
            now = first
            self.steps += 1 + len(moved) // PODS_PER_STEP
            return self.fit.fits()

        guess = int(np.searchsorted(np.cumsum(gains[order]), self.fit.shortfall())) + 1
        while guess < high and not self._exhausted():  # what is needed is mostly a small part: look there first
            if enough(guess):
                high = guess
            else:
                low, guess = guess, guess * 2
        while high - low > 1 and not self._exhausted():
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        self.fit.restore(base)
        kept = order[:high]
        self._take(np.concatenate([slots[n] for n in kept]).tolist())
        return [item for n in kept for item in parts[n]]

    def _attempts(
        self, items: list[Item], reprieve: Callable[[list[Item]], list[Item]]
    ) -> list[Callable[[], list[Item]]]:
        out: list[Callable[[], list[Item]]] = []
        fit = self.fit
        if isinstance(fit, CountedFit) and items[0].single >= 0:
            out.append(lambda: self._cheapest(fit, items, lambda i: (-i.size, i.work)))
            out.append(lambda: self._cheapest(fit, items, lambda i: (i.work, -i.size)))
            out.append(lambda: self._pooled(fit, items))
            if len(items) > REPRIEVE_ITEMS:
                return out

        def small_first() -> list[Item]:
            return reprieve(sorted(items, key=lambda i: (len(i.slots), i.size, i.name)))

        if sum(len(i.slots) for i in items) > _HEAVY_PODS:
            return [*out, small_first]
        if len(items) <= REPRIEVE_ITEMS:
            if items[0].single < 0 and any(i.block.singles for i in items):
                out.append(lambda: self._flexible(items, reprieve))
            out.append(lambda: self._greedy(items, reprieve, per_pod=False))
            if any(len(i.slots) > 1 for i in items):
                out.append(lambda: self._greedy(items, reprieve, per_pod=True))
            out.append(lambda: reprieve(sorted(items, key=lambda i: (-len(i.slots), -i.size, i.name))))
        out.append(small_first)
        out.append(lambda: reprieve(sorted(items, key=lambda i: (-i.work, i.name))))
        return out

    def _cheapest(self, fit: CountedFit, items: list[Item], order: Callable[[Item], tuple[float, ...]]) -> list[Item]:
        """Take the single pods that make room for most members each, then put back what is not needed."""
        ranked = sorted(items, key=lambda i: (*order(i), i.name))
        self._give([i.single for i in items])
        self.steps += 1 + len(items) // PODS_PER_STEP
        chosen = set(fit.cheapest(np.array([i.single for i in ranked], dtype=np.int64)).tolist())
        self._take(sorted(chosen))
        return self._give_back_singles([i for i in reversed(ranked) if i.single in chosen])

    def _pooled(self, fit: CountedFit, items: list[Item]) -> list[Item]:
        """Choose again among all single pods of this priority, also the surplus of gangs that was not thought of."""
        level = items[0].level
        pool = {i.single: i for i in items}
        for block in self.units.blocks:
            if self.units.is_whole(block, self.taken):
                continue
            for slot in block.singles:
                if slot not in pool and slot not in self.taken and self.units.pod(slot).priority == level:
                    pool[slot] = self._single(block, slot)
        self._give([i.single for i in items])
        chosen = self._within_surplus(fit, pool)
        self._take(chosen)
        if self._fits():
            self._give_back_singles(sorted((pool[s] for s in chosen), key=lambda i: (i.size, -i.work, i.name)))
        return []

    def _within_surplus(self, fit: CountedFit, pool: Mapping[int, Item]) -> list[int]:
        """Slots of the pool that make room for most members each, of every gang no more than its surplus.

        Chosen without the limit first; what a gang gives too much is left out, the least useful of it, and the
        choice made again. Takes nothing.
        """
        parts = {s: p for i in pool.values() for p in i.block.parts for s in p.single}
        had = {id(p): sum(1 for s in p.bound if s in self.taken) for p in parts.values()}
        left = dict(pool)
        chosen: list[int] = []
        for _ in range(_POOL_ROUNDS):
            slots = np.array(list(left), dtype=np.int64)
            if not len(slots):
                return []
            self.steps += 1 + len(slots) // PODS_PER_STEP
            tie = self.units.snapshot.table.tie[slots]
            order = np.lexsort((tie, self._works[slots], -self._sizes[slots], -fit.usefulness(slots)))
            chosen = fit.cheapest(slots[order]).tolist()
            counts = dict(had)
            kept: list[int] = []
            for slot in chosen:
                part = parts[slot]
                counts[id(part)] += 1
                if counts[id(part)] > part.limit:
                    del left[slot]
                else:
                    kept.append(slot)
            within = len(kept) == len(chosen)
            chosen = kept
            if within or self._exhausted():
                break
        return chosen

    def _greedy(self, items: list[Item], reprieve: Callable[[list[Item]], list[Item]], per_pod: bool) -> list[Item]:
        """Give everything at this level back but the surplus, then take what helps most until the gang fits."""
        kept: list[Item] = []
        back: list[int] = []
        for item in items:
            surplus = self.surplus(item.block) if item.single < 0 else []
            kept += [self._single(item.block, s) for s in surplus]
            back += [s for s in item.slots if s not in set(surplus)] if surplus else item.slots
        self._give(back)
        chosen = self._take_useful([i for i in items if i.single < 0] or items, per_pod)
        if chosen is None:
            return []
        wholes = {i.block.number for i in chosen if i.single < 0}
        rest = reprieve(sorted(chosen, key=lambda i: (len(i.slots), i.size, i.name)))
        return rest + [i for i in kept if i.block.number not in wholes]

    def _flexible(self, items: list[Item], reprieve: Callable[[list[Item]], list[Item]]) -> list[Item]:
        """Give all these gangs back, take single members within their surplus as long as that helps, and then whole
        gangs for what is still missing.
        """
        self._give([s for i in items for s in i.slots])
        singles = [self._single(i.block, s) for i in items for s in i.block.singles]
        if isinstance(self.fit, CountedFit):
            # Gangs that can only give their surplus had it chosen without knowing what is needed: choose again.
            limited = [b for b in self.units.blocks if not b.whole and any(p.limit < len(p.single) for p in b.parts)]
            singles += [self._single(b, s) for b in limited for s in b.singles]
            singles = [i for i in singles if i.level <= items[0].level]
            self._give([i.single for i in singles])
            pool = {i.single: i for i in singles}
            chosen = [pool[s] for s in self._within_surplus(self.fit, pool)]
            self._take([i.single for i in chosen])
        else:
            chosen = self._take_limited(singles)
        wholes = None if self._fits() else self._take_useful(items, per_pod=False)
        if wholes:
            reprieve(sorted(wholes, key=lambda i: (len(i.slots), i.size, i.name)))
        gone = {i.block.number for i in items if self.units.is_whole(i.block, self.taken)}
        return [i for i in chosen if i.block.number not in gone and i.single in self.taken]

    def _take_limited(self, singles: list[Item]) -> list[Item]:
        """Single members, the most useful first, each gang up to its surplus, until the gang fits or none helps."""
        chosen: list[Item] = []
        parts = {id(p): p for i in singles for p in i.block.parts}
        room = {n: p.limit - sum(1 for s in p.bound if s in self.taken) for n, p in parts.items()}
        part_of = {s: p for p in parts.values() for s in p.single}
        left = [i for i in singles if room[id(part_of[i.single])] > 0]
        while left and not self._fits() and not self._exhausted():
            gains = self._gains([np.array(i.slots, dtype=np.int64) for i in left])
            names = np.array([i.name for i in left])
            works = np.array([i.work for i in left])
            order = np.lexsort((names, works, -np.round(gains, 9)))
            if gains[order[0]] <= 0:
                break
            item = left.pop(int(order[0]))
            self._take([item.single])
            chosen.append(item)
            part = part_of[item.single]
            room[id(part)] -= 1
            if not room[id(part)]:
                left = [i for i in left if part_of[i.single] is not part]
        return chosen

    def _take_useful(self, items: list[Item], per_pod: bool) -> list[Item] | None:
        """Take items, the most useful first, until the gang fits; None when it never does."""
        left = list(items)
        chosen: list[Item] = []
        while not self._fits():
            if not left or self._exhausted():
                return None
            options = [np.array([s for s in i.slots if s not in self.taken], dtype=np.int64) for i in left]
            sizes = np.array([len(o) for o in options])
            gains = self._gains(options)
            need = max(self.fit.shortfall(), 1e-6)
            useful = np.round(np.minimum(gains, need) / (sizes if per_pod else 1.0), 9)
            names = np.array([i.name for i in left])
            works = np.array([i.work for i in left])
            order = np.lexsort((names, works, sizes, -useful))
            # Many small steps are taken at once where that cannot overshoot: half of what is still missing.
            batch = 1 if len(left) <= REPRIEVE_ITEMS else max(1, int(need / max(float(gains.max()), 1.0) / 2))
            picked = order[:batch].tolist()
            chosen += [left[n] for n in picked]
            self._take([s for n in picked for s in options[n].tolist()])
            gone = set(picked)
            left = [item for n, item in enumerate(left) if n not in gone]
        return chosen

    def _give_back_blocks(self, items: list[Item]) -> list[Item]:
        """Put whole gangs back in order, entirely or all but their surplus; returns the surplus that stays taken."""
        rest: list[Item] = []
        for item in items:
            if self._give_back(item.slots):
                continue
            surplus = self.surplus(item.block)
            core = [s for s in item.slots if s not in set(surplus)]
            if surplus and core and self._give_back(core):
                rest += [self._single(item.block, s) for s in surplus]
        return rest

    def _give_back_singles(self, items: list[Item]) -> list[Item]:
        """Put single pods back in order. Trying many at once and halving on refusal ends in the same set as trying
        each, since putting more back never makes the gang fit better.
        """
        if not items or self._give_back([s for i in items for s in i.slots]) or len(items) == 1:
            return []
        if isinstance(self.fit, CountedFit):
            self.steps += 1 + len(items) // PODS_PER_STEP
            back = self.fit.trim(np.array([i.single for i in items], dtype=np.int64), self._left())
            self.taken.difference_update(back.tolist())
            return []
        middle = len(items) // 2
        self._give_back_singles(items[:middle])
        self._give_back_singles(items[middle:])
        return []

    def _settle(self, fit: CountedFit, slots: Ints, tried: bool) -> None:
        """Very many single pods of one level, as an array: those that make room for most members each, then a reprieve
        of what is not needed. The largest first makes for few victims, the least work lost for cheap ones. ``tried``
        says that they cannot all be put back.
        """
        if not tried and self._give_back(slots.tolist()):
            return
        tie = self.units.snapshot.table.tie[slots]
        sizes, works = self._sizes[slots], self._works[slots]
        self.taken.difference_update(slots.tolist())
        fit.give_back(slots)
        base = fit.save()
        best: tuple[int, float, object, Ints] | None = None
        orders = [np.lexsort((tie, works, -sizes))]
        if sizes.min() < sizes.max():  # else it would be the same again
            orders.append(np.lexsort((tie, -sizes, works)))
        for order in orders:
            fit.restore(base)
            self.steps += 1 + 2 * len(slots) // PODS_PER_STEP
            chosen = fit.cheapest(slots[order])
            fit.take(chosen)
            back = fit.trim(chosen[::-1], self._left())
            left = chosen[~np.isin(chosen, back)]
            cost = len(left), round(float(self._works[left].sum()), 6)
            if fit.fits() and (best is None or cost < best[:2]):
                best = *cost, fit.save(), left
        if best is not None:
            fit.restore(best[2])
            self.taken.update(best[3].tolist())
