"""The state that a decision is made on, and the same decision on a state that is a little different."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from gangsched.cli.plan_view import decide
from gangsched.core.decision import Decision
from gangsched.core.events import Changed, Event
from gangsched.core.forecast import forecast
from gangsched.core.options import Options
from gangsched.core.preemption.drained import Leaving
from gangsched.core.scheduler import Scheduler
from gangsched.core.world.world import World
from gangsched.model.dialects.objects import PREEMPTION_DELAY
from gangsched.model.records import PREEMPT_LOWER, Gang, GangId, Pod, PriorityClass, Record

#: A mark that makes a pod no victim, whatever its priority.
_STAYS = {"scheduling.koordinator.sh/disable-preemptible": "true"}


class State:
    """Objects, options and a moment; ``decisions`` are what would be decided, each with the milliseconds it took, and
    ``drained`` who leaves before that because of a stopped queue.
    """

    def __init__(self, events: Sequence[Event], options: Options, now: float) -> None:
        self.events = list(events)
        self.options = options
        self.now = now
        self.drained: list[Leaving] = []
        self.decisions = list(decide(self.events, options, now, self.drained))
        self.world = _world(self.events, options, now)

    def decision(self, gang: GangId) -> Decision | None:
        """The decision about a gang; None when none of its members is pending."""
        return next((d for d, _ in self.decisions if d.gang == gang), None)

    def milliseconds(self, decision: Decision) -> float:
        """How long a decision took."""
        return next(spent for d, spent in self.decisions if d is decision)

    # -- what if -------------------------------------------------------------------------------------------

    def if_it_stayed(self, pod: Pod, gang: GangId) -> Decision | None:
        """The decision about ``gang`` if this pod could not be evicted."""

        def stays(record: Record) -> Record:
            if not isinstance(record, Pod) or record.uid != pod.uid:
                return record
            return replace(record, labels={**record.labels, **_STAYS})

        return self._again(gang, stays, self.options)

    def with_priority(self, gangs: Sequence[GangId], gang: GangId, priority: int) -> Decision | None:
        """The decision about ``gang`` if these gangs had this priority and were allowed to preempt."""

        def raised(record: Record) -> Record:
            if isinstance(record, Pod) and record.gang in gangs:
                return replace(record, priority=priority, preemption_policy=PREEMPT_LOWER)
            if isinstance(record, Gang) and any((record.family, record.key) == (g.family, g.key) for g in gangs):
                own = None if record.priority is None else priority
                return replace(record, priority=own, preemption_policy=None)
            return record

        return self._again(gang, raised, self.options)

    def without_patience(self, gang: GangId) -> Decision | None:
        """The decision about ``gang`` without waiting: no minimum run time, no preemption delay."""
        options = replace(self.options, minimum_run_time_seconds=0.0, preemption_delay_seconds=0.0)
        return self._again(gang, _impatient, options)

    def _again(self, gang: GangId, change: Callable[[Record], Record], options: Options) -> Decision | None:
        events = [_changed(event, change) for event in self.events]
        return next((d for d in forecast(events, options, self.now) if d.gang == gang), None)


def _changed(event: Event, change: Callable[[Record], Record]) -> Event:
    match event:
        case Changed(Pod() | Gang() | PriorityClass() as record):
            return Changed(change(record))  # type: ignore[arg-type]  # the same kind of record
    return event


def _impatient(record: Record) -> Record:
    match record:
        case PriorityClass():
            return replace(record, minimum_run_time_seconds=None, preemption_delay_seconds=None)
        case Gang():
            return replace(record, preemption_delay_seconds=None)
        case Pod():
            return replace(record, hints={k: v for k, v in record.hints.items() if k != PREEMPTION_DELAY})
    return record


def _world(events: Sequence[Event], options: Options, now: float) -> World:
    scheduler = Scheduler(options)
    scheduler.handle(events, now)  # without leadership: what is under way is neither finished nor taken back
    return scheduler.world
