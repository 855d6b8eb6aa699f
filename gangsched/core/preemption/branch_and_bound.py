"""The least harmful choice of few units, proved by trying all that could be better.

Depth first over the units, the most harmful first, sparing before taking. A branch ends when what is taken already
is no better than the best choice known, or when the gang does not fit even with everything undecided gone. The first
is safe where taking more never lowers the harm: pods under three budgets and more can undo that for (a), which then
bounds nothing (:meth:`BranchAndBound._floor`). The second is safe where taking more never makes the gang fit worse; a
gang that needs other pods near it, or an even spread, is tried in full as long as the units are very few.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec
import numpy as np

from gangsched.core.arrays import Floats, Ints
from gangsched.core.preemption.blocks import Block, Part
from gangsched.core.preemption.fit import Fit
from gangsched.core.preemption.harm import NO_HARM, Budgets, Harm
from gangsched.core.preemption.units import Units

#: More decisions than this are not tried to the end: of 2,000 small clusters none has more.
MAX_DECISIONS = 48
#: The same where taking more may make the gang fit worse; with more of them, choices may be missed.
MAX_UNBOUNDED = 12


class Branch(msgspec.Struct, frozen=True):
    """Take or spare: a whole block (``part`` is None), a pod of a part, or one without a group (``block`` is None)."""

    block: Block | None
    part: Part | None
    slots: tuple[int, ...]
    level: int
    weight: float
    name: str


class BranchAndBound:
    """One exhaustive search below a known choice. ``may_look`` is called before each test and returns whether budget is
    left. With ``strict``, no disruption budget is exceeded; ``few`` says if there are few enough victims.
    """

    def __init__(
        self,
        units: Units,
        fit: Fit,
        cost: Callable[[set[int]], Harm],
        may_look: Callable[[], bool],
        work: Floats,
        budgets: Budgets,
        few: Callable[[set[int]], bool],
        *,
        strict: bool = False,
    ) -> None:
        self._units = units
        self._fit = fit
        self._cost = cost
        self._may_look = may_look
        self._work = work
        self._budgets = budgets
        self._few = few
        self._strict = strict
        self._decisions: list[Branch] = []
        self._best: tuple[Harm | None, frozenset[int]] = (None, frozenset())
        self._tested = True  # sets that do not fit are left out as soon as that is known
        self._entangled = False
        self._stopped = False

    @property
    def small(self) -> bool:
        """Few enough decisions to try."""
        units = self._units
        if len(units.loose) + len(units.blocks) > MAX_DECISIONS:
            return False
        wholes = sum(1 for b in units.blocks if b.whole)
        singles = sum(len(p.single) for b in units.blocks for p in b.parts if p.limit)
        return wholes + singles + len(units.loose) <= MAX_DECISIONS

    @property
    def complete(self) -> bool:
        """True if everything was tried that could be better. Where fewer victims may help, choices that did not fit
        were followed up, too.
        """
        return not self._stopped and (self._fit.monotone or not self._tested)

    def run(self, best: Harm | None, taken: frozenset[int]) -> tuple[Harm | None, frozenset[int]]:
        """The best choice, at least as good as the one given (None: none is known). The fit is empty afterwards. Where
        one more victim may do less harm, not all of its victims need be needed.
        """
        self._best = (best, taken)
        self._decisions = sorted(
            self._all(), key=lambda d: (-d.level, d.block is None or d.part is not None, -d.weight, d.name)
        )
        pods = (self._units.pod(s) for d in self._decisions for s in d.slots)
        self._entangled = bool(self._budgets) and any(len(self._budgets.matching(p)) > 2 for p in pods)
        everything = {s for d in self._decisions for s in d.slots}
        self._tested = self._fit.monotone or len(self._decisions) > MAX_UNBOUNDED
        self._fit.remove(_array(everything))
        if not self._tested or self._fit.fits():  # what is decided and undecided together is enough
            self._next(0, set(), everything, NO_HARM)
        self._fit.give_back(_array(everything))
        return self._best

    def _all(self) -> list[Branch]:
        out = []
        for block in self._units.blocks:
            if block.whole:
                weight = float(self._work[block.array].sum())
                out.append(Branch(block, None, tuple(block.whole), block.priority, weight, block.ref.name))
            out += [self._one(s, block, part) for part in block.parts if part.limit for s in part.single]
        return out + [self._one(s, None, None) for s in self._units.loose.tolist()]

    def _one(self, slot: int, block: Block | None, part: Part | None) -> Branch:
        pod = self._units.pod(slot)
        return Branch(block, part, (slot,), pod.priority, float(self._work[slot]), pod.key)

    def _next(self, at: int, taken: set[int], gone: set[int], floor: Harm) -> None:
        """``taken`` is decided and costs ``floor``; ``gone`` are the slots off their nodes now: taken or undecided."""
        if self._stopped:
            return
        best = self._best[0]
        if at == len(self._decisions):
            cost = self._cost(taken)
            if self._strict and cost.beyond_budget:
                return
            if (best is None or cost < best) and (self._tested or self._fits()):
                self._best = (cost, frozenset(taken))
            return
        decision = self._decisions[at]
        if decision.part is not None and decision.block is not None and taken.issuperset(decision.block.whole or [-1]):
            self._next(at + 1, taken, gone, floor)  # went with the whole already
            return
        later = {s for d in self._decisions[at + 1 :] for s in d.slots}
        back = [s for s in decision.slots if s not in later and s not in taken]
        self._fit.give_back(_array(back))
        if not self._tested or self._fits():
            self._next(at + 1, taken, gone.difference(back), floor)
        self._fit.remove(_array(back))
        more = taken.union(decision.slots)
        if self._few(more) and self._allowed(decision, taken):
            cost = self._floor(self._cost(more))
            if self._strict and cost.beyond_budget:
                return
            if self._best[0] is None or cost < self._best[0]:
                self._next(at + 1, more, gone, cost)

    def _fits(self) -> bool:
        if not self._may_look():
            self._stopped = True
            return False
        return self._fit.fits()

    def _floor(self, cost: Harm) -> Harm:
        """No choice that takes more than what costs this does less harm.

        A victim that finds one of its budgets empty leaves the others to pods after it. With up to two budgets per pod
        that makes up for itself at most; with three, one pod beyond may save two.
        """
        return cost._replace(beyond_budget=0) if self._entangled else cost

    @staticmethod
    def _allowed(decision: Branch, taken: set[int]) -> bool:
        part = decision.part
        return part is None or sum(1 for s in part.bound if s in taken) < part.limit


def _array(slots: Collection[int]) -> Ints:
    return np.array(sorted(slots), dtype=np.int64)
