"""When gangs that wait will start: the simulator, played on with run times that are declared or learnt.

The run time of a pod is ``gangsched.dev/expected-run-time``, or else that of pods of the same owner that have
succeeded, limited by ``activeDeadlineSeconds`` of the pod or its Job. Of others, and of those that have run longer than
that, nothing is known: they go on.

A forecast is played for a year, or until the cluster has changed :data:`MOST_CHANGES` times. If a gang has not
started by then, the answer says until when it was played.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import median

import msgspec

from gangsched.cli.contracts import Eta
from gangsched.cli.simulation import Simulation, simulate_changes, started_at
from gangsched.cluster.sim.arrival import DURATION_HINTS, RUN_FOR
from gangsched.core.decision import Decision
from gangsched.core.events import Changed, Event, records
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from gangsched.core.world.world import World
from gangsched.messages import causes
from gangsched.model.preemptible import EXPECTED_RUN_TIME
from gangsched.model.records import NO_STAKES, SINGLE, Gang, GangId, Job, Pod
from gangsched.model.times import LONGEST_SECONDS, render_time

#: Factors of declared run times, for the earliest, the likely and the latest start.
_SPREAD = (0.8, 1.0, 1.2)
#: Of so many gangs, the first in the queue, it is found out when they would start with a higher priority.
_RAISED = 3
#: The highest priority that users may give.
_SYSTEM = 10**9
#: So many workloads of unknown run time are named.
_NAMED = 20
#: So many changes of the cluster are played for each guess, or so many for each pod. A Job may have a billion
#: completions.
MOST_CHANGES = 10_000
CHANGES_PER_POD = 10


def etas(events: Sequence[Event], options: Options, now: float, decisions: Sequence[Decision]) -> dict[GangId, Eta]:
    """That of each gang that is decided, in this order, if nothing comes that is not there yet."""
    times = _RunTimes(events, options, now)
    objects = [each for each in events if isinstance(each, Changed)]  # of a cluster there is more: its clock, for one
    # Only events can help; and a gang that gave up its wait would begin it again, up to 50,000 times in a year.
    patient = msgspec.structs.replace(options, flush_seconds=LONGEST_SECONDS, timeout_seconds=LONGEST_SECONDS)
    required = {decision.gang: decision.required for decision in decisions}
    guesses = [[times.put_into(each, guess) for each in objects] for guess in range(len(_SPREAD))]
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


class _RunTimes:
    """What is known of the run times of all pods at one moment: the shortest, a likely and the longest guess each."""

    def __init__(self, events: Sequence[Event], options: Options, now: float) -> None:
        scheduler = Scheduler(options)
        scheduler.handle([*events], now)
        self._world: World = scheduler.world
        self._now = now
        past: dict[object, list[float]] = defaultdict(list)
        for pod in self._world.pods.values():
            if pod.phase == "Succeeded" and pod.owner is not None and pod.ended > pod.started:
                past[self._maker(pod)].append(pod.ended - pod.started)
        self._learnt = {maker: (min(all_), median(all_), max(all_)) for maker, all_ in past.items()}

    def put_into(self, event: Event, guess: int) -> Event:
        """The object with the run time that is known of it, none that is only for simulations; groups wait a year."""
        match event:
            case Changed(Pod() as pod):
                return Changed(_running_for(pod, self._remaining(pod, guess)))
            case Changed(Job() as job) if job.template is not None:
                template = job.template
                guesses = self._guesses(template, job)
                seconds = _least(guesses[guess] if guesses else None, template.deadline_seconds, job.deadline_seconds)
                return Changed(msgspec.structs.replace(job, template=_running_for(template, seconds)))
            case Changed(Gang() as group) if group.timeout_seconds:
                return Changed(msgspec.structs.replace(group, timeout_seconds=LONGEST_SECONDS))
        return event

    def least_above(self, gang: GangId) -> int | None:
        """The least priority above that of everything that runs or waits and that users may be above; None where the
        gang has it already.
        """
        others = (p.priority for p in self._world.pods.values() if p.live and p.gang != gang and p.priority < _SYSTEM)
        above = max(others, default=-_SYSTEM) + 1
        mine = self._world.membership.preemptor_priority((gang,))
        return above if -_SYSTEM < mine < above <= _SYSTEM else None

    def unknown(self) -> list[str]:
        """The workloads that run and of which is not known how long."""
        running = (pod for pod in self._world.pods.values() if pod.bound and pod.live)
        return sorted({_workload(pod) for pod in running if self._remaining(pod, 1) is None})

    def assumes(self, unknown: Sequence[str]) -> list[str]:
        """The assumptions behind the times, and how often they were right."""
        pods = self._world.pods.values()
        several = len({pod.priority for pod in pods if pod.live and pod.priority < _SYSTEM}) > 1
        out = [causes.NOTHING_NEW, causes.FORECAST_OF_SEVERAL if several else causes.FORECAST_OF_ONE_PRIORITY]
        if any(self._declared(pod, self._world.jobs.job_of(pod)) is not None for pod in pods):
            out.append(causes.run_times_hold(key=EXPECTED_RUN_TIME))
        if self._learnt:
            out.append(causes.RUN_LIKE_BEFORE)
        if any(self._deadline(pod) is not None for pod in pods):
            out.append(causes.RUN_UNTIL_DEADLINE)
        return [*out, causes.UNKNOWN_GO_ON] if unknown else out

    def _remaining(self, pod: Pod, guess: int) -> float | None:
        """How many seconds the pod runs on, or will run; None if that is not known."""
        ran = max(0.0, self._now - pod.started) if pod.bound else 0.0
        guesses = self._guesses(pod, self._world.jobs.job_of(pod)) or ()
        # A pod that has run longer than one guess is measured by the next.
        longer = next((each - ran for each in guesses[guess:] if each > ran), None)
        deadline = self._deadline(pod)
        return _least(longer, None if deadline is None else deadline - ran)

    def _guesses(self, pod: Pod, job: Job | None) -> tuple[float, ...] | None:
        declared = self._declared(pod, job)
        if declared is not None:
            return tuple(declared * each for each in _SPREAD)
        return self._learnt.get(self._maker(pod, job))

    def _declared(self, pod: Pod, job: Job | None) -> float | None:
        """What is declared nearest: on the pod, its group, its Job or its JobSet."""
        world = self._world
        group = world.membership.stakes.get((pod.gang.family, pod.gang.namespace, pod.gang.name), NO_STAKES)
        above = world.jobs.stakes_of((job.namespace, job.name)) if job is not None else ()
        said = (each.expected_seconds for each in (pod.stakes, group, *above))
        return next((seconds for seconds in said if seconds is not None), None)

    def _deadline(self, pod: Pod) -> float | None:
        job = self._world.jobs.job_of(pod)
        return _least(pod.deadline_seconds, job.deadline_seconds if job is not None else None)

    def _maker(self, pod: Pod, job: Job | None = None) -> object:
        """Return the owner of equal pods: the controller, or the owner of its Jobs, such as a CronJob."""
        job = job or self._world.jobs.job_of(pod)
        if job is not None:
            return job.owner.uid if job.owner is not None else job.uid
        return pod.owner.uid if pod.owner is not None else pod.uid


def _running_for(pod: Pod, seconds: float | None) -> Pod:
    hints = {key: value for key, value in pod.hints.items() if key not in DURATION_HINTS}
    if seconds is not None:
        hints[RUN_FOR] = f"{max(seconds, 0.001):.3f}s"
    return msgspec.structs.replace(pod, hints=hints)


def _least(*seconds: float | None) -> float | None:
    return min((each for each in seconds if each is not None), default=None)


def _workload(pod: Pod) -> str:
    """Return the owner of the pod in words."""
    if pod.gang.family != SINGLE:
        return pod.gang.key
    owner = pod.owner
    return f"Pod {pod.key}" if owner is None else f"{owner.kind} {pod.namespace}/{owner.name}"
