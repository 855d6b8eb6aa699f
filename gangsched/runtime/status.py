"""Statuses of groups and queues are written by controllers that start when there is nothing more urgent to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from gangsched.core.actions import Action, GangStatus
from gangsched.core.decision import Decision
from gangsched.core.events import Event, LeadershipChanged
from gangsched.runtime.loop import Observer, WritesUnderWay

#: The controllers start so long after leadership at the latest, however busy the scheduler is.
LATEST_SECONDS = 30.0
#: Under load the controllers get queues so often at most; without any, at once.
QUEUE_SECONDS = 5.0


class StatusSink(Protocol):
    """What keeps the status of objects (:class:`gangsched.controllers.operator.GroupControllers`)."""

    def start(self) -> None:
        """Begin, in the background; again: nothing."""

    def post(self, action: GangStatus) -> None:
        """A status that an object should have. From any thread, before :meth:`start` too."""

    def set_leading(self, *, leading: bool) -> None:
        """Whether this process may write."""

    def stop(self) -> None:
        """End."""


#: Makes the controllers for a kubeconfig and a context; None runs without them.
MakeSink = Callable[[str | None, str | None], StatusSink]


class StartWhenQuiet(WritesUnderWay):
    """Tells the controllers who leads, and starts them at the first quiet moment of a leader: nothing to decide and no
    write under way, or after :data:`LATEST_SECONDS`.
    """

    def __init__(self, sink: StatusSink, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._sink = sink
        self._clock = clock
        self._leading_since: float | None = None

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        super().handled(events, actions, seconds, now)
        for event in events:
            if isinstance(event, LeadershipChanged):
                self._leading_since = self._clock() if event.leading else None
                self._sink.set_leading(leading=event.leading)
        if self._leading_since is not None and self._clock() - self._leading_since > LATEST_SECONDS:
            self._sink.start()

    def idle(self) -> None:
        if self._leading_since is not None and not self.under_way:
            self._sink.start()


class QueueStatusFeed(Observer):
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
