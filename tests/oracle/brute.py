"""The optimum by trying everything: for clusters of a few nodes and a few victims, to check the exact model with."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import combinations

from gangsched.core.preemption.harm import Harm
from gangsched.model.records import Pod
from tests.oracle.problem import Problem, admits, amounts, domain, selects


def place(problem: Problem, *, lift: bool, taken: Collection[str] = ()) -> dict[str, str] | None:
    """A node for every required member, by UID, or None when there is none, found by backtracking."""
    here = [p for p in problem.present if p.uid not in taken] + ([] if lift else list(problem.leaving))
    for chosen in _choices(problem):
        found = _extend(problem, here, chosen, {})
        if found is not None:
            return found
    return None


def _choices(problem: Problem) -> Iterator[list[Pod]]:
    """Which of the pending members are the required ones."""

    def choose(index: int) -> Iterator[list[Pod]]:
        if index == len(problem.wants):
            yield []
            return
        want = problem.wants[index]
        for mine in combinations(want.members, want.required):
            for rest in choose(index + 1):
                yield [*mine, *rest]

    seen: set[tuple] = set()
    for chosen in choose(0):
        kind = tuple(sorted((id(p.shape), p.namespace, id(p.labels)) for p in chosen))
        if kind not in seen:
            seen.add(kind)
            yield sorted(chosen, key=lambda p: (id(p.shape), id(p.labels)))


def _extend(problem: Problem, here: list[Pod], todo: list[Pod], done: dict[str, str]) -> dict[str, str] | None:
    if not todo:
        return done
    pod = todo[0]
    for name in problem.nodes:
        if accepts(problem, here, pod, name):
            found = _extend(problem, [*here, at(pod, name)], todo[1:], {**done, pod.uid: name})
            if found is not None:
                return found
    return None


def at(pod: Pod, node: str) -> Pod:
    """The pod as it will be on that node."""
    fields = {f: getattr(pod, f) for f in pod.__struct_fields__}
    return Pod(**{**fields, "node": node})


def accepts(problem: Problem, here: list[Pod], pod: Pod, name: str) -> bool:
    """May the pod come to the node while these pods run?"""
    node = problem.nodes[name]
    if not admits(node, pod):
        return False
    free = dict(node.allocatable)
    for other in here:
        if other.node == name:
            for resource, used in amounts(other).items():
                free[resource] = free.get(resource, 0) - used
    if any(free.get(r, 0) < wanted for r, wanted in amounts(pod).items()):
        return False
    for other in here:
        terms = [(t, other) for t in pod.shape.anti_affinity] + [(t, pod) for t in other.shape.anti_affinity]
        for term, target in terms:
            place_of = domain(node, term.topology_key)
            same = place_of is not None and place_of == domain(problem.nodes[other.node], term.topology_key)
            if same and selects(term, target):
                return False
    return True


def least_harm(problem: Problem) -> tuple[frozenset[str], Harm] | None:
    """The optimum over all legal sets of victims; None when none makes the gang fit."""
    best: tuple[frozenset[str], Harm] | None = None
    uids = [p.uid for p in problem.candidates()]
    for size in range((problem.most or len(uids)) + 1):
        for chosen in combinations(uids, size):
            taken = frozenset(chosen)
            try:
                cost = problem.harm(taken)
            except ValueError:
                continue
            if (best is None or cost < best[1]) and place(problem, lift=True, taken=taken) is not None:
                best = (taken, cost)
    return best
