"""How full, and how evenly full, a node would be.

Formulas: kube-scheduler's NodeResourcesFit (LeastAllocated, MostAllocated) and
NodeResourcesBalancedAllocation, with cpu and memory at weight 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gangsched.core.scores.base import MAX_SCORE
from gangsched.core.snapshot import CPU, MEMORY, Bools, Floats, scored_vector

if TYPE_CHECKING:
    from gangsched.core.podclass import PodClass
    from gangsched.core.simulation import Simulation


class _Fullness:
    def __init__(self, sim: Simulation, asked: Floats) -> None:
        self.sim = sim
        self.asked = asked
        self.room = sim.snapshot.allocatable[[CPU, MEMORY]]


class NodeResourcesFit:
    """Prefer empty nodes (LeastAllocated) or full ones (MostAllocated)."""

    name = "NodeResourcesFit"
    local = True

    def __init__(self, strategy: str = "LeastAllocated") -> None:
        self.most = strategy == "MostAllocated"

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return True

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> _Fullness:
        return _Fullness(sim, scored_vector(pod.shape))

    def values(self, state: _Fullness, rows: slice) -> Floats:
        room = state.room[:, rows]
        wanted = state.sim.scored[:, rows] + state.asked[:, None]
        known = room > 0
        safe = np.where(known, room, 1.0)
        part = wanted if self.most else room - wanted
        scores = np.where(known & (wanted <= room), np.floor(part * MAX_SCORE / safe), 0.0)
        weights = known.sum(axis=0)
        return np.asarray(np.floor(scores.sum(axis=0) / np.maximum(weights, 1)))


class _Balance:
    def __init__(self, sim: Simulation, asked: Floats) -> None:
        self.sim = sim
        self.asked = asked
        self.room = sim.snapshot.allocatable[[CPU, MEMORY]]


class NodeResourcesBalancedAllocation:
    """Prefer nodes whose cpu and memory would be used in like proportion."""

    name = "NodeResourcesBalancedAllocation"
    local = True

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return any(name in ("cpu", "memory") for name, _ in pod.shape.requests)

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> _Balance:
        amounts = dict(pod.shape.requests)
        return _Balance(sim, np.array([amounts.get("cpu", 0), amounts.get("memory", 0)], dtype=np.float64))

    def values(self, state: _Balance, rows: slice) -> Floats:
        room = state.room[:, rows]
        used = room - state.sim.free[[CPU, MEMORY], rows]
        before = _evenness(used, room)
        after = _evenness(used + state.asked[:, None], room)
        return np.asarray(np.floor(MAX_SCORE / 2 + (MAX_SCORE / 2 + after - before) / 2))


def _evenness(used: Floats, room: Floats) -> Floats:
    """100 x (1 - standard deviation of the fractions used); a node without a resource counts the other alone."""
    known = room > 0
    fractions = np.where(known, np.clip(used / np.where(known, room, 1.0), 0.0, 1.0), 0.0)
    deviation = np.where(known.all(axis=0), np.abs(fractions[0] - fractions[1]) / 2.0, 0.0)
    return np.asarray(np.floor((1.0 - deviation) * MAX_SCORE))
