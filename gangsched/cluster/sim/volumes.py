"""Who binds claims in the simulated cluster: the volume controller, and a provisioner for every class that has one.

Rules: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#binding . A new volume can be used from
the nodes that the class allows; without allowed topologies, from all.
"""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

from gangsched.cluster.sim.clock import VirtualClock
from gangsched.cluster.sim.history import BIND_VOLUME, PROVISION, VOLUME_CONTROLLER, Cause
from gangsched.cluster.sim.store import Store
from gangsched.cluster.sim.timing import Timing
from gangsched.core.events import Changed, Event, Gone, record_of
from gangsched.model.records import IN, NodeTerm, Requirement
from gangsched.model.selectors import selector_matches
from gangsched.model.volumes import (
    STORAGE_KINDS,
    ClaimRef,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageObject,
)


class VolumeController:
    """Reacts to claims and volumes a little later, as controllers do."""

    def __init__(self, clock: VirtualClock, store: Store, timing: Timing) -> None:
        self._clock = clock
        self._store = store
        self._timing = timing
        self._due = False
        self._making: set[str] = set()
        store.subscribe(self._on_change)

    def _on_change(self, event: Event, old: Any) -> None:
        if not self._due and _about_storage(event):
            self._due = True
            self._clock.after(self._timing.controller_seconds, self._look)

    def _look(self) -> None:
        """Go through all claims that are not bound."""
        self._due = False
        for claim in self._store.claims():
            if claim.bound or claim.deleting:
                continue
            volume = self._volume_for(claim)
            if volume is not None:
                self._bind(claim, volume)
            elif not claim.volume_name:
                self._provision(claim)

    def _volume_for(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        volumes = sorted(self._store.volumes(), key=lambda v: (v.size, v.name))
        if claim.volume_name:
            named = (v for v in volumes if v.name == claim.volume_name and (v.claim is None or v.belongs_to(claim)))
            return next(named, None)
        reserved = next((v for v in volumes if v.belongs_to(claim)), None)
        if reserved is not None or self._waits(claim):
            return reserved
        return next((v for v in volumes if v.claim is None and _fits(v, claim)), None)

    def _waits(self, claim: PersistentVolumeClaim) -> bool:
        found = self._store.storage("StorageClass", "", claim.storage_class)
        return isinstance(found, StorageClass) and found.waits

    def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        ref = ClaimRef(claim.namespace, claim.name, claim.uid)
        cause = Cause(VOLUME_CONTROLLER, BIND_VOLUME, {"claim": f"{claim.namespace}/{claim.name}"})
        self._store.apply(Changed(msgspec.structs.replace(volume, claim=ref, phase="Bound")), cause)
        bound = msgspec.structs.replace(claim, volume_name=volume.name, bound=True, phase="Bound")
        self._store.apply(Changed(bound), Cause(VOLUME_CONTROLLER, BIND_VOLUME, {"volume": volume.name}))

    def _provision(self, claim: PersistentVolumeClaim) -> None:
        """Make a volume, once a node is selected where that has to be."""
        found = self._store.storage("StorageClass", "", claim.storage_class)
        if not isinstance(found, StorageClass) or not found.provisions or claim.uid in self._making:
            return
        if found.waits and not claim.selected_node:
            return
        self._making.add(claim.uid)
        self._clock.after(self._timing.provision_seconds, lambda: self._provisioned(claim, found))

    def _provisioned(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> None:
        self._making.discard(claim.uid)
        now = self._store.storage("PersistentVolumeClaim", claim.namespace, claim.name)
        if not isinstance(now, PersistentVolumeClaim) or now.uid != claim.uid or now.bound:
            return
        if now.selected_node != claim.selected_node:
            self._provision(now)  # that was taken back meanwhile; perhaps another node is asked for since
            return
        terms = [
            NodeTerm(tuple(Requirement(key, IN, values) for key, values in term)) for term in storage_class.topologies
        ]
        first = name = f"pvc-{claim.namespace}-{claim.name}"
        for n in itertools.count(2):  # that of an earlier claim of the same name may still be there
            if self._store.storage("PersistentVolume", "", name) is None:
                break
            name = f"{first}-{n}"
        volume = PersistentVolume(
            name,
            uid=f"sim:PersistentVolume/{name}",
            storage_class=claim.storage_class,
            size=claim.size,
            access_modes=claim.access_modes,
            mode=claim.mode,
            attributes_class=claim.attributes_class,
            node_terms=tuple(terms) or None,
            claim=ClaimRef(claim.namespace, claim.name, claim.uid),
            driver=storage_class.provisioner,
            handle=name,
        )
        self._store.apply(Changed(volume), Cause(VOLUME_CONTROLLER, PROVISION, {"node": now.selected_node}))


def _about_storage(event: Event) -> bool:
    record = record_of(event)
    return isinstance(record, StorageObject) or (isinstance(event, Gone) and event.kind in STORAGE_KINDS)


def _fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return (
        volume.phase == "Available"
        and not volume.deleting
        and volume.storage_class == claim.storage_class
        and volume.size >= claim.size
        and volume.mode == claim.mode
        and set(claim.access_modes) <= set(volume.access_modes)
        and (claim.selector is None or selector_matches(claim.selector, volume.labels))
    )
