"""Giving back what is not needed is bounded like the search: a plan that works is kept as it is when it is late."""

from __future__ import annotations

import pytest

from gangsched.core.events import Synced
from gangsched.core.options import Options
from gangsched.core.preemption.fit import PlacedFit
from gangsched.core.scheduler import Scheduler
from tests.bench.kinds import NOW, decide, world


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("kinds", [1, 8, 62, 63, 64, 65, 128])
def test_a_gang_of_any_number_of_sizes_is_decided_within_its_steps(kinds: int, *, spread: bool) -> None:
    """Also where the product of the numbers of each size is beyond 64 bits, and steps are counted for what is done."""
    found, _ = decide(kinds, 60, spread=spread)
    assert found.outcome == "preempt"
    assert len(found.placements) == max(kinds, 60)
    assert len(found.victims) <= 2 * max(kinds, 60)
    assert 0 < found.steps < Options().search_steps


def test_questions_beyond_the_steps_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look of the filters at one member counts; the plan stands with what has not come back by then."""
    looks: list[int] = []
    place = PlacedFit._place

    def counted(self: PlacedFit) -> bool:
        before = self.steps
        found = place(self)
        self.steps += 10
        looks.append(self.steps - before)
        return found

    monkeypatch.setattr(PlacedFit, "_place", counted)
    core = Scheduler(Options(search_steps=300))
    core.handle([*world(16, 60, spread=True), Synced()], NOW)
    core.decide(NOW)
    (found,) = core.drain_decisions()
    assert found.outcome == "preempt"
    assert len(found.placements) == 60
    assert sum(looks) <= 2 * 300 + 4 * max(looks)
