"""The exact optimum, as a lexicographic MILP: the least harmful legal set of victims with which the members fit.

Members of one class (same gang, shape and labels) are counted per node, victims are 0 or 1. Each component of harm is
minimised in turn, and then held at its minimum.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

import msgspec

from gangsched.core.preemption.harm import Harm, share, whose
from gangsched.model.records import Pod
from tests.oracle.case import NOW
from tests.oracle.model import Infeasible, Model, Solved, add
from tests.oracle.problem import Problem, Unit, admits, amounts, domain, selects


class Optimum(msgspec.Struct):
    """The least harmful set of victims, by UID."""

    taken: frozenset[str]
    harm: Harm


class PodClass(msgspec.Struct):
    """Members that cannot be told apart; ``want`` is the index of their gang."""

    want: int
    pod: Pod
    count: int


class Program:
    """The constraints. ``x[(class, node)]`` counts members, ``y[uid]`` is 1 for a victim.

    ``lift`` takes the terminating pods away; ``may_take`` limits the victims (None: all candidates); ``greedy_budgets``
    False replaces the walk of the budgets by its relaxation, a lower bound.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        lift: bool = True,
        may_take: Collection[str] | None = None,
        time_limit_seconds: float | None = None,
        greedy_budgets: bool = True,
    ) -> None:
        self.problem = problem
        self.model = Model(time_limit_seconds)
        self.x: dict[tuple[int, str], int] = {}
        self.y: dict[str, int] = {}
        self.w: list[int | None] = []
        self.gangs_at: dict[int, dict[int, float]] = {}
        self.pods_at: dict[int, dict[int, float]] = {}
        self.beyond: dict[int, float] = {}
        self._staying = list(problem.present) if lift else [*problem.present, *problem.leaving]
        self._greedy = greedy_budgets
        for pod in problem.candidates():
            self.y[pod.uid] = self.model.column(1.0 if may_take is None or pod.uid in may_take else 0.0)
        for unit in problem.units:
            self._unit(unit)
        self._members()
        self._room()
        self._apart()
        self._budgets()
        if problem.most:
            self.model.row(self.victims(), upper=float(problem.most))

    # -- victims -------------------------------------------------------------------------------------------

    def _unit(self, unit: Unit) -> None:
        whole = self.model.column() if unit.whole else None
        self.w.append(whole)
        if whole is not None:
            add(self.gangs_at.setdefault(unit.priority, {}), whole, len(unit.parts))
            add(self.pods_at.setdefault(unit.priority, {}), whole, len(unit.whole))
        for part in unit.parts:
            singles = {p.uid for p in part.single}
            surplus: dict[int, float] = {self.y[u]: 1.0 for u in singles}
            for pod in part.bound:
                y = self.y.get(pod.uid)
                if y is None:
                    continue
                if whole is not None:
                    self.model.row({y: 1.0, whole: -1.0}, lower=0.0)
                    if pod.uid in singles:
                        add(self.pods_at.setdefault(pod.priority, {}), y, 1.0)
                        add(self.pods_at[pod.priority], whole, -1.0)
                    else:
                        self.model.row({y: 1.0, whole: -1.0}, upper=0.0)
                else:
                    add(self.pods_at.setdefault(pod.priority, {}), y, 1.0)
                    if pod.uid not in singles:
                        self.model.row({y: 1.0}, upper=0.0)
            if whole is not None:
                add(surplus, whole, -float(len(singles)))
            self.model.row(surplus, upper=float(part.limit))
            if part.counts and part.limit > max(0, len(part.bound) - part.minimum):
                self._interruption(part.single, len(part.bound) - part.minimum)

    def _interruption(self, pods: list[Pod], spare: int) -> None:
        """A gang that loses more than ``spare`` of these pods is interrupted, at the highest priority among them."""
        spare = max(0, spare)
        at = {level: self.model.column() for level in {p.priority for p in pods}}
        total: dict[int, float] = {self.y[p.uid]: 1.0 for p in pods}
        forced, real = dict(total), dict(total)
        for level, column in at.items():
            add(self.gangs_at.setdefault(level, {}), column, 1.0)
            forced[column] = -float(len(pods))
            real[column] = -float(spare + 1)
            same = {self.y[p.uid]: 1.0 for p in pods if p.priority == level}
            self.model.row({**same, column: -1.0}, lower=0.0)
            for pod in pods:
                if pod.priority > level:
                    self.model.row({self.y[pod.uid]: 1.0, column: 1.0}, upper=1.0)
        self.model.row(forced, upper=float(spare))
        self.model.row(real, lower=0.0)
        self.model.row(dict.fromkeys(at.values(), 1.0), upper=1.0)

    def _budgets(self) -> None:
        """Victims in the order of the walk; ``z`` is 1 for one that finds a matching budget empty."""
        budgets = self.problem.budgets
        walked = sorted(self.problem.candidates(), key=lambda p: (-p.priority, p.key))
        charged: dict[str, dict[int, float]] = {}
        for pod in walked:
            matching = budgets.matching(pod)
            if not matching:
                continue
            y, z = self.y[pod.uid], self.model.column()
            self.beyond[z] = 1.0
            self.model.row({z: 1.0, y: -1.0}, upper=0.0)
            excuses: dict[int, float] = {z: 1.0}
            for budget in matching:
                allowed = max(0, budgets.allowed[budget.key])
                so_far = charged.setdefault(budget.key, {})
                if self._greedy:
                    empty = self.model.column()
                    excuses[empty] = -1.0
                    self.model.row({**so_far, empty: -float(allowed)}, lower=0.0)
                add(so_far, y, 1.0)
                add(so_far, z, -1.0)
                self.model.row(so_far, upper=float(allowed))
            if self._greedy:
                self.model.row(excuses, upper=0.0)

    # -- members -------------------------------------------------------------------------------------------

    def _members(self) -> None:
        classes: dict[tuple[int, int, str, int], PodClass] = {}
        for index, want in enumerate(self.problem.wants):
            for pod in want.members:
                key = (index, id(pod.shape), pod.namespace, id(pod.labels))
                found = classes.setdefault(key, PodClass(index, pod, 0))
                found.count += 1
        self.classes = list(classes.values())
        for number, entry in enumerate(self.classes):
            for name, node in self.problem.nodes.items():
                if admits(node, entry.pod):
                    self.x[(number, name)] = self.model.column(float(entry.count))
            self.model.row(self._placed(number, self.problem.nodes), upper=float(entry.count))
        for index, want in enumerate(self.problem.wants):
            total: dict[int, float] = {}
            for number, entry in enumerate(self.classes):
                if entry.want == index:
                    total |= self._placed(number, self.problem.nodes)
            self.model.row(total, lower=float(want.required), upper=float(want.required))

    def _placed(self, number: int, nodes: Iterable[str]) -> dict[int, float]:
        return {self.x[(number, n)]: 1.0 for n in nodes if (number, n) in self.x}

    def _room(self) -> None:
        by_node: dict[str, list[Pod]] = {}
        for pod in self._staying:
            by_node.setdefault(pod.node, []).append(pod)
        for name, node in self.problem.nodes.items():
            for resource in sorted({r for c in self.classes for r in amounts(c.pod)}):
                free = dict(node.allocatable).get(resource, 0)
                terms: dict[int, float] = {}
                for pod in by_node.get(name, ()):
                    used = amounts(pod).get(resource, 0)
                    free -= used
                    if pod.uid in self.y:
                        add(terms, self.y[pod.uid], -float(used))
                for number, entry in enumerate(self.classes):
                    if (number, name) in self.x:
                        add(terms, self.x[(number, name)], float(amounts(entry.pod).get(resource, 0)))
                if free < 0:
                    raise ValueError(f"node {name} is over-committed: outside of what this model says")
                scale = math.gcd(free, *(int(v) for v in terms.values())) or 1
                self.model.row({c: v / scale for c, v in terms.items()}, upper=free / scale)

    # -- anti-affinity -------------------------------------------------------------------------------------

    def _apart(self) -> None:
        domains: dict[tuple[str, str], list[str]] = {}
        for name, node in self.problem.nodes.items():
            for key in {t.topology_key for t in self._terms()}:
                place = domain(node, key)
                if place is not None:
                    domains.setdefault(place, []).append(name)
        for number, entry in enumerate(self.classes):
            for term in entry.pod.shape.anti_affinity:
                for names in (names for place, names in domains.items() if place[0] == term.topology_key):
                    here = [p for p in self._staying if p.node in names and selects(term, p)]
                    self._blocked(number, names, here)
                    for other in (n for n, neighbour in enumerate(self.classes) if selects(term, neighbour.pod)):
                        self._exclude(number, other, names)
            for pod in self._staying:
                for term in pod.shape.anti_affinity:
                    place = domain(self.problem.nodes[pod.node], term.topology_key)
                    if place is not None and selects(term, entry.pod):
                        self._blocked(number, domains[place], [pod])

    def _terms(self) -> list:
        pods = [c.pod for c in self.classes] + self._staying
        return [t for p in pods for t in p.shape.anti_affinity]

    def _blocked(self, number: int, names: list[str], by: list[Pod]) -> None:
        """Members of this class come to these nodes only when all of these pods have left."""
        count = float(self.classes[number].count)
        for pod in by:
            terms = self._placed(number, names)
            if pod.uid in self.y:
                terms[self.y[pod.uid]] = -count
            self.model.row(terms, upper=0.0)

    def _exclude(self, one: int, other: int, names: list[str]) -> None:
        """Members of these classes do not share the domain; of one class with itself, it holds one member."""
        if one == other:
            self.model.row(self._placed(one, names), upper=1.0)
            return
        here = self.model.column()
        self.model.row({**self._placed(one, names), here: -float(self.classes[one].count)}, upper=0.0)
        count = float(self.classes[other].count)
        self.model.row({**self._placed(other, names), here: count}, upper=count)

    # -- answers -------------------------------------------------------------------------------------------

    def taken(self, solved: Solved) -> frozenset[str]:
        """The victims of a solution."""
        return frozenset(uid for uid, column in self.y.items() if solved.values[column] > 0.5)

    def victims(self) -> dict[int, float]:
        """The number of victims, as an objective."""
        return dict.fromkeys(self.y.values(), 1.0)

    def owners(self) -> dict[int, float]:
        """The number of gangs, controllers and pods without either that lose something, as an objective."""
        found: dict[object, int] = {}
        for pod in self.problem.candidates():
            owner = whose(pod)
            if owner not in found:
                found[owner] = self.model.column()
            self.model.row({found[owner]: 1.0, self.y[pod.uid]: -1.0}, lower=0.0)
        return dict.fromkeys(found.values(), 1.0)

    def work(self) -> dict[int, float]:
        """Work lost, as an objective."""
        pods, cluster = self.problem.candidates(), self.problem.cluster
        return {self.y[p.uid]: share(p, cluster) * max(0.0, NOW - p.started) for p in pods}


