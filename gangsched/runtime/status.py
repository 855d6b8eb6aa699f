"""Statuses of groups and queues are written by controllers that start when there is nothing more urgent to do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from gangsched.core.actions import Action, GangStatus, Write
from gangsched.core.decision import Decision
from gangsched.core.events import Event, LeadershipChanged, WriteDone
from gangsched.runtime import logs
from gangsched.runtime.loop import Observer

_log = logs.get("status")

#: The controllers start so long after leadership at the latest, however busy the scheduler is.
LATEST_SECONDS = 30.0
#: Under load the controllers hear of queues so often at most; without any, at once.
QUEUE_SECONDS = 5.0


class StatusSink(Protocol):
    """What keeps the status of objects (:class:`gangsched.controllers.operator.GroupControllers`)."""

    def start(self) -> None:
        """Begin, in the background."""

    def post(self, action: GangStatus) -> None:
        """A status that an object should have. From any thread."""

    def set_leading(self, *, leading: bool) -> None:
        """Whether this process may write."""

    def stop(self) -> None:
        """End."""


#: Makes the controllers for a kubeconfig and a context; None runs without them.
MakeSink = Callable[[str | None, str | None], StatusSink]


class LateSink:
    """Controllers that are made when :meth:`start` is called: importing what they need takes more than a second of
    processor time, in which a gang may already be waiting. What is posted before is kept, the newest of each object.
    When they cannot be made that is logged, once, and nothing is kept any more.
    """

    def __init__(self, make: Callable[[], StatusSink]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._sink: StatusSink | None = None
        self._kept: dict[tuple[str, str, str, str], GangStatus] = {}
        self._leading = False
        self._started = self._stopped = False

    def start(self) -> None:
        """Make them, in a thread; again: nothing."""
        with self._lock:
            if self._started or self._stopped:
                return
            self._started = True
        threading.Thread(target=self._begin, name="controllers-import", daemon=True).start()

    def _begin(self) -> None:
        try:
            sink = self._make()
        except Exception:  # noqa: BLE001 - whatever it is, scheduling goes on without statuses
            _log.exception("the controllers cannot be made, statuses of groups and queues are not written")
            with self._lock:
                self._stopped = True
                self._kept.clear()
            return
        with self._lock:
            if self._stopped:
                return
            self._sink = sink
            sink.set_leading(leading=self._leading)
            for action in self._kept.values():
                sink.post(action)
            self._kept.clear()
            sink.start()

    def post(self, action: GangStatus) -> None:
        """A status that an object should have. From any thread; the newest of each object is kept."""
        with self._lock:
            if self._sink is not None:
                self._sink.post(action)
            elif not self._stopped:
                key = action.family, action.plural, action.namespace, action.name
                self._kept[key] = action.after(self._kept[key]) if key in self._kept else action

    def set_leading(self, *, leading: bool) -> None:
        """Whether this process may write; when not, what was kept is dropped."""
        with self._lock:
            self._leading = leading
            if not leading:
                self._kept.clear()
            if self._sink is not None:
                self._sink.set_leading(leading=leading)

    def stop(self) -> None:
        """End them, if they have begun."""
        with self._lock:
            self._stopped = True
            sink, self._sink = self._sink, None
        if sink is not None:
            sink.stop()


class WhenQuiet(Observer):
    """Tells the controllers who leads, and starts them at the first quiet moment of a leader: nothing to decide and no
    write under way, or after :data:`LATEST_SECONDS`.
    """

    def __init__(self, sink: StatusSink, clock: Callable[[], float] = time.monotonic) -> None:
        self._sink = sink
        self._clock = clock
        self._leading_since: float | None = None
        self._in_flight: set[int] = set()

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        self._in_flight.update(action.id for action in actions if isinstance(action, Write))
        for event in events:
            if isinstance(event, WriteDone):
                self._in_flight.discard(event.action_id)
            elif isinstance(event, LeadershipChanged):
                self._leading_since = self._clock() if event.leading else None
                self._sink.set_leading(leading=event.leading)
        if self._leading_since is not None and self._clock() - self._leading_since > LATEST_SECONDS:
            self._sink.start()

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        self._in_flight.update(action.id for action in actions if isinstance(action, Write))

    def idle(self) -> None:
        if self._leading_since is not None and not self._in_flight:
            self._sink.start()


class TellsOfQueues(Observer):
    """Hands the statuses of queues that have changed to the controllers: when there is nothing to decide, and under
    load at most every :data:`QUEUE_SECONDS`. Whoever begins to lead tells of all of them.

    ``statuses`` gives those that are others than before; all of them when its argument is True.
    """

    def __init__(
        self,
        statuses: Callable[[bool], Sequence[GangStatus]],
        sink: StatusSink,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._statuses = statuses
        self._sink = sink
        self._clock = clock
        self._leading = False
        self._all = True
        self._told_at = float("-inf")

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        for event in events:
            if isinstance(event, LeadershipChanged):
                self._leading = event.leading
                self._all = True

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        if self._clock() - self._told_at >= QUEUE_SECONDS:
            self.idle()

    def idle(self) -> None:
        if not self._leading:
            return
        self._told_at = self._clock()
        everything, self._all = self._all, False
        for status in self._statuses(everything):
            self._sink.post(status)
