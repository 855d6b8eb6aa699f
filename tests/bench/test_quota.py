"""The replay of a large mix, in small: everybody runs, nothing is exceeded, and it is the same each time."""

import pytest

from tests.bench import quota, quota_joint


@pytest.mark.parametrize("fair", [False, True], ids=["classic", "fair"])
def test_a_small_replay(fair):
    """Two cohorts of three queues: every workload is admitted at last, the large ones without waiting long."""
    found = quota.measure(2, 3, fair)
    assert found.workloads == 2 * 3 * 50
    admitted = {name: len(waits) for name, waits in found.waits.items()}
    assert sum(admitted.values()) == found.workloads + found.preempted
    assert found.preempted > 0
    assert max(found.waits["large"]) < max(found.waits["small"])
    assert 0 < found.used <= 100
    again = quota.measure(2, 3, fair)
    assert (again.waits, again.statuses) == (found.waits, found.statuses)


def test_the_tables_are_complete():
    """A line for each class, and a verdict."""
    found = quota.measure(1, 2)
    assert [row[0] for row in quota.rows(found)] == ["large", "medium", "small"]
    line, _ = quota.verdict(found)
    assert line.startswith(f"{len(found.cpu)} decisions in {found.cycles} cycles")


@pytest.mark.parametrize("fair", [False, True], ids=["classic", "fair"])
def test_the_whole_core_runs_the_mix(fair):
    """Through quota and nodes together every pod runs at last, and large ones displace smaller ones for it."""
    found = quota_joint.measure(1, 2, fair)
    assert found.workloads == 2 * 50
    assert sum(map(len, found.waits.values())) == found.workloads + found.preempted
    assert found.preempted > 0
    assert max(found.waits["large"]) < max(found.waits["small"])
    assert 0 < found.used <= 100
