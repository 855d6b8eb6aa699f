"""The simulated cluster: objects, time, kubelets and controllers, without any scheduler in it; and one scheduler
process' connection to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from gangsched.cluster.queue import Item, WriteQueue
from gangsched.cluster.sim.arrival import Arrival, created_at
from gangsched.cluster.sim.claims import ClaimController
from gangsched.cluster.sim.clock import Timing, VirtualClock
from gangsched.cluster.sim.controllers import (
    DisruptionController,
    PodGarbageCollector,
    VolumeController,
)
from gangsched.cluster.sim.faults import Faults, NoFaults
from gangsched.cluster.sim.history import CREATE, EXISTS, INPUT, USER, Cause, History
from gangsched.cluster.sim.job_controllers import JobController, JobSetController
from gangsched.cluster.sim.kubelet import Kubelet
from gangsched.cluster.sim.store import Store, describe
from gangsched.cluster.sim.writes import ApiServer
from gangsched.core.actions import Action, GangStatus, Write
from gangsched.core.events import Changed, Event, LeadershipChanged, ServerClock, Synced, WriteDone, record_of
from gangsched.model.devices import ResourceClaim
from gangsched.model.records import Pod
from gangsched.model.volumes import PersistentVolume, PersistentVolumeClaim

__all__ = ["Timing", "World"]


class World:
    """A cluster that lives on its virtual clock from ``start`` (seconds since the epoch) on.

    ``arrivals`` are its objects (:func:`gangsched.cluster.sim.arrival.arrivals` makes them of events); what arrives
    after 0 seconds is there before any scheduler connects. A scheduler connects with
    :class:`~gangsched.cluster.sim.world.SimCluster`; it may go away and another one come.
    """

    def __init__(
        self,
        arrivals: Sequence[Arrival],
        *,
        start: float = 0.0,
        timing: Timing | None = None,
        faults: Faults | None = None,
    ) -> None:
        self.timing = timing or Timing()
        self.faults: Faults = faults or NoFaults()
        self.clock = VirtualClock(start)
        self.history = History(self.clock)
        self.store = Store(self.history)
        self.kubelet = Kubelet(self.clock, self.store, self.timing)
        self.disruption = DisruptionController(self.clock, self.store, self.timing)
        self.pod_gc = PodGarbageCollector(self.clock, self.store, self.timing)
        self.job_controller = JobController(self.clock, self.store, self.timing)
        self.jobset_controller = JobSetController(self.clock, self.store, self.timing, self.job_controller)
        self.volume_controller = VolumeController(self.clock, self.store, self.timing)
        self.claim_controller = ClaimController(self.clock, self.store, self.timing)
        self.api = ApiServer(self.clock, self.store, self.history, self.timing, self.faults)
        for after_seconds, event in arrivals:
            if after_seconds <= 0:
                self.apply(event, Cause(INPUT, EXISTS))
            else:
                self.create_after(after_seconds, event)
        self.disruption.catch_up()

    @classmethod
    def of(cls, events: Iterable[Event], *, start: float = 0.0) -> World:
        """A world in which everything is there from the start."""
        return cls([Arrival(0.0, event) for event in events], start=start)

    def apply(self, event: Event, cause: Cause | None = None) -> bool:
        """Make a change now, as a user would; see :meth:`Store.apply`."""
        return self.store.apply(with_uid(event), cause or Cause(USER, CREATE))

    def create_after(self, seconds: float, event: Event) -> None:
        """Create (or change, or remove) an object ``seconds`` from now; its creation time is that moment."""

        def create() -> None:
            self.apply(created_at(event, self.clock.stamp))

        self.clock.after(seconds, create)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Let something else happen ``seconds`` from now: another scheduler binds, a node goes away."""
        self.clock.after(seconds, action)


def with_uid(event: Event) -> Event:
    """A pod, claim or volume without a UID gets one that follows from its name, because actions name UIDs."""
    record = record_of(event)
    if isinstance(record, Pod) and not record.uid:
        return Changed(msgspec.structs.replace(record, uid=f"sim:{record.key}"))
    if isinstance(record, PersistentVolume | PersistentVolumeClaim | ResourceClaim) and not record.uid:
        kind, name, _ = describe(event)
        return Changed(msgspec.structs.replace(record, uid=f"sim:{kind}/{name}"))
    return event


#: How long a simulation lasts by default.
DEFAULT_UNTIL_SECONDS = 600.0
#: A scheduler that polls so often, and ten times more per pod, without an event or passing time is in an endless loop:
#: in one moment it decides every gang only a few times.
_MAX_IDLE_CALLS = 1_000
#: A simulated API server is never too busy for what people read.
_UNLIMITED = 2**31


class StuckError(RuntimeError):
    """The scheduler goes round and round in one moment of virtual time."""


