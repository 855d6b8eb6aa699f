"""When pods that run are known to end: by a deadline, by what is declared, or like those of the same maker before them.

Of others nothing is known: a shell in a pod without a deadline ends when its owner likes.
"""

from __future__ import annotations

import math
from collections import defaultdict

from gangsched.core.world.world import World
from gangsched.model.records import NO_STAKES, Pod

#: Pods of the same maker have run for times that differ; so much later than the longest of them a pod may end.
_SPREAD = 1.2


class KnownEnds:
    """The ends of the pods of this world, as they are known now."""

    def __init__(self, world: World) -> None:
        self._world = world
        past: dict[str, float] = defaultdict(float)
        for pod in world.pods.values():
            if pod.phase == "Succeeded" and pod.owner is not None and pod.ended > pod.started:
                maker = self._maker(pod)
                past[maker] = max(past[maker], pod.ended - pod.started)
        self._learnt = dict(past)

    def end_of(self, pod: Pod) -> float:
        """When the pod ends at the latest (seconds); infinity where that is not known, or has not come true."""
        job = self._world.jobs.job_of(pod)
        longest: list[float | None] = [pod.deadline_seconds, job.deadline_seconds if job is not None else None]
        longest += [self._declared(pod), self._learnt.get(self._maker(pod))]
        ends = (pod.started + seconds * _SPREAD for seconds in longest if seconds is not None)
        return min((end for end in ends if end > self._world.now), default=math.inf)

    def _declared(self, pod: Pod) -> float | None:
        """What is declared nearest: on the pod, its group, its Job or its JobSet."""
        world = self._world
        job = world.jobs.job_of(pod)
        group = world.membership.stakes.get((pod.gang.family, pod.gang.namespace, pod.gang.name), NO_STAKES)
        above = world.jobs.stakes_of((job.namespace, job.name)) if job is not None else ()
        said = (each.expected_seconds for each in (pod.stakes, group, *above))
        return next((seconds for seconds in said if seconds is not None), None)

    def _maker(self, pod: Pod) -> str:
        """Return the owner of equal pods: the controller, or the owner of its Jobs, such as a CronJob."""
        job = self._world.jobs.job_of(pod)
        if job is not None:
            return job.owner.uid if job.owner is not None else job.uid
        return pod.owner.uid if pod.owner is not None else pod.uid
