"""Affinity and anti-affinity between pods.

Rules: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity .
A node passes when it is in a domain with pods that match all affinity terms (or the pod is the first of a series
that matches itself), in no domain with a pod that its anti-affinity names, and in no domain with a pod whose
anti-affinity names it.

Held pods may never come: affinity must be satisfied with them and without them. Anti-affinity need not be asked
twice, since more pods only close more domains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gangsched.core.arrays import Bools, Counts
from gangsched.core.filters.base import Failure
from gangsched.core.state.terms import Domains, Selection, carried_rows, includes, rows_of, selection_of

if TYPE_CHECKING:
    from gangsched.core.state.podclass import PodClass
    from gangsched.core.state.simulation import Simulation


class _Term:
    """Pods per domain: ``counts`` without those that are held, where that matters, and ``held``."""

    def __init__(self, selection: Selection | None, domains: Domains, counts: Counts) -> None:
        self.selection = selection
        self.domains = domains
        self.counts = counts
        self.held: Counts = np.zeros(domains.count, dtype=np.int64)

    def add(self, row: int, sign: int) -> None:
        code = int(self.domains.code[row])
        if code >= 0:
            self.counts[code] += sign

    def hold(self, row: int) -> None:
        code = int(self.domains.code[row])
        if code >= 0:
            self.held[code] += 1


class _State:
    def __init__(self, pod: PodClass, sim: Simulation) -> None:
        self.pod = pod
        self.sim = sim
        self.chosen = tuple(selection_of(t) for t in pod.shape.affinity)
        self.near: list[_Term] = []
        self.apart: list[_Term] = []
        self.keep_off: dict[str, _Term] = {}
        self.self_match = False

    def is_near(self, pod: PodClass) -> bool:
        """Do all affinity terms include the pod?"""
        return bool(self.chosen) and all(includes(self.sim, s, pod) for s in self.chosen)


class InterPodAffinity:
    """Required pod affinity and anti-affinity, in both directions."""

    name = "InterPodAffinity"
    sees_pods = True

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        # Terms of pods that are gone count as well: whether their leaving helps is asked when they have left.
        shape = pod.shape
        return bool(shape.affinity or shape.anti_affinity) or bool(sim.snapshot.terms.apart(pod))

    def prepare(self, pod: PodClass, sim: Simulation) -> _State:
        state = _State(pod, sim)
        shape = pod.shape
        if shape.affinity:
            rows, counts = rows_of(sim, *state.chosen, leaving=True)
            for term in shape.affinity:
                domains = Domains(sim, term.topology_key)
                state.near.append(_Term(None, domains, domains.tally(rows, counts)))
            state.self_match = state.is_near(pod)
        for term in shape.anti_affinity:
            selection = selection_of(term)
            domains = Domains(sim, term.topology_key)
            state.apart.append(_Term(selection, domains, domains.tally(*rows_of(sim, selection, leaving=True))))
        for carried in sim.snapshot.terms.apart(pod):
            found = self._term_for(state, carried.key)
            found.counts += found.domains.tally(*carried_rows(sim, carried))
        for other, row in sim.placed():
            self.apply(state, other, row, +1)
        for other, row in sim.held():
            self._keep_apart(state, other, row, +1)
            if state.is_near(other):
                for near in state.near:
                    near.hold(row)
        return state

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
        affine = self._affine(state, [t.counts for t in state.near])
        if any(t.held.any() for t in state.near):
            affine &= self._affine(state, [t.counts + t.held for t in state.near])
        apart = np.ones(size, dtype=np.bool_)
        for term in state.apart:
            apart &= term.domains.at(term.counts) == 0
        off = np.ones(size, dtype=np.bool_)
        for term in state.keep_off.values():
            off &= term.domains.at(term.counts) == 0
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
            Failure("node(s) didn't match pod affinity rules", ~affine, resolvable=False),
            Failure("node(s) didn't match pod anti-affinity rules", affine & ~apart, resolvable=True),
            Failure("node(s) didn't satisfy existing pods anti-affinity rules", affine & apart & ~off, resolvable=True),
        ]

    def apply(self, state: _State, pod: PodClass, row: int, sign: int) -> None:
        if state.is_near(pod):
            for term in state.near:
                term.add(row, sign)
        self._keep_apart(state, pod, row, sign)

    def _keep_apart(self, state: _State, pod: PodClass, row: int, sign: int) -> None:
        sim = state.sim
        for term in state.apart:
            if term.selection is not None and includes(sim, term.selection, pod):
                term.add(row, sign)
        for theirs in pod.shape.anti_affinity:
            if includes(sim, selection_of(theirs), state.pod):
                self._term_for(state, theirs.topology_key).add(row, sign)
