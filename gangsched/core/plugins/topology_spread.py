"""Topology spread: how unevenly pods that a selector names may lie over the domains of a label.

Rules: https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/ (KEP-895, KEP-3022,
KEP-3094). Pods without constraints of their own have cluster-level defaults, over the pods that belong with them.
Terminating pods do not count. Held pods may never come: the skew must be allowed with and without them.

Soft topology spread: prefer domains with fewer of the pods that the constraint counts.

Formula: kube-scheduler's PodTopologySpread. A node's sum over the constraints is
``count x log(domains + 2) + maxSkew - 1``; over the feasible nodes a sum s becomes 100 (most + least - s) / most.
Hosts are counted one by one, whatever the policies about other nodes say.
"""

from __future__ import annotations

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Counts, Floats
from gangsched.core.plugins.base import MAX_SCORE, Failure
from gangsched.core.plugins.node import NodeAffinity, TaintToleration
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Domains, Simulation, includes, rows_of
from gangsched.core.state.termcounts import Selection
from gangsched.messages import causes
from gangsched.model.constraints import SpreadConstraint

#: kube-scheduler's own defaults. They have no selector: it follows from the Services and the controller of the pod.
SYSTEM_CONSTRAINTS = (
    SpreadConstraint("kubernetes.io/hostname", 3, None, required=False),
    SpreadConstraint("topology.kubernetes.io/zone", 5, None, required=False),
)


class SpreadDefaults(msgspec.Struct, frozen=True):
    """``defaultingType`` and ``defaultConstraints`` of PodTopologySpreadArgs.

    ``kind`` is ``System`` (:data:`SYSTEM_CONSTRAINTS` hold and ``constraints`` is empty) or ``List`` (``constraints``
    hold, which have no selector).
    """

    kind: str = "System"
    constraints: tuple[SpreadConstraint, ...] = ()

    @property
    def rules(self) -> tuple[SpreadConstraint, ...]:
        """The constraints that hold for pods without any, still without a selector."""
        return SYSTEM_CONSTRAINTS if self.kind == "System" else self.constraints


DEFAULTS = SpreadDefaults()


def constraints_of(pod: PodClass, defaults: SpreadDefaults, *, required: bool) -> tuple[SpreadConstraint, ...]:
    """The hard (DoNotSchedule) or soft constraints that hold for pods of this class."""
    if pod.shape.spread:
        return tuple(c for c in pod.shape.spread if c.required is required)
    if pod.spread_selector is None:
        return ()
    selector = pod.spread_selector
    return tuple(msgspec.structs.replace(c, selector=selector) for c in defaults.rules if c.required is required)


def eligible_nodes(rule: SpreadConstraint, pod: PodClass, sim: Simulation) -> Bools:
    """``(N,)``: nodes whose pods count, as nodeAffinityPolicy and nodeTaintsPolicy say."""
    mask = np.ones(sim.snapshot.size, dtype=np.bool_)
    if rule.honor_affinity:
        selects = NodeAffinity()
        if selects.applies(pod, sim):
            mask &= selects.prepare(pod, sim)
    if rule.honor_taints:
        mask &= TaintToleration().prepare(pod, sim)
    return mask


