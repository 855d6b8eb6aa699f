"""The checks of filters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gangsched.core.arrays import Bools
from gangsched.core.framework.registry import GuardedFilter
from gangsched.core.plugins.devices import DynamicResources
from gangsched.core.plugins.volumes import VolumeFilter
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched_conformance.clusters import Cluster
from gangsched_conformance.findings import Finding, Step, Surroundings, random_steps, replayed
from gangsched_conformance.run import Run, run_all

#: Name of a check and what it is about.
FILTER_CHECKS: dict[str, str] = {
    "answers": "no method raises; mask is an array of bool with one element for each node",
    "failures": "the nodes of all failures together are exactly those that the mask refuses",
    "rollback": "apply and then its opposite leave the answer as it was",
    "rebuilt": "a state that followed pods coming and going says what a new state says",
    "blind": "a filter with sees_pods False gives the same answer whatever pods are there",
    "resolvable": "a node refused for reasons that are all unresolvable still refuses when all of its pods have left",
    "monotone": "a filter with monotone True refuses no node because a pod has left",
    "deterministic": "the same cluster, built twice, gives the same answers",
    "untouched": "the simulation and the snapshot are not changed",
    "asked": "the filter applies to some pod of some cluster",
}

_Said = tuple[bytes, tuple[tuple[str, bytes, bool], ...]]


def check_filter(plugin: Any, seeds: Iterable[int], clusters: Callable[[int], Cluster]) -> list[Finding]:
    """See :func:`gangsched_conformance.check`."""
    return run_all(lambda seed: _Run(plugin, seed, clusters), seeds)


class _Run(Run):
    """One cluster."""

    def __init__(self, plugin: Any, seed: int, clusters: Callable[[int], Cluster]) -> None:
        self._plugin = plugin
        self.rule = GuardedFilter(plugin)
        super().__init__(seed, clusters, self.rule.pod_labels)

    def run(self) -> None:
        snapshot = self.cluster.world.snapshot
        classes = [snapshot.class_of(pod) for pod in self.cluster.wanted]
        for pod, pod_class, twin in zip(self.cluster.wanted, classes, self.twin.wanted, strict=True):
            self.pod = pod.key
            sim = Simulation(snapshot)
            before = Surroundings(sim)
            if not self.rule.applies(pod_class, sim):
                continue
            self.asked += 1
            first = self._said(sim, pod_class)
            again = Simulation(self.twin.world.snapshot)
            if first != self._said(again, self.twin.world.snapshot.class_of(twin)):
                self.tell("deterministic", "two clusters that are the same are answered differently")
            if before.touched():
                self.tell("untouched", "arrays of the simulation or the snapshot have changed")
            if self.rule.sees_pods:
                self._changes(sim, pod_class, classes, first)
            else:
                self._blind(pod_class, classes, first)

    # -- with pods that come and go --------------------------------------------------------------------------

    def _changes(self, sim: Simulation, pod: PodClass, classes: Sequence[PodClass], first: _Said) -> None:
        steps: list[Step] = []
        lifted: set[int] = set()
        for _ in range(2):
            mark, between = sim.mark(), self._said(sim, pod)
            for step in random_steps(self.chance, self.cluster, classes, set(lifted)):
                step.carry_out(sim)
            sim.rollback(mark)
            if self._said(sim, pod) != between:
                self.tell("rollback", "pods came and left again, and the answer is another one")
            for step in random_steps(self.chance, self.cluster, classes, lifted):
                step.carry_out(sim)
                steps.append(step)
                self._monotone(sim, pod, step)
            if self._said(sim, pod) != self._said(replayed(sim.snapshot, steps), pod):
                self.tell("rebuilt", f"after {len(steps)} changes the state says other than a new one")
            self._resolvable(sim, pod, lifted)
        sim.rollback(0)
        if self._said(sim, pod) != first:
            self.tell("rollback", "everything was undone, and the answer is another one")

    def _monotone(self, sim: Simulation, pod: PodClass, step: Step) -> None:
        if not self.rule.monotone or not step.lift:
            return
        after = self._mask(sim, pod)
        sim.put_back(step.slot)
        before = self._mask(sim, pod)
        sim.lift(step.slot)
        if (before & ~after).any():
            self.tell("monotone", "a node is refused because a pod has left")

    def _resolvable(self, sim: Simulation, pod: PodClass, lifted: set[int]) -> None:
        mask, table = self._mask(sim, pod), sim.snapshot.table
        curable = np.zeros(len(mask), dtype=np.bool_)
        for failure in self.rule.failures(sim.state(self.rule, pod)):
            curable |= failure.nodes & failure.resolvable
        if self._whole(sim.state(self.rule, pod)):
            return
        for row in np.flatnonzero(~mask & ~curable).tolist():
            mark = sim.mark()
            for slot in table.occupied().tolist():
                if table.row[slot] == row and slot not in lifted:
                    sim.lift(slot)
            if self._mask(sim, pod)[row]:
                name = sim.snapshot.nodes[row].name
                self.tell("resolvable", f"{name} was refused for good and passes once its pods have left")
            sim.rollback(mark)

    # -- without ---------------------------------------------------------------------------------------------

    def _blind(self, pod: PodClass, classes: Sequence[PodClass], first: _Said) -> None:
        steps = random_steps(self.chance, self.cluster, classes, set())
        if self._said(replayed(self.cluster.world.snapshot, steps), pod) != first:
            self.tell("blind", "sees_pods is False, but the answer depends on the pods that are there")
        for failure in self.rule.failures(self._state(Simulation(self.cluster.world.snapshot), pod)):
            if failure.resolvable and failure.nodes.any():
                self.tell("resolvable", "sees_pods is False, so no eviction can help, but a failure says so")

    # -- questions -------------------------------------------------------------------------------------------

    def _whole(self, state: Any) -> str:
        """Return why no node at all will do, from a filter of volumes or devices: it names no nodes then."""
        return self._plugin.refusal(state.state) if isinstance(self._plugin, VolumeFilter | DynamicResources) else ""

    def _state(self, sim: Simulation, pod: PodClass) -> Any:
        return sim.state(self.rule, pod) if self.rule.sees_pods else self.rule.prepare(pod, sim)

    def _mask(self, sim: Simulation, pod: PodClass) -> Bools:
        return self.rule.mask(self._state(sim, pod)).copy()

    def _said(self, sim: Simulation, pod: PodClass) -> _Said:
        """Mask and failures in a form that can be compared, the failures of no node left out."""
        state = self._state(sim, pod)
        mask = self.rule.mask(state).copy()
        if self._whole(state) and not mask.any():
            return mask.tobytes(), ()
        failures = self.rule.failures(state)
        refused = np.zeros(len(mask), dtype=np.bool_)
        for failure in failures:
            refused |= failure.nodes
        if not np.array_equal(refused, ~mask):
            rows = np.flatnonzero(refused == mask).tolist()
            names = ", ".join(sim.snapshot.nodes[row].name for row in rows[:3])
            self.tell("failures", f"mask and failures do not agree on {names}")
        told = [(f.text, f.nodes.tobytes(), f.resolvable) for f in failures if f.nodes.any()]
        return mask.tobytes(), tuple(sorted(told))
