"""Writes to Jobs and JobSets, by which they are suspended and go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gangsched import logs
from gangsched.cluster.kube.bodies import Request, object_path
from gangsched.cluster.kube.client import MERGE, ApiError, Client, UnreachableError, answer_of
from gangsched.cluster.kube.job_templates import template_change
from gangsched.cluster.kube.json_limits import bounded
from gangsched.cluster.kube.kind_of_write import EVICTIONS_REST_ON, KindOfWrite, Verdict
from gangsched.core.actions import JobRef, JobWrite, ResumeJob, SuspendJob
from gangsched.core.events import Outcome
from gangsched.messages import notes
from gangsched.model import jobsets, wire
from gangsched.model.children import ADDED_BY_FLAVOR
from gangsched.model.convert import PREEMPTED_BY, SUSPENDED_BY, job_finished, jobset_finished
from gangsched.model.jobsets import JOBSET
from gangsched.model.queues import QUEUE_LABEL

_log = logs.get(__name__)

KEPT_TEMPLATE = notes.FLAVOR_NOT_WRITTEN

_job_decoder: msgspec.json.Decoder[wire.Job | jobsets.RawJobSet] = msgspec.json.Decoder(wire.Job)
_any_decoder: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])
_jobset_decoder: msgspec.json.Decoder[wire.Job | jobsets.RawJobSet] = msgspec.json.Decoder(jobsets.RawJobSet)


class JobWrites(KindOfWrite[JobWrite]):
    """PATCH of ``spec.suspend``, on condition of the object's UID and version."""

    def request(self, action: JobWrite) -> Request:
        return job_request(action, action.version)

    async def prepared(self, action: JobWrite) -> tuple[Request | None, Verdict | None]:
        if not isinstance(action, ResumeJob) or action.templates is None:
            return self.request(action), None
        found = await read_job(self.means.client, self.means.timeout_seconds, action.job)
        return job_request(action, action.version, found), None

    async def judge(
        self, action: JobWrite, request: Request | None, error: ApiError
    ) -> tuple[Verdict | None, Request | None]:
        if request is not None and error.status in ((403, 409, 422) if writes_templates(request) else (409, 422)):
            return await look_at_job(self.means.client, self.means.timeout_seconds, action, request, error)
        return await super().judge(action, request, error)

    def succeeded(self, action: JobWrite, request: Request, body: bytes) -> str:
        wanted = isinstance(action, ResumeJob) and action.templates is not None
        return KEPT_TEMPLATE if wanted and not writes_templates(request) else ""


class Suspensions(JobWrites):
    """The pods of the Job leave."""

    rests_on = EVICTIONS_REST_ON


def job_path(job: JobRef) -> str:
    """The URL path of a Job, or of a JobSet."""
    jobset = job.kind == jobsets.JOBSET
    api, plural = (f"{jobsets.GROUP}/{jobsets.VERSION}", "jobsets") if jobset else ("batch/v1", "jobs")
    return object_path(api, plural, job.namespace, job.name)


def job_request(action: SuspendJob | ResumeJob, version: str, found: Mapping[str, Any] | None = None) -> Request:
    """A Job or JobSet is suspended or goes on, if it still is as it was in this version; who did it is in the same
    PATCH. So is what its templates get of their flavors if ``found`` is given: the object as the server has it.
    """
    notes: dict[str, str | None] = {SUSPENDED_BY: None, PREEMPTED_BY: None}
    if isinstance(action, SuspendJob):
        notes = {SUSPENDED_BY: action.scheduler, PREEMPTED_BY: f"{action.preemptor}, plan {action.plan}"}
    meta = {"uid": action.job.uid, "resourceVersion": version, "annotations": notes}
    spec: dict[str, Any] = {"suspend": isinstance(action, SuspendJob)}
    if isinstance(action, ResumeJob) and action.templates is not None and found is not None:
        change, notes[ADDED_BY_FLAVOR] = template_change(found, action.templates)
        spec |= change
    body = {"metadata": meta, "spec": spec}
    return Request("PATCH", job_path(action.job), msgspec.json.encode(body), MERGE)


async def read_job(client: Client, timeout_seconds: float, job: JobRef) -> dict[str, Any]:
    """A Job or JobSet as the server has it, whole. Raises :class:`ApiError` and :class:`UnreachableError`."""
    body = await client.attempt("GET", job_path(job), timeout_seconds=timeout_seconds)
    return answer_of(_any_decoder, bounded(body), f"GET {job_path(job)}")


async def look_at_job(
    client: Client, timeout_seconds: float, action: SuspendJob | ResumeJob, request: Request, error: ApiError
) -> tuple[Verdict | None, Request]:
    """Return the verdict on a refused attempt to suspend or resume a Job or JobSet, from its state. Without a verdict,
    the returned request is tried next.

    Its status changes all the time: if that is all, the same is to be tried again on the newest version. A Job that
    another client suspended stays suspended. An unchangeable template is no reason to stay suspended. But the template
    of a Job becomes changeable only when its controller has seen that its pods are gone.
    """
    what, path = action.job, job_path(action.job)
    try:
        body = bounded(await client.attempt("GET", path, timeout_seconds=timeout_seconds))
        job = answer_of(_jobset_decoder if what.kind == JOBSET else _job_decoder, body, f"GET {path}")
    except ApiError as failure:
        return ((Outcome.GONE, error.message) if failure.status == 404 else None), request
    except UnreachableError:
        return None, request
    if job.metadata.uid != action.job.uid:
        return (Outcome.GONE, error.message), request
    if job.spec.suspend == isinstance(action, SuspendJob):
        return (Outcome.OK, ""), request
    if jobset_finished(job) if isinstance(job, jobsets.RawJobSet) else job_finished(job):
        return (Outcome.CONFLICT, notes.owner_finished(kind=what.kind, owner=what.key)), request
    by = None if isinstance(action, ResumeJob) and action.held else action.scheduler
    if job.spec.suspend and (job.metadata.annotations or {}).get(SUSPENDED_BY) != by:
        return (Outcome.CONFLICT, notes.owner_suspended(kind=what.kind, owner=what.key)), request
    if by is None and isinstance(action, ResumeJob) and QUEUE_LABEL not in (job.metadata.labels or {}):
        return (Outcome.CONFLICT, notes.owner_without_queue(kind=what.kind, owner=what.key)), request
    version = job.metadata.resource_version
    if not writes_templates(request):
        return ((Outcome.REFUSED, error.message) if error.status == 422 else None), job_request(action, version)
    if error.status != 409 and _version_of(request) == version and _at_rest(job):
        _log.warning("the template keeps its flavor", kind=what.kind, job=what.key, error=error.message)
        return None, job_request(action, version)
    return None, job_request(action, version, msgspec.json.decode(body))  # bounded: it is copied and encoded


def writes_templates(request: Request) -> bool:
    """Return True if a request that resumes a Job or JobSet changes its pod templates."""
    return ADDED_BY_FLAVOR.encode() in request.body


def _version_of(request: Request) -> str:
    return str(msgspec.json.decode(request.body)["metadata"]["resourceVersion"])


def _at_rest(job: wire.Job | jobsets.RawJobSet) -> bool:
    """Return True if the controller of a suspended Job knows that it has no pods."""
    if isinstance(job, jobsets.RawJobSet):
        return True
    suspended = any(c.type == "Suspended" and c.status == "True" for c in job.status.conditions or ())
    return suspended and not job.status.active
