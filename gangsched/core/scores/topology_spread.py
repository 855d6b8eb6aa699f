"""Soft topology spread: prefer domains with fewer of the pods that the constraint counts.

Formula: kube-scheduler's PodTopologySpread. A node's sum over the constraints is
``count x log(domains + 2) + maxSkew - 1``; over the feasible nodes a sum s becomes 100 (most + least - s) / most.
Hosts are counted one by one, whatever the policies about other nodes say.
"""

from __future__ import annotations

import numpy as np

from gangsched.core.arrays import Bools, Counts, Floats
from gangsched.core.filters.topology_spread import eligible_nodes
from gangsched.core.scores.base import MAX_SCORE
from gangsched.core.state.podclass import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.spreading import DEFAULTS, SpreadDefaults, constraints_of
from gangsched.core.state.termcounts import Selection
from gangsched.core.state.terms import Domains, includes, rows_of
from gangsched.model.records import SpreadConstraint

HOSTNAME = "kubernetes.io/hostname"


class _Constraint:
    """``counts`` are by node for hosts, else by domain; ``eligible`` are the nodes whose pods count."""

    def __init__(self, rule: SpreadConstraint, namespace: str, sim: Simulation, eligible: Bools) -> None:
        self.rule = rule
        self.by_host = rule.topology_key == HOSTNAME
        self.selection = Selection(rule.selector, (namespace,))
        self.domains = Domains(sim, rule.topology_key)
        self.eligible = eligible
        rows, counts = rows_of(sim, self.selection, leaving=False)
        if self.by_host:
            self.counts: Counts = np.bincount(rows, weights=counts, minlength=sim.snapshot.size).astype(np.int64)
        else:
            counted = eligible[rows]
            self.counts = self.domains.tally(rows[counted], counts[counted])

    def add(self, row: int, sign: int) -> None:
        if self.by_host:
            self.counts[row] += sign
        elif self.eligible[row] and self.domains.code[row] >= 0:
            self.counts[self.domains.code[row]] += sign

    def score(self, scored: Bools) -> Floats:
        """``(N,)``: what the constraint adds to the sum of each node; ``scored`` are the nodes to compare."""
        labelled = self.domains.code >= 0
        if self.by_host:
            size = int(scored.sum())
        else:
            # Nodes without the label, where they are compared at all, count as one domain more.
            seen = np.zeros(self.domains.count + 1, dtype=np.bool_)
            seen[self.domains.code[scored]] = True
            size = int(seen.sum())
        counts = self.counts if self.by_host else self.domains.at(self.counts)
        return np.where(labelled, counts * np.log(size + 2) + (self.rule.max_skew - 1), 0.0)


class _Tally:
    def __init__(self, sim: Simulation, constraints: list[_Constraint], scored: Bools) -> None:
        self.sim = sim
        self.constraints = constraints
        self.scored = scored


class _Watcher:
    """Keeps the counts of all soft constraints current while pods come and go."""

    name = "PodTopologySpread/score"

    def __init__(self, defaults: SpreadDefaults) -> None:
        self.defaults = defaults

    def prepare(self, pod: PodClass, sim: Simulation) -> _Tally:
        rules = constraints_of(pod, self.defaults, required=False)
        labelled = np.ones(sim.snapshot.size, dtype=np.bool_)
        # With the system's defaults a node without a zone is still spread over by host.
        if pod.shape.spread or self.defaults.kind != "System":
            for rule in rules:
                labelled &= sim.snapshot.columns.label(rule.topology_key).codes >= 0
        constraints = [_Constraint(r, pod.namespace, sim, labelled & eligible_nodes(r, pod, sim)) for r in rules]
        state = _Tally(sim, constraints, labelled)
        for other, row in sim.visitors():
            self.apply(state, other, row, +1)
        return state

    def apply(self, state: _Tally, pod: PodClass, row: int, sign: int) -> None:
        if state.sim.told_of_terminating:
            return
        for constraint in state.constraints:
            if includes(state.sim, constraint.selection, pod):
                constraint.add(row, sign)


class _State:
    def __init__(self, tally: _Tally, feasible: Bools) -> None:
        self.tally = tally
        self.feasible = feasible


class PodTopologySpread:
    """The constraints with whenUnsatisfiable ScheduleAnyway, the pod's own or else the ``defaults``."""

    name = "PodTopologySpread"
    local = False

    def __init__(self, defaults: SpreadDefaults = DEFAULTS) -> None:
        self._watcher = _Watcher(defaults)

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return bool(constraints_of(pod, self._watcher.defaults, required=False))

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> _State:
        return _State(sim.state(self._watcher, pod), feasible)

    def values(self, state: _State) -> Floats:
        tally = state.tally
        scored = state.feasible & tally.scored
        if not scored.any():
            return np.zeros(len(scored))
        sums = np.zeros(len(scored))
        for constraint in tally.constraints:
            sums += constraint.score(scored)
        sums = np.floor(sums + 0.5)
        least, most = float(sums[scored].min()), float(sums[scored].max())
        if most == 0:
            return np.where(tally.scored, MAX_SCORE, 0.0)
        return np.where(scored, np.floor(MAX_SCORE * (most + least - sums) / most), 0.0)

    def value(self, state: _State, row: int) -> float:
        return float(self.values(state)[row])
