"""Devices, claims, and which pods use which claims, kept up to date event by event.

What the scheduler has decided and the cluster does not show yet is in here too: a claim that it is about to write is
allocated from the decision on (*assumed*, as pods are). The devices of a claim are free once every pod that it is
reserved for is gone: the claim controller gives them back a little later, and bindings wait for that.
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec

from gangsched.core.devices.kinds import Kinds, NodeState
from gangsched.core.devices.matching import Matches
from gangsched.core.devices.pools import InUse, Inventory
from gangsched.messages import devices
from gangsched.model.constraints import Record
from gangsched.model.devices import (
    OF_CLASS,
    Allocation,
    ClaimKey,
    ClaimSpec,
    DeviceClass,
    DeviceId,
    DeviceObject,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from gangsched.model.records import Pod

#: Combinations of claims of which the kinds of devices are kept.
_KINDS = 256


class Assumed(Record, frozen=True):
    """What a claim will have: its devices, and the pods (UIDs) that it will be reserved for beside those that it is."""

    uid: str
    allocation: Allocation
    consumers: tuple[str, ...]


class DeviceIndex:
    """All objects of ``resource.k8s.io`` by identity.

    ``generation`` changes with everything that a decision about devices depends on. ``users`` are the pods that take
    room and name a claim, by claim. ``gone`` are pods (UIDs) that claims are reserved for and that no longer exist, or
    have finished. ``assumed`` are the claims that are being allocated or reserved by us. If it
    ``foresees_claims``, pods have the claims of their templates before these are made.
    """

    def __init__(self) -> None:
        self.inventory = Inventory()
        self.slices: dict[str, ResourceSlice] = {}
        self.classes: dict[str, DeviceClass] = {}
        self.rules: dict[str, DeviceTaintRule] = {}
        self.claims: dict[ClaimKey, ResourceClaim] = {}
        self.templates: dict[ClaimKey, ResourceClaimTemplate] = {}
        self.users: dict[ClaimKey, set[str]] = {}
        self.gone: set[str] = set()
        self.assumed: dict[ClaimKey, Assumed] = {}
        self.generation = 0
        self.foresees_claims = False
        self._reserving: dict[str, dict[ClaimKey, None]] = {}
        self._holders: dict[DeviceId, set[ClaimKey]] = {}
        self._in_use: tuple[int, InUse] = (-1, InUse())
        self._sizes: tuple[int, dict[DeviceId, float]] = (-1, {})
        self.specs: list[ClaimSpec] = []
        self._numbers: dict[ClaimSpec, int] = {}
        self._kinds: dict[tuple[int, ...], Kinds] = {}
        self._kinds_made = 0
        self._matches = Matches()
        #: Whether claims fit into a state of a node, and states of nodes in this generation: see :mod:`.simulated`.
        self.answers: dict[Hashable, bool | None] = {}
        self.states: dict[Hashable, NodeState] = {}
        self._states_of = -1

    # -- objects -------------------------------------------------------------------------------------------

    def put(self, record: DeviceObject) -> bool:
        """Insert or replace an object. Return False if that changes nothing for pods that wait."""
        self.generation += 1
        news = True
        match record:
            case ResourceSlice():
                news = self.slices.get(record.name) != record
                self.slices[record.name] = record
                self.inventory.put(self._tainted(record))
            case DeviceClass():
                news = self.classes.get(record.name) != record
                self.classes[record.name] = record
                self._forget_kinds()
            case DeviceTaintRule():
                news = self.rules.get(record.name) != record
                self.rules[record.name] = record
                self._taint_all()
            case ResourceClaimTemplate():
                key = (record.namespace, record.name)
                news = self.templates.get(key) != record
                self.templates[key] = record
            case ResourceClaim():
                news = self._put_claim(record)
        return news

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Remove the object of this API kind."""
        self.generation += 1
        if kind == "ResourceSlice":
            self.slices.pop(name, None)
            self.inventory.remove(name)
        elif kind == "DeviceClass":
            self.classes.pop(name, None)
            self._forget_kinds()
        elif kind == "DeviceTaintRule":
            if self.rules.pop(name, None) is not None:
                self._taint_all()
        elif kind == "ResourceClaimTemplate":
            self.templates.pop((namespace, name), None)
        elif kind == "ResourceClaim":
            old = self.claims.pop((namespace, name), None)
            if old is not None:
                self._reserve(old, reserved=False)
                self._hold(old, held=False)

    def _put_claim(self, claim: ResourceClaim) -> bool:
        old = self.claims.get(claim.key)
        self.claims[claim.key] = claim
        if old is not None:
            self._hold(old, held=False)
        self._hold(claim, held=True)
        self._reserve(claim, reserved=True)
        if old is None:
            return True
        kept = {uid for _, _, uid in claim.reserved_for}
        left = tuple(each for each in old.reserved_for if each[2] not in kept)
        self._reserve(msgspec.structs.replace(old, reserved_for=left), reserved=False)
        return msgspec.structs.replace(old, version=claim.version) != claim

    def _reserve(self, claim: ResourceClaim, *, reserved: bool) -> None:
        for _, _, uid in claim.reserved_for:
            if reserved:
                self._reserving.setdefault(uid, {})[claim.key] = None
                continue
            claims = self._reserving.get(uid)
            if claims is not None:
                claims.pop(claim.key, None)
                if not claims:
                    del self._reserving[uid]
                    self.gone.discard(uid)

    def _hold(self, claim: ResourceClaim, *, held: bool) -> None:
        for each in claim.allocation.devices if claim.allocation is not None else ():
            if each.admin:
                continue
            if held:
                self._holders.setdefault(each.device, set()).add(claim.key)
                continue
            keys = self._holders.get(each.device, set())
            keys.discard(claim.key)
            if not keys:
                self._holders.pop(each.device, None)

    def _tainted(self, each: ResourceSlice) -> ResourceSlice:
        """The slice with the taints of rules; one with devices that are not supported is refused."""
        if any(device.conditions for device in each.devices):
            return msgspec.structs.replace(each, refused=devices.BINDING_CONDITIONS)
        rules = [self.rules[name] for name in sorted(self.rules)]
        out, changed = [], False
        for device in each.devices:
            taints = tuple(r.taint for r in rules if r.concerns(each.driver, each.pool, device.name))
            changed = changed or bool(taints)
            alike = f"{device.alike}{taints}" if taints else device.alike
            new = msgspec.structs.replace(device, taints=(*device.taints, *taints), alike=alike) if taints else device
            out.append(new)
        return msgspec.structs.replace(each, devices=tuple(out)) if changed else each

    def _taint_all(self) -> None:
        for each in self.slices.values():
            self.inventory.put(self._tainted(each))

    def node_changed(self, name: str) -> None:
        """A node is gone, or has other labels: it may reach other devices."""
        self.generation += 1
        self.inventory.forget_node(name)

    # -- pods ----------------------------------------------------------------------------------------------

    def use(self, pod: Pod) -> None:
        """A pod with claims takes room on a node."""
        assert pod.devices is not None
        self.generation += 1
        for name in pod.devices.names:
            self.users.setdefault((pod.namespace, name), set()).add(pod.uid)

    def leave(self, pod: Pod) -> None:
        """The pod no longer takes room."""
        assert pod.devices is not None
        self.generation += 1
        for name in pod.devices.names:
            users = self.users.get((pod.namespace, name))
            if users is not None:
                users.discard(pod.uid)
                if not users:
                    del self.users[pod.namespace, name]

    def pod_gone(self, uid: str) -> bool:
        """A pod no longer exists, or has finished. Return True if claims are reserved for it."""
        if uid not in self._reserving or uid in self.gone:
            return uid in self._reserving
        self.gone.add(uid)
        self.generation += 1
        return True

    def holders(self, device: DeviceId) -> frozenset[ClaimKey]:
        """Return the claims that have this device, as the cluster shows them, without those with admin access."""
        return frozenset(self._holders.get(device, ()))

    def reserved_for(self, uid: str) -> tuple[ClaimKey, ...]:
        """Return the claims that are reserved for a pod, as the cluster shows them."""
        return tuple(self._reserving.get(uid, ()))

    def consumers(self) -> frozenset[str]:
        """Return the UIDs of all for which claims are reserved, as the cluster shows them."""
        return frozenset(self._reserving)

    # -- questions -----------------------------------------------------------------------------------------

    def serving_class(self, resource: str) -> str:
        """Return the DeviceClass that serves an extended resource; empty for none. Of several, Kubernetes takes the
        newest, then the first by name.
        """
        found = [each for each in self.classes.values() if resource in (each.extended_resource, OF_CLASS + each.name)]
        return min(found, key=lambda each: (-each.created, each.name)).name if found else ""

    def users_of(self, key: ClaimKey) -> frozenset[str]:
        """Return who uses a claim now: the UIDs of pods, and of what else it is reserved for."""
        claim, assumed = self.claims.get(key), self.assumed.get(key)
        reserved = (uid for _, _, uid in claim.reserved_for if uid not in self.gone) if claim is not None else ()
        return frozenset((*reserved, *self.users.get(key, ()), *(assumed.consumers if assumed is not None else ())))

    def allocation(self, key: ClaimKey) -> Allocation | None:
        """Return the devices that a claim has, or will have. None also if all of its users are gone."""
        assumed = self.assumed.get(key)
        if assumed is not None:
            return assumed.allocation
        claim = self.claims.get(key)
        if claim is None or claim.allocation is None:
            return None
        if claim.reserved_for and not self.users_of(key):
            return None
        return claim.allocation

    def in_use(self) -> InUse:
        """Return what is taken of all devices. Do not modify."""
        if self._in_use[0] != self.generation:
            found = InUse()
            for key in self.claims.keys() | self.assumed.keys():
                given = self.allocation(key)
                if given is not None:
                    found.add(given)
            self._in_use = (self.generation, found)
        return self._in_use[1]

    def sizes(self) -> dict[DeviceId, float]:
        """Return the size of each device with capacity: 1 for the largest of its driver, on average over capacities."""
        if self._sizes[0] != self.inventory.generation:
            largest: dict[tuple[str, str], float] = {}
            devices = [(each, device) for each in self.slices.values() for device in each.devices if device.capacity]
            for each, device in devices:
                for name, capacity in device.capacity.items():
                    key = each.driver, name
                    largest[key] = max(largest.get(key, 0.0), float(capacity.value))
            found: dict[DeviceId, float] = {}
            for each, device in devices:
                parts = [float(c.value) / (largest[each.driver, n] or 1.0) for n, c in device.capacity.items()]
                found[DeviceId(each.driver, each.pool, device.name)] = sum(parts) / len(parts)
            self._sizes = self.inventory.generation, found
        return self._sizes[1]

    def number(self, spec: ClaimSpec) -> int:
        """Return the number of a spec; equal specs have the same."""
        found = self._numbers.get(spec)
        if found is None:
            found = self._numbers[spec] = len(self.specs)
            self.specs.append(spec)
        return found

    def kinds(self, numbers: tuple[int, ...]) -> Kinds:
        """Return the kinds of devices that claims with these specs can tell apart."""
        found = self._kinds.get(numbers)
        if found is None:
            if len(self._kinds) >= _KINDS:
                self._forget_kinds()
            key = (self._kinds_made, numbers)
            found = self._kinds[numbers] = Kinds(key, [self.specs[n] for n in numbers], self.classes, self._matches)
        return found

    def known_states(self) -> dict[Hashable, NodeState]:
        """States of nodes as the cluster is now, for those who know them to add to."""
        if self._states_of != self.generation:
            self._states_of = self.generation
            self.states.clear()
        return self.states

    def _forget_kinds(self) -> None:
        """Classes have changed, or too many kinds are known."""
        self._kinds_made += 1
        self._kinds.clear()
        self.answers.clear()
        self.states.clear()
        self.inventory.forget_kinds()

    # -- binding -------------------------------------------------------------------------------------------

    def assume(self, key: ClaimKey, given: Assumed) -> None:
        """We are about to write a claim so."""
        self.generation += 1
        self.assumed[key] = given

    def forget(self, key: ClaimKey) -> None:
        """From now on the cluster's state of this claim counts."""
        self.generation += 1
        self.assumed.pop(key, None)

    def forget_all(self) -> None:
        """No claim is being written by us any more."""
        self.generation += 1
        self.foresees_claims = False
        self.assumed.clear()
