"""One scheduler process' connection to the simulated cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from gangsched.cluster.sim.store import describe
from gangsched.cluster.sim.world import World
from gangsched.core.actions import Action, GangStatus, Report
from gangsched.core.events import Event, LeadershipChanged, Synced, WriteDone

#: How long a simulation goes on when nothing else is said.
DEFAULT_UNTIL_SECONDS = 600.0
#: A scheduler that asks so often, and ten times more per pod, without anything happening or time passing will never
#: do anything else: in one moment it can decide every gang a few times, and no more.
_MAX_IDLE_CALLS = 1_000


class StuckError(RuntimeError):
    """The scheduler goes round and round in one moment of virtual time."""


class SimCluster:
    """The port (:class:`gangsched.cluster.port.Cluster`) on a :class:`World`.

    A new connection first sees all objects, then ``Synced`` and, unless ``leading`` is False, that it leads. It is
    stopped at ``until_seconds`` from the start of the world, when nothing more can happen, or by :meth:`close`
    (the process dies: nobody hears of the writes on their way, which take effect or are lost). Whoever connects
    another scheduler after that lets the clock pass by as long as a write may take, as a new leader does.
    """

    def __init__(self, world: World, *, until_seconds: float = DEFAULT_UNTIL_SECONDS, leading: bool = True) -> None:
        self.world = world
        self.until_seconds = until_seconds
        self.quiet = False
        self._end = world.clock.start + until_seconds
        self._inbox: list[Event] = [*world.store.listing(), Synced()]
        if leading:
            self._inbox.append(LeadershipChanged(True))
        self._stopped = False
        self._connected = True
        self._lose_writes = False
        self._last_of_kind: dict[str, float] = {}
        self._busy: dict[str, deque[Action]] = {}
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
        return self._take()

    def poll(self) -> tuple[float, list[Event]]:
        """What has arrived by now."""
        self.world.clock.run_due()
        return self._take()

    def submit(self, actions: Sequence[Action]) -> None:
        """Start these actions. Those on one pod follow each other, as they do on a real cluster: each is sent when the
        one before has been answered.
        """
        for action in actions:
            uid = "" if isinstance(action, Report | GangStatus) else action.pod.uid
            if uid in self._busy:
                self._busy[uid].append(action)
            else:
                self._send(action, uid)

    def _send(self, action: Action, uid: str) -> None:
        if uid:
            self._busy[uid] = deque()
        self.world.api.submit(action, self._answer, lambda: self._lose_writes, lambda: self._sent(uid))

    def _sent(self, uid: str) -> None:
        """A write to this pod is over: the next one may go, unless its sender has died."""
        waiting = self._busy.pop(uid, None)
        if waiting and self._connected:
            action = waiting.popleft()
            self._send(action, uid)
            self._busy[uid].extend(waiting)

    def close(self, *, lose_writes: bool = False) -> None:
        """End the connection. With ``lose_writes`` what has not reached the server by now never will."""
        if self._connected:
            self.world.store.unsubscribe(self._watch)
        self._connected = False
        self._stopped = True
        self._lose_writes = self._lose_writes or lose_writes
        self._inbox.clear()

    def _take(self) -> tuple[float, list[Event]]:
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
        clock = self.world.clock
        kind = describe(event)[0]
        moment = clock.now + self.world.timing.watch_seconds + self.world.faults.watch_delay_seconds(event)
        moment = self._last_of_kind[kind] = max(moment, self._last_of_kind.get(kind, moment))
        clock.at(moment, lambda: self._deliver(event))

    def _deliver(self, event: Event) -> None:
        if not self._stopped:
            self._inbox.append(event)
