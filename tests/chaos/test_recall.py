"""Random lives in which removals wait long, so that many of them are recalled before they have left."""

from __future__ import annotations

import msgspec
import pytest

from gangsched.cluster.sim import history as log
from gangsched.core.events import Outcome
from tests.chaos.checks import problems
from tests.chaos.play import play
from tests.chaos.scenario import scenario
from tests.chaos.waiting import Waiting

CHUNK = 20
SEEDS = 60


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_what_may_never_happen_does_not(first: int) -> None:
    """Nobody is removed without a record, no mark is forgotten, no gang stays partial."""
    recalled, failed = 0, {}
    for seed in range(first, first + CHUNK):
        made = scenario(seed)
        # A process that dies takes what waits with it; here all live, and so does what they are waiting for.
        played = play(msgspec.structs.replace(made, faults=Waiting(seed, made.faults), crashes=()))
        removals = played.world.history.of(log.DELETE, log.EVICT, log.SUSPEND, actor=log.SCHEDULER)
        recalled += sum(e.outcome == Outcome.OUTDATED for e in removals)
        if found := problems(played):
            failed[seed] = found
    assert failed == {}
    assert recalled > 0
