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


class WallClock:
    """Seconds since the epoch that never run backwards, whatever happens to the system's clock.

    When the system's clock is set forward, this one follows; when it is set back, this one goes on at its own
    pace from where it was, so that no backoff or timeout stands still. Thread-safe.
    """

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._last = wall()
        self._last_at = monotonic()

    def now(self) -> float:
        """The time."""
        with self._lock:
            at = self._monotonic()
            self._last = max(self._last + max(0.0, at - self._last_at), self._wall())
            self._last_at = at
            return self._last


class Inbox:
    """A queue of events between two threads; what has come is fetched in one batch."""

    def __init__(self, clock: WallClock) -> None:
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
                left = None if until is None else until - self._clock.now()
                if left is not None and left <= 0:
                    break
                waited = True
                self._changed.wait(left)
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
