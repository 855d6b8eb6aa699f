"""The storage of a random cluster: classes, volumes, claims, limits of nodes, and what pods use of it."""

from __future__ import annotations

import random
from collections.abc import Sequence

from gangsched.core.world.world import World
from gangsched.model.constraints import Disk, NodeTerm, PodVolumes, Requirement
from gangsched.model.volumes import (
    READ_WRITE_ONCE_POD,
    ClaimRef,
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

_ZONE = "topology.kubernetes.io/zone"
_DRIVER = "disk.example.com"
_GIB = 2**30
#: Claims of each namespace, by name.
CLAIMS = tuple(f"claim-{i}" for i in range(6))


def fill(world: World, chance: random.Random, nodes: Sequence[str], namespaces: Sequence[str]) -> None:
    """Two classes (bound at once, bound when a pod comes), and claims of both in each namespace, most of them bound."""
    storage = world.snapshot.volumes
    storage.put(StorageClass("at-once", provisioner=_DRIVER))
    storage.put(StorageClass("later", provisioner="kubernetes.io/no-provisioner", waits=True))
    storage.put(CSIDriver(_DRIVER))
    for name in nodes:
        if chance.random() < 0.5:
            storage.put(CSINode(name, ((_DRIVER, chance.randint(1, 3)),)))
    for namespace in namespaces:
        for name in CLAIMS:
            _claim(world, chance, namespace, name)


def _claim(world: World, chance: random.Random, namespace: str, name: str) -> None:
    bound = chance.random() < 0.7
    volume = f"volume-{namespace}-{name}"
    zone = chance.choice(("a", "b", "c"))
    kind = "at-once" if bound and chance.random() < 0.5 else "later"
    modes = (READ_WRITE_ONCE_POD,) if chance.random() < 0.3 else ("ReadWriteOnce",)
    storage = world.snapshot.volumes
    if chance.random() < 0.9:  # or else the volume is lost
        storage.put(
            PersistentVolume(
                volume,
                uid=f"uid-{volume}",
                labels={_ZONE: zone} if chance.random() < 0.5 else {},
                storage_class=kind,
                size=10 * _GIB,
                access_modes=modes,
                node_terms=(NodeTerm((Requirement(_ZONE, "In", (zone,)),)),) if chance.random() < 0.5 else None,
                claim=ClaimRef(namespace, name, f"uid-{namespace}-{name}") if bound else None,
                phase="Bound" if bound else "Available",
                driver=_DRIVER,
                handle=volume,
            )
        )
    storage.put(
        PersistentVolumeClaim(
            namespace,
            name,
            uid=f"uid-{namespace}-{name}",
            storage_class=kind,
            volume_name=volume if bound else "",
            size=5 * _GIB,
            access_modes=modes,
            bound=bound,
            phase="Bound" if bound else "Pending",
        )
    )


def used(chance: random.Random) -> PodVolumes | None:
    """What one pod uses; None for most."""
    if chance.random() < 0.7:
        return None
    if chance.random() < 0.2:
        return PodVolumes(disks=(Disk("gcePersistentDisk", (chance.choice(("x", "y")),)),))
    names = chance.sample(CLAIMS, chance.randint(1, 2))
    return PodVolumes(claims=("no-such-claim",) if chance.random() < 0.05 else tuple(sorted(names)))
