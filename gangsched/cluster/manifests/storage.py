"""What the API server and its controllers add to claims and volumes before a scheduler sees them.

Rules: https://kubernetes.io/docs/concepts/storage/persistent-volumes/ and, for generic ephemeral volumes,
https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/ .
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from gangsched.model import wire
from gangsched.model.convert_volumes import BIND_COMPLETED, is_default_class
from gangsched.model.errors import FieldError
from gangsched.model.wire_volumes import (
    ClaimReference,
    ClaimSpec,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

_CLASS = "volume.beta.kubernetes.io/storage-class"


class _Template(wire.Object):
    """``volumeClaimTemplate`` of a generic ephemeral volume."""

    spec: ClaimSpec = msgspec.field(default_factory=ClaimSpec)


class StorageAdmission:
    """Completes claims and volumes of the input; ``found`` are all of its objects, ``default`` a default class."""

    def __init__(self, found: Iterable[wire.Object], default: str = "") -> None:
        known = list(found)
        defaults = [o.metadata for o in known if isinstance(o, StorageClass) and is_default_class(o)]
        newest = max((m.creation_timestamp or "" for m in defaults), default="")
        self._default = min((m.name for m in defaults if (m.creation_timestamp or "") == newest), default=default)
        self._volumes = {o.metadata.name: o for o in known if isinstance(o, PersistentVolume)}
        self._claims = {
            (o.metadata.namespace, o.metadata.name): o for o in known if isinstance(o, PersistentVolumeClaim)
        }
        for claim in self._claims.values():
            self._join(claim)

    def _join(self, claim: PersistentVolumeClaim) -> None:
        """A claim without a status that names a volume is bound to it, if nothing contradicts it."""
        self.claim(claim)
        volume = self._volumes.get(claim.spec.volume_name)
        if claim.status.phase or volume is None:
            return
        ref, meta = volume.spec.claim_ref, claim.metadata
        if ref is None:
            volume.spec.claim_ref = ClaimReference(meta.namespace, meta.name, meta.uid)
        elif (ref.namespace, ref.name) != (meta.namespace, meta.name) or (ref.uid and ref.uid != meta.uid):
            return
        volume.status.phase = claim.status.phase = "Bound"
        meta.annotations = {**(meta.annotations or {}), BIND_COMPLETED: "yes"}

    def claim(self, claim: PersistentVolumeClaim) -> None:
        """A claim that names no class gets the default one; an empty name asks for none."""
        notes = claim.metadata.annotations or {}
        if claim.spec.storage_class_name is None and _CLASS not in notes and self._default:
            claim.spec.storage_class_name = self._default

    def ephemeral(self, pod: wire.Pod) -> Iterator[PersistentVolumeClaim]:
        """The claims of a pod's generic ephemeral volumes that the input does not have. Raises :class:`FieldError`."""
        for i, volume in enumerate(pod.spec.volumes or ()):
            meta = pod.metadata
            if volume.ephemeral is None or (meta.namespace, f"{meta.name}-{volume.name}") in self._claims:
                continue
            path = f"spec.volumes[{i}].ephemeral.volumeClaimTemplate"
            try:
                template = msgspec.convert(volume.ephemeral.volume_claim_template or {}, _Template)
            except msgspec.ValidationError as error:
                raise FieldError(path, str(error)) from None
            owner = wire.OwnerReference("v1", "Pod", meta.name, meta.uid, controller=True)
            claim = PersistentVolumeClaim(
                wire.ObjectMeta(
                    name=f"{meta.name}-{volume.name}",
                    namespace=meta.namespace,
                    creation_timestamp=meta.creation_timestamp,
                    labels=template.metadata.labels,
                    annotations=template.metadata.annotations,
                    owner_references=[owner],
                ),
                template.spec,
            )
            self.claim(claim)
            self._claims[meta.namespace, claim.metadata.name] = claim
            yield claim
