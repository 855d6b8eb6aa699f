"""Would the gang run if these pods left? Two ways to know, with the same answers.

Members that are alike and limited by resources alone are counted: a node holds so many, the sum must reach the
number of members. That is exact. Everything else is placed for real in the simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from gangsched.core.placement import Placer, Want
from gangsched.core.podclass import PodClass, class_of
from gangsched.core.simulation import Simulation
from gangsched.core.snapshot import Bools, Floats, Ints


class Fit(Protocol):
    """A simulated cluster from which pods have been taken."""

    exact: bool

    def take(self, slots: Ints) -> None:
        """These pods leave."""

    def fits(self) -> bool:
        """Does the gang fit now?"""

    def give_back(self, slots: Ints) -> bool:
        """Put these pods back if the gang still fits with them there; True when they stay."""


class CountedFit:
    """For one class of members: capacities per node, changed only where pods come and go."""

    exact = True

    def __init__(self, sim: Simulation, pod: PodClass, allowed: Bools, needed: int) -> None:
        index, amounts = sim.snapshot.vector(pod.shape)
        self._index = index
        self._amounts = amounts
        self._free: Floats = sim.free[index].copy()
        self._allowed = allowed
        self._needed = needed
        self._table = sim.snapshot.table
        self._matrix = sim.snapshot.shape_matrix()[:, index]
        self._room = self._count(slice(None))
        self._total = int(self._room.sum())

    def _count(self, rows: slice | Ints) -> Ints:
        room = np.floor_divide(self._free[:, rows], self._amounts[:, None]).min(axis=0)
        np.clip(room, 0.0, float(self._needed), out=room)
        room[~self._allowed[rows]] = 0.0
        return np.asarray(room, dtype=np.int64)

    def _shift(self, slots: Ints, sign: float) -> Ints:
        rows = self._table.row[slots]
        if len(slots) == 1:
            self._free[:, rows[0]] += sign * self._matrix[self._table.shape[slots[0]]]
            touched = rows
        else:
            touched, where = np.unique(rows, return_inverse=True)
            amounts = self._matrix[self._table.shape[slots]]
            for i in range(len(self._index)):
                self._free[i, touched] += sign * np.bincount(where, weights=amounts[:, i], minlength=len(touched))
        before = self._room[touched]
        after = self._count(touched)
        self._room[touched] = after
        self._total += int(after.sum() - before.sum())
        return touched

    def take(self, slots: Ints) -> None:
        if len(slots):
            self._shift(slots, +1.0)

    def fits(self) -> bool:
        return self._total >= self._needed

    def give_back(self, slots: Ints) -> bool:
        if not len(slots):
            return self.fits()
        self._shift(slots, -1.0)
        if self.fits():
            return True
        self._shift(slots, +1.0)
        return False


class PlacedFit:
    """For gangs of several classes or with rules that see other pods: place all members, every time."""

    exact = False

    def __init__(self, sim: Simulation, placer: Placer, wants: Sequence[Want]) -> None:
        self._sim = sim
        self._placer = placer
        self._wants = wants

    def take(self, slots: Ints) -> None:
        for slot in slots.tolist():
            self._sim.lift(slot)

    def fits(self) -> bool:
        mark = self._sim.mark()
        result = self._placer.required(self._wants, self._sim, {})
        self._sim.rollback(mark)
        return result.complete

    def give_back(self, slots: Ints) -> bool:
        for slot in slots.tolist():
            self._sim.drop(slot)
        if self.fits():
            return True
        for slot in slots.tolist():
            self._sim.lift(slot)
        return False


def fit_for(sim: Simulation, placer: Placer, wants: Sequence[Want]) -> Fit:
    """The cheapest exact way to answer for this gang. The simulation is the base to take pods from."""
    members = [p for want in wants for p in want.members]
    classes = {class_of(p).ident for p in members}
    first = class_of(members[0])
    if len(classes) == 1 and placer.pipeline.only_counts(first, sim):
        needed = sum(want.required for want in wants)
        return CountedFit(sim, first, placer.pipeline.static_mask(first, sim), needed)
    return PlacedFit(sim, placer, wants)
