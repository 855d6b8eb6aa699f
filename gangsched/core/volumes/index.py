"""Claims, volumes, classes and who uses what, kept up to date event by event.

What the scheduler has decided and the cluster does not show yet is in here too: a claim that it is binding counts as
bound to its volume, or as having its node selected, from the decision on (*assumed*, as pods are).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints
from gangsched.model.constraints import Disk
from gangsched.model.records import Node, Pod
from gangsched.model.volumes import (
    ClaimKey,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageObject,
    VolumeAttachment,
)

#: ``(driver, handle)``: the same volume used by several pods of a node is attached once.
Handle: TypeAlias = tuple[str, str]


class Attachments:
    """Reference counts of volumes by node, kept event by event; arrays over node rows are made when asked for.

    A volume is referred to by every pod that uses it and by its VolumeAttachment.
    """

    def __init__(self) -> None:
        self.nodes_of: dict[Handle, dict[str, int]] = {}
        self._count: dict[str, dict[str, int]] = {}
        self._limits: dict[str, tuple[tuple[str, int], ...]] = {}
        self._drivers_with_limits: dict[str, int] = {}
        self._row_of: dict[str, int] = {}
        self._nodes: Sequence[Node] = ()
        self._counts: dict[str, Ints] = {}
        self._limit_arrays: dict[str, Floats] = {}
        self._drivers: dict[str, tuple[str, ...]] = {}
        self._driver_arrays: dict[str, Bools] = {}

    def add(self, handle: Handle, node: str) -> None:
        """One more reference."""
        nodes = self.nodes_of.setdefault(handle, {})
        nodes[node] = nodes.get(node, 0) + 1
        if nodes[node] == 1:
            self._change(handle[0], node, +1)

    def release(self, handle: Handle, node: str) -> None:
        """Count one reference less."""
        nodes = self.nodes_of[handle]
        nodes[node] -= 1
        if not nodes[node]:
            del nodes[node]
            if not nodes:
                del self.nodes_of[handle]
            self._change(handle[0], node, -1)

    def _change(self, driver: str, node: str, by: int) -> None:
        counts = self._count.setdefault(driver, {})
        counts[node] = counts.get(node, 0) + by
        if not counts[node]:
            del counts[node]
        array = self._counts.get(driver)
        row = self._row_of.get(node, -1)
        if array is not None and row >= 0:
            array[row] += by

    def set_limits(self, node: str, limits: tuple[tuple[str, int], ...]) -> None:
        """The attach limits of a node by driver; empty = no limits."""
        for driver, _ in self._limits.pop(node, ()):
            self._drivers_with_limits[driver] -= 1
        if limits:
            self._limits[node] = limits
        for driver, _ in limits:
            self._drivers_with_limits[driver] = self._drivers_with_limits.get(driver, 0) + 1
        self._limit_arrays.clear()

    def set_drivers(self, node: str, drivers: tuple[str, ...]) -> None:
        """The drivers that run on a node."""
        self._drivers.pop(node, None)
        if drivers:
            self._drivers[node] = drivers
        self._driver_arrays.clear()

    def drivers_of(self, node: str) -> tuple[str, ...]:
        """The values that were set for the node."""
        return self._drivers.get(node, ())

    def runs(self, driver: str) -> Bools:
        """``(N,)`` whether the driver runs on each node. Do not modify."""
        array = self._driver_arrays.get(driver)
        if array is None:
            there = [driver in self._drivers.get(node.name, ()) for node in self._nodes]
            array = self._driver_arrays[driver] = np.array(there, dtype=np.bool_)
        return array

    def limits_of(self, node: str) -> tuple[tuple[str, int], ...]:
        """The values that were set for the node."""
        return self._limits.get(node, ())

    def limited(self, driver: str) -> bool:
        """Return True if any node limits this driver."""
        return bool(self._drivers_with_limits.get(driver))

    def rows_are(self, nodes: Sequence[Node], row_of: dict[str, int]) -> None:
        """Arrays are over these nodes from now on."""
        if nodes is not self._nodes:
            self._nodes, self._row_of = nodes, row_of
            self._counts.clear()
            self._limit_arrays.clear()
            self._driver_arrays.clear()

    def counts(self, driver: str) -> Ints:
        """``(N,)`` volumes of the driver on each node. Do not modify."""
        array = self._counts.get(driver)
        if array is None:
            array = self._counts[driver] = np.zeros(len(self._nodes), dtype=np.int64)
            for node, count in self._count.get(driver, {}).items():
                row = self._row_of.get(node, -1)
                if row >= 0:
                    array[row] = count
        return array

    def limits(self, driver: str) -> Floats:
        """``(N,)`` the most volumes of the driver that each node takes; infinite without a limit. Do not modify."""
        array = self._limit_arrays.get(driver)
        if array is None:
            array = self._limit_arrays[driver] = np.full(len(self._nodes), np.inf)
            for node, limits in self._limits.items():
                row = self._row_of.get(node, -1)
                for name, limit in limits:
                    if name == driver and row >= 0:
                        array[row] = limit
        return array


_MOST_CHANGES = 10_000


class Target(NamedTuple):
    """Where a claim gets its storage: an existing ``volume``, or a new one (empty name) for ``node``."""

    volume: str
    node: str


class VolumeIndex:
    """All storage objects by identity.

    ``supply_generation`` changes with what new volumes can be made. ``of_class`` has the volumes by storage class and
    name, ``changes`` the names of those that came, changed or went, by class: whoever keeps something about a class
    reads on where it has stopped, and starts again when the list is another one. ``users`` are the pods that use a
    claim and take room: UID to node; ``mentions`` counts all pods with it. ``disks`` has, by kind and identity, the
    nodes of the pods that take room, under the UID and the place among the pod's disks: it may name one twice.
    ``assumed`` are the claims that are being bound by us, ``taken`` the volumes for them.
    """

    def __init__(self) -> None:
        self.claims: dict[ClaimKey, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.drivers: dict[str, CSIDriver] = {}
        self.capacities: dict[tuple[str, str], CSIStorageCapacity] = {}
        self.supply_generation = 0
        self.of_class: dict[str, dict[str, PersistentVolume]] = {}
        self.changes: dict[str, list[str]] = {}
        self.users: dict[ClaimKey, dict[str, str]] = {}
        self.mentions: dict[ClaimKey, int] = {}
        self.disks: dict[tuple[str, tuple[str, ...]], dict[tuple[str, int], tuple[str, Disk]]] = {}
        self.assumed: dict[ClaimKey, Target] = {}
        self.taken: dict[str, ClaimKey] = {}
        self.attachments = Attachments()
        self._reserved: dict[ClaimKey, dict[str, None]] = {}
        self._claims_of: dict[str, dict[ClaimKey, None]] = {}
        self._handles: dict[ClaimKey, Handle] = {}
        self._attached: dict[str, VolumeAttachment] = {}
        self._attachments_of: dict[str, dict[str, None]] = {}
        self._attached_as: dict[str, tuple[Handle, str]] = {}

    # -- objects -------------------------------------------------------------------------------------------

    def put(self, record: StorageObject) -> bool:
        """An object was created or changed. False when that changes nothing for pods that wait."""
        news = not isinstance(record, VolumeAttachment) and self._differs(record)
        self.supply_generation += isinstance(record, StorageClass | CSIDriver | CSIStorageCapacity)
        match record:
            case PersistentVolumeClaim():
                self._put_claim(record)
            case PersistentVolume():
                self._put_volume(record)
            case StorageClass():
                self.classes[record.name] = record
                self._recount_all()
            case CSINode():
                self.attachments.set_limits(record.name, record.limits)
                self.attachments.set_drivers(record.name, record.drivers)
            case CSIDriver():
                self.drivers[record.name] = record
            case CSIStorageCapacity():
                self.capacities[record.namespace, record.name] = record
            case VolumeAttachment():
                self._drop_attachment(record.name)
                self._attached[record.name] = record
                self._attachments_of.setdefault(record.volume, {})[record.name] = None
                self._count_attachment(record)
        return news

    def _differs(self, record: StorageObject) -> bool:
        """Return True if more has changed than the version."""
        old: StorageObject | None = None
        match record:
            case PersistentVolumeClaim():
                old = self.claims.get(record.key)
            case PersistentVolume():
                old = self.volumes.get(record.name)
            case StorageClass():
                old = self.classes.get(record.name)
            case CSIDriver():
                old = self.drivers.get(record.name)
            case CSIStorageCapacity():
                old = self.capacities.get((record.namespace, record.name))
            case CSINode():
                known = self.attachments.limits_of(record.name), self.attachments.drivers_of(record.name)
                return known != (record.limits, record.drivers)
        if isinstance(old, PersistentVolumeClaim | PersistentVolume):
            old = msgspec.structs.replace(old, version=getattr(record, "version", ""))
        return old != record

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Remove an object of this API kind."""
        self.supply_generation += kind in ("StorageClass", "CSIDriver", "CSIStorageCapacity")
        if kind == "PersistentVolumeClaim":
            self._drop_claim((namespace, name))
        elif kind == "PersistentVolume":
            self._drop_volume(name)
        elif kind == "StorageClass":
            self.classes.pop(name, None)
            self._recount_all()
        elif kind == "CSINode":
            self.attachments.set_limits(name, ())
            self.attachments.set_drivers(name, ())
        elif kind == "CSIDriver":
            self.drivers.pop(name, None)
        elif kind == "CSIStorageCapacity":
            self.capacities.pop((namespace, name), None)
        elif kind == "VolumeAttachment":
            self._drop_attachment(name)

    def _put_claim(self, claim: PersistentVolumeClaim) -> None:
        old = self.claims.get(claim.key)
        if old is not None and old.volume_name != claim.volume_name:
            self._unlink(old)
        self.claims[claim.key] = claim
        if claim.volume_name:
            self._claims_of.setdefault(claim.volume_name, {})[claim.key] = None
        self._recount(claim.key)

    def _drop_claim(self, key: ClaimKey) -> None:
        old = self.claims.pop(key, None)
        if old is not None:
            self._unlink(old)
            self._recount(key)

    def _unlink(self, claim: PersistentVolumeClaim) -> None:
        """The claim no longer names its volume."""
        claims = self._claims_of.get(claim.volume_name)
        if claims is not None:
            del claims[claim.key]
            if not claims:
                del self._claims_of[claim.volume_name]

    def _put_volume(self, volume: PersistentVolume) -> None:
        old = self.volumes.get(volume.name)
        if old is not None:
            self._unlist(old)
        self.volumes[volume.name] = volume
        self.of_class.setdefault(volume.storage_class, {})[volume.name] = volume
        self._note(volume)
        if volume.claim is not None:
            key = (volume.claim.namespace, volume.claim.name)
            self._reserved.setdefault(key, {})[volume.name] = None
        self._volume_recount(volume.name)

    def _drop_volume(self, name: str) -> None:
        old = self.volumes.pop(name, None)
        if old is not None:
            self._unlist(old)
            self._volume_recount(name)

    def _unlist(self, volume: PersistentVolume) -> None:
        listed = self.of_class[volume.storage_class]
        del listed[volume.name]
        if not listed:
            del self.of_class[volume.storage_class]
        self._note(volume)
        if volume.claim is not None:
            key = (volume.claim.namespace, volume.claim.name)
            self._reserved[key].pop(volume.name)
            if not self._reserved[key]:
                del self._reserved[key]

    def _note(self, volume: PersistentVolume) -> None:
        changes = self.changes.setdefault(volume.storage_class, [])
        if len(changes) >= _MOST_CHANGES:
            changes = self.changes[volume.storage_class] = []
        changes.append(volume.name)

    # -- use of volumes ------------------------------------------------------------------------------------

    def use(self, pod: Pod, node: str) -> None:
        """The pod, which has volumes, takes room on a node."""
        assert pod.volumes is not None
        for name in pod.volumes.claims:
            key = (pod.namespace, name)
            self.users.setdefault(key, {})[pod.uid] = node
            handle = self._handles.get(key)
            if handle is None:
                handle = self.handle(key)
                if handle is None:
                    continue
                self._handles[key] = handle
            self.attachments.add(handle, node)
        for n, disk in enumerate(pod.volumes.disks):
            self.disks.setdefault((disk.kind, disk.ident), {})[pod.uid, n] = (node, disk)

    def leave(self, pod: Pod, node: str) -> None:
        """The pod no longer takes room there."""
        assert pod.volumes is not None
        for name in pod.volumes.claims:
            key = (pod.namespace, name)
            users = self.users[key]
            del users[pod.uid]
            handle = self._handles.get(key)
            if handle is not None:
                self.attachments.release(handle, node)
            if not users:
                del self.users[key]
                self._handles.pop(key, None)
        for n, disk in enumerate(pod.volumes.disks):
            holders = self.disks[disk.kind, disk.ident]
            del holders[pod.uid, n]
            if not holders:
                del self.disks[disk.kind, disk.ident]

    def count_pod(self, pod: Pod, sign: int) -> None:
        """Count a pod with volumes that exists (+1), wherever it is, or that no longer does (-1)."""
        assert pod.volumes is not None
        for name in pod.volumes.claims:
            key = (pod.namespace, name)
            self.mentions[key] = self.mentions.get(key, 0) + sign
            if not self.mentions[key]:
                del self.mentions[key]

    def must_run(self, driver: str) -> bool:
        """Return True if pods with volumes of a driver are to be placed only on nodes on which it runs."""
        found = self.drivers.get(driver)
        return found is not None and found.must_run

    def handle(self, key: ClaimKey, volume_name: str = "") -> Handle | None:
        """What is attached to the node of a pod with this claim; None when that is not counted.

        A claim without a volume counts under its own name for the driver that its class will use.
        ``volume_name`` is the volume that it is thought to get.
        """
        claim = self.claims.get(key)
        if claim is None:
            return None
        target = self.assumed.get(key)
        name = claim.volume_name or volume_name or (target.volume if target is not None else "")
        volume = self.volumes.get(name)
        if volume is not None:
            return (volume.driver, volume.handle) if volume.driver and volume.handle else None
        storage_class = self.classes.get(claim.storage_class)
        if storage_class is None or not storage_class.provisions:
            return None
        return (storage_class.provisioner, f"claim {key[0]}/{key[1]}")

    def _recount(self, key: ClaimKey) -> None:
        """The attachments of pods with this claim may have changed."""
        users = self.users.get(key)
        if not users:
            return
        old, new = self._handles.get(key), self.handle(key)
        if old == new:
            return
        for node in users.values():
            if old is not None:
                self.attachments.release(old, node)
            if new is not None:
                self.attachments.add(new, node)
        if new is None:
            self._handles.pop(key, None)
        else:
            self._handles[key] = new

    def _recount_all(self) -> None:
        for key in list(self.users):
            self._recount(key)

    def _volume_recount(self, name: str) -> None:
        for key in list(self._claims_of.get(name, ())):
            self._recount(key)
        if name in self.taken:
            self._recount(self.taken[name])
        for attached in list(self._attachments_of.get(name, ())):
            self._count_attachment(self._attached[attached])

    def _count_attachment(self, record: VolumeAttachment) -> None:
        old = self._attached_as.pop(record.name, None)
        if old is not None:
            self.attachments.release(*old)
        volume = self.volumes.get(record.volume)
        if record.driver and volume is not None and volume.driver:
            self._attached_as[record.name] = ((record.driver, volume.handle), record.node)
            self.attachments.add((record.driver, volume.handle), record.node)

    def _drop_attachment(self, name: str) -> None:
        record = self._attached.pop(name, None)
        if record is None:
            return
        self._attachments_of[record.volume].pop(name)
        if not self._attachments_of[record.volume]:
            del self._attachments_of[record.volume]
        old = self._attached_as.pop(name, None)
        if old is not None:
            self.attachments.release(*old)

    # -- binding -------------------------------------------------------------------------------------------

    def waits(self, claim: PersistentVolumeClaim) -> bool:
        """Return True if the scheduler chooses where this unbound claim gets its volume."""
        storage_class = self.classes.get(claim.storage_class)
        return not claim.volume_name and storage_class is not None and storage_class.waits

    def target(self, claim: PersistentVolumeClaim) -> Target | None:
        """Where a claim that is not bound yet has been promised its storage, by us just now or on record."""
        found = self.assumed.get(claim.key)
        if found is None and claim.selected_node:
            found = Target("", claim.selected_node)
        return found

    def reserved(self, claim: PersistentVolumeClaim) -> Iterator[PersistentVolume]:
        """Volumes that name this claim, by name."""
        for name in sorted(self._reserved.get(claim.key, ())):
            if self.volumes[name].belongs_to(claim):
                yield self.volumes[name]

    def assume(self, key: ClaimKey, target: Target) -> None:
        """We are about to bind this claim so."""
        self.assumed[key] = target
        if target.volume:
            self.taken[target.volume] = key
        self._recount(key)

    def forget(self, key: ClaimKey) -> None:
        """From now on the cluster's state of this claim counts."""
        target = self.assumed.pop(key, None)
        if target is not None and target.volume:
            self.taken.pop(target.volume, None)
        self._recount(key)

    def forget_all(self) -> None:
        """No claim is being bound by us any more."""
        for key in list(self.assumed):
            self.forget(key)
