"""What is seen before the object above it: it is kept back for a moment."""

from __future__ import annotations

from collections.abc import Iterable

from gangsched.core.agenda import Page
from gangsched.core.state.jobs import OwnerKey
from gangsched.core.world.suspended import expects, held
from gangsched.core.world.world import World
from gangsched.model.records import Pod


class LateOwners:
    """What is seen before the object above it, and whose gang or queue is not known yet for that: it is not shown to
    the world yet, for ``seconds`` at most; with 0 nothing is kept back.

    Objects of each kind are watched apart, so a pod may come before its Job (or the JobSet of that), above all while
    Jobs are listed anew. On its own it would escape its gang, and the queue that its Job names. And where Kueue is at
    work too, only the Workload that it makes of a Job (or JobSet) tells whose one is that has just been created
    suspended for its queue.
    """

    def __init__(self, world: World, seconds: float) -> None:
        self._world = world
        self.seconds = seconds
        self._pods: dict[str, Pod] = {}  # by UID
        self._ends: Page[str] = world.agenda.page()  # of their waits
        self._jobs: Page[OwnerKey] = world.agenda.page()  # the same of Jobs and JobSets

    def keep(self, pod: Pod, now: float) -> bool:
        """Keep back a pod whose owner may follow, and return True if it is kept. A pod that the world knows, or that
        has a node, never is.
        """
        if not self.seconds or pod.uid in self._world.pods or not self._waits(pod):
            self.release(pod.uid)
            return False
        if pod.uid not in self._pods:
            self._ends.at(pod.uid, now + self.seconds)
        self._pods[pod.uid] = pod
        return True

    def among(self, pods: Iterable[Pod]) -> list[Pod]:
        """Those of the pods that would be kept back if they were new; not what an earlier process has planned."""
        return [pod for pod in pods if self.seconds and pod.intent is None and self._waits(pod)]

    def release(self, uid: str) -> None:
        """Stop keeping a pod back: it is gone, or may be planned."""
        if self._pods.pop(uid, None) is not None:
            self._ends.never(uid)

    def release_due(self, now: float) -> list[Pod]:
        """Return the pods that are kept back no longer, because what owns them is known or the time is over."""
        self._ends.due(now)
        found = [pod for uid, pod in self._pods.items() if uid not in self._ends or not self._waits(pod)]
        for pod in found:
            self.release(pod.uid)
        return found

    def keep_job(self, key: OwnerKey, now: float) -> bool:
        """Keep back a Job or JobSet of which Kueue may still make a Workload. Return True while it is kept."""
        world = self._world
        owner = world.jobs.find(*key) if world.jobs.kueue.at_work and self.seconds else None
        if owner is None or expects(world, key) or not (owner.suspended and held(world, owner)):
            self._jobs.never(key)
            return False
        # By its creation, since it may be older than this process; not for longer where the server's clock is ahead.
        end = min(owner.created, now) + self.seconds
        if end > now and key not in self._jobs:
            self._jobs.at(key, end)
        return key in self._jobs

    def release_due_jobs(self, now: float) -> list[OwnerKey]:
        """Return the Jobs and JobSets that are kept back no longer."""
        return self._jobs.due(now)

    def _waits(self, pod: Pod) -> bool:
        world = self._world
        ours = not pod.node and pod.live and pod.scheduler in world.membership.ours
        return ours and world.owner_gangs.waits_for_owner(pod)
