"""Writes to pods: bindings, nominations, marks, removals, and conditions."""

from __future__ import annotations

import time
from typing import TypeVar

import msgspec

from gangsched import logs
from gangsched.cluster.kube.bodies import (
    Request,
    bind_request,
    condition,
    mark_request,
    pod_path,
    remove_request,
    status_patch,
)
from gangsched.cluster.kube.client import ApiError, UnreachableError, answer_of
from gangsched.cluster.kube.json_limits import decode
from gangsched.cluster.kube.kind_of_write import BINDINGS_REST_ON, EVICTIONS_REST_ON, KindOfWrite, Verdict
from gangsched.cluster.kube.preconditions import REWRITTEN_AT_MOST
from gangsched.core.actions import (
    AskRemoval,
    Bind,
    Mark,
    Nominate,
    PodWrite,
    Remove,
    SetCondition,
    Unmark,
    WithdrawNomination,
)
from gangsched.core.events import Outcome
from gangsched.core.lifecycle import report
from gangsched.messages import notes
from gangsched.model.convert import INTENT_CONDITION, OWNERS_CONDITION

_log = logs.get(__name__)

A = TypeVar("A", bound=PodWrite | SetCondition)
M = TypeVar("M", bound=Mark | Unmark)

UNMARKED = notes.MARK_GONE
#: Reason of the intent condition while the nomination stands.
NOMINATED_REASON = "Nominated"


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
    """Verdicts on failed writes to a pod, from the state of the pod. An answer to a write has the metadata only."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_pod_decoder = msgspec.json.Decoder(SeenPod)


class PodWrites(KindOfWrite[A]):
    """The base of all writes to pods: a read of the pod decides a conflict."""

    async def conflict(self, action: A, error: ApiError) -> Verdict | None:
        return await self.judge_by_pod(action, error.status, error.message)

    async def judge_by_pod(self, action: A, status: int, message: str) -> Verdict | None:
        """Return the verdict on an attempt that failed with ``status`` (0: without an answer), from the state of the
        pod.
        """
        path = pod_path(action.pod)
        try:
            body = await self.means.client.attempt("GET", path, timeout_seconds=self.means.timeout_seconds)
            pod = answer_of(_pod_decoder, body, f"GET {path}")
        except ApiError as failure:
            return (Outcome.GONE, message) if failure.status == 404 else None
        except UnreachableError:
            return None
        if pod.metadata.uid != action.pod.uid:
            return Outcome.GONE, message
        return (Outcome.REFUSED, message) if status == 422 else self.seen(action, pod, status, message)

    def seen(self, action: A, pod: SeenPod, status: int, message: str) -> Verdict | None:
        """The state of the intended pod; None when the action should be tried again."""
        return None


class Bindings(PodWrites[Bind]):
    """POST of a pod's binding, in the newest version that is known of the pod without a node."""

    rests_on = BINDINGS_REST_ON

    def request(self, action: Bind) -> Request:
        return bind_request(action, self.means.preconditions.unbound_version(action.pod))

    def seen(self, action: Bind, pod: SeenPod, status: int, message: str) -> Verdict | None:
        if pod.spec.node_name == action.node:
            return Outcome.OK, ""
        if pod.spec.node_name or pod.metadata.deletion_timestamp:
            return Outcome.CONFLICT, message
        self.means.preconditions.unbound(action.pod, pod.metadata.resource_version)
        return None

    def retry_request(self, action: Bind, request: Request | None) -> Request | None:
        return None  # the pod may be in another version by then

    def objection(self, action: Bind, known: int) -> str:
        return self.means.preconditions.overtakes(action, known)

    def leaves(self, action: Bind) -> None:
        self.means.preconditions.leaves(action)

    def failed(self, action: Bind) -> None:
        self.means.preconditions.failed(action)

    def succeeded(self, action: Bind, request: Request, body: bytes) -> str:
        self.means.preconditions.accepted(action, time.monotonic())
        return ""


class Nominations(PodWrites[Nominate | WithdrawNomination]):
    """PATCH of the nominated node and of the intent record."""

    def request(self, action: Nominate | WithdrawNomination) -> Request:
        now = self.means.now()
        if isinstance(action, Nominate):
            node, intent = action.node, condition(INTENT_CONDITION, "True", NOMINATED_REASON, action.message, now)
        else:
            node, intent = None, condition(INTENT_CONDITION, "False", action.reason, action.message, now)
        return status_patch(action.pod, {"nominatedNodeName": node, "conditions": [intent]})


class Marks(PodWrites[Mark]):
    """PATCH of the conditions of a victim. The answer has the version in which it has its mark."""

    def request(self, action: Mark) -> Request:
        owned = (OWNERS_CONDITION, "Owned" if action.message else "Announced", action.owners)
        marks = [("DisruptionTarget", action.reason, action.message), owned]
        told = [condition(kind, "True", reason, text, self.means.now()) for kind, reason, text in marks if text]
        return status_patch(action.pod, {"conditions": told})

    def succeeded(self, action: Mark, request: Request, body: bytes) -> str:
        try:
            version = decode(_pod_decoder, body).metadata.resource_version
        except msgspec.DecodeError:
            return ""  # then the pod is read
        self.means.preconditions.marked(action.pod, version)
        return ""


