"""The command that measures the lag of the I/O loop: that it measures, and what it calls shown. No bound on time."""

from __future__ import annotations

import pytest

from tests.bench.lag import Plan, Result, during, measure, percentile, problems, rows

PLANS = [Plan(1.0, 0.5, True), Plan(3.0, 0.5, True)]


def beats(late: float, count: int) -> list[tuple[float, float]]:
    """So many beats in the first plan, each so late (seconds)."""
    return [(1.0 + n / 1000, late) for n in range(count)]


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (Result(PLANS, beats(0.01, 100), beats(0.001, 100)), []),
        (Result(PLANS, beats(0.01, 99) + beats(0.2, 1), beats(0.001, 100)), []),
        (
            Result(PLANS, beats(0.01, 98) + beats(0.2, 2), beats(0.001, 100)),
            ["lag p99 is 200.0 ms, more than 50 ms"],
        ),
        (
            Result([PLANS[0], Plan(3.0, 0.1, False)], beats(0.01, 100), beats(0.001, 100)),
            ["1 of 2 plans have used up the budget of their search"],
        ),
        (Result(PLANS, beats(0.01, 100), []), ["no beat was due during a plan"]),
    ],
)
def test_what_is_shown(result: Result, said: list[str]) -> None:
    """One late beat in a hundred is within the limit, two are not; plans that end early show nothing."""
    assert problems(result, 2, 50.0) == said


def test_beats_between_plans_do_not_count() -> None:
    """A loop that is on time while nothing is planned proves nothing."""
    listed = [(0.9, 0.1), (1.0, 0.2), (1.5, 0.3), (1.6, 0.4), (3.2, 0.5)]
    assert during(PLANS, listed) == [(1.0, 0.2), (1.5, 0.3), (3.2, 0.5)]
    assert percentile(during(PLANS, listed), 0.5) == pytest.approx(300.0)


def test_it_measures() -> None:
    """On a small cluster: a search that uses up its budget, and both loops beside it."""
    result = measure(2, 5, nodes=200, pods=2500, gang_size=32, members=50, rule="apart", budgets=10)
    assert len(result.plans) == 2
    assert all(plan.exhausted for plan in result.plans)
    assert [name for name, *_ in rows(result)] == ["I/O loop of the scheduler", "a loop that does nothing"]
    assert result.ours
    assert result.idle
