"""No plan leaves with victims that could be put back, however soon its search ended."""

from __future__ import annotations

import pytest

from gangsched.core.decision import PREEMPT
from gangsched.core.placement.arrangement import MAX_MEMBERS
from tests.bench.worlds import World, launcher_and_workers


@pytest.mark.parametrize("steps", [1, 50, 5000])
@pytest.mark.parametrize("workers", [1, 3, MAX_MEMBERS - 1, MAX_MEMBERS])
def test_a_launcher_and_workers_evict_no_more_than_they_need(workers: int, steps: int) -> None:
    """A launcher needs the room of two services, a worker that of the eight notebooks of one node."""
    verdict = World(launcher_and_workers(cpu_nodes=50, gpu_nodes=20, workers=workers, steps=steps)).decide()
    assert verdict.outcome == PREEMPT
    assert len(verdict.victims) == 2 + 8 * workers
