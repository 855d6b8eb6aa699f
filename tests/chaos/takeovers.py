"""A process that dies while it removes victims, and nothing else that happens: the next one finishes what was begun."""

from __future__ import annotations

import random

from gangsched.core.actions import Remove, SuspendJob
from gangsched.core.events import Event
from tests.chaos.trouble import Crash, Part


def part(seed: int, events: list[Event]) -> Part:
    """The cluster as it is, without anybody who interferes, and one to three deaths in the middle of a list."""
    chance = random.Random(f"{seed}/takeovers")
    of = (Remove, SuspendJob)
    crashes = [
        Crash(chance.randint(1, 3), chance.random() < 0.5, chance.choice((0.0, 0.5, 5.0)), of)
        for _ in range(chance.randint(1, 3))
    ]
    return Part(events, [], crashes, quiet=True)
