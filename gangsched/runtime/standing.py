"""How this process stands, in a few numbers that others may read: for what it publishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gangsched.core.actions import Action
from gangsched.core.decision import Decision
from gangsched.core.events import Event, Outcome, WriteDone
from gangsched.model.times import render_time
from gangsched.runtime.loop import WritesUnderWay

#: Outcomes of writes after which nothing is wrong.
_ORDINARY = frozenset({Outcome.OK, Outcome.GONE, Outcome.OUTDATED})


class Standing(WritesUnderWay):
    """Counts on the decision thread; :meth:`facts` may be called from any thread.

    ``queue_counts`` counts gangs by their place in the queue, ``fixed`` does not change while the process runs.
    """

    def __init__(self, queue_counts: Callable[[], Mapping[str, int]], fixed: Mapping[str, Any]) -> None:
        super().__init__()
        self._queue_counts = queue_counts
        self._fixed = fixed
        self._gangs: Mapping[str, int] = {}
        self._last: Mapping[str, Any] | None = None
        self._failed = 0
        #: What is quarantined.
        self.quarantined: Sequence[Mapping[str, Any]] = ()

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        super().handled(events, actions, seconds, now)
        self._failed += sum(isinstance(e, WriteDone) and e.outcome not in _ORDINARY for e in events)

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        super().decided(decisions, actions, seconds, now)
        if decisions:
            last = decisions[-1]
            self._last = {"gang": last.gang.key, "outcome": last.outcome, "time": render_time(now)}

    def idle(self) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        self._gangs = dict(self._queue_counts())

    def facts(self) -> Mapping[str, Any]:
        """The fields of :class:`gangsched.cluster.kube.published.Status` that this process knows of itself."""
        return {
            **self._fixed,
            "gangs": self._gangs,
            "lastDecision": self._last,
            "writesWaiting": len(self.under_way),
            "writesFailed": self._failed,
            "quarantined": self.quarantined,
        }
