"""How little harm could still come of a half-made choice, where members are counted.

With some units decided, every other one can make room for at most as many members as its nodes would gain if all that
is undecided left. Those most useful by that measure are enough at the earliest, so less than what they do is out of
reach: gangs and pods at the lowest priority that has to be touched, and work lost, each counted as if nothing else
mattered.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

import numpy as np

from gangsched.core.preemption.counted import CountedFit
from gangsched.core.preemption.harm import Harm
from gangsched.core.state.snapshot import Floats, Ints

#: Sums of floats that differ by less are the same.
_TINY = 1e-6


class Option(NamedTuple):
    """Something to take or spare: its slots, the priority it counts under, and the least that taking it adds."""

    slots: tuple[int, ...]
    level: int
    gangs: int
    pods: int
    work: float


class Bound:
    """For options in the order in which they are decided; ``fit`` is the simulated cluster of the search."""

    def __init__(self, fit: CountedFit, options: Sequence[Option]) -> None:
        self._fit = fit
        self._levels: Ints = np.array([o.level for o in options], dtype=np.int64)
        self._gangs: Ints = np.array([o.gangs for o in options], dtype=np.int64)
        self._pods: Floats = np.array([o.pods for o in options], dtype=np.float64)
        self._works: Floats = np.array([o.work for o in options], dtype=np.float64)
        touched = [fit.held(np.array(o.slots, dtype=np.int64))[0] for o in options]
        self._owner = np.repeat(np.arange(len(options)), [len(rows) for rows in touched])
        self._rows = np.concatenate(touched) if touched else np.zeros(0, dtype=np.int64)

    def exceeds(self, at: int, cost: Harm, undecided: Ints, best: Harm, *, ties: bool) -> bool:
        """Will nothing better than ``best`` come of it? ``cost`` is that of what is taken already; options from ``at``
        on, and the slots ``undecided``, are open and off their nodes now. With ``ties``, as little harm is not better.
        """
        gained, missing = self._fit.gained(undecided)
        if missing <= 0:
            return False
        sums = np.bincount(self._owner, weights=gained[self._rows], minlength=len(self._levels))
        gains: Floats = np.asarray(sums[at:], dtype=np.float64)
        level, gangs, pods = self._at_least(gains, self._levels[at:], self._gangs[at:], self._pods[at:], missing)
        levels = {p: (g, n) for p, g, n in cost.levels}
        before = levels.get(level, (0, 0))
        levels[level] = before[0] + gangs, before[1] + pods
        least = cost.beyond_budget, tuple((p, *levels[p]) for p in sorted(levels, reverse=True))
        known = best.beyond_budget, best.levels
        if least != known:
            return least > known
        work = cost.work + _cheapest(gains, self._works[at:], missing)
        return work > best.work + _TINY or (ties and work > best.work - _TINY)

    @staticmethod
    def _at_least(gains: Floats, levels: Ints, gangs: Ints, pods: Floats, missing: float) -> tuple[int, int, int]:
        """``(level, gangs, pods)`` that go at the lowest priority at which there can be room enough."""
        below = 0.0
        for level in np.unique(levels).tolist():
            here = levels == level
            if below + gains[here].sum() < missing - _TINY:
                below += float(gains[here].sum())
                continue
            need = missing - below
            whole = here & (gangs > 0)
            left = need - float(gains[here & (gangs == 0)].sum())
            enough = np.searchsorted(np.cumsum(np.sort(gains[whole])[::-1]), left - _TINY) + 1 if left > _TINY else 0
            return level, int(enough), ceil(_cheapest(gains[here], pods[here], need) - _TINY)
        return int(levels.max(initial=0)), 0, 0  # there cannot be; the search finds out


def _cheapest(gains: Floats, costs: Floats, need: float) -> float:
    """What a gain of ``need`` costs at least if everything could be had in parts, the best value first."""
    useful = gains > 0
    gains, costs = gains[useful], costs[useful]
    order = np.argsort(costs / gains, kind="stable")
    so_far = np.cumsum(gains[order])
    full = int(np.searchsorted(so_far, need - _TINY))
    before = float(costs[order[:full]].sum())
    if full >= len(order):
        return before
    part = need - (float(so_far[full - 1]) if full else 0.0)
    return before + float(costs[order[full]] * part / gains[order[full]])
