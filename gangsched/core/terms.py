"""Which pods a term of affinity, anti-affinity or spread selects, as arrays, and how many there are per domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from gangsched.core.podclass import PodClass
from gangsched.model.records import Labels, LabelSelector, PodTerm
from gangsched.model.selectors import selector_matches

if TYPE_CHECKING:
    from gangsched.core.simulation import Simulation
    from gangsched.core.snapshot import Snapshot

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int64]


class Selection(msgspec.Struct, frozen=True, gc=False):
    """Pods by namespace and labels. Namespaces are those named, and those whose labels the selector matches."""

    selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


def selection_of(term: PodTerm) -> Selection:
    """What a pod affinity term selects."""
    return Selection(term.selector, term.namespaces, term.namespace_selector)


class TermIndex:
    """Answers, per selection, for every distinct (namespace, labels) of the pod table; each is computed once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._answers: dict[Selection, list[bool]] = {}
        self._generation = 0
        self.namespace_generation = 0

    def namespaces_changed(self) -> None:
        """Labels of a namespace changed: namespace selectors may select others now."""
        self._answers.clear()
        self.namespace_generation += 1

    def selects(self, selection: Selection, namespace: str, labels: Labels) -> bool:
        """Does the selection include a pod of this namespace with these labels?"""
        if namespace not in selection.namespaces:
            if selection.namespace_selector is None:
                return False
            if not selector_matches(selection.namespace_selector, self._snapshot.namespaces.get(namespace, {})):
                return False
        return selector_matches(selection.selector, labels)

    def by_kin(self, selection: Selection) -> Bools:
        """``(kins,)``: the answer for each (namespace, labels) number of the pod table."""
        table = self._snapshot.table
        if self._generation != table.kin_generation or len(self._answers) > 4096:
            self._answers.clear()
            self._generation = table.kin_generation
        known = self._answers.setdefault(selection, [])
        for namespace, labels in table.kins[len(known) :]:
            known.append(self.selects(selection, namespace, labels))
        return np.array(known, dtype=np.bool_)


class Domains:
    """Nodes by the value of one label key: ``code[row]`` is the domain, -1 where the node has no such label."""

    def __init__(self, sim: Simulation, key: str) -> None:
        column = sim.snapshot.columns.label(key)
        self.code: Ints = column.codes.astype(np.int64)
        self.count = len(column.values)
        self.values = column.values

    def tally(self, sim: Simulation, slots: Ints) -> Counts:
        """``(count,)`` pods per domain among these slots of the table."""
        rows = sim.snapshot.table.row[slots]
        codes = self.code[rows]
        return np.bincount(codes[codes >= 0], minlength=self.count).astype(np.int64)

    def at(self, counts: Counts) -> Counts:
        """``(N,)`` each node's domain count; 0 where it is in no domain."""
        if not self.count:
            return np.zeros(len(self.code), dtype=np.int64)
        return np.where(self.code >= 0, counts[self.code], 0)


def selected_slots(sim: Simulation, selection: Selection, *, lifted: bool = False) -> Ints:
    """Slots of the bound pods that a selection includes; those lifted in the simulation only when asked for."""
    table = sim.snapshot.table
    answers = sim.snapshot.terms.by_kin(selection)
    slots = table.occupied()
    chosen = answers[table.kin[slots]] if len(answers) else np.zeros(len(slots), dtype=np.bool_)
    return slots[chosen] if lifted else without(slots[chosen], sim.lifted())


def without(slots: Ints, lifted: Ints) -> Ints:
    """Slots that are not among the lifted ones."""
    return slots[~np.isin(slots, lifted)] if len(lifted) else slots


def includes(sim: Simulation, selection: Selection, pod: PodClass) -> bool:
    """Does the selection include pods of this class?"""
    return sim.snapshot.terms.selects(selection, pod.namespace, pod.labels)
