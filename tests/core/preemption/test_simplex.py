"""Linear programs, against HiGHS."""

from __future__ import annotations

import highspy
import numpy as np
import pytest

from gangsched.core.arrays import Floats, Ints
from gangsched.core.preemption.simplex import Table

#: Costs that tell columns apart add up to less than this.
NEAR = 0.01
MOST = 5.0


def program(seed: int) -> tuple[Floats, Floats, Floats]:
    """Matrix, limits and costs: some rows want much, the others allow little."""
    chance = np.random.default_rng(seed)
    rows, columns = int(chance.integers(2, 12)), int(chance.integers(3, 20))
    matrix = chance.integers(-2, 3, (rows, columns)).astype(float)
    matrix[chance.random((rows, columns)) < 0.5] = 0.0
    limit = chance.integers(-3, 4, rows).astype(float)
    return matrix, limit, chance.integers(0, 6, columns).astype(float)


def by_highs(
    matrix: Floats, limit: Floats, cost: Floats, least: Floats, most: Floats, *, whole: bool = False
) -> float | None:
    """The least cost, of ``whole`` numbers; None if there is no solution."""
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    for low, high in zip(least, most, strict=True):
        model.addVar(low, high)
    if whole:
        kinds = np.array([highspy.HighsVarType.kInteger] * len(cost))
        model.changeColsIntegrality(len(cost), np.arange(len(cost), dtype=np.int32), kinds)
    model.changeColsCost(len(cost), np.arange(len(cost), dtype=np.int32), cost)
    for row, high in zip(matrix, limit, strict=True):
        some = np.flatnonzero(row).astype(np.int32)
        model.addRow(-highspy.kHighsInf, high, len(some), some, row[some])
    model.run()
    if model.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return float(model.getInfo().objective_function_value)


def bounded(matrix: Floats, limit: Floats) -> tuple[Floats, Floats]:
    """With a row for each variable, which is no more than ``MOST``."""
    columns = matrix.shape[1]
    return np.vstack([matrix, np.eye(columns)]), np.concatenate([limit, np.full(columns, MOST)])


def solved(matrix: Floats, limit: Floats, cost: Floats) -> Table:
    """The table at its least cost."""
    matrix, limit = bounded(matrix, limit)
    table = Table(matrix, limit, cost, np.full(len(cost), MOST), np.arange(len(cost)))
    table.solve(10**8)
    return table


def numbers(*some: int) -> Ints:
    """Variables."""
    return np.array(some, dtype=np.int64)


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_the_least_cost_is_that_of_another_solver(first):
    """And what has no solution has none there either."""
    feasible = 0
    for seed in range(first, first + 50):
        matrix, limit, cost = program(seed)
        best = by_highs(matrix, limit, cost, np.zeros(len(cost)), np.full(len(cost), MOST))
        table = solved(matrix, limit, cost)
        assert table.solved is (best is not None), f"seed {seed}"
        if best is None:
            continue
        feasible += 1
        values = table.values()
        assert (matrix @ values <= limit + 1e-6).all(), f"seed {seed}"
        assert (values >= -1e-6).all(), f"seed {seed}"
        assert cost @ values == pytest.approx(best, abs=NEAR), f"seed {seed}"
        assert table.bound() == pytest.approx(best, abs=NEAR), f"seed {seed}"
    assert 10 <= feasible <= 45


def test_branches_go_on_from_where_their_table_was():
    """Fixed variables stay zero, raised ones at least one, at the least cost for that; the copied table stays."""
    branches = 0
    for seed in range(100):
        matrix, limit, cost = program(seed)
        table = solved(matrix, limit, cost)
        if not table.solved:
            continue
        before = table.bound()
        branch = table.copy()
        branch.without(numbers(0))
        branch.with_one(1)
        branch.solve(10**8)
        least, most = np.zeros(len(cost)), np.full(len(cost), MOST)
        most[0], least[1] = 0.0, 1.0
        best = by_highs(matrix, limit, cost, least, most)
        assert branch.solved is (best is not None), f"seed {seed}"
        if best is not None:
            branches += 1
            assert branch.bound() == pytest.approx(best, abs=NEAR), f"seed {seed}"
            assert cost @ branch.values() == pytest.approx(best, abs=NEAR), f"seed {seed}"
        assert table.bound() == before
    assert branches >= 20


def test_a_bound_holds_wherever_the_method_is_stopped():
    """However little work it was given, no solution costs less."""
    stopped = 0
    for seed in range(100):
        matrix, limit, cost = program(seed)
        best = by_highs(matrix, limit, cost, np.zeros(len(cost)), np.full(len(cost), MOST))
        if best is None:
            continue
        rows, limits = bounded(matrix, limit)
        for work in (1, 100, 1000):
            table = Table(rows, limits, cost, np.full(len(cost), MOST), np.arange(len(cost)))
            table.solve(work)
            stopped += table.solved is None
            assert table.bound() <= best + NEAR, f"seed {seed}, {work}"
    assert stopped >= 20


def test_what_is_left_out_because_it_costs_too_much_is_in_no_cheaper_solution():
    """A table that is shrunk to solutions of at most some cost still has all whole ones."""
    left_out = 0
    for seed in range(100):
        matrix, limit, cost = program(seed)
        size = len(cost)
        rows = np.vstack([matrix, np.eye(size)])
        limits = np.concatenate([limit, np.ones(size)])
        table = Table(rows, limits, cost, np.ones(size), np.arange(size))
        table.solve(10**8)
        if not table.solved:
            continue
        most = table.bound() + 1.0
        dear = table.dear(most)
        left_out += len(dear)
        for name in dear.tolist():
            least = np.zeros(size)
            least[name] = 1.0
            best = by_highs(matrix, limit, cost, least, np.ones(size))
            assert best is None or best > most - NEAR, f"seed {seed}, {name}"
        table.shrink(most)
        left = [n for n in range(size) if n not in dear.tolist()]
        if not left:
            continue
        table.with_one(left[0])
        table.solve(10**8)
        least = np.zeros(size)
        least[left[0]] = 1.0
        best = by_highs(matrix, limit, cost, least, np.ones(size), whole=True)
        if best is not None and best <= most - NEAR:
            assert table.solved, f"seed {seed}"
            assert table.bound() <= best + NEAR, f"seed {seed}"
    assert left_out >= 50
