"""Storage objects from wire structs to records. Functions raise :class:`~gangsched.model.errors.FieldError`."""

from __future__ import annotations

from gangsched.messages import invalid
from gangsched.model import volumes, wire
from gangsched.model import wire_volumes as raws
from gangsched.model.errors import FieldError
from gangsched.model.quantity import RawQuantity, base_units
from gangsched.model.records import NO_LABELS, Disk, PodVolumes
from gangsched.model.selectors import label_selector, node_term
from gangsched.model.times import parse_time

#: The scheduler's request for a new volume for a claim, read by provisioners.
SELECTED_NODE = "volume.kubernetes.io/selected-node"
#: Set on a claim by the controller that binds it, when both sides are bound.
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
#: Set on a volume that was not reserved for its claim by a person.
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_CLASS = "volume.beta.kubernetes.io/storage-class"
_STORAGE = "storage"


def pod_volumes(pod_name: str, raw: list[wire.Volume] | None) -> PodVolumes | None:
    """What the volumes of a pod ask for; None when that is nothing."""
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


def claim(raw: raws.PersistentVolumeClaim) -> volumes.PersistentVolumeClaim:
    """One PersistentVolumeClaim."""
    meta, spec = raw.metadata, raw.spec
    notes = meta.annotations or {}
    requests = spec.resources.requests if spec.resources is not None else None
    return volumes.PersistentVolumeClaim(
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


def volume(raw: raws.PersistentVolume) -> volumes.PersistentVolume:
    """One PersistentVolume."""
    meta, spec = raw.metadata, raw.spec
    terms = None
    if spec.node_affinity is not None and spec.node_affinity.required is not None:
        path = "spec.nodeAffinity.required.nodeSelectorTerms"
        listed = spec.node_affinity.required.node_selector_terms or ()
        terms = tuple(node_term(t, f"{path}[{i}]") for i, t in enumerate(listed))
    ref = spec.claim_ref
    phase = raw.status.phase or ("Available" if ref is None else "Pending")
    return volumes.PersistentVolume(
        name=meta.name,
        uid=meta.uid,
        labels=meta.labels or NO_LABELS,
        storage_class=(meta.annotations or {}).get(_CLASS) or spec.storage_class_name,
        size=_bytes((spec.capacity or {}).get(_STORAGE), "spec.capacity.storage") or 0,
        access_modes=tuple(sorted(spec.access_modes or ())),
        mode=spec.volume_mode or "Filesystem",
        attributes_class=spec.volume_attributes_class_name or "",
        node_terms=terms,
        claim=volumes.ClaimRef(ref.namespace, ref.name, ref.uid) if ref is not None else None,
        phase=phase,
        deleting=bool(meta.deletion_timestamp),
        driver=spec.csi.driver if spec.csi is not None else "",
        handle=spec.csi.volume_handle if spec.csi is not None else "",
        version=meta.resource_version,
    )


def storage_class(raw: raws.StorageClass) -> volumes.StorageClass:
    """One StorageClass; without a volumeBindingMode it binds at once, as the API server defaults it."""
    mode = raw.volume_binding_mode or "Immediate"
    if mode not in ("Immediate", "WaitForFirstConsumer"):
        raise FieldError("volumeBindingMode", invalid.neither(repr(mode), "Immediate", "WaitForFirstConsumer"))
    return volumes.StorageClass(
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


def is_default_class(raw: raws.StorageClass) -> bool:
    """Do claims that name no class get this one?"""
    notes = raw.metadata.annotations or {}
    return "true" in (notes.get(DEFAULT_CLASS), notes.get("storageclass.beta.kubernetes.io/is-default-class"))


def csi_node(raw: raws.CSINode) -> volumes.CSINode:
    """One CSINode."""
    limits = [
        (d.name, d.allocatable.count)
        for d in raw.spec.drivers or ()
        if d.allocatable is not None and d.allocatable.count is not None
    ]
    return volumes.CSINode(raw.metadata.name, tuple(sorted(limits)))


def csi_driver(raw: raws.CSIDriver) -> volumes.CSIDriver:
    """One CSIDriver."""
    return volumes.CSIDriver(raw.metadata.name, bool(raw.spec.storage_capacity))


def storage_capacity(raw: raws.CSIStorageCapacity) -> volumes.CSIStorageCapacity:
    """One CSIStorageCapacity; the largest single volume, where it is known, says more than the total."""
    limit = _bytes(raw.maximum_volume_size, "maximumVolumeSize")
    if limit is None:
        limit = _bytes(raw.capacity, "capacity")
    return volumes.CSIStorageCapacity(
        raw.metadata.namespace,
        raw.metadata.name,
        raw.storage_class_name,
        label_selector(raw.node_topology, "nodeTopology"),
        limit,
    )


def attachment(raw: raws.VolumeAttachment) -> volumes.VolumeAttachment:
    """One VolumeAttachment; ``volume`` is empty for a volume without a PersistentVolume."""
    spec = raw.spec
    return volumes.VolumeAttachment(
        raw.metadata.name, spec.node_name, spec.attacher, spec.source.persistent_volume_name or ""
    )


def _bytes(raw: RawQuantity | None, field: str) -> int | None:
    if raw is None:
        return None
    try:
        return base_units(_STORAGE, raw)
    except FieldError as error:
        raise error.under(field) from None
