"""Fit of a large gang of several shapes: an assignment of members to nodes that is repaired as pods come and go.

Members are packed class by class, the largest first, on the nodes that they leave fullest. When pods come back to a
node and its members no longer fit there, those members move to wherever there is room. What was possible before a
step is restored exactly when the step is undone, so the search never loses an assignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gangsched.core.pipeline import Pipeline
from gangsched.core.placement import Want
from gangsched.core.preemption.slots import FreeRoom
from gangsched.core.simulation import Simulation
from gangsched.core.snapshot import Floats, Ints


class PackedFit(FreeRoom):
    """For classes that only count resources. ``assigned`` is ``(classes, N)`` members per node."""

    steps = 0

    def __init__(self, sim: Simulation, pipeline: Pipeline, wants: Sequence[Want]) -> None:
        self._members = _easiest(sim, wants)
        classes = {sim.snapshot.class_of(p).ident: sim.snapshot.class_of(p) for p in self._members}
        vectors = [sim.snapshot.vector(c.shape) for c in classes.values()]
        index = np.unique(np.concatenate([i for i, _ in vectors]))
        super().__init__(sim, index)
        amounts = np.zeros((len(vectors), len(index)))
        for n, (rows, asked) in enumerate(vectors):
            amounts[n, np.searchsorted(index, rows)] = asked
        masks = np.array([pipeline.static_mask(c, sim) for c in classes.values()])
        mean = np.maximum(sim.snapshot.allocatable[index].mean(axis=1), 1.0)
        order = np.argsort(-(amounts / mean).max(axis=1), kind="stable")
        idents = np.array(list(classes))[order]
        self._asked, self._masks, self._mean = amounts[order], masks[order], mean
        number = {int(ident): n for n, ident in enumerate(idents)}
        self._class_of = {p.uid: number[sim.snapshot.class_of(p).ident] for p in self._members}
        self._missing: Ints = np.bincount(list(self._class_of.values()), minlength=len(order)).astype(np.int64)
        self._assigned: Ints = np.zeros((len(order), self._free.shape[1]), dtype=np.int64)
        self._undo: tuple[Ints, Any] | None = None
        self._base = self._free.copy()
        self._place()

    # -- the assignment ------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Assign what is missing to nodes with room, the tightest first."""
        for n in range(len(self._missing)):
            need = int(self._missing[n])
            if not need:
                continue
            asked = self._asked[n]
            used = asked > 0
            room = np.floor(self._free[used] / asked[used, None]).min(axis=0)
            room[~self._masks[n]] = 0.0
            at = np.flatnonzero(room > 0)
            if not len(at):
                continue
            left = (self._free[:, at] - room[at] * asked[:, None]) / self._mean[:, None]
            at = at[np.lexsort((at, np.round(left.sum(axis=0), 9)))]
            fill = np.minimum(room[at], np.maximum(0.0, need - (np.cumsum(room[at]) - room[at]))).astype(np.int64)
            self._assigned[n, at] += fill
            self._free[:, at] -= asked[:, None] * fill
            self._missing[n] -= int(fill.sum())

    def take(self, slots: Ints) -> None:
        if not len(slots):
            return
        undo, self._undo = self._undo, None
        if undo is not None and np.array_equal(undo[0], slots):
            self.restore(undo[1])
            return
        self.shift(slots, +1.0)
        if self._missing.any():
            self._place()

    def give_back(self, slots: Ints) -> None:
        if not len(slots):
            return
        before = self.save()
        rows = self.shift(slots, -1.0)
        short = rows[(self._free[:, rows] < 0).any(axis=0)]
        held = short[self._assigned[:, short].any(axis=0)]
        if len(held):
            moved = self._assigned[:, held]
            self._free[:, held] += self._asked.T @ moved
            self._missing += moved.sum(axis=1)
            self._assigned[:, held] = 0
            self._place()
        self._undo = (slots, before)

    # -- questions -----------------------------------------------------------------------------------------

    def fits(self) -> bool:
        return not self._missing.any()

    def shortfall(self) -> float:
        return float(self._missing.sum())

    def gains(self, options: Sequence[Ints]) -> Floats:
        if not options:
            return np.zeros(0)
        pairs = self.pairs(options)
        out = np.zeros(len(options))
        for n in np.flatnonzero(self._missing).tolist():
            asked = self._asked[n]
            used = asked > 0
            before = np.clip(self._free[used][:, pairs.rows] / asked[used, None], 0.0, None).min(axis=0)
            after = np.clip((self._free[:, pairs.rows] + pairs.amounts)[used] / asked[used, None], 0.0, None).min(
                axis=0
            )
            gain = np.where(self._masks[n][pairs.rows], _hinted(after) - _hinted(before), 0.0)
            out += np.minimum(np.bincount(pairs.owner, weights=gain, minlength=len(options)), float(self._missing[n]))
        return out

    def rows(self, taken: frozenset[int]) -> dict[str, int]:
        """Rows of the members when exactly these slots are taken; empty when that does not fit."""
        state = self.save()
        here = np.array(sorted(taken), dtype=np.int64)
        current = self._base.copy(), np.zeros_like(self._assigned), self._missing + self._assigned.sum(axis=1)
        self.restore(current)
        self.shift(here, +1.0)
        self._place()
        out: dict[str, int] = {}
        if self.fits():
            left = [np.repeat(np.arange(self._assigned.shape[1]), counts).tolist() for counts in self._assigned]
            for pod in self._members:
                out[pod.uid] = left[self._class_of[pod.uid]].pop(0)
        self.restore(state)
        return out

    def save(self) -> Any:
        return self._free.copy(), self._assigned.copy(), self._missing.copy()

    def restore(self, state: Any) -> None:
        free, assigned, missing = state
        self._free[:], self._assigned[:], self._missing[:] = free, assigned, missing
        self._undo = None


def _hinted(parts: Floats) -> Floats:
    whole = np.floor(parts)
    return np.asarray(whole + (parts - whole) * 1e-3)


def _easiest(sim: Simulation, wants: Sequence[Want]) -> list[Any]:
    """The required members: where a gang has more than it needs, the smallest."""
    out = []
    for want in wants:
        members = list(want.members)
        if len(members) > want.required:
            members.sort(key=lambda p: (float(sim.snapshot.vector(p.shape)[1].max()), p.name))
        out += sorted(members[: want.required], key=lambda p: p.name)
    return out
