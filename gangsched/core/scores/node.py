"""Preferences about the node itself: soft taints, preferred node affinity, and the pod's images.

Formula of the last: kube-scheduler's ImageLocality. The bytes of the images that a node has, each scaled down by the
share of nodes that have it (or all pods would go where the first of them went), between 23 MB and 1000 MB a container.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gangsched.core.arrays import Bools, Floats
from gangsched.core.filters.node import tolerates
from gangsched.core.scores.base import MAX_SCORE, NodeScore, normalised
from gangsched.core.state.podclass import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.model.records import NodeTerm


class TaintToleration(NodeScore):
    """Fewer untolerated PreferNoSchedule taints are better."""

    name = "TaintToleration"

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


class NodeAffinity(NodeScore):
    """More weight of matching preferred terms is better: the pod's own, and those ``added`` to all pods."""

    name = "NodeAffinity"

    def __init__(self, added: tuple[tuple[int, NodeTerm], ...] = ()) -> None:
        self._added = added

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return bool(pod.shape.preferred_node_terms or self._added)

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> Floats:
        raw = np.zeros(sim.snapshot.size)
        for weight, term in (*pod.shape.preferred_node_terms, *self._added):
            raw += weight * sim.snapshot.columns.term(term)
        return normalised(raw, feasible, reverse=False)


_MB = 1024 * 1024
_LEAST = 23 * _MB
_MOST_PER_CONTAINER = 1000 * _MB
_CACHE_LIMIT = 1024


class ImageLocality(NodeScore):
    """More bytes of the pod's images on the node already are better."""

    name = "ImageLocality"

    def __init__(self) -> None:
        # By shape, which is kept beside the answer so that its id cannot become another's.
        self._known: dict[int, tuple[int, Any, Floats]] = {}

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        names = (*pod.shape.images, *pod.shape.image_volumes)
        return bool(pod.shape.images) and any(name in sim.snapshot.images for name in names)

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> Floats:
        generation = sim.snapshot.static_generation
        found = self._known.get(id(pod.shape))
        if found is None or found[0] != generation or len(found[2]) != sim.snapshot.size:
            if len(self._known) >= _CACHE_LIMIT:
                self._known.clear()
            found = self._known[id(pod.shape)] = (generation, pod.shape, self._scores(pod, sim))
        return found[2]

    def _scores(self, pod: PodClass, sim: Simulation) -> Floats:
        size = sim.snapshot.size
        bytes_there = np.zeros(size)
        for name in (*pod.shape.images, *pod.shape.image_volumes):
            image = sim.snapshot.images.get(name)
            if image is not None:
                rows, sizes = image.rows(sim.snapshot.node_ids)
                bytes_there[rows] += np.floor(sizes * (len(rows) / size))
        most = _MOST_PER_CONTAINER * len(pod.shape.images)
        part = np.clip(bytes_there, _LEAST, most) - _LEAST
        return np.asarray(np.floor(MAX_SCORE * part / (most - _LEAST)))
