"""The claim controller: claims made from templates, and devices that are given back.

https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
"""

from __future__ import annotations

from typing import Any

import msgspec

from gangsched.cluster.sim.clock import Timing, VirtualClock
from gangsched.cluster.sim.history import CLAIM_CONTROLLER, GONE, MAKE_CLAIM, RELEASE_CLAIM, Cause
from gangsched.cluster.sim.store import Store
from gangsched.core.events import Changed, Event, record_of
from gangsched.core.keys import deletion_of
from gangsched.model.constraints import PodClaim
from gangsched.model.devices import ResourceClaim, ResourceClaimTemplate
from gangsched.model.records import Pod


class ClaimController:
    """Reacts to pods, claims and templates a little later, as controllers do."""

    def __init__(self, clock: VirtualClock, store: Store, timing: Timing) -> None:
        self._clock = clock
        self._store = store
        self._timing = timing
        self._due = False
        store.subscribe(self._on_change)

    def _on_change(self, event: Event, old: Any) -> None:
        if not self._due and _concerns_claims(event, old):
            self._due = True
            self._clock.after(self._timing.controller_seconds, self._allocate_claims)

    def _allocate_claims(self) -> None:
        self._due = False
        for pod in list(self._store.pods.values()):
            if pod.devices is not None and pod.live and not pod.finished:
                self._make(pod)
        by_uid = {pod.uid: pod for pod in self._store.pods.values()}
        for claim in self._store.device_claims():
            left = tuple(each for each in claim.reserved_for if each[0] != "pods" or _uses(by_uid.get(each[2])))
            unused = claim.deleting or (bool(claim.owner_uid) and not _uses(by_uid.get(claim.owner_uid)))
            if unused and not left:
                self._store.apply(deletion_of(claim), Cause(CLAIM_CONTROLLER, GONE))
            elif left != claim.reserved_for:
                allocation = claim.allocation if left else None
                changed = msgspec.structs.replace(claim, reserved_for=left, allocation=allocation)
                self._store.apply(Changed(changed), Cause(CLAIM_CONTROLLER, RELEASE_CLAIM))

    def _make(self, pod: Pod) -> None:
        """Make the claims that a pod lacks, and write their names into its status."""
        assert pod.devices is not None
        entries = tuple(self._made(pod, each) for each in pod.devices.claims)
        if entries != pod.devices.claims:
            devices = msgspec.structs.replace(pod.devices, claims=entries)
            self._store.put_pod(msgspec.structs.replace(pod, devices=devices), Cause(CLAIM_CONTROLLER, MAKE_CLAIM))

    def _made(self, pod: Pod, entry: PodClaim) -> PodClaim:
        if not entry.template:
            return entry
        template = self._store.claim_template(pod.namespace, entry.template)
        name = f"{pod.name}-{entry.entry}"
        known = self._store.claim(pod.namespace, name)
        if template is None or (known is not None and (known.owner_uid != pod.uid or known.deleting)):
            # An earlier pod of this name has left its claim, which goes first.
            return msgspec.structs.replace(entry, claim="") if known is not None and not known.deleting else entry
        if known is None:
            uid = f"sim:ResourceClaim/{pod.namespace}/{name}/{pod.uid}"
            made = ResourceClaim(pod.namespace, name, uid, template.spec, owner_uid=pod.uid)
            self._store.apply(Changed(made), Cause(CLAIM_CONTROLLER, MAKE_CLAIM, {"pod": pod.key}))
        return msgspec.structs.replace(entry, claim=name)


def _uses(pod: Pod | None) -> bool:
    return pod is not None and not pod.finished


def _concerns_claims(event: Event, old: Any) -> bool:
    record = record_of(event)
    pods = (each for each in (record, old) if isinstance(each, Pod))
    return isinstance(record, ResourceClaim | ResourceClaimTemplate) or any(each.devices is not None for each in pods)
