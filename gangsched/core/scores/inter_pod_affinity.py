"""Preferred affinity and anti-affinity between pods, in both directions.

Formula: kube-scheduler's InterPodAffinity. A node gets the weight of a term for every pod in its domain that the term
of the new pod selects, or whose own term selects the new pod; required affinity of pods that are there counts with a
weight of its own. Over the feasible nodes the least becomes 0 and the most 100.
"""

from __future__ import annotations

import numpy as np

from gangsched.core.arrays import Bools, Counts, Floats
from gangsched.core.scores.base import MAX_SCORE
from gangsched.core.state.podclass import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.termcounts import NEAR, Carried, selection_of
from gangsched.core.state.terms import DomainCounts, carried_rows, includes, rows_of
from gangsched.model.records import PodTerm


class _Weights:
    """The sum of weights by domain of each topology key, as of now in the simulation."""

    def __init__(self, pod: PodClass, sim: Simulation) -> None:
        self.pod = pod
        self.sim = sim
        shape = pod.shape
        own = [*shape.preferred_affinity, *((-w, t) for w, t in shape.preferred_anti_affinity)]
        self.own = [(weight, selection_of(term), term.topology_key) for weight, term in own]
        self.by_key: dict[str, DomainCounts] = {}

    def of(self, key: str) -> DomainCounts:
        """The sums for the domains of a key."""
        found = self.by_key.get(key)
        if found is None:
            found = self.by_key[key] = DomainCounts(self.sim, key)
        return found

    def raw(self) -> Counts:
        """``(N,)`` sums of weights."""
        out = np.zeros(self.sim.snapshot.size, dtype=np.int64)
        for sums in self.by_key.values():
            out += sums.at_nodes()
        return out


class _Watcher:
    """Keeps :class:`_Weights` current while pods come and go."""

    name = "InterPodAffinity/score"

    def __init__(self, hard_weight: int) -> None:
        self._hard_weight = hard_weight

    def of_carried(self, carried: Carried) -> int:
        """The weight of a term that a pod has."""
        return self._hard_weight if carried.kind == NEAR else carried.weight

    def prepare(self, pod: PodClass, sim: Simulation) -> _Weights:
        state = _Weights(pod, sim)
        for weight, selection, key in state.own:
            state.of(key).add_rows(*rows_of(sim, selection, leaving=True), weight)
        for carried in sim.snapshot.terms.pulls(pod):
            if carried.pods.total and self.of_carried(carried):
                state.of(carried.key).add_rows(*carried_rows(sim, carried), self.of_carried(carried))
        for other, row in sim.visitors():
            self.apply(state, other, row, +1)
        return state

    def apply(self, state: _Weights, pod: PodClass, row: int, sign: int) -> None:
        for weight, selection, key in state.own:
            if includes(state.sim, selection, pod):
                state.of(key).add(row, sign * weight)
        for weight, term in self._terms(pod):
            if weight and includes(state.sim, selection_of(term), state.pod):
                state.of(term.topology_key).add(row, sign * weight)

    def _terms(self, pod: PodClass) -> list[tuple[int, PodTerm]]:
        shape = pod.shape
        return [
            *((self._hard_weight, t) for t in shape.affinity),
            *shape.preferred_affinity,
            *((-w, t) for w, t in shape.preferred_anti_affinity),
        ]


class _State:
    def __init__(self, weights: _Weights, feasible: Bools) -> None:
        self.weights = weights
        self.feasible = feasible


class InterPodAffinity:
    """More weight of preferred terms that hold is better.

    ``hard_pod_affinity_weight`` (0..100) is the weight of the required affinity of pods that are there, for pods
    that it names. With ``ignore_preferred_terms_of_existing_pods`` pods without preferred terms of their own are not
    scored.
    """

    name = "InterPodAffinity"
    local = False

    def __init__(
        self, hard_pod_affinity_weight: int = 1, ignore_preferred_terms_of_existing_pods: bool = False
    ) -> None:
        self._ignore_existing = ignore_preferred_terms_of_existing_pods
        self._watcher = _Watcher(hard_pod_affinity_weight)

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        if pod.shape.preferred_affinity or pod.shape.preferred_anti_affinity:
            return True
        if self._ignore_existing:
            return False
        named = [c for c in sim.snapshot.terms.pulls(pod) if self._watcher.of_carried(c)]
        return bool(named) and (sim.guests_pull or any(c.pods.total for c in named))

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> _State:
        return _State(sim.state(self._watcher, pod), feasible)

    def values(self, state: _State) -> Floats:
        raw = state.weights.raw()
        among = raw[state.feasible]
        if not len(among) or among.max() == among.min():
            return np.zeros(len(raw))
        least, most = int(among.min()), int(among.max())
        return np.asarray(np.floor(np.clip(MAX_SCORE * ((raw - least) / (most - least)), 0.0, MAX_SCORE)))

    def value(self, state: _State, row: int) -> float:
        return float(self.values(state)[row])