class _Constraint:
    """``counts`` are pods per domain without those that are held, which are in ``held``; ``present`` are the domains
    of eligible nodes; ``of_class`` says of the classes asked about (by their numbers) whether they count.
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
        self.held: Counts = np.zeros(domains.count, dtype=np.int64)
        self.self_match = 0
        self.of_class: dict[int, bool] = {}

    def too_skewed(self, counts: Counts) -> Bools:
        """``(N,)``: nodes on which one pod more would be too many for their domain."""
        skew = self.domains.at(counts) + (self.self_match - self.least(counts))
        return np.asarray(skew > self.rule.max_skew)

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
    """The constraints with whenUnsatisfiable DoNotSchedule, the pod's own or else the ``defaults``."""

    name = "PodTopologySpread"
    sees_pods = True
    by_company = True

    def __init__(self, defaults: SpreadDefaults = DEFAULTS) -> None:
        self.defaults = defaults

    def rules(self, pod: PodClass) -> tuple[SpreadConstraint, ...]:
        """The hard constraints of this class."""
        return constraints_of(pod, self.defaults, required=True)

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return bool(self.rules(pod))

    def prepare(self, pod: PodClass, sim: Simulation) -> _State:
        rules = self.rules(pod)
        domains = [Domains(sim, c.topology_key) for c in rules]
        labelled = np.ones(sim.snapshot.size, dtype=np.bool_)
        for part in domains:
            labelled &= part.code >= 0
        out = []
        for rule, part in zip(rules, domains, strict=True):
            eligible = labelled & eligible_nodes(rule, pod, sim)
            selection = Selection(rule.selector, (pod.namespace,))
            constraint = _Constraint(rule, selection, part, eligible)
            rows, counts = rows_of(sim, selection, leaving=False)
            counted = eligible[rows]
            constraint.counts = part.tally(rows[counted], counts[counted])
            constraint.self_match = int(includes(sim, selection, pod))
            out.append(constraint)
        state = _State(sim, out)
        for other, row in sim.placed():
            self.apply(state, other, row, +1)
        for other, row in sim.held():
            for c in out:
                if self._counts(state, c, other, row):
                    c.held[c.domains.code[row]] += 1
        return state

    def mask(self, state: _State) -> Bools:
        missing, skewed = self._parts(state)
        return ~(missing | skewed)

    def _parts(self, state: _State) -> tuple[Bools, Bools]:
        """Nodes without a label, and nodes with too much skew, by the first constraint that they fail."""
        size = state.sim.snapshot.size
        missing = np.zeros(size, dtype=np.bool_)
        skewed = np.zeros(size, dtype=np.bool_)
        for c in state.constraints:
            missing |= (c.domains.code < 0) & ~skewed
            too_skewed = c.too_skewed(c.counts)
            if c.held.any():
                too_skewed |= c.too_skewed(c.counts + c.held)
            skewed |= too_skewed & ~missing
        return missing, skewed

    def failures(self, state: _State) -> list[Failure]:
        missing, skewed = self._parts(state)
        text = causes.TOPOLOGY_SPREAD
        return [
            Failure(causes.missing_label(text=text), missing, resolvable=False),
            Failure(text, skewed, resolvable=True),
        ]

    def apply(self, state: _State, pod: PodClass, row: int, sign: int) -> None:
        if state.sim.told_of_terminating:
            return
        for c in state.constraints:
            if self._counts(state, c, pod, row):
                c.counts[c.domains.code[row]] += sign

    @staticmethod
    def _counts(state: _State, constraint: _Constraint, pod: PodClass, row: int) -> bool:
        found = constraint.of_class.get(pod.ident)
        if found is None:
            found = constraint.of_class[pod.ident] = includes(state.sim, constraint.selection, pod)
        return found and bool(constraint.eligible[row])


HOSTNAME = "kubernetes.io/hostname"


class _SoftConstraint:
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
    def __init__(self, sim: Simulation, constraints: list[_SoftConstraint], scored: Bools) -> None:
        self.sim = sim
        self.constraints = constraints
        self.scored = scored


class _Watcher:
    """Keeps the counts of all soft constraints current while pods come and go."""

    name = "PodTopologySpread/score"
    by_company = True

    def __init__(self, defaults: SpreadDefaults) -> None:
        self.defaults = defaults

    def prepare(self, pod: PodClass, sim: Simulation) -> _Tally:
        rules = constraints_of(pod, self.defaults, required=False)
        labelled = np.ones(sim.snapshot.size, dtype=np.bool_)
        # With the system's defaults a node without a zone is still spread over by host.
        if pod.shape.spread or self.defaults.kind != "System":
            for rule in rules:
                labelled &= sim.snapshot.columns.label(rule.topology_key).codes >= 0
        constraints = [_SoftConstraint(r, pod.namespace, sim, labelled & eligible_nodes(r, pod, sim)) for r in rules]
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


class _Scored:
    def __init__(self, tally: _Tally, feasible: Bools) -> None:
        self.tally = tally
        self.feasible = feasible


class PodTopologySpreadScore:
    """The constraints with whenUnsatisfiable ScheduleAnyway, the pod's own or else the ``defaults``."""

    name = "PodTopologySpread"
    local = False

    def __init__(self, defaults: SpreadDefaults = DEFAULTS) -> None:
        self._watcher = _Watcher(defaults)

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return bool(constraints_of(pod, self._watcher.defaults, required=False))

    def prepare(self, pod: PodClass, sim: Simulation, feasible: Bools) -> _Scored:
        return _Scored(sim.state(self._watcher, pod), feasible)

    def values(self, state: _Scored) -> Floats:
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

    def value(self, state: _Scored, row: int) -> float:
        return float(self.values(state)[row])
