"""The search for victims where quota decides whose turn it is to leave.

Candidates are taken in the order in which quota rules let them go, and pods without a queue by priority between them,
until the gang has both its quota and its nodes; then everybody who is not needed for either is put back, the last taken
first. Where nodes are plenty these are exactly the victims of the quota rules. Otherwise no candidate goes whose place
in the order is later than need be: the order stands for harm.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec
import numpy as np

from gangsched.core.arrays import Floats
from gangsched.core.planning.watchdog import Watchdog
from gangsched.core.preemption.budgets import Budgets
from gangsched.core.preemption.fit import Fit
from gangsched.core.preemption.harm import Harm, Loss, harm
from gangsched.core.preemption.units import Units
from gangsched.core.quota.holders import Holder
from gangsched.core.quota.preemption import Target
from gangsched.core.quota.tree import Tree

#: Above every priority: places in the order are no priorities.
_PLACES = 2**40
#: A step is one look at the cluster; looking at more pods than this at once counts as more steps.
_PODS_PER_STEP = 400


class Candidates(Protocol):
    """Who may be taken as far as quota is concerned: a search of :mod:`gangsched.core.quota`."""

    tree: Tree

    def ways(self) -> tuple[bool, ...]:
        """The ways to choose, in the order in which they are tried."""

    def walk(self, borrowing: bool) -> Generator[tuple[Holder, str], None, None]:
        """Candidates in order, each with its reason."""

    def fits_on_the_way(self, borrowing: bool) -> bool:
        """Is there quota enough now, in the middle of a walk?"""

    def fits(self, borrowing: bool) -> bool:
        """Is there quota enough now?"""

    def victims(self) -> Sequence[Target]:
        """The choice where quota alone counts; nobody if that would not help."""


class Taken(msgspec.Struct, frozen=True):
    """One that has to go: of a queue (``holder``), or without one."""

    slots: tuple[int, ...]
    place: int
    holder: Holder | None = None
    reason: str = ""


class Item(msgspec.Struct, frozen=True):
    """What leaves at once of pods without a queue: a single pod, or a whole unit."""

    level: int
    whole: bool
    work: float
    name: str
    slots: tuple[int, ...]


class Found(msgspec.Struct, frozen=True):
    """The victims: slots, workloads (by UID) with the reason for each, what they cost, and rows on which members (UIDs)
    fit then; empty where placing them is no search.
    """

    slots: frozenset[int]
    reasons: dict[str, str]
    harm: Harm
    rows: dict[str, int]


class InOrder:
    """One search. ``units`` has the pods without a queue, ``fit`` the simulated nodes with nothing taken; ``slots_of``
    gives the live pods of a holder, None if they may not be evicted. ``works`` ``(slots,)`` is the work lost with each
    pod. With ``within_budgets`` no disruption budget is exceeded. The other arguments are those of
    :class:`~.search.Search`; the search ends without a choice when its steps are spent.
    """

    def __init__(
        self,
        units: Units,
        fit: Fit,
        budgets: Budgets,
        cluster: Mapping[str, float],
        now: float,
        max_steps: int,
        watchdog: Watchdog,
        candidates: Candidates,
        slots_of: Callable[[Holder, str], Sequence[int] | None],
        works: Floats,
        *,
        within_budgets: bool,
    ) -> None:
        self.units = units
        self.fit = fit
        self.budgets = budgets
        self.cluster = cluster
        self.now = now
        self.max_steps = max_steps
        self.steps = 0
        self.stopped = False
        self._watchdog = watchdog
        self._works = works
        self._candidates = candidates
        self._slots_of = slots_of
        self._within = within_budgets
        self._chosen: list[Taken] = []
        self._counts: dict[int, int] = {}

    def run(self) -> Found | None:
        """The victims, or None if nobody's leaving would help."""
        found = self._for_quota_alone()
        if found is not None:
            return found
        for borrowing in self._candidates.ways():
            good = self._take_until_it_fits(borrowing)
            if good:
                self._put_back(borrowing)
            found = self._found() if good else None
            for taken in self._chosen:
                if taken.holder is not None:
                    self._candidates.tree.add(taken.holder.node, taken.holder.amounts)
            if found is not None:
                return found
            for taken in self._chosen:
                self._returns(taken)
            self._chosen = []
        self.units.cut_short = self.stopped
        return None

    def _for_quota_alone(self) -> Found | None:
        """The victims of the quota rules, if they are enough for the nodes too: then the order leads to the same ones.

        Going through the order takes everybody who borrows before the first of the own queue; the search for quota
        knows how to pass over them.
        """
        if self._candidates.fits(True):
            return None
        for target in self._candidates.victims():
            slots = self._slots_of(target.holder, target.reason)
            if slots is None or not self._allowed(slots):
                break
            self._goes(Taken(tuple(slots), len(self._chosen), target.holder, target.reason))
        else:
            if self._chosen and self._fits():
                return self._found()
        for taken in self._chosen:
            self._returns(taken)
        self._chosen = []
        return None

    # -- forwards ------------------------------------------------------------------------------------------

    def _take_until_it_fits(self, borrowing: bool) -> bool:
        candidates, others = self._candidates, self._others()
        walk = candidates.walk(borrowing)
        queued, other = self._next(walk), next(others, None)
        try:
            while not self._exhausted():
                short = not candidates.fits_on_the_way(borrowing)
                if not short and self._fits():
                    return True
                if other is not None and not short and (queued is None or other.level < queued[0].priority):
                    self._goes(Taken(other.slots, len(self._chosen)))
                    other = next(others, None)
                elif queued is not None:
                    holder, reason, slots = queued
                    candidates.tree.remove(holder.node, holder.amounts)
                    self._goes(Taken(slots, len(self._chosen), holder, reason))
                    queued = self._next(walk)
                elif other is None or short:
                    return False
        finally:
            walk.close()  # it may have the preemptor's usage in the tree
        return False

    def _next(self, walk: Iterator[tuple[Holder, str]]) -> tuple[Holder, str, tuple[int, ...]] | None:
        for holder, reason in walk:
            if self._exhausted():
                break
            slots = self._slots_of(holder, reason)
            if slots is not None and self._allowed(slots):
                return holder, reason, tuple(slots)
        return None

    def _others(self) -> Iterator[Item]:
        """What may be taken of pods without a queue, lowest priority first: single pods, then wholes."""
        items = [self._single(s) for s in self.units.loose.tolist()]
        for block in self.units.blocks:
            if block.number in self.units.reasons:
                continue
            items += [self._single(s) for s in self.units.surplus(block, self._works)]
            if block.whole:
                work = float(self._works[block.array].sum())
                items.append(Item(block.priority, True, work, block.ref.name, tuple(block.whole)))
        for item in sorted(items, key=lambda i: (i.level, i.whole, i.work, i.name)):
            if self._exhausted():
                return
            if self._allowed(item.slots):
                yield item

    def _single(self, slot: int) -> Item:
        pod = self.units.pod(slot)
        return Item(pod.priority, False, float(self._works[slot]), pod.key, (slot,))

    def _fits(self) -> bool:
        self.steps += 1
        return self.fit.fits()

    def _exhausted(self) -> bool:
        if self.steps + self.fit.steps >= self.max_steps or self._watchdog.barks():
            self.stopped = True
        return self.stopped

    def _allowed(self, slots: Sequence[int]) -> bool:
        if not self._within or not self.budgets:
            return True
        gone = [*self._counts, *slots]
        self.steps += len(gone) // _PODS_PER_STEP
        return not self.budgets.beyond([self.units.pod(s) for s in dict.fromkeys(gone)])

    def _goes(self, taken: Taken) -> None:
        self._chosen.append(taken)
        self._leaves(taken)

    def _leaves(self, taken: Taken) -> None:
        new = [s for s in taken.slots if not self._counts.get(s)]
        for slot in taken.slots:
            self._counts[slot] = self._counts.get(slot, 0) + 1
        self.fit.take(np.array(new, dtype=np.int64))

    def _returns(self, taken: Taken) -> None:
        back = []
        for slot in taken.slots:
            self._counts[slot] -= 1
            if not self._counts[slot]:
                del self._counts[slot]
                back.append(slot)
        if back:
            self.fit.give_back(np.array(back, dtype=np.int64))

    # -- backwards -----------------------------------------------------------------------------------------

    def _put_back(self, borrowing: bool) -> None:
        """Everybody but the very last, who made the difference, the last taken first."""
        tree = self._candidates.tree
        kept = self._chosen[-1:]
        for taken in reversed(self._chosen[:-1]):
            if self._exhausted():
                kept.append(taken)
                continue
            self._returns(taken)
            if taken.holder is not None:
                tree.add(taken.holder.node, taken.holder.amounts)
            if self._candidates.fits(borrowing) and self._fits():
                continue
            if taken.holder is not None:
                tree.remove(taken.holder.node, taken.holder.amounts)
            kept.append(taken)
            self._leaves(taken)
        self._chosen = kept[::-1]

    def _found(self) -> Found:
        pods = {s: self.units.pod(s) for taken in self._chosen for s in taken.slots}
        losses, interrupted = [], []
        for taken in self._chosen:
            interrupted.append(_PLACES + taken.place)
            losses += [Loss(pods.pop(s), _PLACES + taken.place) for s in taken.slots if s in pods]
        cost = harm(losses, interrupted, self.budgets, self.cluster, self.now)
        reasons = {t.holder.admission.workload.uid: t.reason for t in self._chosen if t.holder is not None}
        return Found(frozenset(self._counts), reasons, cost, self.fit.rows())
