"""Affinity and anti-affinity between pods.

Rules: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity . A
node passes if its domains have pods for all affinity terms (or the pod is the first of a series and matches itself),
and no pod that its anti-affinity selects, or whose anti-affinity selects it.

Held pods may never come: affinity must be satisfied with them and without them. Anti-affinity need not be asked
twice, since more pods only close more domains.

Preferred affinity and anti-affinity between pods, in both directions.

Formula: kube-scheduler's InterPodAffinity. A node gets the weight of a term for every pod in its domain that the new
pod's term selects, or whose own term selects the new pod. Required affinity of existing pods has its own weight. Over
the feasible nodes the least becomes 0 and the most 100.
"""

from __future__ import annotations

import numpy as np

from gangsched.core.arrays import Bools, Counts, Floats
from gangsched.core.plugins.base import MAX_SCORE, Failure
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import DomainCounts, Simulation, carried_rows, includes, rows_of
from gangsched.core.state.termcounts import NEAR, Carried, Selection, selection_of
from gangsched.messages import causes
from gangsched.model.constraints import PodTerm


class _State:
    def __init__(self, pod: PodClass, sim: Simulation) -> None:
        self.pod = pod
        self.sim = sim
        self.chosen = tuple(selection_of(t) for t in pod.shape.affinity)
        #: Pods near which all terms want to be, without those that are held; and those.
        self.near = [DomainCounts(sim, t.topology_key) for t in pod.shape.affinity]
        self.held_near = [DomainCounts(sim, t.topology_key) for t in pod.shape.affinity]
        self.apart: list[tuple[Selection, DomainCounts]] = []
        self.keep_off: dict[str, DomainCounts] = {}
        self.self_match = False

    def is_near(self, pod: PodClass) -> bool:
        """Return True if all affinity terms include the pod."""
        return bool(self.chosen) and all(includes(self.sim, s, pod) for s in self.chosen)


class InterPodAffinity:
    """Required pod affinity and anti-affinity, in both directions."""

    name = "InterPodAffinity"
    sees_pods = True
    by_company = True

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        # Terms of deleted pods count as well. Whether their deletion helps is checked afterwards.
        shape, terms = pod.shape, sim.snapshot.terms
        return bool(shape.affinity or shape.anti_affinity or (terms.carried and terms.apart(pod)))

    def prepare(self, pod: PodClass, sim: Simulation) -> _State:
        state = _State(pod, sim)
        shape = pod.shape
        if shape.affinity:
            rows, counts = rows_of(sim, *state.chosen, leaving=True)
            for near in state.near:
                near.add_rows(rows, counts)
            state.self_match = state.is_near(pod)
        for term in shape.anti_affinity:
            selection = selection_of(term)
            counted = DomainCounts(sim, term.topology_key)
            counted.add_rows(*rows_of(sim, selection, leaving=True))
            state.apart.append((selection, counted))
        for carried in sim.snapshot.terms.apart(pod):
            self._kept_off(state, carried.key).add_rows(*carried_rows(sim, carried))
        for other, row in sim.placed():
            self.apply(state, other, row, +1)
        for other, row in sim.held():
            self._keep_apart(state, other, row, +1)
            if state.is_near(other):
                for near in state.held_near:
                    near.add(row, +1)
        return state

    @staticmethod
    def _kept_off(state: _State, key: str) -> DomainCounts:
        found = state.keep_off.get(key)
        if found is None:
            found = state.keep_off[key] = DomainCounts(state.sim, key)
        return found

    def mask(self, state: _State) -> Bools:
        affine, apart, off = self._parts(state)
        return affine & apart & off

    def _parts(self, state: _State) -> tuple[Bools, Bools, Bools]:
        size = state.sim.snapshot.size
        affine = self._affine(state, [t.counts for t in state.near])
        if any(held.counts.any() for held in state.held_near):
            both = zip(state.near, state.held_near, strict=True)
            affine &= self._affine(state, [near.counts + held.counts for near, held in both])
        apart = np.ones(size, dtype=np.bool_)
        for _, counted in state.apart:
            apart &= counted.at_nodes() == 0
        off = np.ones(size, dtype=np.bool_)
        for counted in state.keep_off.values():
            off &= counted.at_nodes() == 0
        return affine, apart, off

    @staticmethod
    def _affine(state: _State, counts: list[Counts]) -> Bools:
        affine = np.ones(state.sim.snapshot.size, dtype=np.bool_)
        first = state.self_match and not any(c.any() for c in counts)
        for term, have in zip(state.near, counts, strict=True):
            affine &= (term.domains.code >= 0) if first else (term.domains.at(have) > 0)
        return affine

    def failures(self, state: _State) -> list[Failure]:
        affine, apart, off = self._parts(state)
        return [
            Failure(causes.POD_AFFINITY, ~affine, resolvable=False),
            Failure(causes.POD_ANTI_AFFINITY, affine & ~apart, resolvable=True),
            Failure(causes.ANTI_AFFINITY_OF_EXISTING_PODS, affine & apart & ~off, resolvable=True),
        ]

    def apply(self, state: _State, pod: PodClass, row: int, sign: int) -> None:
        if state.is_near(pod):
            for near in state.near:
                near.add(row, sign)
        self._keep_apart(state, pod, row, sign)

    def _keep_apart(self, state: _State, pod: PodClass, row: int, sign: int) -> None:
        sim = state.sim
        for selection, counted in state.apart:
            if includes(sim, selection, pod):
                counted.add(row, sign)
        for theirs in pod.shape.anti_affinity:
            if includes(sim, selection_of(theirs), state.pod):
                self._kept_off(state, theirs.topology_key).add(row, sign)


