"""A cluster that may be changed and changed back: the snapshot with pods placed and lifted in thought."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np

from gangsched.core.filters.base import Filter
from gangsched.core.podclass import PodClass
from gangsched.core.snapshot import Bools, Floats, Ints, Snapshot


class Phantom(msgspec.Struct, frozen=True, gc=False):
    """A nominated member: it holds room on ``node`` against everything of lower priority than ``priority``."""

    pod: PodClass
    uid: str
    node: str
    priority: int
    group: str


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


class Simulation:
    """``free`` is ``(R, N)``: allocatable minus everything present, held room included; it may be negative where a
    node is over-committed. ``scored`` is ``(2, N)`` for the scores. Lifting a pod takes it off its node, placing
    one puts it there; :meth:`mark` and :meth:`rollback` undo both. ``restriction`` narrows the nodes that new pods
    may go to, and may be replaced at any time.
    """

    def __init__(
        self, snapshot: Snapshot, held: Iterable[Phantom] = (), restriction: Restriction | None = None
    ) -> None:
        snapshot.settle()
        self.snapshot = snapshot
        self.restriction = restriction
        self.free: Floats = snapshot.allocatable - snapshot.used
        self.scored: Floats = snapshot.scored.copy()
        self._held: list[tuple[PodClass, int]] = []
        self._lifted: set[int] = set()
        self._steps: list[_Step | Ints] = []
        self._states: dict[tuple[str, int], tuple[Filter, Any]] = {}
        for phantom in held:
            row = snapshot.row_of.get(phantom.node)
            if row is not None:
                self._held.append((phantom.pod, row))
                self._account(phantom.pod, row, +1)

    # -- changes -------------------------------------------------------------------------------------------

    def place(self, pod: PodClass, row: int) -> None:
        """A pod of this class comes to the node at ``row``."""
        self._do(_Step(pod, row, +1))

    def lift(self, slot: int) -> None:
        """The pod in this slot of the table leaves its node."""
        self._do(self._lifting(slot))

    def _lifting(self, slot: int) -> _Step:
        pod = self.snapshot.table.pods[slot]
        if pod is None:
            raise ValueError(f"slot {slot} holds no pod")
        return _Step(self.snapshot.class_of(pod), int(self.snapshot.table.row[slot]), -1, slot)

    def drop(self, slot: int) -> None:
        """A lifted pod returns to its node."""
        pod = self.snapshot.table.pods[slot]
        if pod is None or slot not in self._lifted:
            raise ValueError(f"slot {slot} holds no lifted pod")
        self._do(_Step(self.snapshot.class_of(pod), int(self.snapshot.table.row[slot]), +1, slot))

    def lift_all(self, slots: Ints) -> None:
        """Lift many pods at once; the same as lifting each, but one array operation per resource."""
        if self._states:
            for slot in slots.tolist():
                self.lift(slot)
            return
        self._steps.append(slots)
        self._lift_many(slots, -1)

    def _lift_many(self, slots: Ints, sign: int) -> None:
        table = self.snapshot.table
        shapes, rows = table.shape[slots], table.row[slots]
        if sign < 0:
            self._lifted.update(slots.tolist())
        else:
            self._lifted.difference_update(slots.tolist())
        size = self.free.shape[1]
        amounts = self.snapshot.shape_matrix()[shapes]
        for i in np.flatnonzero(amounts.any(axis=0)).tolist():
            self.free[i] -= sign * np.bincount(rows, weights=amounts[:, i], minlength=size)
        scored = self.snapshot.scored_matrix()[shapes]
        for i in range(scored.shape[1]):
            self.scored[i] += sign * np.bincount(rows, weights=scored[:, i], minlength=size)

    def mark(self) -> int:
        """A point to return to."""
        return len(self._steps)

    def rollback(self, mark: int) -> None:
        """Undo everything since ``mark``."""
        while len(self._steps) > mark:
            step = self._steps.pop()
            if isinstance(step, _Step):
                self._take(step, -step.sign)
            elif self._states:
                for slot in step.tolist():
                    self._take(self._lifting(slot), +1)
            else:
                self._lift_many(step, +1)

    def _do(self, step: _Step) -> None:
        self._steps.append(step)
        self._take(step, step.sign)

    def _take(self, step: _Step, sign: int) -> None:
        if step.slot >= 0:
            if sign < 0:
                self._lifted.add(step.slot)
            else:
                self._lifted.discard(step.slot)
        self._account(step.pod, step.row, sign)
        for rule, state in self._states.values():
            rule.apply(state, step.pod, step.row, sign)

    def _account(self, pod: PodClass, row: int, sign: int) -> None:
        index, amounts = self.snapshot.vector(pod.shape)
        if self.free.shape[0] < len(self.snapshot.resources):  # a resource that no node and no pod had before
            missing = len(self.snapshot.resources) - self.free.shape[0]
            self.free = np.concatenate([self.free, np.zeros((missing, self.free.shape[1]))])
        self.free[index, row] -= sign * amounts
        self.scored[:, row] += sign * self.snapshot.scored_of(pod.shape)

    # -- questions -----------------------------------------------------------------------------------------

    def state(self, rule: Filter, pod: PodClass) -> Any:
        """The filter's state for this class, made when first asked for and kept current from then on."""
        key = (rule.name, pod.ident)
        found = self._states.get(key)
        if found is None:
            found = self._states[key] = (rule, rule.prepare(pod, self))
        return found[1]

    def lifted(self) -> Ints:
        """Slots of the pods that have been lifted, ascending."""
        return np.array(sorted(self._lifted), dtype=np.int64)

    def visitors(self) -> Iterator[tuple[PodClass, int]]:
        """Pods that are here only in thought: held and placed ones, as ``(class, row)``."""
        yield from self._held
        for step in self._steps:
            if isinstance(step, _Step) and step.slot < 0 and step.sign > 0:
                yield step.pod, step.row

    def present(self) -> Iterator[tuple[PodClass, int]]:
        """All pods on known nodes as ``(class, row)``: bound, assumed, held and placed here, less those lifted."""
        table = self.snapshot.table
        for slot in table.occupied().tolist():
            pod = table.pods[slot]
            if pod is not None and slot not in self._lifted:
                yield self.snapshot.class_of(pod), int(table.row[slot])
        yield from self.visitors()
