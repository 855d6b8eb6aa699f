"""Where the members of a gang go: every filter, each member's own request, all or nothing by the gang's minimum."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints, runs
from gangsched.core.framework.pipeline import Pipeline, Ranking
from gangsched.core.placement.arrangement import MAX_MEMBERS, Arranger, hopeless, whole
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Domains, Simulation
from gangsched.core.state.snapshot import Snapshot
from gangsched.model.records import Pod

#: From so many equal members on, nodes are scored all at once.
MANY = 64
#: Scoring all nodes takes as long as scoring so many one by one.
_NODES_AT_ONCE = 32
#: So many pods are drawn from one ranking; as many nodes have to be kept in order for it.
LENGTH = 64


class Want(msgspec.Struct, frozen=True):
    """The pending members of one gang, in name order, of which ``required`` must be placed."""

    members: tuple[Pod, ...]
    required: int


class Placed(msgspec.Struct):
    """The result of a placement attempt; the simulation holds the pods that were placed."""

    rows: dict[str, int]
    failed: list[Pod]

    @property
    def complete(self) -> bool:
        """All required members have a node."""
        return not self.failed


class Placer:
    """Places members in a simulation."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.streak = Streak(pipeline)
        self.looks = 0  # rankings and masks over all nodes: the unit in which searches are bounded

    def required(self, wants: Sequence[Want], sim: Simulation, prefer: Mapping[str, int]) -> Placed:
        """Place the required members of all gangs together.

        ``prefer`` gives, by UID, the row to try first (a nomination). Several orders are tried, since members may
        differ and the first order can block itself: by name, the largest first, the most restricted first; then
        packed tightly; then, for small gangs, all ways. When a gang has more members than it needs, those that are
        easiest to place are chosen in the later attempts, and all of them are considered in the last.

        On failure the simulation is unchanged, and ``failed`` are the members without a node in the first attempt,
        whose order users expect.
        """
        if not wants:
            return Placed({}, [])
        alike = len({c.ident for c in sim.classes_of([p for want in wants for p in want.members])}) == 1
        orders = self._orders(wants, sim, alike=alike)
        no_choice = len(orders) > 1 and all(len(want.members) == want.required for want in wants)
        first: Placed | None = None
        for wish in (prefer, {}) if prefer else ({},):
            wished = _wished(wants, wish)
            if len(wished) > MAX_MEMBERS and all(p.uid in wish for p in wished):
                wished = _grouped(wished, sim)
            for chosen in [wished, *(order for order in orders if order != wished)] if wish else orders:
                mark = sim.mark()
                result = self._in_order(chosen, sim, wish, stop=True)
                if result.complete:
                    return result
                sim.rollback(mark)
                first = first or result
                if no_choice and hopeless(orders[-1], sim, self.pipeline):
                    return first
        # Equal members, one by one, is exact: whichever node one of them takes, it uses up no more of what the others
        # need than any other choice. Only required affinity makes the first choice bind the rest.
        exact = alike and not orders[0][0].shape.affinity
        found = None if exact else self._otherwise(wants, orders, sim)
        return Placed(found, []) if found is not None else first or Placed({}, [])

    def _otherwise(self, wants: Sequence[Want], orders: list[list[Pod]], sim: Simulation) -> dict[str, int] | None:
        """Arrangements that one-by-one placement does not find."""
        members = [p for want in wants for p in want.members]
        near = next((p for p in orders[0] if p.shape.affinity), None)
        if near is not None:
            rows = self._by_domain(near, orders[0], sim)
            if rows is not None:
                return rows
        arranger = Arranger(self.pipeline, sim, members)
        for chosen in orders:
            rows = arranger.tight(chosen)
            self.looks += len(chosen)
            if rows is not None:
                return rows
        if all(len(want.members) == want.required for want in wants):
            found = arranger.packed(members)
            if found.known:
                return found.rows or None
        if len(members) > MAX_MEMBERS:
            return None
        ranked = sorted(members, key=lambda p: (self._share(p, sim), p.name), reverse=True)
        rows = arranger.all_ways(ranked, [(frozenset(p.uid for p in w.members), w.required) for w in wants])
        self.looks += arranger.tries
        return rows

    def _by_domain(self, first: Pod, members: Sequence[Pod], sim: Simulation) -> dict[str, int] | None:
        """Where the first of some members draws others to its domain: it in each domain that by itself has room for all
        of a class that are drawn, those with the least room first.
        """
        domains = Domains(sim, first.shape.affinity[0].topology_key)
        most: Floats = np.full(domains.count, np.inf)
        for pod_class, some in _classes(members, sim):
            if pod_class.shape.affinity:
                index, amounts = sim.snapshot.vector(pod_class.shape)
                allowed = self.pipeline.static_mask(pod_class, sim) & (domains.code >= 0)
                room = whole(amounts, sim.free[index], allowed, len(some))
                held = np.bincount(domains.code[allowed], weights=room[allowed], minlength=domains.count)
                most = np.minimum(most, np.where(held >= len(some), held, 0.0))
        passing = np.flatnonzero(self.pipeline.mask(sim.class_of(first), sim))
        ordered = [first, *(p for p in members if p.uid != first.uid)]
        for domain in np.argsort(most, kind="stable").tolist():
            rows = passing[domains.code[passing] == domain] if most[domain] else passing[:0]
            if len(rows):
                mark = sim.mark()
                result = self._in_order(ordered, sim, {first.uid: int(rows[0])}, stop=True)
                if result.complete:
                    return result.rows
                sim.rollback(mark)
        return None

    def extras(self, members: Sequence[Pod], sim: Simulation, prefer: Mapping[str, int]) -> Placed:
        """Place as many further members as fit, each on its own."""
        return self._in_order(list(members), sim, prefer, stop=False)

    def _orders(self, wants: Sequence[Want], sim: Simulation, *, alike: bool) -> list[list[Pod]]:
        by_name = [p for want in wants for p in want.members[: want.required]]
        if alike:
            return [by_name]
        class_of = sim.class_of
        kind = {p.uid: class_of(p).ident for want in wants for p in want.members}
        one_of_each = {kind[p.uid]: p for want in wants for p in want.members}
        share = {ident: self._share(p, sim) for ident, p in one_of_each.items()}
        choices = {ident: self._choices(p, sim) for ident, p in one_of_each.items()}
        ease = {p.uid: (share[kind[p.uid]], p.name) for want in wants for p in want.members}
        easiest = [p for want in wants for p in sorted(want.members, key=lambda p: ease[p.uid])[: want.required]]
        if len(by_name) > MAX_MEMBERS:  # like members one after another: each class is then ranked once
            by_name, easiest = _grouped(by_name, sim), _grouped(easiest, sim)
        out = [by_name]
        for chosen in (by_name, easiest):
            out.append(sorted(chosen, key=lambda p: -ease[p.uid][0]))
            out.append(sorted(chosen, key=lambda p: (choices[kind[p.uid]], -ease[p.uid][0])))
        return [order for n, order in enumerate(out) if order not in out[:n]]

    def _share(self, pod: Pod, sim: Simulation) -> float:
        """The largest share of a mean node that the pod asks for."""
        index, amounts = sim.snapshot.vector(pod.shape)
        room = sim.snapshot.allocatable[index].mean(axis=1) if sim.snapshot.size else np.ones(len(index))
        return float((amounts / np.maximum(room, 1.0)).max())

    def _choices(self, pod: Pod, sim: Simulation) -> int:
        return int(self.pipeline.static_mask(sim.class_of(pod), sim).sum())

    def _in_order(self, members: list[Pod], sim: Simulation, prefer: Mapping[str, int], stop: bool) -> Placed:
        """Place members one after another, equal neighbours with one ranking. With ``stop``, the first failure of
        a class ends the attempt for it: its other pods cannot fit either.
        """
        rows: dict[str, int] = {}
        failed: list[Pod] = []
        end = 0
        for pod_class, run in groupby(zip(sim.classes_of(members), members, strict=True), itemgetter(0)):
            alike = [pod for _, pod in run]
            end += len(alike)
            self._run(pod_class, alike, sim, prefer, rows, failed)
            if failed and stop:
                failed.extend(members[end:])
                break
        return Placed(rows, failed)

    def _run(
        self,
        pod: PodClass,
        members: list[Pod],
        sim: Simulation,
        prefer: Mapping[str, int],
        rows: dict[str, int],
        failed: list[Pod],
    ) -> None:
        self.looks += 1
        ranking = Ranking(self.pipeline, pod, sim)
        if ranking.by_room:
            self._draw(pod, members, sim, prefer, ranking, rows, failed)
            return
        if ranking.by_node:
            self._draw_by_node(pod, members, sim, prefer, ranking, rows, failed)
            return
        for n, member in enumerate(members):
            wish = prefer.get(member.uid, -1)
            row = wish if wish >= 0 and ranking.totals[wish] != -np.inf else ranking.best()
            if row < 0:
                failed.extend(members[n:])
                return
            sim.place(pod, row)
            rows[member.uid] = row
            if n + 1 < len(members):
                self.looks += 1
                ranking.placed(row)

    def _draw(
        self,
        pod: PodClass,
        members: list[Pod],
        sim: Simulation,
        prefer: Mapping[str, int],
        ranking: Ranking,
        rows: dict[str, int],
        failed: list[Pod],
    ) -> None:
        """Equal pods limited by resources alone: always the best node of a heap, re-scored when it was used."""
        left = _as_wished(pod, members, sim, prefer, ranking.totals != -np.inf, rows) if prefer else members
        if len(left) < len(members) and left:
            ranking = Ranking(self.pipeline, pod, sim)
        heap = ranking.leaders(len(left)) if left else []
        first = self._draw_many(pod, left, sim, ranking, heap, rows) if len(left) >= MANY else 0
        for n, member in enumerate(left[first:], first):
            if not heap:
                failed.extend(left[n:])
                return
            rows[member.uid] = _take_best(pod, sim, ranking, heap)

    @staticmethod
    def _draw_by_node(
        pod: PodClass,
        members: list[Pod],
        sim: Simulation,
        prefer: Mapping[str, int],
        ranking: Ranking,
        rows: dict[str, int],
        failed: list[Pod],
    ) -> None:
        """Equal pods limited by resources and devices of their own node: only that node is looked at again."""
        index, amounts = sim.snapshot.vector(pod.shape)

        def takes(row: int) -> bool:
            """Whether the node, which has passed all filters, takes one more."""
            room = bool((sim.free[index, row] >= amounts).all())
            return room and (pod.devices is None or sim.devices.can_take(pod.devices, row))

        heap = [(score, row, 0) for score, row in ranking.leaders(len(members))]
        visits: dict[int, int] = {}
        for n, member in enumerate(members):
            row = prefer.get(member.uid, -1)
            if row < 0 or ranking.totals[row] == -np.inf or not takes(row):
                while heap and heap[0][2] != visits.get(heap[0][1], 0):
                    heapq.heappop(heap)
                if not heap:
                    failed.extend(members[n:])
                    return
                row = heap[0][1]
            sim.place(pod, row)
            rows[member.uid] = row
            visits[row] = visits.get(row, 0) + 1
            if takes(row):
                heapq.heappush(heap, (-ranking.value(row), row, visits[row]))

    @staticmethod
    def _draw_many(
        pod: PodClass,
        members: list[Pod],
        sim: Simulation,
        ranking: Ranking,
        heap: list[tuple[float, int]],
        rows: dict[str, int],
    ) -> int:
        """The same for very many; returns for how many. The scores of all leading nodes with one, two, ... of these
        pods are computed at once, up to a number from which on single nodes are faster.
        """
        index, amounts = sim.snapshot.vector(pod.shape)
        leading: Ints = np.array(sorted(row for _, row in heap), dtype=np.int64)
        most = np.zeros(sim.snapshot.size, dtype=np.int64)
        most[leading] = (sim.free[index][:, leading] // amounts[:, None]).min(axis=0)
        scores = [ranking.totals]
        held = [0] * sim.snapshot.size
        mark = sim.mark()
        chosen: list[int] = []
        while heap and len(chosen) < len(members):
            _, row = heap[0]
            count = held[row] + 1
            if count < most[row] and count == len(scores):  # so many were not asked for yet
                if count * _NODES_AT_ONCE > len(members):
                    break
                sim.place_all(pod, leading[most[leading] >= count])
                scores.append(ranking.values(sim.snapshot.size))
            chosen.append(row)
            held[row] = count
            if count < most[row]:
                heapq.heapreplace(heap, (-float(scores[count][row]), row))
            else:
                heapq.heappop(heap)
        sim.rollback(mark)
        sim.place_all(pod, np.array(chosen, dtype=np.int64))
        rows.update(zip((p.uid for p in members), chosen, strict=False))
        return len(chosen)


def _take_best(pod: PodClass, sim: Simulation, ranking: Ranking, heap: list[tuple[float, int]]) -> int:
    """Place a pod on the best node of the heap, which stays in it while it has room for one more; returns its row."""
    row = heap[0][1]
    sim.place(pod, row)
    index, amounts = sim.snapshot.vector(pod.shape)
    if (sim.free[index, row] >= amounts).all():
        heapq.heapreplace(heap, (-ranking.value(row), row))
    else:
        heapq.heappop(heap)
    return row


def _as_wished(
    pod: PodClass, members: list[Pod], sim: Simulation, prefer: Mapping[str, int], open_: Bools, rows: dict[str, int]
) -> list[Pod]:
    """Place the equal pods whose wish is an open node with room, the first ones first; returns the others."""
    index, amounts = sim.snapshot.vector(pod.shape)
    wishes: Ints = np.array([prefer.get(p.uid, -1) for p in members], dtype=np.int64)
    order, starts, _ = runs(wishes)
    turn = np.empty_like(order)
    turn[order] = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    asked = amounts > 0
    room = (sim.free[index[asked]] // amounts[asked, None]).min(axis=0)
    fine = (wishes >= 0) & open_[wishes] & (turn < room[wishes])
    sim.place_all(pod, wishes[fine])
    rows.update((p.uid, row) for p, row, yes in zip(members, wishes.tolist(), fine.tolist(), strict=True) if yes)
    return [p for p, yes in zip(members, fine.tolist(), strict=True) if not yes]


def _wished(wants: Sequence[Want], wish: Mapping[str, int]) -> list[Pod]:
    """Required members, those with a row to try first before others of their gang."""
    return [p for w in wants for p in sorted(w.members, key=lambda p: p.uid not in wish)[: w.required]]


def _grouped(members: Sequence[Pod], sim: Simulation) -> list[Pod]:
    """Members of one class together, classes in the order of their first member."""
    return [pod for _, some in _classes(members, sim) for pod in some]


def _classes(members: Sequence[Pod], sim: Simulation) -> list[tuple[PodClass, list[Pod]]]:
    """The members by class, classes in the order of their first member."""
    found: dict[int, tuple[PodClass, list[Pod]]] = {}
    for pod in members:
        pod_class = sim.class_of(pod)
        found.setdefault(pod_class.ident, (pod_class, []))[1].append(pod)
    return list(found.values())


class Streak:
    """Single pods that are alike, decided one after another: what was worked out for one serves the next.

    Each is still a decision of its own, made on everything that has happened until then. If the last member only took
    its place, the nodes need no new filtering and ranking. The best nodes are cached for one class of pods that only
    free resources limit.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._left = 0
        self._ident = -1
        self._expected: tuple[int, str, int] = (-1, "", -1)
        self._sim: Simulation | None = None
        self._ranking: Ranking | None = None
        self._heap: list[tuple[float, int]] = []

    def next(self, pod: PodClass, uid: str, snapshot: Snapshot) -> int | None:
        """The row for this pod; None when it is none of those that this is for, or no node takes it. No room may be
        held for any group.
        """
        snapshot.align_rows()
        seen = (snapshot.generation, snapshot.charged_last[0], snapshot.charged_last[1])
        if not self._left or self._ident != pod.ident or self._expected != seen:
            self._left = 0
            if pod.volumes is not None or pod.devices is not None or not self._begin(pod, snapshot):
                return None
        sim, ranking = self._sim, self._ranking
        if sim is None or ranking is None or not self._heap:
            return None
        row = _take_best(pod, sim, ranking, self._heap)
        self._left -= 1
        self._expected = (snapshot.generation + 1, uid, row)
        return row

    def _begin(self, pod: PodClass, snapshot: Snapshot) -> bool:
        sim = Simulation(snapshot, unlimited=self._pipeline.unlimited)
        if not self._pipeline.only_counts(pod, sim):
            return False
        ranking = Ranking(self._pipeline, pod, sim)
        if not ranking.by_room:
            return False
        self._sim, self._ranking, self._ident, self._left = sim, ranking, pod.ident, LENGTH
        self._heap = ranking.leaders(LENGTH)
        return True
