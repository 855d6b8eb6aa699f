"""Writes to PersistentVolumes and to their claims, by which volumes are bound for the members of a gang."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from gangsched.cluster.kube.bodies import Request
from gangsched.cluster.kube.client import MERGE, ApiError, UnreachableError, answer_of, segment
from gangsched.cluster.kube.kind_of_write import KindOfWrite, Verdict
from gangsched.core.actions import BindVolume, SelectNode
from gangsched.core.events import Outcome
from gangsched.model import volumes
from gangsched.model.volumes import BOUND_BY_CONTROLLER, SELECTED_NODE

A = TypeVar("A")
O = TypeVar("O")


class _ReadAfterConflict(KindOfWrite[A], Generic[A, O]):
    """The object says what an attempt means that was refused: it may be as it should be."""

    decoder: msgspec.json.Decoder[O]

    def path(self, action: A) -> str:
        """The URL path of the object."""
        raise NotImplementedError

    def found(self, action: A, read: O) -> tuple[bool, bool]:
        """Whether it is the object that is meant, and is as it should be."""
        raise NotImplementedError

    async def conflict(self, action: A, error: ApiError) -> Verdict | None:
        path = self.path(action)
        try:
            body = await self.means.client.attempt("GET", path, timeout_seconds=self.means.timeout_seconds)
            meant, done = self.found(action, answer_of(self.decoder, body, f"GET {path}"))
        except ApiError as failure:
            return (Outcome.GONE, error.message) if failure.status == 404 else None
        except UnreachableError:
            return None
        if not meant:
            return Outcome.GONE, error.message
        return (Outcome.OK, "") if done else (Outcome.CONFLICT, error.message)


class BoundVolumes(_ReadAfterConflict[BindVolume, volumes.RawPersistentVolume]):
    """PATCH that gives a volume to a claim."""

    decoder = msgspec.json.Decoder(volumes.RawPersistentVolume)

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
        return Request("PATCH", self.path(action), msgspec.json.encode(body), MERGE)

    def path(self, action: BindVolume) -> str:
        return volume_path(action.volume)

    def found(self, action: BindVolume, read: volumes.RawPersistentVolume) -> tuple[bool, bool]:
        ref = read.spec.claim_ref
        return read.metadata.uid == action.volume_uid, ref is not None and ref.uid == action.claim_uid


class SelectedNodes(_ReadAfterConflict[SelectNode, volumes.RawPersistentVolumeClaim]):
    """PATCH that asks for a new volume for a claim."""

    decoder = msgspec.json.Decoder(volumes.RawPersistentVolumeClaim)

    def request(self, action: SelectNode) -> Request:
        body = {"metadata": {"uid": action.claim_uid, "annotations": {SELECTED_NODE: action.node}}}
        return Request("PATCH", self.path(action), msgspec.json.encode(body), MERGE)

    def path(self, action: SelectNode) -> str:
        return claim_path(action.pod.namespace, action.claim)

    def found(self, action: SelectNode, read: volumes.RawPersistentVolumeClaim) -> tuple[bool, bool]:
        done = (read.metadata.annotations or {}).get(SELECTED_NODE) == action.node
        return read.metadata.uid == action.claim_uid, done


def volume_path(name: str) -> str:
    """The URL path of a PersistentVolume."""
    return f"/api/v1/persistentvolumes/{segment(name)}"


def claim_path(namespace: str, name: str) -> str:
    """The URL path of a PersistentVolumeClaim."""
    return f"/api/v1/namespaces/{segment(namespace)}/persistentvolumeclaims/{segment(name)}"
