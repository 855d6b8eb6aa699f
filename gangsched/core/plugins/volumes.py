"""Volumes: claims that must exist and be bound, volumes that only some nodes reach, and how many a node can attach.

The rules and texts are those of kube-scheduler's plug-ins of the same names. Problems without a node (a claim that does
not exist) refuse the pod as a whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gangsched.core.arrays import Bools
from gangsched.core.events import Hint
from gangsched.core.plugins.base import Failure
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.volumes.choice import VolumesInThought
from gangsched.core.volumes.index import VolumeIndex
from gangsched.messages import causes
from gangsched.model.constraints import Disk, Labels
from gangsched.model.volumes import READ_WRITE_ONCE_POD, PersistentVolumeClaim

_ZONES = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
#: Labels that volumes of earlier times have, and what nodes are labelled with now.
_OLD_ZONES = {
    "failure-domain.beta.kubernetes.io/zone": _ZONES[0],
    "failure-domain.beta.kubernetes.io/region": _ZONES[1],
}


class VolumeState:
    """The state of a volume filter for a class of pods in a simulation. ``refusal``: why no node at all will do."""

    def __init__(self, pod: PodClass, sim: Simulation) -> None:
        assert pod.volumes is not None
        self.pod = pod
        self.sim = sim
        self.index: VolumeIndex = sim.snapshot.volumes
        self.thought: VolumesInThought = sim.volumes
        self.refusal = ""
        self.asked = pod.volumes
        self.settled: Bools | None = None

    def named(self, name: str) -> PersistentVolumeClaim | None:
        """The claim of that name in the pod's namespace."""
        return self.index.claims.get((self.pod.namespace, name))

    def mounted(self) -> list[str]:
        """Claims that the pod names itself, those of its generic ephemeral volumes left out."""
        return [name for name in self.asked.claims if name not in self.asked.owned]

    def none(self) -> Bools:
        """``(N,)`` of no node."""
        return np.zeros(self.sim.snapshot.size, dtype=np.bool_)

    def all(self) -> Bools:
        """``(N,)`` of every node."""
        return np.ones(self.sim.snapshot.size, dtype=np.bool_)


class VolumeFilter:
    """Base of the volume filters. :meth:`refusal` is called before any filter reads nodes.

    Pods without volumes cost nothing: no filter applies to them. The simulation itself knows what its pods do to
    volumes (:class:`VolumesInThought`), so no filter has to follow them.
    """

    name = ""
    sees_pods = True
    told = False

    def settled(self, pod: PodClass, sim: Simulation) -> bool:
        """True when no other pod can change the answer for this class: it need not be asked again."""
        return False

    def settled_mask(self, state: VolumeState) -> Bools:
        """``(N,)`` the mask of a class that is :meth:`settled`, made once. Do not modify."""
        if state.settled is None:
            state.settled = self.mask(state)
        return state.settled

    def mask(self, state: Any) -> Bools:
        """``(N,)``: the nodes that pass."""
        raise NotImplementedError

    def refusal(self, state: VolumeState) -> str:
        """Return why the pod cannot be placed on any node; empty if it can."""
        return state.refusal

    def apply(self, state: VolumeState, pod: PodClass, row: int, sign: int) -> None:
        """Nothing to do: the simulation's volumes are shared."""


def _not_found(kind: str, name: str) -> str:
    return causes.object_not_found(kind=kind, name=name)


def _claims(pod: PodClass, sim: Simulation) -> list[PersistentVolumeClaim | None]:
    """The pod's claims, None for each that does not exist."""
    known = sim.snapshot.volumes.claims
    return [known.get((pod.namespace, name)) for name in pod.volumes.claims] if pod.volumes is not None else []


