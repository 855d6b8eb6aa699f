"""A cluster that may be changed and changed back: the snapshot with pods placed and lifted for trial; and what terms of
affinity, anti-affinity and spread count in it, by the domains of one label.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Counts, Floats, Ints, distinct
from gangsched.core.devices.simulated import DevicesInThought
from gangsched.core.state.podtable import TERMINATING, PodClass
from gangsched.core.state.snapshot import Snapshot
from gangsched.core.state.termcounts import Carried, Selection, selection_of
from gangsched.core.volumes.choice import VolumesInThought
from gangsched.model.constraints import PodShape, PodTerm
from gangsched.model.records import Pod

#: Room that no gang fills: large enough for any request, small enough for exact sums in float64.
_PLENTY = 2.0**50


class Watcher(Protocol):
    """What is called with every pod that comes or goes in a simulation: a filter, or the counts behind a score.

    One with the attribute ``told`` False is not: what it needs to know, the simulation itself keeps. One with
    ``by_company`` True knows of a class only what :func:`company` says, and has one state for all that are equal there.
    """

    name: str

    def prepare(self, pod: PodClass, sim: Simulation) -> Any:
        """Return the state of this class of pods, as of now in the simulation."""

    def apply(self, state: Any, pod: PodClass, row: int, sign: int) -> None:
        """A pod came to (+1) or left (-1) the node at ``row``."""


def company(pod: PodClass) -> Hashable:
    """The part of a class that rules between pods read. Members of a gang often differ only in their requests."""
    shape = pod.shape
    return (
        pod.namespace,
        frozenset(pod.labels.items()),
        pod.spread_selector,
        shape.spread,
        shape.affinity,
        shape.anti_affinity,
        shape.preferred_affinity,
        shape.preferred_anti_affinity,
        shape.node_selector,
        shape.node_terms,
        shape.tolerations,
    )


def state_key(rule: Watcher, pod: PodClass) -> tuple[str, Hashable]:
    """By what the state of a watcher is kept: classes of which it knows the same have one in common."""
    return rule.name, company(pod) if getattr(rule, "by_company", False) else pod.ident


class Phantom(msgspec.Struct, frozen=True, gc=False):
    """A pod that may come to a node, and for which room is kept there."""

    pod: PodClass
    uid: str
    node: str


class Restriction(msgspec.Struct, frozen=True, eq=False):
    """Nodes that may be used at all: ``allowed`` is ``(N,)``; ``refused`` says why the others may not, a text and the
    ``(N,)`` nodes that it holds for. No eviction cures it.
    """

    allowed: Bools
    refused: tuple[tuple[str, Bools], ...] = ()


class _Step(msgspec.Struct, frozen=True, gc=False):
    pod: PodClass
    row: int
    sign: int
    slot: int = -1


class _Crowd(msgspec.Struct, frozen=True, gc=False):
    """Pods of one class that came at once, one for each row."""

    pod: PodClass
    rows: Ints


class Classes:
    """The classes of pending pods, each computed once unless classes become finer."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._told_apart = snapshot.told_apart
        self._found: dict[str, PodClass] = {}

    def of_all(self, pods: Sequence[Pod]) -> list[PodClass]:
        """The class of each of these pending pods."""
        return [*map(self.class_of, pods)]

    def forget(self, pods: Iterable[Pod]) -> None:
        """Forget the classes of these pods, which ask for something else from now on."""
        for pod in pods:
            self._found.pop(pod.uid, None)

    def class_of(self, pod: Pod) -> PodClass:
        """Return the class of a pending pod."""
        if self._told_apart != self._snapshot.told_apart:
            self._found.clear()
            self._told_apart = self._snapshot.told_apart
        found = self._found.get(pod.uid)
        if found is None:
            found = self._found[pod.uid] = self._snapshot.class_of(pod)
        return found


