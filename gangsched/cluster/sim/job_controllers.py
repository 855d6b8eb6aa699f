"""The controllers of Jobs and JobSets.

Jobs: https://kubernetes.io/docs/concepts/workloads/controllers/job/ . The Job controller replaces pods, counts
failures, and ends, suspends and resumes Jobs. It uses the same rule for failed pods as plans
(:mod:`gangsched.model.survival`). Pods of the input are those that it has made before; it creates further ones for a
Job that has had all of them, or that is resumed.

JobSets: https://jobset.sigs.k8s.io/docs/concepts/ . The Jobs of a JobSet are those of the input; they run as the JobSet
says. The JobSet controller uses the same rule for failed Jobs as plans (:mod:`gangsched.model.jobset_survival`): the
JobSet ends, or all of its Jobs, or this one, are created again.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec

from gangsched.cluster.sim.arrival import GRACE_USED, hint_seconds
from gangsched.cluster.sim.clock import Timing, VirtualClock
from gangsched.cluster.sim.history import (
    COMPLETE,
    CREATE,
    DELETE,
    FAIL,
    GONE,
    JOB_CONTROLLER,
    JOBSET_CONTROLLER,
    RESUME,
    STATUS,
    SUSPEND,
    Cause,
)
from gangsched.cluster.sim.store import Store
from gangsched.core.events import Changed, Event, Gone
from gangsched.model.children import directed, merged
from gangsched.model.jobset_survival import JobSetFate
from gangsched.model.jobsets import JOBSET, RESTART_ATTEMPT, JobSet
from gangsched.model.records import JOB, SINGLE, GangId, Job, Pod
from gangsched.model.survival import BY_LIMIT, KILLED, STOPPED, fate, succeeds, with_numbers

JobKey = tuple[str, str]


class JobController:
    """Reacts to Jobs and to the pods that they own."""

    def __init__(self, clock: VirtualClock, store: Store, timing: Timing) -> None:
        self._clock = clock
        self._store = store
        self._timing = timing
        self._names: dict[JobKey, set[str]] = defaultdict(set)
        #: Keys of the pods of each Job, by its UID, that have not ended.
        self._unfinished: dict[str, dict[tuple[str, str], None]] = defaultdict(dict)
        self._lost: set[str] = set()
        self._complete: set[JobKey] = set()  # Jobs that have had all of their pods
        self._index_failures: Counter[tuple[str, int]] = Counter()  # by UID of the Job, and index
        self._made = 0
        #: Why Jobs have failed, by UID.
        self.reasons: dict[str, str] = {}
        store.subscribe(self._on_change)

    def _on_change(self, event: Event, old: Any) -> None:
        match event:
            case Changed(Pod() as pod) if pod.owner is not None and pod.owner.kind == JOB:
                self._count(pod, there=not pod.finished)
                self._pod_changed(pod, old)
            case Gone("Pod") if isinstance(old, Pod) and old.owner is not None and old.owner.kind == JOB:
                self._count(old, there=False)
                if not old.finished:
                    self._pod_lost(old)
            case Changed(Job() as job):
                before = (old.suspended, old.finished) if isinstance(old, Job) else (False, job.finished)
                if (job.suspended, job.finished) != before:
                    if before[0] and not job.suspended:
                        self._complete.add((job.namespace, job.name))
                    self._soon((job.namespace, job.name), self._timing.controller_seconds)
                elif isinstance(old, Job) and job.parallelism != old.parallelism:
                    self._soon((job.namespace, job.name), self._timing.controller_seconds)

    def _count(self, pod: Pod, *, there: bool) -> None:
        assert pod.owner is not None
        keys = self._unfinished[pod.owner.uid]
        if there:
            keys[pod.namespace, pod.name] = None
        else:
            keys.pop((pod.namespace, pod.name), None)

    def _pod_changed(self, pod: Pod, old: Pod | None) -> None:
        assert pod.owner is not None
        key = (pod.namespace, pod.owner.name)
        self._names[key].add(pod.name)
        job = self._job_of(pod)
        if job is None or old is None:
            if job is not None and len(self._names[key]) >= job.wanted:
                self._complete.add(key)
            return
        if pod.phase == "Succeeded" and old.phase != "Succeeded":
            self._succeeded(job, pod)
        elif old.live and not pod.live and (pod.finished or not job.awaits_end):
            self._pod_lost(pod)

    def _succeeded(self, job: Job, pod: Pod) -> None:
        done = msgspec.structs.replace(job, succeeded=job.succeeded + 1)
        if job.indexed:
            indexes = with_numbers(job.completed_indexes, [pod.completion_index])
            done = msgspec.structs.replace(done, completed_indexes=indexes)
        rest = [p for p in self._active(job) if p.live]
        failed = bool(fate(done, ()).cause)
        if failed:
            self.reasons[job.uid] = fate(done, ()).reason
        over = failed or (not rest if job.completions is None else _complete(done))
        detail = {"succeeded": done.succeeded}
        if over:
            done = msgspec.structs.replace(done, finished=True)
        verb = FAIL if failed else COMPLETE if over else STATUS
        self._store.apply(Changed(done), Cause(JOB_CONTROLLER, verb, detail))
        self._soon((job.namespace, job.name), self._timing.controller_seconds)

    def _pod_lost(self, pod: Pod) -> None:
        """A pod has failed. One that is being deleted has failed as well, if its Job does not await its end."""
        job = self._job_of(pod)
        if job is None or job.suspended or job.finished or pod.uid in self._lost:
            return
        self._lost.add(pod.uid)
        found = fate(job, [pod], codes=[exit_code(pod)])
        if found.failed > job.failed:
            self._index_failures[job.uid, pod.completion_index] = pod.index_failures + 1
        over = bool(found.cause)
        if over:
            self.reasons[job.uid] = found.reason
        detail = {"failed": found.failed, "backoffLimit": job.backoff_limit}
        job = msgspec.structs.replace(job, failed=found.failed, failed_indexes=found.indexes, finished=over)
        self._store.apply(Changed(job), Cause(JOB_CONTROLLER, FAIL if over else STATUS, detail))
        pause = 0.0 if over else self._timing.job_backoff_seconds
        self._soon((job.namespace, job.name), max(self._timing.controller_seconds, pause))

    def replace(self, job: Job, made: Job) -> None:
        """One Job, and its pods, by another of its name, which gets all of its pods."""
        for pod in self._active(job):
            self._delete(pod)
        self._store.apply(Gone(JOB, job.namespace, job.name, job.uid), Cause(JOBSET_CONTROLLER, GONE))
        self._store.apply(Changed(made), Cause(JOBSET_CONTROLLER, CREATE))
        self._complete.add((made.namespace, made.name))
        self._soon((made.namespace, made.name), self._timing.controller_seconds)

    def _job_of(self, pod: Pod) -> Job | None:
        """The Job that owns a pod; none where it is gone, also if another one has its name."""
        assert pod.owner is not None
        job = self._store.job(pod.namespace, pod.owner.name)
        return job if job is not None and job.uid == pod.owner.uid else None

    def _soon(self, key: JobKey, seconds: float) -> None:
        self._clock.after(seconds, lambda: self._sync(key))

    def _sync(self, key: JobKey) -> None:
        job = self._store.job(*key)
        if job is None:
            return
        active = self._active(job)
        if job.suspended or job.finished:
            for pod in active:
                self._delete(pod)
        elif key in self._complete:
            more = job.wanted - len(active) - (self._terminating(job) if job.awaits_end else 0)
            if job.completions is None and job.succeeded:
                more = 0  # after the first that succeeds none is made anew
            for index in itertools.islice(self._indexes(job, active), max(0, more)):
                self._create(job, index)
            for pod in active[job.wanted :]:
                self._lost.add(pod.uid)  # it is not counted as failed
                self._delete(pod)

    def _active(self, job: Job) -> list[Pod]:
        return [pod for pod in self._unfinished_of(job) if pod.live]

    def _terminating(self, job: Job) -> int:
        return sum(pod.deleting_since is not None for pod in self._unfinished_of(job))

    def _unfinished_of(self, job: Job) -> list[Pod]:
        found = map(self._store.pods.get, self._unfinished.get(job.uid, ()))
        return [pod for pod in found if pod is not None and pod.owner is not None and pod.owner.uid == job.uid]

    @staticmethod
    def _indexes(job: Job, active: list[Pod]) -> Iterator[int]:
        """The indexes that pods are made for next, the lowest first; none (-1) for as many pods as are wanted."""
        if not job.indexed:
            return itertools.repeat(-1)
        done = with_numbers((*job.completed_indexes, *job.failed_indexes), (p.completion_index for p in active))
        return (i for i in range(job.completions or 0) if not any(first <= i <= last for first, last in done))

    def _delete(self, pod: Pod) -> None:
        if not pod.node or pod.grace_seconds <= 0:
            self._store.apply(Gone("Pod", pod.namespace, pod.name, pod.uid), Cause(JOB_CONTROLLER, GONE))
            return
        ends = msgspec.structs.replace(pod, deleting_since=self._clock.stamp + pod.grace_seconds)
        self._store.put_pod(ends, Cause(JOB_CONTROLLER, DELETE, {"node": pod.node}))

    def _create(self, job: Job, index: int) -> None:
        if job.template is None:
            return
        names, there = self._names[job.namespace, job.name], self._store.pods
        free = (f"{job.name}-{i}" for i in range(len(names), 2**31))
        name = next(n for n in free if n not in names and (job.namespace, n) not in there)
        self._made += 1
        gang = job.template.gang
        if gang.family == SINGLE:
            gang = GangId(SINGLE, job.namespace, name, job.template.scheduler)
        now = self._clock.stamp
        uid = f"sim:{job.namespace}/{name}#{self._made}"
        shape = directed(job.template.shape, job.added)
        pod = msgspec.structs.replace(
            job.template,
            name=name,
            uid=uid,
            gang=gang,
            created=now,
            started=now,
            shape=shape,
            completion_index=index,
            index_failures=self._index_failures[job.uid, index],
        )
        self._store.put_pod(pod, Cause(JOB_CONTROLLER, CREATE))


def exit_code(pod: Pod) -> int:
    """How the containers of a pod that is deleted end: killed, if they take all of its grace period."""
    used = hint_seconds(pod.hints, GRACE_USED)
    return STOPPED if used is not None and used < pod.grace_seconds else KILLED


class JobSetController:
    """Reacts to JobSets and to the Jobs that they own."""

    def __init__(self, clock: VirtualClock, store: Store, timing: Timing, jobs: JobController) -> None:
        self._clock = clock
        self._store = store
        self._timing = timing
        self._jobs = jobs
        self._restarts: Counter[str] = Counter()  # by UID
        store.subscribe(self._on_change)

    def _on_change(self, event: Event, _old: Any) -> None:
        match event:
            case Changed(JobSet() as jobset):
                self._soon(jobset.namespace, jobset.name)
            case Changed(Job() as job) if job.owner is not None and job.owner.kind == JOBSET:
                self._soon(job.namespace, job.owner.name)

    def _soon(self, namespace: str, name: str) -> None:
        self._clock.after(self._timing.controller_seconds, lambda: self._sync(namespace, name))

    def _sync(self, namespace: str, name: str) -> None:
        jobset = self._store.jobset(namespace, name)
        if jobset is None or jobset.finished:
            return
        jobs = self._store.jobs_of(jobset)
        failed = [job for job in jobs if job.finished and not _complete(job)]
        after = jobset.after((job, self._jobs.reasons.get(job.uid, BY_LIMIT)) for job in failed)
        if failed and not after.ends:
            self._restart(jobset, jobs if after.restarted else failed, after)
            return
        if failed or (jobs and all(job.finished for job in jobs)):
            cause = Cause(JOBSET_CONTROLLER, FAIL if failed else COMPLETE, {"jobs": len(jobs), "failed": len(failed)})
            self._store.apply(Changed(msgspec.structs.replace(jobset, finished=True)), cause)
            for job in jobs:
                if not job.finished:
                    self._store.apply(Changed(msgspec.structs.replace(job, finished=True)), cause)
            return
        for job in jobs:
            if not job.finished and job.suspended != jobset.suspended:
                cause = Cause(JOBSET_CONTROLLER, SUSPEND if jobset.suspended else RESUME)
                self._store.apply(Changed(_as_said(job, jobset)), cause)

    def _restart(self, jobset: JobSet, jobs: list[Job], after: JobSetFate) -> None:
        """Make these Jobs of it anew."""
        self._restarts[jobset.uid] += 1
        number = self._restarts[jobset.uid]
        policy = jobset.failure_policy
        if policy is not None and after.counted:
            policy = msgspec.structs.replace(policy, counted=policy.counted + after.counted)
            cause = Cause(JOBSET_CONTROLLER, STATUS, {"restarts": policy.counted, "maxRestarts": policy.max_restarts})
            self._store.apply(Changed(msgspec.structs.replace(jobset, failure_policy=policy)), cause)
        for job in jobs:
            uid = f"sim:{job.namespace}/{job.name}#{number}"
            template = job.template
            if template is not None and template.owner is not None:
                labels = template.labels
                before = labels.get(RESTART_ATTEMPT, "")
                if before.isdecimal():
                    labels = {**labels, RESTART_ATTEMPT: str(int(before) + 1)}
                owner = msgspec.structs.replace(template.owner, uid=uid)
                template = msgspec.structs.replace(template, owner=owner, labels=labels)
            made = msgspec.structs.replace(
                job,
                uid=uid,
                template=template,
                created=self._clock.stamp,
                failed=0,
                succeeded=0,
                finished=False,
                failed_indexes=(),
                completed_indexes=(),
                counted=frozenset(),
                suspended=jobset.suspended,
            )
            self._jobs.replace(job, made)


def _as_said(job: Job, jobset: JobSet) -> Job:
    """The Job suspended or not, as its JobSet is; one that goes on has the node selector and tolerations of there
    beside those that it had.
    """
    job = msgspec.structs.replace(job, suspended=jobset.suspended)
    made_of = next((each.job for each in jobset.replicated if each.job.name == job.name.rpartition("-")[0]), None)
    if job.suspended or job.template is None or made_of is None:
        return job
    model = made_of.template
    if model is not None:
        model = msgspec.structs.replace(model, shape=directed(model.shape, made_of.added))
    return msgspec.structs.replace(job, template=merged(job.template, model))


def _complete(job: Job) -> bool:
    """Return whether a Job has all that it needs. Without a number of completions one pod that succeeds is enough."""
    if succeeds(job):
        return True
    return job.succeeded >= (1 if job.completions is None else job.completions)
