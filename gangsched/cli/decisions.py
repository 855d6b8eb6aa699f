"""Decisions on the current state and on changed copies of it, and the sentence for a decision."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from gangsched.core.decision import (
    SCHEDULER,
    Decision,
    Fits,
    FitsWhenFreed,
    Gathering,
    Preempt,
    Unschedulable,
    beyond_budgets,
)
from gangsched.core.events import Changed, Event
from gangsched.core.forecast import forecast, foretell
from gangsched.core.keys import key_of
from gangsched.core.options import Options
from gangsched.core.planning.contained import SchedulerError
from gangsched.core.preemption.drain_plan import DrainPlan
from gangsched.core.scheduler import Scheduler
from gangsched.core.world.world import World
from gangsched.messages import answers
from gangsched.messages.text import are, pluralize
from gangsched.model.constraints import Record
from gangsched.model.dialects.objects import PREEMPTION_DELAY
from gangsched.model.errors import Problem
from gangsched.model.records import PREEMPT_LOWER, SINGLE, Gang, GangId, Pod, PriorityClass
from gangsched.runtime.culprits import Suspect, suspects
from gangsched.runtime.known import Known
from gangsched.runtime.unanswered import Unanswered

#: A mark that makes a pod no victim, whatever its priority.
_STAYS = {"scheduling.koordinator.sh/disable-preemptible": "true"}


#: So many times objects are left out over which the scheduler fails.
_MOST_FAULTS = 5

#: The section of an explanation that is shown last: what can be done.
WOULD_HELP = "would help"
#: That of what keeps a pod from being evicted.
SAFE_WITH = "safe with"
#: That of what is decided here, where the scheduler says something else.
WOULD_DECIDE = "would decide"
#: That of what the scheduler says, where something else was asked.
IS_NOW = "is now"
#: That of when it will start.
STARTS = "starts"


def decide(
    events: Sequence[Event], options: Options, now: float, drained: list[DrainPlan] | None = None
) -> Iterator[tuple[Decision, float]]:
    """Each decision with the milliseconds it took; ``drained`` as :func:`forecast` has it."""
    return timed(forecast(events, options, now, drained))


def timed(decisions: Iterator[Decision]) -> Iterator[tuple[Decision, float]]:
    """Each decision with the milliseconds it took."""
    while True:
        begun = time.perf_counter()
        decision = next(decisions, None)
        if decision is None:
            return
        yield decision, (time.perf_counter() - begun) * 1000


def _fault(blamed: Suspect, known: Known, error: Exception) -> Problem:
    """What is left out of the decisions, and why."""
    records = [event.record for event in map(known.get, blamed) if isinstance(event, Changed)]
    names = [f"{type(each).__name__} {getattr(each, 'key', each.name)}" for each in records]
    return Problem(file="", document=None, object=", ".join(names), field="", message=str(SchedulerError(error)))


def in_their_gangs(events: Iterable[Event], known: Mapping[str, Pod]) -> list[Event]:
    """The events with each pod in the gang that the scheduler counts it to, as it is ``known`` (by UID). The record of
    a pod does not say whether its owner is a gang.
    """
    return [_in_its_gang(event, known) for event in events]


def _in_its_gang(event: Event, known: Mapping[str, Pod]) -> Event:
    if not isinstance(event, Changed) or not isinstance(event.record, Pod):
        return event
    found = known.get(event.record.uid)
    if found is None or found.gang == event.record.gang:
        return event
    return Changed(msgspec.structs.replace(event.record, gang=found.gang))


class State:
    """Objects, options and a moment; ``decisions`` are what would be decided, each with the milliseconds it took, and
    ``drained`` who leaves before that because of a stopped queue. Unless it ``decides`` there are none of both: less is
    known than what a decision rests on. After so many ``seconds`` no further one is begun, and it is ``partial`` too.
    Where a scheduler ``leads``, what stands on the pods is how it is.
    """

    def __init__(
        self,
        events: Sequence[Event],
        options: Options,
        now: float,
        *,
        decides: bool = True,
        leads: bool = False,
        seconds: float = math.inf,
    ) -> None:
        self.events = list(events)
        self.options = options
        self.now = now
        self.drained: list[DrainPlan] = []
        self.partial = not decides
        self.leads = leads
        self.decisions: list[tuple[Decision, float]] = []
        #: The work on changed states so far, in steps: one for each record that is read again, each decision, each of
        #: its members and each step of its search.
        self.work = 0
        #: The objects over which the scheduler itself fails, which are left out, each with the error.
        self.faults: list[Problem] = []
        until = time.monotonic() + seconds
        known = Known()
        known.record(self.events)
        while True:
            scheduler = Scheduler(options)
            try:
                if decides:
                    self._decide(scheduler, until)
                else:
                    scheduler.handle(self.events, now)
                    self.scheduler = scheduler
                break
            except Exception as error:
                blamed = next(iter(suspects(error, scheduler, known, Unanswered(known))), ())
                left = [event for event in self.events if key_of(event) not in blamed]
                if len(left) == len(self.events) or len(self.faults) >= _MOST_FAULTS:
                    raise
                self.faults.append(_fault(blamed, known, error))
                self.events = left

    def drawn(self) -> list[Event]:
        """The objects for pictures and tables: each pod in the gang that the scheduler counts it to."""
        return in_their_gangs(self.events, self.world.pods)

    def _decide(self, scheduler: Scheduler, until: float) -> None:
        self.decisions.clear()
        self.drained.clear()
        scheduler.handle(self.events, self.now)  # it does not lead: nothing is finished, nor taken back
        for each in timed(foretell(scheduler, self.drained)):
            self.decisions.append(each)
            if time.monotonic() >= until:
                self.partial = True
                break

    @functools.cached_property
    def scheduler(self) -> Scheduler:
        """One that knows all of the objects. It does not lead: nothing is intended."""
        scheduler = Scheduler(self.options)
        scheduler.handle(self.events, self.now)
        return scheduler

    @property
    def world(self) -> World:
        """All that is known of the objects."""
        return self.scheduler.world

    def decision(self, gang: GangId) -> Decision | None:
        """The decision about a gang; None when none of its members is pending."""
        return next((d for d, _ in self.decisions if d.gang == gang), None)

    def milliseconds(self, decision: Decision) -> float:
        """How long a decision took."""
        return next(spent for d, spent in self.decisions if d is decision)

    # -- changed states ------------------------------------------------------------------------------------

    def if_it_stayed(self, pod: Pod, gang: GangId) -> Decision | None:
        """The decision about ``gang`` if this pod could not be evicted."""

        def stays(record: Record) -> Record:
            if not isinstance(record, Pod) or record.uid != pod.uid:
                return record
            return replace(record, labels={**record.labels, **_STAYS})

        return self._decided_with(gang, stays, self.options)

    def with_priority(self, gangs: Sequence[GangId], gang: GangId, priority: int) -> Decision | None:
        """The decision about ``gang`` if these gangs had this priority and were allowed to preempt."""
        members = {pod.uid for each in gangs for pod in self.world.membership.pods(each)}

        def raised(record: Record) -> Record:
            if isinstance(record, Pod) and record.uid in members:
                return replace(record, priority=priority, preemption_policy=PREEMPT_LOWER)
            if isinstance(record, Gang) and any((record.family, record.key) == (g.family, g.key) for g in gangs):
                own = None if record.priority is None else priority
                return replace(record, priority=own, preemption_policy=None)
            return record

        return self._decided_with(gang, raised, self.options)

    def changed(
        self, gang: GangId, change: Callable[[Record], Record | None], more: Sequence[Record] = ()
    ) -> Decision | None:
        """The decision about ``gang`` if each record were as ``change`` makes it (None: not there), with ``more``."""
        events = [_changed_to(event, change) for event in self.events]
        events += [Changed(record) for record in more]  # type: ignore[arg-type]  # records of the API
        return self._decided(gang, [event for event in events if event is not None], self.options, self.now)

    def at(self, gang: GangId, now: float) -> Decision | None:
        """The decision about ``gang`` at another moment, if nothing happens until then."""
        return self._decided(gang, self.events, self.options, now)

    def without_quota(self, gang: GangId) -> Decision | None:
        """The decision about the pods of ``gang`` if no queue limited anything: they may be in other gangs then."""
        members = {pod.key for pod in self.world.membership.pods(gang)}
        found = self._tried(self.events, replace(self.options, quota=False), self.now)
        return next((d for d in found if any(place.key in members for place in d.placements)), None)

    def without_foreign_filters(self, gang: GangId) -> tuple[Decision | None, list[str]]:
        """The decision about ``gang`` if no filter of others were asked, and which those are."""
        sets = {name: self.options.plugins_of(name) for name in self.options.scheduler_names}
        foreign = sorted({p.name for each in sets.values() for p in each.foreign if p.name in each.filters})
        if not foreign:
            return None, []
        own = {n: replace(s, filters=tuple(f for f in s.filters if f not in foreign)) for n, s in sets.items()}
        return self._decided(gang, self.events, replace(self.options, profiles=tuple(own.items())), self.now), foreign

    def without_patience(self, gang: GangId) -> Decision | None:
        """The decision about ``gang`` without waiting: no minimum run time, no preemption delay."""
        options = replace(self.options, minimum_run_time_seconds=0.0, preemption_delay_seconds=0.0)
        return self._decided_with(gang, _impatient, options)

    def _decided_with(self, gang: GangId, change: Callable[[Record], Record], options: Options) -> Decision | None:
        return self._decided(gang, [_changed(event, change) for event in self.events], options, self.now)

    def _decided(self, gang: GangId, events: Sequence[Event], options: Options, now: float) -> Decision | None:
        name = gang.namespace, gang.name
        return next((d for d in self._tried(events, options, now) if d.gang == gang or _key(d) == name), None)

    def _tried(self, events: Sequence[Event], options: Options, now: float) -> Iterator[Decision]:
        self.work += len(events)
        for decision in forecast(events, options, now):
            self.work += 1 + len(decision.placements) + len(decision.unplaced) + decision.steps
            yield decision


def _key(decision: Decision) -> tuple[str, str]:
    """A gang by owner may be another one without its queue, of the same name."""
    return (decision.gang.namespace, decision.gang.name) if decision.gang.family != SINGLE else ("", "")


def _changed_to(event: Event, change: Callable[[Record], Record | None]) -> Event | None:
    if not isinstance(event, Changed):
        return event
    record = change(event.record)
    return None if record is None else Changed(record)  # type: ignore[arg-type]  # the same kind of record


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


# -- in a sentence ----------------------------------------------------------------------------------------------


def can_start(decision: Decision) -> str:
    """When placed members can start; empty if none of them can."""
    match decision:
        case Fits():
            return "can start now"
        case FitsWhenFreed():
            leaving = len(decision.awaiting)
            pods = pluralize(leaving, "pod" if any(a.plan for a in decision.awaiting) else "terminating pod")
            return f"can start when {pods} {are(leaving)} gone"
        case Preempt():
            victims = len(decision.victims)
            text = f"can start after {pluralize(victims, 'pod')} {are(victims)} evicted"
            return f"{text}{beyond_budgets(decision.victims)}"
    return ""


def sentence(decision: Decision) -> str:
    """What is decided."""
    when = can_start(decision)
    if when:
        left = len(decision.unplaced)
        more = f"; {pluralize(left, 'more member')} cannot be placed" if left else ""
        return f"{pluralize(len(decision.placements), 'member')} {when}{more}"
    if isinstance(decision, Gathering):
        if decision.message:
            return decision.message
        found = len(decision.unplaced)
        missing = f": {found} of {pluralize(decision.required, 'pod')} exist" if found < decision.required else ""
        return f"the gang is not complete yet{missing}"
    if isinstance(decision, Unschedulable) and decision.failed_plugin == SCHEDULER:
        return "nothing can be decided: the scheduler itself fails over it"
    if isinstance(decision, Unschedulable) and decision.failed_plugin:
        return f"nothing can be decided while the plug-in {decision.failed_plugin} fails"
    if decision.headline:
        return decision.headline.why
    if decision.quota is not None and not decision.quota.flavors:
        return f"there is no quota for {_together(decision.required)}"
    if not decision.required:
        return "the gang has its minimum; further members do not fit"
    return f"does not fit: {_together(decision.required)}"


def word(decision: Decision) -> str:
    """The word that an answer begins with: never fits, not now and waits are three different things."""
    if isinstance(decision, Gathering):
        return answers.WAITS
    return decision.headline.word if decision.headline else decision.outcome


def _together(members: int) -> str:
    """So many pods of one gang."""
    return f"{pluralize(members, 'pod')}{' that must start together' if members > 1 else ''}"
