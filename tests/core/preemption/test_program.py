"""Fillings of nodes, and what a program of them proves."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from gangsched.core.preemption import node_prices
from gangsched.core.preemption import program as program_module
from gangsched.core.preemption.harm import Component, components
from gangsched.core.preemption.node_prices import Fillings, NodePrices, fillings_of
from gangsched.core.preemption.places import Placing
from gangsched.core.preemption.program import Program, Proof, floor_of
from tests.amounts import amount
from tests.core.preemption.asked import Asked, asked_in
from tests.oracle.exact import least_harm
from tests.oracle.generate import case
from tests.oracle.problem import read


def questions(count: int, *, mixed: bool) -> list[tuple[int, Asked]]:
    """Small random questions whose members only count resources, by seed."""
    out = []
    for seed in range(400):
        question = case(seed, mixed=mixed)
        problem = read(question)
        if not problem.may_preempt or not any(g.name == "want" for g in question.gangs):
            continue
        made = asked_in(question)
        if len(made.demands) == 1 and made.demand.rules.complete and made.candidates.size:
            out.append((seed, made))
        if len(out) == count:
            break
    return out


def found(made: Asked) -> Fillings:
    """All fillings."""
    out = fillings_of(NodePrices(made.candidates, made.demand))
    assert out is not None
    return out


def makes_room(made: Asked, node: int, members: tuple[int, ...], leaving: frozenset[int]) -> bool:
    """Is there room on the node for these members when these pods leave?"""
    c = made.candidates
    room = c.free[:, node] + c.req[:, sorted(leaving)].sum(axis=1)
    return bool((room >= np.array(members) @ made.demand.request).all())


@pytest.mark.parametrize("mixed", [False, True], ids=["identical", "mixed"])
def test_fillings_are_what_trying_all_sets_of_pods_finds(mixed):
    """For each node and number of members: the least pods that can leave are those of a filling for so many or more."""
    looked = 0
    for seed, made in questions(amount(25, 10), mixed=mixed):
        c, demand = made.candidates, made.demand
        some = found(made)
        for node in range(len(c.count)):
            pods = range(int(c.start[node]), int(c.start[node] + c.count[node]))
            mine = [n for n in range(len(some.row)) if some.row[n] == node]
            leaving = {n: frozenset(some.pods[some.of == n].tolist()) for n in mine}
            for n in mine:
                assert makes_room(made, node, tuple(some.members[n].tolist()), leaving[n]), f"seed {seed}"
            for members in product(*(range(m + 1) for m in demand.need)):
                open_ = all(demand.mask[k, node] for k, m in enumerate(members) if m)
                if not any(members) or not open_:
                    continue
                sets = [frozenset(p for p, out in zip(pods, chosen, strict=True) if out)
                        for chosen in product((False, True), repeat=len(pods))]  # fmt: skip
                sizes = [len(s) for s in sets if makes_room(made, node, members, s)]
                known = [len(leaving[n]) for n in mine if (some.members[n] >= members).all()]
                assert min(sizes, default=None) == min(known, default=None), f"seed {seed}, node {node}, {members}"
                looked += 1
    assert looked >= 100


@pytest.mark.parametrize("mixed", [False, True], ids=["identical", "mixed"])
def test_a_program_proves_the_optimum_and_never_more(mixed):
    """Branch and bound to the end proves every component, but for pods under several budgets and gangs that are
    interrupted already.
    """
    judged = proven = 0
    for seed, made in questions(amount(60, 10), mixed=mixed):
        best = least_harm(read(case(seed, mixed=mixed)))
        if best is None or not best.taken:
            continue
        proof = Proof(Program(made.candidates, made.demand, found(made)), lambda placing, units: None, lambda: False)
        known = proof.run(best.harm)
        least = components(best.harm.beyond_budget, best.harm.levels)
        assert all(n <= least.get(k, 0) for k, n in known.items()), f"seed {seed}"
        judged += 1
        if {k: n for k, n in known.items() if n} == least:
            proven += 1
            assert floor_of(known).levels == best.harm.levels, f"seed {seed}"
    assert judged >= amount(15, 2)
    assert proven >= 0.8 * judged


def test_a_table_has_only_what_counts_for_its_component(monkeypatch):
    """It bounds every component as well as a table with all variables, with less than half of them, and never above
    the optimum.
    """
    kept = everything = 0
    for seed, made in questions(amount(60, 10), mixed=True):
        best = least_harm(read(case(seed, mixed=True)))
        if best is None or not best.taken:
            continue
        program = Program(made.candidates, made.demand, found(made))
        least = components(best.harm.beyond_budget, best.harm.levels)
        known: dict[Component, int] = {}
        for component in program.components:
            small = program.table(component, known, np.zeros(program.size, dtype=np.bool_))
            with monkeypatch.context() as patch:
                patch.setattr(program, "_relevant", lambda e, cost, out: e.filtered(~out[e.variable]))
                patch.setattr(program, "_cover", lambda e, cost: np.arange(len(cost)))
                large = program.table(component, known, np.zeros(program.size, dtype=np.bool_))
            assert small is not None
            assert large is not None
            for table in (small, large):
                table.solve(10**9)
            known[component] = least.get(component, 0)
            assert small.solved
            assert large.bound() - 1e-2 <= small.bound() <= known[component] + 1e-2, f"seed {seed}, {component}"
            kept, everything = kept + len(small.names), everything + len(large.names)
    assert everything > 500
    assert kept < 0.5 * everything


def test_a_program_finds_what_is_better_than_the_plan_that_it_is_given():
    """Told of a plan with one pod more at the lowest level, it asks for places for a better one."""
    asked = 0
    for seed, made in questions(amount(60, 10), mixed=True):
        best = least_harm(read(case(seed, mixed=True)))
        if best is None or not best.taken:
            continue
        *above, (level, gangs, pods) = best.harm.levels
        worse = best.harm._replace(levels=(*above, (level, gangs, pods + 1)))
        tried: list[frozenset[int]] = []

        def attempt(placing: Placing, units: frozenset[int], tried: list[frozenset[int]] = tried) -> None:
            tried.append(units)

        proof = Proof(Program(made.candidates, made.demand, found(made)), attempt, lambda: False)
        known = proof.run(worse)
        assert known.get(("pods", level), 0) == pods, f"seed {seed}"
        assert tried, f"seed {seed}"
        asked += 1
    assert asked >= amount(15, 2)


@pytest.mark.parametrize(
    ("module", "limit"),
    [
        *((node_prices, limit) for limit in ("_PODS", "_ALL_SETS", "_VECTORS", "_FILLINGS")),
        (program_module, "_ENTRIES"),
    ],
)
def test_plans_are_as_good_with_and_without_a_program(module, limit, monkeypatch):
    """On both sides of each threshold the plan does the least harm."""
    for seed, made in questions(12, mixed=True):
        best = least_harm(read(case(seed, mixed=True)))
        if best is None or not best.taken:
            continue
        with_program = made.search().run()
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, 0)
            assert (fillings_of(NodePrices(made.candidates, made.demand)) is None) == (module is node_prices)
            without = asked_in(case(seed, mixed=True)).search().run()
        assert with_program is not None
        assert without is not None
        assert with_program.harm[:3] == without.harm[:3] == best.harm[:3], f"seed {seed}"
