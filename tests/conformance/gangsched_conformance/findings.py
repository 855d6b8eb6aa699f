"""What the checks find, and what they have in common."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import Snapshot
from gangsched_conformance.clusters import Cluster

#: Changes of a simulation between two comparisons.
STEPS = 12


class Finding(NamedTuple):
    """A broken promise: which one, in the cluster of which seed, asked about which pod, and what was seen."""

    check: str
    seed: int
    pod: str
    text: str

    def __str__(self) -> str:
        return f"{self.check}: {self.text} (seed {self.seed}, pod {self.pod or '-'})"


class Step(NamedTuple):
    """A pod of this class comes to a node (``slot`` -1), or the pod in a slot of the table leaves or returns."""

    pod: PodClass | None
    row: int
    slot: int
    lift: bool

    def carry_out(self, sim: Simulation) -> None:
        """Do it."""
        if self.pod is not None:
            sim.place(self.pod, self.row)
        elif self.lift:
            sim.lift(self.slot)
        else:
            sim.put_back(self.slot)


def random_steps(chance: random.Random, found: Cluster, classes: Sequence[PodClass], lifted: set[int]) -> list[Step]:
    """:data:`STEPS` changes; ``lifted`` are the slots that have left, kept up to date."""
    snapshot = found.world.snapshot
    slots = snapshot.table.occupied().tolist()
    out = []
    for _ in range(STEPS):
        what = chance.random()
        here = [slot for slot in slots if slot not in lifted]
        if what < 0.5 or not slots:
            out.append(Step(chance.choice(classes), chance.randrange(snapshot.size), -1, False))
        elif (what < 0.85 and here) or not lifted:
            slot = chance.choice(here)
            lifted.add(slot)
            out.append(Step(None, -1, slot, True))
        else:
            slot = chance.choice(sorted(lifted))
            lifted.discard(slot)
            out.append(Step(None, -1, slot, False))
    return out


def replayed(snapshot: Snapshot, steps: Sequence[Step]) -> Simulation:
    """A new simulation in which the same has happened."""
    sim = Simulation(snapshot)
    for step in steps:
        step.carry_out(sim)
    return sim


class Surroundings:
    """A copy of what plug-ins may look at and must not touch."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        snapshot = sim.snapshot
        self._arrays = (sim.free, sim.scored, snapshot.allocatable, snapshot.used, snapshot.table.row)
        self._copies = tuple(array.copy() for array in self._arrays)

    def touched(self) -> bool:
        """Is anything different now?"""
        return any(not np.array_equal(a, b) for a, b in zip(self._arrays, self._copies, strict=True))
