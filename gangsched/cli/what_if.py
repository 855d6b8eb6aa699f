"""The state that a decision is made on, and the same decision on a state that is a little different."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from gangsched.cli.plan import decide
from gangsched.core.decision import Decision
from gangsched.core.events import Event, GangChanged, PodChanged, PriorityClassChanged
from gangsched.core.forecast import forecast
from gangsched.core.options import Options
from gangsched.core.preemption.drained import Leaving
from gangsched.core.scheduler import Scheduler
from gangsched.core.state.world import World
from gangsched.model.records import PREEMPT_LOWER, Gang, GangId, Pod

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
        return self._again(gang, pods=lambda p: _marked(p) if p.uid == pod.uid else p)

    def with_priority(self, gangs: Sequence[GangId], gang: GangId, priority: int) -> Decision | None:
        """The decision about ``gang`` if these gangs had this priority and were allowed to preempt."""

        def raise_pod(pod: Pod) -> Pod:
            if pod.gang not in gangs:
                return pod
            return msgspec.structs.replace(pod, priority=priority, preemption_policy=PREEMPT_LOWER)

        def raise_gang(found: Gang) -> Gang:
            if not any((found.family, found.key) == (g.family, g.key) for g in gangs):
                return found
            own = None if found.priority is None else priority
            return msgspec.structs.replace(found, priority=own, preemption_policy=None)

        return self._again(gang, pods=raise_pod, gangs=raise_gang)

    def without_patience(self, gang: GangId) -> Decision | None:
        """The decision about ``gang`` if nobody had to wait: no minimum run time, no preemption delay."""
        options = msgspec.structs.replace(self.options, minimum_run_time_seconds=0.0, preemption_delay_seconds=0.0)
        events = [_impatient(e) for e in self.events]
        return next((d for d in forecast(events, options, self.now) if d.gang == gang), None)

    def _again(
        self, gang: GangId, pods: Callable[[Pod], Pod], gangs: Callable[[Gang], Gang] = lambda found: found
    ) -> Decision | None:
        events: list[Event] = []
        for event in self.events:
            if isinstance(event, PodChanged):
                events.append(PodChanged(pods(event.pod)))
            elif isinstance(event, GangChanged):
                events.append(GangChanged(gangs(event.gang)))
            else:
                events.append(event)
        return next((d for d in forecast(events, self.options, self.now) if d.gang == gang), None)


def _world(events: Sequence[Event], options: Options, now: float) -> World:
    scheduler = Scheduler(options)
    scheduler.handle(events, now)  # without leadership: what is under way is neither finished nor taken back
    return scheduler.world


def _marked(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, labels={**pod.labels, **_STAYS})


def _impatient(event: Event) -> Event:
    if isinstance(event, PriorityClassChanged):
        found = msgspec.structs.replace(
            event.priority_class, minimum_run_time_seconds=None, preemption_delay_seconds=None
        )
        return PriorityClassChanged(found)
    if isinstance(event, GangChanged):
        return GangChanged(msgspec.structs.replace(event.gang, preemption_delay_seconds=None))
    if isinstance(event, PodChanged) and "kai.scheduler/preemption-delay" in event.pod.hints:
        hints = {k: v for k, v in event.pod.hints.items() if k != "kai.scheduler/preemption-delay"}
        return PodChanged(msgspec.structs.replace(event.pod, hints=hints))
    return event
