"""The search for victims: everything that may leave leaves, then comes back as far as the gang allows.

Putting units back one by one, the most harmful first, ends in a set in which no victim could be spared. Several
orders are tried, since the first of equals is not always the best one to keep, and the least harmful result wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from gangsched.core.preemption.budgets import Budgets
from gangsched.core.preemption.fit import Fit
from gangsched.core.preemption.harm import Harm, harm, share
from gangsched.core.preemption.units import Block, Units


class Choice(msgspec.Struct, frozen=True):
    """The victims: slots of the pod table; what they cost; what it took to find them."""

    taken: frozenset[int]
    harm: Harm
    steps: int
    stopped: bool


class _Item(msgspec.Struct, frozen=True):
    """Something to put back: a whole block (``single`` = -1) or one single pod."""

    block: Block
    level: int
    slots: tuple[int, ...]
    single: int = -1


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

    def run(self) -> Choice | None:
        """The least harmful choice found, or None when the gang would not fit even with all of them gone."""
        best: Choice | None = None
        for order in (_large_first, _small_first, _costly_first):
            taken = self._attempt(order)
            if taken is None:
                return None
            losses, interrupted = self.units.losses(taken)
            cost = harm(losses, interrupted, self.budgets, self.cluster, self.now)
            if best is None or cost < best.harm:
                best = Choice(frozenset(taken), cost, self.steps, self.stopped)
            if self.stopped:
                break
        if best is None:
            return None
        return Choice(best.taken, best.harm, self.steps, self.stopped)

    # -- one attempt ---------------------------------------------------------------------------------------

    def _attempt(self, order: Callable[[Search, _Item], tuple[float, ...]]) -> set[int] | None:
        fit = self.make_fit()
        taken: set[int] = set()
        for block in self.units.blocks:
            taken.update(block.whole or self._first_singles(block))
        fit.take(np.array(sorted(taken), dtype=np.int64))
        self.steps += 1
        if not fit.fits():
            return None
        items = [item for block in self.units.blocks for item in self._items(block, taken)]
        if self.budgets:
            self._spare_budgets(fit, taken, items)
        # Gangs before pods within a priority, priorities from the top: the order in which harm is compared. A
        # block that is only partly put back adds its pods to the work still to do at their own priorities.
        pending: dict[int, list[_Item]] = {}
        for item in items:
            if all(s in taken for s in item.slots):
                pending.setdefault(item.level, []).append(item)
        while pending:
            level = max(pending)
            todo = pending.pop(level)
            blocks = [i for i in todo if i.single < 0]
            singles = [i for i in todo if i.single >= 0]
            for item in sorted(blocks, key=lambda i: (*order(self, i), i.block.ref.name)):
                for rest in self._give_back_block(fit, taken, item):
                    if rest.level == level:
                        singles.append(rest)
                    else:
                        pending.setdefault(rest.level, []).append(rest)
            singles.sort(key=lambda i: (*order(self, i), self.units.pod(i.single).key))
            self._give_back_many(fit, taken, singles)
        return taken

    def _items(self, block: Block, taken: set[int]) -> list[_Item]:
        if block.whole:
            return [_Item(block, block.priority, tuple(block.whole))]
        return [self._single(block, s) for s in block.singles if s in taken]

    def _single(self, block: Block, slot: int) -> _Item:
        return _Item(block, self.units.pod(slot).priority, (slot,), slot)

    def _first_singles(self, block: Block) -> list[int]:
        out: list[int] = []
        for part in block.parts:
            cheapest = sorted(
                part.single, key=lambda s: (self.units.pod(s).priority, -self.size(s), self.units.pod(s).key)
            )
            out.extend(cheapest[: part.limit])
        return out

    def _spare_budgets(self, fit: Fit, taken: set[int], items: Sequence[_Item]) -> None:
        """Pods beyond a budget weigh more than anything else: put those units back first."""
        tried: set[int] = set()
        while not self.stopped:
            beyond = self.budgets.beyond([self.units.pod(s) for s in sorted(taken)])
            again = False
            for n, item in enumerate(items):
                if n in tried or not any(self.units.pod(s).uid in beyond for s in item.slots):
                    continue
                tried.add(n)
                if all(s in taken for s in item.slots) and self._give_back(fit, taken, item.slots):
                    again = True
                    break
            if not again:
                return

    def _give_back(self, fit: Fit, taken: set[int], slots: Sequence[int]) -> bool:
        if self._exhausted():
            return False
        self.steps += 1
        if not fit.give_back(np.array(slots, dtype=np.int64)):
            return False
        taken.difference_update(slots)
        return True

    def _give_back_many(self, fit: Fit, taken: set[int], items: Sequence[_Item]) -> None:
        """Put single pods back in order. Trying many at once and halving on refusal ends in the same set as
        trying each, since putting more back never makes the gang fit better.
        """
        if not items:
            return
        slots = [s for item in items for s in item.slots]
        if self._give_back(fit, taken, slots) or len(items) == 1:
            return
        middle = len(items) // 2
        self._give_back_many(fit, taken, items[:middle])
        self._give_back_many(fit, taken, items[middle:])

    def _give_back_block(self, fit: Fit, taken: set[int], item: _Item) -> list[_Item]:
        """Put a whole gang back, or all of it but its surplus; returns the singles that stay taken."""
        if self._give_back(fit, taken, item.slots):
            return []
        surplus = self._first_singles(item.block)
        if not surplus or self._exhausted():
            return []
        core = [s for s in item.slots if s not in surplus]
        for chosen in (surplus, self._useful_singles(item.block)):
            core = [s for s in item.slots if s not in chosen]
            if core and self._give_back(fit, taken, core):
                return [self._single(item.block, s) for s in chosen]
        return []

    def _useful_singles(self, block: Block) -> list[int]:
        """Surplus pods on the nodes where the block has most to give."""
        by_row: dict[int, int] = {}
        rows = self.units.snapshot.table.row
        for slot in block.singles:
            by_row[int(rows[slot])] = by_row.get(int(rows[slot]), 0) + 1
        out: list[int] = []
        for part in block.parts:
            ranked = sorted(part.single, key=lambda s: (-by_row[int(rows[s])], int(rows[s]), self.units.pod(s).key))
            out.extend(ranked[: part.limit])
        return out

    def size(self, slot: int) -> float:
        """Share of the cluster that the pod holds."""
        return share(self.units.pod(slot), self.cluster)

    def _exhausted(self) -> bool:
        if self.steps >= self.max_steps:
            self.stopped = True
        return self.stopped


def _large_first(search: Search, item: _Item) -> tuple[float, ...]:
    return (-len(item.slots), -sum(search.size(s) for s in item.slots))


def _small_first(search: Search, item: _Item) -> tuple[float, ...]:
    return (len(item.slots), sum(search.size(s) for s in item.slots))


def _costly_first(search: Search, item: _Item) -> tuple[float, ...]:
    lost = sum(search.size(s) * max(0.0, search.now - search.units.pod(s).started) for s in item.slots)
    return (-lost,)