class VolumeRestrictions(VolumeFilter):
    """A ReadWriteOncePod claim serves one pod; some disks can be used once per node, or only for reading."""

    name = "VolumeRestrictions"
    hints = Hint.NODE_ADDED | Hint.ROOM | Hint.VOLUMES
    in_use = causes.READ_WRITE_ONCE_POD
    conflict = causes.NO_DISK

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return pod.volumes is not None and (
            bool(pod.volumes.disks)
            or any(c is None or READ_WRITE_ONCE_POD in c.access_modes for c in _claims(pod, sim))
        )

    def prepare(self, pod: PodClass, sim: Simulation) -> VolumeState:
        state = VolumeState(pod, sim)
        missing = next((name for name in state.mounted() if state.named(name) is None), None)
        if missing is not None:
            state.refusal = _not_found("persistentvolumeclaim", missing)
        return state

    def mask(self, state: VolumeState) -> Bools:
        if state.refusal or self._in_use(state):
            return state.none()
        return ~self._conflicts(state)

    def failures(self, state: VolumeState) -> list[Failure]:
        """Both go away with the pod that is in the way."""
        conflicts = self._conflicts(state)
        used = Failure(self.in_use, ~conflicts, resolvable=True)
        return [Failure(self.conflict, conflicts, resolvable=True), *([used] if self._in_use(state) else [])]

    @staticmethod
    def _in_use(state: VolumeState) -> bool:
        for name in state.mounted():
            claim = state.named(name)
            if claim is not None and READ_WRITE_ONCE_POD in claim.access_modes:
                key = claim.key
                if len(state.index.users.get(key, ())) + state.thought.users.get(key, 0) > 0:
                    return True
        return False

    @staticmethod
    def _conflicts(state: VolumeState) -> Bools:
        count = np.zeros(state.sim.snapshot.size, dtype=np.int64)
        for disk in state.asked.disks:
            key = (disk.kind, disk.ident)
            for node, other in state.index.disks.get(key, {}).values():
                row = state.sim.snapshot.row_of.get(node, -1)
                if row >= 0 and _clash(disk, other):
                    count[row] += 1
            for row, other, sign in state.thought.disks.get(key, ()):
                if _clash(disk, other):
                    count[row] += sign
        return np.asarray(count > 0)


def _clash(one: Disk, other: Disk) -> bool:
    """Return True if two pods with these volumes of the same kind and identity cannot share a node."""
    if one.kind == "rbd" and not set(one.monitors) & set(other.monitors):
        return False
    return one.kind == "awsElasticBlockStore" or not (one.read_only and other.read_only)


class NodeVolumeLimits(VolumeFilter):
    """A CSI driver attaches only so many volumes to a node (CSINode); one counts once, however many pods use it. Where
    its CSIDriver says so, the driver has to run on the node.
    """

    name = "NodeVolumeLimits"
    hints = Hint.NODE_ADDED | Hint.ROOM | Hint.VOLUMES
    text = causes.VOLUME_COUNT

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        if pod.volumes is None:
            return False
        index = sim.snapshot.volumes
        handles = (index.handle((pod.namespace, name)) for name in pod.volumes.claims)
        return any(h is not None and (index.attachments.limited(h[0]) or index.must_run(h[0])) for h in handles)

    def prepare(self, pod: PodClass, sim: Simulation) -> VolumeState:
        return VolumeState(pod, sim)

    def mask(self, state: VolumeState) -> Bools:
        out = self._with_room(state)
        for driver in self._missing(state):
            out &= state.index.attachments.runs(driver)
        return out

    @staticmethod
    def _missing(state: VolumeState) -> list[str]:
        """The drivers of the pod's volumes that have to run on its node, by name."""
        return sorted({driver for driver, _ in state.thought.handles(state.pod) if state.index.must_run(driver)})

    @staticmethod
    def _with_room(state: VolumeState) -> Bools:
        """``(N,)``: the nodes to which the volumes can be attached beside those that are."""
        size = state.sim.snapshot.size
        attachments = state.index.attachments
        wanted: dict[str, list[tuple[str, str]]] = {}
        for handle in state.thought.handles(state.pod):
            if attachments.limited(handle[0]):
                wanted.setdefault(handle[0], []).append(handle)
        out = state.all()
        for driver, handles in wanted.items():
            more = np.full(size, len(handles), dtype=np.int64)
            for handle in handles:
                for row in state.thought.attached_at(handle):
                    more[row] -= 1
            there = attachments.counts(driver)
            extra = state.thought.extra.get(driver)
            if extra:
                there = there.copy()
                for row, change in extra.items():
                    there[row] += change
            out &= (more == 0) | (there + more <= attachments.limits(driver))
        return out

    def failures(self, state: VolumeState) -> list[Failure]:
        """Room for a volume comes when a pod that uses another one leaves; a driver does not."""
        found, left = list[Failure](), state.all()
        for driver in self._missing(state):
            runs = state.index.attachments.runs(driver)
            found.append(Failure(causes.driver_missing(driver=driver), left & ~runs, resolvable=False))
            left &= runs
        return [*found, Failure(self.text, left & ~self._with_room(state), resolvable=True)]


