"""One scheduler process' connection to the simulated cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from gangsched.cluster.sim.store import describe
from gangsched.cluster.sim.world import World
from gangsched.core.actions import Action, GangStatus, Recall, Removal, Report, Sent
from gangsched.core.events import Event, LeadershipChanged, ServerClock, Synced, WriteDone

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
        ahead = world.clock.server_ahead_seconds
        self._inbox: list[Event] = [*world.store.listing(), *([ServerClock(ahead)] if ahead else []), Synced()]
        if leading:
            self._inbox.append(LeadershipChanged(True))
        self._stopped = False
        self._connected = True
        self._lose_writes = False
        self._last_of_kind: dict[str, float] = {}
        self._busy: dict[str, deque[Sent]] = {}
        self._removals: dict[int, Callable[[], None]] = {}
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
            if isinstance(action, Recall):
                self._recall(action)
                continue
            uid = "" if isinstance(action, Report | GangStatus) else action.pod.uid
            if uid in self._busy:
                self._busy[uid].append(action)
            else:
                self._send(action, uid)

    def _send(self, action: Sent, uid: str) -> None:
        if uid:
            self._busy[uid] = deque()
        recall = self.world.api.submit(action, self._answer, lambda: self._lose_writes, lambda: self._sent(action, uid))
        if isinstance(action, Removal):
            self._removals[action.id] = recall

    def _recall(self, action: Recall) -> None:
        """Removals that have not been sent are not sent any more."""
        for action_id in action.ids:
            if (recall := self._removals.get(action_id)) is not None:
                recall()
        for uid, waiting in self._busy.items():
            for late in [each for each in waiting if isinstance(each, Removal) and each.id in action.ids]:
                self._busy[uid].remove(late)
                verdict = self.world.api.recalled(late)
                self._answer(WriteDone(late.id, verdict.outcome, verdict.message))

    def _sent(self, action: Sent, uid: str) -> None:
        """A write to this pod is over: the next one may go, unless its sender has died."""
        if isinstance(action, Removal):
            self._removals.pop(action.id, None)
        waiting = self._busy.pop(uid, None)
        if waiting and self._connected:
            following = waiting.popleft()
            self._send(following, uid)
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
