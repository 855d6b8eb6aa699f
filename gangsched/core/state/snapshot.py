"""The cluster as arrays, kept up to date event by event.

Matrices are resource-major ``(R, N)`` float64 in base units (integers, exact up to 2**53): a filter over all
nodes then walks one contiguous row per requested resource. Node rows are in name order, so "the first of
equals" means the same whatever order the nodes arrived in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints
from gangsched.core.devices.demand import demand_of
from gangsched.core.devices.index import DeviceIndex
from gangsched.core.state.columns import NodeColumns
from gangsched.core.state.podtable import TERMINATING, NodeIds, PodClass, PodTable
from gangsched.core.state.termcounts import NodeCounts, SelectorIndex, TermIndex
from gangsched.core.volumes.choice import Choices
from gangsched.core.volumes.index import VolumeIndex
from gangsched.messages import causes
from gangsched.model.constraints import Labels, LabelSelector, PodShape
from gangsched.model.records import Node, Pod

#: The kinds of arrays are for plug-ins, and for those that import them from here.
__all__ = ["CPU", "MEMORY", "PODS", "SCORED", "Bools", "Floats", "Ints", "Snapshot", "scored_vector"]

PODS, CPU, MEMORY = 0, 1, 2
_FIRST_RESOURCES = ("pods", "cpu", "memory", "ephemeral-storage")
#: Rows of ``scored``: what scoring assumes to be requested (cpu, memory), with defaults for empty requests.
SCORED = ("cpu", "memory")
#: So many resources that pods ask for and no node has been seen to offer have a row of their own; all others share one.
#: Users choose these names, and every row costs memory for every node.
UNOFFERED_AT_MOST = 500
OTHERS = causes.OTHER_RESOURCES


class Snapshot:
    """Nodes and the pods that take room on them.

    ``nodes`` are by row, ``row_of`` has their rows by name, ``size`` is their number N. ``allocatable`` and ``used``
    are ``(R, N)``; ``scored`` is ``(2, N)``. Rows of nodes that were added since the last :meth:`settle` are not
    visible yet; every decision settles first. ``static_generation`` changes whenever something changes that filters
    blind to pods look at, ``room_generation`` when what a node has changes; ``generation`` counts all changes that a
    decision may depend on, and ``charged_last`` is the UID of the pod that was charged last, with its row.
    ``told_apart`` changes when pods that were of one class may be of two from then on.
    ``terms`` counts the pods that terms of affinity and spread concern, ``images`` has the bytes of each image by node
    number (``node_ids``), ``selectors`` knows which pods belong together.
    """

    def __init__(self) -> None:
        self.resources: list[str] = list(_FIRST_RESOURCES)
        self.resource_row: dict[str, int] = {name: i for i, name in enumerate(self.resources)}
        self.columns = NodeColumns()
        self.nodes = self.columns.nodes
        self.row_of = self.columns.row_of
        self.size = 0
        self.allocatable: Floats = np.zeros((len(self.resources), 0))
        self.used: Floats = np.zeros((len(self.resources), 0))
        self.scored: Floats = np.zeros((2, 0))
        self.table = PodTable()
        self.static_generation = 0
        self.room_generation = 0
        self.generation = 0
        self.charged_last: tuple[str, int] = ("", -1)
        self.volumes = VolumeIndex()
        self.volume_choices = Choices(self.columns, self.volumes)
        self.devices = DeviceIndex()
        self.node_ids = NodeIds()
        self.namespaces: dict[str, Labels] = {}
        self.terms = TermIndex(self.table, self.namespaces)
        self.selectors = SelectorIndex()
        self.images: dict[str, NodeCounts] = {}
        self.anti_shapes: list[int] = []
        self.port_shapes: list[int] = []
        self.told_apart = 0
        self._term_keys: tuple[str, ...] = ()
        self._terms_exist = False
        self._classes: dict[tuple[object, ...], PodClass] = {}
        self._next_class = 0
        self._in_others: set[str] = set()
        #: So many resources were first seen on a node, those that every node has included.
        self._offered = len(_FIRST_RESOURCES)
        self._known: dict[str, Node] = {}
        self._dirty = False
        self._pods_on: dict[str, dict[str, Pod]] = {}
        self._shape_number: dict[int, int] = {}
        self._known_shapes: dict[PodShape, int] = {}
        self._twins: list[PodShape] = []
        self.shapes: list[PodShape] = []
        self._vectors: list[tuple[Ints, Floats]] = []
        self._shape_matrix: Floats = np.zeros((0, len(self.resources)))
        self._scored: Floats = np.zeros((0, len(SCORED)))

    # -- nodes ---------------------------------------------------------------------------------------------

    def set_node(self, node: Node) -> None:
        """Insert or replace a node."""
        old = self._known.get(node.name)
        # That room on it is held for a plan is in the ledger, and a version says nothing by itself.
        if old is None or msgspec.structs.replace(old, version=node.version, held=node.held) != node:
            self.generation += 1
        self._known[node.name] = node
        number = self.node_ids.join(node.name) if old is None else self.node_ids.number(node.name)
        self._note_images(number, old.images if old is not None else (), node.images)
        row = self.row_of.get(node.name)
        if row is None:
            self._dirty = True
            return
        if not self._dirty:
            self._write_node(row, node)

    def drop_node(self, name: str) -> None:
        """Remove a node; pods still bound to it stay known and count again if it comes back."""
        self.generation += 1
        node = self._known.pop(name, None)
        if node is not None:
            self._dirty = True
            number = self.node_ids.number(name)
            self._note_images(number, node.images, ())
            self.node_ids.release(number)

    def align_rows(self) -> None:
        """Bring the rows into line with the known nodes, in name order. Cheap when nothing was added or removed."""
        if not self._dirty:
            return
        self._dirty = False
        names = sorted(self._known)
        old_rows = self.row_of
        take = np.array([old_rows.get(n, -1) for n in names], dtype=np.int64)
        kept = take >= 0
        new_row = np.full(len(self.nodes), -1, dtype=np.int64)
        new_row[take[kept]] = np.flatnonzero(kept)
        old_nodes, columns = self.nodes, self.columns
        columns.renumber([self._known[n] for n in names], take)
        self.nodes, self.row_of, self.size = columns.nodes, columns.row_of, len(names)
        self.volumes.attachments.rows_are(self.nodes, self.row_of)
        self.node_ids.place(names)
        self.used = _rearranged(self.used, take)
        self.scored = _rearranged(self.scored, take)
        self.allocatable = _rearranged(self.allocatable, take)
        self.table.renumber_rows(new_row)
        self.static_generation += 1
        for row, (node, old) in enumerate(zip(self.nodes, take.tolist(), strict=True)):
            if old < 0 or old_nodes[old] is not node:
                self._write_node(row, node, renumbered=True)
                self.columns.update(row, node)
        self._charge_new_rows()

    def _charge_new_rows(self) -> None:
        """What is bound to nodes that have a row only now takes its room: all at once, since after the first listing
        that is every pod of the cluster.
        """
        table = self.table
        slots = np.flatnonzero(table.row[: table.size] < 0)
        slots = slots[table.place[slots] >= 0]
        at = self.node_ids.row[table.place[slots]]
        slots, at = slots[at >= 0], at[at >= 0]
        table.row[slots] = at
        shapes = table.shape[slots]
        for totals, amounts in ((self.used, self._shape_matrix), (self.scored, self._scored)):
            for number, total in enumerate(totals):
                total += np.bincount(at, weights=amounts[shapes, number], minlength=len(total))

    def _write_node(self, row: int, node: Node, renumbered: bool = False) -> None:
        old, self.nodes[row] = self.nodes[row], node
        if not renumbered and not _same_to_static_filters(old, node):
            self.columns.update(row, node)
            self.columns.generation += old.labels != node.labels
            self.static_generation += 1
        if old.allocatable != node.allocatable:
            self.room_generation += 1
        new = [name for name, _ in node.allocatable if name not in self.resource_row]
        self._offered += len(new)
        self._add_resources(new)
        if not self._in_others.isdisjoint(new):
            self._out_of_others(self._in_others.intersection(new))
        self.allocatable[:, row] = 0.0
        for name, units in node.allocatable:
            self.allocatable[self.resource_row[name], row] = units

    def _add_resources(self, names: Sequence[str]) -> None:
        """Rows for resources that have none yet."""
        if not names:
            return
        for name in names:
            self.resource_row[name] = len(self.resources)
            self.resources.append(name)
        more, size = len(names), self.allocatable.shape[1]
        self.allocatable = np.concatenate([self.allocatable, np.zeros((more, size))])
        self.used = np.concatenate([self.used, np.zeros((more, self.used.shape[1]))])
        self._shape_matrix = np.concatenate([self._shape_matrix, np.zeros((len(self._shape_matrix), more))], axis=1)

    def _asked_for(self, names: Iterable[str]) -> None:
        """Rows for resources that pods ask for, as long as there are not too many of which no node is known."""
        new = [name for name in names if name not in self.resource_row]
        if not new:
            return
        left = max(0, UNOFFERED_AT_MOST - (len(self.resources) - self._offered))
        self._add_resources(new[:left])
        if len(new) > left and OTHERS not in self.resource_row:
            self._add_resources([OTHERS])
        self._in_others.update(new[left:])

    def _out_of_others(self, names: AbstractSet[str]) -> None:
        """A node offers these from now on: pods that ask for them have been counted in the row of all others."""
        self._in_others -= names
        for number, shape in enumerate(self.shapes):
            if any(name in names for name, _ in shape.requests):
                index, amounts = self._vectors[number] = self._charged(shape)
                self._shape_matrix[number] = 0.0
                self._shape_matrix[number, index] = amounts
        slots = np.flatnonzero(self.table.row[: self.table.size] >= 0)
        slots = slots[self.table.place[slots] >= 0]
        at, shapes = self.table.row[slots], self.table.shape[slots]
        for row, total in enumerate(self.used):
            total[:] = np.bincount(at, weights=self._shape_matrix[shapes, row], minlength=len(total))

    def _charged(self, shape: PodShape) -> tuple[Ints, Floats]:
        """Rows and amounts of what a pod of this shape takes."""
        taken = {PODS: 1.0}
        for name, units in shape.requests:
            row = self.resource_row[name] if name in self.resource_row else self.resource_row[OTHERS]
            taken[row] = max(float(units), taken.get(row, 0.0))
        items = sorted(taken.items())
        return np.array([i for i, _ in items], dtype=np.int64), np.array([a for _, a in items])

    # -- pods ----------------------------------------------------------------------------------------------

    def put(self, pod: Pod, node: str, flags: int) -> None:
        """The pod takes room on ``node`` (which need not be known yet; empty: nowhere), whatever it took before."""
        slot = self.table.slot_of.get(pod.uid)
        before = self.node_ids.keys[int(self.table.place[slot])] if slot is not None else ""
        old = self.table.pods[slot] if slot is not None else None
        if slot is not None and old is not None and before == node and old.shape is pod.shape:
            self._renew(slot, old, pod, flags)
            return
        self.discharge(pod.uid)
        self.shape_number(pod.shape)
        if node:
            self._charge_to(pod, node, flags)

    def _charge_to(self, pod: Pod, node: str, flags: int) -> None:
        self.generation += 1
        row = -1 if self._dirty and node not in self.row_of else self.row_of.get(node, -1)
        self.charged_last = (pod.uid, row)
        self._pods_on.setdefault(node, {})[pod.uid] = pod
        slot = self.table.add(pod, row, self.shape_number(pod.shape), flags)
        self.table.place[slot] = self.node_ids.join(node)
        self.terms.count(slot, +1)
        if pod.volumes is not None:
            self.volumes.use(pod, node)
        if pod.devices is not None:
            self.devices.use(pod)
        if row >= 0:
            self._charge(pod, row, +1.0)

    def _renew(self, slot: int, old: Pod, pod: Pod, flags: int) -> None:
        """A charged pod's record changed without moving: refresh what the table says about it."""
        self._pods_on[self.node_ids.keys[int(self.table.place[slot])]][pod.uid] = pod
        if old.devices != pod.devices:
            if old.devices is not None:
                self.devices.leave(old)
            if pod.devices is not None:
                self.devices.use(pod)
        same = old.labels is pod.labels and not (self.table.flags[slot] ^ flags) & TERMINATING
        if not same:
            self.generation += 1
            self.terms.count(slot, -1)
        self.table.replace(slot, pod, flags)
        if not same:
            self.terms.count(slot, +1)

    def node(self, name: str) -> Node | None:
        """The node of that name."""
        self.align_rows()
        row = self.row_of.get(name)
        return self.nodes[row] if row is not None else None

    def discharge(self, uid: str) -> None:
        """The pod takes no room any more, if it took any."""
        slot = self.table.slot_of.get(uid)
        if slot is None:
            return
        self.generation += 1
        row, place = int(self.table.row[slot]), int(self.table.place[slot])
        node = self.node_ids.keys[place]
        pod = self._pods_on[node].pop(uid)
        if not self._pods_on[node]:
            del self._pods_on[node]
        self.terms.count(slot, -1)
        if pod.volumes is not None:
            self.volumes.leave(pod, node)
        if pod.devices is not None:
            self.devices.leave(pod)
        self.node_ids.release(place)
        self.table.remove(uid)
        if row >= 0:
            self._charge(pod, row, -1.0)

    def pods_on(self, node: str) -> list[Pod]:
        """Pods charged to a node, in no particular order."""
        return list(self._pods_on.get(node, {}).values())

    def _charge(self, pod: Pod, row: int, sign: float) -> None:
        index, amounts = self.vector(pod.shape)
        self.used[index, row] += sign * amounts
        self.scored[:, row] += sign * self.scored_of(pod.shape)

    # -- shapes --------------------------------------------------------------------------------------------

    def shape_number(self, shape: PodShape) -> int:
        """The dense number of a shape; equal shapes have the same."""
        number = self._shape_number.get(id(shape))
        if number is None:
            number = self._known_shapes.get(shape)
            if number is None:
                number = self._new_shape(shape)
            elif len(self._twins) >= 10_000:  # shapes come interned; those that do not must not pile up
                self._shape_number = {id(s): n for n, s in enumerate(self.shapes)}
                self._twins.clear()
            self._twins.append(shape)  # keeps the object alive, so its id stays its own
            self._shape_number[id(shape)] = number
        return number

    def _new_shape(self, shape: PodShape) -> int:
        number = self._known_shapes[shape] = len(self.shapes)
        self.shapes.append(shape)
        if shape.anti_affinity:
            self.anti_shapes.append(number)
        if shape.host_ports:
            self.port_shapes.append(number)
        self._note_terms(number, shape)
        self._asked_for(name for name, _ in shape.requests)
        index, amounts = self._charged(shape)
        self._vectors.append((index, amounts))
        if number >= len(self._shape_matrix):
            extra = np.zeros((max(16, len(self._shape_matrix)), len(self.resources)))
            self._shape_matrix = np.concatenate([self._shape_matrix, extra])
            self._scored = np.concatenate([self._scored, np.zeros((len(extra), len(SCORED)))])
        self._shape_matrix[number, index] = amounts
        self._scored[number] = scored_vector(shape)
        return number

    def keep_shapes(self, used: Iterable[PodShape]) -> None:
        """Forget the shapes that neither a charged pod nor any of ``used`` has. The others have new numbers then: not
        to be called while something is being decided.
        """
        table = self.table
        slots = np.flatnonzero(table.place[: table.size] >= 0)
        kept = sorted({*table.shape[slots].tolist(), *map(self.shape_number, used)})
        place = np.zeros(len(self.shapes), dtype=np.int64)
        place[kept] = np.arange(len(kept))
        numbers_now = place[table.shape[slots]]
        table.shape[: table.size] = 0  # of free slots it means nothing, but is a number that exists
        table.shape[slots] = numbers_now
        self.shapes = [self.shapes[n] for n in kept]
        self._vectors = [self._vectors[n] for n in kept]
        self._shape_matrix, self._scored = self._shape_matrix[kept], self._scored[kept]
        self._keep_resources()
        self.anti_shapes = [n for n, shape in enumerate(self.shapes) if shape.anti_affinity]
        self.port_shapes = [n for n, shape in enumerate(self.shapes) if shape.host_ports]
        self._known_shapes = {shape: n for n, shape in enumerate(self.shapes)}
        numbers = self._shape_number = {id(shape): n for n, shape in enumerate(self.shapes)}
        self._twins.clear()
        classes = [(numbers.get(id(c.shape), -1), key, c) for key, c in self._classes.items()]
        self._classes = {(n, *key[1:]): c for n, key, c in classes if n >= 0}
        self.terms.shapes_are(self.shapes)

    def _keep_resources(self) -> None:
        """Forget the resources that no node offers and no pod asks for any more. The others have new rows then."""
        offered = {name for node in self._known.values() for name, _ in node.allocatable}.union(_FIRST_RESOURCES)
        asked = {i for index, _ in self._vectors for i in index.tolist()}
        rows = [i for i, name in enumerate(self.resources) if name in offered or i in asked]
        if len(rows) == len(self.resources):
            return
        self.generation += 1
        self.room_generation += 1
        row_now = np.zeros(len(self.resources), dtype=np.int64)
        row_now[rows] = np.arange(len(rows))
        self.resources[:] = [self.resources[i] for i in rows]
        self.resource_row.clear()
        self.resource_row.update({name: i for i, name in enumerate(self.resources)})
        self._offered = sum(name in offered for name in self.resources)
        self.allocatable, self.used = self.allocatable[rows], self.used[rows]
        self._shape_matrix = self._shape_matrix[:, rows]
        self._vectors = [(row_now[index], amounts) for index, amounts in self._vectors]

    def vector(self, shape: PodShape) -> tuple[Ints, Floats]:
        """``(resource rows, amounts)`` that a pod of this shape takes, its pod slot included."""
        return self._vectors[self.shape_number(shape)]

    def scored_matrix(self) -> Floats:
        """``(shapes, 2)`` what scoring assumes, by shape number."""
        return self._scored[: len(self.shapes)]

    def scored_of(self, shape: PodShape) -> Floats:
        """``(2,)`` cpu and memory that scoring assumes for the shape. Do not modify."""
        amounts: Floats = self._scored[self.shape_number(shape)]
        return amounts

    def class_of(self, pod: Pod) -> PodClass:
        """The class of a pod: one object for all pods that no filter or score can tell apart.

        Labels count only as far as some pod's affinity, anti-affinity or spread looks at them: the index that a
        controller puts on each of its pods does not make them different.
        """
        number = self.shape_number(pod.shape)
        selector = self._spread_selector(pod)
        key: tuple[object, ...] = (number, "", (), None)
        if self._terms_exist:
            key = (number, pod.namespace, tuple([pod.labels.get(k) for k in self._term_keys]), selector)
        volumes, name, uid = pod.volumes, "", ""
        if volumes is not None:
            if volumes.owned:
                name, uid = pod.name, pod.uid
            key = (*key, volumes, pod.namespace, uid)
        devices = None
        if pod.devices is not None:
            placed = bool(pod.node) or pod.uid in self.table.slot_of
            devices = demand_of(self.devices, pod, placed=placed)
            key = (*key, devices)
        found = self._classes.get(key)
        if found is None:
            if len(self._classes) > 50_000:
                self._classes.clear()
            self._next_class += 1
            shape, number = self.shapes[number], self._next_class
            found = PodClass(shape, pod.namespace, pod.labels, number, selector, volumes, name, uid, devices)
            self._classes[key] = found
        return found

    def _spread_selector(self, pod: Pod) -> LabelSelector | None:
        """The selection of default spread constraints of a pending pod. Other pods do not need it."""
        if pod.node or pod.shape.spread or not self.selectors.known:
            return None
        selector = self.selectors.selector_of(pod)
        if selector is not None:
            self.tell_apart(r.key for r in selector.requirements)
        return selector

    def _note_terms(self, number: int, shape: PodShape) -> None:
        self.terms.note_shape(number, shape)
        terms = (*shape.affinity, *shape.anti_affinity)
        preferred = (*shape.preferred_affinity, *shape.preferred_anti_affinity)
        selectors = [*(t.selector for t in terms), *(t.selector for _, t in preferred)]
        selectors += [c.selector for c in shape.spread]
        if selectors:
            self.tell_apart(r.key for s in selectors if s is not None for r in s.requirements)

    def _note_images(self, place: int, old: tuple[tuple[str, int], ...], new: tuple[tuple[str, int], ...]) -> None:
        """``images`` has, by name, the bytes that the image takes on each node that has it."""
        if old == new:
            return
        for name, size in dict(old).items():
            found = self.images.setdefault(name, NodeCounts())
            found.add(place, -size)
            if not found.total:
                del self.images[name]
        for name, size in dict(new).items():
            self.images.setdefault(name, NodeCounts()).add(place, size)

    def tell_apart(self, keys: Iterable[str]) -> None:
        """From now on pods of different namespaces, or with other values of these labels, are of different classes."""
        wanted = set(keys)
        if not self._terms_exist or not wanted.issubset(self._term_keys):
            self._terms_exist = True
            self.told_apart += 1
            self._term_keys = tuple(sorted(wanted.union(self._term_keys)))
            self._classes.clear()

    def shape_matrix(self) -> Floats:
        """``(shapes, R)`` requests by shape number."""
        return self._shape_matrix[: len(self.shapes)]


def _same_to_static_filters(a: Node, b: Node) -> bool:
    return (
        a.labels == b.labels
        and a.taints == b.taints
        and a.unschedulable == b.unschedulable
        and a.deleting == b.deleting
        and a.outdated == b.outdated
        and a.ready == b.ready
        and a.images == b.images
        and a.features == b.features
    )


def _rearranged(array: Floats, take: Ints) -> Floats:
    """Columns rearranged: new column i is old column ``take[i]``, or zero where that is -1."""
    out = np.zeros((array.shape[0], len(take)))
    kept = take >= 0
    out[:, kept] = array[:, take[kept]]
    return out


def _scored(shape: PodShape) -> tuple[tuple[str, int], ...]:
    if shape.scored:
        amounts = dict(shape.scored)
        return tuple((name, amounts.get(name, 0)) for name in SCORED)
    return tuple((name, 0) for name in SCORED)


def scored_vector(shape: PodShape) -> Floats:
    """``(2,)`` cpu and memory that scoring assumes for the shape."""
    return np.array([units for _, units in _scored(shape)], dtype=np.float64)