class _Binding(VolumeState):
    """``reachable`` (N,): nodes that reach every bound volume; ``lost``: a claim is bound to a volume that is gone."""

    reachable: Bools
    lost: bool = False


class VolumeBinding(VolumeFilter):
    """Bound volumes must be reachable; claims that wait for a node must find a volume there, or get a new one."""

    name = "VolumeBinding"
    hints = Hint.NODE_ADDED | Hint.NODE_LABELS | Hint.VOLUMES
    unreachable = causes.VOLUME_NODE_AFFINITY
    no_volume = causes.NO_VOLUME_TO_BIND
    no_space = causes.NO_STORAGE
    no_pv = causes.VOLUMES_MISSING

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return pod.volumes is not None and bool(pod.volumes.claims)

    def prepare(self, pod: PodClass, sim: Simulation) -> _Binding:
        state = _Binding(pod, sim)
        state.reachable = state.all()
        state.refusal = self._refusal(state)
        if state.refusal:
            return state
        for name in state.asked.claims:
            claim = state.named(name)
            if claim is not None and claim.bound:
                volume = state.index.volumes.get(claim.volume_name)
                if volume is None:
                    state.lost = True
                elif volume.node_terms is not None:
                    state.reachable &= state.thought.choices.reach.mask(volume.node_terms)
        return state

    def settled(self, pod: PodClass, sim: Simulation) -> bool:
        index, choices = sim.snapshot.volumes, sim.snapshot.volume_choices
        for claim in choices.unbound(pod):
            if index.target(claim) is not None:
                continue
            if index.mentions.get(claim.key, 0) > 1:
                return False  # where one of its pods goes, the others have to go
            if choices.reserved(claim) is None and bool(choices.candidates(claim).count.any()):
                return False  # others may take the volumes
        return True

    @staticmethod
    def _refusal(state: _Binding) -> str:
        for name in state.asked.claims:
            claim = state.named(name)
            if claim is None:
                if name in state.asked.owned:
                    return causes.claim_not_created_yet(name=name)
                return _not_found("persistentvolumeclaim", name)
            if claim.phase == "Lost":
                return causes.claim_bound_to_nothing(name=name, volume_name=claim.volume_name)
            if claim.deleting:
                return causes.claim_being_deleted(name=name)
            if name in state.asked.owned and claim.owner_uid != state.pod.uid:
                where = state.pod.namespace
                return causes.claim_of_another_pod(where=where, name=name, pod=state.pod.name)
        claims = [c for c in map(state.named, state.asked.claims) if c is not None]
        if any(not c.bound and not state.index.waits(c) for c in claims):
            return causes.UNBOUND_IMMEDIATE_CLAIMS
        return ""

    def mask(self, state: _Binding) -> Bools:
        if state.refusal or state.lost:
            return state.none()
        unbound, full = self._unbound(state)
        return state.reachable & ~unbound & ~full

    def failures(self, state: _Binding) -> list[Failure]:
        """No eviction moves a volume or makes one."""
        unbound, full = self._unbound(state)
        return [
            Failure(self.unreachable, ~state.reachable, resolvable=False),
            Failure(self.no_volume, unbound, resolvable=False),
            Failure(self.no_space, full, resolvable=False),
            Failure(self.no_pv, state.all() if state.lost else state.none(), resolvable=False),
        ]

    def _unbound(self, state: _Binding) -> tuple[Bools, Bools]:
        """``(N,)`` twice: nodes on which some claim gets no volume, and those that lack the space for a new one."""
        thought = state.thought
        no_volume, no_space = state.none(), state.none()
        claims = thought.choices.unbound(state.pod)
        open_claims: list[PersistentVolumeClaim] = []
        to_make: list[tuple[PersistentVolumeClaim, Bools]] = []
        for claim in claims:
            target = thought.target(claim)
            if target is None:
                open_claims.append(claim)
            elif target.volume:
                volume = state.index.volumes.get(target.volume)
                if volume is None:
                    no_volume |= True
                else:
                    no_volume |= ~thought.choices.reach.mask(volume.node_terms)
            else:
                row = state.sim.snapshot.row_of.get(target.node, -1)
                there = state.none()
                if row >= 0:
                    there[row] = True
                no_volume |= ~there
                if claim.key not in thought.targets:  # what the simulation has promised was looked at then
                    to_make.append((claim, state.all()))
        for claim, found in zip(open_claims, thought.matches(open_claims), strict=True):
            if not found.all():
                to_make.append((claim, ~found))
        for claim, needed in to_make:
            made, enough = thought.choices.makes(claim)
            fine = ~(no_volume | no_space)
            no_space |= fine & needed & made & ~enough
            no_volume |= fine & needed & ~made
        return no_volume, no_space


