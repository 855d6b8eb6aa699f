"""No loops: whatever comes back and whatever takes room, few pods are evicted."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gangsched.core.lifecycle.failures import ROUND_PAUSE_SECONDS
from tests.simulation.loops import HOUR, thief

#: Rounds of one gang in an hour, with pauses of 30 s, 1, 2, 4, 8, 16 and 30 minutes between them.
ROUNDS = 7


@pytest.mark.parametrize("grace", [(3.0, 3.0), (10.0, 10.0), (3.0, 10.0)])
def test_a_thief_that_is_never_late_takes_little(grace: tuple[float, float]) -> None:
    """Room is gone before the gang can have it: pods are evicted in seven rounds of an hour, and in two of the next."""
    assert len(thief(grace=grace).run().evicted) <= 2 * ROUNDS
    assert len(thief(grace=grace).run(2 * HOUR).evicted) <= 2 * (ROUNDS + 2)


def test_a_pausing_gang_reports_until_when_and_why() -> None:
    """Its Event names the time, who took the room is named too, and no pod is evicted before that time."""
    loop = thief(grace=(3.0, 3.0)).run()
    notes = [(each.reason, each.note) for _, each in loop.core.events]
    assert any(reason == "FreedRoomTaken" and "(default-scheduler)" in note for reason, note in notes)
    pauses = "so the gang pauses; no pod is evicted for it until"
    assert any(reason == "FailedScheduling" and pauses in note for reason, note in notes)
    times = sorted({round(at) for at, _ in loop.evicted})
    assert all(later - earlier >= ROUND_PAUSE_SECONDS for earlier, later in pairwise(times))
