"""Writes to ResourceClaims: devices are given to them, shared, and given back.

The kubelet and the claim controller of Kubernetes expect this order: the finalizer, then the allocation and its first
consumers in one update of the status. Back: allocation and consumers in one update, then the finalizer. Every request
names the claim's UID and the version that was looked at.
"""

from __future__ import annotations

import uuid
from typing import Any, TypeVar

import msgspec

from gangsched.cluster.kube.bodies import Request, object_path
from gangsched.cluster.kube.client import STRATEGIC_MERGE, ApiError, answer_of
from gangsched.cluster.kube.kind_of_write import BINDINGS_REST_ON, KindOfWrite, Means, Verdict
from gangsched.core.actions import AllocateClaim, ClaimRef, ClaimWrite, Consumer, ReleaseClaim, ReserveClaim
from gangsched.core.events import Outcome
from gangsched.messages import causes
from gangsched.model import wire
from gangsched.model.devices import MAX_RESERVED, DeviceId

A = TypeVar("A", bound=ClaimWrite)

GROUP, PLURAL = "resource.k8s.io", "resourceclaims"
#: It keeps a claim with devices from being deleted.
FINALIZER = "resource.kubernetes.io/delete-protection"


class _Result(wire.Wire):
    driver: str = ""
    pool: str = ""
    device: str = ""
    request: str = ""


class _Results(wire.Wire):
    results: list[_Result] | None = None


class _Allocation(wire.Wire):
    devices: _Results = msgspec.field(default_factory=_Results)


class _Reserved(wire.Wire):
    uid: str = ""


class _Status(wire.Wire):
    allocation: _Allocation | None = None
    reserved_for: list[_Reserved] | None = None


class _Metadata(wire.Wire):
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    finalizers: list[str] | None = None


