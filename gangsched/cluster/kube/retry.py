"""How fast, how often and how long: rate limit, backoff, what an HTTP status means for trying again, and ending tasks
for certain.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable
from typing import Any

#: Statuses after which the same request may succeed: overload, a server that is starting or going away.
TRANSIENT_STATUSES = frozenset({429, 500, 502, 503, 504})
#: A longer Retry-After than this is cut.
MAX_RETRY_AFTER_SECONDS = 30.0


class Backoff:
    """Exponential backoff with jitter: each delay is drawn from the upper half of the current step."""

    def __init__(
        self,
        initial_seconds: float = 0.1,
        max_seconds: float = 30.0,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._initial = initial_seconds
        self._max = max_seconds
        self._chance = chance
        self._step = initial_seconds

    def reset(self) -> None:
        """Start over after a success."""
        self._step = self._initial

    def next_seconds(self, at_least: float | None = None) -> float:
        """The next delay; ``at_least`` is the server's Retry-After, to which jitter is added, never taken."""
        step, self._step = self._step, min(self._step * 2.0, self._max)
        delay = step * (0.5 + self._chance() / 2)
        if at_least is not None:
            delay += min(at_least, MAX_RETRY_AFTER_SECONDS)
        return delay


def retry_after_seconds(header: str | None) -> float | None:
    """The Retry-After header in seconds; None when absent or a date (no API server sends one)."""
    try:
        return max(0.0, float(header)) if header else None
    except ValueError:
        return None


class Window:
    """How many writes may be on their way at once: fewer while the server says that they are too many, or is slow.

    Halved at most once in ``pause_seconds`` and widened by one for each windowful of answers, as TCP does it.
    """

    def __init__(
        self,
        most: int,
        least: int = 4,
        slow_seconds: float = 1.0,
        pause_seconds: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._least = min(least, most)
        self._slow_seconds = slow_seconds
        self._pause_seconds = pause_seconds
        self._clock = clock
        self._size = float(most)
        self._narrowed_at = float("-inf")

    @property
    def size(self) -> int:
        """So many."""
        return int(self._size)

    def answered(self, seconds: float, *, too_many: bool) -> None:
        """An attempt took so long; ``too_many`` when it was refused because of the number of requests."""
        if not too_many and seconds < self._slow_seconds:
            self._size = min(float(self._most), self._size + 1.0 / self._size)
        elif self._clock() - self._narrowed_at >= self._pause_seconds:
            self._narrowed_at = self._clock()
            self._size = max(float(self._least), self._size / 2.0)


class TokenBucket:
    """At most ``burst`` requests at once and ``qps`` per second on average; callers are served in order."""

    def __init__(self, qps: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(f"qps {qps} must be above 0 and burst {burst} at least 1")
        self._qps = qps
        self._burst = float(burst)
        self._clock = clock
        self._tokens = float(burst)
        self._at = clock()

    def reserve(self) -> float:
        """Take one token, on credit if there is none; seconds to wait before using it."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._qps)
        self._at = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._qps)

    async def acquire(self) -> None:
        """Wait for one token."""
        delay = self.reserve()
        if delay > 0:
            await asyncio.sleep(delay)


#: A task that has not ended by then is cancelled once more.
AGAIN_SECONDS = 1.0


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel these tasks and wait until all of them have ended; what they raise is dropped.

    A cancellation can be lost. A TaskGroup of Python 3.11, a ``gather`` or a library may raise an error of its own
    instead, and a loop that retries after errors would continue. Waiting for such a task would last for ever, and with
    it the end of the process; so it is cancelled until it obeys.
    """
    all_of_them = set(tasks)
    left = {task for task in all_of_them if not task.done()}
    cancelled: asyncio.CancelledError | None = None
    while left:
        for task in left:
            task.cancel()
        try:
            _, left = await asyncio.wait(left, timeout=AGAIN_SECONDS)
        except asyncio.CancelledError as error:  # the caller has given up waiting: so do we, but no caller is left
            cancelled = error
            left = {task for task in left if not task.done()}
    for task in all_of_them:
        if not task.cancelled():
            task.exception()  # so that asyncio does not warn of an exception never retrieved
    if cancelled is not None:
        raise cancelled
