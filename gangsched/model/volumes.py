"""Storage as the scheduler sees it: claims, volumes, classes, and what nodes can take. Sizes are in bytes.

The names are those of the API kinds; ``type(record).__name__`` is the kind.
"""

from __future__ import annotations

from typing import TypeAlias, get_args

import msgspec

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.constraints import NO_LABELS, Disk, Labels, LabelSelector, NodeTerm, PodVolumes, Record
from gangsched.model.errors import FieldError
from gangsched.model.quantity import RawQuantity, base_units
from gangsched.model.selectors import label_selector, node_term
from gangsched.model.times import parse_time

#: ``(namespace, name)`` of a claim.
ClaimKey: TypeAlias = tuple[str, str]

READ_WRITE_ONCE_POD = "ReadWriteOncePod"
#: The scheduler's request for a new volume for a claim, read by provisioners.
SELECTED_NODE = "volume.kubernetes.io/selected-node"
#: Set on a claim by the controller that binds it, when both sides are bound.
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
#: Set on a volume that was not reserved for its claim by a person.
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_CLASS = "volume.beta.kubernetes.io/storage-class"
_STORAGE = "storage"

#: Alternatives; each is a conjunction of (label key, allowed values). No alternative = everywhere.
Topologies: TypeAlias = tuple[tuple[tuple[str, tuple[str, ...]], ...], ...]


class ClaimRef(Record, frozen=True):
    """The claim that a volume is (to be) bound to; an empty ``uid`` means whichever has that name."""

    namespace: str
    name: str
    uid: str = ""


class PersistentVolumeClaim(Record, frozen=True):
    """``bound`` says that the binding is complete on both sides; ``selected_node`` asks for a new volume there."""

    namespace: str
    name: str
    uid: str = ""
    storage_class: str = ""
    volume_name: str = ""
    size: int = 0
    access_modes: tuple[str, ...] = ()
    mode: str = "Filesystem"
    selector: LabelSelector | None = None
    attributes_class: str = ""
    selected_node: str = ""
    bound: bool = False
    phase: str = "Pending"
    deleting: bool = False
    owner_uid: str = ""
    created: float = 0.0
    version: str = ""

    @property
    def key(self) -> ClaimKey:
        """``(namespace, name)``."""
        return (self.namespace, self.name)


class PersistentVolume(Record, frozen=True):
    """``node_terms`` is None for a volume that is reachable from everywhere; ``driver`` and ``handle`` are those of
    CSI, else empty.
    """

    name: str
    uid: str = ""
    labels: Labels = NO_LABELS
    storage_class: str = ""
    size: int = 0
    access_modes: tuple[str, ...] = ()
    mode: str = "Filesystem"
    attributes_class: str = ""
    node_terms: tuple[NodeTerm, ...] | None = None
    claim: ClaimRef | None = None
    phase: str = "Pending"
    deleting: bool = False
    driver: str = ""
    handle: str = ""
    version: str = ""

    def belongs_to(self, claim: PersistentVolumeClaim) -> bool:
        """Return True if it is bound, or reserved by its owner, for this claim."""
        ref = self.claim
        return (
            ref is not None
            and (ref.namespace, ref.name) == (claim.namespace, claim.name)
            and (not ref.uid or ref.uid == claim.uid)
        )


class StorageClass(Record, frozen=True):
    """``waits`` is volumeBindingMode WaitForFirstConsumer; ``default`` that claims without a class get this one."""

    name: str
    provisioner: str = ""
    waits: bool = False
    topologies: Topologies = ()
    default: bool = False
    created: float = 0.0

    @property
    def provisions(self) -> bool:
        """True if it can make new volumes."""
        return bool(self.provisioner) and self.provisioner != "kubernetes.io/no-provisioner"


class CSINode(Record, frozen=True):
    """How many volumes of each driver can be attached to a node; drivers without a limit are left out of ``limits``.
    ``drivers`` are all that run on it.
    """

    name: str
    limits: tuple[tuple[str, int], ...] = ()
    drivers: tuple[str, ...] = ()


