"""The least harmful choice of few units, proved by trying all that could be better.

Depth first over the units, the most harmful first, sparing before taking. A branch ends when what is taken already
is no better than the best choice known, or when the gang does not fit even with everything undecided gone. The first
is safe where taking more never lowers the harm: pods under three budgets and more can undo that for (a), which then
bounds nothing (:meth:`Exact._floor`). The second is safe where taking more never makes the gang fit worse; a gang that
needs other pods near it, or an even spread, is tried in full as long as the units are very few.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from gangsched.core.preemption.bound import Bound, Option
from gangsched.core.preemption.counted import CountedFit
from gangsched.core.preemption.fit import Fit
from gangsched.core.preemption.harm import NO_HARM, Harm
from gangsched.core.preemption.units import Block, Part, Units

#: More decisions than this are not tried to the end.
MAX_DECISIONS = 48
#: The same where taking more may make the gang fit worse; with more of them, choices may be missed.
MAX_UNBOUNDED = 12
#: With more than these, choices that do as much harm are not told apart by the names of the victims.
MAX_NAMED = 16


class Decision(msgspec.Struct, frozen=True):
    """Take or spare: a whole block (``part`` is None), or one pod of a part."""

    block: Block
    part: Part | None
    slots: tuple[int, ...]
    level: int
    weight: float
    name: str


class Exact:
    """One exhaustive search below a known choice. ``spend`` is asked before each test and says if there is budget;
    ``entangled``, asked when there are few decisions, says whether some pod is under more than two disruption budgets.
    """

    def __init__(
        self,
        units: Units,
        fit: Fit,
        cost: Callable[[set[int]], Harm],
        spend: Callable[[int], bool],
        work: Callable[[int], float],
        entangled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._units = units
        self._fit = fit
        self._cost = cost
        self._spend = spend
        self._work = work
        self._decisions: list[Decision] = []
        self._best: tuple[Harm, frozenset[int]] | None = None
        self._bound: Bound | None = None
        self._tested = True  # sets that do not fit are left out as soon as that is known
        self._ask_entangled = entangled
        self._entangled = False
        self.complete = True

    @property
    def small(self) -> bool:
        """Few enough decisions to try."""
        if len(self._units.loose) or len(self._units.blocks) > MAX_DECISIONS:
            return False
        parts = [p for b in self._units.blocks for p in b.parts]
        wholes = sum(1 for b in self._units.blocks if b.whole)
        return wholes + sum(len(p.single) for p in parts if p.limit) <= MAX_DECISIONS

    def run(self, best: Harm, taken: frozenset[int]) -> tuple[Harm, frozenset[int]]:
        """The best choice, at least as good as the one given. The fit holds nothing afterwards."""
        self._best = (best, taken)
        self._entangled = self._ask_entangled()
        self._decisions = sorted(
            (d for block in self._units.blocks for d in _decisions(self._units, block, self._work)),
            key=lambda d: (-d.level, d.part is not None, -d.weight, d.name),
        )
        everything = {s for d in self._decisions for s in d.slots}
        self._tested = self._fit.monotone or len(self._decisions) > MAX_UNBOUNDED
        self._fit.take(_array(everything))
        if not self._tested or self._fit.fits():  # what is decided and undecided together is enough
            if type(self._fit) is CountedFit:  # where domains count too, room is more than a sum over nodes
                self._bound = Bound(self._fit, [_option(d) for d in self._decisions])
            self._next(0, set(), everything, NO_HARM)
        self._fit.give_back(_array(everything))
        return self._best

    def _next(self, at: int, taken: set[int], gone: set[int], harm: Harm) -> None:
        """``taken`` is decided and costs ``harm``; ``gone`` are the slots off their nodes now: taken or undecided."""
        if not self.complete:
            return
        best = self._best
        if self._bound is not None and best is not None and len(gone) > len(taken):
            ties = len(self._decisions) > MAX_NAMED
            if self._bound.exceeds(at, harm, _array(gone - taken), best[0], ties=ties):
                return
        if at == len(self._decisions):
            cost = self._cost(taken)
            if (best is None or cost < best[0]) and (self._tested or self._fits()) and not self._needless(taken):
                self._best = (cost, frozenset(taken))
            return
        decision = self._decisions[at]
        if decision.part is not None and taken.issuperset(decision.block.whole or [-1]):
            self._next(at + 1, taken, gone, harm)  # went with the whole already
            return
        later = {s for d in self._decisions[at + 1 :] for s in d.slots}
        back = [s for s in decision.slots if s not in later and s not in taken]
        self._fit.give_back(_array(back))
        if not self._tested or self._fits():
            self._next(at + 1, taken, gone.difference(back), harm)
        self._fit.take(_array(back))
        if self._allowed(decision, taken):
            more = taken.union(decision.slots)
            cost = self._floor(self._cost(more))
            if best is None or cost < self._best[0]:  # type: ignore[index]
                self._next(at + 1, more, gone, cost)

    def _fits(self) -> bool:
        if not self._spend(1):
            self.complete = False
            return False
        return self._fit.fits()

    def _needless(self, taken: set[int]) -> bool:
        """Could some victim stay? Where fewer victims always do less harm there is no need to look."""
        if not self._entangled:
            return False
        for decision in self._decisions:
            if taken.issuperset(decision.slots):
                self._fit.give_back(_array(decision.slots))
                fits = self._fits()
                self._fit.take(_array(decision.slots))
                if fits:
                    return True
        return False

    def _floor(self, cost: Harm) -> Harm:
        """No choice that takes more than what costs this does less harm.

        A victim that finds one of its budgets empty leaves the others to pods after it. With up to two budgets per pod
        that makes up for itself at most; with three, one pod beyond may save two.
        """
        return cost._replace(beyond_budget=0) if self._entangled else cost

    @staticmethod
    def _allowed(decision: Decision, taken: set[int]) -> bool:
        part = decision.part
        return part is None or sum(1 for s in part.bound if s in taken) < part.limit


def _option(decision: Decision) -> Option:
    """What taking it adds at least: of a whole, the members that may have been taken singly before add nothing."""
    if decision.part is not None:
        return Option(decision.slots, decision.level, 0, 1, decision.weight)
    parts = decision.block.parts
    surplus = sum(part.limit for part in parts)
    gangs = len(parts) if any(len(part.bound) > part.limit for part in parts) else 0
    weight = 0.0 if surplus else decision.weight
    return Option(decision.slots, decision.level, gangs, max(1, len(decision.slots) - surplus), weight)


def _decisions(units: Units, block: Block, work: Callable[[int], float]) -> list[Decision]:
    out = []
    if block.whole:
        weight = sum(work(s) for s in block.whole)
        out.append(Decision(block, None, tuple(block.whole), block.priority, weight, block.ref.name))
    for part in block.parts:
        if part.limit:
            for slot in part.single:
                pod = units.pod(slot)
                out.append(Decision(block, part, (slot,), pod.priority, work(slot), pod.key))
    return out


def _array(slots: set[int] | Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(sorted(slots), dtype=np.int64)
