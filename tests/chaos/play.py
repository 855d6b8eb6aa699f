"""Plays a scenario: process after process of the real scheduler on the simulated cluster."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gangsched.cluster.sim import SimCluster, World
from gangsched.cluster.sim.arrival import arrivals
from gangsched.core.actions import Action
from gangsched.core.decision import Decision
from gangsched.core.events import Event
from gangsched.core.scheduler import Scheduler
from gangsched.runtime.loop import Observer, run_loop
from tests.chaos.scenario import MAX_WRITE_DELAY, Scenario
from tests.chaos.trouble import Crash

#: Long enough for every gang to be looked at again after the last trouble, and for stale marks to be taken back.
UNTIL_SECONDS = 420.0


class Played(msgspec.Struct):
    """A finished run. ``decisions`` are those of all processes; ``processes`` how many there were."""

    scenario: Scenario
    world: World
    decisions: list[Decision]
    processes: int


class _Mortal:
    """A connection that dies in the middle of what it was told to do."""

    def __init__(self, cluster: SimCluster, crash: Crash | None) -> None:
        self._cluster = cluster
        self._crash = crash
        self._left = crash.after_actions if crash is not None else 0

    @property
    def stopped(self) -> bool:
        """True when the loop must end."""
        return self._cluster.stopped

    def wait(self, until: float | None) -> tuple[float, list[Event]]:
        """As the connection itself."""
        return self._cluster.wait(until)

    def poll(self) -> tuple[float, list[Event]]:
        """As the connection itself."""
        return self._cluster.poll()

    def submit(self, actions: Sequence[Action]) -> None:
        """Start these actions, or as many of them as it lives to start."""
        if self._crash is None:
            self._cluster.submit(actions)
            return
        if self._left <= 0:
            return  # it is dead
        counted = [n for n, action in enumerate(actions, 1) if self._crash.counts(action)]
        last = counted[self._left - 1] if len(counted) >= self._left else len(actions)
        self._cluster.submit(actions[:last])
        self._left -= len(counted)
        if self._left <= 0:
            self._cluster.close(lose_writes=self._crash.lose_writes)


class _Listener(Observer):
    def __init__(self) -> None:
        self.decisions: list[Decision] = []

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        self.decisions.extend(decisions)


def play(scenario: Scenario) -> Played:
    """Run to the end: each process until it crashes, the last until nothing more happens."""
    world = World(arrivals(scenario.events), faults=scenario.faults)
    for trouble in scenario.troubles:
        act = trouble.act
        world.after(trouble.at_seconds, lambda act=act: act(world))  # type: ignore[misc]
    listener = _Listener()
    processes = 0
    for crash in (*scenario.crashes, None):
        processes += 1
        cluster = SimCluster(world, until_seconds=UNTIL_SECONDS)
        run_loop(Scheduler(scenario.options), _Mortal(cluster, crash), listener)
        over = cluster.quiet or world.clock.elapsed_seconds >= UNTIL_SECONDS
        cluster.close()
        if over or crash is None:
            break
        # A new leader waits until no write of the old one can arrive any more.
        world.clock.advance_to(world.clock.now + 2 * MAX_WRITE_DELAY + crash.down_seconds)
    world.clock.advance_to(world.clock.now + 2 * MAX_WRITE_DELAY)
    return Played(scenario, world, listener.decisions, processes)