class _Claim(wire.Wire):
    """What of a claim decides about a write."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def devices(self) -> list[tuple[str, DeviceId]] | None:
        """The devices by request; None without an allocation."""
        found = self.status.allocation
        if found is None:
            return None
        return [(each.request, DeviceId(each.driver, each.pool, each.device)) for each in found.devices.results or ()]

    @property
    def consumers(self) -> set[str]:
        """The UIDs of its consumers."""
        return {each.uid for each in self.status.reserved_for or ()}


_decoder = msgspec.json.Decoder(_Claim)


class ClaimWrites(KindOfWrite[A]):
    """The base of all writes to claims: the newest state decides whether the write is still right, and names it."""

    def path(self, claim: ClaimRef, subresource: str = "") -> str:
        """The URL path of a claim or its status, in the version that is served."""
        version = self.means.served(f"{PLURAL}.{GROUP}")
        path = object_path(f"{GROUP}/{version}", PLURAL, claim.namespace, claim.name)
        return f"{path}/{subresource}" if subresource else path

    async def prepared(self, action: A) -> tuple[Request | None, Verdict | None]:
        await self.means.client.bucket.acquire()
        try:
            found = await self._read(action.claim)
        except ApiError as error:
            if error.status == 404:
                return None, (Outcome.GONE, error.message)
            raise
        if found.metadata.uid != action.claim.uid:
            return None, (Outcome.GONE, causes.object_not_found(kind="resourceclaim", name=action.claim.name))
        verdict = self.seen(action, found)
        return (None, verdict) if verdict is not None else (await self.made(action, found), None)

    def seen(self, action: A, claim: _Claim) -> Verdict | None:
        """Return what the state of the claim means for the action; None if it is to be written."""
        raise NotImplementedError

    async def made(self, action: A, claim: _Claim) -> Request:
        """Return the request for an action on the claim as it is. Raises :class:`ApiError` and
        :class:`~gangsched.cluster.kube.client.UnreachableError`.
        """
        raise NotImplementedError

    async def judge(self, action: A, request: Request | None, error: ApiError) -> tuple[Verdict | None, Request | None]:
        if error.status == 409:
            return None, None  # it has changed since it was read: it is read again
        return await super().judge(action, request, error)

    def retry_request(self, action: A, request: Request | None) -> Request | None:
        return None  # the claim may be in another version by then

    async def _read(self, claim: ClaimRef) -> _Claim:
        path = self.path(claim)
        body = await self.means.client.attempt("GET", path, timeout_seconds=self.means.timeout_seconds)
        return answer_of(_decoder, body, f"GET {path}")

    def status_patch(self, action: A, version: str, status: dict[str, Any]) -> Request:
        """PATCH of the status of the claim in this version."""
        body = {"metadata": {"uid": action.claim.uid, "resourceVersion": version}, "status": status}
        return Request("PATCH", self.path(action.claim, "status"), msgspec.json.encode(body), STRATEGIC_MERGE)


class Allocations(ClaimWrites[AllocateClaim]):
    """The finalizer, then allocation and consumers in one update."""

    rests_on = BINDINGS_REST_ON

    def seen(self, action: AllocateClaim, claim: _Claim) -> Verdict | None:
        name = action.claim.name
        if claim.devices is not None:
            ours = claim.devices == [(each.request, each.device) for each in action.allocation.devices]
            if ours and {each.uid for each in action.consumers} <= claim.consumers:
                return Outcome.OK, ""
            return Outcome.CONFLICT, causes.claim_allocated_elsewhere(name=name)
        if claim.metadata.deletion_timestamp is not None:
            return Outcome.CONFLICT, causes.resource_claim_being_deleted(name=name)
        return None

    async def made(self, action: AllocateClaim, claim: _Claim) -> Request:
        version = claim.metadata.resource_version
        if FINALIZER not in (claim.metadata.finalizers or ()):
            meta = {"uid": action.claim.uid, "resourceVersion": version, "finalizers": [FINALIZER]}
            path = self.path(action.claim)
            await self.means.client.bucket.acquire()
            body = await self.means.client.attempt(
                "PATCH",
                path,
                body=msgspec.json.encode({"metadata": meta}),
                content_type=STRATEGIC_MERGE,
                timeout_seconds=self.means.timeout_seconds,
            )
            version = answer_of(_decoder, body, f"PATCH {path}").metadata.resource_version
        return self.status_patch(action, version, allocated(action))


class Reservations(ClaimWrites[ReserveClaim]):
    """Further consumers of devices that a claim has."""

    rests_on = BINDINGS_REST_ON

    def seen(self, action: ReserveClaim, claim: _Claim) -> Verdict | None:
        name, wanted = action.claim.name, {each.uid for each in action.consumers}
        if claim.devices != [(each.request, each.device) for each in action.allocation.devices]:
            return Outcome.CONFLICT, causes.claim_allocated_elsewhere(name=name)
        if wanted <= claim.consumers:
            return Outcome.OK, ""
        if claim.metadata.deletion_timestamp is not None:
            return Outcome.CONFLICT, causes.resource_claim_being_deleted(name=name)
        if len(wanted | claim.consumers) > MAX_RESERVED:
            return Outcome.CONFLICT, causes.claim_reserved_too_often(name=name, most=MAX_RESERVED)
        return None

    async def made(self, action: ReserveClaim, claim: _Claim) -> Request:
        new = [each for each in action.consumers if each.uid not in claim.consumers]
        return self.status_patch(action, claim.metadata.resource_version, {"reservedFor": _listed(new)})


class Releases(ClaimWrites[ReleaseClaim]):
    """Consumers are taken off, with the last one the devices, and then the finalizer."""

    def __init__(self, means: Means) -> None:
        super().__init__(means)
        self._versions: dict[int, str] = {}  # of claims without devices, by the number of the write that took them

    def seen(self, action: ReleaseClaim, claim: _Claim) -> Verdict | None:
        return None if self._released(action, claim) else (Outcome.OK, "")

    async def made(self, action: ReleaseClaim, claim: _Claim) -> Request:
        gone = self._released(action, claim)
        if claim.consumers <= gone:
            return self.status_patch(action, claim.metadata.resource_version, {"allocation": None, "reservedFor": None})
        taken = [{"$patch": "delete", "uid": uid} for uid in sorted(gone)]
        return self.status_patch(action, claim.metadata.resource_version, {"reservedFor": taken})

    @staticmethod
    def _released(action: ReleaseClaim, claim: _Claim) -> set[str]:
        return {each.uid for each in action.consumers} & claim.consumers

    def succeeded(self, action: ReleaseClaim, request: Request, body: bytes) -> str:
        left = answer_of(_decoder, body, request.path)
        if left.devices is None and FINALIZER in (left.metadata.finalizers or ()):
            self._versions[action.id] = left.metadata.resource_version
        return ""

    def followed_by(self, action: ReleaseClaim) -> Request | None:
        """If it is not sent, the claim keeps a finalizer that the claim controller removes with the claim."""
        version = self._versions.pop(action.id, "")
        if not version:
            return None
        # In another version the claim may have devices again.
        meta = {"uid": action.claim.uid, "resourceVersion": version, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}
        return Request("PATCH", self.path(action.claim), msgspec.json.encode({"metadata": meta}), STRATEGIC_MERGE)


def allocated(action: AllocateClaim) -> dict[str, Any]:
    """The status of the claim with its devices and consumers. Each share of a device has an id of its own."""
    allocation = msgspec.json.decode(action.written)
    for i, result in enumerate(allocation["devices"]["results"]):
        if "shareID" in result:
            result["shareID"] = str(uuid.uuid5(uuid.UUID(int=0), f"{action.claim.uid}/{i}"))
    return {"allocation": allocation, "reservedFor": _listed(action.consumers)}


def _listed(consumers: list[Consumer] | tuple[Consumer, ...]) -> list[dict[str, str]]:
    named = ({"apiGroup": c.group, "resource": c.resource, "name": c.name, "uid": c.uid} for c in consumers)
    return [{key: value for key, value in each.items() if value} for each in named]
