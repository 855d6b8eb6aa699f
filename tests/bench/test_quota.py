"""The replay of a large mix, in small: everybody runs, nothing is exceeded, and it is the same each time."""

import pytest

from tests.bench import quota
from tests.bench.quota_replay import measure


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
    """A line for each class, and a verdict."""
    found = measure(1, 2)
    assert [row[0] for row in quota.rows(found)] == ["large", "medium", "small"]
    line, _ = quota.verdict(found)
    assert line.startswith(f"{len(found.cpu)} decisions at {found.moments} moments")
