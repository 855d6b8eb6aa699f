"""No loops: whatever comes back and whatever takes room, few pods are evicted."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gangsched.core.lifecycle.group import ROUND_PAUSE_SECONDS
from tests.simulation.loops import HOUR, rock_paper_scissors, thief

#: Rounds of one gang in an hour, with pauses of 1 minute, 2, 4, 8, 16 and 30 minutes between them.
ROUNDS = 6
GRACE = [(3.0, 3.0), (10.0, 10.0), (3.0, 10.0)]


@pytest.mark.parametrize("grace", GRACE)
def test_a_thief_that_is_never_late_takes_little(grace: tuple[float, float]) -> None:
    """Room is gone before the gang can have it: pods are evicted in six rounds of an hour, and in two of the next."""
    assert len(thief(grace=grace).run().evicted) <= 2 * ROUNDS
    assert len(thief(grace=grace).run(2 * HOUR).evicted) <= 2 * (ROUNDS + 2)


@pytest.mark.parametrize("grace", GRACE)
def test_a_thief_that_is_late_takes_nothing(grace: tuple[float, float]) -> None:
    """All room appears in one moment, whatever the grace periods, and is bound before anybody else sees it."""
    loop = thief(grace=grace, steals_after=0.02).run()
    assert len(loop.evicted) == 2
    assert loop.running() == ["g0", "g1"]


def test_a_pausing_gang_reports_until_when_and_why() -> None:
    """Its Event names the time, who took the room is named too, and no pod is evicted before that time."""
    loop = thief(grace=(3.0, 3.0)).run()
    notes = [(each.reason, each.note) for _, each in loop.core.events]
    assert any(reason == "FreedRoomTaken" and "(default-scheduler)" in note for reason, note in notes)
    pauses = "so the gang pauses; no pod is evicted for it until"
    assert any(reason == "FailedScheduling" and pauses in note for reason, note in notes)
    times = sorted({round(at) for at, _ in loop.evicted})
    assert all(later - earlier >= ROUND_PAUSE_SECONDS for earlier, later in pairwise(times))


@pytest.mark.parametrize("jobs", [False, True], ids=["pods", "jobs"])
@pytest.mark.parametrize("grace", [3, 10])
def test_three_that_may_evict_each_other_do_so_seldom(jobs: bool, grace: int) -> None:
    """The pause and the protection of who is evicted again and again leave at most 12 evictions in any hour."""
    loop = rock_paper_scissors(jobs=jobs, grace_seconds=grace).run(3 * HOUR)
    times = [at for at, _ in loop.evicted]
    assert times
    assert max(sum(start <= at < start + HOUR for at in times) for start in times) <= 12
    assert loop.running()


def test_a_workload_that_is_protected_is_named() -> None:
    """The owner of the quota says who is spared, and until when; nothing is evicted for it before."""
    loop = rock_paper_scissors(jobs=False).run(HOUR / 2)
    notes = [each.note for _, each in loop.core.events if each.reason == "FailedScheduling"]
    assert any("it was evicted 3 times in the last hour (preemption.protectAfterEvictions)" in note for note in notes)
    assert loop.core.evicted_repeatedly() >= 1


def test_without_protection_the_pause_alone_holds_back() -> None:
    """With 0 it is the preemptor that rests, not the victim that is spared."""
    spared = len(rock_paper_scissors(jobs=False).run().evicted)
    assert len(rock_paper_scissors(jobs=False, protect_after_evictions=0).run().evicted) > spared
