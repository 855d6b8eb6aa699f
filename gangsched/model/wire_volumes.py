"""The fields of storage objects that this scheduler reads, exactly as the API spells them."""

from __future__ import annotations

import msgspec

from gangsched.model.quantity import RawQuantity
from gangsched.model.wire import LabelSelector, NodeSelector, Object, ResourceRequirements, Wire


class ClaimSpec(Wire):
    """Of a PersistentVolumeClaim, or of the template in a pod's generic ephemeral volume."""

    storage_class_name: str | None = None
    volume_name: str = ""
    access_modes: list[str] | None = None
    volume_mode: str | None = None
    resources: ResourceRequirements | None = None
    selector: LabelSelector | None = None
    volume_attributes_class_name: str | None = None


class ClaimStatus(Wire):
    """Status of a claim."""

    phase: str = ""


class PersistentVolumeClaim(Object):
    """``v1`` PersistentVolumeClaim."""

    spec: ClaimSpec = msgspec.field(default_factory=ClaimSpec)
    status: ClaimStatus = msgspec.field(default_factory=ClaimStatus)


class ClaimReference(Wire):
    """``claimRef`` of a volume."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class CsiSource(Wire):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(Wire):
    """The nodes that reach a volume."""

    required: NodeSelector | None = None


class VolumeSpec(Wire):
    """Spec of a PersistentVolume; of its sources only CSI."""

    capacity: dict[str, RawQuantity] | None = None
    access_modes: list[str] | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    claim_ref: ClaimReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None


class VolumeStatus(Wire):
    """Status of a volume."""

    phase: str = ""


class PersistentVolume(Object):
    """``v1`` PersistentVolume."""

    spec: VolumeSpec = msgspec.field(default_factory=VolumeSpec)
    status: VolumeStatus = msgspec.field(default_factory=VolumeStatus)


class TopologyRequirement(Wire):
    """A label and its allowed values."""

    key: str = ""
    values: list[str] | None = None


class TopologyTerm(Wire):
    """One alternative of ``allowedTopologies``."""

    match_label_expressions: list[TopologyRequirement] | None = None


class StorageClass(Object):
    """``storage.k8s.io/v1`` StorageClass, which has no spec."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None


class DriverAllocatable(Wire):
    """How many volumes a node takes."""

    count: int | None = None


class NodeDriver(Wire):
    """A driver on a node."""

    name: str = ""
    allocatable: DriverAllocatable | None = None


class CsiNodeSpec(Wire):
    """The drivers on a node."""

    drivers: list[NodeDriver] | None = None


class CSINode(Object):
    """``storage.k8s.io/v1`` CSINode."""

    spec: CsiNodeSpec = msgspec.field(default_factory=CsiNodeSpec)


class CsiDriverSpec(Wire):
    """What a driver asks of schedulers."""

    storage_capacity: bool | None = None


class CSIDriver(Object):
    """``storage.k8s.io/v1`` CSIDriver."""

    spec: CsiDriverSpec = msgspec.field(default_factory=CsiDriverSpec)


class CSIStorageCapacity(Object):
    """``storage.k8s.io/v1`` CSIStorageCapacity, which has no spec."""

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: RawQuantity | None = None
    maximum_volume_size: RawQuantity | None = None


class AttachmentSource(Wire):
    """What is attached."""

    persistent_volume_name: str | None = None


class AttachmentSpec(Wire):
    """What is attached to which node."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = msgspec.field(default_factory=AttachmentSource)


class VolumeAttachment(Object):
    """``storage.k8s.io/v1`` VolumeAttachment."""

    spec: AttachmentSpec = msgspec.field(default_factory=AttachmentSpec)
