"""When gangs that wait will start: the simulator, played on with run times that are declared or learnt.

Pods of which no run time is known (:mod:`gangsched.cli.run_times`) go on.

A forecast is played for a year, or until the cluster has changed :data:`MOST_CHANGES` times. If a gang has not
started by then, the answer says until when it was played.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from gangsched.cli.contracts import Eta
from gangsched.cli.run_times import SPREAD, RunTimes
from gangsched.cli.simulation import Simulation, simulate_changes, started_at
from gangsched.core.decision import Decision
from gangsched.core.events import Changed, Event, records
from gangsched.core.options import Options
from gangsched.messages import causes
from gangsched.model.preemptible import EXPECTED_RUN_TIME
from gangsched.model.records import Gang, GangId, Job, Pod
from gangsched.model.times import LONGEST_SECONDS, render_time

#: Of so many gangs, the first in the queue, it is found out when they would start with a higher priority.
_RAISED = 3
#: So many workloads of unknown run time are named.
_NAMED = 20
#: So many changes of the cluster are played for each guess, or so many for each pod. A Job may have a billion
#: completions.
MOST_CHANGES = 10_000
CHANGES_PER_POD = 10


def etas(events: Sequence[Event], options: Options, now: float, decisions: Sequence[Decision]) -> dict[GangId, Eta]:
    """That of each gang that is decided, in this order, if nothing comes that is not there yet."""
    times = RunTimes(events, options, now)
    objects = [each for each in events if isinstance(each, Changed)]  # of a cluster there is more: its clock, for one
    # Only events can help; and a gang that gave up its wait would begin it again, up to 50,000 times in a year.
    patient = msgspec.structs.replace(options, flush_seconds=LONGEST_SECONDS, timeout_seconds=LONGEST_SECONDS)
    required = {decision.gang: decision.required for decision in decisions}
    guesses = [[times.put_into(each, guess) for each in objects] for guess in range(len(SPREAD))]
    played = [_play(known, patient, now) for known in guesses]
    runs = [started_at(each, required) for each in played]
    ends = [each.world.clock.stamp for each in played if each.cut_short]
    until = min(ends, default=None)
    unknown = times.unknown()
    waiting = [gang for gang in required if (runs[1].get(gang) or LONGEST_SECONDS + now) > now + 1.0]
    help_of: dict[GangId, list[str]] = {}
    for gang in waiting[:_RAISED]:
        above = times.least_above(gang)
        if above is None:
            continue
        raised = [_raised(each, gang, above) for each in guesses[1]]
        at = started_at(_play(raised, patient, now), required).get(gang)
        if at is not None and at + 1.0 < (runs[1].get(gang) or math.inf):
            help_of[gang] = [causes.priority_of(priority=above, time=render_time(at))]
    out = {}
    for position, gang in enumerate(required, 1):
        found = [at for run in runs if (at := run.get(gang)) is not None]
        likely = runs[1].get(gang)
        out[gang] = Eta(
            _time(min(found, default=None)),
            _time(likely),
            _time(max(found) if len(found) == len(runs) else None),
            position,
            times.assumes(unknown),
            unknown[:_NAMED],
            help_of.get(gang, []) + [causes.declared(key=EXPECTED_RUN_TIME)] * (bool(unknown) and gang in waiting),
            played_until=_time(until) if len(found) < len(runs) else None,
        )
    return out


def _play(events: Sequence[Event], options: Options, now: float) -> Simulation:
    most = max(MOST_CHANGES, CHANGES_PER_POD * sum(1 for _ in records(events, Pod)))
    return simulate_changes(events, options, most, until_seconds=LONGEST_SECONDS, start=now)


def _raised(event: Event, gang: GangId, priority: int) -> Event:
    """The object as if the gang had that priority."""
    match event:
        case Changed(Pod() as pod) if pod.gang == gang or (
            pod.owner is not None and (pod.namespace, pod.owner.name) == (gang.namespace, gang.name)
        ):
            return Changed(msgspec.structs.replace(pod, priority=priority))
        case Changed(Gang() as group) if (group.family, group.namespace, group.name) == gang[:3]:
            return Changed(msgspec.structs.replace(group, priority=priority))
        case Changed(Job() as job) if job.template is not None and (job.namespace, job.name) == gang[1:3]:
            return Changed(
                msgspec.structs.replace(job, template=msgspec.structs.replace(job.template, priority=priority))
            )
    return event


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else render_time(seconds)