class SimCluster:
    """The port (:class:`gangsched.cluster.port.Cluster`) on a :class:`World`.

    A new connection first sees all objects, then ``Synced`` and, unless ``leading`` is False, that it leads. It stops
    at ``until_seconds`` from the start of the world, after ``most_changes`` of the cluster, when nothing more can
    happen, or by :meth:`close`. After that the process is dead: answers are lost, and writes in flight take effect or
    not. Before another scheduler connects, the clock must advance by the longest time of a write, as for a new leader.
    """

    def __init__(
        self,
        world: World,
        *,
        until_seconds: float = DEFAULT_UNTIL_SECONDS,
        leading: bool = True,
        most_changes: int | None = None,
    ) -> None:
        self.world = world
        self.until_seconds = until_seconds
        self.quiet = False
        #: How many further changes of the cluster are played; None: any number.
        self.changes_left = most_changes
        self._end = world.clock.start + until_seconds
        ahead = world.clock.server_ahead_seconds
        self._inbox: list[Event] = [*world.store.listing(), *([ServerClock(ahead)] if ahead else []), Synced()]
        if leading:
            self._inbox.append(LeadershipChanged(True))
        self._stopped = False
        self._connected = True
        self._lose_writes = False
        self._last_of_kind: dict[str, float] = {}
        self._queue = WriteQueue(most=_UNLIMITED, low_in_flight=_UNLIMITED, busy_writes=_UNLIMITED)
        self._idle_calls = 0
        self._last_call_at = world.clock.now
        world.store.subscribe(self._watch)

    @property
    def stopped(self) -> bool:
        """True when the loop must end."""
        return self._stopped

    def wait(self, until: float | None) -> tuple[float, list[Event]]:
        """Let virtual time pass until something arrives, ``until`` has come, or the simulation is over."""
        clock = self.world.clock
        clock.run_due()
        limit = self._end if until is None else min(until, self._end)
        while not (self._inbox or self._stopped) and clock.next_at is not None and clock.next_at <= limit:
            clock.advance_to_next()
        if not (self._inbox or self._stopped):
            if until is None and clock.next_at is None:
                self.quiet = self._stopped = True
            else:
                clock.advance_to(limit)
                if clock.now >= self._end:
                    self._stopped = True
        return self._delivered_events()

    def poll(self) -> tuple[float, list[Event]]:
        """The events that have arrived by now."""
        self.world.clock.run_due()
        return self._delivered_events()

    def submit(self, actions: Sequence[Action]) -> None:
        """Start these actions, through the same queue as on a real cluster."""
        for action in actions:
            if isinstance(action, GangStatus):
                self.world.api.submit(action, self._answer, lambda: self._lose_writes)
                continue
            for late in self._queue.put(action, self.world.clock.now):
                verdict = self.world.api.not_sent(late.action)
                if isinstance(late.action, Write):
                    self._answer(WriteDone(late.action.id, verdict.outcome, verdict.message))
            self._send()

    def _send(self) -> None:
        """The writes that may be sent now."""
        while self._connected and (item := self._queue.next_write(self.world.clock.now)) is not None:
            self.world.api.submit(item.action, self._answer, lambda: self._lose_writes, partial(self._answered, item))

    def _answered(self, item: Item) -> None:
        self._queue.done(item, self.world.clock.now)
        self._send()

    def close(self, *, lose_writes: bool = False) -> None:
        """End the connection. With ``lose_writes`` what has not reached the server by now never will."""
        if self._connected:
            self.world.store.unsubscribe(self._watch)
        self._connected = False
        self._stopped = True
        self._lose_writes = self._lose_writes or lose_writes
        self._inbox.clear()

    def _delivered_events(self) -> tuple[float, list[Event]]:
        events, self._inbox = self._inbox, []
        now = self.world.clock.now
        self._idle_calls = 0 if events or now > self._last_call_at else self._idle_calls + 1
        self._last_call_at = now
        if self._idle_calls > _MAX_IDLE_CALLS + 10 * len(self.world.store.pods):
            raise StuckError(f"the scheduler is busy without end at {self.world.clock.elapsed_seconds:g} s")
        return now, events

    def _answer(self, done: WriteDone) -> None:
        if not self._stopped:
            self._inbox.append(done)

    def _watch(self, event: Event, old: Any) -> None:
        """A change is seen a little later; changes of one kind are seen in their order, as in a watch."""
        if self.changes_left is not None:
            self.changes_left = max(0, self.changes_left - 1)
            self._stopped = self._stopped or not self.changes_left
        clock = self.world.clock
        kind = describe(event)[0]
        moment = clock.now + self.world.timing.watch_seconds + self.world.faults.watch_delay_seconds(event)
        moment = self._last_of_kind[kind] = max(moment, self._last_of_kind.get(kind, moment))
        clock.at(moment, lambda: self._deliver(event))

    def _deliver(self, event: Event) -> None:
        if not self._stopped:
            self._inbox.append(event)