class CSIDriver(Record, frozen=True):
    """``storage_capacity``: free capacity is checked before a volume is requested. ``must_run``: pods with volumes of
    it are placed only on nodes on which it runs.
    """

    name: str
    storage_capacity: bool = False
    must_run: bool = False


class CSIStorageCapacity(Record, frozen=True):
    """The largest volume of a class that can be made for nodes that ``topology`` selects (None: for no node)."""

    namespace: str
    name: str
    storage_class: str
    topology: LabelSelector | None = None
    limit: int | None = None


class VolumeAttachment(Record, frozen=True):
    """A volume that is attached to a node by a driver."""

    name: str
    node: str
    driver: str
    volume: str


StorageObject: TypeAlias = (
    PersistentVolumeClaim
    | PersistentVolume
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
)
#: Their API kinds.
STORAGE_KINDS = frozenset(kind.__name__ for kind in get_args(StorageObject))


# -- as the API spells them -----------------------------------------------------------------------------------------


class RawClaimSpec(wire.Wire):
    """Of a PersistentVolumeClaim, or of the template in a pod's generic ephemeral volume."""

    storage_class_name: str | None = None
    volume_name: str = ""
    access_modes: list[str] | None = None
    volume_mode: str | None = None
    resources: wire.ResourceRequirements | None = None
    selector: wire.LabelSelector | None = None
    volume_attributes_class_name: str | None = None


class _ClaimStatus(wire.Wire):
    phase: str = ""


class RawPersistentVolumeClaim(wire.Object):
    """``v1`` PersistentVolumeClaim."""

    spec: RawClaimSpec = msgspec.field(default_factory=RawClaimSpec)
    status: _ClaimStatus = msgspec.field(default_factory=_ClaimStatus)


class RawClaimReference(wire.Wire):
    """``claimRef`` of a volume."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class _CsiSource(wire.Wire):
    driver: str = ""
    volume_handle: str = ""


class _VolumeNodeAffinity(wire.Wire):
    required: wire.NodeSelector | None = None


class _VolumeSpec(wire.Wire):
    capacity: dict[str, RawQuantity] | None = None
    access_modes: list[str] | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    claim_ref: RawClaimReference | None = None
    node_affinity: _VolumeNodeAffinity | None = None
    csi: _CsiSource | None = None


class _VolumeStatus(wire.Wire):
    phase: str = ""


class RawPersistentVolume(wire.Object):
    """``v1`` PersistentVolume."""

    spec: _VolumeSpec = msgspec.field(default_factory=_VolumeSpec)
    status: _VolumeStatus = msgspec.field(default_factory=_VolumeStatus)


class _TopologyRequirement(wire.Wire):
    key: str = ""
    values: list[str] | None = None


class _TopologyTerm(wire.Wire):
    match_label_expressions: list[_TopologyRequirement] | None = None


class RawStorageClass(wire.Object):
    """``storage.k8s.io/v1`` StorageClass, which has no spec."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[_TopologyTerm] | None = None


class _DriverAllocatable(wire.Wire):
    count: int | None = None


class _NodeDriver(wire.Wire):
    name: str = ""
    allocatable: _DriverAllocatable | None = None


class _CsiNodeSpec(wire.Wire):
    drivers: list[_NodeDriver] | None = None


class RawCSINode(wire.Object):
    """``storage.k8s.io/v1`` CSINode."""

    spec: _CsiNodeSpec = msgspec.field(default_factory=_CsiNodeSpec)


class _CsiDriverSpec(wire.Wire):
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class RawCSIDriver(wire.Object):
    """``storage.k8s.io/v1`` CSIDriver."""

    spec: _CsiDriverSpec = msgspec.field(default_factory=_CsiDriverSpec)


class RawCSIStorageCapacity(wire.Object):
    """``storage.k8s.io/v1`` CSIStorageCapacity, which has no spec."""

    storage_class_name: str = ""
    node_topology: wire.LabelSelector | None = None
    capacity: RawQuantity | None = None
    maximum_volume_size: RawQuantity | None = None


