"""Shadow mode: what this scheduler would decide for the pods of another one, beside what that one does with them.

The other scheduler continues to act, so no decision made here lasts. In each round, all pending gangs are decided one
after another on the observed cluster, as by ``gangsched plan``. Then the intentions of the round are dropped, and the
next round starts from the real cluster.

One thing may not be seen too early: what the other scheduler did *for a gang* before that gang was decided here. It
binds and evicts within milliseconds, and on a cluster where that is done there is nothing left to decide. So bindings
and preemptions by it are held back until the round that decides the pods which they may be for; then reality wins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from gangsched.core.actions import Action
from gangsched.core.decision import Decision, Gathering
from gangsched.core.events import Changed, Event, Gone, LeadershipChanged, SearchCancelled, Synced
from gangsched.core.forecast import foretell
from gangsched.core.lifecycle.group import Group
from gangsched.core.options import Options
from gangsched.core.planning.contained import Fault
from gangsched.core.scheduler import Lasting, Scheduler
from gangsched.model.records import Pod
from gangsched.runtime.shadow_figures import Comparison

#: Between two rounds passes so much time (seconds), and as much as the last one took.
REST_SECONDS = 1.0
#: Without any event what waits is decided again after so long: time alone may help it.
AGAIN_SECONDS = 30.0
#: So long a gang that is not complete holds back what the other scheduler does.
PATIENCE_SECONDS = 30.0


class _Held(NamedTuple):
    """What is known of a pod, and not shown yet: since ``at``. A binding waits for the decision about its pod, a
    preemption for those about pods that are stronger than ``victim_of``.
    """

    event: Event
    at: float
    victim_of: int | None


class Shadow:
    """A core for :func:`gangsched.runtime.loop.run_loop` that asks for nothing, ever: it returns no actions.

    ``options.scheduler_names`` are those of the other scheduler. Real events and decisions go to ``comparison``.
    """

    def __init__(self, options: Options, comparison: Comparison, lasting: Lasting | None = None) -> None:
        wanted = msgspec.structs.replace(options, wait_for_leadership=True, guarded_names=(), leased_names=())
        self.scheduler = Scheduler(wanted, lasting)
        self.world = self.scheduler.world
        self.comparison = comparison
        self._names = frozenset(options.scheduler_names)
        self._synced = False
        self._undecided: dict[str, float] = {}
        self._held: dict[str, _Held] = {}
        self._late: list[Event] = []
        self._round: Iterator[Decision] | None = None
        self._began = 0.0
        self._news = False
        self._rests_until = self._look_again_at = 0.0
        self._fresh: list[Decision] = []

    # -- as the loop has it --------------------------------------------------------------------------------

    def handle(self, events: Sequence[Event], now: float) -> list[Action]:
        """Take in what has really happened. See :class:`gangsched.runtime.loop.Core`."""
        seen = [event for event in events if not isinstance(event, LeadershipChanged)]
        self._synced = self._synced or any(isinstance(event, Synced) for event in seen)
        for event in seen:
            self.comparison.happened(event, self._known(event), now, first=not self._synced)
        if self._round is not None:
            self._late.extend(seen)
        else:
            self._take_in(seen, now)
        return []

    def has_work(self, now: float) -> bool:
        """True while a round is under way, and when it is time for one."""
        if self._round is not None:
            return True
        due = self._news or now >= self._look_again_at
        return self._synced and due and now >= self._rests_until

    def decide(self, now: float) -> list[Action]:
        """Decide one gang of the round."""
        if self._round is None:
            self._round, self._began, self._news = foretell(self.scheduler), now, False
            self.comparison.begins(now)
        decision = next(self._round, None)
        if decision is None:
            self._end_round(now)
            return []
        self.comparison.decided(decision, self.world, self._began)
        if not isinstance(decision, Gathering):
            for pod in self.world.membership.known_pods(decision.gang):
                self._undecided.pop(pod.uid, None)
        self._fresh.append(decision)
        return []

    def wake_at(self) -> float | None:
        """When the next round is due."""
        if not self._synced:
            return None
        return self._rests_until if self._news else max(self._rests_until, self._look_again_at)

    def next_gang(self) -> str:
        """Which gang is next is known when it is decided."""
        return ""

    def drain_decisions(self) -> list[Decision]:
        """See :class:`gangsched.runtime.loop.Core`."""
        out, self._fresh = self._fresh, []
        return out

    def drain_faults(self) -> list[Fault]:
        """See :class:`gangsched.runtime.loop.Core`."""
        return self.scheduler.drain_faults()

    def cancelled(self) -> SearchCancelled | None:
        """See :class:`gangsched.runtime.loop.Core`."""
        return self.scheduler.cancelled() if self._fresh else None

    @property
    def busy_with(self) -> Event | Group | None:
        """See :class:`gangsched.runtime.boundary.Inner`."""
        return self.scheduler.busy_with

    @property
    def waits(self) -> bool:
        """See :class:`gangsched.runtime.loop.Core`."""
        return False

    def others(self) -> dict[str, int]:
        """How many pods that wait are of which other scheduler names."""
        pods = self.world.pods.values()
        return dict(Counter(p.scheduler for p in pods if p.live and not p.node and p.scheduler not in self._names))

    # -- rounds --------------------------------------------------------------------------------------------

    def _end_round(self, now: float) -> None:
        began, self._round = self._began, None
        self.scheduler.handle([LeadershipChanged(False)], now)  # nothing of it is intended any more
        self.comparison.ends(self.world, began, now)
        released = [uid for uid, held in self._held.items() if self._may_be_shown(uid, held, now)]
        events = [self._held.pop(uid).event for uid in released]
        late, self._late = self._late, []
        self._rests_until = now + max(REST_SECONDS, now - began)
        self._look_again_at = now + AGAIN_SECONDS
        self._show(events, now)
        self._take_in(late, now)

    def _may_be_shown(self, uid: str, held: _Held, now: float) -> bool:
        """Return whether the pods have been decided that a binding or a preemption by the other may be for."""
        if held.victim_of is None:
            return uid not in self._undecided or self._undecided[uid] <= now - PATIENCE_SECONDS
        pods, earliest = self.world.pods, now - PATIENCE_SECONDS
        return not any(
            earliest < since <= held.at and uid in pods and pods[uid].priority > held.victim_of
            for uid, since in self._undecided.items()
        )

    # -- what is shown -------------------------------------------------------------------------------------

    def _known(self, event: Event) -> Pod | None:
        """The pod as it was known before, if the event is about one."""
        match event:
            case Changed(Pod() as pod):
                return self.world.pods.get(pod.uid)
            case Gone("Pod", _, _, uid):
                return self.world.pods.get(uid)
        return None

    def _take_in(self, events: Sequence[Event], now: float) -> None:
        shown: list[Event] = []
        pending: set[str] = set()  # of these events
        for event in events:
            uid = _uid_of(event)
            if uid in self._held:
                self._held[uid] = self._held[uid]._replace(event=event)
            elif isinstance(event, Changed) and isinstance(event.record, Pod):
                pod = event.record
                held = self._held_back(pod, pending, now)
                if held is not None:
                    self._held[uid] = held
                    self._news = True
                    continue
                if pod.scheduler in self._names and not pod.node and pod.live:
                    pending.add(uid)
                    if uid not in self.world.pods:
                        self._undecided[uid] = now
                shown.append(event)
            else:
                self._undecided.pop(uid, None)
                shown.append(event)
        self._show(shown, now)

    def _held_back(self, pod: Pod, pending: set[str], now: float) -> _Held | None:
        """What is not shown yet of a pod, if that is an act of the other scheduler."""
        before = self.world.pods.get(pod.uid)
        waited = pod.uid in pending or (before is not None and not before.node)
        if pod.scheduler in self._names and pod.node and waited:
            return _Held(Changed(pod), now, None)
        if before is not None and before.bound and self.comparison.preempted(pod):
            return _Held(Changed(pod), now, pod.priority)
        return None

    def _show(self, events: Sequence[Event], now: float) -> None:
        """The pods of the other scheduler are as if it had chosen no node for them."""
        self._news = self._news or bool(events)
        self.scheduler.handle([self._without_choice(event) for event in events], now)

    def _without_choice(self, event: Event) -> Event:
        if isinstance(event, Changed) and isinstance(event.record, Pod):
            pod = event.record
            if pod.nominated_node and pod.scheduler in self._names:
                return Changed(msgspec.structs.replace(pod, nominated_node=""))
        return event


def _uid_of(event: Event) -> str:
    match event:
        case Changed(Pod(uid=uid)) | Gone("Pod", uid=uid):
            return uid
    return ""
