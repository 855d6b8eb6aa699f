"""Which volumes a claim could be bound to, from which nodes, and what becomes of them when pods are placed for trial.

The choice is kube-scheduler's: the smallest volume that fits and that the node reaches; else a new one if the class
can make it there. https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Ints
from gangsched.core.state.columns import NodeColumns
from gangsched.core.state.podtable import PodClass
from gangsched.core.volumes.index import Handle, Target, VolumeIndex
from gangsched.core.volumes.reach import CACHE_LIMIT, AvailableVolumes, Reach
from gangsched.model.records import Disk
from gangsched.model.selectors import selector_matches
from gangsched.model.volumes import ClaimKey, PersistentVolume, PersistentVolumeClaim


class _Kept(msgspec.Struct):
    """AvailableVolumes as they are after the first ``seen`` of the ``changes`` of their class."""

    changes: list[str] | None
    generation: int
    seen: int
    candidates: AvailableVolumes


class Choices:
    """Answers about claims and nodes, kept as long as they are right."""

    def __init__(self, nodes: NodeColumns, index: VolumeIndex) -> None:
        self.nodes = nodes
        self.index = index
        self.reach = Reach(nodes)
        self._candidates: dict[tuple[object, ...], _Kept] = {}
        self._makes: dict[tuple[str, int], tuple[tuple[int, int], tuple[Bools, Bools]]] = {}

    def candidates(self, claim: PersistentVolumeClaim) -> AvailableVolumes:
        """The volumes that are available for this claim and for every other one that asks for the same."""
        key = (
            claim.storage_class,
            claim.size,
            claim.access_modes,
            claim.mode,
            claim.selector,
            claim.attributes_class,
        )
        changes = self.index.changes.get(claim.storage_class)
        listed = self.index.of_class.get(claim.storage_class, {})
        found = self._candidates.get(key)
        if found is None or found.changes is not changes or found.generation != self.nodes.generation:
            if len(self._candidates) >= CACHE_LIMIT:
                self._candidates.clear()
            candidates = AvailableVolumes(self.reach, self.nodes.size)
            for volume in listed.values():
                if _available(volume, claim):
                    candidates.add(volume)
            kept = _Kept(changes, self.nodes.generation, len(changes or ()), candidates)
            self._candidates[key] = kept
            return candidates
        for name in changes[found.seen :] if changes is not None else ():
            found.candidates.discard(name)
            changed = listed.get(name)
            if changed is not None and _available(changed, claim):
                found.candidates.add(changed)
        found.seen = len(changes or ())
        return found.candidates

    def reserved(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """The volume that was set aside for this claim, if it is one that the claim can be bound to."""
        for volume in self.index.reserved(claim):
            if volume.storage_class == claim.storage_class and _suits(volume, claim):
                return volume
        return None

    def makes(self, claim: PersistentVolumeClaim) -> tuple[Bools, Bools]:
        """``(N,)`` twice: nodes for which the claim's class makes volumes, and those with enough capacity for it."""
        now = (self.index.supply_generation, self.nodes.generation)
        key = (claim.storage_class, claim.size)
        found = self._makes.get(key)
        if found is None or found[0] != now:
            if len(self._makes) >= CACHE_LIMIT:
                self._makes.clear()
            found = self._makes[key] = (now, self._made(claim))
        return found[1]

    def _made(self, claim: PersistentVolumeClaim) -> tuple[Bools, Bools]:
        size = self.nodes.size
        storage_class = self.index.classes.get(claim.storage_class)
        if storage_class is None or not storage_class.provisions:
            return np.zeros(size, dtype=np.bool_), np.ones(size, dtype=np.bool_)
        driver = self.index.drivers.get(storage_class.provisioner)
        enough = np.ones(size, dtype=np.bool_)
        if claim.size and driver is not None and driver.storage_capacity:
            enough = np.zeros(size, dtype=np.bool_)
            for capacity in self.index.capacities.values():
                fits = capacity.limit is not None and capacity.limit >= claim.size
                if fits and capacity.storage_class == storage_class.name:
                    enough |= self.reach.selected(capacity.topology)
        return self.reach.topologies(storage_class), enough

    def unbound(self, pod: PodClass) -> list[PersistentVolumeClaim]:
        """The pod's claims that wait for a node, smallest first."""
        if pod.volumes is None:
            return []
        known = (self.index.claims.get((pod.namespace, name)) for name in pod.volumes.claims)
        return sorted((c for c in known if c is not None and not c.bound and self.index.waits(c)), key=lambda c: c.size)


