"""What became of a write to a Job or JobSet that was refused: the object itself knows."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from gangsched import logs
from gangsched.cluster.kube.bodies import Request, job_path, job_request
from gangsched.cluster.kube.client import ApiError, Client, UnreachableError, answer_of
from gangsched.cluster.kube.json_limits import bounded
from gangsched.core.actions import Action, JobRef, ResumeJob, SuspendJob
from gangsched.core.events import Outcome
from gangsched.messages import notes
from gangsched.model import wire, wire_jobsets
from gangsched.model.convert import SUSPENDED_BY, job_finished
from gangsched.model.convert_jobsets import jobset_finished
from gangsched.model.jobsets import JOBSET
from gangsched.model.podset_info import ADDED_BY_FLAVOR
from gangsched.model.queues import QUEUE_LABEL

_log = logs.get(__name__)

#: An outcome, and why in words.
Verdict: TypeAlias = tuple[Outcome, str]

KEPT_TEMPLATE = notes.FLAVOR_NOT_WRITTEN

_job_decoder: msgspec.json.Decoder[wire.Job | wire_jobsets.JobSet] = msgspec.json.Decoder(wire.Job)
_any_decoder: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])
_jobset_decoder: msgspec.json.Decoder[wire.Job | wire_jobsets.JobSet] = msgspec.json.Decoder(wire_jobsets.JobSet)


async def read_job(client: Client, timeout_seconds: float, job: JobRef) -> dict[str, Any]:
    """A Job or JobSet as the server has it, whole. Raises :class:`ApiError` and :class:`UnreachableError`."""
    body = await client.attempt("GET", job_path(job), timeout_seconds=timeout_seconds)
    return answer_of(_any_decoder, bounded(body), f"GET {job_path(job)}")


async def look_at_job(
    client: Client, timeout_seconds: float, action: SuspendJob | ResumeJob, request: Request, error: ApiError
) -> tuple[Verdict | None, Request]:
    """What a Job or JobSet says about an attempt to suspend it, or to let it go on, that was refused; without a verdict
    the request that is returned is to be tried next.

    Its status changes all the time: if that is all, the same is to be tried again on the newest version. What
    another client has suspended stays so. A template that must not be changed is no reason not to go on; but that
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
    if jobset_finished(job) if isinstance(job, wire_jobsets.JobSet) else job_finished(job):
        return (Outcome.CONFLICT, notes.owner_finished(what.kind, what.key)), request
    by = None if isinstance(action, ResumeJob) and action.held else action.scheduler
    if job.spec.suspend and (job.metadata.annotations or {}).get(SUSPENDED_BY) != by:
        return (Outcome.CONFLICT, notes.owner_suspended(what.kind, what.key)), request
    if by is None and isinstance(action, ResumeJob) and QUEUE_LABEL not in (job.metadata.labels or {}):
        return (Outcome.CONFLICT, notes.owner_without_queue(what.kind, what.key)), request
    version = job.metadata.resource_version
    if not writes_templates(request):
        return ((Outcome.REFUSED, error.message) if error.status == 422 else None), job_request(action, version)
    if error.status != 409 and _version_of(request) == version and _at_rest(job):
        _log.warning("the template keeps its flavor", kind=what.kind, job=what.key, error=error.message)
        return None, job_request(action, version)
    return None, job_request(action, version, msgspec.json.decode(body))  # bounded: it is copied and encoded


def writes_templates(request: Request) -> bool:
    """Does a request that resumes a Job or JobSet change its pod templates?"""
    return ADDED_BY_FLAVOR.encode() in request.body


def left_out(action: Action, request: Request) -> str:
    """What a request that was accepted does not do of the action."""
    wanted = isinstance(action, ResumeJob) and action.templates is not None
    return KEPT_TEMPLATE if wanted and not writes_templates(request) else ""


def _version_of(request: Request) -> str:
    return str(msgspec.json.decode(request.body)["metadata"]["resourceVersion"])


def _at_rest(job: wire.Job | wire_jobsets.JobSet) -> bool:
    """Is a Job that is suspended known by its controller to have no pods?"""
    if isinstance(job, wire_jobsets.JobSet):
        return True
    suspended = any(c.type == "Suspended" and c.status == "True" for c in job.status.conditions or ())
    return suspended and not job.status.active
