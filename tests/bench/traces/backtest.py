"""``plan --eta`` asked again and again while a trace is played, beside when gangs really started.

What owners declare is off by a factor between 1 / 1.3 and 1.3, drawn for each job. What comes later is not known when
the question is asked: a job of higher priority may pass one that waits.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from gangsched.cli.eta import etas
from gangsched.cli.simulation import Simulation, started_at
from gangsched.cluster.sim import SimCluster, World
from gangsched.cluster.sim.arrival import arrivals
from gangsched.cluster.sim.store import Store
from gangsched.core.actions import Action
from gangsched.core.decision import UNSCHEDULABLE, WAIT, Decision
from gangsched.core.events import Changed, Event
from gangsched.core.forecast import forecast
from gangsched.core.scheduler import Scheduler
from gangsched.model.records import GangId, Job, Pod
from gangsched.model.times import LONGEST_SECONDS, parse_time
from gangsched.runtime.loop import Observer, run_loop
from tests.bench.traces import formats
from tests.bench.traces.played import OPTIONS

_WAITING = (UNSCHEDULABLE, WAIT)
_OFF_BY = 1.3


class Asked(NamedTuple):
    """One answer: seconds from the question to the earliest, the likely and the latest start, and to the real one."""

    earliest: float | None
    likely: float | None
    latest: float | None
    really: float | None

    @property
    def inside(self) -> bool:
        """Did the gang start in the interval that was named?"""
        ends = self.earliest, self.really, self.latest
        return None not in ends and ends[0] - 1.0 <= ends[1] <= ends[2] + 1.0  # type: ignore[operator]


class _Questions(Observer):
    """Keeps what there was when gangs began to wait, each ``every`` gangs, at most ``most`` times."""

    def __init__(self, store: Store, every: int, most: int) -> None:
        self.moments: list[tuple[float, list[Event]]] = []
        self._store, self._every, self._most = store, every, most
        self._seen: set[GangId] = set()

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        for decision in decisions:
            if decision.outcome not in _WAITING or decision.gang in self._seen:
                continue
            self._seen.add(decision.gang)
            if len(self._seen) % self._every == 0 and len(self.moments) < self._most:
                self.moments.append((now, self._store.listing()))


def asked(form: str, path: str, jobs: int, questions: int, *, every: int = 10, seed: int = 0) -> list[Asked]:
    """Answers at so many moments in which a job began to wait, for every job that waits then."""
    trace = formats.loaded(form, path, OPTIONS.scheduler_names[0], most=jobs)
    world = World(arrivals(_declaring(trace.events, random.Random(seed))), start=0.0)
    cluster = SimCluster(world, until_seconds=LONGEST_SECONDS)
    noted = _Questions(world.store, every, questions)
    run_loop(Scheduler(OPTIONS), cluster, noted)
    cluster.close()
    whole = Simulation(world, OPTIONS, [], LONGEST_SECONDS, cluster.quiet)
    out = []
    for now, listing in noted.moments:
        decisions = [d for d in forecast(listing, OPTIONS, now) if d.outcome in _WAITING]
        really = started_at(whole, {d.gang: d.required for d in decisions}, since_seconds=now)
        for gang, eta in etas(listing, OPTIONS, now, decisions).items():
            said = [None if t is None else parse_time(t, "eta") for t in (eta.earliest, eta.likely, eta.latest)]
            out.append(Asked(*(None if at is None else at - now for at in (*said, really.get(gang)))))
    return out


def _declaring(events: list[Event], chance: random.Random) -> list[Event]:
    """Every job says for how long it will run, more or less."""
    out: list[Event] = []
    off: dict[str, float] = {}
    for event in events:
        match event:
            case Changed(Pod() as pod) if pod.owner is not None:
                factor = off.setdefault(pod.owner.name, _OFF_BY ** chance.uniform(-1.0, 1.0))
                out.append(Changed(_stating(pod, factor)))
            case Changed(Job() as job) if job.template is not None:
                factor = off.setdefault(job.name, _OFF_BY ** chance.uniform(-1.0, 1.0))
                out.append(Changed(msgspec.structs.replace(job, template=_stating(job.template, factor))))
            case _:
                out.append(event)
    return out


def _stating(pod: Pod, factor: float) -> Pod:
    runs = pod.hints.get("sim.gangsched.dev/run-for")
    if runs is None:
        return pod
    seconds = float(runs.rstrip("s")) * factor
    return msgspec.structs.replace(pod, stakes=msgspec.structs.replace(pod.stakes, expected_seconds=seconds))
