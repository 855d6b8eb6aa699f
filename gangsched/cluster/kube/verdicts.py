"""What became of a write to a pod or a volume that failed: the object itself knows."""

from __future__ import annotations

import msgspec

from gangsched.cluster.kube.bodies import claim_path, pod_path, volume_path
from gangsched.cluster.kube.client import ApiError, Client, UnreachableError, answer_of
from gangsched.cluster.kube.jobs import Verdict
from gangsched.cluster.kube.marks import Marks, seen_pod
from gangsched.core.actions import Bind, BindVolume, Remove, Report, SelectNode, SetCondition, Write
from gangsched.core.events import Outcome
from gangsched.model import wire_volumes
from gangsched.model.convert_volumes import SELECTED_NODE

_volume_decoder = msgspec.json.Decoder(wire_volumes.PersistentVolume)
_claim_decoder = msgspec.json.Decoder(wire_volumes.PersistentVolumeClaim)


class Verdicts:
    """Asks ``client`` about writes that failed, for at most ``timeout_seconds`` each time. ``marks`` learns in which
    version victims are.
    """

    def __init__(self, client: Client, marks: Marks, timeout_seconds: float) -> None:
        self._client = client
        self._marks = marks
        self._timeout_seconds = timeout_seconds

    async def judge(self, action: Write | SetCondition | Report, error: ApiError) -> Verdict | None:
        """The outcome that an error means for this action; None when it should be tried again."""
        status, message = error.status, error.message
        if isinstance(action, Report):
            if status == 409:
                return Outcome.OK, ""  # our own earlier attempt has been stored
            return None if error.transient or status == 401 else (Outcome.REFUSED, message)
        if status == 404:
            return Outcome.GONE, message
        if isinstance(action, Remove) and action.evict:
            if status == 429 and "DisruptionBudget" in error.causes:
                return Outcome.BLOCKED, message
            if status == 500 and "more than one PodDisruptionBudget" in message:
                return Outcome.REFUSED, message
            if status == 504:
                return await self.unanswered(action)
        if status in (409, 422) and isinstance(action, BindVolume | SelectNode):
            return await self._look_at_volume(action, message)
        if status in (409, 422):
            # Both are said for another pod of that name, and for other reasons: the pod itself knows.
            return await self.look(action, error.status, message)
        if error.transient or status == 401:
            return None
        return Outcome.REFUSED, message

    async def unanswered(self, action: Write | SetCondition | Report) -> Verdict | None:
        """No answer came in time; usually repeating the write tells, but not for an eviction.

        Of an eviction that means another pod the API server repeats the conflict itself, longer than we wait.
        """
        if isinstance(action, Remove) and action.evict:
            return await self.look(action, 0, "no answer to the eviction")
        return None

    async def look(self, action: Write | SetCondition, status: int, message: str) -> Verdict | None:
        """What the pod itself says about an attempt that failed with ``status`` (0: without an answer)."""
        path = pod_path(action.pod)
        try:
            body = await self._client.attempt("GET", path, timeout_seconds=self._timeout_seconds)
            pod = seen_pod(body, f"GET {path}")
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
        if isinstance(action, Remove) and action.mark:
            return self._marks.judge(action, pod)
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
