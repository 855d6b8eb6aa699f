"""Storage as the scheduler sees it: claims, volumes, classes, and what nodes can take. Sizes are in bytes.

The names are those of the API kinds; ``type(record).__name__`` is the kind.
"""

from __future__ import annotations

from typing import TypeAlias, get_args

from gangsched.model.records import NO_LABELS, Labels, LabelSelector, NodeTerm, Record

#: ``(namespace, name)`` of a claim.
ClaimKey: TypeAlias = tuple[str, str]

READ_WRITE_ONCE_POD = "ReadWriteOncePod"

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
        """Is it bound, or reserved by its owner, for this claim?"""
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
        """Can it make new volumes?"""
        return bool(self.provisioner) and self.provisioner != "kubernetes.io/no-provisioner"


class CSINode(Record, frozen=True):
    """How many volumes of each driver can be attached to a node; drivers without a limit are left out."""

    name: str
    limits: tuple[tuple[str, int], ...] = ()


class CSIDriver(Record, frozen=True):
    """``storage_capacity``: free capacity has to be looked at before a volume is asked for."""

    name: str
    storage_capacity: bool = False


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
