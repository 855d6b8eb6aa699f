"""What a write rests on, and what became of one that failed: the object itself knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from gangsched import logs
from gangsched.cluster.kube import nodes
from gangsched.cluster.kube.bodies import (
    Request,
    bind_request,
    claim_path,
    job_path,
    job_request,
    pod_path,
    remove_request,
    volume_path,
)
from gangsched.cluster.kube.client import ApiError, Client, UnreachableError, answer_of
from gangsched.cluster.kube.json_limits import bounded, decode
from gangsched.cluster.kube.preconditions import REWRITTEN_AT_MOST, Preconditions
from gangsched.cluster.queue import Queued, Sendable
from gangsched.core.actions import (
    Action,
    AskRemoval,
    Bind,
    BindVolume,
    JobRef,
    Mark,
    NodeWrite,
    Remove,
    Report,
    ResumeJob,
    SelectNode,
    SetCondition,
    SetGroupStatus,
    SuspendJob,
    Unmark,
    Write,
)
from gangsched.core.events import Outcome
from gangsched.core.lifecycle import report
from gangsched.messages import notes
from gangsched.model import jobsets, volumes, wire
from gangsched.model.children import ADDED_BY_FLAVOR
from gangsched.model.convert import SUSPENDED_BY, job_finished, jobset_finished
from gangsched.model.jobsets import JOBSET
from gangsched.model.queues import QUEUE_LABEL
from gangsched.model.volumes import SELECTED_NODE

_log = logs.get(__name__)

#: An outcome, and why in words.
Verdict: TypeAlias = tuple[Outcome, str]

KEPT_TEMPLATE = notes.FLAVOR_NOT_WRITTEN

_job_decoder: msgspec.json.Decoder[wire.Job | jobsets.RawJobSet] = msgspec.json.Decoder(wire.Job)
_any_decoder: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])
_jobset_decoder: msgspec.json.Decoder[wire.Job | jobsets.RawJobSet] = msgspec.json.Decoder(jobsets.RawJobSet)


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
    """Does a request that resumes a Job or JobSet change its pod templates?"""
    return ADDED_BY_FLAVOR.encode() in request.body


def left_out(action: Action, request: Request) -> str:
    """What a request that was accepted does not do of the action."""
    wanted = isinstance(action, ResumeJob) and action.templates is not None
    return KEPT_TEMPLATE if wanted and not writes_templates(request) else ""


def _version_of(request: Request) -> str:
    return str(msgspec.json.decode(request.body)["metadata"]["resourceVersion"])


def _at_rest(job: wire.Job | jobsets.RawJobSet) -> bool:
    """Is a Job that is suspended known by its controller to have no pods?"""
    if isinstance(job, jobsets.RawJobSet):
        return True
    suspended = any(c.type == "Suspended" and c.status == "True" for c in job.status.conditions or ())
    return suspended and not job.status.active


_volume_decoder = msgspec.json.Decoder(volumes.RawPersistentVolume)
_claim_decoder = msgspec.json.Decoder(volumes.RawPersistentVolumeClaim)


UNMARKED = notes.MARK_GONE


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class SeenPod(msgspec.Struct):
    """What a pod says about a write to it that has failed. An answer to a write has the metadata only."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_pod_decoder = msgspec.json.Decoder(SeenPod)


