"""Free room from which pods of the table are taken and to which they are given back, many at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from gangsched.core.arrays import Floats, Ints, columns, runs
from gangsched.core.state.simulation import Simulation
from gangsched.core.volumes.index import VolumeIndex

#: Volumes of a driver that a node attaches where it has no limit.
_UNLIMITED = 1e9


class Pairs(msgspec.Struct):
    """Options broken down by node: for each (option, node) the option's number, the row, and ``(R, pairs)`` what its
    pods hold there.
    """

    owner: Ints
    rows: Ints
    amounts: Floats


class Resources:
    """What members ask of nodes in numbers: rows ``index`` of the snapshot, and volumes of ``drivers`` that attach only
    so many to a node. ``free`` is ``(R, N)``: what the simulation has left of them.
    """

    def __init__(self, sim: Simulation, index: Ints, drivers: Sequence[str] = ()) -> None:
        snapshot = sim.snapshot
        self.table = snapshot.table
        self.index = index
        self._matrix: Floats = np.ascontiguousarray(snapshot.shape_matrix()[:, index].T)
        self.free: Floats = np.ascontiguousarray(sim.free[index])
        self._attached: Floats | None = None
        if drivers:
            self.free = np.vstack([self.free, *(_attachable(sim, driver) for driver in drivers)])
            self._attached = np.zeros((len(drivers), self.table.size))
            for n, driver in enumerate(drivers):
                for uid in _sole_users(snapshot.volumes, driver):
                    if uid in self.table.slot_of:
                        self._attached[n, self.table.slot_of[uid]] += 1

    def held(self, slots: Ints) -> Floats:
        """``(R, n)`` what these pods give back when they leave: no volume that others keep attached."""
        held = columns(self._matrix, self.table.shape[slots])
        return held if self._attached is None else np.concatenate([held, columns(self._attached, slots)])

    def without(self, slots: Ints) -> Floats:
        """``(R, N)`` what is free when these pods, all of known nodes, have left."""
        rows, size = self.table.row[slots], self.free.shape[1]
        return self.free + [np.bincount(rows, weights=amount, minlength=size) for amount in self.held(slots)]


def _attachable(sim: Simulation, driver: str) -> Floats:
    """``(N,)`` how many more volumes of this driver each node attaches."""
    attachments = sim.snapshot.volumes.attachments
    left = np.minimum(attachments.limits(driver), _UNLIMITED) - attachments.counts(driver)
    for row, change in sim.volumes.extra.get(driver, {}).items():
        left[row] -= change
    return np.asarray(left)


def _sole_users(index: VolumeIndex, driver: str) -> Iterator[str]:
    """The pods (UIDs) to whose nodes volumes of this driver are attached for them alone, once for each volume."""
    for key, users in index.users.items():
        handle = index.handle(key)
        if handle is not None and handle[0] == driver:
            there = index.attachments.nodes_of.get(handle, {})
            yield from (uid for uid, node in users.items() if there.get(node) == 1)


def shared_drivers(index: VolumeIndex) -> set[str]:
    """Drivers of which pods of one node share a volume: it is given back when all of them leave, and not before."""
    several = (key for key, users in index.users.items() if len(set(users.values())) < len(users))
    return {handle[0] for key in several if (handle := index.handle(key)) is not None}


class FreeRoom:
    """``free`` is ``(R, N)`` of these resources, a copy of the simulation's."""

    def __init__(self, resources: Resources) -> None:
        self.free: Floats = resources.free.copy()
        self._resources = resources
        self._table = resources.table

    def held(self, slots: Ints) -> tuple[Ints, Floats]:
        """The rows of these pods, ascending, and ``(R, rows)`` what they hold; those of unknown nodes left out."""
        rows = self._table.row[slots]
        if (rows < 0).any():
            slots = slots[rows >= 0]
            rows = self._table.row[slots]
        amounts = self._resources.held(slots)
        if len(slots) <= 1:
            return rows, amounts
        width = self.free.shape[1]
        if len(slots) > width // 4:  # counting is quicker than sorting when most nodes are touched
            touched: Ints = np.flatnonzero(np.bincount(rows, minlength=width))
            sums = [np.bincount(rows, weights=column, minlength=width)[touched] for column in amounts]
            return touched, np.array(sums)
        order, starts, found = runs(rows)
        return found, np.add.reduceat(columns(amounts, order), starts, axis=1)

    def pairs(self, options: Sequence[Ints]) -> Pairs:
        """The options by node."""
        sizes = np.array([len(o) for o in options])
        slots = np.concatenate(options) if len(options) > 1 else options[0]
        owner = np.repeat(np.arange(len(options)), sizes)
        rows = self._table.row[slots]
        if (rows < 0).any():
            owner, slots, rows = owner[rows >= 0], slots[rows >= 0], rows[rows >= 0]
        width = self.free.shape[1]
        keys = owner * width + rows
        order, starts, found = runs(keys)
        amounts = np.add.reduceat(self._resources.held(slots[order]), starts, axis=1)
        return Pairs(found // width, found % width, amounts)
