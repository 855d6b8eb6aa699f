"""Topology spread: how unevenly pods that a selector names may lie over the domains of a label.

Rules: https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/ (KEP-895, KEP-3022,
KEP-3094). Terminating pods do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gangsched.core.filters.base import Bools, Failure
from gangsched.core.filters.node import NodeAffinity, TaintToleration
from gangsched.core.podtable import TERMINATING
from gangsched.core.terms import Counts, Domains, Ints, Selection, includes, selected_slots, without
from gangsched.model.records import SpreadConstraint

if TYPE_CHECKING:
    from gangsched.core.podclass import PodClass
    from gangsched.core.simulation import Simulation


class _Constraint:
    """``counts`` per domain follow every pod that comes and goes, pods that terminate (``leaving``, slots) included:
    who lifts a pod does not say whether it had been counted. :meth:`live` sets that right.
    """

    def __init__(self, rule: SpreadConstraint, selection: Selection, domains: Domains, eligible: Bools) -> None:
        self.rule = rule
        self.selection = selection
        self.domains = domains
        self.eligible = eligible
        codes = domains.code[eligible]
        self.present = np.zeros(domains.count, dtype=np.bool_)
        self.present[codes[codes >= 0]] = True
        self.counts: Counts = np.zeros(domains.count, dtype=np.int64)
        self.leaving: Ints = np.zeros(0, dtype=np.int64)
        self.self_match = 0

    def live(self, sim: Simulation) -> Counts:
        """``(count,)`` pods per domain, without those that terminate."""
        if not len(self.leaving):
            return self.counts
        return self.counts - self.domains.tally(sim, without(self.leaving, sim.lifted()))

    def least(self, counts: Counts) -> int:
        """The smallest count of an eligible domain; 0 while there are fewer domains than minDomains."""
        if int(self.present.sum()) < self.rule.min_domains or not self.present.any():
            return 0
        return int(counts[self.present].min())


class _State:
    def __init__(self, sim: Simulation, constraints: list[_Constraint]) -> None:
        self.sim = sim
        self.constraints = constraints


class PodTopologySpread:
    """The constraints with whenUnsatisfiable DoNotSchedule."""

    name = "PodTopologySpread"
    sees_pods = True

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return any(c.required for c in pod.shape.spread)

    def prepare(self, pod: PodClass, sim: Simulation) -> _State:
        rules = [c for c in pod.shape.spread if c.required]
        domains = [Domains(sim, c.topology_key) for c in rules]
        labelled = np.ones(sim.snapshot.size, dtype=np.bool_)
        for part in domains:
            labelled &= part.code >= 0
        out = []
        for rule, part in zip(rules, domains, strict=True):
            eligible = labelled.copy()
            if rule.honor_affinity:
                selects = NodeAffinity()
                if selects.applies(pod, sim):
                    eligible &= selects.prepare(pod, sim)
            if rule.honor_taints:
                eligible &= TaintToleration().prepare(pod, sim)
            selection = Selection(rule.selector, (pod.namespace,))
            constraint = _Constraint(rule, selection, part, eligible)
            table = sim.snapshot.table
            slots = selected_slots(sim, selection, lifted=True)
            slots = slots[eligible[table.row[slots]]]
            constraint.counts = part.tally(sim, without(slots, sim.lifted()))
            constraint.leaving = slots[(table.flags[slots] & TERMINATING) != 0]
            constraint.self_match = int(includes(sim, selection, pod))
            out.append(constraint)
        state = _State(sim, out)
        for other, row in sim.visitors():
            self.apply(state, other, row, +1)
        return state

    def mask(self, state: _State) -> Bools:
        missing, skewed = self._parts(state)
        return ~(missing | skewed)

    def _parts(self, state: _State) -> tuple[Bools, Bools]:
        size = state.sim.snapshot.size
        missing = np.zeros(size, dtype=np.bool_)
        skewed = np.zeros(size, dtype=np.bool_)
        for c in state.constraints:
            missing |= c.domains.code < 0
            counts = c.live(state.sim)
            skew = c.domains.at(counts) + c.self_match - c.least(counts)
            skewed |= skew > c.rule.max_skew
        return missing, skewed & ~missing

    def failures(self, state: _State) -> list[Failure]:
        missing, skewed = self._parts(state)
        text = "node(s) didn't match pod topology spread constraints"
        return [
            Failure(f"{text} (missing required label)", missing, resolvable=False),
            Failure(text, skewed, resolvable=True),
        ]

    def apply(self, state: _State, pod: PodClass, row: int, sign: int) -> None:
        for c in state.constraints:
            code = int(c.domains.code[row])
            if code >= 0 and c.eligible[row] and includes(state.sim, c.selection, pod):
                c.counts[code] += sign
