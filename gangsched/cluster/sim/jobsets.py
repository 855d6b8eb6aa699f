"""The JobSet controller: lets its Jobs run as the JobSet says, and ends with them.

Rules: https://jobset.sigs.k8s.io/docs/concepts/ . The Jobs are those of the input. One that fails is the end of the
JobSet and of its other Jobs, as without a failure policy; it starts none anew.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gangsched.cluster.sim.clock import VirtualClock
from gangsched.cluster.sim.history import COMPLETE, FAIL, JOBSET_CONTROLLER, RESUME, SUSPEND, Cause
from gangsched.cluster.sim.store import Store
from gangsched.cluster.sim.timing import Timing
from gangsched.core.events import Changed, Event
from gangsched.model.jobsets import JOBSET, JobSet
from gangsched.model.podset_info import directed, merged
from gangsched.model.records import Job


class JobSetController:
    """Reacts to JobSets and to the Jobs that they own."""

    def __init__(self, clock: VirtualClock, store: Store, timing: Timing) -> None:
        self._clock = clock
        self._store = store
        self._timing = timing
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
    """Did a Job that has finished succeed? Without a number of completions one pod that succeeds is enough."""
    return job.succeeded >= (1 if job.completions is None else job.completions)
