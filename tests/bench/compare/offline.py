"""What the published rules of other schedulers evict, and what this planner does: no cluster is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from gangsched.core.decision import PREEMPT
from gangsched.model.records import Gang, Node, Pod
from tests.bench import rivals
from tests.bench.live.cells import Cell, group_of
from tests.oracle.case import Case, Maker, decide
from tests.oracle.generate import SIGS
from tests.oracle.generate_large import case
from tests.oracle.problem import Problem, read

THIS = "this"
#: Of these two the order among nodes that are alike is known, so that a single cluster says something.
KUBE = ("kube-scheduler 1.37", "kube-scheduler 1.36")
_LOW, _HIGH, _GIB = 100, 1000, 1 << 30


class Taken(msgspec.Struct, frozen=True):
    """Pods that are evicted, and gangs that go on running with fewer than they need; in ``clusters`` clusters."""

    evicted: int
    broken: int
    clusters: int = 1


def of_cell(cell: Cell) -> dict[str, Taken]:
    """By whose rules, for a cell of the live bench with one pending gang."""
    return _taken(case_of(cell), KUBE) or {}


def of_random_clusters(count: int) -> dict[str, Taken]:
    """The sums over those of the first ``count`` random clusters in which everybody finds victims."""
    found = [each for each in _clusters(count) if len(each) == 1 + len(rivals.RULES)]
    return {
        who: Taken(sum(each[who].evicted for each in found), sum(each[who].broken for each in found), len(found))
        for who in (THIS, *rivals.RULES)
    }


def _clusters(count: int) -> Iterator[dict[str, Taken]]:
    for seed in range(count):
        taken = _taken(case(seed, mixed=seed % 3 == 2), rivals.RULES)
        if taken is not None:
            yield taken


def _taken(question: Case, rules: Iterable[str]) -> dict[str, Taken] | None:
    """None where this planner evicts nobody."""
    first = decide(question)[0]
    if first.outcome != PREEMPT:
        return None
    problem = read(question)
    found = {THIS: _counted(problem, {v.uid for v in first.victims})}
    for name in rules:
        victims = rivals.RULES[name](problem)
        if victims is not None:
            found[name] = _counted(problem, victims)
    return found


def _counted(problem: Problem, victims: set[str]) -> Taken:
    return Taken(len(victims), rivals.left_broken(problem, victims))


def case_of(cell: Cell) -> Case:
    """The cluster of a cell, with its first pending gang."""
    make = Maker()
    room = {"cpu": cell.node_cpu * 1000, "memory": 64 * _GIB}
    nodes: list[Node] = [make.node(f"node-{n:05d}", room) for n in range(cell.nodes)]
    gangs = [Gang(SIGS, "default", "new", min_member=cell.size)]
    old, new = (make.shape({"cpu": milli}) for milli in (cell.victim_milli_cpu, cell.milli_cpu))
    pods: list[Pod] = [make.pod(f"new-{m:05d}", new, gang=(SIGS, "new"), priority=_HIGH) for m in range(cell.size)]
    for n in range(cell.victims):
        gang = (SIGS, group_of(cell, n)) if cell.victim_gang > 1 else None
        on = f"node-{n // cell.victims_per_node:05d}"
        pods.append(make.pod(f"old-{n:06d}", old, gang=gang, node=on, priority=_LOW, started=float(n)))
    if cell.victim_gang > 1:
        names = dict.fromkeys(group_of(cell, n) for n in range(cell.victims))
        gangs += [Gang(SIGS, "default", n, min_member=cell.victim_gang, disruption="gang") for n in names]
    return Case(nodes, pods, gangs, [], title=cell.name)
