"""Jobs and JobSets with their pods, and those of them that Kueue admits.

A Job of a JobSet is suspended and let go on by the JobSet only, so the JobSet stands for all of its Jobs here: the
*owner* of a pod is the JobSet above its Job, or else the Job.

Of the pods that it admits one by one Kueue's webhook marks each as it is created: a label, and a scheduling gate until
it is admitted. The template of a Job gets a label when Kueue starts it; while the Job waits, nothing on it tells, but
there is a Workload whose owner it is. (https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, TypeAlias

from gangsched.core.state.ownership import same
from gangsched.messages import causes
from gangsched.model.jobsets import JOBSET, QUEUED_JOBSET, JobSet
from gangsched.model.queues import KUEUE_LABELS, KUEUE_PREFIX
from gangsched.model.records import (
    JOB,
    NO_QUEUE,
    NO_STAKES,
    QUEUED_JOB,
    Gang,
    GangId,
    Job,
    Owner,
    Pod,
    QueueLabels,
    Stakes,
)

#: What is suspended, and goes on, as a whole.
Suspendable: TypeAlias = Job | JobSet
#: Family (which is the API kind), namespace and name.
OwnerKey: TypeAlias = tuple[str, str, str]
#: The families of gangs without pods.
WITHOUT_PODS = (JOB, JOBSET)
_OWNER_OF_QUEUED = {QUEUED_JOB: JOB, QUEUED_JOBSET: JOBSET}


class Jobs:
    """Jobs and JobSets by namespace and name, and the pods that Jobs own.

    ``known`` is for whoever wants to remember something about the pods of a Job or JobSet (by UID): it is forgotten as
    soon as one of them changes, or a Job.
    """

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        self._owners: dict[OwnerKey, Suspendable] = {}
        self._jobs_of: dict[str, dict[str, Job]] = {}
        self._pods: dict[tuple[str, str], dict[str, Pod]] = {}
        #: The Jobs and JobSets that say something about the loss of their pods.
        self.stakes: dict[OwnerKey, Stakes] = {}
        self.kueue = AdmittedByKueue()

    def __bool__(self) -> bool:
        return bool(self._owners)

    # -- changes -------------------------------------------------------------------------------------------

    def pod_set(self, old: Pod | None, pod: Pod) -> None:
        """A pod was created or changed."""
        if old is not None and old.owner != pod.owner:
            self.pod_dropped(old)
        if pod.gang.family not in WITHOUT_PODS:
            self.kueue.pod_set(old, pod)
            if pod.owner is not None and pod.owner.kind == JOB:
                self._pods.setdefault((pod.namespace, pod.owner.name), {})[pod.uid] = pod

    def pod_dropped(self, pod: Pod) -> None:
        """A pod is gone."""
        self.pod_moved(pod)
        self.kueue.pod_dropped(pod)
        key = (pod.namespace, pod.owner.name) if pod.owner is not None else ("", "")
        pods = self._pods.get(key, {})
        if pods.pop(pod.uid, None) is not None and not pods:
            del self._pods[key]

    def pod_moved(self, pod: Pod) -> None:
        """A pod takes or leaves room, or its record has changed."""
        if pod.owner is not None and pod.owner.kind == JOB:
            self.known.pop(pod.owner.uid, None)
            job = self.get((pod.namespace, pod.owner.name))
            if job is not None:
                self._forget(job)

    def _forget(self, job: Job) -> None:
        self.known.pop(job.uid, None)
        if job.owner is not None:
            self.known.pop(job.owner.uid, None)

    def put(self, owner: Suspendable) -> Suspendable | None:
        """A Job or JobSet was created or changed; returns what was known under its name before."""
        key = key_of(owner)
        before = self._owners.get(key)
        if isinstance(owner, Job):
            if isinstance(before, Job) and (before.uid, before.owner) != (owner.uid, owner.owner):
                self._leave_jobset(before)
            self._forget(owner)
            if owner.owner is not None and owner.owner.kind == JOBSET:
                self._jobs_of.setdefault(owner.owner.uid, {})[owner.name] = owner
        self._owners[key] = owner
        self.stakes.pop(key, None)
        if owner.stakes != NO_STAKES:
            self.stakes[key] = owner.stakes
        return before

    def forget_owner(self, key: OwnerKey) -> Suspendable | None:
        """Forget a Job or JobSet that is gone. Return its last record."""
        gone = self._owners.pop(key, None)
        self.stakes.pop(key, None)
        if isinstance(gone, Job):
            self._leave_jobset(gone)
        return gone

    def stakes_of(self, job: tuple[str, str]) -> list[Stakes]:
        """Return the statements of the Job of this namespace and name, and then of its JobSet."""
        found = self.get(job)
        above = self.jobset_of(found) if found is not None else None
        keys = [(JOB, *job)] + ([(JOBSET, above.namespace, above.name)] if above is not None else [])
        return [self.stakes[key] for key in keys if key in self.stakes]

    def _leave_jobset(self, job: Job) -> None:
        self._forget(job)
        siblings = self._jobs_of.get(job.owner.uid) if job.owner is not None else None
        if job.owner is not None and siblings is not None and siblings.pop(job.name, None) is not None and not siblings:
            del self._jobs_of[job.owner.uid]

    # -- questions -----------------------------------------------------------------------------------------

    def all(self) -> list[Suspendable]:
        """All Jobs, and all JobSets."""
        return [*self._owners.values()]

    def get(self, key: tuple[str, str]) -> Job | None:
        """The Job of this namespace and name."""
        found = self._owners.get((JOB, *key))
        return found if isinstance(found, Job) else None

    def find(self, family: str, namespace: str, name: str) -> Suspendable | None:
        """The Job or JobSet that a gang of this family stands for."""
        return self._owners.get((family, namespace, name))

    def of_gang(self, gang: GangId) -> Suspendable | None:
        """The Job or JobSet that a gang stands for, with its pods or without."""
        return self.find(_OWNER_OF_QUEUED.get(gang.family, gang.family), gang.namespace, gang.name)

    def jobs_of(self, owner: Suspendable) -> list[Job]:
        """The Jobs of a JobSet that there are, by name; a Job itself."""
        if isinstance(owner, Job):
            return [owner]
        return [job for _, job in sorted(self._jobs_of.get(owner.uid, {}).items())]

    def pods_named(self, key: tuple[str, str]) -> Collection[Pod]:
        """The pods whose owner is a Job of this namespace and name, whichever incarnation, in no particular order."""
        return self._pods.get(key, {}).values()

    def pods_of(self, owner: Suspendable) -> list[Pod]:
        """The pods of a Job or JobSet that have not finished, by name."""
        found = [
            pod
            for job in self.jobs_of(owner)
            for pod in self.pods_named((job.namespace, job.name))
            if pod.owner is not None and same(pod.owner, job.uid) and not pod.finished
        ]
        return sorted(found, key=lambda p: (p.name, p.uid))

    def job_of(self, pod: Pod) -> Job | None:
        """The Job that owns a pod, if it is known."""
        if pod.owner is None or pod.owner.kind != JOB:
            return None
        job = self.get((pod.namespace, pod.owner.name))
        return job if job is not None and same(pod.owner, job.uid) else None

    def jobset_of(self, job: Job) -> JobSet | None:
        """The JobSet that owns a Job, if it is known."""
        if job.owner is None or job.owner.kind != JOBSET:
            return None
        found = self._owners.get((JOBSET, job.namespace, job.owner.name))
        return found if isinstance(found, JobSet) and same(job.owner, found.uid) else None

    def owner_of(self, pod: Pod) -> Suspendable | None:
        """The JobSet of a pod, or else its Job, if they are known."""
        job = self.job_of(pod)
        return job if job is None else self.jobset_of(job) or job

    def admitted_by_kueue(self, gangs: Iterable[GangId]) -> str:
        """How it is known that Kueue admits these gangs, in words; empty if it is not. A mark on a template will be one
        on each pod.
        """
        for gang in gangs:
            mark = self.kueue.mark_on(gang)
            owner = None if mark else self.of_gang(gang)
            if owner is not None:
                mark = self.kueue.workload_of(owner.uid, owner.owner.uid if owner.owner is not None else "")
                mark = mark or next(filter(None, map(mark_of, templates_of(owner))), "")
            if mark:
                return mark
        return ""

    # -- labels for quota ----------------------------------------------------------------------------------

    def queue_of(self, owner: Suspendable) -> QueueLabels:
        """Return the labels about quota: those of a Job, or else of its JobSet."""
        if isinstance(owner, Job) and not owner.queue.local_queue and owner.owner is not None:
            jobset = self.jobset_of(owner)
            return jobset.queue if jobset is not None else owner.queue
        return owner.queue

    def queue_of_pod(self, pod: Pod) -> QueueLabels:
        """The same of the Job that owns a pod."""
        job = self.job_of(pod)
        return self.queue_of(job) if job is not None else NO_QUEUE

    def queue_of_gang(self, gang: GangId) -> QueueLabels:
        """The same of the Job or JobSet that a gang stands for."""
        owner = self.of_gang(gang)
        return self.queue_of(owner) if owner is not None else NO_QUEUE


def family_of(owner: Suspendable) -> str:
    """The family of its gang while it has no pods, which is its API kind."""
    return JOB if isinstance(owner, Job) else JOBSET


def key_of(owner: Suspendable) -> OwnerKey:
    """The name of a Job or JobSet among both."""
    return family_of(owner), owner.namespace, owner.name


def templates_of(owner: Suspendable) -> list[Pod]:
    """Return the future pods of a Job, or of each kind of Job of a JobSet, if they are valid."""
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


def mark_of(pod: Pod) -> str:
    """Return the sign on a pod that Kueue admits it, in words; empty for none."""
    gate = next((each for each in pod.gates if each.startswith(KUEUE_PREFIX)), "")
    if gate:
        return causes.scheduling_gate(gate=gate)
    label = next((each for each in KUEUE_LABELS if each in pod.labels), "")
    return f"label {label}" if label else ""


class AdmittedByKueue:
    """The marks of pods (by UID) of each gang, and the Workloads (``namespace/name``) of each object (UID) with some.

    ``at_work`` says that there has been such a Workload.
    """

    def __init__(self) -> None:
        self.at_work = False
        self._marks: dict[GangId, dict[str, str]] = {}
        self._owners: dict[str, tuple[Owner, ...]] = {}
        self._workloads: dict[str, set[str]] = {}

    def pod_set(self, old: Pod | None, pod: Pod) -> None:
        """A pod was created or changed."""
        if old is not None:
            self.pod_dropped(old)
        mark = mark_of(pod)
        if mark:
            self._marks.setdefault(pod.gang, {})[pod.uid] = mark

    def pod_dropped(self, pod: Pod) -> None:
        """A pod is gone, or not what it was (its last record) any more."""
        marks = self._marks.get(pod.gang)
        if marks is not None:
            marks.pop(pod.uid, None)
            if not marks:
                del self._marks[pod.gang]

    def mark_on(self, gang: GangId) -> str:
        """Return the sign on a pod of the gang that Kueue admits it; empty for none."""
        return min(self._marks.get(gang, {}).values(), default="")

    def workload_set(self, key: str, owners: tuple[Owner, ...]) -> Iterable[Owner]:
        """A Workload was created or changed, or is gone (without owners); returns those for which that is news."""
        before = self._owners.get(key, ())
        if before == owners:
            return ()
        for each in before:
            workloads = self._workloads.get(each.uid, set())
            workloads.discard(key)
            if not workloads:
                self._workloads.pop(each.uid, None)
        for each in owners:
            self._workloads.setdefault(each.uid, set()).add(key)
        if owners:
            self.at_work = True
            self._owners[key] = owners
        else:
            self._owners.pop(key, None)
        return dict.fromkeys((*before, *owners))

    def workload_of(self, *uids: str) -> str:
        """The Workload of the first of these objects that has one, in words; empty if none has."""
        found = next((self._workloads[uid] for uid in uids if uid in self._workloads), None)
        return f"Workload {min(found)}" if found else ""
