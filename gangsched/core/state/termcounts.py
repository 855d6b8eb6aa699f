"""How many pods each term concerns on each node, kept event by event and shared by all pending work.

Counts are by node, not by domain: what a domain has is one ``bincount`` away, and labels, taints and rows of nodes
may change without any count changing. Two kinds are kept. *Selected*: pods that the terms of some pending pod select.
*Carried*: pods that have a term of their own, which may name the pods to come.

Also which pods belong together by their Services and controllers, as kube-scheduler's ``helper.DefaultSelector`` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Generic, TypeVar

import msgspec
import numpy as np

from gangsched.core.arrays import Ints
from gangsched.core.state.columns import KinColumns
from gangsched.core.state.podtable import TERMINATING, NodeIds, PodClass, PodTable
from gangsched.model.constraints import IN, NAMESPACE_NAME, Labels, LabelSelector, PodShape, PodTerm, Requirement
from gangsched.model.records import Pod, PodSelector
from gangsched.model.selectors import selector_matches

T = TypeVar("T")

#: Kinds of carried terms: required anti-affinity, required affinity, preferred (anti-)affinity.
APART, NEAR, PREFERRED = 0, 1, 2

_FEW = 256  # nodes up to which a dict is smaller than an array
_MAX_SELECTED = 2048
_MAX_CLASSES = 50_000


class Selection(msgspec.Struct, frozen=True, gc=False):
    """Pods by namespace and labels. Namespaces are those named, and those whose labels the selector matches."""

    selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


def selection_of(term: PodTerm) -> Selection:
    """The selection of a pod affinity term."""
    return Selection(term.selector, term.namespaces, term.namespace_selector)


class NodeCounts:
    """An amount per node number: a dict while few nodes have one, an array from then on."""

    __slots__ = ("_dense", "_few", "total")

    def __init__(self) -> None:
        self._few: dict[int, int] = {}
        self._dense: Ints | None = None
        self.total = 0

    def add(self, node: int, amount: int) -> None:
        """So much more (or less) on this node."""
        self.total += amount
        if self._dense is None:
            left = self._few.get(node, 0) + amount
            if left:
                self._few[node] = left
                if len(self._few) > _FEW:
                    self._fill(np.zeros(0, dtype=np.int64), self._few)
            else:
                self._few.pop(node, None)
            return
        if node >= len(self._dense):
            self._fill(self._dense, {node: 0})
        self._dense[node] += amount

    def _fill(self, start: Ints, more: dict[int, int]) -> None:
        self._dense = np.zeros(max(len(start), 2 * max(more)) + 1, dtype=np.int64)
        self._dense[: len(start)] = start
        self._dense[list(more)] += list(more.values())
        self._few = {}

    def add_many(self, nodes: Ints) -> None:
        """One more on each of these nodes, which may repeat."""
        unique, counts = np.unique(nodes, return_counts=True)
        for node, count in zip(unique.tolist(), counts.tolist(), strict=True):
            self.add(node, count)

    def pairs(self) -> tuple[Ints, Ints]:
        """``(nodes, amounts)`` that are not zero, in no particular order."""
        if self._dense is not None:
            nodes = np.flatnonzero(self._dense)
            return nodes, self._dense[nodes]
        size = len(self._few)
        return np.fromiter(self._few, np.int64, size), np.fromiter(self._few.values(), np.int64, size)

    def rows(self, ids: NodeIds) -> tuple[Ints, Ints]:
        """``(rows, amounts)`` of the nodes that have a row."""
        nodes, amounts = self.pairs()
        rows = ids.row[nodes]
        known = rows >= 0
        return (rows, amounts) if known.all() else (rows[known], amounts[known])


class Selected:
    """Pods that all of some selections include, those that terminate apart."""

    def __init__(self, selections: tuple[Selection, ...]) -> None:
        self.selections = selections
        self.live = NodeCounts()
        self.leaving = NodeCounts()

    def rows(self, ids: NodeIds, leaving: bool) -> tuple[Ints, Ints]:
        """``(rows, counts)``, with those that terminate only if asked for; a row may occur twice."""
        rows, counts = self.live.rows(ids)
        if not leaving or not self.leaving.total:
            return rows, counts
        more_rows, more = self.leaving.rows(ids)
        return np.concatenate([rows, more_rows]), np.concatenate([counts, more])


class Carried:
    """Pods that have one term: of a kind, with a weight (negative for preferred anti-affinity, 1 if required).

    ``shapes`` are the numbers of the shapes that have it; one that has it twice is there twice, and its pods count
    twice in ``pods``.
    """

    def __init__(self, kind: int, weight: int, term: PodTerm) -> None:
        self.kind = kind
        self.weight = weight
        self.key = term.topology_key
        self.selection = selection_of(term)
        self.shapes: list[int] = []
        self.pods = NodeCounts()


class _Finder(Generic[T]):
    """Things that belong to a selection, found by a pod that it may include without looking at all of them.

    Most selectors ask for some label to have one value: they are filed under that, the others under nothing.
    """

    def __init__(self) -> None:
        self._filed: dict[tuple[str, str, str], list[T]] = {}

    def add(self, selection: Selection, thing: T) -> None:
        requirements = selection.selector.requirements if selection.selector is not None else ()
        exact = next(((r.key, r.values[0]) for r in requirements if r.operator == IN and len(r.values) == 1), ("", ""))
        spaces = selection.namespaces if selection.namespace_selector is None else ("",)
        for space in spaces:
            self._filed.setdefault((space, *exact), []).append(thing)

    def clear(self) -> None:
        self._filed.clear()

    def find(self, namespace: str, labels: Labels) -> Iterator[T]:
        """All that may include a pod of this namespace with these labels, and some that do not."""
        if not self._filed:
            return
        for space in (namespace, ""):
            yield from self._filed.get((space, "", ""), ())
            for key, value in labels.items():
                yield from self._filed.get((space, key, value), ())


class TermIndex:
    """All terms of the cluster with their counts. The snapshot tells it of every pod that comes, goes or changes."""

    def __init__(self, table: PodTable, namespaces: Mapping[str, Labels]) -> None:
        self._table = table
        self._namespaces = namespaces
        self._kins = KinColumns(table)
        self._selected: dict[tuple[Selection, ...], Selected] = {}
        self._selecting: _Finder[Selected] = _Finder()
        self._of_kin: dict[int, tuple[Selected, ...]] = {}
        self._generation = table.kin_generation
        #: The terms that any pod has had, by kind, weight and term.
        self.carried: dict[tuple[int, int, PodTerm], Carried] = {}
        self._naming: _Finder[Carried] = _Finder()
        self._of_shape: dict[int, tuple[Carried, ...]] = {}
        self._of_class: dict[int, tuple[tuple[int, int], tuple[Carried, ...], tuple[Carried, ...]]] = {}
        self._namespace_generation = 0

    # -- questions -----------------------------------------------------------------------------------------

    def selects(self, selection: Selection, namespace: str, labels: Labels) -> bool:
        """Return True if the selection includes a pod of this namespace with these labels."""
        return self._in_space(selection, namespace) and selector_matches(selection.selector, labels)

    def _in_space(self, selection: Selection, namespace: str) -> bool:
        if namespace in selection.namespaces:
            return True
        if selection.namespace_selector is None:
            return False
        known = self._namespaces.get(namespace)
        return selector_matches(selection.namespace_selector, {NAMESPACE_NAME: namespace} if known is None else known)

    def among(self, slots: Ints, selections: tuple[Selection, ...], leaving: bool = True) -> Ints:
        """Return the slots of the pod table whose pods all selections include; terminating ones
        only with ``leaving``.
        """
        if not len(slots):
            return slots
        table = self._table
        kins = table.kin[slots]
        mask = np.ones(len(slots), dtype=np.bool_) if leaving else (table.flags[slots] & TERMINATING) == 0
        for selection in selections:
            mask &= self._kins.in_namespaces(kins, partial(self._in_space, selection))
            mask &= self._kins.selected(kins, selection.selector)
        return np.asarray(slots[mask])

    def selected(self, selections: tuple[Selection, ...]) -> Selected:
        """The counts of pods that all selections include: made when first asked for, current from then on."""
        found = self._selected.pop(selections, None)
        if found is None:
            found = self._count_all(selections)
            self._selecting.add(selections[0], found)
            self._of_kin.clear()
        self._selected[selections] = found  # the last one asked for is last
        if len(self._selected) > _MAX_SELECTED:
            self._keep(list(self._selected.values())[_MAX_SELECTED // 2 :])
        return found

    def apart(self, pod: PodClass) -> tuple[Carried, ...]:
        """Required anti-affinity terms of pods ever seen that name pods of this class."""
        return self._naming_class(pod)[0]

    def pulls(self, pod: PodClass) -> tuple[Carried, ...]:
        """Required affinity and preferred terms of pods ever seen that name pods of this class."""
        return self._naming_class(pod)[1]

    def _naming_class(self, pod: PodClass) -> tuple[tuple[Carried, ...], tuple[Carried, ...]]:
        stamp = (len(self.carried), self._namespace_generation)
        found = self._of_class.get(pod.ident)
        if found is None or found[0] != stamp:
            if len(self._of_class) > _MAX_CLASSES:
                self._of_class.clear()
            near = self._naming.find(pod.namespace, pod.labels)
            hits = [c for c in near if self.selects(c.selection, pod.namespace, pod.labels)]
            found = self._of_class[pod.ident] = (
                stamp,
                tuple(c for c in hits if c.kind == APART),
                tuple(c for c in hits if c.kind != APART),
            )
        return found[1:]

    # -- changes -------------------------------------------------------------------------------------------

    def namespaces_changed(self) -> None:
        """Labels of a namespace changed: namespace selectors may select others now."""
        self._namespace_generation += 1
        self._keep([f for f in self._selected.values() if not any(s.namespace_selector for s in f.selections)])

    def note_shape(self, number: int, shape: PodShape) -> None:
        """A shape is seen for the first time: its terms are known from now on."""
        terms = [(APART, 1, t) for t in shape.anti_affinity]
        terms += [(NEAR, 1, t) for t in shape.affinity]
        terms += [(PREFERRED, w, t) for w, t in shape.preferred_affinity]
        terms += [(PREFERRED, -w, t) for w, t in shape.preferred_anti_affinity]
        out = []
        for key in terms:
            found = self.carried.get(key)
            if found is None:
                found = self.carried[key] = Carried(*key)
                self._naming.add(found.selection, found)
            found.shapes.append(number)
            out.append(found)
        if out:
            self._of_shape[number] = tuple(out)

    def shapes_are(self, shapes: Sequence[PodShape]) -> None:
        """These are all shapes from now on, by number; terms that none of them has are forgotten."""
        for carried in self.carried.values():
            carried.shapes.clear()
        self._of_shape.clear()
        for number, shape in enumerate(shapes):
            self.note_shape(number, shape)
        self.carried = {key: c for key, c in self.carried.items() if c.shapes}
        self._naming.clear()
        for carried in self.carried.values():
            self._naming.add(carried.selection, carried)
        self._of_class.clear()

    def count(self, slot: int, sign: int) -> None:
        """The pod in this slot of the table has come (+1) or is about to leave (-1)."""
        table = self._table
        node = int(table.place[slot])
        for carried in self._of_shape.get(int(table.shape[slot]), ()):
            carried.pods.add(node, sign)
        if self._selected:
            leaving = bool(table.flags[slot] & TERMINATING)
            for found in self._selected_by(int(table.kin[slot])):
                (found.leaving if leaving else found.live).add(node, sign)

    def _selected_by(self, kin: int) -> tuple[Selected, ...]:
        if self._generation != self._table.kin_generation:
            self._generation = self._table.kin_generation
            self._of_kin.clear()
        known = self._of_kin.get(kin)
        if known is None:
            namespace, labels = self._table.kins[kin]
            known = self._of_kin[kin] = tuple(
                found
                for found in self._selecting.find(namespace, labels)
                if all(self.selects(s, namespace, labels) for s in found.selections)
            )
        return known

    def _count_all(self, selections: tuple[Selection, ...]) -> Selected:
        table = self._table
        slots = self.among(np.flatnonzero(table.place[: table.size] >= 0), selections)
        leaving = (table.flags[slots] & TERMINATING) != 0
        found = Selected(selections)
        found.live.add_many(table.place[slots[~leaving]])
        found.leaving.add_many(table.place[slots[leaving]])
        return found

    def _keep(self, kept: list[Selected]) -> None:
        """Forget all selected counts but these."""
        self._selected = {f.selections: f for f in kept}
        self._selecting.clear()
        self._of_kin.clear()
        for found in kept:
            self._selecting.add(found.selections[0], found)


SERVICE = "Service"
_CONTROLLERS = ("ReplicaSet", "StatefulSet", "ReplicationController")


class SelectorIndex:
    """Services and controllers by the pods that they select."""

    def __init__(self) -> None:
        #: All of them, by kind, namespace and name.
        self.known: dict[tuple[str, str, str], PodSelector] = {}
        self._services: dict[tuple[str, str, str], dict[str, LabelSelector]] = {}
        self._answers: dict[tuple[str, int, str, str], tuple[Labels, LabelSelector | None]] = {}
        self._interned: dict[LabelSelector, LabelSelector] = {}

    def set(self, pod_selector: PodSelector) -> bool:
        """Insert or replace; False when that changes nothing, as most changes of such objects do not."""
        key = (pod_selector.kind, pod_selector.namespace, pod_selector.name)
        if self.known.get(key) == pod_selector:
            return False
        self.remove(*key)
        self.known[key] = pod_selector
        if pod_selector.kind == SERVICE and (place := _filed_under(pod_selector)) is not None:
            assert pod_selector.selector is not None
            self._services.setdefault(place, {})[pod_selector.name] = pod_selector.selector
        self._forget()
        return True

    def remove(self, kind: str, namespace: str, name: str) -> bool:
        """Remove an object. Return False if it was not known."""
        old = self.known.pop((kind, namespace, name), None)
        if old is None:
            return False
        if kind == SERVICE and (place := _filed_under(old)) is not None:
            self._services[place].pop(name)
            if not self._services[place]:
                del self._services[place]
        self._forget()
        return True

    def _forget(self) -> None:
        self._answers.clear()
        self._interned.clear()

    def selector_of(self, pod: Pod) -> LabelSelector | None:
        """The labels that all Services of the pod ask for, and what its controller selects; None when that is nothing.

        Equal answers are the same object.
        """
        owner = pod.owner if pod.owner is not None and pod.owner.kind in _CONTROLLERS else None
        kind, name = (owner.kind, owner.name) if owner is not None else ("", "")
        key = (pod.namespace, id(pod.labels), kind, name)
        found = self._answers.get(key)
        if found is None:
            if len(self._answers) > 50_000:
                self._answers.clear()
            answer = self._find(pod, kind, name)
            # The labels are kept beside the answer so that their id cannot become another's.
            found = self._answers[key] = (pod.labels, self._interned.setdefault(answer, answer) if answer else None)
        return found[1]

    def _find(self, pod: Pod, kind: str, name: str) -> LabelSelector | None:
        chosen = [
            selector
            for item in pod.labels.items()
            for selector in self._services.get((pod.namespace, *item), {}).values()
            if selector_matches(selector, pod.labels)
        ]
        controller = self.known.get((kind, pod.namespace, name))
        if controller is not None and controller.selector is not None:
            chosen.append(controller.selector)
        requirements = {r for selector in chosen for r in selector.requirements}
        return LabelSelector(tuple(sorted(requirements, key=_by_key))) if requirements else None


def _by_key(requirement: Requirement) -> tuple[str, str, tuple[str, ...]]:
    return requirement.key, requirement.operator, requirement.values


def _filed_under(service: PodSelector) -> tuple[str, str, str] | None:
    """One label that every pod of the Service has; None for a Service that selects none, or asks for no label."""
    if service.selector is None or not service.selector.requirements:
        return None
    first = service.selector.requirements[0]
    return service.namespace, first.key, first.values[0]
