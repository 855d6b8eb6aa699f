"""The checks of scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gangsched.core.arrays import Bools, Floats
from gangsched.core.framework.registry import GuardedScore
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched_conformance.clusters import Cluster
from gangsched_conformance.findings import Finding, Step, Surroundings, random_steps, replayed
from gangsched_conformance.run import Run, run_all

#: Name of a check and what it is about.
SCORE_CHECKS: dict[str, str] = {
    "answers": "no method raises; values is an array of float64 with one element per node, 0 to 100 where feasible",
    "value": "value of a node is its element of values",
    "local": "with local True, a pod that is placed changes the score of its own node only, and value knows of it",
    "deterministic": "the same cluster, built twice, gives the same scores",
    "untouched": "the simulation and the snapshot are not changed",
    "asked": "the score applies to some pod of some cluster",
}


def check_score(plugin: Any, seeds: Iterable[int], clusters: Callable[[int], Cluster]) -> list[Finding]:
    """See :func:`gangsched_conformance.check`."""
    return run_all(lambda seed: _Run(plugin, seed, clusters), seeds)


class _Run(Run):
    """One cluster."""

    def __init__(self, plugin: Any, seed: int, clusters: Callable[[int], Cluster]) -> None:
        self.score = GuardedScore(plugin)
        super().__init__(seed, clusters, self.score.pod_labels)

    def run(self) -> None:
        snapshot = self.cluster.world.snapshot
        classes = [snapshot.class_of(pod) for pod in self.cluster.wanted]
        for pod, pod_class, twin in zip(self.cluster.wanted, classes, self.twin.wanted, strict=True):
            self.pod = pod.key
            steps = random_steps(self.chance, self.cluster, classes, set())
            sim = replayed(snapshot, steps)
            before = Surroundings(sim)
            if not self.score.applies(pod_class, sim):
                continue
            self.asked += 1
            feasible = np.array([self.chance.random() < 0.7 for _ in range(snapshot.size)], dtype=np.bool_)
            feasible[self.chance.randrange(snapshot.size)] = True
            values = self._asked(sim, pod_class, feasible)
            again = replayed(self.twin.world.snapshot, _for(self.twin, steps, self.cluster))
            if values.tobytes() != self._asked(again, self.twin.world.snapshot.class_of(twin), feasible).tobytes():
                self.tell("deterministic", "two clusters that are the same are scored differently")
            if before.touched():
                self.tell("untouched", "arrays of the simulation or the snapshot have changed")
            if self.score.local:
                self._local(sim, pod_class, feasible, values)

    def _asked(self, sim: Simulation, pod: PodClass, feasible: Bools) -> Floats:
        """The scores of feasible nodes, 0 elsewhere."""
        state = self.score.prepare(pod, sim, feasible.copy())
        values = np.where(feasible, self.score.values(state), 0.0)
        self._compare(state, values, feasible)
        return np.asarray(values)

    def _compare(self, state: Any, values: Floats, feasible: Bools) -> None:
        for row in np.flatnonzero(feasible).tolist():
            one = self.score.value(state, row)
            if one != values[row]:
                self.tell("value", f"value of row {row} is {one}, values has {values[row]}")

    def _local(self, sim: Simulation, pod: PodClass, feasible: Bools, values: Floats) -> None:
        """As it is used: one state while pods of the class are placed, asked about the nodes that they went to."""
        state = self.score.prepare(pod, sim, feasible.copy())
        for row in np.flatnonzero(feasible).tolist()[:4]:
            sim.place(pod, row)
            fresh = self._asked(sim, pod, feasible)
            moved = feasible & (fresh != values)
            moved[row] = False
            if moved.any():
                self.tell("local", "local is True, but a pod that was placed changes the score of another node")
            if self.score.value(state, row) != fresh[row]:
                self.tell("local", "value does not know of a pod that has been placed since prepare")
            values = fresh


def _for(twin: Cluster, steps: Sequence[Step], original: Cluster) -> list[Step]:
    """The same steps with the pod classes of the twin."""
    mine = {original.world.snapshot.class_of(p).ident: t for p, t in zip(original.wanted, twin.wanted, strict=True)}
    classes = {ident: twin.world.snapshot.class_of(pod) for ident, pod in mine.items()}
    return [step._replace(pod=classes[step.pod.ident]) if step.pod is not None else step for step in steps]
