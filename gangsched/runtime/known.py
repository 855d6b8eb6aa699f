"""The objects of a cluster as they are now, kept for those who look, in any thread."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence

from gangsched.core.actions import Action
from gangsched.core.events import (
    Changed,
    Event,
    FormerNames,
    Gone,
    KindRead,
    NameLeased,
    ObjectRefused,
    ServerClock,
)
from gangsched.core.keys import key_of
from gangsched.runtime.loop import Observer


class Known(Observer):
    """The last event of each object, in the order of the last changes: a scheduler that takes them in knows what one
    does that has seen all. Records are shared, not copied.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[Hashable, Event] = {}

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        self.record(events)

    def record(self, events: Sequence[Event]) -> None:
        """These have happened."""
        with self._lock:
            for event in events:
                self._record(event)

    def _record(self, event: Event) -> None:
        last = self._last
        match event:
            case Changed():
                key: Hashable = key_of(event)
                last.pop(key, None)
                last[key] = event
            case Gone():
                last.pop(key_of(event), None)
                last.pop((ObjectRefused, key_of(event)), None)
            case ObjectRefused():
                key = ObjectRefused, key_of(event)
                last.pop(key, None)
                last[key] = event
            case KindRead(kind):
                last[KindRead, kind] = event
            case NameLeased(name):
                last[NameLeased, name] = event
            case FormerNames():
                last[FormerNames] = event
            case ServerClock():
                last[ServerClock] = event

    def get(self, key: Hashable) -> Event | None:
        """The last event of the object with this key (:func:`~gangsched.core.keys.key_of`), if it exists."""
        return self._last.get(key)

    def events(self) -> list[Event]:
        """An event for each object."""
        with self._lock:
            return list(self._last.values())
