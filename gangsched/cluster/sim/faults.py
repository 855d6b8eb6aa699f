"""What can go wrong between the scheduler and the cluster, decided in one place and repeatable by a seed.

The cluster asks a :class:`Faults` about every write and every watch event. To let something else go wrong,
write another one; nothing else has to change.
"""

from __future__ import annotations

import random
from typing import Protocol

import msgspec

from gangsched.core.actions import Action
from gangsched.core.events import Event, Outcome

#: When a write fails: not at all, before it took effect, or after (its answer is lost).
NEVER, BEFORE, AFTER = "never", "before", "after"


class WriteFault(msgspec.Struct, frozen=True):
    """What happens to one write.

    It reaches the server ``delay_seconds`` late. With ``fails`` BEFORE it changes nothing, with AFTER it does; in
    both cases the answer is ``outcome``, and comes
    ``answer_delay_seconds`` late.
    """

    delay_seconds: float = 0.0
    answer_delay_seconds: float = 0.0
    fails: str = NEVER
    outcome: Outcome = Outcome.TRANSIENT
    message: str = "injected fault"


NO_FAULT = WriteFault()


class Faults(Protocol):
    """Asked once per write and once per watch event, in the order in which they happen."""

    def write(self, action: Action) -> WriteFault:
        """What happens to this write."""

    def watch_delay_seconds(self, event: Event) -> float:
        """How much later than usual this event reaches the scheduler. Later events of its kind wait for it."""


class NoFaults:
    """Everything works."""

    def write(self, action: Action) -> WriteFault:
        """No fault."""
        return NO_FAULT

    def watch_delay_seconds(self, event: Event) -> float:
        """No delay."""
        return 0.0


class SeededFaults:
    """Faults at random, the same for the same seed.

    ``before`` and ``after`` are the shares of writes that fail before and after taking effect. Delays are drawn
    from 0 to the given maximum. The n-th write and the n-th event each have a generator of their own, so that a
    change in one draw does not move all the others.
    """

    def __init__(
        self,
        seed: int,
        *,
        before: float = 0.0,
        after: float = 0.0,
        write_delay_seconds: float = 0.0,
        watch_delay_seconds: float = 0.0,
    ) -> None:
        self._seed = seed
        self._before = before
        self._after = after
        self._write_delay_seconds = write_delay_seconds
        self._watch_delay_seconds = watch_delay_seconds
        self._writes = 0
        self._events = 0

    def write(self, action: Action) -> WriteFault:
        """A fault drawn for the next write."""
        self._writes += 1
        chance = random.Random(f"{self._seed}/write/{self._writes}")  # noqa: S311
        draw = chance.random()
        fails = BEFORE if draw < self._before else AFTER if draw < self._before + self._after else NEVER
        return WriteFault(
            delay_seconds=round(chance.uniform(0.0, self._write_delay_seconds), 6),
            answer_delay_seconds=round(chance.uniform(0.0, self._write_delay_seconds), 6),
            fails=fails,
        )

    def watch_delay_seconds(self, event: Event) -> float:
        """A delay drawn for the next event."""
        self._events += 1
        chance = random.Random(f"{self._seed}/watch/{self._events}")  # noqa: S311
        return round(chance.uniform(0.0, self._watch_delay_seconds), 6)
