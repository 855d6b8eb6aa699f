"""The pools of devices that a node reaches, from the slices that drivers publish.

A pool counts in its newest generation only. It is complete when as many slices are known as it says it has. The rules
are those of k8s.io/dynamic-resource-allocation/structured, with what Kubernetes 1.37 has switched on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeAlias

from gangsched.messages import devices
from gangsched.model.constraints import Labels
from gangsched.model.devices import Device, DeviceId, Place, ResourceSlice
from gangsched.model.selectors import node_term_matches

#: ``(driver, pool name)``.
PoolKey: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class Pool:
    """What one node reaches of a pool. Without ``trouble`` its devices can be allocated."""

    key: PoolKey
    devices: list[Device] = field(default_factory=list)
    #: Devices of the pool that only other nodes reach; what is allocated of them takes shared counters.
    elsewhere: list[Device] = field(default_factory=list)
    #: ``(counter set, counter) -> amount``.
    counters: dict[tuple[str, str], Decimal] = field(default_factory=dict)
    #: Why nothing of it can be allocated.
    trouble: str = ""

    def ident(self, device: Device) -> DeviceId:
        """Return the identity of one of its devices."""
        return DeviceId(*self.key, device.name)


class Inventory:
    """All slices of a cluster, by pool."""

    def __init__(self, slices: Iterable[ResourceSlice]) -> None:
        self._pools: dict[PoolKey, list[ResourceSlice]] = {}
        for each in slices:
            self._pools.setdefault((each.driver, each.pool), []).append(each)

    def pools(self, node: str, labels: Labels) -> list[Pool]:
        """Return the pools that the node reaches, by driver and name; those with binding conditions come last."""
        found = []
        for key in sorted(self._pools):
            pool = _pool(key, self._pools[key], node, labels)
            if pool is not None:
                found.append(pool)
        return sorted(found, key=lambda pool: any(device.conditions for device in pool.devices))


def reaches(place: Place, node: str, labels: Labels) -> bool:
    """Return whether what is at this place can be used from the node."""
    if place.node:
        return place.node == node
    return place.everywhere or (place.term is not None and node_term_matches(place.term, node, labels))


def _relevant(each: ResourceSlice, node: str, labels: Labels) -> bool:
    if each.place.known:
        return reaches(each.place, node, labels)
    return each.per_device and any(reaches(device.place, node, labels) for device in each.devices)


def _pool(key: PoolKey, slices: Sequence[ResourceSlice], node: str, labels: Labels) -> Pool | None:
    here = [each for each in slices if not each.refused and _relevant(each, node, labels)]
    if not here:
        return None
    newest = max(each.generation for each in here)
    here = sorted((each for each in here if each.generation == newest), key=lambda each: each.name)
    wanted = here[0].slices
    known = here
    if len(here) != wanted:
        if any(each.generation > newest for each in slices):
            return None  # a driver is replacing the pool, and the new one has nothing for this node
        known = [each for each in slices if each.generation == newest and not each.refused]
        if len(known) != wanted:
            return Pool(key, trouble=devices.INCOMPLETE)
    others = [each for each in known if each not in here]
    pool = Pool(
        key,
        [device for each in here for device in each.devices],
        [device for each in others for device in each.devices],
    )
    pool.trouble = _add_counters(pool, known) or _names_twice(pool.devices)
    pool.trouble = pool.trouble or _unknown_counter(pool)
    # A device for other nodes in a slice that is also for this one.
    for each in here:
        if each.per_device:
            away = [device for device in each.devices if not reaches(device.place, node, labels)]
            pool.devices = [device for device in pool.devices if device not in away]
            pool.elsewhere += away
    return pool


def _names_twice(found: Sequence[Device]) -> str:
    seen: set[str] = set()
    for device in found:
        if device.name in seen:
            return devices.device_twice(name=device.name)
        seen.add(device.name)
    return ""


def _add_counters(pool: Pool, slices: Iterable[ResourceSlice]) -> str:
    names: set[str] = set()
    for each in slices:
        for name, counters in each.counters.items():
            if name in names:
                return devices.counter_set_twice(name=name)
            names.add(name)
            pool.counters.update({(name, counter): amount for counter, amount in counters.items()})
    return ""


def _unknown_counter(pool: Pool) -> str:
    for device in (*pool.devices, *pool.elsewhere):
        for counter_set, counter, _ in device.counters:
            if (counter_set, counter) not in pool.counters:
                return devices.no_counter(counter=counter, counter_set=counter_set, device=device.name)
    return ""


@dataclass(slots=True)
class InUse:
    """What the allocations of all claims take."""

    devices: set[DeviceId] = field(default_factory=set)
    #: Devices that several claims share, with the amounts that are taken of them.
    shares: dict[DeviceId, dict[str, Decimal]] = field(default_factory=dict)

    def free_counters(self, pool: Pool) -> dict[tuple[str, str], Decimal]:
        """Return what is left of the pool's counters; negative where more is in use than there is."""
        left = dict(pool.counters)
        for device in (*pool.devices, *pool.elsewhere):
            ident = pool.ident(device)
            if ident in self.devices or ident in self.shares:
                for counter_set, counter, amount in device.counters:
                    left[counter_set, counter] -= amount
        return left

    def taken(self, ident: DeviceId) -> Mapping[str, Decimal]:
        """Return the amounts that are taken of a shared device."""
        return self.shares.get(ident, {})
