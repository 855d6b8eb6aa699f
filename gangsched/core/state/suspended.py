"""Jobs that this scheduler has suspended: as gangs that wait for room, and the room that is kept until they have it.

A suspended Job has no pods. It is planned by *stand-ins*: pods as its template describes them, which no cluster knows.
They are made when the last of its pods is gone, and end when the Job goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from gangsched.model.records import JOB, PREEMPT_LOWER, PREEMPT_NEVER, Gang, GangId, Job, Pod, PodVolumes

if TYPE_CHECKING:
    from gangsched.core.state.world import World

#: Namespace and name.
JobKey: TypeAlias = tuple[str, str]


class Room(msgspec.Struct):
    """Room that is kept for the pods of a Job, by the group with this key.

    ``taken_by`` are UIDs of its pods; ``goes_on`` says that the cluster has shown that it is not suspended any more.
    """

    group: str
    taken_by: set[str] = msgspec.field(default_factory=set)
    goes_on: bool = False


class SuspendedJobs:
    """Keeps the stand-ins in line with what is known of Jobs and their pods. ``rooms`` is by the Job's UID."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.rooms: dict[str, Room] = {}
        self._pods: dict[str, set[str]] = {}
        self._standing: dict[JobKey, list[Pod]] = {}

    # -- pods of Jobs --------------------------------------------------------------------------------------

    def pod_set(self, pod: Pod) -> None:
        """A pod was created or changed."""
        if pod.owner is not None and pod.owner.kind == JOB and pod.gang.family != JOB:
            self._pods.setdefault(pod.owner.uid, set()).add(pod.uid)

    def pod_dropped(self, pod: Pod) -> None:
        """A pod is gone."""
        if pod.owner is not None and pod.owner.uid in self._pods:
            self._pods[pod.owner.uid].discard(pod.uid)
            if not self._pods[pod.owner.uid]:
                del self._pods[pod.owner.uid]

    def pods_of(self, job: Job) -> list[Pod]:
        """The pods of a Job that have not finished, by name."""
        found = (self._world.pods[uid] for uid in self._pods.get(job.uid, ()))
        return sorted((p for p in found if not p.finished), key=lambda p: (p.name, p.uid))

    def job_of(self, pod: Pod) -> Job | None:
        """The Job that owns a pod, if it is known."""
        if pod.owner is None or pod.owner.kind != JOB:
            return None
        job = self._world.jobs.get((pod.namespace, pod.owner.name))
        return job if job is not None and job.uid == pod.owner.uid else None

    def rooms_of(self, pods: Iterable[Pod]) -> set[str]:
        """Keys of the groups that keep room for these pods."""
        if not self.rooms:
            return set()
        return {room.group for p in pods if p.owner is not None and (room := self.rooms.get(p.owner.uid)) is not None}

    # -- stand-ins -----------------------------------------------------------------------------------------

    @property
    def standing(self) -> list[JobKey]:
        """The Jobs that have stand-ins."""
        return list(self._standing)

    def ours(self, job: Job) -> bool:
        """Is the Job suspended, by us, and may it go on?"""
        by_us = job.suspended_by in self._world.membership.ours
        return by_us and job.suspended and not job.finished and job.template is not None and job.wanted > 0

    def renew(self, key: JobKey) -> set[GangId]:
        """Make or end the stand-ins of a Job as what is known of it asks for; returns the gangs that this touches."""
        job = self._world.jobs.get(key)
        wanted = self._stand_ins(job) if job is not None and self.ours(job) and not self.pods_of(job) else []
        standing = self._standing.get(key, [])
        if wanted == standing:
            return set()
        for pod in standing:
            self._world.drop_pod(pod.uid)
        self._standing.pop(key, None)
        if job is not None and wanted:
            self._standing[key] = wanted
            self._world.membership.set_object(_gang(job, len(wanted)))
            for pod in wanted:
                self._world.set_pod(pod)
        else:
            self._world.membership.drop_object(JOB, *key)
        return {pod.gang for pod in (*standing, *wanted)}

    def _stand_ins(self, job: Job) -> list[Pod]:
        template = job.template
        if template is None:
            return []
        priority, policy = self._priority(template)
        gang = GangId(JOB, job.namespace, job.name, job.suspended_by)
        return [
            msgspec.structs.replace(
                template,
                name=f"{job.name}-{index}",
                uid=f"{job.uid}/{index}",
                gang=gang,
                scheduler=job.suspended_by,
                priority=priority,
                preemption_policy=policy,
                node="",
                phase="Pending",
                created=job.created,
                started=job.created,
                gates=(),
                volumes=_claims_that_stay(template.volumes),
            )
            for index in range(job.wanted)
        ]

    def _priority(self, template: Pod) -> tuple[int, str]:
        """What admission gives the pods of a template: the class that it names, else the default class, says it."""
        classes = self._world.classes
        found = classes.get(template.priority_class)
        if found is None and not template.priority_class:
            defaults = [c for c in classes.values() if c.global_default]
            found = min(defaults, key=lambda c: (c.value, c.name), default=None)
        never = PREEMPT_NEVER in (template.preemption_policy, found.preemption_policy if found is not None else "")
        policy = PREEMPT_NEVER if never else PREEMPT_LOWER
        return template.priority or (found.value if found is not None else 0), policy


def _gang(job: Job, members: int) -> Gang:
    return Gang(
        JOB,
        job.namespace,
        job.name,
        kind="Job",
        uid=job.uid,
        created=job.created,
        min_member=members,
        disruption="gang",
        queue=job.queue,
    )


def _claims_that_stay(volumes: PodVolumes | None) -> PodVolumes | None:
    """The claims of generic ephemeral volumes come and go with a pod: there are none for a stand-in."""
    if volumes is None or not volumes.owned:
        return volumes
    claims = tuple(c for c in volumes.claims if c not in volumes.owned)
    return msgspec.structs.replace(volumes, claims=claims, owned=()) if claims or volumes.disks else None
