"""The pools of devices that a node reaches, from the slices that drivers publish.

A pool counts in its newest generation only. It is complete when as many slices are known as it says it has. The rules
are those of k8s.io/dynamic-resource-allocation/structured, with what Kubernetes 1.37 has switched on.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

from gangsched.messages import devices
from gangsched.model.constraints import Labels
from gangsched.model.devices import Allocation, Device, DeviceId, Place, ResourceSlice
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
    #: By device name, the nodes that reach it.
    places: dict[str, Place] = field(default_factory=dict)
    #: What selectors in play see of each of its devices (:mod:`.kinds`).
    kinds: dict[Hashable, dict[str, Any]] = field(default_factory=dict, compare=False, repr=False)
    numbered: dict[Hashable, list[Any]] = field(default_factory=dict, compare=False, repr=False)

    def ident(self, device: Device) -> DeviceId:
        """Return the identity of one of its devices."""
        return DeviceId(*self.key, device.name)


class Inventory:
    """All slices of a cluster, by pool; the pools that a node reaches are kept until one of their slices changes."""

    def __init__(self, slices: Iterable[ResourceSlice] = ()) -> None:
        self._pools: dict[PoolKey, dict[str, ResourceSlice]] = {}
        self._slices: dict[str, ResourceSlice] = {}
        #: Pools with slices for a node by its name.
        self._of_node: dict[str, dict[PoolKey, int]] = {}
        #: Pools with slices for nodes that are not named, with the number of these slices.
        self._wide: dict[PoolKey, int] = {}
        self._found: dict[str, tuple[Labels, list[Pool]]] = {}
        #: Changes with every slice.
        self.generation = 0
        for each in slices:
            self.put(each)

    def put(self, new: ResourceSlice) -> None:
        """Insert or replace a slice."""
        self.remove(new.name)
        self._slices[new.name] = new
        key = (new.driver, new.pool)
        self._pools.setdefault(key, {})[new.name] = new
        self._count(new, +1)

    def remove(self, name: str) -> None:
        """Remove a slice."""
        old = self._slices.pop(name, None)
        if old is None:
            return
        key = (old.driver, old.pool)
        self._count(old, -1)
        del self._pools[key][name]
        if not self._pools[key]:
            del self._pools[key]

    def forget_kinds(self) -> None:
        """Nothing is kept of what selectors see of devices."""
        for _, pools in self._found.values():
            for pool in pools:
                pool.kinds.clear()
                pool.numbered.clear()

    @property
    def wide(self) -> bool:
        """True if some devices are not those of one node."""
        return bool(self._wide)

    def nodes_of(self, key: PoolKey) -> list[str] | None:
        """Return the nodes that reach a pool, by name; None if that depends on labels."""
        if key in self._wide:
            return None
        return [each.place.node for each in self._pools.get(key, {}).values()]

    def several(self, device: DeviceId) -> bool:
        """Return whether several nodes reach a device."""
        return (device.driver, device.pool) in self._wide

    def forget_node(self, name: str) -> None:
        """A node is gone."""
        self._found.pop(name, None)

    def _count(self, each: ResourceSlice, sign: int) -> None:
        self.generation += 1
        key = (each.driver, each.pool)
        if key in self._wide or not each.place.node:
            self._found.clear()
        else:
            for other in self._pools[key].values():
                self._found.pop(other.place.node, None)
        counts = self._of_node.setdefault(each.place.node, {}) if each.place.node else self._wide
        counts[key] = counts.get(key, 0) + sign
        if not counts[key]:
            del counts[key]
            if each.place.node and not counts:
                del self._of_node[each.place.node]

    def pools(self, node: str, labels: Labels) -> list[Pool]:
        """Return the pools that the node reaches, by driver and name; those with binding conditions come last. Do not
        modify.
        """
        known = self._found.get(node)
        if known is not None and known[0] == labels:
            return known[1]
        found = []
        for key in sorted({*self._wide, *self._of_node.get(node, ())}):
            pool = _pool(key, list(self._pools[key].values()), node, labels)
            if pool is not None:
                found.append(pool)
        found.sort(key=lambda pool: any(device.conditions for device in pool.devices))
        self._found[node] = (labels, found)
        return found


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
    refused = next((each.refused for each in slices if each.refused and _relevant(each, node, labels)), "")
    if refused:
        return Pool(key, trouble=refused)
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
        pool.places |= {device.name: device.place if each.per_device else each.place for device in each.devices}
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
    """What the allocations of all claims take. Admin access takes nothing."""

    devices: set[DeviceId] = field(default_factory=set)
    #: Devices that several claims share, with the amounts that are taken of them.
    shares: dict[DeviceId, dict[str, Decimal]] = field(default_factory=dict)
    #: How many shares there are of each.
    number: dict[DeviceId, int] = field(default_factory=dict)
    #: Devices without shares that several claims have by mistake, with the number of further claims.
    again: dict[DeviceId, int] = field(default_factory=dict)

    def add(self, allocation: Allocation) -> None:
        """Add the devices of a claim."""
        for each in allocation.devices:
            if each.admin:
                continue
            if not each.share:
                if each.device in self.devices:
                    self.again[each.device] = self.again.get(each.device, 0) + 1
                self.devices.add(each.device)
                continue
            self.number[each.device] = self.number.get(each.device, 0) + 1
            taken = self.shares.setdefault(each.device, {})
            for name, amount in each.consumed:
                taken[name] = taken.get(name, Decimal(0)) + amount

    def give_back(self, allocation: Allocation) -> None:
        """Remove the devices of a claim that has been added."""
        for each in allocation.devices:
            if each.admin:
                continue
            if not each.share:
                further = self.again.pop(each.device, 0)
                if not further:
                    self.devices.discard(each.device)
                elif further > 1:
                    self.again[each.device] = further - 1
                continue
            self.number[each.device] -= 1
            for name, amount in each.consumed:
                self.shares[each.device][name] -= amount
            if not self.number[each.device]:
                del self.number[each.device], self.shares[each.device]

    def copy(self) -> InUse:
        """Return a copy that may be changed."""
        shares = {device: dict(taken) for device, taken in self.shares.items()}
        return InUse(set(self.devices), shares, dict(self.number), dict(self.again))

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