def fits(problem: Problem, *, lift: bool, taken: Collection[str] = ()) -> bool:
    """Do the required members fit when these pods have left (and, with ``lift``, the terminating ones)?"""
    try:
        program = Program(problem, lift=lift, may_take=taken)
        program.model.minimise({})
    except Infeasible:
        return False
    return True


def least_harm(problem: Problem) -> Optimum | None:
    """The optimum, or None when no legal set of victims makes the gang fit."""
    program = Program(problem)
    try:
        solved = _lexicographic(program)
    except Infeasible:
        return None
    taken = program.taken(solved)
    return Optimum(taken, problem.harm(taken))


def _lexicographic(program: Program) -> Solved:
    model = program.model
    levels = sorted({*program.gangs_at, *program.pods_at}, reverse=True)
    stages = [program.beyond]
    for level in levels:
        stages += [program.gangs_at.get(level, {}), program.pods_at.get(level, {})]
    stages.append(program.owners())
    solved: Solved | None = None
    for terms in stages:
        if not terms:
            continue
        # Counts are at least 0: where the solution at hand has none, there is nothing to improve.
        if solved is None or value(terms, solved) > 0:
            solved = model.minimise(terms)
        model.row(terms, upper=float(value(terms, solved)))
    return model.minimise(program.work())


def value(terms: dict[int, float], solved: Solved) -> int:
    """The whole number that an objective of counts has in a solution."""
    return round(sum(v * solved.values[c] for c, v in terms.items()))


def could_stay(problem: Problem, taken: Collection[str]) -> int:
    """How many of these victims were not needed: the plan less its smallest legal part that does as well."""
    program = Program(problem, may_take=taken)
    return len(taken) - value(program.victims(), program.model.minimise(program.victims()))
