"""Prefer nodes that have the pod's images.

Formula: kube-scheduler's ImageLocality. The bytes of the images that a node has, each scaled down by the share of
nodes that have it (or all pods would go where the first of them went), between 23 MB and 1000 MB a container.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gangsched.core.arrays import Bools, Floats
from gangsched.core.scores.base import MAX_SCORE

if TYPE_CHECKING:
    from gangsched.core.state.podclass import PodClass
    from gangsched.core.state.simulation import Simulation

_MB = 1024 * 1024
_LEAST = 23 * _MB
_MOST_PER_CONTAINER = 1000 * _MB
_CACHE_LIMIT = 1024


class ImageLocality:
    """More bytes of the pod's images on the node already are better."""

    name = "ImageLocality"
    local = True

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

    def values(self, state: Floats) -> Floats:
        return state

    def value(self, state: Floats, row: int) -> float:
        return float(state[row])