class Unmarks(PodWrites[Unmark]):
    """PATCH of the conditions of a pod that will not be evicted after all."""

    def request(self, action: Unmark) -> Request:
        marks = [("DisruptionTarget", action.reason, action.message), (OWNERS_CONDITION, "Withdrawn", "")]
        told = [condition(kind, "False", reason, text, self.means.now()) for kind, reason, text in marks]
        return status_patch(action.pod, {"conditions": told})

    def succeeded(self, action: Unmark, request: Request, body: bytes) -> str:
        self.means.preconditions.forget_mark(action.pod)
        return ""


class Conditions(PodWrites[SetCondition]):
    """PATCH of PodScheduled. Texts for users are not worth long retries."""

    patient = False

    def request(self, action: SetCondition) -> Request:
        told = condition("PodScheduled", "False", action.reason, action.message, self.means.now())
        return status_patch(action.pod, {"conditions": [told]})


R = TypeVar("R", bound=Remove | AskRemoval)


class _Evictions(PodWrites[R]):
    """Return the meaning of answers that only the Eviction API gives."""

    async def outcome(self, action: R, error: ApiError) -> Verdict | None:
        if action.evict:
            if error.status == 429 and "DisruptionBudget" in error.causes:
                return Outcome.BLOCKED, error.message
            if error.status == 500 and "more than one PodDisruptionBudget" in error.message:
                return Outcome.REFUSED, error.message
            if error.status == 504:
                return await self.unanswered(action)
        return await super().outcome(action, error)

    async def unanswered(self, action: R) -> Verdict | None:
        # Of an eviction that means another pod the API server repeats the conflict itself, longer than we wait.
        return await self.judge_by_pod(action, 0, notes.NO_ANSWER) if action.evict else None


class RemovalsAsked(_Evictions[AskRemoval]):
    """A dry run of a removal."""

    def request(self, action: AskRemoval) -> Request:
        return remove_request(action)


class Removals(_Evictions[Remove]):
    """DELETE or eviction of a victim, in the version in which it has its mark."""

    rests_on = EVICTIONS_REST_ON
    done_when_gone = True

    def request(self, action: Remove) -> Request:
        return remove_request(action)

    async def prepared(self, action: Remove) -> tuple[Request | None, Verdict | None]:
        if not action.mark:
            return self.request(action), None
        known, pod = self.means.preconditions, action.pod
        if not known.marked_version(pod):
            await self.means.client.bucket.acquire()
            verdict = await self.judge_by_pod(action, 0, notes.MARK_UNKNOWN)
            if verdict is not None or not known.marked_version(pod):
                return None, verdict
        version = "" if known.always_rewritten(pod) else known.marked_version(pod)
        return remove_request(action, version), None

    async def judge(
        self, action: Remove, request: Request | None, error: ApiError
    ) -> tuple[Verdict | None, Request | None]:
        if error.status == 409:
            self.means.preconditions.forget_mark(action.pod)  # it is not in this version any more
        return await super().judge(action, request, error)

    def seen(self, action: Remove, pod: SeenPod, status: int, message: str) -> Verdict | None:
        return self._still_marked(action, pod, written_since=status == 409) if action.mark else None

    def _still_marked(self, action: Remove, pod: SeenPod, *, written_since: bool) -> Verdict | None:
        """Return None if the pod may be removed as it is now, and otherwise the outcome of the removal.

        ``written_since``: a removal in the version that was known was refused.

        The mark may be that of another gang, because two may evict the same pod, or that of the Eviction API. A removed
        mark is False.
        """
        known = self.means.preconditions
        known.forget_mark(action.pod)
        if pod.metadata.deletion_timestamp is not None:
            return Outcome.OK, ""
        if not any(c.type == "DisruptionTarget" and c.status == "True" for c in pod.status.conditions or ()):
            return Outcome.CONFLICT, UNMARKED
        known.marked(action.pod, pod.metadata.resource_version)
        if written_since and known.rewritten(action.pod):
            _log.warning("a victim is rewritten all the time; it is removed in any version", pod=action.pod.key)
            note = notes.victim_rewritten(times=REWRITTEN_AT_MOST)
            self.means.report(report.event(action.pod, report.REWRITTEN, note))
        return None

    def retry_request(self, action: Remove, request: Request | None) -> Request | None:
        return None if action.mark else request  # the pod may be in another version by then

    def succeeded(self, action: Remove, request: Request, body: bytes) -> str:
        self.means.preconditions.forget_mark(action.pod)
        return ""

    def followed_by(self, action: Remove) -> Request | None:
        """An eviction writes a DisruptionTarget of its own over ours: ours comes back while the pod still exists."""
        if not action.evict or not action.mark:
            return None
        return mark_request(action.pod, action.mark, self.means.now(), action.reason)
