"""Claims for devices, and who uses them."""

from __future__ import annotations

from collections.abc import Iterator

from gangsched.core.devices.index import DeviceIndex
from gangsched.core.world.world import World
from tests.verify.differences import unlike
from tests.verify.nodes import charged


def _fresh(world: World) -> DeviceIndex:
    kept, out = world.snapshot.devices, DeviceIndex()
    for records in (kept.rules, kept.slices, kept.classes, kept.templates, kept.claims):
        for record in records.values():
            out.put(record)
    for key, given in kept.assumed.items():
        out.assume(key, given)
    for pod, _ in charged(world).values():
        if pod.devices is not None:
            out.use(pod)
    for uid in kept.gone:
        out.pod_gone(uid)
    return out


def devices(world: World) -> Iterator[str]:
    """Users of claims, pods that claims are reserved for, devices in use, and the pools that nodes reach."""
    kept, fresh = world.snapshot.devices, _fresh(world)
    for name, ours, theirs in (
        ("users of claims for devices", kept.users, fresh.users),
        ("claims by the pods that they are reserved for", kept._reserving, fresh._reserving),
        ("claims by device", kept._holders, fresh._holders),
        ("devices in use", kept.in_use().devices, fresh.in_use().devices),
        ("shares of devices in use", kept.in_use().shares, fresh.in_use().shares),
        ("pods that are gone and hold devices", kept.gone, fresh.gone),
    ):
        yield from unlike(name, {"": ours}, {"": theirs})
    alive = {uid for uid in kept.gone if uid in world.pods and not world.pods[uid].finished}
    yield from unlike("gone pods that exist", {"": alive}, {"": set()})
    for node, (labels, pools) in kept.inventory._found.items():
        yield from unlike(f"pools of {node}", {"": pools}, {"": fresh.inventory.pools(node, labels)})