class Simulation:
    """``free`` is ``(R, N)``: allocatable minus everything present, held room included; it may be negative where a
    node is over-committed. ``scored`` is ``(2, N)`` for the scores. Lifting a pod takes it off its node, placing
    one puts it there; :meth:`mark` and :meth:`rollback` undo both. ``restriction`` narrows the nodes that new pods
    may go to, and may be replaced at any time. While watchers are called with a pod that comes back or goes,
    ``told_of_terminating`` says whether it is one that terminates anyway. Of resources that ``unlimited`` names there
    is always enough. Simulations of one decision share ``classes``.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        held: Iterable[Phantom] = (),
        restriction: Restriction | None = None,
        unlimited: Callable[[str], bool] | None = None,
        classes: Classes | None = None,
    ) -> None:
        snapshot.align_rows()
        self.snapshot = snapshot
        self.restriction = restriction
        self.free: Floats = snapshot.allocatable - snapshot.used
        self._slack: dict[int, float] = {}
        if unlimited is not None:
            self._slack = {i: _PLENTY for i, name in enumerate(snapshot.resources) if unlimited(name)}
            for i, plenty in self._slack.items():
                self.free[i] += plenty
        self.scored: Floats = snapshot.scored.copy()
        self._held: list[tuple[PodClass, int]] = []
        self._lifted: Bools = np.zeros(snapshot.table.size, dtype=np.bool_)
        self._steps: list[_Step | _Crowd | Ints] = []
        self._states: dict[tuple[str, Hashable], tuple[Watcher, Any]] = {}
        self._watchers: list[tuple[Watcher, Any]] = []
        self.told_of_terminating = False
        self._pulling_guests = 0
        self._volumes: VolumesInThought | None = None
        self._devices: DevicesInThought | None = None
        classes = classes or Classes(snapshot)
        self.class_of, self.classes_of = classes.class_of, classes.of_all
        row_of = snapshot.row_of
        self._held.extend((p.pod, row) for p in held if (row := row_of.get(p.node)) is not None)
        crowds: dict[int, tuple[PodClass, list[int]]] = {}
        for pod, row in self._held:
            found = crowds.get(pod.ident)
            if found is None:
                found = crowds[pod.ident] = pod, []
            found[1].append(row)
        for pod, rows in crowds.values():
            self._crowd(pod, np.array(rows, dtype=np.int64), +1)

    # -- changes -------------------------------------------------------------------------------------------

    def place(self, pod: PodClass, row: int) -> None:
        """A pod of this class comes to the node at ``row``."""
        self._do(_Step(pod, row, +1))

    def place_all(self, pod: PodClass, rows: Ints) -> None:
        """Pods of this class come to these rows, one for each mention; the same as placing one after another."""
        self._steps.append(_Crowd(pod, rows))
        self._crowd(pod, rows, +1)

    def _crowd(self, pod: PodClass, rows: Ints, sign: int) -> None:
        self._widen()
        index, amounts = self.snapshot.vector(pod.shape)
        counts = sign * np.bincount(rows, minlength=self.free.shape[1])
        for i, amount in zip(index.tolist(), amounts.tolist(), strict=True):
            self.free[i] -= amount * counts
        for i, amount in enumerate(self.snapshot.scored_of(pod.shape).tolist()):
            self.scored[i] += amount * counts
        if self._volumes is not None and pod.volumes is not None:
            for row in rows.tolist():
                self._volumes.apply(pod, row, sign, real=False)
        if self._devices is not None and pod.devices is not None:
            for row in rows.tolist():
                self._move_devices(pod, row, sign, real=False)
        for rule, state in self._watchers:
            for row in rows.tolist():
                rule.apply(state, pod, row, sign)
        self._welcome(pod, sign * len(rows))

    def lift(self, slot: int) -> None:
        """The pod in this slot of the table leaves its node."""
        self._do(self._lifting(slot))

    def _lifting(self, slot: int) -> _Step:
        pod = self.snapshot.table.pods[slot]
        if pod is None:
            raise ValueError(f"slot {slot} holds no pod")
        return _Step(self.snapshot.class_of(pod), int(self.snapshot.table.row[slot]), -1, slot)

    def put_back(self, slot: int) -> None:
        """Return a lifted pod to its node."""
        pod = self.snapshot.table.pods[slot]
        if pod is None or not self._lifted[slot]:
            raise ValueError(f"slot {slot} holds no lifted pod")
        self._do(_Step(self.snapshot.class_of(pod), int(self.snapshot.table.row[slot]), +1, slot))

    def lift_all(self, slots: Ints) -> None:
        """Lift many pods at once; the same as lifting each, but one array operation per resource. Pods of nodes that
        are gone leave no room behind: they are passed over.
        """
        slots = slots[self.snapshot.table.row[slots] >= 0]
        if self._watched:
            for slot in slots.tolist():
                self.lift(slot)
            return
        self._steps.append(slots)
        self._lift_many(slots, -1)

    def _lift_many(self, slots: Ints, sign: int) -> None:
        table, size = self.snapshot.table, self.free.shape[1]
        self._lifted[slots] = sign < 0
        shapes, rows = table.shape[slots], table.row[slots]
        for have, matrix, back in (
            (self.free, self.snapshot.shape_matrix(), -sign),
            (self.scored, self.snapshot.scored_matrix(), sign),
        ):
            for i in np.flatnonzero(matrix.any(axis=0)).tolist():
                have[i] += back * np.bincount(rows, weights=matrix[:, i].take(shapes), minlength=size)

    @property
    def _watched(self) -> bool:
        """Return True if any watcher needs every single pod."""
        return bool(self._watchers) or self._volumes is not None or self._devices is not None

    def mark(self) -> int:
        """A point to return to."""
        return len(self._steps)

    def rollback(self, mark: int) -> None:
        """Undo everything since ``mark``."""
        while len(self._steps) > mark:
            step = self._steps.pop()
            if isinstance(step, _Step):
                self._apply(step, -step.sign)
            elif isinstance(step, _Crowd):
                self._crowd(step.pod, step.rows, -1)
            elif self._watched:
                for slot in step.tolist():
                    self._apply(self._lifting(slot), +1)
            else:
                self._lift_many(step, +1)

    def _do(self, step: _Step) -> None:
        self._steps.append(step)
        self._apply(step, step.sign)

    def _apply(self, step: _Step, sign: int) -> None:
        if step.slot >= 0:
            self._lifted[step.slot] = sign < 0
            self.told_of_terminating = bool(self.snapshot.table.flags[step.slot] & TERMINATING)
        else:
            self._welcome(step.pod, sign)
        self._account(step.pod, step.row, sign)
        if self._volumes is not None and step.pod.volumes is not None:
            self._volumes.apply(step.pod, step.row, sign, real=step.slot >= 0)
        if self._devices is not None and step.pod.devices is not None:
            self._move_devices(step.pod, step.row, sign, real=step.slot >= 0)
        for rule, state in self._watchers:
            rule.apply(state, step.pod, step.row, sign)
        self.told_of_terminating = False

    def _welcome(self, pod: PodClass, number: int) -> None:
        shape = pod.shape
        if shape.affinity or shape.preferred_affinity or shape.preferred_anti_affinity:
            self._pulling_guests += number

    def _account(self, pod: PodClass, row: int, sign: int) -> None:
        index, amounts = self.snapshot.vector(pod.shape)
        self._widen()
        self.free[index, row] -= sign * amounts
        self.scored[:, row] += sign * self.snapshot.scored_of(pod.shape)

    def _widen(self) -> None:
        """Make room for resources that no node and no pod had before."""
        if self.free.shape[0] < len(self.snapshot.resources):
            missing = len(self.snapshot.resources) - self.free.shape[0]
            self.free = np.concatenate([self.free, np.zeros((missing, self.free.shape[1]))])

    # -- questions -----------------------------------------------------------------------------------------

    def taken(self, resource: int) -> Floats:
        """``(N,)`` what everything present takes of one resource (a row of ``free``)."""
        return np.asarray(self.snapshot.allocatable[resource] + self._slack.get(resource, 0.0) - self.free[resource])

    def taken_at(self, resource: int, row: int) -> float:
        """The same for one node."""
        return float(
            self.snapshot.allocatable[resource, row] + self._slack.get(resource, 0.0) - self.free[resource, row]
        )

    def state(self, rule: Watcher, pod: PodClass) -> Any:
        """The watcher's state for this class, made when first asked for and kept current from then on."""
        key = (rule.name, pod.ident)
        found = self._states.get(key)
        if found is None:
            shared = state_key(rule, pod)
            found = self._states.get(shared)
            if found is None:
                found = self._states[shared] = (rule, rule.prepare(pod, self))
                if getattr(rule, "told", True):
                    self._watchers.append(found)
            self._states[key] = found
        return found[1]

    @property
    def volumes(self) -> VolumesInThought:
        """The effect of placed and lifted pods on volumes, computed at first use and updated afterwards."""
        if self._volumes is None:
            made = VolumesInThought(self.snapshot.volume_choices)
            for slot in self.lifted().tolist():
                step = self._lifting(slot)
                if step.pod.volumes is not None:
                    made.apply(step.pod, step.row, -1, real=True)
            for pod, row in self.visitors():
                if pod.volumes is not None:
                    made.apply(pod, row, +1, real=False)
            self._volumes = made
        return self._volumes

    @property
    def devices(self) -> DevicesInThought:
        """The effect of placed and lifted pods on devices, computed at first use and updated afterwards."""
        if self._devices is None:
            snapshot = self.snapshot
            self._devices = DevicesInThought(snapshot.devices, snapshot.nodes, snapshot.volume_choices.reach.mask)
            for slot in self.lifted().tolist():
                step = self._lifting(slot)
                if step.pod.devices is not None:
                    self._move_devices(step.pod, step.row, -1, real=True)
            for pod, row in self.visitors():
                if pod.devices is not None:
                    self._move_devices(pod, row, +1, real=False)
        return self._devices

    def _move_devices(self, pod: PodClass, row: int, sign: int, *, real: bool) -> None:
        """A pod with claims comes to a node or leaves it; a ``real`` one has its devices."""
        assert pod.devices is not None
        assert self._devices is not None
        if real:
            self._devices.lift(pod.devices, -sign)
        elif sign > 0:
            self._devices.place(pod.ident, pod.devices, row)
        else:
            self._devices.unplace(pod.ident, row)

    def lifted(self) -> Ints:
        """Slots of the pods that have been lifted, ascending."""
        return np.flatnonzero(self._lifted)

    @property
    def guests_pull(self) -> bool:
        """True if a held or placed pod has affinity or preferred terms."""
        return self._pulling_guests > 0

    def visitors(self) -> Iterator[tuple[PodClass, int]]:
        """Pods that are here only in the simulation: held and placed ones, as ``(class, row)``."""
        yield from self._held
        yield from self.placed()

    def held(self) -> Iterator[tuple[PodClass, int]]:
        """Nominated pods of others as ``(class, row)``: they may never come."""
        return iter(self._held)

    def placed(self) -> Iterator[tuple[PodClass, int]]:
        """Pods placed in this simulation, as ``(class, row)``."""
        for step in self._steps:
            if isinstance(step, _Step) and step.slot < 0 and step.sign > 0:
                yield step.pod, step.row
            elif isinstance(step, _Crowd):
                yield from ((step.pod, row) for row in step.rows.tolist())

    def present(self) -> Iterator[tuple[PodClass, int]]:
        """All pods on known nodes as ``(class, row)``: bound, assumed, held and placed here, less those lifted."""
        table = self.snapshot.table
        for slot in table.occupied().tolist():
            pod = table.pods[slot]
            if pod is not None and not self._lifted[slot]:
                yield self.snapshot.class_of(pod), int(table.row[slot])
        yield from self.visitors()


