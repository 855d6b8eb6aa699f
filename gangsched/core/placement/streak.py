"""Single pods that are alike, decided one after another: what was worked out for one serves the next.

Each is still a decision of its own, made on everything that has happened until then. Only when nothing has happened but
that the last one took the place that it was given, the nodes need not be filtered and ranked once more.
"""

from __future__ import annotations

import heapq

from gangsched.core.framework.pipeline import Pipeline, Ranking
from gangsched.core.state.podclass import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import Snapshot

#: So many pods are drawn from one ranking; as many nodes have to be kept in order for it.
LENGTH = 64


class Streak:
    """The best nodes for one class of pods that only free resources limit, after some of its pods were placed."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._left = 0
        self._ident = -1
        self._expected: tuple[int, str, int] = (-1, "", -1)
        self._sim: Simulation | None = None
        self._ranking: Ranking | None = None
        self._heap: list[tuple[float, int]] = []

    def next(self, pod: PodClass, uid: str, snapshot: Snapshot) -> int | None:
        """The row for this pod; None when it is none of those that this is for, or no node takes it. No room may be
        held for anybody.
        """
        snapshot.settle()
        seen = (snapshot.generation, snapshot.charged_last[0], snapshot.charged_last[1])
        if not self._left or self._ident != pod.ident or self._expected != seen:
            self._left = 0
            if pod.volumes is not None or not self._begin(pod, snapshot):
                return None
        sim, ranking = self._sim, self._ranking
        if sim is None or ranking is None or not self._heap:
            return None
        row = self._heap[0][1]
        sim.place(pod, row)
        index, amounts = snapshot.vector(pod.shape)
        if (sim.free[index, row] >= amounts).all():
            heapq.heapreplace(self._heap, (-ranking.value(row), row))
        else:
            heapq.heappop(self._heap)
        self._left -= 1
        self._expected = (snapshot.generation + 1, uid, row)
        return row

    def _begin(self, pod: PodClass, snapshot: Snapshot) -> bool:
        sim = Simulation(snapshot, unlimited=self._pipeline.unlimited)
        if not self._pipeline.only_counts(pod, sim):
            return False
        ranking = Ranking(self._pipeline, pod, sim, self._pipeline.mask(pod, sim))
        if not ranking.local:
            return False
        self._sim, self._ranking, self._ident, self._left = sim, ranking, pod.ident, LENGTH
        self._heap = ranking.leaders(LENGTH)
        return True
