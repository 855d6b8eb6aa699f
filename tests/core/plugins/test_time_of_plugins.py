"""The time of filters and scores is counted, each once, and nothing depends on it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from gangsched.model.constraints import PodTerm
from tests.builders import PodBuilder, gang, node, pod, selects
from tests.core.harness import Cluster, encoded


def together(name: str) -> PodBuilder:
    """A member of gang g that only resources keep from a node."""
    return pod(name).cpu(3).priority(5).gang("g")


def apart(name: str) -> PodBuilder:
    """A member of gang g that runs beside no other one."""
    alone = PodTerm("kubernetes.io/hostname", selects(app="g"), ("d",))
    return together(name).label(app="g").shape(anti_affinity=(alone,))


@pytest.mark.parametrize("member", [together, apart])
def test_filters_and_scores_are_counted_once(member: Callable[[str], PodBuilder]) -> None:
    """A clock that is one later whenever it is read: each part took 1, so no part was counted within another."""

    def run(*, timed: bool) -> tuple[bytes, int, float, float]:
        nodes = [node(f"n{i}") for i in range(3)]
        victims = [pod(f"v{i}").cpu(3).priority(1).on(f"n{i}") for i in range(2)]
        cluster = Cluster(*nodes, *victims, gang("g").min(3), *(member(f"m{i}") for i in range(3)), pod("late").cpu(9))
        stopwatch, reads = cluster.core.decider.stopwatch, count()
        if timed:
            stopwatch.clock = lambda: float(next(reads))
        cluster.run()
        cluster.leave()
        cluster.run()
        return encoded(cluster.log), next(reads), stopwatch.filter_seconds, stopwatch.score_seconds

    told, reads, filter_seconds, score_seconds = run(timed=True)
    assert filter_seconds > 0
    assert score_seconds > 0
    assert reads == 2 * (filter_seconds + score_seconds)
    assert run(timed=False) == (told, 0, 0.0, 0.0)