class Domains:
    """Nodes by the value of one label key: ``code[row]`` is the domain, -1 where the node has no such label."""

    def __init__(self, sim: Simulation, key: str) -> None:
        column = sim.snapshot.columns.label(key)
        self.code: Ints = column.codes.astype(np.int64)
        self.count = len(column.values)
        self.values = column.values

    @property
    def single(self) -> bool:
        """True if every node is in a domain of its own."""
        return bool((self.code >= 0).all()) and len(distinct(self.code)) == len(self.code)

    def tally(self, rows: Ints, counts: Counts) -> Counts:
        """``(count,)`` pods per domain, where ``counts[i]`` of them are at ``rows[i]``; a row may occur twice."""
        codes = self.code[rows]
        inside = codes >= 0
        return np.bincount(codes[inside], weights=counts[inside], minlength=self.count).astype(np.int64)

    def at(self, counts: Counts) -> Counts:
        """``(N,)`` each node's domain count; 0 where it is in no domain."""
        return np.asarray(np.append(counts, 0)[self.code])  # -1 indexes the 0 at the end


class DomainCounts:
    """Pods, or their weights, by domain of one label, as of now in a simulation: ``counts`` is ``(count,)``."""

    def __init__(self, sim: Simulation, key: str) -> None:
        self.domains = Domains(sim, key)
        self.counts: Counts = np.zeros(self.domains.count, dtype=np.int64)

    def add(self, row: int, amount: int) -> None:
        """So much more at this node; what is in no domain counts nowhere."""
        code = int(self.domains.code[row])
        if code >= 0:
            self.counts[code] += amount

    def add_rows(self, rows: Ints, counts: Counts, weight: int = 1) -> None:
        """So much more, times the weight, at each of these nodes."""
        self.counts += weight * self.domains.tally(rows, counts)

    def at_nodes(self) -> Counts:
        """``(N,)`` each node's domain count; 0 where it is in no domain."""
        return self.domains.at(self.counts)


