"""The queue of gangs: priority first, then age; backoff per gang; woken by events that can help.

Semantics as in kube-scheduler, at the level of gangs. A gang is *active* (to be decided), in *backoff* (will be
active at a time, and is decided before it when nothing is active), *resting* after failed writes (will be active at a
time, never before it) or *parked* (unschedulable until something happens that may help, or :data:`FLUSH_SECONDS` have
passed).
"""

from __future__ import annotations

import heapq

from gangsched.core.agenda import Page
from gangsched.core.decision import Order
from gangsched.core.options import Options

#: A parked gang is tried again after this time even if no event has woken it, as in kube-scheduler.
FLUSH_SECONDS = Options().flush_seconds


class Queue:
    """Keys of gangs. Each key is in at most one of active, backoff, resting and parked."""

    def __init__(self, due: Page[str], flush_seconds: float = FLUSH_SECONDS) -> None:
        self._flush_seconds = flush_seconds
        self._active: list[Order] = []
        self._early: list[Order] = []
        self._order: dict[str, Order] = {}
        self._backoff: dict[str, Order] = {}
        self._eager: dict[str, Order] = {}
        self._due = due
        self._parked: dict[str, tuple[Order, float]] = {}

    def push(self, order: Order) -> None:
        """Make the gang active."""
        key = order[2]
        self.remove(key)
        self._order[key] = order
        _push(self._active, order, self._order)

    def park(self, order: Order, now: float, not_before: float, latest: float | None = None) -> None:
        """Wait for :meth:`wake`, then at least until ``not_before``; ``latest`` is when time alone may have helped."""
        key = order[2]
        self.remove(key)
        self._parked[key] = (order, not_before)
        flush = now + self._flush_seconds
        self._due.at(key, flush if latest is None else min(flush, max(latest, not_before)))

    def rest(self, key: str, when: float) -> None:
        """Become active at this time, whatever happens until then."""
        self.remove(key)
        self._due.at(key, when)

    def remove(self, key: str) -> None:
        """Take the gang out, wherever it is."""
        self._order.pop(key, None)
        self._backoff.pop(key, None)
        self._eager.pop(key, None)
        self._due.never(key)
        self._parked.pop(key, None)

    def parked(self) -> list[str]:
        """Gangs that wait for something to happen."""
        return sorted(self._parked)

    def asleep(self, key: str) -> Order | None:
        """The place of a gang that :meth:`wake` may wake, which is parked or in backoff; None for others."""
        return self._parked[key][0] if key in self._parked else self._backoff.get(key)

    def active_place(self, key: str) -> Order | None:
        """The place of an active gang; None for others."""
        return self._order.get(key)

    def backs_off(self, key: str) -> bool:
        """Has the gang been woken while it was in backoff? It will be active by itself."""
        return key in self._backoff

    def wake(self, key: str, now: float) -> bool:
        """Something has happened that may help the gang, which is parked or in backoff. True when its backoff is over
        and it is to be made active; otherwise it waits its backoff out, unless the scheduler would be idle.
        """
        if key in self._parked:
            order, not_before = self._parked[key]
            if not_before <= now:
                return True
            del self._parked[key]
            self._backoff[key] = order
            self._due.at(key, not_before)
        if key not in self._eager:
            self._eager[key] = self._backoff[key]
            _push(self._early, self._backoff[key], self._eager)
        return False

    def calm(self, key: str) -> None:
        """It is of no use to decide this gang before its backoff is over."""
        self._eager.pop(key, None)

    def due(self, now: float) -> list[str]:
        """Gangs whose time has come; each is reported once."""
        out = sorted(self._due.due(now))
        for key in out:
            self.remove(key)
        return out

    def head(self) -> str | None:
        """The gang to be decided next; when none is active, one that would otherwise sit out its backoff."""
        return _first(self._active, self._order) or _first(self._early, self._eager)

    def active(self) -> list[str]:
        """All active gangs in the order in which they will be decided."""
        return sorted(self._order, key=self._order.__getitem__)

    def counts(self) -> dict[str, int]:
        """Gangs by queue: active, backoff (resting ones included), unschedulable."""
        parked = len(self._parked)
        return {"active": len(self._order), "backoff": len(self._due) - parked, "unschedulable": parked}


def _push(heap: list[Order], order: Order, valid: dict[str, Order]) -> None:
    """Add an entry; ``valid`` has all that count, this one included."""
    heapq.heappush(heap, order)
    if len(heap) > 2 * len(valid) + 64:  # most would leave it at the top, which they may never reach
        heap[:] = valid.values()
        heapq.heapify(heap)


def _first(heap: list[Order], valid: dict[str, Order]) -> str | None:
    """The key of the first entry that still counts; those that do not are dropped."""
    while heap:
        if valid.get(heap[0][2]) == heap[0]:
            return heap[0][2]
        heapq.heappop(heap)
    return None
