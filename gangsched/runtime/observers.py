"""Observers of the loop beside metrics: the watchdog of decisions, their log, and the input of the controllers."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gangsched import logs
from gangsched.cluster.kube.quarantine_record import QuarantineRecord
from gangsched.cluster.kube.statuses import Statuses
from gangsched.core.actions import Action, GangStatus, Remove, Report, SuspendJob
from gangsched.core.decision import Decision, FitsWhenFreed, Preempt
from gangsched.core.events import Event, LeadershipChanged, Outcome, WriteDone
from gangsched.core.lifecycle.report import NAME_SERVED, NAME_TAKEN, REFUSED
from gangsched.core.planning.contained import Fault
from gangsched.core.preemption.removal import SUSPEND
from gangsched.core.watchdog import Watchdog
from gangsched.model.records import GangId
from gangsched.runtime.loop import Observer, Rebuilt, WritesUnderWay

#: A decision may take so many times the budget of its search: steps differ in cost, and placing takes time too.
FACTOR = 1.6
#: How often the clock is read within the time of a decision.
_LOOKS = 4


class Deadline(Observer):
    """Cancels the decision under way when it has taken ``limit_seconds``.

    Cancelling is a request: the search looks for it once per step and then settles for the best plan that it has.
    ``clock`` counts seconds and never runs backwards.
    """

    def __init__(
        self, watchdog: Watchdog, limit_seconds: float, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._watchdog = watchdog
        self._limit = limit_seconds
        self._clock = clock
        self._current: tuple[int, float] | None = None
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def deciding(self, gang: str) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        # One assignment, so that the other thread never sees the number of one decision with the time of another.
        self._current = self._watchdog.decision + 1, self._clock()

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        self._current = None

    def check(self) -> None:
        """Cancel the decision under way if its time is up."""
        current = self._current
        if current is not None and self._clock() - current[1] >= self._limit:
            self._watchdog.cancel(current[0])

    def start(self) -> None:
        """Look at the clock from now on, in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="deadline", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop looking."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._limit / _LOOKS):
            self.check()


class UnderWay(Observer):
    """Keeps the record of the decision that is under way, for the Lease."""

    def __init__(self, record: QuarantineRecord) -> None:
        self._record = record

    def deciding(self, gang: str) -> None:
        self._record.begin(gang)

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        self._record.end()


_REMEMBERED = 10_000
#: A line names at most so many victims. Each has its own line when it is evicted.
_MOST_NAMES = 50
#: Outcomes of writes that are part of normal life: the core deals with them.
_ORDINARY = frozenset({Outcome.OK, Outcome.GONE, Outcome.OUTDATED})


