"""Random lives in which removals wait long, so that many of them are recalled before they have left."""

from __future__ import annotations

import random

import msgspec
import pytest

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.faults import Faults, WriteFault
from gangsched.core.actions import Action, Removal
from gangsched.core.events import Event, Outcome
from tests.chaos.checks import problems
from tests.chaos.play import play
from tests.chaos.scenario import scenario

CHUNK = 20
SEEDS = 100
LATE_SECONDS = 20.0


class Waiting:
    """Other faults, and besides them half of the removals have to wait for their turn."""

    def __init__(self, seed: int, others: Faults) -> None:
        self._chance = random.Random(f"{seed}/waiting")
        self._others = others

    def write(self, action: Action) -> WriteFault:
        """It leaves late, if it is not recalled until then."""
        fault = self._others.write(action)
        if isinstance(action, Removal) and self._chance.random() < 0.5:
            return msgspec.structs.replace(fault, delay_seconds=round(self._chance.uniform(0.0, LATE_SECONDS), 6))
        return fault

    def watch_delay_seconds(self, event: Event) -> float:
        """As the others have it."""
        return self._others.watch_delay_seconds(event)


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
