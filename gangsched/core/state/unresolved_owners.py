"""Pods that are seen before the Job (or its JobSet) that owns them, and whose queue is not known yet for that.

Objects of each kind are watched apart, so a pod may come first, above all while Jobs are listed anew. On its own it
would escape its gang, and the queue that its Job names. So it is kept back for some seconds.

So is, where Kueue is at work too, a Job (or JobSet) that has just been created suspended for its queue: only the
Workload that Kueue makes of it tells whose it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gangsched.core.state.suspended import WITHOUT_PODS, OwnerKey
from gangsched.model.jobsets import JOBSET
from gangsched.model.records import JOB, Pod

if TYPE_CHECKING:
    from gangsched.core.state.world import World


class LateOwners:
    """Pods that the world is not shown yet, each for ``seconds`` at most; with 0 none is."""

    def __init__(self, world: World, seconds: float) -> None:
        self._world = world
        self._seconds = seconds
        self._pods: dict[str, tuple[float, Pod]] = {}  # by UID, with the end of the wait; the earliest first
        self._jobs: dict[OwnerKey, float] = {}  # with the end of the wait

    def keep(self, pod: Pod, now: float) -> bool:
        """A pod was seen: is it kept back? One that the world knows, or that has a node, never is."""
        if not self._seconds or pod.uid in self._world.pods or not self._waits(pod):
            self._pods.pop(pod.uid, None)
            return False
        end, _ = self._pods.get(pod.uid, (now + self._seconds, pod))
        self._pods[pod.uid] = end, pod
        return True

    def among(self, pods: Iterable[Pod]) -> list[Pod]:
        """Those of the pods that would be kept back if they were new; not what an earlier process has planned."""
        return [pod for pod in pods if self._seconds and pod.intent is None and self._waits(pod)]

    def gone(self, uid: str) -> None:
        """A pod is gone."""
        self._pods.pop(uid, None)

    def take(self, now: float) -> list[Pod]:
        """The pods that are kept back no longer, because what owns them is known or the time is over."""
        found = [pod for end, pod in self._pods.values() if end <= now or not self._waits(pod)]
        for pod in found:
            del self._pods[pod.uid]
        return found

    def keep_job(self, key: OwnerKey, now: float) -> bool:
        """A Job or JobSet was seen: is it not planned yet, because Kueue may still make a Workload of it?"""
        world = self._world
        owner = world.suspended.find(*key) if world.kueue.at_work and self._seconds else None
        before = self._jobs.pop(key, math.inf)
        if owner is None or world.suspended.stands(key) or not (owner.suspended and world.suspended.held(owner)):
            return False
        # By its creation, since it may be older than this process; not for longer where the server's clock is ahead.
        end = min(before, min(owner.created, now) + self._seconds)
        if end > now:
            self._jobs[key] = end
        return key in self._jobs

    def take_jobs(self, now: float) -> list[OwnerKey]:
        """The Jobs and JobSets that are kept back no longer."""
        return [key for key, end in self._jobs.items() if end <= now]

    def wake_at(self) -> float | None:
        """When the first wait ends; None: nobody waits."""
        pods = next((end for end, _ in self._pods.values()), None)
        return min((end for end in (pods, *self._jobs.values()) if end is not None), default=None)

    def _waits(self, pod: Pod) -> bool:
        world = self._world
        if not world.managed.active or pod.node or not pod.live or pod.scheduler not in world.membership.ours:
            return False
        if pod.owner is None or pod.owner.kind != JOB or pod.gang.family in WITHOUT_PODS:
            return False
        job = world.suspended.job_of(pod)
        if job is None:
            return True
        return job.owner is not None and job.owner.kind == JOBSET and world.suspended.jobset_of(job) is None
