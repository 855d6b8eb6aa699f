"""``plan --eta`` asked again and again while a trace is played, beside when gangs really started.

What owners declare is off by a factor between 1 / 1.3 and 1.3, drawn for each job. What comes later is not known when
the question is asked: a job of higher priority may pass one that waits.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import msgspec

from gangsched.cli.eta import etas
from gangsched.cli.simulation import simulate, started_at
from gangsched.cluster.manifests import load
from gangsched.cluster.manifests.traces import read_trace
from gangsched.core.events import Changed, Event
from gangsched.core.forecast import forecast
from gangsched.model.records import Job, Pod
from gangsched.model.times import LONGEST_SECONDS, parse_time
from tests.bench.traces.played import OPTIONS

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


def asked(form: str, path: str, jobs: int, questions: int, seed: int = 0) -> list[Asked]:
    """Answers at so many moments, for every job that waits then."""
    loaded = load((), made=[read_trace(form, path, OPTIONS.scheduler_names[0], most=jobs)])
    events = _declaring(loaded.events, random.Random(seed))
    whole = simulate(events, OPTIONS, until_seconds=LONGEST_SECONDS)
    arrivals = [entry.at_seconds for entry in whole.history if entry.kind == "Pod" and entry.verb == "create"]
    out = []
    for n in range(1, questions + 1):
        now = max(arrivals) * n / (questions + 1)
        then = simulate(events, OPTIONS, until_seconds=now)
        listing = then.world.store.listing()
        decisions = [d for d in forecast(listing, OPTIONS, now) if d.outcome in ("unschedulable", "wait")]
        required = {d.gang: d.required for d in decisions}
        really = started_at(whole, required, since_seconds=now)
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
