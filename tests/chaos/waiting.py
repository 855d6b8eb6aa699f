"""Runs in which removals wait."""

from __future__ import annotations

import random

import msgspec

from gangsched.cluster.sim.faults import Faults, WriteFault
from gangsched.core.actions import Action, Removal
from gangsched.core.events import Event

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
