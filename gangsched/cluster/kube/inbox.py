"""Where the I/O loop leaves events and the decision thread fetches them, and the clock that both read."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

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
    """A queue of events between two threads; what has come is fetched in one batch.

    Python's own locks with conditions can be left held by an interrupt (Ctrl-C) between two of their steps, and the
    other thread would wait for ever. So nothing is locked here: a deque and a :class:`queue.SimpleQueue`, whose steps
    cannot be interrupted, are all there is.
    """

    def __init__(self, clock: SteadyClock) -> None:
        self._clock = clock
        self._events: deque[Event] = deque()
        self._changed: SimpleQueue[None] = SimpleQueue()  # an entry for each change since the events were fetched last
        self._closed = False

    def __len__(self) -> int:
        return len(self._events)

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._closed

    def put(self, events: Sequence[Event]) -> None:
        """Add events, in order; from any thread. Dropped once closed."""
        if events and not self._closed:
            self._events.extend(events)
            self._changed.put(None)

    def close(self) -> None:
        """Wake whoever waits, now and in the future."""
        self._closed = True
        self._changed.put(None)

    def wait(self, until: float | None) -> tuple[float, list[Event]]:
        """Block until there are events, ``until`` has come (None: never) or the inbox is closed."""
        waited = False
        while not self._events and not self._closed:
            now = self._clock.now()
            if until is not None and until <= now:
                break
            waited = True
            with contextlib.suppress(Empty):
                self._changed.get(timeout=LOOK_SECONDS if until is None else min(until - now, LOOK_SECONDS))
        if waited and not self._closed:
            time.sleep(LINGER_SECONDS)
        return self.poll()

    def poll(self) -> tuple[float, list[Event]]:
        """What has come so far."""
        now = self._clock.now()
        with contextlib.suppress(Empty):
            while True:
                self._changed.get_nowait()
        # Whoever adds events says so afterwards: what comes from here on wakes the next that waits.
        return now, [self._events.popleft() for _ in range(len(self._events))]
