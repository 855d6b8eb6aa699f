"""From placements to claims with devices: what is to be written for the members, and how far the cluster is with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from gangsched.core.devices.index import DeviceIndex
from gangsched.messages import causes
from gangsched.model.devices import Allocation, ClaimKey, DeviceId, ResourceClaim
from gangsched.model.records import Pod


class DeviceBinding(msgspec.Struct):
    """One claim of a gang that is being bound, for these of its members. ``new`` says that it gets its devices by this.

    ``asked`` says that it has been written already, ``shown`` that it has been observed with its devices.
    """

    key: ClaimKey
    uid: str
    version: str
    allocation: Allocation
    consumers: tuple[Pod, ...]
    new: bool
    asked: bool = False
    shown: bool = False

    @property
    def name(self) -> str:
        """``namespace/name`` of the claim."""
        return "/".join(self.key)

    @property
    def devices(self) -> list[tuple[str, DeviceId]]:
        """The devices by request."""
        return devices_of(self.allocation)


class ByUid(Protocol):
    """Members of gangs by UID."""

    def __getitem__(self, uid: str, /) -> Pod: ...
    def __contains__(self, uid: str, /) -> bool: ...


def devices_of(allocation: Allocation) -> list[tuple[str, DeviceId]]:
    """The devices by request, which tell two allocations of a claim apart."""
    return [(each.request, each.device) for each in allocation.devices]


def of_one_node(binding: DeviceBinding) -> bool:
    """Return True if the devices can be used from one node only."""
    terms = binding.allocation.terms
    return terms is not None and all(term.fields for term in terms)


def users_of(claim: ResourceClaim) -> set[str]:
    """The UIDs of all for which a claim is reserved."""
    return {uid for _, _, uid in claim.reserved_for}


def lacks_devices(index: DeviceIndex, pods: Iterable[Pod]) -> bool:
    """Return True if a claim of one of these pods is not made yet, has no devices, or is not reserved for the pod."""
    for pod in pods:
        if pod.devices is None:
            continue
        if not all(each.claim for each in pod.devices.claims):
            return True
        for name in pod.devices.names:
            claim = index.claims.get((pod.namespace, name))
            if claim is None or claim.allocation is None or pod.uid not in users_of(claim):
                return True
    return False


def bindings(
    index: DeviceIndex, pods: Iterable[Pod], chosen: Mapping[ClaimKey, Allocation]
) -> list[DeviceBinding] | str:
    """Return one entry for each claim of these pods, with the devices that were ``chosen`` or that it has; or why a
    claim has none.
    """
    users: dict[ClaimKey, list[Pod]] = {}
    for pod in pods:
        if pod.devices is None:
            continue
        unmade = next((each for each in pod.devices.claims if not each.claim), None)
        if unmade is not None:
            return causes.claim_of_template_not_made(name=unmade.entry, pod=pod.key)
        for name in pod.devices.names:
            users.setdefault((pod.namespace, name), []).append(pod)
    found = []
    for key, consumers in users.items():
        claim = index.claims.get(key)
        if claim is None:
            return causes.object_not_found(kind="resourceclaim", name=key[1])
        given = chosen.get(key) or claim.allocation
        if given is None:
            return causes.claim_without_devices(name=key[1])
        found.append(DeviceBinding(key, claim.uid, claim.version, given, tuple(consumers), new=key in chosen))
    return found


def progress(index: DeviceIndex, binding: DeviceBinding) -> tuple[bool, str]:
    """Return True if the cluster shows the claim with its devices, reserved for all of these members. If it will not
    get them, return the reason with it. What is shown may be older than our write.
    """
    claim = index.claims.get(binding.key)
    if claim is None or claim.uid != binding.uid:
        return False, causes.object_not_found(kind="resourceclaim", name=binding.key[1])
    if claim.allocation is None:
        if binding.shown or not binding.new:
            return False, causes.claim_without_devices(name=binding.key[1])
        return False, causes.resource_claim_being_deleted(name=binding.key[1]) if claim.deleting else ""
    ours = {pod.uid for pod in binding.consumers}
    if devices_of(claim.allocation) != binding.devices:
        # It may still have the devices of pods that are gone, which it loses first.
        others = users_of(claim) - index.gone
        return False, causes.claim_allocated_elsewhere(name=binding.key[1]) if others else ""
    if not ours <= users_of(claim):
        if binding.shown and binding.new:
            return False, causes.claim_without_devices(name=binding.key[1])
        return False, ""
    binding.shown = True
    other = shared_with(index, binding)
    return not other, causes.device_given_twice(name=binding.key[1], other=other) if other else ""


def waits_for(index: DeviceIndex, binding: DeviceBinding) -> tuple[str, bool]:
    """Return the name of a claim that still shows one of these devices, or of this claim if it shows others; empty for
    none. And whether it has users: else the claim controller is about to take its devices back.
    """
    claim = index.claims.get(binding.key)
    own = claim is not None and claim.allocation is not None
    name = "/".join(binding.key) if own else shared_with(index, binding)
    if not name:
        return "", False
    namespace, _, found = name.partition("/")
    return name, bool(users_of(index.claims[namespace, found]) - index.gone)


def shared_with(index: DeviceIndex, binding: DeviceBinding) -> str:
    """Return the name of another claim that shows one of these devices for itself alone; empty for none."""
    for each in binding.allocation.devices:
        if each.admin:
            continue
        for key in sorted(index.holders(each.device) - {binding.key}):
            if not each.share or not _shares(index.claims[key], each.device):
                return "/".join(key)
    return ""


def _shares(claim: ResourceClaim, device: DeviceId) -> bool:
    given = claim.allocation.devices if claim.allocation is not None else ()
    return all(each.share for each in given if each.device == device)
