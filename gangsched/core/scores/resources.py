"""How full, and how evenly full, a node would be.

Formulas: kube-scheduler's NodeResourcesFit (LeastAllocated, MostAllocated) and
NodeResourcesBalancedAllocation, with cpu and memory at weight 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from gangsched.core.scores.base import MAX_SCORE
from gangsched.core.snapshot import CPU, MEMORY, Bools, Floats

if TYPE_CHECKING:
    from gangsched.core.podclass import PodClass
    from gangsched.core.simulation import Simulation


class _Asked:
    """What a class asks for, cpu and memory, beside the room of all nodes."""

    def __init__(self, sim: Simulation, cpu_milli: float, memory_bytes: float) -> None:
        self.sim = sim
        self.asked = (cpu_milli, memory_bytes)
        self.room: Floats = sim.snapshot.allocatable[[CPU, MEMORY]]


class NodeResourcesFit:
    """Prefer empty nodes (LeastAllocated) or full ones (MostAllocated)."""

    name = "NodeResourcesFit"
    local = True

    def __init__(self, strategy: str = "LeastAllocated") -> None:
        self.most = strategy == "MostAllocated"

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return True

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> _Asked:
        cpu_milli, memory_bytes = sim.snapshot.scored_of(pod.shape).tolist()
        return _Asked(sim, cpu_milli, memory_bytes)

    def values(self, state: _Asked) -> Floats:
        room = state.room
        wanted = state.sim.scored + np.array(state.asked)[:, None]
        known = room > 0
        safe = np.where(known, room, 1.0)
        part = wanted if self.most else room - wanted
        part = np.minimum(part, room) if self.most else np.maximum(part, 0.0)
        scores = np.where(known, np.floor(part * MAX_SCORE / safe), 0.0)
        return np.asarray(np.floor(scores.sum(axis=0) / np.maximum(known.sum(axis=0), 1)))

    def value(self, state: _Asked, row: int) -> float:
        total, known = 0.0, 0
        for i in (0, 1):
            room = float(state.room[i, row])
            if room <= 0:
                continue
            known += 1
            wanted = min(float(state.sim.scored[i, row]) + state.asked[i], room)
            total += math.floor((wanted if self.most else room - wanted) * MAX_SCORE / room)
        return float(math.floor(total / max(known, 1)))


class NodeResourcesBalancedAllocation:
    """Prefer nodes whose cpu and memory would be used in like proportion."""

    name = "NodeResourcesBalancedAllocation"
    local = True

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return any(name in ("cpu", "memory") for name, _ in pod.shape.requests)

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> _Asked:
        amounts = dict(pod.shape.requests)
        return _Asked(sim, float(amounts.get("cpu", 0)), float(amounts.get("memory", 0)))

    def values(self, state: _Asked) -> Floats:
        room = state.room
        used = room - state.sim.free[[CPU, MEMORY]]
        before = _evenness(used, room)
        after = _evenness(used + np.array(state.asked)[:, None], room)
        return np.asarray(np.floor(MAX_SCORE / 2 + (MAX_SCORE / 2 + after - before) / 2))

    def value(self, state: _Asked, row: int) -> float:
        rooms = [float(state.room[i, row]) for i in (0, 1)]
        used = [rooms[0] - float(state.sim.free[CPU, row]), rooms[1] - float(state.sim.free[MEMORY, row])]
        before = _evenness_of(used, rooms)
        after = _evenness_of([used[0] + state.asked[0], used[1] + state.asked[1]], rooms)
        return float(math.floor(MAX_SCORE / 2 + (MAX_SCORE / 2 + after - before) / 2))


def _evenness(used: Floats, room: Floats) -> Floats:
    """100 x (1 - standard deviation of the fractions used); a node without a resource counts the other alone."""
    known = room > 0
    fractions = np.where(known, np.clip(used / np.where(known, room, 1.0), 0.0, 1.0), 0.0)
    deviation = np.where(known.all(axis=0), np.abs(fractions[0] - fractions[1]) / 2.0, 0.0)
    return np.asarray(np.floor((1.0 - deviation) * MAX_SCORE))


def _evenness_of(used: list[float], room: list[float]) -> float:
    if room[0] <= 0 or room[1] <= 0:
        return MAX_SCORE
    first, second = (min(max(u / r, 0.0), 1.0) for u, r in zip(used, room, strict=True))
    return float(math.floor((1.0 - abs(first - second) / 2.0) * MAX_SCORE))
