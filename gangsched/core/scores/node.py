"""Preferences about the node itself: soft taints and preferred node affinity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gangsched.core.arrays import Bools, Floats
from gangsched.core.filters.node import tolerates
from gangsched.core.scores.base import normalised
from gangsched.model.records import NodeTerm

if TYPE_CHECKING:
    from gangsched.core.state.podclass import PodClass
    from gangsched.core.state.simulation import Simulation


class TaintToleration:
    """Fewer untolerated PreferNoSchedule taints are better."""

    name = "TaintToleration"
    local = True

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        _, sets = sim.snapshot.columns.taints()
        return any(t.effect == "PreferNoSchedule" for taints in sets for t in taints)

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> Floats:
        codes, sets = sim.snapshot.columns.taints()
        counts = np.array(
            [
                sum(1 for t in taints if t.effect == "PreferNoSchedule" and not tolerates(pod.shape.tolerations, t))
                for taints in sets
            ],
            dtype=np.float64,
        )
        return normalised(counts[codes], feasible, reverse=True)

    def values(self, state: Floats) -> Floats:
        return state

    def value(self, state: Floats, row: int) -> float:
        return float(state[row])


class NodeAffinity:
    """More weight of matching preferred terms is better: the pod's own, and those ``added`` to all pods."""

    name = "NodeAffinity"
    local = True

    def __init__(self, added: tuple[tuple[int, NodeTerm], ...] = ()) -> None:
        self._added = added

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return bool(pod.shape.preferred_node_terms or self._added)

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> Floats:
        raw = np.zeros(sim.snapshot.size)
        for weight, term in (*pod.shape.preferred_node_terms, *self._added):
            raw += weight * sim.snapshot.columns.term(term)
        return normalised(raw, feasible, reverse=False)

    def values(self, state: Floats) -> Floats:
        return state

    def value(self, state: Floats, row: int) -> float:
        return float(state[row])
