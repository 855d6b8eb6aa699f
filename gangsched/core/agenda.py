"""Timers of all kinds.

A :class:`Page` holds the timers of one kind, one for each key. ``at`` sets a timer. When it is over, the agenda calls
``on_due`` of the page with the key. A page without ``on_due`` is read by ``due``, which returns and clears what is
over.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any, Generic, TypeVar

K = TypeVar("K")


#: No pause is longer than this (seconds).
LONGEST_PAUSE_SECONDS = 1800.0


def pause(first_seconds: float, times: int) -> float:
    """Return the seconds of the pause after something has gone wrong so often in a row. Each is twice as long."""
    return min(first_seconds * 2.0 ** min(times - 1, 30), LONGEST_PAUSE_SECONDS)


class Soonest:
    """Before ``when`` (seconds) nothing has to be looked at. It may be too early, where something need not be looked at
    any more.
    """

    def __init__(self) -> None:
        self.when = math.inf


class Page(Generic[K]):
    """The times of one kind of things, in seconds: at most one for each key."""

    def __init__(self) -> None:
        self._entries: dict[K, tuple[float, int, K]] = {}
        self.heap: list[tuple[float, int, K]] = []  # also entries that do not count any more
        self._made = 0
        #: That of all pages of one agenda.
        self.soonest = Soonest()
        self.on_due: Callable[[K], None] | None = None

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def at(self, key: K, when: float) -> None:
        """Set the timer of ``key``, instead of an earlier one."""
        self._made += 1
        self._entries[key] = entry = (when, self._made, key)
        heapq.heappush(self.heap, entry)
        if len(self.heap) > 2 * len(self._entries) + 64:  # most would leave it at the top, which they may never reach
            self.heap = list(self._entries.values())
            heapq.heapify(self.heap)
        self.soonest.when = min(self.soonest.when, when)

    def no_later(self, key: K, when: float) -> None:
        """Set the timer of ``key`` unless an earlier time is set."""
        if key not in self or when < self._entries[key][0]:
            self.at(key, when)

    def never(self, key: K) -> None:
        """It need not be looked at for this."""
        self._entries.pop(key, None)

    def due(self, now: float) -> list[K]:
        """Keys whose time has come, the earliest first, equal ones in the order in which they were set. Each is
        returned once: the caller has to act on it.
        """
        out = []
        while (when := self.next()) is not None and when <= now:
            key = heapq.heappop(self.heap)[2]
            del self._entries[key]
            out.append(key)
        return out

    def next(self) -> float | None:
        """The earliest time; None: there is none."""
        while self.heap:
            if self._entries.get(self.heap[0][2]) is self.heap[0]:
                return self.heap[0][0]
            heapq.heappop(self.heap)
        return None


class Agenda:
    """The pages of all kinds. What is ``intended`` begins anew with each leadership, beside what is observed.
    ``soonest`` is that of its own pages.
    """

    def __init__(self) -> None:
        self.intended: Agenda | None = None
        self.soonest = Soonest()
        self._pages: list[Page[Any]] = []

    def page(self, made: Page[Any] | None = None, *, on_due: Callable[[Any], None] | None = None) -> Page[Any]:
        """Return a new page, or the one that is ``made`` already. ``on_due`` is called with each key that is over."""
        self._pages.append(page := Page() if made is None else made)
        page.soonest, page.on_due = self.soonest, on_due
        return page

    def call_due(self, now: float) -> None:
        """Call ``on_due`` of each page with the keys that are over, page by page."""
        for page in self._pages:
            if page.on_due is not None:
                for key in page.due(now):
                    page.on_due(key)
        if self.intended is not None:
            self.intended.call_due(now)

    def due(self, now: float) -> bool:
        """Return True if any timer is over."""
        soonest = self.soonest
        if soonest.when <= now:
            soonest.when = min((when for page in self._pages if (when := page.next()) is not None), default=math.inf)
        return soonest.when <= now or (self.intended is not None and self.intended.due(now))

    def next(self) -> float | None:
        """The earliest time of all; None: there is none."""
        times = [page.next() for page in self._pages]
        if self.intended is not None:
            times.append(self.intended.next())
        return min((when for when in times if when is not None), default=None)
