"""The boundary around the core: an exception that leaves it ends neither the process nor its leadership.

The core is a function of the events that it has taken in. So one that has failed is discarded, and a new one is built
from the last event of each object, as after a take-over. What it failed over is quarantined
(:mod:`gangsched.runtime.quarantine`): the object of the event, the pod of the answer, the gang of the decision.
Otherwise the frames of the exception may name the object. If not, the events are replayed in halves until the object is
found.

A core that is not within a boundary raises its errors: so tests run it.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Collection, Hashable, Sequence
from contextlib import suppress
from functools import partial
from typing import Generic, Protocol, TypeVar, cast

from gangsched.core.actions import Action, SetCondition, Unmark, WithdrawNomination, reference
from gangsched.core.decision import Decision
from gangsched.core.events import Changed, Event, LeadershipChanged, Quarantined, SearchCancelled, Synced, WriteDone
from gangsched.core.keys import key_of, key_of_record
from gangsched.core.lifecycle.group import Group
from gangsched.core.lifecycle.report import SCHEDULER_ERROR, event, group_reference
from gangsched.core.planning.contained import Fault, SchedulerError, place_of
from gangsched.core.scheduler import Lasting, Scheduler
from gangsched.core.world.world import World
from gangsched.messages import invalid, quarantine
from gangsched.model.records import Pod
from gangsched.model.times import render_time
from gangsched.runtime.behind_faults import behind
from gangsched.runtime.culprits import Suspect, suspects
from gangsched.runtime.held_back import HeldBack
from gangsched.runtime.known import Known
from gangsched.runtime.loop import Core, Rebuilt
from gangsched.runtime.namespace_pauses import NamespacePauses
from gangsched.runtime.quarantine import Quarantine
from gangsched.runtime.unanswered import Unanswered

#: More rebuilds without a culprit within this time (seconds) end the process: then it is not one object.
REBUILDS, WITHIN_SECONDS = 5, 600.0
#: So many objects are quarantined over one failure before the process ends.
_MOST_TRIES = 12
#: So many suspects are left out of a trial each, before the events are replayed in halves.
_MOST_TRIALS = 3
#: So many pods of a gang get a condition that says why it is quarantined.
_MOST_TOLD = 100
#: Events that say how this process stands.
_CONTROL = frozenset({Quarantined, LeadershipChanged, Synced})

#: The step of the core that failed.
EVENT, ANSWER, TIME, DECIDING, ASKED = "event", "answer", "time", "decision", "question"


class Inner(Core, Protocol):
    """A core that can be replaced by another one."""

    @property
    def world(self) -> World:
        """What it knows of the cluster."""

    @property
    def busy_with(self) -> Event | Group | None:
        """The event that it applies, or the group that it decides."""


C = TypeVar("C", bound=Inner)


class Boundary(Generic[C]):
    """A :class:`~gangsched.runtime.loop.Core` that replaces the core that it contains when that one fails.

    ``make`` makes a core that goes on with what lasts. ``answered``: the cluster answers writes (a dry run
    does not). ``leads_by_itself``: the core acts without a LeadershipChanged. ``on_rebuild`` gets each rebuild,
    ``quarantined`` all that is quarantined when that changes.
    """

    def __init__(
        self,
        make: Callable[[Lasting], C],
        *,
        answered: bool = True,
        leads_by_itself: bool = False,
        on_rebuild: Callable[[Rebuilt], None] = lambda _: None,
        quarantined: Callable[[Sequence[Quarantined]], None] = lambda _: None,
    ) -> None:
        self._make = make
        self.lasting = Lasting()
        self._on_rebuild = on_rebuild
        self._answered = answered
        self.known = Known()
        self.quarantine = Quarantine(self.known, quarantined)
        self._writes = Unanswered(self.known)
        self._core = make(self.lasting)
        self._synced = False
        self._leading = leads_by_itself
        self._without_culprit: deque[float] = deque()
        self._now = 0.0
        self._later: list[Action] = []  # what follows from a rebuild that a question has made necessary
        self._untold: list[tuple[Hashable, Quarantined]] = []
        self._pauses = NamespacePauses()
        self._held_back = HeldBack(self.known)
        self._doubts: dict[str, Fault] = {}  # by namespace, what may have left the core with half a change

    @property
    def core(self) -> C:
        """The core that decides now."""
        return self._core

    # -- as the loop has it --------------------------------------------------------------------------------

    def handle(self, events: Sequence[Event], now: float) -> list[Action]:
        """See :class:`gangsched.runtime.loop.Core`."""
        self._now = now
        control = not _CONTROL.isdisjoint(map(type, events))
        shown: Sequence[Event] = self._held_back.shown(events, now) if self._held_back else events
        if control or self.quarantine:
            shown = self.quarantine.shown(shown, now, listing=not self._synced)
        self.known.record(events)
        waited = self._writes.waits
        self._writes.answered(events, now)
        if control:
            self._stands(events)
        if waited:
            shown = self._with_lead(shown)
        try:
            actions = self._core.handle(shown, now)
        except Exception as error:  # noqa: BLE001 - this is the boundary
            actions = self._recover(error, TIME, now)
        return self._out(actions, now)

    def has_work(self, now: float) -> bool:
        """See :class:`gangsched.runtime.loop.Core`."""
        self._now = now
        self._renew_if_due()
        try:
            return bool(self._later) or self._core.has_work(now)
        except Exception as error:  # noqa: BLE001 - this is the boundary
            self._later = self._recover(error, ASKED, now)
            return True

    def decide(self, now: float) -> list[Action]:
        """See :class:`gangsched.runtime.loop.Core`."""
        if self._later:
            actions, self._later = self._later, []
            return self._out(actions, now)
        gang = ""
        try:
            gang = self._core.next_gang() if self.quarantine else ""
            actions = self._core.decide(now)
        except Exception as error:  # noqa: BLE001 - this is the boundary
            actions = self._recover(error, DECIDING, now)
        else:
            if gang:
                self.quarantine.decided(gang)
        return self._out(actions, now)

    def wake_at(self) -> float | None:
        """See :class:`gangsched.runtime.loop.Core`."""
        try:
            wake_at = self._core.wake_at()
        except Exception as error:  # noqa: BLE001 - this is the boundary
            self._later = self._recover(error, ASKED, self._now)
            return self._now
        moments = [wake_at, self._writes.until(), self.quarantine.next_at() if self.quarantine else None]
        moments += [min(map(self._pauses.until, self._doubts), default=None), self._held_back.next_at()]
        return min((moment for moment in moments if moment is not None), default=None)

    def next_gang(self) -> str:
        """See :class:`gangsched.runtime.loop.Core`."""
        with suppress(Exception):  # decide() fails in the same way
            return "" if self._later else self._core.next_gang()
        return ""

    def drain_decisions(self) -> list[Decision]:
        """See :class:`gangsched.runtime.loop.Core`."""
        return self._core.drain_decisions()

    def drain_faults(self) -> list[Fault]:
        """See :class:`gangsched.runtime.loop.Core`."""
        faults = self._core.drain_faults()
        for fault in faults:
            self._doubts.setdefault(fault.gangs[0].namespace if fault.gangs else "", fault)
        if faults:
            self._renew_if_due()
        return [Fault(each.gang, each.error, each.trace) for each in faults]

    def cancelled(self) -> SearchCancelled | None:
        """See :class:`gangsched.runtime.loop.Core`."""
        return self._core.cancelled()

    @property
    def waits(self) -> bool:
        """See :class:`gangsched.runtime.loop.Core`."""
        return self._writes.waits

    # -- what it stands on ---------------------------------------------------------------------------------

    def _stands(self, events: Sequence[Event]) -> None:
        for each in events:
            if isinstance(each, Synced):
                self._synced = True
                self.quarantine.forget_deleted()
            elif isinstance(each, LeadershipChanged):
                self._leading = each.leading
                self._writes.forget()

    def _with_lead(self, shown: Sequence[Event]) -> Sequence[Event]:
        """These events; the core leads again if there is nothing to wait for any more."""
        leads = self._leading and not self._writes.waits
        return [*shown, LeadershipChanged(True)] if leads else shown

    @property
    def _acts(self) -> bool:
        return self._synced and self._leading and not self._writes.waits

    def _out(self, actions: list[Action], now: float) -> list[Action]:
        """These actions with the reports of what is quarantined."""
        if self._untold and self._acts:
            untold, self._untold = self._untold, []
            for key, about in untold:
                with suppress(Exception):  # it may fail over the report of an object, too
                    actions = [*actions, *self._reports(key, about)]
        self._writes.asked(actions)
        return actions

    # -- when the core has failed --------------------------------------------------------------------------

    def _recover(self, error: Exception, where: str, now: float) -> list[Action]:
        """Replace the core; what follows from that. Raises the error where there is no way to go on."""
        first, trace, busy = error, "".join(traceback.format_exception(error)), self._core.busy_with
        if self._answered:
            self._writes.begin()
        where, guessed = self._where(where), busy is None
        entries, untold = self.quarantine.saved(), [*self._untold]
        found = suspects(error, self._core, self.known, self._writes)
        culprits = self._put(next((each for each in found if self._can_take(each, now)), ()), error, now)
        for _ in range(_MOST_TRIES):
            try:
                actions = self._rebuild(now)
                break
            except Exception as again:
                if guessed:  # a new core fails all the same: it can be found out who is to blame
                    self.quarantine.restore(entries)
                    guessed, self._untold, culprits = False, untold, []
                found = self._proved(again, now)
                if not found:
                    raise again from first
                culprits += self._put(found[0], again, now)
        else:
            raise first
        if not culprits and not isinstance(busy, Event):
            self._count_without_culprit(first, now)
        if isinstance(busy, Event):
            self._held_back.failed(busy, now, found=bool(culprits))
        self._on_rebuild(Rebuilt(where, str(SchedulerError(first)), trace, tuple(dict.fromkeys(culprits))))
        return actions

    def _proved(self, error: Exception, now: float) -> list[Suspect]:
        """The suspect without whom a new core does not fail, after one has failed with this error; none if there is
        no such.
        """
        found = [s for s in suspects(error, self._core, self.known, self._writes) if self._can_take(s, now)]
        if self._core.busy_with is not None and found:
            return found[:1]
        lead = self._lead()
        for each in found[:_MOST_TRIALS]:
            if not self._fails([*self.quarantine.everything(without=frozenset(each)), *lead], now):
                return [each]
        return self._replayed(lead, now)

    def _fails(self, events: Sequence[Event], now: float) -> bool:
        core = self._make(self.lasting)
        try:
            core.handle(events, now)
            core.has_work(now)
        except Exception:  # noqa: BLE001 - as above
            return True
        return False

    def _renew_if_due(self) -> None:
        """Replace a core of which a question has failed: it may have been left with half a change. For one namespace
        that is done ever less often.
        """
        due = [namespace for namespace in self._doubts if self._pauses.until(namespace) <= self._now]
        if not due:
            return
        faults = [self._doubts.pop(namespace) for namespace in due]
        culprits = [name for fault in faults for name in self._put_behind(fault)]
        for namespace in due:
            self._pauses.begin(namespace, self._now, found=bool(culprits))
        first = faults[0]
        if self._answered:
            self._writes.begin()
        try:
            actions = self._rebuild(self._now)
        except Exception as error:  # noqa: BLE001 - this is the boundary
            actions = self._recover(error, DECIDING, self._now)
        else:
            names = tuple(dict.fromkeys(culprits)) or tuple(fault.gang for fault in faults)
            self._on_rebuild(Rebuilt(DECIDING, first.error, first.trace, names))
        self._later = [*self._later, *actions]

    def _put_behind(self, fault: Fault) -> list[str]:
        """If another object is to blame for a failed decision than the gang, quarantine that; returns its name."""
        core = self._core
        if not isinstance(core, Scheduler):
            return []
        with suppress(Exception):  # else the gang waits as before
            make = cast("Callable[[], Scheduler]", partial(self._make, self.lasting))
            found = behind(fault, core, self.known, self.quarantine.everything(), make, self._now)
            return self._put(found, fault.cause or RuntimeError(), self._now)
        return []

    def _can_take(self, suspect: Suspect, now: float) -> bool:
        return any(self.quarantine.can_take(key, now) for key in suspect)

    def _where(self, where: str) -> str:
        busy = self._core.busy_with
        if busy is None or isinstance(busy, Group):
            return where
        return ANSWER if isinstance(busy, WriteDone) else EVENT

    def _put(self, suspect: Suspect, error: Exception, now: float) -> list[str]:
        """Quarantine these; returns their names."""
        why = invalid.scheduler_failed(place=place_of(error), words=type(error).__name__)
        names = []
        for key in (each for each in suspect if self.quarantine.can_take(each, now)):
            about = self.quarantine.put(key, why, now)
            if about is not None:
                self._untold.append((key, about))
                names.append(f"{about.kind} {about.namespace}/{about.name}" if about.kind else about.name)
        return names

    def _rebuild(self, now: float) -> list[Action]:
        self._core = self._make(self.lasting)
        actions = self._core.handle([*self.quarantine.everything(), *self._lead()], now)
        self._core.has_work(now)  # it may fail over the same question again
        return actions

    def _lead(self) -> list[Event]:
        """How this process stands, as a new core learns it."""
        return [LeadershipChanged(self._leading and not self._writes.waits), *([Synced()] if self._synced else [])]

    def _count_without_culprit(self, error: Exception, now: float) -> None:
        times = self._without_culprit
        times.append(now)
        while times[0] < now - WITHIN_SECONDS:
            times.popleft()
        if len(times) > REBUILDS:
            raise error

    def _replayed(self, lead: Sequence[Event], now: float) -> list[Suspect]:
        """The object of the first event with which a new core fails; none if it does not fail, or without any event.

        The events of the last change come last, so the search begins there: without the last one, the last two, …
        """
        events = self.quarantine.everything()

        def fails(count: int) -> bool:
            return self._fails([*events[:count], *lead], now)

        fails_with, step = len(events), 1
        if not fails(fails_with):
            return []
        passes_with = max(0, fails_with - step)
        while fails(passes_with):
            if not passes_with:
                return []
            fails_with, step = passes_with, 2 * step
            passes_with = max(0, fails_with - step)
        while fails_with - passes_with > 1:
            middle = (passes_with + fails_with) // 2
            if fails(middle):
                fails_with = middle
            else:
                passes_with = middle
        key = key_of(events[fails_with - 1])
        return [(key,)] if key is not None and self.quarantine.can_take(key, now) else []

    # -- messages for the owner -----------------------------------------------------------------------------

    def _reports(self, key: Hashable, about: Quarantined) -> list[Action]:
        """The Event on what is quarantined, and what is to be taken off its pods."""
        note = quarantine.event(why=about.why, time=render_time(self.quarantine.until(about)))
        ours = self._core.world.membership.ours
        if not about.kind:
            names = set(about.name.split(","))
            members = [p for p in self._core.world.pods.values() if p.gang.key in names and _waits(p, ours)]
            shown = [self.known.get(key_of_record(pod)) for pod in members]
            pods = [each.record for each in shown if isinstance(each, Changed) and isinstance(each.record, Pod)]
            conditions = [SetCondition(reference(pod), SCHEDULER_ERROR, note) for pod in pods[:_MOST_TOLD]]
            return [*conditions, *(event(reference(pod), SCHEDULER_ERROR, note) for pod in pods[:1])]
        known = self.known.get(key)
        if not (isinstance(known, Changed) and isinstance(known.record, Pod)):
            kind, _, group = about.kind.partition(".")
            regarding = group_reference(group, kind, about.namespace, about.name, about.uid)
            return [event(regarding, SCHEDULER_ERROR, note)]
        pod, ref = known.record, reference(known.record)
        out: list[Action] = [event(ref, SCHEDULER_ERROR, note)]
        if _waits(pod, ours):
            out.append(SetCondition(ref, SCHEDULER_ERROR, note))
            if pod.on_record:
                out.append(
                    WithdrawNomination(next(self.lasting.ids.writes), ref, SCHEDULER_ERROR, quarantine.WITHDRAWN)
                )
        elif pod.live and pod.evicted_for is not None and pod.evicted_for.status == "True":
            out.append(Unmark(next(self.lasting.ids.writes), ref, quarantine.SPARED))
        return out


def _waits(pod: Pod, ours: Collection[str]) -> bool:
    return pod.live and not pod.node and pod.scheduler in ours
