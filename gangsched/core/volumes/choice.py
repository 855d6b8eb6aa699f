"""Nodes that reach a volume, volumes for a claim on each node, and their state when pods are placed in a simulation.

The choice is kube-scheduler's: the smallest volume that fits and that the node reaches; else a new one if the class
can make it there. https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Ints
from gangsched.core.state.columns import NodeColumns
from gangsched.core.state.podtable import PodClass
from gangsched.core.volumes.index import Handle, Target, VolumeIndex
from gangsched.model.constraints import IN, Disk, LabelSelector, NodeTerm
from gangsched.model.selectors import selector_matches
from gangsched.model.volumes import ClaimKey, PersistentVolume, PersistentVolumeClaim, StorageClass

Terms: TypeAlias = tuple[NodeTerm, ...] | None

#: Answers that are kept of each kind.
CACHE_LIMIT = 4096
#: Volumes that at most so many nodes reach are found by node, others by trying them.
_NARROW = 8


class _Group:
    """Volumes that the same nodes reach, as ``(size, name)``, smallest first."""

    def __init__(self, rows: Ints) -> None:
        self.rows = rows
        self.members: list[tuple[int, str]] = []


class AvailableVolumes:
    """The available volumes that would do for a claim, wherever they are; kept current one volume at a time.

    ``count`` is ``(N,)``: how many of them each node reaches.
    """

    def __init__(self, reach: Reach, size: int) -> None:
        self._reach = reach
        self._groups: dict[Terms, _Group] = {}
        self._group_of: dict[str, tuple[_Group, int]] = {}
        self.count = np.zeros(size, dtype=np.int64)
        self._narrow: dict[int, list[_Group]] = {}
        self._wide: list[tuple[_Group, Bools]] = []

    def add(self, volume: PersistentVolume) -> None:
        """One more that would do."""
        group = self._groups.get(volume.node_terms)
        if group is None:
            group = self._groups[volume.node_terms] = self._new_group(volume.node_terms)
        insort(group.members, (volume.size, volume.name))
        self._group_of[volume.name] = (group, volume.size)
        self.count[group.rows] += 1

    def _new_group(self, terms: Terms) -> _Group:
        group = _Group(self._reach.rows(terms))
        if len(group.rows) <= _NARROW:
            for row in group.rows.tolist():
                self._narrow.setdefault(row, []).append(group)
        else:
            self._wide.append((group, self._reach.mask(terms)))
        return group

    def discard(self, name: str) -> None:
        """This one would not do any more, if it ever would."""
        found = self._group_of.pop(name, None)
        if found is not None:
            group, size = found
            group.members.remove((size, name))
            self.count[group.rows] -= 1

    def free(self, taken: Iterable[str]) -> Ints:
        """``(N,)``: how many candidates that are not taken each node reaches."""
        known = self._group_of
        gone = Counter(known[name][0] for name in taken if name in known)
        if not gone:
            return self.count
        count = self.count.copy()
        for group, number in gone.items():
            count[group.rows] -= number
        return count

    def change(self, count: Ints, name: str, change: int) -> None:
        """Bring what :meth:`free` answered up to date: the volume of this name is taken (-1) or free again (+1)."""
        found = self._group_of.get(name)
        if found is not None:
            count[found[0].rows] += change

    def pick(self, row: int, taken: Container[str]) -> str:
        """The smallest free candidate that the node reaches, the first by name among equals; empty if there is none."""
        free = (next((m for m in group.members if m[1] not in taken), None) for group in self._groups_at(row))
        return min((m for m in free if m is not None), default=(0, ""))[1]

    def names(self, row: int) -> list[str]:
        """All candidates that the node reaches, in the order in which they are preferred."""
        return [name for _, name in sorted(m for group in self._groups_at(row) for m in group.members)]

    def _groups_at(self, row: int) -> list[_Group]:
        return [*self._narrow.get(row, ()), *(group for group, mask in self._wide if mask[row])]


class Reach:
    """Which nodes a volume can be used from, and what storage they have access to.

    Answers are kept until labels of nodes change (``NodeColumns.generation``).
    """

    def __init__(self, nodes: NodeColumns) -> None:
        self._nodes = nodes
        self._generation = -1
        self._rows: dict[Terms, Ints] = {}
        self._by_value: dict[str, dict[str, list[int]]] = {}
        self._selected: dict[LabelSelector, Bools] = {}

    def _fresh(self) -> None:
        if self._generation != self._nodes.generation:
            self._generation = self._nodes.generation
            self._rows.clear()
            self._by_value.clear()
            self._selected.clear()

    def rows(self, terms: Terms) -> Ints:
        """Rows of the nodes that match any of the terms; None matches all."""
        self._fresh()
        found = self._rows.get(terms)
        if found is None:
            if len(self._rows) > 16 * CACHE_LIMIT:
                self._rows.clear()
            found = self._rows[terms] = self._compute(terms)
        return found

    def mask(self, terms: Terms) -> Bools:
        """The same as ``(N,)``."""
        out = np.zeros(self._nodes.size, dtype=np.bool_)
        out[self.rows(terms)] = True
        return out

    def _compute(self, terms: Terms) -> Ints:
        if terms is None:
            return np.arange(self._nodes.size, dtype=np.int64)
        simple = [t.expressions[0] for t in terms if len(t.expressions) == 1 and not t.fields]
        if len(simple) == len(terms) and all(r.operator == IN for r in simple):
            # The usual case, one volume per node: found by value instead of comparing every node for every volume.
            rows = {row for r in simple for value in r.values for row in self._with_value(r.key).get(value, ())}
            return np.array(sorted(rows), dtype=np.int64)
        chosen = np.zeros(self._nodes.size, dtype=np.bool_)
        for term in terms:
            chosen |= self._nodes.term(term)
        return np.flatnonzero(chosen)

    def _with_value(self, key: str) -> dict[str, list[int]]:
        found = self._by_value.get(key)
        if found is None:
            found = self._by_value[key] = {}
            for row, node in enumerate(self._nodes.nodes):
                value = node.labels.get(key)
                if value is not None:
                    found.setdefault(value, []).append(row)
        return found

    def topologies(self, storage_class: StorageClass) -> Bools:
        """``(N,)``: nodes for which the class may make volumes; an alternative without requirements selects none."""
        size = self._nodes.size
        if not storage_class.topologies:
            return np.ones(size, dtype=np.bool_)
        out = np.zeros(size, dtype=np.bool_)
        for term in storage_class.topologies:
            match = np.full(size, bool(term))
            for key, values in term:
                match &= self._nodes.label(key).among(values)
            out |= match
        return out

    def selected(self, selector: LabelSelector | None) -> Bools:
        """``(N,)``: nodes whose labels the selector selects; None selects none."""
        self._fresh()
        if selector is None:
            return np.zeros(self._nodes.size, dtype=np.bool_)
        found = self._selected.get(selector)
        if found is None:
            if len(self._selected) > CACHE_LIMIT:
                self._selected.clear()
            found = np.ones(self._nodes.size, dtype=np.bool_)
            for requirement in selector.requirements:
                found &= self._nodes.requirement(requirement)
            self._selected[selector] = found
        return found


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
    """The changes of placing one pod, to undo it."""

    targets: tuple[tuple[ClaimKey, Target], ...]
    handles: tuple[Handle, ...]


class VolumesInThought:
    """Volumes as they would be with the pods of a simulation: which are taken, used and attached beside the real ones.

    Simulated pods choose their volumes as they would be bound. Lifted real pods release only their use of claims, disks
    and attachments.
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
    """The names that are in either of two mappings."""

    def __init__(self, one: Container[str], other: Container[str]) -> None:
        self._one = one
        self._other = other

    def __contains__(self, name: object) -> bool:
        return name in self._one or name in self._other