class _AttachmentSource(wire.Wire):
    persistent_volume_name: str | None = None


class _AttachmentSpec(wire.Wire):
    attacher: str = ""
    node_name: str = ""
    source: _AttachmentSource = msgspec.field(default_factory=_AttachmentSource)


class RawVolumeAttachment(wire.Object):
    """``storage.k8s.io/v1`` VolumeAttachment."""

    spec: _AttachmentSpec = msgspec.field(default_factory=_AttachmentSpec)


# -- conversion -----------------------------------------------------------------------------------------------------


def pod_volumes(pod_name: str, raw: list[wire.Volume] | None) -> PodVolumes | None:
    """The requirements of the volumes of a pod; None when that is nothing."""
    claims: list[str] = []
    owned: list[str] = []
    disks: list[Disk] = []
    for i, volume in enumerate(raw or ()):
        if volume.persistent_volume_claim is not None:
            claims.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            name = f"{pod_name}-{volume.name}"
            claims.append(name)
            owned.append(name)
        else:
            disk = _disk(volume, f"spec.volumes[{i}]")
            if disk is not None:
                disks.append(disk)
    if not (claims or disks):
        return None
    return PodVolumes(tuple(dict.fromkeys(claims)), tuple(owned), tuple(disks))


def _disk(raw: wire.Volume, field: str) -> Disk | None:
    """A disk of a kind that cannot be used by any two pods of a node; None for every other volume."""
    if raw.gce_persistent_disk is not None:
        disk = raw.gce_persistent_disk
        return Disk("gcePersistentDisk", (_named(disk.pd_name, f"{field}.gcePersistentDisk.pdName"),), disk.read_only)
    if raw.aws_elastic_block_store is not None:
        return Disk("awsElasticBlockStore", (raw.aws_elastic_block_store.volume_id,))
    if raw.iscsi is not None:
        return Disk("iscsi", (raw.iscsi.iqn,), raw.iscsi.read_only)
    if raw.rbd is not None:
        rbd = raw.rbd
        return Disk("rbd", (rbd.pool or "rbd", rbd.image), rbd.read_only, tuple(sorted(rbd.monitors or ())))
    return None


def _named(name: str, field: str) -> str:
    if not name:
        raise FieldError(field, "is missing")
    return name


def claim(raw: RawPersistentVolumeClaim) -> PersistentVolumeClaim:
    """One PersistentVolumeClaim."""
    meta, spec = raw.metadata, raw.spec
    notes = meta.annotations or {}
    requests = spec.resources.requests if spec.resources is not None else None
    return PersistentVolumeClaim(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        storage_class=notes.get(_CLASS) or spec.storage_class_name or "",
        volume_name=spec.volume_name,
        size=_bytes((requests or {}).get(_STORAGE), "spec.resources.requests.storage") or 0,
        access_modes=tuple(sorted(spec.access_modes or ())),
        mode=spec.volume_mode or "Filesystem",
        selector=label_selector(spec.selector, "spec.selector"),
        attributes_class=spec.volume_attributes_class_name or "",
        selected_node=notes.get(SELECTED_NODE, ""),
        bound=bool(spec.volume_name) and BIND_COMPLETED in notes,
        phase=raw.status.phase or "Pending",
        deleting=bool(meta.deletion_timestamp),
        owner_uid=meta.controller.uid if meta.controller is not None else "",
        created=parse_time(meta.creation_timestamp, "metadata.creationTimestamp"),
        version=meta.resource_version,
    )


