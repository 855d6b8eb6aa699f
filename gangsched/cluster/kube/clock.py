"""Two clocks: the steady one by which is decided, and that of the API server, whose time others compare with theirs."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from gangsched.core.state.sightings import SAME_CLOCK_SECONDS

#: Of the time between two questions no more counts than this (seconds).
MOST_SECONDS = 5.0


class SteadyClock:
    """Seconds since the epoch as the system's clock had them when this was made; since then the monotonic clock counts.

    So nothing jumps when the system's clock is set, forward or back: every backoff, timeout and deadline lasts as long
    as it says. If the process was stopped or its machine paused, that time is left out, because the events of that time
    have not been read yet. This clock may be as far from those of others as the system's was at the start; what is
    written for others to read takes the system's. Thread-safe.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._now = wall()
        self._asked_at = monotonic()

    def now(self) -> float:
        """The time."""
        with self._lock:
            at = self._monotonic()
            self._now += min(max(0.0, at - self._asked_at), MOST_SECONDS)
            self._asked_at = at
            return self._now


#: How long it is not asked again by how much the server's clock is ahead.
CHECKED_SECONDS = 1.0


class ServerTime:
    """Not thread-safe. ``ahead`` says by how many seconds the server's clock is ahead of one that shows what it is
    given, if that is known; ``wall`` and ``monotonic`` are the clocks of this machine.
    """

    def __init__(
        self,
        ahead: Callable[[float], float | None],
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ahead
        self._wall = wall
        self._monotonic = monotonic
        self._ahead = 0.0
        self._asked_at = -math.inf

    def now(self) -> float:
        """Seconds since the epoch."""
        wall, at = self._wall(), self._monotonic()
        if at >= self._asked_at + CHECKED_SECONDS:
            ahead = self._ask(wall)
            self._ahead = ahead if ahead is not None and abs(ahead) > SAME_CLOCK_SECONDS else 0.0
            self._asked_at = at
        return wall + self._ahead
