"""The search for victims, one priority level at a time, from the top.

Harm is compared level by level from the highest priority down, so the search goes the same way: with everything
below still taken, it finds the fewest gangs, then the fewest pods, that must go at this level, and only then looks
further down. Within a level two ways are tried and the better one kept: everything leaves and comes back as far as
the gang allows (*reprieve*), and nothing leaves but the most useful, one after another (*greedy*), followed by a
reprieve. At the end small exchanges are tried. No victim is left that could be put back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import msgspec
import numpy as np

from gangsched.core.preemption.budgets import Budgets
from gangsched.core.preemption.counted import CountedFit
from gangsched.core.preemption.exact import Exact
from gangsched.core.preemption.fit import Fit
from gangsched.core.preemption.harm import Harm, harm, share_of
from gangsched.core.preemption.units import Block, Units
from gangsched.core.snapshot import Floats, Ints

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


class Item(msgspec.Struct, frozen=True):
    """Something that is taken or given back at once: a whole block (``single`` = -1), or one pod."""

    block: Block
    level: int
    slots: tuple[int, ...]
    size: float
    work: float
    name: str
    single: int = -1


#: Up to this many victims' subsets are re-chosen in the final exchange, and up to this many items at once.
_EXCHANGE_VICTIMS = 40
_EXCHANGE_OUT = 3
#: With more pods than this in the items of a level, only the quickest way is tried.
_HEAVY_PODS = 2500
#: How often a choice among all single pods is mended when it takes more of a gang than its surplus.
_POOL_ROUNDS = 30
#: A step is one look at the cluster; looking at more pods than this at once counts as more steps.
_PODS_PER_STEP = 400
#: Levels with more items than this are searched greedily only: reprieve from "all taken" would cost too much.
_REPRIEVE_ITEMS = 400


class Search:
    """One search. ``make_fit`` gives a fresh simulated cluster with nothing taken."""

    def __init__(
        self,
        units: Units,
        make_fit: Callable[[], Fit],
        budgets: Budgets,
        cluster: Mapping[str, float],
        now: float,
        max_steps: int,
    ) -> None:
        self.units = units
        self.make_fit = make_fit
        self.budgets = budgets
        self.cluster = cluster
        self.now = now
        self.max_steps = max_steps
        self.steps = 0
        self.stopped = False
        self.fit: Fit = make_fit()
        self.taken: set[int] = set()
        self._wholes: dict[int, Item] = {}
        self._sizes, self._works = self._columns()

    def _columns(self) -> tuple[Floats, Floats]:
        """Per slot: the share of the cluster that the pod holds, and the work that would be lost with it."""
        table = self.units.snapshot.table
        shares = np.array([share_of(shape.requests, self.cluster) for shape in self.units.snapshot.shapes])
        sizes = shares[table.shape[: table.size]] if len(shares) else np.zeros(table.size)
        return sizes, sizes * np.maximum(0.0, self.now - table.started[: table.size])

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

    def _spend(self, steps: int) -> bool:
        self.steps += steps
        return not self._exhausted()

    def _spent(self) -> int:
        return self.steps + self.fit.steps

    # -- one level -----------------------------------------------------------------------------------------

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
            self._settle(self.fit, np.concatenate([np.array([i.single for i in singles], dtype=np.int64), loose]))
            return later
        singles += [self._loose_item(s) for s in loose.tolist()]
        if singles:
            self._best(singles, self._give_back_singles)
        return later

    def _settle(self, fit: CountedFit, slots: Ints) -> None:
        """Very many single pods of one level, as an array: those that make room for most members each, then a reprieve
        of what is not needed. The largest first makes for few victims, the least work lost for cheap ones.
        """
        if self._give_back(slots.tolist()):
            return
        tie = self.units.snapshot.table.tie[slots]
        sizes, works = self._sizes[slots], self._works[slots]
        self._give(slots.tolist())
        base = fit.save()
        best: tuple[int, float, object, Ints] | None = None
        for order in (np.lexsort((tie, works, -sizes)), np.lexsort((tie, -sizes, works))):
            fit.restore(base)
            self.steps += 1 + 2 * len(slots) // _PODS_PER_STEP
            chosen = fit.cheapest(slots[order])
            fit.take(chosen)
            back = fit.trim(chosen[::-1])
            left = chosen[~np.isin(chosen, back)]
            cost = len(left), round(float(self._works[left].sum()), 6)
            if fit.fits() and (best is None or cost < best[:2]):
                best = *cost, fit.save(), left
        if best is not None:
            fit.restore(best[2])
            self.taken.update(best[3].tolist())

    def _loose_item(self, slot: int) -> Item:
        return self._single(self.units.single_block(slot), slot)

    def _best(self, items: list[Item], reprieve: Callable[[list[Item]], list[Item]]) -> list[Item]:
        """Try the ways to settle these items and keep the least harmful outcome."""
        if self._give_back([s for i in items for s in i.slots]):
            return []
        counted = isinstance(self.fit, CountedFit) and items[0].single >= 0
        if len(items) > _REPRIEVE_ITEMS and not counted:
            items = self._shrink(items)
        start = self.fit.save(), set(self.taken)
        best: tuple[Harm, object, set[int], list[Item]] | None = None
        attempts = self._attempts(items, reprieve)
        if len(attempts) == 1:
            rest = attempts[0]()
            if self._fits():
                return rest
        for attempt in attempts:
            self.fit.restore(start[0])
            self.taken = set(start[1])
            rest = attempt()
            if not self._fits():
                continue
            cost = self._harm()
            if best is None or cost < best[0]:
                best = cost, self.fit.save(), set(self.taken), rest
            if self.stopped:
                break
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
        slots = [np.array([s for i in part for s in i.slots], dtype=np.int64) for part in parts]
        self._give(np.concatenate(slots).tolist())
        self.steps += 1 + sum(map(len, slots)) // _PODS_PER_STEP
        ratio = np.round(self.fit.gains(slots) / np.array([len(s) for s in slots]), 9)
        work = np.array([sum(i.work for i in part) for part in parts])
        names = np.array([part[0].name for part in parts])
        order = np.lexsort((names, work, -ratio)).tolist()
        low, high = 0, len(order)  # with all of them the gang fits, with none it does not
        base = self.fit.save()
        while high - low > 1:
            middle = (low + high) // 2
            self.fit.restore(base)
            self.fit.take(np.concatenate([slots[n] for n in order[:middle]]))
            self.steps += 1
            low, high = (low, middle) if self.fit.fits() else (middle, high)
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
            if len(items) > _REPRIEVE_ITEMS:
                return out
        if sum(len(i.slots) for i in items) > _HEAVY_PODS:
            return [*out, lambda: reprieve(sorted(items, key=lambda i: (len(i.slots), i.size, i.name)))]
        if len(items) <= _REPRIEVE_ITEMS:
            if items[0].single < 0 and any(i.block.singles for i in items):
                out.append(lambda: self._flexible(items, reprieve))
            out.append(lambda: self._greedy(items, reprieve, per_pod=False))
            if any(len(i.slots) > 1 for i in items):
                out.append(lambda: self._greedy(items, reprieve, per_pod=True))
            out.append(lambda: reprieve(sorted(items, key=lambda i: (-len(i.slots), -i.size, i.name))))
            out.append(lambda: reprieve(sorted(items, key=lambda i: (len(i.slots), i.size, i.name))))
        else:
            out.append(lambda: reprieve(sorted(items, key=lambda i: (len(i.slots), i.size, i.name))))
        out.append(lambda: reprieve(sorted(items, key=lambda i: (-i.work, i.name))))
        return out

    def _cheapest(self, fit: CountedFit, items: list[Item], order: Callable[[Item], tuple[float, ...]]) -> list[Item]:
        """Take the single pods that make room for most members each, then put back what is not needed."""
        ranked = sorted(items, key=lambda i: (*order(i), i.name))
        self._give([i.single for i in items])
        self.steps += 1 + len(items) // _PODS_PER_STEP
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
            self.steps += 1 + len(slots) // _PODS_PER_STEP
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
            if len(kept) == len(chosen):
                return chosen
            chosen = kept
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
        left = list(singles)
        chosen: list[Item] = []
        room = {id(p): p.limit for i in singles for p in i.block.parts}
        part_of = {s: p for i in singles for p in i.block.parts for s in p.single}
        while left and not self._fits() and not self._exhausted():
            self.steps += 1 + len(left) // _PODS_PER_STEP
            gains = self.fit.gains([np.array(i.slots, dtype=np.int64) for i in left])
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
            self.steps += 1 + int(sizes.sum()) // _PODS_PER_STEP
            gains = self.fit.gains(options)
            need = max(self.fit.shortfall(), 1e-6)
            useful = np.round(np.minimum(gains, need) / (sizes if per_pod else 1.0), 9)
            names = np.array([i.name for i in left])
            works = np.array([i.work for i in left])
            order = np.lexsort((names, works, sizes, -useful))
            # Many small steps are taken at once where that cannot overshoot: half of what is still missing.
            batch = 1 if len(left) <= _REPRIEVE_ITEMS else max(1, int(need / max(float(gains.max()), 1.0) / 2))
            picked = order[:batch].tolist()
            chosen += [left[n] for n in picked]
            self._take([s for n in picked for s in options[n].tolist()])
            gone = set(picked)
            left = [item for n, item in enumerate(left) if n not in gone]
        return chosen

    # -- giving back ---------------------------------------------------------------------------------------

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
            self.steps += 1 + len(items) // _PODS_PER_STEP
            back = self.fit.trim(np.array([i.single for i in items], dtype=np.int64))
            self.taken.difference_update(back.tolist())
            return []
        middle = len(items) // 2
        self._give_back_singles(items[:middle])
        self._give_back_singles(items[middle:])
        return []

    def _give_back(self, slots: Sequence[int]) -> bool:
        """Put these pods back if the gang still fits with them there; True when they stay."""
        if not slots:
            return True
        if self._exhausted():
            return False
        self.steps += 1 + len(slots) // _PODS_PER_STEP
        array = np.array(slots, dtype=np.int64)
        self.fit.give_back(array)
        if self.fit.fits():
            self.taken.difference_update(slots)
            return True
        self.fit.take(array)
        return False

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

    # -- exchanges -----------------------------------------------------------------------------------------

    def _exchange(self) -> None:
        """Put a few units back and choose again what to take instead, as long as that is less harmful."""
        improved = not len(self.units.loose)
        while improved and not self._exhausted():
            improved = False
            victims = self._victims()
            if not victims or len(victims) > _EXCHANGE_VICTIMS:
                return
            others = self._candidates()
            for count in range(1, min(_EXCHANGE_OUT, len(victims)) + 1):
                for out in combinations(victims, count):
                    if self._exhausted():
                        return
                    if self._swap(out, others):
                        improved = True
                        break
                if improved:
                    break

    def _swap(self, out: Sequence[Item], others: list[Item]) -> bool:
        before, was, cost = self.fit.save(), set(self.taken), self._harm()
        for item in out:
            self._give([s for s in item.slots if s in self.taken])
        ceiling = max(i.level for i in out)
        names = {i.name for i in out}
        options = [i for i in others if i.level <= ceiling and i.name not in names and not self._is_taken(i)]
        chosen = self._take_useful(options, per_pod=False)
        if chosen is not None:
            fresh = sorted((self._single_of(s) for s in self.taken - was), key=lambda i: i.name)
            self._give_back_singles(
                [i for i in fresh if not i.block.whole or not self.units.is_whole(i.block, self.taken)]
            )
            for item in sorted(self._victims(), key=lambda i: (-i.level, len(i.slots), i.name)):
                self._give_back([s for s in item.slots if s in self.taken])
            if self._closed() and self._harm() < cost:
                return True
        self.fit.restore(before)
        self.taken = was
        return False

    def _closed(self) -> bool:
        """No block is taken beyond its surplus without being taken whole."""
        for block in self.units.blocks:
            for part in block.parts:
                gone = sum(1 for s in part.bound if s in self.taken)
                if gone > part.limit and not (block.whole and all(s in self.taken for s in block.whole)):
                    return False
        return True

    def _victims(self) -> list[Item]:
        out: list[Item] = []
        for block in self.units.blocks:
            if self.units.is_whole(block, self.taken):
                out.append(self._whole(block))
            else:
                out += [self._single(block, s) for p in block.parts for s in p.bound if s in self.taken]
        return sorted(out, key=lambda i: (-i.level, -len(i.slots), i.name))

    def _candidates(self) -> list[Item]:
        """Everything that could be taken instead: singles within the surplus, and whole blocks."""
        out: list[Item] = []
        for block in self.units.blocks:
            if block.whole:
                out.append(self._whole(block))
            out += [self._single(block, s) for s in block.singles]
        if len(out) <= _REPRIEVE_ITEMS:
            return out
        # Those that would help most if nothing was taken yet.
        state, was = self.fit.save(), set(self.taken)
        self._give(sorted(self.taken))
        gains = np.round(self.fit.gains([np.array(i.slots, dtype=np.int64) for i in out]), 9)
        self.fit.restore(state)
        self.taken = was
        names = np.array([i.name for i in out])
        sizes = np.array([len(i.slots) for i in out])
        order = np.lexsort((names, sizes, -gains / sizes))[:_REPRIEVE_ITEMS]
        return [out[n] for n in sorted(order.tolist())]

    # -- small things --------------------------------------------------------------------------------------

    def _items(self, block: Block) -> list[Item]:
        if block.whole:
            return [self._whole(block)]
        return [self._single(block, s) for s in block.singles if s in self.taken]

    def _whole(self, block: Block) -> Item:
        if not self._wholes:
            self._weigh_wholes()
        return self._wholes[block.number]

    def _weigh_wholes(self) -> None:
        """The items of all blocks that can be taken whole, weighed in one go."""
        blocks = [b for b in self.units.blocks if b.whole]
        starts = np.cumsum([0] + [len(b.whole) for b in blocks])[:-1]
        slots = np.fromiter((s for b in blocks for s in b.whole), dtype=np.int64)
        sizes = np.add.reduceat(self._sizes[slots], starts).tolist()
        works = np.add.reduceat(self._works[slots], starts).tolist()
        for block, size, work in zip(blocks, sizes, works, strict=True):
            self._wholes[block.number] = Item(block, block.priority, tuple(block.whole), size, work, block.ref.name)

    def _single(self, block: Block, slot: int) -> Item:
        pod = self.units.pod(slot)
        return Item(block, pod.priority, (slot,), float(self._sizes[slot]), float(self._works[slot]), pod.key, slot)

    def _single_of(self, slot: int) -> Item:
        return self._single(self.units.block_of(slot), slot)

    def _is_taken(self, item: Item) -> bool:
        return all(s in self.taken for s in item.slots)

    def surplus(self, block: Block) -> list[int]:
        """Members that the block can do without, the least harmful and then the most useful first."""
        rows = self.units.snapshot.table.row
        crowd: dict[int, int] = {}
        for slot in block.singles:
            crowd[int(rows[slot])] = crowd.get(int(rows[slot]), 0) + 1
        out: list[int] = []
        for part in block.parts:
            if not part.limit:
                continue
            ranked = part.single
            if len(ranked) > part.limit:
                ranked = sorted(
                    ranked,
                    key=lambda s: (
                        self.units.pod(s).priority,
                        -float(self._sizes[s]),
                        -crowd[int(rows[s])],
                        int(rows[s]),
                        self.units.pod(s).key,
                    ),
                )
            out.extend(ranked[: part.limit])
        return out

    def _take(self, slots: Sequence[int], known: bool = False) -> None:
        new = list(slots) if known else [s for s in slots if s not in self.taken]
        self.taken.update(new)
        self.fit.take(np.array(new, dtype=np.int64))

    def _give(self, slots: Sequence[int]) -> None:
        there: Ints = np.array([s for s in slots if s in self.taken], dtype=np.int64)
        self.taken.difference_update(there.tolist())
        if len(there):
            self.fit.give_back(there)

    def _fits(self) -> bool:
        self.steps += 1
        return self.fit.fits()

    def _harm(self) -> Harm:
        return self._harm_of(self.taken)

    def _harm_of(self, taken: set[int]) -> Harm:
        losses, interrupted = self.units.losses(taken)
        return harm(losses, interrupted, self.budgets, self.cluster, self.now)

    def _exhausted(self) -> bool:
        if self._spent() >= self.max_steps:
            self.stopped = True
        return self.stopped
