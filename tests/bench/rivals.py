"""The victim rules of other schedulers, re-told on our records, to compare how many pods they evict.

*kube-scheduler 1.37*, workload-aware preemption as rewritten (kubernetes/kubernetes#139980): every unit of lower
priority leaves, the members are placed one after another by LeastAllocated over CPU and memory, ties at random; then
units come back in the same order as before, each if there is room for it beside the members where they are now.
*kube-scheduler 1.36*, workload-aware preemption (KEP-5710): every unit of lower priority leaves, then units come back
one by one, those beyond a budget first, the most important first, each if the gang still fits; groups in disruption
mode PodGroup are units, all other pods are single. *Koordinator 1.x*, job preemption: every pod of lower priority
leaves every node, members go to the cheapest node one after another, then each node takes back what it can; pods are
single, budgets do not count.

Both are told generously: "fits" is exact where members are identical, and nothing fails on the way.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from gangsched.model.records import SINGLE, Pod
from tests.oracle.problem import Problem, amounts

#: Gives the UIDs of the victims, or None when there is no plan.
Rule = Callable[[Problem], "set[str] | None"]


class Cluster:
    """Free room as an array ``(R, N)`` in whole numbers; pods leave and come back."""

    def __init__(self, problem: Problem) -> None:
        self.names = sorted(problem.nodes)
        self.row = {n: i for i, n in enumerate(self.names)}
        self.resources = sorted({r for w in problem.wants for m in w.members for r in amounts(m)})
        self.free = np.array(
            [[dict(problem.nodes[n].allocatable).get(r, 0) for n in self.names] for r in self.resources], dtype=np.int64
        )
        self.shift(problem.present, -1)

    def vector(self, pod: Pod) -> np.ndarray:
        """What the pod takes, ``(R,)``."""
        mine = amounts(pod)
        return np.array([mine.get(r, 0) for r in self.resources], dtype=np.int64)

    def shift(self, pods: Iterable[Pod], sign: int) -> None:
        """Pods leave (+1) or come back (-1)."""
        for pod in pods:
            self.free[:, self.row[pod.node]] += sign * self.vector(pod)

    def place(self, members: list[Pod], cost: np.ndarray | None = None) -> dict[str, int] | None:
        """Rows for all members, one after another: the cheapest node, else the emptiest; None if one has no node."""
        free = self.free.copy()
        rows: dict[str, int] = {}
        for pod in members:
            wanted = self.vector(pod)
            mask = (free >= wanted[:, None]).all(axis=0)
            if not mask.any():
                return None
            score = -free[0].astype(float) if cost is None else cost
            row = int(np.where(mask, score, np.inf).argmin())
            free[:, row] -= wanted
            rows[pod.uid] = row
        return rows

    def fits(self, members: list[Pod]) -> bool:
        """Do all members fit? Exact for identical ones."""
        if len({m.shape.requests for m in members}) > 1:
            return self.place(sorted(members, key=lambda m: -int(self.vector(m).sum()))) is not None
        wanted = self.vector(members[0])
        asked = wanted > 0
        room = (self.free[asked] // wanted[asked][:, None]).min(axis=0)
        return int(np.maximum(room, 0).sum()) >= len(members)


def required(problem: Problem) -> list[Pod]:
    """The members that must be placed, by name."""
    return [m for w in problem.wants for m in w.members[: w.required]]


def _units(problem: Problem) -> list[list[Pod]]:
    """What kube-scheduler takes together and lets come back together: the most important first."""
    groups: dict[object, list[Pod]] = {}
    for pod in problem.present:
        unit = next((u for u in problem.units if u.whole and u.parts[0].limit == 0 and pod in u.whole), None)
        groups.setdefault(id(unit) if unit is not None else pod.uid, []).append(pod)
    units = [g for g in groups.values() if max(p.priority for p in g) < problem.priority]
    units.sort(key=lambda g: (-max(p.priority for p in g), len(g) == 1, -len(g), min(p.started for p in g), g[0].key))
    return units


def _coming_back(problem: Problem, units: list[list[Pod]]) -> list[list[Pod]]:
    """The order in which units come back: those with a pod beyond a budget first."""
    beyond = problem.budgets.beyond([p for g in units for p in g])
    return sorted(units, key=lambda g: not any(p.uid in beyond for p in g))


def kube_scheduler_137(problem: Problem) -> set[str] | None:
    """UIDs of the victims of kube-scheduler 1.37, None when it finds none."""
    units, members, cluster, chance = _units(problem), required(problem), Cluster(problem), random.Random(0)
    cluster.shift((p for g in units for p in g), +1)
    scored = [i for i, r in enumerate(cluster.resources) if r in ("cpu", "memory")]
    room = np.array(
        [[dict(problem.nodes[n].allocatable).get(cluster.resources[i], 0) for n in cluster.names] for i in scored]
    )
    for pod in members:
        wanted = cluster.vector(pod)
        mask = (cluster.free >= wanted[:, None]).all(axis=0)
        if not mask.any():
            return None
        share = ((cluster.free - wanted[:, None])[scored] / np.maximum(room, 1)).mean(axis=0)
        share = np.where(mask, share, -np.inf)
        cluster.free[:, chance.choice(list(np.flatnonzero(share >= share.max() - 1e-9)))] -= wanted
    taken: set[str] = set()
    for back in _coming_back(problem, units):
        cluster.shift(back, -1)
        if (cluster.free < 0).any():
            cluster.shift(back, +1)
            taken.update(p.uid for p in back)
    return taken


def kube_scheduler_136(problem: Problem) -> set[str] | None:
    """UIDs of the victims of kube-scheduler 1.36, None when it finds none."""
    units, members, cluster = _units(problem), required(problem), Cluster(problem)
    cluster.shift((p for g in units for p in g), +1)
    if not cluster.fits(members):
        return None
    taken: set[str] = set()
    for back in _coming_back(problem, units):
        cluster.shift(back, -1)
        if not cluster.fits(members):
            cluster.shift(back, +1)
            taken.update(p.uid for p in back)
    return taken


def koordinator(problem: Problem) -> set[str] | None:
    """UIDs of the victims of Koordinator's job preemption, None when it finds none."""
    candidates = {p.uid for p in problem.candidates() if p.priority < problem.priority}
    by_node: dict[str, list[Pod]] = {}
    for pod in problem.present:
        if pod.uid in candidates:
            by_node.setdefault(pod.node, []).append(pod)
    members, cluster = [m for w in problem.wants for m in w.members], Cluster(problem)
    rank = {p: i for i, p in enumerate(sorted({p.priority for pods in by_node.values() for p in pods}))}
    cost = np.zeros(len(cluster.names))
    for name, pods in by_node.items():
        cluster.shift(pods, +1)
        first = {p.gang: rank[p.priority] for p in sorted(pods, key=lambda p: p.name, reverse=True)}
        cost[cluster.row[name]] = sum(first.values())
    rows = cluster.place(members, cost)
    if rows is None:
        return None
    for member in members:
        cluster.free[:, rows[member.uid]] -= cluster.vector(member)
    used = set(rows.values())
    taken: set[str] = set()
    for name, pods in by_node.items():
        row = cluster.row[name]
        if row not in used:
            continue
        for pod in sorted(pods, key=lambda p: (-p.priority, p.gang.key, p.name)):
            cluster.free[:, row] -= cluster.vector(pod)
            if (cluster.free[:, row] < 0).any():
                cluster.free[:, row] += cluster.vector(pod)
                taken.add(pod.uid)
    return taken


def left_broken(problem: Problem, taken: set[str]) -> int:
    """Gangs that keep running with fewer members than they need, because of these evictions."""
    minimum = {part.gang: part.minimum for u in problem.units for part in u.parts}
    before = Counter(p.gang for p in problem.present)
    lost = Counter(p.gang for p in problem.present if p.uid in taken)
    return sum(
        0 < before[gang] - count < minimum.get(gang, 1) <= before[gang]
        for gang, count in lost.items()
        if gang.family != SINGLE
    )


#: By the name under which tables have them.
RULES: dict[str, Rule] = {
    "kube-scheduler 1.37": kube_scheduler_137,
    "kube-scheduler 1.36": kube_scheduler_136,
    "Koordinator": koordinator,
}
