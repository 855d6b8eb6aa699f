"""Virtual time: nothing waits, the clock jumps to whatever is due next; and how long things take."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import NamedTuple

import msgspec

_TICKS_PER_SECOND = 1_000_000


class Timer(NamedTuple):
    """Something that is due. Ordered by time, then by the order of asking, so that ties are never left to chance."""

    tick: int
    number: int
    action: Callable[[], None]


class VirtualClock:
    """Seconds since the epoch that only pass on request.

    Time is counted in whole microseconds since ``start``: sums of delays are exact, so two things that are meant
    for the same moment happen in the same moment. The API server's clock, which stamps objects, may be ahead of the
    scheduler's by ``server_ahead_seconds`` (or behind: below zero), and may be set while time passes.
    """

    def __init__(self, start: float = 0.0) -> None:
        self.start = start
        self.server_ahead_seconds = 0.0
        self._tick = 0
        self._number = 0
        self._timers: list[Timer] = []

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return self._at(self._tick)

    @property
    def stamp(self) -> float:
        """The current time of the API server and the controllers, in seconds since the epoch."""
        return self.now + self.server_ahead_seconds

    @property
    def elapsed_seconds(self) -> float:
        """Seconds since the start."""
        return self._tick / _TICKS_PER_SECOND

    @property
    def next_at(self) -> float | None:
        """When the next timer is due (seconds since the epoch); None when there is none."""
        return self._at(self._timers[0].tick) if self._timers else None

    def after(self, delay_seconds: float, action: Callable[[], None]) -> None:
        """Call ``action`` in ``delay_seconds`` (now or later: a negative delay counts as none)."""
        tick = self._tick + max(0, round(delay_seconds * _TICKS_PER_SECOND))
        self._number += 1
        heapq.heappush(self._timers, Timer(tick, self._number, action))

    def at(self, moment: float, action: Callable[[], None]) -> None:
        """Call ``action`` at ``moment`` (seconds since the epoch), or now if that has passed."""
        self.after(moment - self.now, action)

    def run_due(self) -> bool:
        """Run every timer that is due by now, those included that are set meanwhile for now. True if any ran."""
        ran = False
        while self._timers and self._timers[0].tick <= self._tick:
            heapq.heappop(self._timers).action()
            ran = True
        return ran

    def advance_to_next(self) -> None:
        """Jump to the next timer and run everything due then. There must be one."""
        self._tick = max(self._tick, self._timers[0].tick)
        self.run_due()

    def advance_to(self, moment: float) -> None:
        """Let time pass until ``moment`` (seconds since the epoch), running what falls due on the way.

        Afterwards ``now >= moment`` holds exactly, whatever the rounding.
        """
        tick = max(self._tick, math.ceil((moment - self.start) * _TICKS_PER_SECOND))
        while self._at(tick) < moment:
            tick += 1
        while self._timers and self._timers[0].tick <= tick:
            self.advance_to_next()
        self._tick = tick

    def _at(self, tick: int) -> float:
        return self.start + tick / _TICKS_PER_SECOND


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Delays in seconds, as they are on a cluster that is not under load.

    ``write_seconds`` is one way of a request (its answer takes as long again); ``watch_seconds`` is the time from a
    change to its watches; ``start_seconds`` from a pod's binding to Running; ``controller_seconds`` until a controller
    reacts.
    """

    write_seconds: float = 0.005
    watch_seconds: float = 0.005
    start_seconds: float = 1.0
    controller_seconds: float = 0.1
    #: The Job controller replaces a pod that has failed after this time.
    job_backoff_seconds: float = 10.0
    #: A provisioner makes a volume in this time.
    provision_seconds: float = 2.0
    #: The disruption controller takes back a mark on a pod that is not removed within this time.
    stale_mark_seconds: float = 120.0
    #: Pods of a node that no longer exists are deleted after this time.
    pod_gc_seconds: float = 40.0