class _Weights:
    """The sum of weights by domain of each topology key, as of now in the simulation."""

    def __init__(self, pod: PodClass, sim: Simulation) -> None:
        self.pod = pod
        self.sim = sim
        shape = pod.shape
        own = [*shape.preferred_affinity, *((-w, t) for w, t in shape.preferred_anti_affinity)]
        self.own = [(weight, selection_of(term), term.topology_key) for weight, term in own]
        self.by_key: dict[str, DomainCounts] = {}

    def counts_for(self, key: str) -> DomainCounts:
        """Return the sums for the domains of a key."""
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
    by_company = True

    def __init__(self, hard_weight: int) -> None:
        self._hard_weight = hard_weight

    def of_carried(self, carried: Carried) -> int:
        """The weight of a term that a pod has."""
        return self._hard_weight if carried.kind == NEAR else carried.weight

    def prepare(self, pod: PodClass, sim: Simulation) -> _Weights:
        state = _Weights(pod, sim)
        for weight, selection, key in state.own:
            state.counts_for(key).add_rows(*rows_of(sim, selection, leaving=True), weight)
        for carried in sim.snapshot.terms.pulls(pod):
            if carried.pods.total and self.of_carried(carried):
                state.counts_for(carried.key).add_rows(*carried_rows(sim, carried), self.of_carried(carried))
        for other, row in sim.visitors():
            self.apply(state, other, row, +1)
        return state

    def apply(self, state: _Weights, pod: PodClass, row: int, sign: int) -> None:
        for weight, selection, key in state.own:
            if includes(state.sim, selection, pod):
                state.counts_for(key).add(row, sign * weight)
        for weight, term in self._terms(pod):
            if weight and includes(state.sim, selection_of(term), state.pod):
                state.counts_for(term.topology_key).add(row, sign * weight)

    def _terms(self, pod: PodClass) -> list[tuple[int, PodTerm]]:
        shape = pod.shape
        return [
            *((self._hard_weight, t) for t in shape.affinity),
            *shape.preferred_affinity,
            *((-w, t) for w, t in shape.preferred_anti_affinity),
        ]


class _Scored:
    def __init__(self, weights: _Weights, feasible: Bools) -> None:
        self.weights = weights
        self.feasible = feasible


class InterPodAffinityScore:
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
        terms = sim.snapshot.terms
        if self._ignore_existing or not terms.carried:
            return False
        named = [c for c in terms.pulls(pod) if self._watcher.of_carried(c)]
        return bool(named) and (sim.guests_pull or any(c.pods.total for c in named))

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> _Scored:
        return _Scored(sim.state(self._watcher, pod), feasible)

    def values(self, state: _Scored) -> Floats:
        raw = state.weights.raw()
        among = raw[state.feasible]
        if not len(among) or among.max() == among.min():
            return np.zeros(len(raw))
        least, most = int(among.min()), int(among.max())
        return np.asarray(np.floor(np.clip(MAX_SCORE * ((raw - least) / (most - least)), 0.0, MAX_SCORE)))

    def value(self, state: _Scored, row: int) -> float:
        return float(self.values(state)[row])
