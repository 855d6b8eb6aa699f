"""Fit of equal members that also count domains: one per domain (anti-affinity, host ports), or an even spread.

How many members a set of domains holds follows from how many each domain could hold: with anti-affinity one each,
with a spread constraint as many as the emptiest domain allows. So a gang is counted, not placed, here too.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from gangsched.core.filters.affinity import InterPodAffinity
from gangsched.core.filters.node import NodeAffinity, TaintToleration
from gangsched.core.filters.ports import NodePorts, clash
from gangsched.core.filters.resources import NodeResourcesFit
from gangsched.core.filters.spread import PodTopologySpread
from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.preemption.counted import CountedFit, hull_steps
from gangsched.core.state.podclass import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import Bools, Floats, Ints
from gangsched.core.state.terms import Domains, Selection, against, includes, selection_of
from gangsched.model.records import PodShape, SpreadConstraint

_KNOWN = {NodeResourcesFit.name, NodePorts.name, InterPodAffinity.name, PodTopologySpread.name}


class _Bar:
    """Domains (or single nodes) that are closed while certain pods are there."""

    def __init__(self, code: Ints, counts: Ints, hits: Bools) -> None:
        self.code, self.counts, self.hits = code, counts, hits

    def open(self) -> Bools:
        """``(N,)``: nodes in no closed domain."""
        return np.asarray((self.code < 0) | (self.counts[self.code] == 0))

    def shift(self, slots: Ints, rows: Ints, sign: int) -> None:
        """These pods came (+1) or left (-1)."""
        codes = self.code[rows[self.hits[slots]]]
        np.add.at(self.counts, codes[codes >= 0], sign)


class _Company(_Bar):
    """Domains that are open only while certain pods are there, which members themselves are not."""

    def open(self) -> Bools:
        return np.asarray((self.code >= 0) & (self.counts[self.code] > 0))


class _Spread(_Bar):
    """A spread constraint: ``counts`` are the pods that it counts, without the members."""

    def __init__(self, code: Ints, counts: Ints, hits: Bools, present: Bools, skew: int, min_domains: int) -> None:
        super().__init__(code, counts, hits)
        self.present, self.skew, self.min_domains = present, skew, min_domains

    def allowed(self, room: Floats) -> Floats:
        """``(domains,)`` members that each domain can take when it has room for so many."""
        if not self.present.any():
            return np.zeros_like(room)
        reach = int(self.present.sum()) >= self.min_domains
        least = float((self.counts + room)[self.present].min()) if reach else 0.0
        return np.asarray(np.clip(np.minimum(room, least + self.skew - self.counts), 0.0, None))


def domain_fit(sim: Simulation, pipeline: Pipeline, pod: PodClass, allowed: Bools, needed: int) -> DomainFit | None:
    """A counting fit for these members, or None when their rules are not of the kinds that can be counted."""
    rules = pipeline.watching(pod, sim)
    names = {rule.name for rule in rules}
    shape = pod.shape
    spreads = [c for rule in rules if isinstance(rule, PodTopologySpread) for c in rule.rules(pod)]
    if not names <= _KNOWN or len(spreads) > 1:
        return None
    if shape.affinity:
        near = [selection_of(t) for t in shape.affinity]
        if all(includes(sim, s, pod) for s in near):
            return None  # the first member draws the others to itself
        if any(all(includes(sim, s, other) for s in near) for other, _ in sim.held()):
            return None  # held pods may never come: members must be near others
    apart = [Domains(sim, t.topology_key) for t in against(sim, shape, pod)]
    by_node = [d for d in apart if d.single]
    wide = [d for d in apart if not d.single]
    if len(wide) > 1 or (wide and spreads):
        return None
    if spreads:
        selection = Selection(spreads[0].selector, (pod.namespace,))
        if not includes(sim, selection, pod):
            return None
        if any(includes(sim, selection, other) for other, _ in sim.held()):
            return None  # the skew must be allowed with them and without them
    one_a_node = bool(by_node) or bool(shape.host_ports)
    return DomainFit(sim, pod, allowed, needed, one_a_node, wide[0] if wide else None, spreads[0] if spreads else None)


def _by_domain(code: Ints, room: Floats, size: int) -> Floats:
    """``(size,)`` room per domain; nodes in none are left out."""
    inside = code >= 0
    return np.asarray(np.bincount(code[inside], weights=room[inside], minlength=size), dtype=np.float64)


class _Concerned:
    """The pods that a rule is about: ``(slots,)`` of the pod table, and the test for a class of pods."""

    def __init__(self, hits: Bools, test: Callable[[PodClass], bool]) -> None:
        self.hits = hits
        self.test = test


def _selected(sim: Simulation, *selections: Selection) -> _Concerned:
    """Pods that all of these include."""
    table = sim.snapshot.table
    hits = np.zeros(table.size, dtype=np.bool_)
    hits[sim.snapshot.terms.among(table.occupied(), selections)] = True
    return _Concerned(hits, lambda other: all(includes(sim, s, other) for s in selections))


def _shaped(sim: Simulation, test: Callable[[PodShape], bool]) -> _Concerned:
    """Pods of certain shapes."""
    table = sim.snapshot.table
    passing = np.array([test(shape) for shape in sim.snapshot.shapes], dtype=np.bool_)
    hits = passing[table.shape[: table.size]] & (table.row[: table.size] >= 0)
    return _Concerned(hits, lambda other: test(other.shape))


def _keeps_off(sim: Simulation, pod: PodClass, key: str) -> Callable[[PodShape], bool]:
    """Pods whose anti-affinity over this label names the members."""

    def test(other: PodShape) -> bool:
        terms = (t for t in other.anti_affinity if t.topology_key == key)
        return any(includes(sim, selection_of(t), pod) for t in terms)

    return test


class DomainFit(CountedFit):
    """``one_a_node``: members keep each other off their node; ``apart``: off their whole domain; ``spread`` is the
    constraint that they are counted by.
    """

    def __init__(
        self,
        sim: Simulation,
        pod: PodClass,
        allowed: Bools,
        needed: int,
        one_a_node: bool,
        apart: Domains | None,
        spread: SpreadConstraint | None,
    ) -> None:
        self.steps = 0
        self._one_a_node = one_a_node
        self._apart = apart
        self._bars: list[_Bar] = []
        self._spread: _Spread | None = None
        super().__init__(sim, pod, allowed, needed)
        self._add_bars(sim, pod)
        if pod.shape.affinity:
            self._add_company(sim, pod)
        if spread is not None:
            self._add_spread(sim, pod, spread)
        self._room = self._count(self._free, self._allowed)

    # -- rules ---------------------------------------------------------------------------------------------

    @staticmethod
    def _counts(sim: Simulation, code: Ints, size: int, who: _Concerned) -> Ints:
        slots = np.flatnonzero(who.hits)
        slots = slots[~np.isin(slots, sim.lifted())]
        codes = code[sim.snapshot.table.row[slots]]
        counts = np.bincount(codes[codes >= 0], minlength=size).astype(np.int64)
        for other, row in sim.visitors():
            if code[row] >= 0 and who.test(other):
                counts[code[row]] += 1
        return counts

    def _add_bar(self, sim: Simulation, code: Ints, size: int, who: _Concerned) -> None:
        self._bars.append(_Bar(code, self._counts(sim, code, max(size, 1), who), who.hits))

    def _add_bars(self, sim: Simulation, pod: PodClass) -> None:
        for term in pod.shape.anti_affinity:
            domains = Domains(sim, term.topology_key)
            self._add_bar(sim, domains.code, domains.count, _selected(sim, selection_of(term)))
        keys = sorted({t.topology_key for n in sim.snapshot.anti_shapes for t in sim.snapshot.shapes[n].anti_affinity})
        for key in keys:
            domains = Domains(sim, key)
            self._add_bar(sim, domains.code, domains.count, _shaped(sim, _keeps_off(sim, pod, key)))
        if pod.shape.host_ports:
            nodes = np.arange(sim.snapshot.size)
            asked = pod.shape.host_ports
            who = _shaped(sim, lambda other: bool(other.host_ports) and clash(other.host_ports, asked))
            self._add_bar(sim, nodes, len(nodes), who)

    def _add_company(self, sim: Simulation, pod: PodClass) -> None:
        """Domains without the pods that members want near them stay closed, whoever leaves."""
        who = _selected(sim, *(selection_of(t) for t in pod.shape.affinity))
        for term in pod.shape.affinity:
            domains = Domains(sim, term.topology_key)
            counts = self._counts(sim, domains.code, max(domains.count, 1), who)
            self._bars.append(_Company(domains.code, counts, who.hits))
            self._allowed = self._allowed & self._bars[-1].open()
        self.monotone = not who.hits.any()

    def _add_spread(self, sim: Simulation, pod: PodClass, rule: SpreadConstraint) -> None:
        domains = Domains(sim, rule.topology_key)
        eligible = domains.code >= 0
        if rule.honor_affinity and NodeAffinity().applies(pod, sim):
            eligible &= NodeAffinity().prepare(pod, sim)
        if rule.honor_taints:
            eligible &= TaintToleration().prepare(pod, sim)
        code = np.where(eligible, domains.code, -1)
        who = _selected(sim, Selection(rule.selector, (pod.namespace,)))
        present = np.zeros(max(domains.count, 1), dtype=np.bool_)
        present[code[code >= 0]] = True
        counts = self._counts(sim, code, len(present), who)
        self._spread = _Spread(code, counts, who.hits, present, rule.max_skew, rule.min_domains)
        self.monotone = False  # a pod that the constraint counts makes its domain the emptier one when it leaves
        self._allowed = self._allowed & (domains.code >= 0)

    # -- what is there -------------------------------------------------------------------------------------

    def _rules(self) -> list[_Bar]:
        return [*self._bars, *([self._spread] if self._spread is not None else [])]

    def take(self, slots: Ints) -> None:
        super().take(slots)
        for rule in self._rules():
            rule.shift(slots, self._table.row[slots], -1)

    def give_back(self, slots: Ints) -> None:
        super().give_back(slots)
        for rule in self._rules():
            rule.shift(slots, self._table.row[slots], +1)

    def _open_room(self) -> Floats:
        """``(N,)`` members that each node could hold by itself."""
        room = np.floor(self._room)
        if self._one_a_node:
            np.minimum(room, 1.0, out=room)
        for bar in self._bars:
            room[~bar.open()] = 0.0
        room[~self._allowed] = 0.0
        return room

    def _held(self, room: Floats) -> float:
        """Members that all nodes together hold."""
        rule = self._spread
        if rule is not None:
            return float(rule.allowed(_by_domain(rule.code, room, len(rule.counts))).sum())
        if self._apart is not None:
            per_domain = _by_domain(self._apart.code, room, max(self._apart.count, 1))
            return float(np.minimum(per_domain, 1.0).sum() + room[self._apart.code < 0].sum())
        return float(room.sum())

    def fits(self) -> bool:
        return self._held(self._open_room()) >= self._needed

    def lacking(self) -> None:
        """More than room may be missing."""
        return

    def shortfall(self) -> float:
        return self._needed - self._held(self._open_room())

    # -- single pods, very many at once --------------------------------------------------------------------

    def cheapest(self, slots: Ints) -> Ints:
        """As in :class:`CountedFit`; steps are drawn where their domain can still use them."""
        nodes, where, order, starts, counts = self.by_node(slots)
        room = self.rooms(slots, nodes, order, starts, counts)
        if self._one_a_node:
            np.minimum(room, 1.0, out=room)
        ready = self._open_room()
        steps = hull_steps(room, counts)
        steps = steps[np.lexsort((steps[:, 0], steps[:, 3], -np.round(steps[:, 2] / steps[:, 3], 9)))]
        depth = np.zeros(len(nodes), dtype=np.int64)
        code, have, most = self._targets_by_domain(ready)
        queue: dict[int, list[Floats]] = {}
        for step in steps:
            queue.setdefault(int(code[nodes[int(step[0])]]), []).append(step)
        missing = self._needed - self._held(ready)
        # Among equals the domain with most nodes left, so that gangs that come later find all of them open.
        heap = [(have.get(d, 0.0), -float(q[0][2] / q[0][3]), -len(q), d) for d, q in queue.items()]
        heapify(heap)
        while heap and missing > 0:
            count, _, _, domain = heappop(heap)
            if domain >= 0 and count >= most:
                continue
            step = queue[domain].pop(0)
            depth[int(step[0])] = int(step[1])
            missing -= float(step[2])
            if queue[domain]:
                after = queue[domain][0]
                left = len(queue[domain])
                heappush(heap, (count + float(step[2]), -float(after[2] / after[3]), -left, domain))
        place = np.empty(len(slots), dtype=np.int64)
        place[order] = np.arange(len(slots)) - np.repeat(starts, counts)
        chosen = slots[place < depth[where]]
        state = self.save()
        self.take(chosen)
        enough = self.fits()
        self.restore(state)
        return chosen if enough else slots

    def _targets_by_domain(self, ready: Floats) -> tuple[Ints, dict[int, float], float]:
        """``(code, have, most)``: domains in which members count, what each has already, the most that it may have."""
        if self._spread is not None:
            code = self._spread.code
            room = _by_domain(code, ready, len(self._spread.counts))
            return code, dict(enumerate((self._spread.counts + room).tolist())), float("inf")
        if self._apart is not None:
            code = self._apart.code
            room = _by_domain(code, ready, max(self._apart.count, 1))
            return code, dict(enumerate(np.minimum(room, 1.0).tolist())), 1.0
        return np.full(len(ready), -1, dtype=np.int64), {}, float("inf")

    def trim(self, slots: Ints, most_steps: int) -> Ints:
        """As in :class:`CountedFit`. Where domains are settled node by node nodes are worked on at once, else pods are
        tried many at a time.
        """
        by_node = self._spread is None and self._apart is None
        if by_node and not any(bar.hits[slots].any() for bar in self._bars):
            return super().trim(slots, most_steps)
        back: list[int] = []
        self._halve(slots, back, self.steps + most_steps)
        return np.array(back, dtype=np.int64)

    def _targets(self, nodes: Ints, where: Ints, slots: Ints, counts: Ints) -> Floats:
        room = self._open_room()
        target = room[nodes]
        without = np.minimum(self._without(nodes, where, slots), target)
        return self._given_up(nodes, counts, target, without, float(room.sum()) - self._needed)

    def _halve(self, slots: Ints, back: list[int], until: int) -> None:
        if not len(slots) or self.steps >= until:
            return
        self.steps += 1
        self.give_back(slots)
        if self.fits():
            back.extend(slots.tolist())
            return
        self.take(slots)
        if len(slots) > 1:
            self._halve(slots[: len(slots) // 2], back, until)
            self._halve(slots[len(slots) // 2 :], back, until)

    def save(self) -> Any:
        return super().save(), [rule.counts.copy() for rule in self._rules()]

    def restore(self, state: Any) -> None:
        super().restore(state[0])
        for rule, counts in zip(self._rules(), state[1], strict=True):
            rule.counts[:] = counts
