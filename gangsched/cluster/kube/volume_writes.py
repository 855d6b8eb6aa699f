"""Writes to PersistentVolumes and to their claims, by which volumes are bound for the members of a gang."""

from __future__ import annotations

from typing import Any

import msgspec

from gangsched.cluster.kube.bodies import Request
from gangsched.cluster.kube.client import MERGE, ApiError, UnreachableError, answer_of, segment
from gangsched.cluster.kube.kind_of_write import KindOfWrite, Verdict
from gangsched.core.actions import BindVolume, SelectNode
from gangsched.core.events import Outcome
from gangsched.model import volumes
from gangsched.model.volumes import BOUND_BY_CONTROLLER, SELECTED_NODE

_volume_decoder = msgspec.json.Decoder(volumes.RawPersistentVolume)
_claim_decoder = msgspec.json.Decoder(volumes.RawPersistentVolumeClaim)


class BoundVolumes(KindOfWrite[BindVolume]):
    """PATCH that gives a volume to a claim."""

    def request(self, action: BindVolume) -> Request:
        # The version is a precondition too: another client may have found another claim for the volume meanwhile.
        meta: dict[str, Any] = {"uid": action.volume_uid, "resourceVersion": action.version}
        if not action.reserved:  # with it, the volume controller drops the reservation too when it unbinds the volume
            meta["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
        body = {
            "metadata": meta,
            "spec": {
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": action.pod.namespace,
                    "name": action.claim,
                    "uid": action.claim_uid,
                }
            },
        }
        return Request("PATCH", volume_path(action.volume), msgspec.json.encode(body), MERGE)

    async def conflict(self, action: BindVolume, error: ApiError) -> Verdict | None:
        path = volume_path(action.volume)
        try:
            body = await self.means.client.attempt("GET", path, timeout_seconds=self.means.timeout_seconds)
            volume = answer_of(_volume_decoder, body, f"GET {path}")
        except (ApiError, UnreachableError) as failure:
            return _unread(failure, error.message)
        ref = volume.spec.claim_ref
        done = ref is not None and ref.uid == action.claim_uid
        return _as_found(error.message, meant=volume.metadata.uid == action.volume_uid, done=done)


class SelectedNodes(KindOfWrite[SelectNode]):
    """PATCH that asks for a new volume for a claim."""

    def request(self, action: SelectNode) -> Request:
        body = {"metadata": {"uid": action.claim_uid, "annotations": {SELECTED_NODE: action.node}}}
        path = claim_path(action.pod.namespace, action.claim)
        return Request("PATCH", path, msgspec.json.encode(body), MERGE)

    async def conflict(self, action: SelectNode, error: ApiError) -> Verdict | None:
        path = claim_path(action.pod.namespace, action.claim)
        try:
            body = await self.means.client.attempt("GET", path, timeout_seconds=self.means.timeout_seconds)
            claim = answer_of(_claim_decoder, body, f"GET {path}")
        except (ApiError, UnreachableError) as failure:
            return _unread(failure, error.message)
        done = (claim.metadata.annotations or {}).get(SELECTED_NODE) == action.node
        return _as_found(error.message, meant=claim.metadata.uid == action.claim_uid, done=done)


def _unread(failure: ApiError | UnreachableError, message: str) -> Verdict | None:
    gone = isinstance(failure, ApiError) and failure.status == 404
    return (Outcome.GONE, message) if gone else None


def _as_found(message: str, *, meant: bool, done: bool) -> Verdict:
    """What an object says about an attempt that was refused: it may be as it should be."""
    if not meant:
        return Outcome.GONE, message
    return (Outcome.OK, "") if done else (Outcome.CONFLICT, message)


def volume_path(name: str) -> str:
    """The URL path of a PersistentVolume."""
    return f"/api/v1/persistentvolumes/{segment(name)}"


def claim_path(namespace: str, name: str) -> str:
    """The URL path of a PersistentVolumeClaim."""
    return f"/api/v1/namespaces/{segment(namespace)}/persistentvolumeclaims/{segment(name)}"
