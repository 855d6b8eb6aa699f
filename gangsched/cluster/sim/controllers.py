"""The controllers whose work a scheduler can see: disruption budgets, stale marks, pods of lost nodes; claims and
volumes. The controllers of Jobs and JobSets are in :mod:`.job_controllers`.

Volumes: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#binding . The volume controller binds claims,
and every class that has a provisioner makes volumes. A new one can be used from the nodes that the class allows;
without allowed topologies, from all.
"""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

from gangsched.cluster.sim.clock import Timing, VirtualClock
from gangsched.cluster.sim.history import (
    BIND_VOLUME,
    BUDGET,
    DISRUPTION_CONTROLLER,
    GONE,
    POD_GC,
    PROVISION,
    UNMARK,
    VOLUME_CONTROLLER,
    Cause,
)
from gangsched.cluster.sim.store import Store
from gangsched.core.events import Changed, Event, Gone, record_of
from gangsched.model.budgets import desired_healthy, is_known
from gangsched.model.constraints import IN, NodeTerm, Requirement
from gangsched.model.records import Budget, Pod
from gangsched.model.selectors import selector_matches
from gangsched.model.volumes import (
    STORAGE_KINDS,
    ClaimRef,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageObject,
)

BudgetKey = tuple[str, str]


class DisruptionController:
    """Keeps ``disruptionsAllowed`` of every budget, and takes back marks without a removal.

    The expected number of pods under a budget is the most that were ever bound. Real pods have a controller that
    replaces evicted ones, and its scale does not shrink with an eviction. Pods are healthy while they run and do not
    terminate, and are not already counted as disrupted. Rules:
    https://kubernetes.io/docs/tasks/run-application/configure-pdb/ .
    """

    def __init__(self, clock: VirtualClock, store: Store, timing: Timing) -> None:
        self._clock = clock
        self._store = store
        self._timing = timing
        self._expected: dict[BudgetKey, int] = {}
        self._due: set[BudgetKey] = set()
        store.subscribe(self._on_change)

    def catch_up(self) -> None:
        """Compute every budget now, as after a long time without changes."""
        for key in list(self._store.budgets):
            self._recompute(key)

    def _on_change(self, event: Event, old: Any) -> None:
        match event:
            case Changed(Pod() as pod):
                self._pod_changed(pod, old)
                if _marked(pod) and not (old is not None and _marked(old)):
                    self._clock.after(self._timing.stale_mark_seconds, lambda: self._take_back(pod))
            case Gone("Pod"):
                self._pod_changed(old, None)
            case Changed(Budget() as budget):
                self._soon((budget.namespace, budget.name))
            case Gone("PodDisruptionBudget", namespace, name):
                self._expected.pop((namespace, name), None)

    def _pod_changed(self, pod: Pod, old: Pod | None) -> None:
        for key, budget in self._store.budgets.items():
            if any(p is not None and selects(budget, p) for p in (pod, old)):
                self._soon(key)

    def _soon(self, key: BudgetKey) -> None:
        if key not in self._due:
            self._due.add(key)
            self._clock.after(self._timing.controller_seconds, lambda: self._recompute(key))

    def _recompute(self, key: BudgetKey) -> None:
        self._due.discard(key)
        budget = self._store.budgets.get(key)
        if budget is None or not _has_spec(budget):
            return
        matching = [p for p in self._store.pods.values() if selects(budget, p) and p.bound]
        live = [p for p in matching if p.live]
        expected = self._expected[key] = max(self._expected.get(key, 0), len(live))
        disrupted = tuple(n for n in budget.disrupted if any(p.name == n for p in live))
        healthy = sum(p.phase == "Running" and p.ready and p.name not in disrupted for p in live)
        desired = desired_healthy(budget, expected)
        allowed = max(0, healthy - desired) if is_known(budget, live) else 0
        status = {"allowed": allowed, "disrupted": disrupted, "healthy": healthy, "desired": desired}
        updated = msgspec.structs.replace(budget, outdated=False, **status)
        if updated != budget:
            detail = {"disruptionsAllowed": allowed, "healthy": healthy, "expected": expected}
            self._store.apply(Changed(updated), Cause(DISRUPTION_CONTROLLER, BUDGET, detail))

    def _take_back(self, known: Pod) -> None:
        pod = self._store.pod(known.namespace, known.name, known.uid)
        if pod is None or not _marked(pod) or pod.disruption is None or known.disruption is None:
            return
        if pod.disruption.since != known.disruption.since:
            return  # marked anew meanwhile
        condition = msgspec.structs.replace(pod.disruption, status="False", since=self._clock.stamp)
        self._store.put_pod(msgspec.structs.replace(pod, disruption=condition), Cause(DISRUPTION_CONTROLLER, UNMARK))


class PodGarbageCollector:
    """Deletes the pods of nodes that no longer exist."""

    def __init__(self, clock: VirtualClock, store: Store, timing: Timing) -> None:
        self._clock = clock
        self._store = store
        self._timing = timing
        store.subscribe(self._on_change)

    def _on_change(self, event: Event, old: Any) -> None:
        if isinstance(event, Gone) and event.kind == "Node":
            self._clock.after(self._timing.pod_gc_seconds, lambda: self._collect(event.name))

    def _collect(self, node: str) -> None:
        if node in self._store.nodes:
            return
        for pod in list(self._store.pods_on(node)):
            gone = Gone("Pod", pod.namespace, pod.name, pod.uid)
            self._store.apply(gone, Cause(POD_GC, GONE, {"node": node, "reason": "the node is gone"}))


def _has_spec(budget: Budget) -> bool:
    """A budget that came with a status and no numbers to compute one from is left as it is."""
    return budget.allowed is None or budget.min_available is not None or budget.max_unavailable is not None


def selects(budget: Budget, pod: Pod) -> bool:
    """Return True if the budget covers the pod."""
    return budget.namespace == pod.namespace and selector_matches(budget.selector, pod.labels)


def _marked(pod: Pod) -> bool:
    return pod.disruption_target and pod.deleting_since is None


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
            self._clock.after(self._timing.controller_seconds, self._bind_claims)

    def _bind_claims(self) -> None:
        """Bind all claims that wait."""
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
