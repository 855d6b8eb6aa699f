"""The least harmful choice of few units, proved by trying all that could be better.

Depth first over the units, the most harmful first, sparing before taking. A branch ends when what is taken already
is no better than the best choice known, or when the gang does not fit even with everything undecided gone; both
bounds are safe, since taking more never lowers the harm and never makes the gang fit worse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from gangsched.core.preemption.fit import Fit
from gangsched.core.preemption.harm import Harm
from gangsched.core.preemption.units import Block, Part, Units

#: More decisions than this are not tried to the end.
MAX_DECISIONS = 48


class Decision(msgspec.Struct, frozen=True):
    """Take or spare: a whole block (``part`` is None), or one pod of a part."""

    block: Block
    part: Part | None
    slots: tuple[int, ...]
    level: int
    weight: float
    name: str


class Exact:
    """One exhaustive search below a known choice. ``spend`` is asked before each test and says if there is budget."""

    def __init__(
        self,
        units: Units,
        fit: Fit,
        cost: Callable[[set[int]], Harm],
        spend: Callable[[int], bool],
        work: Callable[[int], float],
    ) -> None:
        self._units = units
        self._fit = fit
        self._cost = cost
        self._spend = spend
        self._work = work
        self._decisions: list[Decision] = []
        self._best: tuple[Harm, frozenset[int]] | None = None
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
        self._decisions = sorted(
            (d for block in self._units.blocks for d in _decisions(self._units, block, self._work)),
            key=lambda d: (-d.level, d.part is not None, -d.weight, d.name),
        )
        everything = {s for d in self._decisions for s in d.slots}
        self._fit.take(_array(everything))
        if self._fit.fits():  # every branch rests on this: what is decided and undecided together is enough
            self._next(0, set(), everything)
        self._fit.give_back(_array(everything))
        return self._best

    def _next(self, at: int, taken: set[int], gone: set[int]) -> None:
        """``taken`` is decided; ``gone`` are the slots off their nodes now: taken or undecided."""
        if not self.complete:
            return
        best = self._best
        if at == len(self._decisions):
            cost = self._cost(taken)
            if best is None or cost < best[0]:
                self._best = (cost, frozenset(taken))
            return
        decision = self._decisions[at]
        if decision.part is not None and taken.issuperset(decision.block.whole or [-1]):
            self._next(at + 1, taken, gone)  # went with the whole already
            return
        later = {s for d in self._decisions[at + 1 :] for s in d.slots}
        back = [s for s in decision.slots if s not in later and s not in taken]
        if self._spare(back):
            self._next(at + 1, taken, gone.difference(back))
        self._fit.take(_array(back))
        if self._allowed(decision, taken):
            more = taken.union(decision.slots)
            if best is None or self._cost(more) < self._best[0]:  # type: ignore[index]
                self._next(at + 1, more, gone)

    def _spare(self, slots: Sequence[int]) -> bool:
        """Put these back; does the gang still fit with the rest gone?"""
        self._fit.give_back(_array(slots))
        if not self._spend(1):
            self.complete = False
            return False
        return self._fit.fits()

    @staticmethod
    def _allowed(decision: Decision, taken: set[int]) -> bool:
        part = decision.part
        return part is None or sum(1 for s in part.bound if s in taken) < part.limit


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