def includes(sim: Simulation, selection: Selection, pod: PodClass) -> bool:
    """Return True if the selection includes pods of this class."""
    return sim.snapshot.terms.selects(selection, pod.namespace, pod.labels)


def against(sim: Simulation, shape: PodShape, pod: PodClass) -> list[PodTerm]:
    """The terms by which pods of this shape keep those of the class off."""
    return [term for term in shape.anti_affinity if includes(sim, selection_of(term), pod)]


def rows_of(sim: Simulation, *selections: Selection, leaving: bool) -> tuple[Ints, Counts]:
    """``(rows, counts)`` of the bound pods that all selections include, less those lifted in the simulation.

    A row may occur twice, a count may be negative: only sums over rows mean something. Pods that terminate count
    only with ``leaving``.
    """
    terms = sim.snapshot.terms
    rows, counts = terms.selected(selections).rows(sim.snapshot.node_ids, leaving)
    lifted = terms.among(sim.lifted(), selections, leaving)
    if not len(lifted):
        return rows, counts
    gone = sim.snapshot.table.row[lifted]
    return np.concatenate([rows, gone]), np.concatenate([counts, np.full(len(gone), -1, dtype=np.int64)])


def carried_rows(sim: Simulation, carried: Carried) -> tuple[Ints, Counts]:
    """``(rows, counts)`` of the bound pods that have this term of their own, less those lifted in the simulation."""
    rows, counts = carried.pods.rows(sim.snapshot.node_ids)
    lifted = sim.lifted()
    if not len(lifted):
        return rows, counts
    table = sim.snapshot.table
    shapes, times = np.unique(carried.shapes, return_counts=True)  # a pod may say the same thing twice
    place = np.searchsorted(shapes, table.shape[lifted]).clip(max=len(shapes) - 1)
    bear = shapes[place] == table.shape[lifted]
    return np.concatenate([rows, table.row[lifted[bear]]]), np.concatenate([counts, -times[place[bear]]])
