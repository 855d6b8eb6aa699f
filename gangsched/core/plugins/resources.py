"""How full, and how evenly full, a node would be.

Formulas: kube-scheduler's NodeResourcesFit (LeastAllocated, MostAllocated, RequestedToCapacityRatio) and
NodeResourcesBalancedAllocation, in its integer arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from gangsched.core.arrays import Bools, Floats
from gangsched.core.plugins.base import MAX_SCORE
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import SCORED

_NATIVE = ("cpu", "memory", "ephemeral-storage")
#: How a pod without extended resources is ranked as by LeastAllocated, and one with some is packed on them.
PACK_EXTENDED = "PackExtendedResources"
#: The most that a point of the shape of RequestedToCapacityRatio may score.
_MOST_OF_SHAPE = 10


class _Load:
    """The request of a class for some resources, with the room of all nodes and its usage.

    ``weights`` say how much each counts; ``most``: full nodes are preferred.
    ``room`` is ``(k, N)``; 0 for resources that do not count: a node has none, or an extended resource that the class
    does not ask for. ``assumed``: pods that ask for no cpu or memory count as if they did.
    """

    def __init__(
        self,
        sim: Simulation,
        names: Sequence[str],
        asked: Mapping[str, float],
        *,
        assumed: bool,
        weights: Sequence[float] = (),
        most: bool = False,
    ) -> None:
        self.sim = sim
        self.weights = weights
        self.most = most
        self.asked = [float(asked.get(name, 0)) for name in names]
        self.room: Floats = np.zeros((len(names), sim.snapshot.size))
        self._sources: list[tuple[bool, int]] = []
        for i, name in enumerate(names):
            row = sim.snapshot.resource_row.get(name)
            if assumed and name in SCORED:
                self._sources.append((True, SCORED.index(name)))
            else:
                self._sources.append((False, 0 if row is None else row))
            if row is not None and (self.asked[i] or name in _NATIVE):
                self.room[i] = sim.snapshot.allocatable[row]

    def taken(self) -> Floats:
        """``(k, N)`` as of now in the simulation."""
        taken = self.sim.taken
        return np.array([self.sim.scored[row] if scored else taken(row) for scored, row in self._sources])

    def taken_at(self, node: int) -> list[float]:
        """The same for one node."""
        sim = self.sim
        return [float(sim.scored[row, node] if scored else sim.taken_at(row, node)) for scored, row in self._sources]


class NodeResourcesFitScore:
    """Prefer empty nodes (LeastAllocated), full ones (MostAllocated), or what ``shape`` says
    (RequestedToCapacityRatio: points of utilisation in percent and score from 0 to 10, ascending).

    ``resources`` are ``(name, weight)``. With PackExtendedResources a pod that asks for extended resources goes where
    least of these is left; the others count for pods without.
    """

    name = "NodeResourcesFit"
    local = True

    def __init__(
        self,
        strategy: str = "LeastAllocated",
        resources: Sequence[tuple[str, int]] = (("cpu", 1), ("memory", 1)),
        shape: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.most = strategy == "MostAllocated"
        self.packs_extended = strategy == PACK_EXTENDED
        self.names = [name for name, _ in resources]
        self.weights = [float(weight) for _, weight in resources]
        self.by_percent = _by_percent(shape) if strategy == "RequestedToCapacityRatio" else None

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return True

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> _Load:
        asked = {
            **dict(pod.shape.requests),
            **dict(zip(SCORED, sim.snapshot.scored_of(pod.shape).tolist(), strict=True)),
        }
        extended = [name for name, units in pod.shape.requests if units and _is_extended(name)]
        if self.packs_extended and extended:
            return _Load(sim, extended, asked, assumed=False, weights=[1.0] * len(extended), most=True)
        return _Load(sim, self.names, asked, assumed=True, weights=self.weights, most=self.most)

    def values(self, state: _Load) -> Floats:
        room = state.room
        wanted = state.taken() + np.array(state.asked)[:, None]
        counted = room > 0
        safe = np.where(counted, room, 1.0)
        weights = np.array(state.weights)[:, None]
        if self.by_percent is not None:
            percent = np.where(wanted > room, 100.0, np.floor(wanted * 100.0 / safe)).astype(np.int64)
            scores = np.where(counted, self.by_percent[np.clip(percent, 0, 100)], 0.0)
            weight = (weights * (scores > 0)).sum(axis=0)
            return np.asarray(np.floor((scores * weights).sum(axis=0) / np.where(weight > 0, weight, 1.0) + 0.5))
        part = np.minimum(wanted, room) if state.most else np.maximum(room - wanted, 0.0)
        scores = np.where(counted, np.floor(part * MAX_SCORE / safe), 0.0)
        weight = (weights * counted).sum(axis=0)
        return np.asarray(np.floor((scores * weights).sum(axis=0) / np.where(weight > 0, weight, 1.0)))

    def value(self, state: _Load, row: int) -> float:
        total, total_weight = 0.0, 0.0
        for i, taken in enumerate(state.taken_at(row)):
            room = float(state.room[i, row])
            if room <= 0:
                continue
            wanted = taken + state.asked[i]
            if self.by_percent is not None:
                score = float(self.by_percent[100 if wanted > room else max(math.floor(wanted * 100.0 / room), 0)])
                total_weight += state.weights[i] if score > 0 else 0.0
            else:
                part = min(wanted, room) if state.most else max(room - wanted, 0.0)
                score = math.floor(part * MAX_SCORE / room)
                total_weight += state.weights[i]
            total += score * state.weights[i]
        half = 0.5 if self.by_percent is not None else 0.0
        return float(math.floor(total / total_weight + half)) if total_weight else 0.0


def _is_extended(resource: str) -> bool:
    """Return whether a resource is one of devices and the like, as a domain in its name says."""
    return "/" in resource and not resource.startswith("kubernetes.io/")


def _by_percent(shape: Sequence[tuple[int, int]]) -> Floats:
    """``(101,)``: the score, 0..100, at each whole percent: straight between the points, level beyond them.

    Quotients are cut towards zero, as kube-scheduler's are.
    """
    scaled = [(x, int(y * MAX_SCORE / _MOST_OF_SHAPE)) for x, y in shape]
    found = []
    for percent in range(101):
        above = next((i for i, (x, _) in enumerate(scaled) if percent <= x), None)
        if above is None:
            found.append(float(scaled[-1][1]))
        elif above == 0:
            found.append(float(scaled[0][1]))
        else:
            (x0, y0), (x1, y1) = scaled[above - 1], scaled[above]
            found.append(float(y0 + math.trunc((y1 - y0) * (percent - x0) / (x1 - x0))))
    return np.array(found)


class NodeResourcesBalancedAllocation:
    """Prefer nodes whose resources would be used in like proportion."""

    name = "NodeResourcesBalancedAllocation"
    local = True

    def __init__(self, resources: Sequence[str] = ("cpu", "memory")) -> None:
        self.names = tuple(resources)

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return any(name in self.names for name, _ in pod.shape.requests)

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> _Load:
        return _Load(sim, self.names, dict(pod.shape.requests), assumed=False)

    def values(self, state: _Load) -> Floats:
        taken = state.taken()
        before = _evenness(taken, state.room)
        after = _evenness(taken + np.array(state.asked)[:, None], state.room)
        return np.asarray(np.floor(MAX_SCORE / 2 + np.trunc((MAX_SCORE / 2 + after - before) / 2)))

    def value(self, state: _Load, row: int) -> float:
        before, after = [], []
        for i, taken in enumerate(state.taken_at(row)):
            room = float(state.room[i, row])
            if room > 0:
                before.append(min(taken / room, 1.0))
                after.append(min((taken + state.asked[i]) / room, 1.0))
        change = _evenness_of(after) - _evenness_of(before)
        return MAX_SCORE / 2 + math.trunc((MAX_SCORE / 2 + change) / 2)


def _evenness(used: Floats, room: Floats) -> Floats:
    """100 x (1 - standard deviation of the fractions used) over the resources that a node has; 100 for a single one."""
    known = room > 0
    count = known.sum(axis=0)
    fractions = np.where(known, np.minimum(used / np.where(known, room, 1.0), 1.0), 0.0)
    if len(fractions) == 2:
        deviation = np.where(count == 2, np.abs((fractions[0] - fractions[1]) / 2.0), 0.0)
    else:
        mean = fractions.sum(axis=0) / np.maximum(count, 1)
        squares = np.where(known, (fractions - mean) * (fractions - mean), 0.0).sum(axis=0)
        spread = np.where(known, fractions, -np.inf).max(axis=0, initial=-np.inf) - np.where(
            known, fractions, np.inf
        ).min(axis=0, initial=np.inf)
        deviation = np.where(
            count > 2, np.sqrt(squares / np.maximum(count, 1)), np.where(count == 2, spread / 2.0, 0.0)
        )
    return np.asarray(np.trunc((1.0 - deviation) * MAX_SCORE))


def _evenness_of(fractions: list[float]) -> int:
    """The same for one node, from the fractions of what it has."""
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2.0)
    elif len(fractions) > 2:
        mean = sum(fractions) / len(fractions)
        deviation = math.sqrt(sum((f - mean) * (f - mean) for f in fractions) / len(fractions))
    return math.trunc((1.0 - deviation) * MAX_SCORE)
