"""Members with claims that wait for their first consumer: volumes of one node, and volumes that are made."""

from __future__ import annotations

import random

import msgspec

from gangsched.cluster.sim import World
from gangsched.core.events import Changed, Event, Gone
from gangsched.model.constraints import IN, NodeTerm, PodVolumes, Requirement
from gangsched.model.records import Node, Pod
from gangsched.model.volumes import (
    ClaimRef,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageObject,
)
from tests import generators
from tests.chaos.refusals import refuse_volumes
from tests.chaos.trouble import CHANGED, CREATED, GONE_BY_USER, Part, some_of

_LOCAL, _MADE = StorageClass("local", waits=True), StorageClass("made", "csi.example.com", waits=True)
_HOST = "kubernetes.io/hostname"
_GIB = 2**30
_ONCE = ("ReadWriteOnce",)


def part(seed: int, events: list[Event]) -> Part:
    """Most pods that wait have a claim of their own; each node has some volumes, not always enough."""
    chance = random.Random(f"{seed}/volumes")
    out: list[Event] = [Changed(_LOCAL), Changed(_MADE)]
    for event in events:
        match event:
            case Changed(Node() as node):
                event = Changed(msgspec.structs.replace(node, labels={**node.labels, _HOST: node.name}))
                out += [Changed(_volume(f"{node.name}-{n}", node.name)) for n in range(chance.randint(1, 3))]
            case Changed(Pod() as pod) if _may_have(pod) and chance.random() < 0.7:
                claim = _claim(f"data-{pod.name}", chance.choice((_LOCAL, _LOCAL, _MADE)).name)
                out.append(Changed(claim))
                event = Changed(msgspec.structs.replace(pod, volumes=PodVolumes((claim.name,))))
        out.append(event)
    kinds = (take_volume, take_volume, recreate_claim, fail_provisioning, refuse_volumes)
    options = {"bind_timeout_seconds": chance.choice((5.0, 60.0))}
    return Part(out, some_of(kinds, f"{seed}/volume trouble", most=3), options=options)


def _may_have(pod: Pod) -> bool:
    """Pods that Jobs make again would all have the claims of their template."""
    return not pod.node and pod.owner is None


def _claim(name: str, storage_class: str) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        generators.NAMESPACE, name, f"uid-{name}", storage_class, size=_GIB, access_modes=_ONCE
    )


def _volume(name: str, node: str) -> PersistentVolume:
    reach = (NodeTerm((Requirement(_HOST, IN, (node,)),)),)
    return PersistentVolume(
        name,
        uid=f"uid-volume-{name}",
        storage_class=_LOCAL.name,
        size=_GIB,
        access_modes=_ONCE,
        node_terms=reach,
        phase="Available",
    )


def _put(world: World, record: StorageObject, *, new: bool = False) -> None:
    world.store.apply(Changed(record), CREATED if new else CHANGED)


def take_volume(world: World, chance: random.Random) -> None:
    """The claim of somebody else gets a volume that nobody has yet, though it may have been promised."""
    free = sorted((v for v in world.store.volumes() if v.claim is None), key=lambda v: v.name)
    if not free:
        return
    volume = chance.choice(free)
    name = f"rival-{volume.name}"
    rival = msgspec.structs.replace(_claim(name, _LOCAL.name), volume_name=volume.name, bound=True, phase="Bound")
    ref = ClaimRef(rival.namespace, rival.name, rival.uid)
    _put(world, msgspec.structs.replace(volume, claim=ref, phase="Bound"))
    _put(world, rival, new=True)


def recreate_claim(world: World, chance: random.Random) -> None:
    """A claim that is not bound is deleted, and another one of the same name comes after a moment."""
    waiting = sorted((c for c in world.store.claims() if not c.bound), key=lambda c: c.name)
    if not waiting:
        return
    claim = chance.choice(waiting)
    world.store.apply(Gone("PersistentVolumeClaim", claim.namespace, claim.name), GONE_BY_USER)
    fresh = msgspec.structs.replace(_claim(claim.name, claim.storage_class), uid=f"{claim.uid}-again")
    for volume in world.store.volumes():
        if volume.belongs_to(claim):  # its owner sets it free by hand
            _put(world, msgspec.structs.replace(volume, claim=None, phase="Available"))

    def create() -> None:
        if world.store.storage("PersistentVolumeClaim", fresh.namespace, fresh.name) is None:
            _put(world, fresh, new=True)

    world.after(chance.choice((0.0, 0.5, 5.0)), create)


def fail_provisioning(world: World, chance: random.Random) -> None:
    """The provisioner cannot make a volume there: it takes the node off the claim."""
    asked = sorted((c for c in world.store.claims() if c.selected_node and not c.bound), key=lambda c: c.name)
    if asked:
        _put(world, msgspec.structs.replace(chance.choice(asked), selected_node=""))
