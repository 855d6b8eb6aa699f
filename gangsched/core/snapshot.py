"""The cluster as arrays, kept up to date event by event.

Matrices are resource-major ``(R, N)`` float64 in base units (integers, exact up to 2**53): a filter over all
nodes then walks one contiguous row per requested resource. Node rows are in name order, so "the first of
equals" means the same whatever order the nodes arrived in.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gangsched.core.nodecolumns import NodeColumns
from gangsched.core.podclass import PodClass
from gangsched.core.podtable import PodTable
from gangsched.core.terms import TermIndex, selection_of
from gangsched.model.records import Labels, Node, Pod, PodShape

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

PODS, CPU, MEMORY = 0, 1, 2
_FIRST_RESOURCES = ("pods", "cpu", "memory", "ephemeral-storage")
#: Rows of ``scored``: what scoring assumes to be requested (cpu, memory), with defaults for empty requests.
SCORED = ("cpu", "memory")


class Snapshot:
    """Nodes and the pods that take room on them.

    ``allocatable`` and ``used`` are ``(R, N)``; ``scored`` is ``(2, N)``. Rows of nodes that were added since the
    last :meth:`settle` are not visible yet; every decision settles first. ``static_generation`` changes whenever
    something changes that filters blind to pods look at.
    """

    def __init__(self) -> None:
        self.resources: list[str] = list(_FIRST_RESOURCES)
        self.resource_row: dict[str, int] = {name: i for i, name in enumerate(self.resources)}
        self.nodes: list[Node] = []
        self.row_of: dict[str, int] = {}
        self.allocatable: Floats = np.zeros((len(self.resources), 0))
        self.used: Floats = np.zeros((len(self.resources), 0))
        self.scored: Floats = np.zeros((2, 0))
        self.table = PodTable()
        self.columns = NodeColumns(self)
        self.static_generation = 0
        self.terms = TermIndex(self)
        self.anti_shapes: list[int] = []
        self._term_keys: set[str] = set()
        self._kept_off: dict[int, tuple[PodClass, tuple[int, int], bool]] = {}
        self._terms_exist = False
        self._classes: dict[tuple[int, str, tuple[str | None, ...]], PodClass] = {}
        self._scored_vectors: list[Floats] = []
        self._next_class = 0
        self.namespaces: dict[str, Labels] = {}
        self._known: dict[str, Node] = {}
        self._dirty = False
        self._pods_on: dict[str, dict[str, Pod]] = {}
        self._shape_number: dict[int, int] = {}
        self._known_shapes: dict[PodShape, int] = {}
        self._twins: list[PodShape] = []
        self.shapes: list[PodShape] = []
        self._vectors: list[tuple[Ints, Floats]] = []
        self._shape_matrix: Floats = np.zeros((0, len(self.resources)))

    @property
    def size(self) -> int:
        """Number of nodes N."""
        return len(self.nodes)

    # -- nodes ---------------------------------------------------------------------------------------------

    def set_node(self, node: Node) -> None:
        """Insert or replace a node."""
        self._known[node.name] = node
        row = self.row_of.get(node.name)
        if row is None:
            self._dirty = True
            return
        if not self._dirty:
            self._write_node(row, node)

    def drop_node(self, name: str) -> None:
        """Remove a node; pods still bound to it stay known and count again if it comes back."""
        if self._known.pop(name, None) is not None:
            self._dirty = True

    def settle(self) -> None:
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
        self.nodes = [self._known[n] for n in names]
        self.row_of = {n: i for i, n in enumerate(names)}
        self.used = _moved(self.used, take)
        self.scored = _moved(self.scored, take)
        self.allocatable = np.zeros((len(self.resources), len(names)))
        self.table.renumber_rows(new_row)
        self.columns.reset()
        self.static_generation += 1
        for row, node in enumerate(self.nodes):
            self._write_node(row, node, renumbered=True)
            if take[row] < 0:
                for pod in self._pods_on.get(node.name, {}).values():
                    self._charge(pod, row, +1.0)
                    self.table.row[self.table.slot_of[pod.uid]] = row

    def _write_node(self, row: int, node: Node, renumbered: bool = False) -> None:
        old, self.nodes[row] = self.nodes[row], node
        if not renumbered and not _same_to_static_filters(old, node):
            self.columns.update(row, node)
            self.static_generation += 1
        for name, _ in node.allocatable:
            if name not in self.resource_row:
                self._add_resource(name)
        self.allocatable[:, row] = 0.0
        for name, units in node.allocatable:
            self.allocatable[self.resource_row[name], row] = units

    def _add_resource(self, name: str) -> int:
        row = self.resource_row[name] = len(self.resources)
        self.resources.append(name)
        empty = np.zeros((1, self.allocatable.shape[1]))
        self.allocatable = np.concatenate([self.allocatable, empty])
        self.used = np.concatenate([self.used, np.zeros((1, self.used.shape[1]))])
        self._shape_matrix = np.concatenate([self._shape_matrix, np.zeros((len(self._shape_matrix), 1))], axis=1)
        return row

    # -- pods ----------------------------------------------------------------------------------------------

    def charge(self, pod: Pod, node: str, flags: int) -> None:
        """The pod takes room on ``node`` (which need not be known yet). A pod is charged once at a time."""
        row = -1 if self._dirty and node not in self.row_of else self.row_of.get(node, -1)
        self._pods_on.setdefault(node, {})[pod.uid] = pod
        self.table.add(pod, row, self.shape_number(pod.shape), flags)
        if row >= 0:
            self._charge(pod, row, +1.0)

    def discharge(self, uid: str, node: str) -> None:
        """The pod no longer takes room on ``node``."""
        slot = self.table.slot_of[uid]
        row = int(self.table.row[slot])
        pod = self._pods_on[node].pop(uid)
        if not self._pods_on[node]:
            del self._pods_on[node]
        self.table.remove(uid)
        if row >= 0:
            self._charge(pod, row, -1.0)

    def replace(self, pod: Pod, node: str, flags: int) -> None:
        """A charged pod's record changed without moving: refresh what the table says about it."""
        slot = self.table.slot_of[pod.uid]
        old = self.table.pods[slot]
        if old is not None and old.shape is not pod.shape:
            self.discharge(pod.uid, node)
            self.charge(pod, node, flags)
            return
        self._pods_on[node][pod.uid] = pod
        self.table.pods[slot] = pod
        self.table.priority[slot] = pod.priority
        self.table.gang[slot] = self.table.gang_number(pod.gang)
        self.table.kin[slot] = self.table.kin_number(pod.namespace, pod.labels)
        self.table.flags[slot] = flags
        self.table.started[slot] = pod.started

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
        self._note_terms(shape)
        self._scored_vectors.append(scored_vector(shape))
        items = [(PODS, 1.0)]
        for name, units in shape.requests:
            row = self.resource_row.get(name)
            items.append((self._add_resource(name) if row is None else row, float(units)))
        items.sort()
        index = np.array([i for i, _ in items], dtype=np.int64)
        amounts = np.array([a for _, a in items])
        self._vectors.append((index, amounts))
        if number >= len(self._shape_matrix):
            extra = np.zeros((max(16, len(self._shape_matrix)), len(self.resources)))
            self._shape_matrix = np.concatenate([self._shape_matrix, extra])
        self._shape_matrix[number, index] = amounts
        return number

    def vector(self, shape: PodShape) -> tuple[Ints, Floats]:
        """``(resource rows, amounts)`` that a pod of this shape takes, its pod slot included."""
        return self._vectors[self.shape_number(shape)]

    def scored_matrix(self) -> Floats:
        """``(shapes, 2)`` what scoring assumes, by shape number."""
        return np.array(self._scored_vectors).reshape(-1, 2)

    def scored_of(self, shape: PodShape) -> Floats:
        """``(2,)`` cpu and memory that scoring assumes for the shape. Do not modify."""
        return self._scored_vectors[self.shape_number(shape)]

    def class_of(self, pod: Pod) -> PodClass:
        """The class of a pod: one object for all pods that no filter or score can tell apart.

        Labels count only as far as some pod's affinity, anti-affinity or spread looks at them: the index that a
        controller puts on each of its pods does not make them different.
        """
        number = self.shape_number(pod.shape)
        key: tuple[int, str, tuple[str | None, ...]] = (number, "", ())
        if self._terms_exist:
            key = (number, pod.namespace, tuple(pod.labels.get(k) for k in sorted(self._term_keys)))
        found = self._classes.get(key)
        if found is None:
            if len(self._classes) > 50_000:
                self._classes.clear()
            self._next_class += 1
            found = self._classes[key] = PodClass(self.shapes[number], pod.namespace, pod.labels, self._next_class)
        return found

    def kept_off(self, pod: PodClass) -> bool:
        """Does the anti-affinity of any shape that was ever seen name pods of this class?"""
        if not self.anti_shapes:
            return False
        found = self._kept_off.get(id(pod))
        if found is None or found[1] != (len(self.anti_shapes), self.terms.namespace_generation):
            terms = (t for n in self.anti_shapes for t in self.shapes[n].anti_affinity)
            named = any(self.terms.selects(selection_of(t), pod.namespace, pod.labels) for t in terms)
            if len(self._kept_off) > 50_000:
                self._kept_off.clear()
            found = (pod, (len(self.anti_shapes), self.terms.namespace_generation), named)
            self._kept_off[id(pod)] = found
        return found[2]

    def _note_terms(self, shape: PodShape) -> None:
        selectors = [t.selector for t in (*shape.affinity, *shape.anti_affinity)]
        selectors += [t.selector for _, t in (*shape.preferred_affinity, *shape.preferred_anti_affinity)]
        selectors += [c.selector for c in shape.spread]
        if selectors:
            self._terms_exist = True
            self._term_keys.update(r.key for s in selectors if s is not None for r in s.requirements)
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
        and a.ready == b.ready
        and a.images == b.images
    )


def _moved(array: Floats, take: Ints) -> Floats:
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