class Verdicts:
    """Asks ``client`` about writes that failed, for at most ``timeout_seconds`` each time. ``preconditions`` learn in
    which version victims are marked; ``reports`` gets what owners are to know.
    """

    def __init__(
        self,
        client: Client,
        preconditions: Preconditions,
        timeout_seconds: float,
        reports: Callable[[Report], None],
    ) -> None:
        self._client = client
        self._preconditions = preconditions
        self._timeout_seconds = timeout_seconds
        self._report = reports

    async def _look_at_node(self, action: NodeWrite) -> tuple[Verdict | None, Request | None]:
        """What a node says about an attempt that was refused; neither when it could not be read."""
        try:
            request, verdict = await nodes.look_at_node(self._client, self._timeout_seconds, action)
        except ApiError as error:
            return (None if error.transient or error.status == 401 else (Outcome.REFUSED, error.message)), None
        except UnreachableError:
            return None, None
        return verdict, request

    async def prepared(self, action: Bind | Remove | ResumeJob | NodeWrite) -> tuple[Request | None, Verdict | None]:
        """The request for an action that may rest on what the server has now, or what comes of it without one; neither
        when that could not be read. Raises :class:`ApiError` and :class:`UnreachableError`.
        """
        if isinstance(action, NodeWrite):
            return await nodes.prepared(self._client, self._timeout_seconds, action)
        if isinstance(action, Bind):
            return bind_request(action, self._preconditions.unbound_version(action.pod)), None
        if isinstance(action, ResumeJob):
            wanted = action.templates is not None
            found = await read_job(self._client, self._timeout_seconds, action.job) if wanted else None
            return job_request(action, action.version, found), None
        if action.mark and not self._preconditions.marked_version(action.pod):
            await self._client.bucket.take()
            verdict = await self.look(action, 0, notes.MARK_UNKNOWN)
            if verdict is not None or not self._preconditions.marked_version(action.pod):
                return None, verdict
        version = self._preconditions.marked_version(action.pod) if action.mark else ""
        return remove_request(action, "" if self._preconditions.always_rewritten(action.pod) else version), None

    async def judge(
        self, action: Sendable, request: Request | None, error: ApiError
    ) -> tuple[Verdict | None, Request | None]:
        """The outcome that an error means for this action; None when it should be tried again. Then with this request,
        or with one that is made anew.
        """
        if request is not None and isinstance(action, SuspendJob | ResumeJob):
            refused = (403, 409, 422) if writes_templates(request) else (409, 422)
            if error.status in refused:
                return await look_at_job(self._client, self._timeout_seconds, action, request, error)
        if error.status in (409, 422) and isinstance(action, NodeWrite):
            return await self._look_at_node(action)
        if error.status == 409 and isinstance(action, Remove):
            self._preconditions.forget_mark(action.pod)  # it is not in this version any more
        return await self._outcome(action, error), next_request(action, request)

    async def _outcome(self, action: Sendable, error: ApiError) -> Verdict | None:
        status, message = error.status, error.message
        if isinstance(action, Report):
            if status == 409:
                return Outcome.OK, ""  # our own earlier attempt has been stored
            return None if error.transient or status == 401 else (Outcome.REFUSED, message)
        if status == 404 or (status == 409 and isinstance(action, SetGroupStatus)):
            return Outcome.GONE, message
        if isinstance(action, SetGroupStatus):
            return None if error.transient or status == 401 else (Outcome.REFUSED, message)
        if isinstance(action, Remove | AskRemoval) and action.evict:
            if status == 429 and "DisruptionBudget" in error.causes:
                return Outcome.BLOCKED, message
            if status == 500 and "more than one PodDisruptionBudget" in message:
                return Outcome.REFUSED, message
            if status == 504:
                return await self.unanswered(action)
        if status in (409, 422) and isinstance(action, BindVolume | SelectNode):
            return await self._look_at_volume(action, message)
        if status in (409, 422):
            # Both also mean another pod of that name, or have other reasons: a read of the pod decides.
            return await self.look(action, error.status, message)
        if error.transient or status == 401:
            return None
        return Outcome.REFUSED, message

    def succeeded(self, action: Queued, body: bytes) -> None:
        """A write has been answered with ``body``, which says in which version a victim bears its mark."""
        if isinstance(action, Mark):
            try:
                self._preconditions.marked(action.pod, decode(_pod_decoder, body).metadata.resource_version)
            except msgspec.DecodeError:
                return  # then the pod is read
        elif isinstance(action, Unmark | Remove):
            self._preconditions.forget_mark(action.pod)

    def _still_marked(self, action: Remove, pod: SeenPod, *, written_since: bool) -> Verdict | None:
        """May the pod, which is the one that is meant, be removed as it is now? None if so.

        ``written_since``: a removal in the version that was known was refused.

        The mark may be that of another gang, as two may need the same pod to leave, or what the Eviction API has
        written over it; one that is taken back is False.
        """
        self._preconditions.forget_mark(action.pod)
        if pod.metadata.deletion_timestamp is not None:
            return Outcome.OK, ""
        if not any(c.type == "DisruptionTarget" and c.status == "True" for c in pod.status.conditions or ()):
            return Outcome.CONFLICT, UNMARKED
        self._preconditions.marked(action.pod, pod.metadata.resource_version)
        if written_since and self._preconditions.rewritten(action.pod):
            _log.warning("a victim is rewritten all the time; it is removed in any version", pod=action.pod.key)
            note = notes.victim_rewritten(times=REWRITTEN_AT_MOST)
            self._report(report.event(action.pod, report.REWRITTEN, note))
        return None

    async def unanswered(self, action: Sendable) -> Verdict | None:
        """No answer came in time; usually repeating the write tells, but not for an eviction.

        Of an eviction that means another pod the API server repeats the conflict itself, longer than we wait.
        """
        if isinstance(action, Remove | AskRemoval) and action.evict:
            return await self.look(action, 0, notes.NO_ANSWER)
        return None

    async def look(self, action: Write | SetCondition, status: int, message: str) -> Verdict | None:
        """What the pod itself says about an attempt that failed with ``status`` (0: without an answer)."""
        path = pod_path(action.pod)
        try:
            body = await self._client.attempt("GET", path, timeout_seconds=self._timeout_seconds)
            pod = answer_of(_pod_decoder, body, f"GET {path}")
        except ApiError as failure:
            return (Outcome.GONE, message) if failure.status == 404 else None
        except UnreachableError:
            return None
        if pod.metadata.uid != action.pod.uid:
            return Outcome.GONE, message
        if status == 422:
            return Outcome.REFUSED, message
        if isinstance(action, Bind):
            if pod.spec.node_name == action.node:
                return Outcome.OK, ""
            if pod.spec.node_name or pod.metadata.deletion_timestamp:
                return Outcome.CONFLICT, message
            self._preconditions.unbound(action.pod, pod.metadata.resource_version)
        if isinstance(action, Remove) and action.mark:
            return self._still_marked(action, pod, written_since=status == 409)
        return None

    async def _look_at_volume(self, action: BindVolume | SelectNode, message: str) -> Verdict | None:
        """What a volume or claim says about an attempt to bind it that was refused: it may be as it should be."""
        if isinstance(action, BindVolume):
            path = volume_path(action.volume)
        else:
            path = claim_path(action.pod.namespace, action.claim)
        try:
            body = await self._client.attempt("GET", path, timeout_seconds=self._timeout_seconds)
            if isinstance(action, BindVolume):
                volume = answer_of(_volume_decoder, body, f"GET {path}")
                uid, ref = volume.metadata.uid, volume.spec.claim_ref
                wanted, done = action.volume_uid, ref is not None and ref.uid == action.claim_uid
            else:
                claim = answer_of(_claim_decoder, body, f"GET {path}")
                uid, wanted = claim.metadata.uid, action.claim_uid
                done = (claim.metadata.annotations or {}).get(SELECTED_NODE) == action.node
        except ApiError as failure:
            return (Outcome.GONE, message) if failure.status == 404 else None
        except UnreachableError:
            return None
        if uid != wanted:
            return Outcome.GONE, message
        return (Outcome.OK, "") if done else (Outcome.CONFLICT, message)


def next_request(action: Sendable, request: Request | None) -> Request | None:
    """What is sent after an attempt that has not succeeded. A pod may be in another version by then."""
    return None if isinstance(action, Bind) or (isinstance(action, Remove) and action.mark) else request
