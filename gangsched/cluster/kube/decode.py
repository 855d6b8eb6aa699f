"""Typed decoding of list pages and watch frames, one bad object at a time.

The fast path decodes a whole page or frame into the structs of :mod:`gangsched.model.wire`. Only when that
fails is the input taken apart, so that one unreadable object does not hide all others. Values that are nested too
deep for a decoder are left out of an object, the object is not (:mod:`gangsched.cluster.kube.json_limits`).
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from gangsched.cluster.kinds import Undecodable
from gangsched.cluster.kube.client import ApiError, Status
from gangsched.cluster.kube.json_limits import bounded, decode
from gangsched.model import wire

T = TypeVar("T")

ADDED, MODIFIED, DELETED, BOOKMARK, ERROR = "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"


class Frame(NamedTuple):
    """One event of a watch: what happened, and to what."""

    type: str
    object: Any


class _Page(msgspec.Struct, Generic[T], gc=False):
    items: list[T] | None


class _RawPage(msgspec.Struct):
    items: list[msgspec.Raw] | None


class _Envelope(msgspec.Struct, Generic[T], gc=False):
    object: T
    type: str = ""


class _RawEnvelope(msgspec.Struct):
    object: msgspec.Raw
    type: str = ""


class _OnlyMetadata(msgspec.Struct):
    metadata: wire.ObjectMeta = msgspec.field(default_factory=wire.ObjectMeta)


class _Identity(msgspec.Struct, rename="camel"):
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class _OnlyIdentity(msgspec.Struct):
    metadata: _Identity = msgspec.field(default_factory=_Identity)


_raw_page = msgspec.json.Decoder(_RawPage)
_raw_envelope = msgspec.json.Decoder(_RawEnvelope)
_metadata = msgspec.json.Decoder(_OnlyMetadata)
_identity = msgspec.json.Decoder(_OnlyIdentity)
_status = msgspec.json.Decoder(Status)


class ObjectDecoder:
    """Decodes pages and frames of one kind into ``wire_type`` or :class:`Undecodable`."""

    def __init__(self, wire_type: type[Any]) -> None:
        self._object = msgspec.json.Decoder(wire_type)
        self._page: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Page[wire_type])  # type: ignore[valid-type]
        self._frame: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Envelope[wire_type])  # type: ignore[valid-type]

    def page(self, body: bytes) -> list[Any]:
        """The items of one page. Raises :class:`msgspec.DecodeError` when it is not JSON, or has no items at all."""
        try:
            return decode(self._page, body).items or []
        except msgspec.ValidationError:
            return [self._one(item) for item in decode(_raw_page, body).items or ()]

    def frame(self, line: bytes) -> Frame:
        """One frame of a watch; an ERROR frame is raised as :class:`~gangsched.cluster.kube.client.ApiError`.

        Raises :class:`msgspec.DecodeError` when it is not JSON.
        """
        try:
            decoded = decode(self._frame, line)
            if decoded.type != ERROR:
                return Frame(decoded.type, decoded.object)
        except msgspec.ValidationError:
            pass
        raw = decode(_raw_envelope, line)
        if raw.type == ERROR:
            status = decode(_status, raw.object)
            raise ApiError(status.code, status.reason, status.message)
        return Frame(raw.type, self._one(raw.object))

    def _one(self, raw: msgspec.Raw) -> Any:
        try:
            return decode(self._object, raw)
        except msgspec.ValidationError as error:
            return Undecodable(_metadata_of(raw), str(error), bounded(bytes(raw)))


def _metadata_of(raw: msgspec.Raw) -> wire.ObjectMeta:
    try:
        return decode(_metadata, raw).metadata
    except msgspec.ValidationError:
        pass
    try:
        found = decode(_identity, raw).metadata
    except msgspec.ValidationError:
        return wire.ObjectMeta()
    return wire.ObjectMeta(
        namespace=found.namespace, name=found.name, uid=found.uid, resource_version=found.resource_version
    )