class DecisionLog(Observer):
    """Writes decisions to the log, keyed by gang; a decision that repeats the last one goes to level debug.

    ``in_full``: placements and victims by name, for a dry run, where the log is all that comes of a decision.
    ``trace_of`` gives the id of a gang's trace, where traces are made.
    """

    def __init__(self, *, in_full: bool = False, trace_of: Callable[[GangId], str] | None = None) -> None:
        self._trace_of = trace_of
        self._log = logs.get("gangsched.decision").bind()  # a logger that is not bound is made anew for every line
        self._in_full = in_full
        self._last: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._failed: OrderedDict[str, str] = OrderedDict()

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        for event in events:
            if isinstance(event, WriteDone):
                if event.outcome not in _ORDINARY:
                    self._log.warning("a write failed", outcome=event.outcome, answer=event.message)
            elif isinstance(event, LeadershipChanged):
                self._log.info("leading" if event.leading else "not leading")
        self._removals(actions)
        for action in actions:
            if isinstance(action, Report) and action.reason in (NAME_TAKEN, NAME_SERVED):
                write = self._log.warning if action.reason == NAME_TAKEN else self._log.info
                write("a scheduler name", says=action.note)
            # The core tells each mistake once, whether it or the reader has found it.
            if isinstance(action, Report) and action.reason == REFUSED:
                _, kind, namespace, name, _ = action.regarding
                self._log.warning(
                    "an object cannot be understood",
                    object=f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}",
                    problem=action.note,
                )

    def deciding(self, gang: str) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        self._log.debug("deciding", gang=gang)

    def faulted(self, fault: Fault) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        if self._failed.get(fault.gang) == fault.error:
            return
        self._failed[fault.gang] = fault.error
        if len(self._failed) > _REMEMBERED:
            self._failed.popitem(last=False)
        self._log.error("a decision has failed", gang=fault.gang, error=fault.error, exception=fault.trace)

    def rebuilt(self, rebuilt: Rebuilt) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        self._log.error(
            "the scheduler has failed; its state was built anew",
            where=rebuilt.where,
            quarantined=list(rebuilt.culprits),
            error=rebuilt.error,
            exception=rebuilt.trace,
        )

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        self._removals(actions)
        for decision in decisions:
            gang = decision.gang.key
            news = (decision.outcome, decision.message)
            repeated = self._last.get(gang) == news
            self._last[gang] = news
            self._last.move_to_end(gang)
            if len(self._last) > _REMEMBERED:
                self._last.popitem(last=False)
            write = self._log.debug if repeated else self._log.info
            write("decided", gang=gang, **self._details(decision, seconds))
            if self._in_full and not repeated:
                self._foretell(decision)

    def _removals(self, actions: Sequence[Action]) -> None:
        """Log a line for each evicted pod and each suspended Job. A dry run logs it elsewhere."""
        for action in () if self._in_full else actions:
            if isinstance(action, Remove):
                verb = "evicting a pod" if action.evict else "deleting a pod"
                self._log.info(verb, pod=action.pod.key, reason=action.reason, why=action.mark)
            elif isinstance(action, SuspendJob):
                self._log.info("suspending a Job", job=action.job.key, gang=action.preemptor, plan=action.plan)

    def _foretell(self, decision: Decision) -> None:
        """Log the writes that would follow the nominations of a plan. A dry run ends with the nominations."""
        for victim in decision.victims:
            verb = "suspend the owner of" if victim.method == SUSPEND else victim.method
            self._log.info(f"would {verb} Pod {victim.key}", node=victim.node, gang=decision.gang.key)
        for placement in decision.placements if isinstance(decision, Preempt | FitsWhenFreed) else ():
            self._log.info(f"would bind Pod {placement.key} when there is room", node=placement.node)

    def _details(self, decision: Decision, seconds: float) -> dict[str, Any]:
        details: dict[str, Any] = {
            "outcome": decision.outcome,
            "placed": len(decision.placements),
            "required": decision.required,
            "milliseconds": round(seconds * 1000, 1),
        }
        if decision.message:
            details["why"] = decision.said
        if self._trace_of is not None:
            details["trace"] = self._trace_of(decision.gang)
        if isinstance(decision, Preempt):
            names = [v.key for v in decision.victims]
            few = names if self._in_full or len(names) <= _MOST_NAMES else [*names[:_MOST_NAMES], "…"]
            details.update(victims=few, victimCount=len(names))
        if decision.awaiting:
            details["awaiting"] = [a.pod for a in decision.awaiting] if self._in_full else len(decision.awaiting)
        if self._in_full and decision.placements:
            details["placements"] = {placement.key: placement.node for placement in decision.placements}
        if decision.proof:
            details["proof"] = decision.proof
        if decision.stopped:
            details["search"] = "cut short"
        return details


#: The controllers start so long after leadership at the latest, however busy the scheduler is.
LATEST_SECONDS = 30.0
#: Under load the statuses of queues are handed on so often at most; without any, at once.
QUEUE_SECONDS = 5.0


class Controllers(Protocol):
    """Receives the objects whose status is written (:class:`gangsched.controllers.operator.GroupControllers`)."""

    def start(self) -> None:
        """Begin, in the background; again: nothing."""

    def stop(self) -> None:
        """End."""


#: Makes the controllers for statuses, a kubeconfig and a context; None runs without them.
MakeControllers = Callable[[Statuses, str | None, str | None], Controllers]


class StartWhenQuiet(WritesUnderWay):
    """Starts the controllers at the first quiet moment of a leader: nothing to decide and no write under way, or after
    :data:`LATEST_SECONDS`.
    """

    def __init__(self, controllers: Controllers, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._controllers = controllers
        self._clock = clock
        self._leading_since: float | None = None

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        super().handled(events, actions, seconds, now)
        for event in events:
            if isinstance(event, LeadershipChanged):
                self._leading_since = self._clock() if event.leading else None
        if self._leading_since is not None and self._clock() - self._leading_since > LATEST_SECONDS:
            self._controllers.start()

    def idle(self) -> None:
        if self._leading_since is not None and not self.under_way:
            self._controllers.start()


class QueueStatusFeed(Observer):
    """Hands on what the statuses of queues that have changed should be: when there is nothing to decide, under load at
    most every :data:`QUEUE_SECONDS`. A new leader reports all of them.

    ``statuses`` gives those that are others than before; all of them when its argument is True.
    """

    def __init__(
        self,
        statuses: Callable[[bool], Sequence[GangStatus]],
        want: Callable[[GangStatus], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._statuses = statuses
        self._want = want
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
            self._want(status)
