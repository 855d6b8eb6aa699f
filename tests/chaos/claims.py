"""Members with claims for devices: some of one node's, some that several members share, and not always enough."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

from gangsched.cluster.sim import World
from gangsched.core.events import Changed, Event, Gone, records
from gangsched.model import cel
from gangsched.model.constraints import IN, NodeTerm, PodClaim, PodDevices, Requirement
from gangsched.model.devices import (
    AllocatedDevice,
    Allocation,
    ClaimSpec,
    Device,
    DeviceClass,
    DeviceId,
    DeviceRequest,
    Place,
    Request,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from gangsched.model.records import SINGLE, GangId, Node, Pod
from tests import generators
from tests.chaos.others import NAME as OTHERS
from tests.chaos.refusals import refuse_claims
from tests.chaos.trouble import CHANGED, CREATED, GONE_BY_USER, Part, some_of

DRIVER = "gpu.example.com"
_SPACE = generators.NAMESPACE
#: Templates by the number of devices that their claims ask for.
_TEMPLATES = {"one": 1, "two": 2}


def part(seed: int, events: list[Event]) -> Part:
    """Each node has a few devices. Most pods have a claim, from a template or shared by the members of a gang."""
    chance = random.Random(f"{seed}/claims")
    out: list[Event] = [Changed(DeviceClass("gpu"))]
    out += [Changed(ResourceClaimTemplate(_SPACE, name, _spec(count))) for name, count in _TEMPLATES.items()]
    free: dict[str, list[DeviceId]] = {}
    for node in records(events, Node):
        count = chance.randint(1, 4)
        free[node.name] = [DeviceId(DRIVER, node.name, f"gpu-{i}") for i in range(count)]
        out.append(Changed(_slice(node.name, count)))
    shared = {pod.gang for pod in records(events, Pod) if not pod.node and chance.random() < 0.1}
    out += [Changed(ResourceClaim(_SPACE, _shared(gang), f"uid-{_shared(gang)}", _spec(1))) for gang in sorted(shared)]
    for event in events:
        match event:
            case Changed(Pod() as pod) if pod.owner is None and pod.devices is None and chance.random() < 0.7:
                out += _with_claims(pod, chance, shared, free)
            case _:
                out.append(event)
    kinds = (take_devices, take_devices, delete_claim, republish, lose_device, refuse_claims)
    options = {"bind_timeout_seconds": chance.choice((5.0, 60.0))}
    return Part(out, some_of(kinds, f"{seed}/claim trouble", most=4), options=options)


def _with_claims(
    pod: Pod, chance: random.Random, shared: set[GangId], free: dict[str, list[DeviceId]]
) -> Iterator[Event]:
    if pod.node:
        left = free.get(pod.node, [])
        if left:
            devices = [left.pop() for _ in range(min(len(left), chance.randint(1, 2)))]
            name = f"{pod.name}-gpus"
            yield Changed(_held(name, pod, devices))
            pod = msgspec.structs.replace(pod, devices=PodDevices((PodClaim("gpus", name, "one"),)))
    elif pod.gang in shared and pod.gang.family != SINGLE:
        pod = msgspec.structs.replace(pod, devices=PodDevices((PodClaim("gpus", _shared(pod.gang)),)))
    else:
        template = chance.choice(("one", "one", "two"))
        pod = msgspec.structs.replace(pod, devices=PodDevices((PodClaim("gpus", "", template),)))
    yield Changed(pod)


def _shared(gang: GangId) -> str:
    return f"shared-{gang.name}"


def _spec(count: int) -> ClaimSpec:
    return ClaimSpec((Request("r", (DeviceRequest("r", "gpu", count=count),)),))


def _slice(node: str, count: int) -> ResourceSlice:
    devices = tuple(Device(f"gpu-{i}", cel.Device(DRIVER, {}, {}), {}, alike="gpu") for i in range(count))
    return ResourceSlice(f"{node}-slice", DRIVER, node, 1, 1, Place(node), False, devices, {})


def _held(name: str, pod: Pod, devices: list[DeviceId]) -> ResourceClaim:
    here = NodeTerm(fields=(Requirement("metadata.name", IN, (pod.node,)),))
    given = Allocation(tuple(AllocatedDevice("r", each) for each in devices), (here,))
    reserved = (("pods", pod.name, pod.uid),)
    return ResourceClaim(_SPACE, name, f"uid-{name}", _spec(len(devices)), given, reserved, owner_uid=pod.uid)


def _in_use(world: World) -> set[DeviceId]:
    claims = world.store.device_claims()
    return {d.device for c in claims if c.allocation is not None for d in c.allocation.devices}


def _later(world: World, seconds: float, event: Event) -> None:
    def happen() -> None:
        world.store.apply(event, CHANGED)

    world.after(seconds, happen)


def take_devices(world: World, chance: random.Random) -> None:
    """Another scheduler binds a pod with a claim: it gets devices that no claim has, though they may be promised."""
    slices = world.store.slices()
    used = _in_use(world)
    there = [DeviceId(s.driver, s.pool, d.name) for s in slices if s.place.node in world.store.nodes for d in s.devices]
    free = [each for each in there if each not in used]
    if not free:
        return
    device = chance.choice(free)
    name = f"rival-{chance.randint(0, 10**6)}"
    gang = GangId(SINGLE, _SPACE, name, OTHERS)
    shape = next(iter(world.store.pods.values())).shape if world.store.pods else None
    if shape is None:
        return
    shape = msgspec.structs.replace(shape, requests=())
    devices = PodDevices((PodClaim("gpus", f"{name}-gpus", "one"),))
    pod = Pod(_SPACE, name, f"uid-{name}", shape, gang, OTHERS, node=device.pool, phase="Running", devices=devices)
    world.store.apply(Changed(_held(f"{name}-gpus", pod, [device])), CREATED)
    world.store.put_pod(pod, CREATED)
    gone = Gone("Pod", _SPACE, name, pod.uid)
    _later(world, chance.choice((1.0, 10.0, 200.0)), gone)


def delete_claim(world: World, chance: random.Random) -> None:
    """A user deletes a claim: with devices it stays until it loses them."""
    claims = sorted(world.store.device_claims(), key=lambda c: c.name)
    if not claims:
        return
    claim = chance.choice(claims)
    if claim.allocation is None:
        world.store.apply(Gone("ResourceClaim", claim.namespace, claim.name, claim.uid), GONE_BY_USER)
    else:
        world.store.apply(Changed(msgspec.structs.replace(claim, deleting=True)), GONE_BY_USER)


def republish(world: World, chance: random.Random) -> None:
    """A driver withdraws the slice of a node, and publishes it anew after a moment."""
    slices = sorted(world.store.slices(), key=lambda s: s.name)
    if not slices:
        return
    found = chance.choice(slices)
    world.store.apply(Gone("ResourceSlice", "", found.name, ""), GONE_BY_USER)
    fresh = msgspec.structs.replace(found, generation=found.generation + 1)
    _later(world, chance.choice((0.2, 2.0)), Changed(fresh))


def lose_device(world: World, chance: random.Random) -> None:
    """A device fails: it is not in its slice any more, whoever has it."""
    slices = sorted((s for s in world.store.slices() if len(s.devices) > 1), key=lambda s: s.name)
    if slices:
        found = chance.choice(slices)
        fewer = msgspec.structs.replace(found, devices=found.devices[:-1], generation=found.generation + 1)
        world.store.apply(Changed(fewer), CHANGED)
