"""The replay of a large mix, in small: everybody runs, nothing is exceeded, and it is the same each time."""

import pytest

from tests.bench import quota
from tests.bench.quota_replay import Report, measure


@pytest.mark.parametrize("fair", [False, True], ids=["classic", "fair"])
def test_a_small_replay(fair):
    """Two cohorts of two queues: every workload runs at last, and large ones displace smaller ones for it."""
    found = measure(2, 2, fair)
    assert found.workloads == 2 * 2 * 50
    assert sum(map(len, found.waits.values())) == found.workloads + found.preempted
    assert found.preempted > 0
    assert max(found.waits["large"]) < max(found.waits["small"])
    assert 0 < found.used <= 100
    again = measure(2, 2, fair)
    assert (again.waits, again.statuses) == (found.waits, found.statuses)


def test_the_tables_are_complete():
    """A line for each class, and what was spent on decisions, each by itself and those about one workload together."""
    found = measure(1, 2)
    assert [row[0] for row in quota.rows(found)] == ["large", "medium", "small"]
    spent, _ = quota.costs(found)
    assert [row[:2] for row in spent] == [["decision", sum(found.statuses.values())], ["workload", found.workloads]]


@pytest.mark.parametrize(
    ("each", "together", "good"),
    [(0.0004, 0.0004, True), (0.0002, 0.0006, False), (0.0006, 0.0006, False)],
)
def test_the_limits_hold_for_workloads_too(each, together, good):
    """Cheap decisions are of no use to a workload that takes many of them."""
    assert quota.costs(Report(cpu=[each] * 9, total={"x": together}))[1] is good
