"""Where the I/O loop leaves events and the decision thread fetches them, and the clock that both read."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from gangsched.core.events import Event

#: Whoever has waited for one event waits so much longer for those that come with it: taking in ten at once costs hardly
#: more than taking in one, waking up costs more than either, and a busy API server takes longer than this to answer.
LINGER_SECONDS = 0.005


#: The time is asked for at least this often (seconds), unless the process is stopped or very busy.
LOOK_SECONDS = 1.0
#: Of the time between two questions no more counts than this (seconds).
MOST_SECONDS = 5.0


class SteadyClock:
    """Seconds since the epoch as the system's clock had them when this was made; since then the monotonic clock counts.

    So nothing jumps when the system's clock is set, forward or back: every backoff, timeout and deadline lasts as long
    as it says. Nor do they all pass at once when the process was stopped or its machine paused: what happened
    meanwhile has not been read yet, so that time is left out. This clock may be as far from those of others as
    the system's was at the start; what is written for others to read takes the system's. Thread-safe.
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


class Inbox:
    """A queue of events between two threads; what has come is fetched in one batch."""

    def __init__(self, clock: SteadyClock) -> None:
        self._clock = clock
        self._events: deque[Event] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        return len(self._events)

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._closed

    def put(self, events: Sequence[Event]) -> None:
        """Add events, in order; from any thread. Dropped once closed."""
        if not events:
            return
        with self._changed:
            if not self._closed:
                self._events.extend(events)
                self._changed.notify_all()

    def close(self) -> None:
        """Wake whoever waits, now and in the future."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def wait(self, until: float | None) -> tuple[float, list[Event]]:
        """Block until there are events, ``until`` has come (None: never) or the inbox is closed."""
        waited = False
        with self._changed:
            while not self._events and not self._closed:
                now = self._clock.now()
                if until is not None and until <= now:
                    break
                waited = True
                self._changed.wait(LOOK_SECONDS if until is None else min(until - now, LOOK_SECONDS))
        if waited and not self._closed:
            time.sleep(LINGER_SECONDS)
        return self.poll()

    def poll(self) -> tuple[float, list[Event]]:
        """What has come so far."""
        with self._changed:
            return self._clock.now(), self._fetch()

    def _fetch(self) -> list[Event]:
        out = list(self._events)
        self._events.clear()
        return out
