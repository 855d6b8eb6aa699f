"""The time that is written into conditions and Events: that of the API server's clock, where ours is another.

Controllers compare such times with their own clock. The disruption controller takes a mark back that is two minutes old
and whose pod does not terminate: if our clock were behind, no mark would stand until its pod is removed.
(https://github.com/kubernetes/kubernetes/blob/master/pkg/controller/disruption/disruption.go)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from gangsched.core.state.observed_times import SAME_CLOCK_SECONDS

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
