"""Suspended Jobs and JobSets: as gangs that wait for room, and the room that is kept until they have it.

A Job of a JobSet is suspended and let go on by the JobSet only, so the JobSet stands for all of its Jobs here: the
*owner* of a pod is the JobSet above its Job, or else the Job. While it is suspended it has no pods. It is planned by
*stand-ins*: pods as its template describes them, which no cluster knows. They are made when the last of its pods is
gone, and end when it goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from gangsched.model.errors import FieldError
from gangsched.model.jobsets import JOBSET, MAX_WITHOUT_PODS, QUEUED_JOBSET, JobSet, why_it_cannot_wait
from gangsched.model.podset_info import merged
from gangsched.model.records import (
    JOB,
    NO_QUEUE,
    PREEMPT_LOWER,
    QUEUED_JOB,
    Gang,
    GangId,
    Job,
    Pod,
    PodVolumes,
    QueueLabels,
)

if TYPE_CHECKING:
    from gangsched.core.state.world import World

#: What is suspended, and goes on, as a whole.
Suspendable: TypeAlias = Job | JobSet
#: Family (which is the API kind), namespace and name.
OwnerKey: TypeAlias = tuple[str, str, str]
#: Controllers that leave it to others whether what they make is suspended. That of a JobSet, say, would end it at once.
LENIENT = ("CronJob",)
#: The families of gangs without pods.
WITHOUT_PODS = (JOB, JOBSET)
_OWNER_OF_QUEUED = {QUEUED_JOB: JOB, QUEUED_JOBSET: JOBSET}


class SuspendedJobs:
    """Keeps the stand-ins in line with what is known of Jobs, JobSets and their pods."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pods: dict[str, set[str]] = {}
        self._jobs_of: dict[str, dict[str, Job]] = {}
        self._standing: dict[OwnerKey, list[Pod]] = {}
        #: For whoever wants to remember something about the pods of a Job or JobSet (by UID): it is forgotten as soon
        #: as one of them changes, or a Job.
        self.known: dict[str, Any] = {}

    # -- pods of Jobs --------------------------------------------------------------------------------------

    def pod_set(self, pod: Pod) -> None:
        """A pod was created or changed."""
        if pod.owner is not None and pod.owner.kind == JOB and pod.gang.family not in WITHOUT_PODS:
            self._pods.setdefault(pod.owner.uid, set()).add(pod.uid)

    def pod_dropped(self, pod: Pod) -> None:
        """A pod is gone."""
        self.pod_moved(pod)
        if pod.owner is not None and pod.owner.uid in self._pods:
            self._pods[pod.owner.uid].discard(pod.uid)
            if not self._pods[pod.owner.uid]:
                del self._pods[pod.owner.uid]

    def pod_moved(self, pod: Pod) -> None:
        """A pod takes or leaves room, or its record has changed."""
        if self.known and pod.owner is not None and pod.owner.kind == JOB:
            self.known.pop(pod.owner.uid, None)
            job = self._world.jobs.get((pod.namespace, pod.owner.name))
            if job is not None:
                self._forget(job)

    def _forget(self, job: Job) -> None:
        self.known.pop(job.uid, None)
        if job.owner is not None:
            self.known.pop(job.owner.uid, None)

    def job_set(self, job: Job, before: Job | None) -> None:
        """A Job was created or changed."""
        self._forget(job)
        if before is not None and (before.uid, before.owner) != (job.uid, job.owner):
            self.job_dropped(before)
        if job.owner is not None and job.owner.kind == JOBSET:
            self._jobs_of.setdefault(job.owner.uid, {})[job.name] = job

    def job_dropped(self, job: Job) -> None:
        """A Job is gone."""
        self._forget(job)
        siblings = self._jobs_of.get(job.owner.uid) if job.owner is not None else None
        if job.owner is not None and siblings is not None and job.name in siblings:
            del siblings[job.name]
            if not siblings:
                del self._jobs_of[job.owner.uid]

    def jobs_of(self, owner: Suspendable) -> list[Job]:
        """The Jobs of a JobSet that there are, by name; a Job itself."""
        if isinstance(owner, Job):
            return [owner]
        return [job for _, job in sorted(self._jobs_of.get(owner.uid, {}).items())]

    def pods_of(self, owner: Suspendable) -> list[Pod]:
        """The pods of a Job or JobSet that have not finished, by name."""
        found = (self._world.pods[uid] for job in self.jobs_of(owner) for uid in self._pods.get(job.uid, ()))
        return sorted((p for p in found if not p.finished), key=lambda p: (p.name, p.uid))

    def job_of(self, pod: Pod) -> Job | None:
        """The Job that owns a pod, if it is known."""
        if pod.owner is None or pod.owner.kind != JOB:
            return None
        job = self._world.jobs.get((pod.namespace, pod.owner.name))
        return job if job is not None and job.uid == pod.owner.uid else None

    def jobset_of(self, job: Job) -> JobSet | None:
        """The JobSet that owns a Job, if it is known."""
        if job.owner is None or job.owner.kind != JOBSET:
            return None
        found = self._world.jobsets.get((job.namespace, job.owner.name))
        return found if found is not None and found.uid == job.owner.uid else None

    def owner_of(self, pod: Pod) -> Suspendable | None:
        """The JobSet of a pod, or else its Job, if they are known."""
        job = self.job_of(pod)
        return job if job is None else self.jobset_of(job) or job

    def find(self, family: str, namespace: str, name: str) -> Suspendable | None:
        """The Job or JobSet that a gang of this family stands for."""
        if family == JOBSET:
            return self._world.jobsets.get((namespace, name))
        return self._world.jobs.get((namespace, name)) if family == JOB else None

    def queue_of(self, owner: Suspendable) -> QueueLabels:
        """What the labels say about quota: those of a Job, or else of its JobSet."""
        if isinstance(owner, Job) and not owner.queue.local_queue and owner.owner is not None:
            jobset = self.jobset_of(owner)
            return jobset.queue if jobset is not None else owner.queue
        return owner.queue

    def queue_of_pod(self, pod: Pod) -> QueueLabels:
        """The same of the Job that owns a pod."""
        job = self._world.jobs.get((pod.namespace, pod.owner.name)) if pod.owner and pod.owner.kind == JOB else None
        return self.queue_of(job) if job is not None else NO_QUEUE

    def queue_of_gang(self, gang: GangId) -> QueueLabels:
        """The same of the Job or JobSet that a gang stands for."""
        owner = self.of_gang(gang)
        return self.queue_of(owner) if owner is not None else NO_QUEUE

    def of_gang(self, gang: GangId) -> Suspendable | None:
        """The Job or JobSet that a gang stands for, with its pods or without."""
        return self.find(_OWNER_OF_QUEUED.get(gang.family, gang.family), gang.namespace, gang.name)

    def rooms_of(self, pods: Iterable[Pod]) -> set[str]:
        """Keys of the groups that keep room for these pods, because their Job or JobSet goes on."""
        ledger = self._world.ledger
        owners = {o.uid for p in pods if (o := self.owner_of(p)) is not None} if ledger.resumes else ()
        return {made.holder for uid in owners if (made := ledger.kept_for(uid)) is not None}

    # -- stand-ins -----------------------------------------------------------------------------------------

    @property
    def standing(self) -> list[OwnerKey]:
        """The Jobs and JobSets that have stand-ins."""
        return list(self._standing)

    def stands(self, key: OwnerKey) -> bool:
        """Does this Job or JobSet have stand-ins?"""
        return key in self._standing

    def with_queue(self) -> list[OwnerKey]:
        """The Jobs and JobSets that are suspended and have a queue."""
        owners: list[Suspendable] = [*self._world.jobs.values(), *self._world.jobsets.values()]
        return [(family_of(o), o.namespace, o.name) for o in owners if o.suspended and o.queue.local_queue]

    def ours(self, owner: Suspendable) -> bool:
        """Is it suspended, by us or until its queue has room, and may it go on?"""
        return self._waits(owner) and self._problem(owner) is None

    def _waits(self, owner: Suspendable) -> bool:
        return bool(self.scheduler_of(owner)) and owner.suspended and not owner.finished and owner.wanted > 0

    def refusal(self, key: OwnerKey) -> FieldError | None:
        """Why a Job or JobSet that is suspended never goes on; None if it may, or if that is not up to us."""
        owner = self.find(*key)
        return self._problem(owner) if owner is not None and self._waits(owner) else None

    def _problem(self, owner: Suspendable) -> FieldError | None:
        """The Jobs of a JobSet may want more pods than it says of them."""
        problem = why_it_cannot_wait(owner)
        if problem is not None or isinstance(owner, Job):
            return problem
        wanted = sum(max(0, job.wanted) for job in self._planned(owner) if not job.finished)
        text = f"its Jobs want {wanted} pods, more than the {MAX_WITHOUT_PODS} with which a JobSet may wait"
        return FieldError("spec.replicatedJobs", text) if wanted > MAX_WITHOUT_PODS else None

    def scheduler_of(self, owner: Suspendable) -> str:
        """By which of our scheduler names it goes on when it is suspended; empty where that is not up to us.

        What bears no record of ours waits for its queue if its pods are to be ours.
        """
        template, by = owner.template, owner.suspended_by
        if template is None or self.two_admitters(owner):
            return ""
        if self.held(owner):
            by = template.scheduler
        return by if by in self._world.membership.ours else ""

    def two_admitters(self, owner: Suspendable) -> str:
        """What is wrong with a Job or JobSet that Kueue admits as well; empty if it is not so."""
        scheduler = owner.suspended_by or (owner.template.scheduler if owner.template is not None else "")
        return self._world.two_admitters((GangId(family_of(owner), owner.namespace, owner.name, scheduler),))

    def held(self, owner: Suspendable) -> bool:
        """Is it, where it is suspended without a record of ours, to start when its queue has room?

        That is what ``suspend: true`` means beside a queue label; so Jobs are written for Kueue, too. What has a
        controller above it is left to that.
        """
        if owner.owner is not None and owner.owner.kind not in LENIENT:
            return False
        queued = bool(owner.queue.local_queue) and not owner.suspended_by and self._world.managed.active
        return queued and not self.two_admitters(owner)

    def renew(self, key: OwnerKey) -> set[GangId]:
        """Make or end the stand-ins of a Job or JobSet as what is known of it asks for; returns the gangs that this
        touches.
        """
        job = self.find(*key)
        wanted = self._stand_ins(job) if job is not None and self.ours(job) and not self.pods_of(job) else []
        standing = self._standing.get(key, [])
        if wanted == standing:
            return set()
        for pod in standing:
            self._world.drop_pod(pod.uid)
        self._standing.pop(key, None)
        if job is not None and wanted:
            self._standing[key] = wanted
            self._world.membership.set_object(gang_of(job, family_of(job), len(wanted), "gang"))
            for pod in wanted:
                self._world.set_pod(pod)
        else:
            self._world.membership.drop_object(*key)
        return {pod.gang for pod in (*standing, *wanted)}

    def _stand_ins(self, owner: Suspendable) -> list[Pod]:
        scheduler = self.scheduler_of(owner)
        gang = GangId(family_of(owner), owner.namespace, owner.name, scheduler)
        out: list[Pod] = []
        for job in self._planned(owner):
            template = job.template
            if template is None or job.finished:
                continue
            priority, policy = self._priority(template)
            out += [
                msgspec.structs.replace(
                    template,
                    name=f"{job.name}-{index}",
                    uid=f"{job.uid}/{index}",
                    gang=gang,
                    scheduler=scheduler,
                    priority=priority,
                    preemption_policy=policy,
                    node="",
                    phase="Pending",
                    created=owner.created,
                    started=owner.created,
                    gates=(),
                    volumes=_claims_that_stay(template.volumes),
                )
                for index in range(job.wanted)
            ]
        return out

    def _planned(self, owner: Suspendable) -> list[Job]:
        """The Job, or all Jobs that a JobSet has or will have. What has started already may have succeeded in part."""
        if isinstance(owner, Job):
            return [owner]
        there = self._jobs_of.get(owner.uid, {})
        replaced = self._said_by_flavor(owner)
        out = []
        for each in owner.replicated:
            for index in range(each.replicas):
                name = f"{each.job.name}-{index}"
                found = there.get(name)
                if found is None:
                    found = msgspec.structs.replace(each.job, name=name, uid=f"{owner.uid}/{name}")
                elif found.template is not None:
                    template = merged(found.template, each.job.template, but=replaced)
                    found = msgspec.structs.replace(found, template=template)
                out.append(found)
        return out

    def _said_by_flavor(self, owner: JobSet) -> set[str]:
        """Labels that a JobSet gets of whichever flavor it goes on in: what its Jobs have of an earlier one does not
        hold then. Other labels they keep.
        """
        quota = self._world.managed.quota
        queue = quota.queues.get(quota.queue_of(owner.namespace, owner.queue.local_queue)[0])
        out: set[str] = set()
        for group in queue.groups if queue is not None else ():
            found = (quota.flavors.get(each.flavor) for each in group.flavors)
            labels = [set(flavor.labels) if flavor is not None else set() for flavor in found]
            out |= set.intersection(*labels) if labels else set()
        return out

    def _priority(self, template: Pod) -> tuple[int, str]:
        """What admission gives the pods of a template: the class that it names, else the default class, says it.

        What the template says itself is not asked: of a Job the API server checks neither, only of pods.
        """
        classes = self._world.classes
        found = classes.get(template.priority_class)
        if found is None and not template.priority_class:
            defaults = [c for c in classes.values() if c.global_default]
            found = min(defaults, key=lambda c: (c.value, c.name), default=None)
        return (found.value, found.preemption_policy) if found is not None else (0, PREEMPT_LOWER)


def family_of(owner: Suspendable) -> str:
    """The family of its gang while it has no pods, which is its API kind."""
    return JOB if isinstance(owner, Job) else JOBSET


def templates_of(owner: Suspendable) -> list[Pod]:
    """What the pods of a Job, or of each kind of Job of a JobSet, will be, as far as it can be read."""
    jobs = [owner] if isinstance(owner, Job) else [each.job for each in owner.replicated]
    return [job.template for job in jobs if job.template is not None]


def gang_of(owner: Suspendable, family: str, members: int, disruption: str | None = None) -> Gang:
    """The gang of a Job or JobSet that needs no group object of its own."""
    return Gang(
        family,
        owner.namespace,
        owner.name,
        kind=family_of(owner),
        uid=owner.uid,
        created=owner.created,
        min_member=members,
        disruption=disruption,
        queue=owner.queue,
    )


def _claims_that_stay(volumes: PodVolumes | None) -> PodVolumes | None:
    """The claims of generic ephemeral volumes come and go with a pod: there are none for a stand-in."""
    if volumes is None or not volumes.owned:
        return volumes
    claims = tuple(c for c in volumes.claims if c not in volumes.owned)
    return msgspec.structs.replace(volumes, claims=claims, owned=()) if claims or volumes.disks else None
