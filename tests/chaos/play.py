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
from tests.chaos.told import Batch
from tests.chaos.trouble import Crash

#: Long enough for every gang to be looked at again after the last trouble, and for stale marks to be taken back.
UNTIL_SECONDS = 420.0
#: Between a decision and its effect pass at most a watch delay and a write delay, each with its answer.
RACE_SECONDS = 4 * MAX_WRITE_DELAY


class Played(msgspec.Struct):
    """A finished run. ``decisions`` are those of all processes; ``processes`` how many there were; ``batches`` what
    these were told and asked for.
    """

    scenario: Scenario
    world: World
    decisions: list[Decision]
    processes: int
    batches: list[Batch] = []


class Mortal:
    """A connection that dies in the middle of what it was told to do: of the first of these crashes whose time comes.

    ``died_of`` is that crash; None while it lives. ``batches`` gets all that passes, as that of this ``process``.
    """

    def __init__(
        self, cluster: SimCluster, crashes: Sequence[Crash], batches: list[Batch] | None = None, process: int = 1
    ) -> None:
        self._cluster = cluster
        self._batches = batches if batches is not None else []
        self._process = process
        self._crashes = crashes
        self._left = [crash.after_actions for crash in crashes]
        self.died_of: Crash | None = None

    @property
    def stopped(self) -> bool:
        """True when the loop must end."""
        return self._cluster.stopped

    def wait(self, until: float | None) -> tuple[float, list[Event]]:
        """As the connection itself."""
        return self._told(*self._cluster.wait(until))

    def poll(self) -> tuple[float, list[Event]]:
        """As the connection itself."""
        return self._told(*self._cluster.poll())

    def _told(self, now: float, events: list[Event]) -> tuple[float, list[Event]]:
        seconds = self._cluster.world.clock.elapsed_seconds
        if self.died_of is None:
            self._batches.append(Batch(self._process, seconds, events))
        return now, events

    def submit(self, actions: Sequence[Action]) -> None:
        """Start these actions, or as many of them as it lives to start."""
        if self.died_of is not None:
            return
        for started, action in enumerate(actions, 1):
            self._left = [n - crash.counts(action) for n, crash in zip(self._left, self._crashes, strict=True)]
            self.died_of = next((c for n, c in zip(self._left, self._crashes, strict=True) if n <= 0), None)
            if self.died_of is not None:
                self._asked(actions[:started])
                self._cluster.submit(actions[:started])
                self._cluster.close(lose_writes=self.died_of.lose_writes)
                return
        self._asked(actions)
        self._cluster.submit(actions)

    def _asked(self, actions: Sequence[Action]) -> None:
        if self._batches:
            self._batches[-1].actions.extend(actions)


class _Listener(Observer):
    def __init__(self, batches: list[Batch]) -> None:
        self.decisions: list[Decision] = []
        self._batches = batches

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        self.decisions.extend(decisions)
        self._batches[-1].decisions.extend(decisions)


def play(scenario: Scenario) -> Played:
    """Run to the end: each process until it crashes, the last until nothing more happens."""
    world = World(arrivals(scenario.events), faults=scenario.faults)
    for trouble in scenario.troubles:
        act = trouble.act
        world.after(trouble.at_seconds, lambda act=act: act(world))  # type: ignore[misc]
    batches: list[Batch] = []
    listener = _Listener(batches)
    processes = 0
    crashes = list(scenario.crashes)
    while True:
        processes += 1
        cluster = SimCluster(world, until_seconds=UNTIL_SECONDS)
        mortal = Mortal(cluster, next_crashes(crashes), batches, processes)
        run_loop(Scheduler(scenario.options), mortal, listener)
        over = cluster.quiet or world.clock.elapsed_seconds >= UNTIL_SECONDS
        cluster.close()
        if over or mortal.died_of is None:
            break
        crashes.remove(mortal.died_of)
        # A new leader waits until no write of the old one can arrive any more.
        world.clock.advance_to(world.clock.now + 2 * MAX_WRITE_DELAY + mortal.died_of.down_seconds)
    world.clock.advance_to(world.clock.now + 2 * MAX_WRITE_DELAY)
    return Played(scenario, world, listener.decisions, processes, batches)


def next_crashes(crashes: Sequence[Crash]) -> list[Crash]:
    """Those that may come in the next life: all that wait for something special, and the first of the others."""
    return [*(c for c in crashes if c.of), *[c for c in crashes if not c.of][:1]]
