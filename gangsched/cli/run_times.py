"""What is known of the run times of pods, for forecasts and simulations.

The run time of a pod is ``gangsched.dev/expected-run-time``, or else that of pods of the same owner that have
succeeded, limited by ``activeDeadlineSeconds`` of the pod or its Job. Of others, and of those that have run longer than
that, nothing is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from statistics import median

import msgspec

from gangsched.cluster.sim.arrival import DURATION_HINTS, RUN_FOR
from gangsched.core.events import Changed, Event
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from gangsched.core.world.world import World
from gangsched.messages import causes
from gangsched.model.preemptible import EXPECTED_RUN_TIME
from gangsched.model.records import NO_STAKES, SINGLE, Gang, GangId, Job, Pod
from gangsched.model.times import LONGEST_SECONDS
from gangsched.runtime.boundary import Boundary

#: Factors of declared run times, for the earliest, the likely and the latest start.
SPREAD = (0.8, 1.0, 1.2)
LIKELY = SPREAD.index(1.0)
#: The highest priority that users may give.
SYSTEM = 10**9


class RunTimes:
    """What is known of the run times of all pods at one moment: the shortest, a likely and the longest guess each."""

    def __init__(self, events: Sequence[Event], options: Options, now: float) -> None:
        contained = Boundary(partial(Scheduler, options), answered=False)  # an object may fail it
        contained.handle([*events], now)
        self._world: World = contained.core.world
        self._now = now
        past: dict[object, list[float]] = defaultdict(list)
        for pod in self._world.pods.values():
            if pod.phase == "Succeeded" and pod.owner is not None and pod.ended > pod.started:
                past[self._maker(pod)].append(pod.ended - pod.started)
        self._learnt = {maker: (min(all_), median(all_), max(all_)) for maker, all_ in past.items()}

    def put_into(self, event: Event, guess: int) -> Event:
        """Return the object with the run time that is known of it, none that is only for simulations. Groups wait a
        year.
        """
        match event:
            case Changed(Pod() as pod):
                return Changed(_running_for(pod, self._remaining(pod, guess)))
            case Changed(Job() as job) if job.template is not None:
                template = _running_for(job.template, self._of_new(job, guess))
                return Changed(msgspec.structs.replace(job, template=template))
            case Changed(Gang() as group) if group.timeout_seconds:
                return Changed(msgspec.structs.replace(group, timeout_seconds=LONGEST_SECONDS))
        return event

    def declared_in(self, event: Event) -> Event:
        """Return the object with its likely run time, unless an annotation for simulations gives another."""
        match event:
            case Changed(Pod() as pod) if RUN_FOR not in pod.hints:
                return Changed(_with_run_time(pod, self._remaining(pod, LIKELY)))
            case Changed(Job() as job) if job.template is not None and RUN_FOR not in job.template.hints:
                template = _with_run_time(job.template, self._of_new(job, LIKELY))
                return Changed(msgspec.structs.replace(job, template=template))
        return event

    def least_above(self, gang: GangId) -> int | None:
        """The least priority above that of everything that runs or waits and that users may be above; None where the
        gang has it already.
        """
        others = (p.priority for p in self._world.pods.values() if p.live and p.gang != gang and p.priority < SYSTEM)
        above = max(others, default=-SYSTEM) + 1
        mine = self._world.membership.preemptor_priority((gang,))
        return above if -SYSTEM < mine < above <= SYSTEM else None

    def unknown(self) -> list[str]:
        """Return the workloads that run and of which is not known how long."""
        running = (pod for pod in self._world.pods.values() if pod.bound and pod.live)
        return sorted({workload_of(pod) for pod in running if self._remaining(pod, LIKELY) is None})

    def assumes(self, unknown: Sequence[str]) -> list[str]:
        """The assumptions behind the times, and how often they were right."""
        pods = self._world.pods.values()
        several = len({pod.priority for pod in pods if pod.live and pod.priority < SYSTEM}) > 1
        out = [causes.NOTHING_NEW, causes.FORECAST_OF_SEVERAL if several else causes.FORECAST_OF_ONE_PRIORITY]
        if any(self._declared(pod, self._world.jobs.job_of(pod)) is not None for pod in pods):
            out.append(causes.run_times_hold(key=EXPECTED_RUN_TIME))
        if self._learnt:
            out.append(causes.RUN_LIKE_BEFORE)
        if any(self._deadline(pod) is not None for pod in pods):
            out.append(causes.RUN_UNTIL_DEADLINE)
        return [*out, causes.UNKNOWN_GO_ON] if unknown else out

    def _of_new(self, job: Job, guess: int) -> float | None:
        """Return how many seconds new pods of the Job will run; None if that is not known."""
        assert job.template is not None
        guesses = self._guesses(job.template, job)
        return _least(guesses[guess] if guesses else None, job.template.deadline_seconds, job.deadline_seconds)

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
            return tuple(declared * each for each in SPREAD)
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
    return _with_run_time(msgspec.structs.replace(pod, hints=hints), seconds)


def _with_run_time(pod: Pod, seconds: float | None) -> Pod:
    if seconds is None:
        return pod
    return msgspec.structs.replace(pod, hints={**pod.hints, RUN_FOR: f"{max(seconds, 0.001):.3f}s"})


def _least(*seconds: float | None) -> float | None:
    return min((each for each in seconds if each is not None), default=None)


def workload_of(pod: Pod) -> str:
    """Return the owner of the pod in words."""
    if pod.gang.family != SINGLE:
        return pod.gang.key
    owner = pod.owner
    return f"Pod {pod.key}" if owner is None else f"{owner.kind} {pod.namespace}/{owner.name}"
