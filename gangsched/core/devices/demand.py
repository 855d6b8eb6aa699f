"""What pods of a class ask of devices: claims of their own that have none yet, and claims with devices or other users.

Pods whose own claims ask for the same are of one class, whatever their claims are called.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gangsched.core.devices.index import DeviceIndex
from gangsched.messages import devices
from gangsched.model.constraints import PodClaim
from gangsched.model.devices import ClaimKey, ClaimSpec
from gangsched.model.records import Pod


class DeviceDemand(msgspec.Struct, frozen=True):
    """``own`` are the numbers of the specs of the pod's own claims without devices, in their order
    (:meth:`~gangsched.core.devices.index.DeviceIndex.number`), ``named`` its other claims. ``problem`` says why the pod
    has to wait wherever devices are.
    """

    own: tuple[int, ...] = ()
    named: tuple[ClaimKey, ...] = ()
    problem: str = ""


class OwnClaim(msgspec.Struct, frozen=True):
    """A claim of one pod without devices; without a name if it is not made yet."""

    name: str
    uid: str
    spec: ClaimSpec


def demand_of(index: DeviceIndex, pod: Pod, *, placed: bool) -> DeviceDemand:
    """Return what a pod asks for; if it is ``placed``, all of its claims by name."""
    asked = pod.devices
    assert asked is not None
    if placed:
        return DeviceDemand(named=tuple((pod.namespace, name) for name in asked.names))
    own, named, problem = [], [], ""
    for entry in asked.claims:
        found = _own(index, pod, entry)
        if isinstance(found, OwnClaim):
            own.append(index.number(found.spec))
        elif isinstance(found, str):
            problem = problem or found
        else:
            named.append(found)
    return DeviceDemand(tuple(own), tuple(named), problem)


def own_claims(index: DeviceIndex, pod: Pod) -> Iterator[OwnClaim]:
    """Yield the claims of the pod that no other pod uses and that have no devices, in their order."""
    for entry in pod.devices.claims if pod.devices is not None else ():
        found = _own(index, pod, entry)
        if isinstance(found, OwnClaim):
            yield found


def _own(index: DeviceIndex, pod: Pod, entry: PodClaim) -> OwnClaim | ClaimKey | str:
    """The pod's own claim; the key of one that others may use or that has devices; or why the pod waits for it."""
    assert pod.devices is not None
    if not entry.claim:
        return _to_be_made(index, pod, entry, planned=pod.devices.planned or index.foresees_claims)
    key = (pod.namespace, entry.claim)
    claim = index.claims.get(key)
    if claim is None:
        return devices.no_claim(name=entry.claim)
    if claim.deleting:
        return devices.claim_deleted(name=entry.claim)
    if entry.template and claim.owner_uid and claim.owner_uid != pod.uid:
        return devices.claim_of_another(name=entry.claim)
    if index.allocation(key) is not None or claim.owner_uid != pod.uid:
        return key
    return OwnClaim(claim.name, claim.uid, claim.spec)


def _to_be_made(index: DeviceIndex, pod: Pod, entry: PodClaim, *, planned: bool) -> OwnClaim | str:
    if not entry.template:
        return devices.of_a_group(name=entry.entry)
    if not planned:
        return devices.claim_not_made(name=entry.entry)
    template = index.templates.get((pod.namespace, entry.template))
    return devices.no_template(name=entry.template) if template is None else OwnClaim("", "", template.spec)
