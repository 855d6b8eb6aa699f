"""Rules between pods that a gang is bound by, as far as they can be counted instead of placed.

A *bar* closes domains (or single nodes) to members while certain pods are there: anti-affinity of either side, a clash
of host ports. Members *exclude* each other on one node. And one rule may span domains: members all *together* in one
(affinity to themselves), one *apart* in each (anti-affinity to themselves), or *spread* evenly (maxSkew).
Whatever else a filter wants to know about other pods makes the rules incomplete: then they narrow the search, and
placing the members is what judges its outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints, isin
from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.plugins.inter_pod_affinity import InterPodAffinity
from gangsched.core.plugins.node import NodeAffinity, NodePorts, NodeResourcesFit, TaintToleration, clash
from gangsched.core.plugins.topology_spread import PodTopologySpread
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Domains, Simulation, against, includes
from gangsched.core.state.termcounts import Selection, selection_of
from gangsched.model.constraints import PodShape, SpreadConstraint

TOGETHER, APART, SPREAD = "together", "apart", "spread"


class Bar(msgspec.Struct, eq=False):
    """Domains closed to members of kind ``of``: those in which pods are that ``hits`` ``(slots,)`` names; or, as
    ``company``, those in which none of them is. ``counts`` are these pods by domain, ``code`` ``(N,)`` is a node's
    domain or -1; ``by_node`` says that every node is a domain of its own.
    """

    of: int
    code: Ints
    counts: Ints
    hits: Bools
    by_node: bool
    company: bool = False

    def open(self) -> Bools:
        """``(N,)``: nodes that this bar does not close now."""
        if self.company:
            return np.asarray((self.code >= 0) & (self.counts[self.code] > 0))
        return np.asarray((self.code < 0) | (self.counts[self.code] == 0))

    def shift(self, slots: Ints, rows: Ints, sign: int) -> bool:
        """These pods came (+1) or left (-1); True if that concerns the bar."""
        codes = self.code[rows[self.hits[slots]]]
        codes = codes[codes >= 0]
        np.add.at(self.counts, codes, sign)
        return bool(len(codes))


class Span(msgspec.Struct, eq=False):
    """A rule over domains. ``counts`` are the pods that a spread constraint counts already, ``present`` the domains
    that it counts in; ``hits`` ``(slots,)`` are those pods.
    """

    kind: str
    code: Ints
    size: int
    counts: Ints
    hits: Bools
    present: Bools
    skew: int = 0
    min_domains: int = 0

    def held(self, room: Floats) -> float:
        """Members that nodes with room for ``room`` ``(N,)`` hold together."""
        inside = self.code >= 0
        domain = np.bincount(self.code[inside], weights=room[inside], minlength=self.size)
        outside = float(room[~inside].sum())
        return self.held_by_domain(np.asarray(domain, dtype=np.float64), outside)

    def held_by_domain(self, room: Floats, outside: float) -> float:
        """The same for ``(domains,)`` room, and that of nodes in none."""
        if self.kind == TOGETHER:
            return float(room.max(initial=0.0))
        if self.kind == APART:
            return float(np.minimum(room, 1.0).sum()) + outside
        if not self.present.any():
            return 0.0
        enough = int(self.present.sum()) >= self.min_domains
        least = float((self.counts + room)[self.present].min()) if enough else 0.0
        return float(np.clip(np.minimum(room, least + self.skew - self.counts), 0.0, None).sum())


class Rules(msgspec.Struct, eq=False):
    """The rules of some kinds of members. ``exclusive`` is ``(K, K)``; ``complete`` says that there are no others;
    ``monotone`` that a pod that leaves never makes a node unfit. ``allowed`` ``(K, N)``: nodes that pass whoever
    leaves.
    """

    bars: list[Bar]
    exclusive: Bools
    span: Span | None
    complete: bool
    monotone: bool
    allowed: Bools


def rules_of(sim: Simulation, pipeline: Pipeline, kinds: Sequence[PodClass]) -> Rules:
    """The rules that these kinds of members have to keep in this simulation."""
    watching = [pipeline.watching(pod, sim) for pod in kinds]
    names = {rule.name for rules in watching for rule in rules}
    size = sim.snapshot.size
    found = Rules(
        [],
        np.zeros((len(kinds), len(kinds)), dtype=np.bool_),
        None,
        names <= {NodeResourcesFit.name, NodePorts.name, InterPodAffinity.name, PodTopologySpread.name},
        all(pipeline.monotone(pod, sim) for pod in kinds),
        np.ones((len(kinds), size), dtype=np.bool_),
    )
    if NodePorts.name in names:
        _add_ports(sim, kinds, found)
    if InterPodAffinity.name in names:
        _add_anti_affinity(sim, kinds, found)
        _add_affinity(sim, kinds, found)
    spreads = [c for rules in watching for r in rules if isinstance(r, PodTopologySpread) for c in r.rules(kinds[0])]
    if spreads:
        _add_spread(sim, kinds, spreads, found)
    return found


# -- bars --------------------------------------------------------------------------------------------------


def _concerned(sim: Simulation, *selections: Selection) -> Bools:
    """``(slots,)``: pods that all of these select."""
    table = sim.snapshot.table
    hits = np.zeros(table.size, dtype=np.bool_)
    hits[sim.snapshot.terms.among(table.occupied(), selections)] = True
    return hits


def _shaped(sim: Simulation, test: Callable[[PodShape], bool]) -> Bools:
    """``(slots,)``: pods of certain shapes."""
    table = sim.snapshot.table
    passing = np.array([test(shape) for shape in sim.snapshot.shapes], dtype=np.bool_)
    if not len(passing):
        return np.zeros(table.size, dtype=np.bool_)
    return np.asarray(passing[table.shape[: table.size]] & (table.row[: table.size] >= 0))


def _counted(sim: Simulation, code: Ints, size: int, hits: Bools, test: Callable[[PodClass], bool]) -> Ints:
    """``(size,)`` pods by domain: those of ``hits`` that are not lifted, and visitors that pass the test."""
    slots = np.flatnonzero(hits)
    slots = slots[~isin(slots, sim.lifted())]
    codes = code[sim.snapshot.table.row[slots]]
    counts = np.bincount(codes[codes >= 0], minlength=size).astype(np.int64)
    for other, row in sim.visitors():
        if code[row] >= 0 and test(other):
            counts[code[row]] += 1
    return counts


def _add_ports(sim: Simulation, kinds: Sequence[PodClass], found: Rules) -> None:
    nodes: Ints = np.arange(sim.snapshot.size)
    for k, pod in enumerate(kinds):
        asked = pod.shape.host_ports
        if not asked:
            continue
        hits = _shaped(sim, lambda other, asked=asked: bool(other.host_ports) and clash(other.host_ports, asked))  # type: ignore[misc]
        counts = _counted(
            sim,
            nodes,
            len(nodes),
            hits,
            lambda other, asked=asked: clash(other.shape.host_ports, asked),  # type: ignore[misc]
        )
        found.bars.append(Bar(k, nodes, counts, hits, by_node=True))
        for i, other in enumerate(kinds):
            if clash(other.shape.host_ports, asked):
                found.exclusive[k, i] = found.exclusive[i, k] = True


def _add_anti_affinity(sim: Simulation, kinds: Sequence[PodClass], found: Rules) -> None:  # noqa: C901
    def add(k: int, key: str, hits: Bools, test: Callable[[PodClass], bool]) -> None:
        domains = Domains(sim, key)
        size = max(domains.count, 1)
        found.bars.append(Bar(k, domains.code, _counted(sim, domains.code, size, hits, test), hits, domains.single))

    keys = sorted({t.topology_key for n in sim.snapshot.anti_shapes for t in sim.snapshot.shapes[n].anti_affinity})
    for k, pod in enumerate(kinds):
        for term in pod.shape.anti_affinity:
            selection = selection_of(term)
            add(k, term.topology_key, _concerned(sim, selection), lambda other, s=selection: includes(sim, s, other))  # type: ignore[misc]
        for key in keys:

            def keeps_off(other: PodShape, pod: PodClass = pod, key: str = key) -> bool:
                return any(t.topology_key == key for t in against(sim, other, pod))

            hits = _shaped(sim, keeps_off)
            if hits.any() or any(keeps_off(other.shape) for other, _ in sim.visitors()):
                add(k, key, hits, lambda other, test=keeps_off: test(other.shape))  # type: ignore[misc]
    for i, first in enumerate(kinds):
        for j, second in enumerate(kinds):
            for term in against(sim, first.shape, second):
                domains = Domains(sim, term.topology_key)
                if domains.single:
                    found.exclusive[i, j] = found.exclusive[j, i] = True
                elif len(kinds) == 1 and found.span is None:
                    found.span = _span(sim, APART, domains)
                elif (
                    found.span is None or found.span.kind != APART or not np.array_equal(found.span.code, domains.code)
                ):
                    found.complete = False


def _add_affinity(sim: Simulation, kinds: Sequence[PodClass], found: Rules) -> None:
    if not any(pod.shape.affinity for pod in kinds):
        return
    terms = kinds[0].shape.affinity
    if any(pod.shape.affinity != terms for pod in kinds[1:]) or found.span is not None:
        found.complete = found.monotone = False
        return
    near = [selection_of(t) for t in terms]
    company = _concerned(sim, *near)
    draws = all(includes(sim, s, pod) for s in near for pod in kinds)
    present = company.copy()
    present[sim.lifted()] = False
    guests = any(all(includes(sim, s, other) for s in near) for other, _ in sim.visitors())
    if draws and not present.any() and not guests:
        # The first member may go anywhere, and draws the others to its domain.
        keys = {t.topology_key for t in terms}
        domains = Domains(sim, terms[0].topology_key)
        found.complete = found.complete and len(keys) == 1
        found.span = _span(sim, TOGETHER, domains)
        found.allowed &= domains.code >= 0
        found.monotone = found.monotone and not company.any()
        return
    if guests:
        found.complete = False  # reserved room may never be used: members must be near others
    for term in terms:
        domains = Domains(sim, term.topology_key)
        for k in range(len(kinds)):
            counts = _counted(sim, domains.code, max(domains.count, 1), company, lambda _: False)
            found.bars.append(Bar(k, domains.code, counts, company, domains.single, company=True))
            found.allowed[k] &= found.bars[-1].open()
    found.monotone = found.monotone and not present.any()


# -- rules over domains ------------------------------------------------------------------------------------


def _span(sim: Simulation, kind: str, domains: Domains) -> Span:
    size = max(domains.count, 1)
    none = np.zeros(sim.snapshot.table.size, dtype=np.bool_)
    present = np.ones(size, dtype=np.bool_)
    return Span(kind, domains.code, size, np.zeros(size, dtype=np.int64), none, present)


def _add_spread(sim: Simulation, kinds: Sequence[PodClass], spreads: Sequence[SpreadConstraint], found: Rules) -> None:
    pod, rule = kinds[0], spreads[0]
    selection = Selection(rule.selector, (pod.namespace,))
    held = any(includes(sim, selection, other) for other, _ in sim.held())  # the skew must hold without them too
    if len(kinds) > 1 or len(spreads) > 1 or found.span is not None or held or not includes(sim, selection, pod):
        found.complete = found.monotone = False
        return
    domains = Domains(sim, rule.topology_key)
    eligible = domains.code >= 0
    if rule.honor_affinity and NodeAffinity().applies(pod, sim):
        eligible &= NodeAffinity().prepare(pod, sim)
    if rule.honor_taints:
        eligible &= TaintToleration().prepare(pod, sim)
    code = np.where(eligible, domains.code, -1)
    size = max(domains.count, 1)
    present = np.zeros(size, dtype=np.bool_)
    present[code[code >= 0]] = True
    hits = _concerned(sim, selection)
    counts = _counted(sim, code, size, hits, lambda other: includes(sim, selection, other))
    found.span = Span(SPREAD, code, size, counts, hits, present, rule.max_skew, rule.min_domains)
    found.monotone = False  # a pod that the constraint counts makes its domain the emptier one when it leaves
    found.allowed &= domains.code >= 0