def _available(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return (
        volume.claim is None
        and volume.phase == "Available"
        and _suits(volume, claim)
        and set(claim.access_modes) <= set(volume.access_modes)
        and (claim.selector is None or selector_matches(claim.selector, volume.labels))
    )


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return (
        volume.size >= claim.size
        and volume.mode == claim.mode
        and volume.attributes_class == claim.attributes_class
        and not volume.deleting
    )


class _Placed(NamedTuple):
    """What placing one pod has changed, for taking it back."""

    targets: tuple[tuple[ClaimKey, Target], ...]
    handles: tuple[Handle, ...]


class VolumesInThought:
    """Volumes as they would be with the pods of a simulation: which are taken, used and attached beside the real ones.

    Pods that are placed for trial choose their volumes as they would be bound; real pods that are lifted give
    nothing back but their use of claims, disks and attachments.
    """

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.index = choices.index
        self.taken: dict[str, ClaimKey] = {}
        self.targets: dict[ClaimKey, Target] = {}
        self.users: dict[ClaimKey, int] = {}
        self.disks: dict[tuple[str, tuple[str, ...]], list[tuple[int, Disk, int]]] = {}
        self._handles: dict[Handle, dict[int, int]] = {}
        self.extra: dict[str, dict[int, int]] = {}
        self._log: dict[tuple[int, int], list[_Placed]] = {}
        self._free: dict[int, tuple[AvailableVolumes, Ints]] = {}

    # -- what happens --------------------------------------------------------------------------------------

    def apply(self, pod: PodClass, row: int, sign: int, real: bool) -> None:
        """A pod with volumes comes to (+1) or leaves (-1) the node at ``row``."""
        assert pod.volumes is not None
        for name in pod.volumes.claims:
            key = (pod.namespace, name)
            self.users[key] = self.users.get(key, 0) + sign
        for disk in pod.volumes.disks:
            changes = self.disks.setdefault((disk.kind, disk.ident), [])
            if (row, disk, -sign) in changes:
                changes.remove((row, disk, -sign))
            else:
                changes.append((row, disk, sign))
        if real:
            for handle in {self.index.handle((pod.namespace, name)): None for name in pod.volumes.claims}:
                if handle is not None:
                    self._refer(handle, row, sign)
        elif sign > 0:
            self._place(pod, row)
        else:
            placed = self._log[pod.ident, row].pop()
            for handle in placed.handles:
                self._refer(handle, row, -1)
            for key, target in placed.targets:
                del self.targets[key]
                if self.taken.pop(target.volume, None) is not None:
                    self._count(target.volume, +1)

    def _place(self, pod: PodClass, row: int) -> None:
        targets = []
        for claim in self.choices.unbound(pod):
            if self.target(claim) is None:
                target = Target(self.pick(claim, row), self.choices.nodes.nodes[row].name)
                self.targets[claim.key] = target
                if target.volume:
                    if target.volume not in self.taken:
                        self._count(target.volume, -1)
                    self.taken[target.volume] = claim.key
                targets.append((claim.key, target))
        handles = tuple(self.handles(pod))
        for handle in handles:
            self._refer(handle, row, +1)
        self._log.setdefault((pod.ident, row), []).append(_Placed(tuple(targets), handles))

    def _count(self, volume: str, change: int) -> None:
        if volume not in self.index.taken:
            for candidates, count in self._free.values():
                candidates.change(count, volume, change)

    def _free_of(self, candidates: AvailableVolumes) -> Ints:
        """``(N,)``: how many of them each node reaches that are not taken, kept current once it was asked for."""
        found = self._free.get(id(candidates))
        if found is None:
            count = candidates.free({**self.index.taken, **self.taken}).copy()
            found = self._free[id(candidates)] = candidates, count
        return found[1]

    def _refer(self, handle: Handle, row: int, sign: int) -> None:
        node = self.choices.nodes.nodes[row].name
        base = self.index.attachments.nodes_of.get(handle, {}).get(node, 0)
        rows = self._handles.setdefault(handle, {})
        before = base + rows.get(row, 0)
        rows[row] = rows.get(row, 0) + sign
        change = int(before + sign > 0) - int(before > 0)
        if change:
            extra = self.extra.setdefault(handle[0], {})
            extra[row] = extra.get(row, 0) + change

    # -- questions -----------------------------------------------------------------------------------------

    def target(self, claim: PersistentVolumeClaim) -> Target | None:
        """Where this claim, which is not bound, has been promised its storage."""
        return self.targets.get(claim.key) or self.index.target(claim)

    def pick(self, claim: PersistentVolumeClaim, row: int) -> str:
        """The volume for a claim on this node; empty for a new one."""
        reserved = self.choices.reserved(claim)
        if reserved is not None:
            return reserved.name if self.choices.reach.mask(reserved.node_terms)[row] else ""
        return self.choices.candidates(claim).pick(row, _Both(self.taken, self.index.taken))

    def handles(self, pod: PodClass) -> Iterator[Handle]:
        """What is attached to the node of such a pod, each once."""
        assert pod.volumes is not None
        found: dict[Handle, None] = {}
        for name in pod.volumes.claims:
            target = self.targets.get((pod.namespace, name))
            handle = self.index.handle((pod.namespace, name), target.volume if target is not None else "")
            if handle is not None:
                found[handle] = None
        yield from found

    def attached_at(self, handle: Handle) -> Iterator[int]:
        """Rows of the nodes to which this is attached."""
        row_of = self.choices.nodes.row_of
        thought = self._handles.get(handle, {})
        for node, count in self.index.attachments.nodes_of.get(handle, {}).items():
            row = row_of.get(node, -1)
            if row >= 0 and count + thought.get(row, 0) > 0:
                yield row
        known = self.index.attachments.nodes_of.get(handle, {})
        for row, count in thought.items():
            if count > 0 and self.choices.nodes.nodes[row].name not in known:
                yield row

    def matches(self, claims: list[PersistentVolumeClaim]) -> list[Bools]:
        """``(N,)`` for each claim: nodes on which it gets an existing volume, earlier claims having taken theirs."""
        out: list[Bools] = []
        contested: dict[str, list[int]] = {}  # claims of one class, which may want the same volumes
        mixed: dict[str, list[int]] = {}  # among them those that do not ask for the same
        for n, claim in enumerate(claims):
            reserved = self.choices.reserved(claim)
            if reserved is not None:
                out.append(self.choices.reach.mask(reserved.node_terms))
                continue
            rivals = contested.setdefault(claim.storage_class, [])
            candidates = self.choices.candidates(claim)
            free = self._free_of(candidates)
            if all(self.choices.candidates(claims[r]) is candidates for r in rivals):
                out.append(np.asarray(free > len(rivals)))
            else:
                out.append(np.asarray(free > 0))
                mixed[claim.storage_class] = rivals
            rivals.append(n)
        for numbers in mixed.values():
            self._one_by_one(claims, numbers, out)
        return out

    def _one_by_one(self, claims: list[PersistentVolumeClaim], numbers: list[int], out: list[Bools]) -> None:
        """Claims that want some of the same volumes: node by node, as they would be chosen."""
        for n in numbers:
            out[n] = np.asarray(self._free_of(self.choices.candidates(claims[n])) > 0)
        rows = np.flatnonzero(np.any([out[n] for n in numbers], axis=0))
        taken = {**self.index.taken, **self.taken}
        for row in rows.tolist():
            gone = dict(taken)
            for n in numbers:
                name = self.choices.candidates(claims[n]).pick(row, gone)
                out[n][row] = bool(name)
                if name:
                    gone[name] = claims[n].key


class _Both:
    """Is a name in either of two mappings?"""

    def __init__(self, one: Container[str], other: Container[str]) -> None:
        self._one = one
        self._other = other

    def __contains__(self, name: object) -> bool:
        return name in self._one or name in self._other