def volume(raw: RawPersistentVolume) -> PersistentVolume:
    """One PersistentVolume."""
    meta, spec = raw.metadata, raw.spec
    terms = None
    if spec.node_affinity is not None and spec.node_affinity.required is not None:
        path = "spec.nodeAffinity.required.nodeSelectorTerms"
        listed = spec.node_affinity.required.node_selector_terms or ()
        terms = tuple(node_term(t, f"{path}[{i}]") for i, t in enumerate(listed))
    ref = spec.claim_ref
    phase = raw.status.phase or ("Available" if ref is None else "Pending")
    return PersistentVolume(
        name=meta.name,
        uid=meta.uid,
        labels=meta.labels or NO_LABELS,
        storage_class=(meta.annotations or {}).get(_CLASS) or spec.storage_class_name,
        size=_bytes((spec.capacity or {}).get(_STORAGE), "spec.capacity.storage") or 0,
        access_modes=tuple(sorted(spec.access_modes or ())),
        mode=spec.volume_mode or "Filesystem",
        attributes_class=spec.volume_attributes_class_name or "",
        node_terms=terms,
        claim=ClaimRef(ref.namespace, ref.name, ref.uid) if ref is not None else None,
        phase=phase,
        deleting=bool(meta.deletion_timestamp),
        driver=spec.csi.driver if spec.csi is not None else "",
        handle=spec.csi.volume_handle if spec.csi is not None else "",
        version=meta.resource_version,
    )


def storage_class(raw: RawStorageClass) -> StorageClass:
    """One StorageClass; without a volumeBindingMode it binds at once, as the API server defaults it."""
    mode = raw.volume_binding_mode or "Immediate"
    if mode not in ("Immediate", "WaitForFirstConsumer"):
        raise FieldError(
            "volumeBindingMode", invalid.neither(value=repr(mode), one="Immediate", other="WaitForFirstConsumer")
        )
    return StorageClass(
        name=raw.metadata.name,
        provisioner=raw.provisioner,
        waits=mode == "WaitForFirstConsumer",
        topologies=tuple(
            tuple((e.key, tuple(sorted(e.values or ()))) for e in term.match_label_expressions or ())
            for term in raw.allowed_topologies or ()
        ),
        default=is_default_class(raw),
        created=parse_time(raw.metadata.creation_timestamp, "metadata.creationTimestamp"),
    )


def is_default_class(raw: RawStorageClass) -> bool:
    """Return True if claims that name no class get this one."""
    notes = raw.metadata.annotations or {}
    return "true" in (notes.get(DEFAULT_CLASS), notes.get("storageclass.beta.kubernetes.io/is-default-class"))


def csi_node(raw: RawCSINode) -> CSINode:
    """One CSINode."""
    limits = [
        (d.name, d.allocatable.count)
        for d in raw.spec.drivers or ()
        if d.allocatable is not None and d.allocatable.count is not None
    ]
    drivers = tuple(sorted(d.name for d in raw.spec.drivers or ()))
    return CSINode(raw.metadata.name, tuple(sorted(limits)), drivers)


def csi_driver(raw: RawCSIDriver) -> CSIDriver:
    """One CSIDriver."""
    spec = raw.spec
    return CSIDriver(raw.metadata.name, bool(spec.storage_capacity), bool(spec.prevent_pod_scheduling_if_missing))


def storage_capacity(raw: RawCSIStorageCapacity) -> CSIStorageCapacity:
    """One CSIStorageCapacity; the largest single volume, where it is known, says more than the total."""
    limit = _bytes(raw.maximum_volume_size, "maximumVolumeSize")
    if limit is None:
        limit = _bytes(raw.capacity, "capacity")
    return CSIStorageCapacity(
        raw.metadata.namespace,
        raw.metadata.name,
        raw.storage_class_name,
        label_selector(raw.node_topology, "nodeTopology"),
        limit,
    )


def attachment(raw: RawVolumeAttachment) -> VolumeAttachment:
    """One VolumeAttachment; ``volume`` is empty for a volume without a PersistentVolume."""
    spec = raw.spec
    return VolumeAttachment(raw.metadata.name, spec.node_name, spec.attacher, spec.source.persistent_volume_name or "")


def _bytes(raw: RawQuantity | None, field: str) -> int | None:
    if raw is None:
        return None
    try:
        return base_units(_STORAGE, raw)
    except FieldError as error:
        raise error.under(field) from None
