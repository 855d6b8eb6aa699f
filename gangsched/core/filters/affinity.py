"""Affinity and anti-affinity between pods.

Rules: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity .
A node passes when it is in a domain with pods that match all affinity terms (or the pod is the first of a series
that matches itself), in no domain with a pod that its anti-affinity names, and in no domain with a pod whose
anti-affinity names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gangsched.core.filters.base import Bools, Failure
from gangsched.core.terms import Counts, Domains, Selection, includes, selected_slots, selection_of, without

if TYPE_CHECKING:
    from gangsched.core.podclass import PodClass
    from gangsched.core.simulation import Simulation


class _Term:
    """One term with the number of pods it concerns in each domain."""

    def __init__(self, selection: Selection | None, domains: Domains, counts: Counts) -> None:
        self.selection = selection
        self.domains = domains
        self.counts = counts

    def add(self, row: int, sign: int) -> None:
        code = int(self.domains.code[row])
        if code >= 0:
            self.counts[code] += sign


class _State:
    def __init__(self, pod: PodClass, sim: Simulation) -> None:
        self.pod = pod
        self.sim = sim
        self.near: list[_Term] = []
        self.apart: list[_Term] = []
        self.keep_off: dict[str, _Term] = {}
        self.self_match = False


class InterPodAffinity:
    """Required pod affinity and anti-affinity, in both directions."""

    name = "InterPodAffinity"
    sees_pods = True

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        shape = pod.shape
        return bool(shape.affinity or shape.anti_affinity) or sim.snapshot.kept_off(pod)

    def prepare(self, pod: PodClass, sim: Simulation) -> _State:
        state = _State(pod, sim)
        shape = pod.shape
        if shape.affinity:
            chosen = [selection_of(t) for t in shape.affinity]
            slots = selected_slots(sim, chosen[0])
            for more in chosen[1:]:
                slots = np.intersect1d(slots, selected_slots(sim, more))
            for term in shape.affinity:
                domains = Domains(sim, term.topology_key)
                state.near.append(_Term(None, domains, domains.tally(sim, slots)))
            state.self_match = all(includes(sim, s, pod) for s in chosen)
        for term in shape.anti_affinity:
            selection = selection_of(term)
            domains = Domains(sim, term.topology_key)
            slots = selected_slots(sim, selection)
            state.apart.append(_Term(selection, domains, domains.tally(sim, slots)))
        self._keep_off(state)
        for other, row in sim.visitors():
            self.apply(state, other, row, +1)
        return state

    def _keep_off(self, state: _State) -> None:
        """Pods on nodes whose own anti-affinity names this class."""
        sim = state.sim
        table = sim.snapshot.table
        slots = table.occupied()
        shapes = table.shape[slots]
        lifted = sim.lifted()
        for number in sim.snapshot.anti_shapes:
            for term in sim.snapshot.shapes[number].anti_affinity:
                if includes(sim, selection_of(term), state.pod):
                    found = self._term_for(state, term.topology_key)
                    found.counts += found.domains.tally(sim, without(slots[shapes == number], lifted))

    @staticmethod
    def _term_for(state: _State, key: str) -> _Term:
        found = state.keep_off.get(key)
        if found is None:
            domains = Domains(state.sim, key)
            found = state.keep_off[key] = _Term(None, domains, np.zeros(domains.count, dtype=np.int64))
        return found

    def mask(self, state: _State) -> Bools:
        affine, apart, off = self._parts(state)
        return affine & apart & off

    def _parts(self, state: _State) -> tuple[Bools, Bools, Bools]:
        size = state.sim.snapshot.size
        affine = np.ones(size, dtype=np.bool_)
        first = state.self_match and not any(t.counts.any() for t in state.near)
        for term in state.near:
            affine &= (term.domains.code >= 0) if first else (term.domains.at(term.counts) > 0)
        apart = np.ones(size, dtype=np.bool_)
        for term in state.apart:
            apart &= term.domains.at(term.counts) == 0
        off = np.ones(size, dtype=np.bool_)
        for term in state.keep_off.values():
            off &= term.domains.at(term.counts) == 0
        return affine, apart, off

    def failures(self, state: _State) -> list[Failure]:
        affine, apart, off = self._parts(state)
        return [
            Failure("node(s) didn't match pod affinity rules", ~affine, resolvable=False),
            Failure("node(s) didn't match pod anti-affinity rules", affine & ~apart, resolvable=True),
            Failure("node(s) didn't satisfy existing pods anti-affinity rules", affine & apart & ~off, resolvable=True),
        ]

    def apply(self, state: _State, pod: PodClass, row: int, sign: int) -> None:
        sim = state.sim
        if state.near and all(includes(sim, selection_of(t), pod) for t in state.pod.shape.affinity):
            for term in state.near:
                term.add(row, sign)
        for term in state.apart:
            if term.selection is not None and includes(sim, term.selection, pod):
                term.add(row, sign)
        for theirs in pod.shape.anti_affinity:
            if includes(sim, selection_of(theirs), state.pod):
                self._term_for(state, theirs.topology_key).add(row, sign)
