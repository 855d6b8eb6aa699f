"""The queue of gangs: priority first, then age; backoff per gang; woken by events that can help.

Semantics as in kube-scheduler, at the level of gangs: *active* (to be decided), *backoff* (will become active at a
time) and *parked* (unschedulable until something happens that may help, or :data:`FLUSH_SECONDS` have passed).
"""

from __future__ import annotations

import enum
import heapq

#: A parked gang is tried again after this time even if no event has woken it, as in kube-scheduler.
FLUSH_SECONDS = 300.0

_Order = tuple[int, float, str]


class Hint(enum.Flag):
    """Kinds of events that may help a gang that did not fit."""

    NODE = enum.auto()  # a node came, grew, or lost a taint
    ROOM = enum.auto()  # a pod left, finished or began to terminate, or room is no longer held
    BUDGET = enum.auto()  # a disruption budget changed
    PODS = enum.auto()  # a pod came that others may want to be near to
    ANY = NODE | ROOM | BUDGET | PODS


class Queue:
    """Keys of gangs. Each key is in at most one of active, backoff and parked."""

    def __init__(self) -> None:
        self._active: list[tuple[_Order, str]] = []
        self._waiting: list[tuple[float, str]] = []
        self._order: dict[str, _Order] = {}
        self._due: dict[str, float] = {}
        self._parked: dict[str, tuple[Hint, float]] = {}

    def push(self, key: str, priority: int, created: float) -> None:
        """Make the gang active."""
        self.remove(key)
        order = (-priority, created, key)
        self._order[key] = order
        heapq.heappush(self._active, (order, key))

    def park(self, key: str, hints: Hint, now: float, not_before: float, latest: float | None = None) -> None:
        """Wait for one of ``hints``, at least until ``not_before``; ``latest`` is when time alone may have helped."""
        self.remove(key)
        self._parked[key] = (hints, not_before)
        flush = now + FLUSH_SECONDS
        self._wake_later(key, flush if latest is None else min(flush, max(latest, not_before)))

    def retry(self, key: str, when: float) -> None:
        """Become active at this time, whatever happens until then."""
        self.remove(key)
        self._wake_later(key, when)

    def remove(self, key: str) -> None:
        """Take the gang out, wherever it is."""
        self._order.pop(key, None)
        self._due.pop(key, None)
        self._parked.pop(key, None)

    def woken_by(self, hint: Hint, now: float) -> list[str]:
        """Parked gangs that the event may help and whose backoff is over; the others wait out their backoff."""
        out = []
        for key in [k for k, (hints, _) in self._parked.items() if hints & hint]:
            _, not_before = self._parked[key]
            if not_before <= now:
                out.append(key)
            else:
                del self._parked[key]
                self._wake_later(key, not_before)
        return sorted(out)

    def due(self, now: float) -> list[str]:
        """Gangs whose time has come; each is reported once."""
        out = []
        while self._waiting and self._waiting[0][0] <= now:
            when, key = heapq.heappop(self._waiting)
            if self._due.get(key) == when:
                del self._due[key]
                self._parked.pop(key, None)
                out.append(key)
        return sorted(out)

    def head(self) -> str | None:
        """The gang to be decided next."""
        while self._active:
            order, key = self._active[0]
            if self._order.get(key) == order:
                return key
            heapq.heappop(self._active)
        return None

    def wake_at(self) -> float | None:
        """When :meth:`due` will have something, or None."""
        while self._waiting:
            when, key = self._waiting[0]
            if self._due.get(key) == when:
                return when
            heapq.heappop(self._waiting)
        return None

    def active(self) -> list[str]:
        """All active gangs in the order in which they will be decided."""
        return sorted(self._order, key=self._order.__getitem__)

    def counts(self) -> dict[str, int]:
        """Gangs by queue: active, backoff, unschedulable."""
        parked = len(self._parked)
        return {"active": len(self._order), "backoff": len(self._due) - parked, "unschedulable": parked}

    def _wake_later(self, key: str, when: float) -> None:
        self._due[key] = when
        heapq.heappush(self._waiting, (when, key))
