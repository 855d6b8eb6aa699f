"""Random lives in which many bindings are not sent, because others have bound pods to the same nodes meanwhile."""

from __future__ import annotations

import random

import msgspec
import pytest

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.faults import BEFORE, NEVER, Faults, WriteFault
from gangsched.core.actions import Action, Bind
from gangsched.core.events import Event, Outcome
from tests.amounts import amount
from tests.chaos.checks import problems
from tests.chaos.play import play
from tests.chaos.scenario import scenario

CHUNK = 20
SEEDS = amount(60, 20)


class HoldingBack:
    """Other faults, and besides them a share of the bindings is held back: none that may have taken effect before."""

    def __init__(self, seed: int, others: Faults) -> None:
        self._chance = random.Random(f"{seed}/held back")
        self._others = others
        self._unsure: set[str] = set()

    def write(self, action: Action) -> WriteFault:
        """What is held back changes nothing."""
        fault = self._others.write(action)
        if not isinstance(action, Bind):
            return fault
        if fault.fails != NEVER:
            self._unsure.add(action.pod.uid)
        elif action.pod.uid not in self._unsure and self._chance.random() < 0.4:
            return msgspec.structs.replace(fault, fails=BEFORE, outcome=Outcome.OUTDATED, message="held back")
        return fault

    def watch_delay_seconds(self, event: Event) -> float:
        """As the others have it."""
        return self._others.watch_delay_seconds(event)


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_what_may_never_happen_does_not(first: int) -> None:
    """Nobody is removed without a record, no gang stays partial, nothing is forgotten."""
    held_back, failed = 0, {}
    for seed in range(first, first + CHUNK):
        made = scenario(seed)
        played = play(msgspec.structs.replace(made, faults=HoldingBack(seed, made.faults)))
        held_back += sum(
            e.outcome == Outcome.OUTDATED for e in played.world.history.with_verbs(log.BIND, actor=log.SCHEDULER)
        )
        if found := problems(played):
            failed[seed] = found
    assert failed == {}
    assert held_back > CHUNK