class VolumeZone(VolumeFilter):
    """Volumes that are labelled with zones or regions are used from nodes of one of these."""

    name = "VolumeZone"
    hints = Hint.NODE_ADDED | Hint.NODE_LABELS | Hint.VOLUMES
    text = causes.NO_VOLUME_ZONE

    def applies(self, pod: PodClass, sim: Simulation) -> bool:
        return any(c is not None and c.volume_name for c in _claims(pod, sim))

    def settled(self, pod: PodClass, sim: Simulation) -> bool:
        return True

    def prepare(self, pod: PodClass, sim: Simulation) -> _Binding:
        state = _Binding(pod, sim)
        state.reachable = state.all()
        columns = sim.snapshot.columns
        for name in state.mounted():
            claim = state.named(name)
            if claim is None or not claim.volume_name:
                continue  # other filters have their say about these
            volume = state.index.volumes.get(claim.volume_name)
            if volume is None:
                state.refusal = _not_found("persistentvolume", claim.volume_name)
                return state
            for key, values in volume_zones(volume.labels):
                here = columns.label(key).among(values)
                newer = _OLD_ZONES.get(key)
                if newer is not None:  # only where the node does not have the old label itself
                    here |= (columns.label(key).codes < 0) & columns.label(newer).among(values)
                state.reachable &= here
        if not state.reachable.all():
            zoned = state.none()
            for key in (*_ZONES, *_OLD_ZONES):
                zoned |= columns.label(key).codes >= 0
            state.reachable |= ~zoned  # a cluster of one zone may not label its nodes
        return state

    def mask(self, state: _Binding) -> Bools:
        return state.none() if state.refusal else state.reachable

    def failures(self, state: _Binding) -> list[Failure]:
        """No eviction moves a volume."""
        return [Failure(self.text, ~state.reachable, resolvable=False)]


def volume_zones(labels: Labels) -> list[tuple[str, tuple[str, ...]]]:
    """Return the node labels that a volume requires, by key. Several zones are joined by ``__``."""
    out = []
    for key in (*_OLD_ZONES, *_ZONES):
        values = tuple(v.strip() for v in labels.get(key, "").split("__"))
        if all(values):
            out.append((key, values))
    return out
