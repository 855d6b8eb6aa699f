"""Claims, volumes, and who uses what."""

from __future__ import annotations

from collections.abc import Iterator

from gangsched.core.volumes.index import VolumeIndex
from gangsched.core.world.world import World
from tests.verify.differences import filled, unlike
from tests.verify.nodes import charged, known_pods


def _fresh(world: World) -> VolumeIndex:
    kept, out = world.snapshot.volumes, VolumeIndex()
    for records in (kept.classes, kept.drivers, kept.capacities, kept.volumes, kept.claims, kept._attached):
        for record in records.values():
            out.put(record)
    for node, limits in kept.attachments._limits.items():
        out.attachments.set_limits(node, limits)
    for node, drivers in kept.attachments._drivers.items():
        out.attachments.set_drivers(node, drivers)
    for key, target in kept.assumed.items():
        out.assume(key, target)
    for pod in known_pods(world).values():
        if pod.volumes is not None:
            out.count_pod(pod, +1)
    for pod, node in charged(world).values():
        if pod.volumes is not None:
            out.use(pod, node)
    return out


def volumes(world: World) -> Iterator[str]:
    """Users of claims and disks, and volumes that are attached."""
    kept, fresh = world.snapshot.volumes, _fresh(world)
    if not [*world.membership.expected]:
        yield from unlike("mentions of claims", kept.mentions, fresh.mentions)
    for name, ours, theirs in (
        ("users of claims", kept.users, fresh.users),
        ("users of disks", kept.disks, fresh.disks),
        ("volumes by class", kept.of_class, fresh.of_class),
        ("volumes that are taken", kept.taken, fresh.taken),
        ("claims by volume", kept._claims_of, fresh._claims_of),
        ("volumes by the claim they name", kept._reserved, fresh._reserved),
        ("what claims attach", kept._handles, fresh._handles),
        ("attachments by volume", kept._attachments_of, fresh._attachments_of),
        ("attachments that are counted", kept._attached_as, fresh._attached_as),
        ("attached volumes", kept.attachments.nodes_of, fresh.attachments.nodes_of),
        ("attached volumes by driver", filled(kept.attachments._count), filled(fresh.attachments._count)),
        (
            "drivers with limits",
            filled(kept.attachments._drivers_with_limits),
            filled(fresh.attachments._drivers_with_limits),
        ),
    ):
        yield from unlike(name, dict(ours.items()), dict(theirs.items()))
    for driver, array in kept.attachments._counts.items():
        rows = kept.attachments._row_of
        numbers = [0] * len(array)
        for node, count in kept.attachments._count.get(driver, {}).items():
            if node in rows:
                numbers[rows[node]] = count
        yield from unlike(f"attached volumes of {driver} by row", array.tolist(), numbers)
