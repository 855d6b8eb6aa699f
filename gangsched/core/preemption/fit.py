"""Would the gang run if these pods left? Several ways to know; the cheapest that is right for the gang is taken.

Members that are alike are counted: a node holds so many, the sum must reach the number of members (:mod:`.counted`),
also when a domain may hold one or an even share only (:mod:`.domains`). That is exact. A large gang of several shapes
is packed, and the packing repaired (:mod:`.packed`). Everything else is placed for real in the simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.planning.arrangement import MAX_MEMBERS
from gangsched.core.planning.placement import Placer, Want
from gangsched.core.preemption.apart import apart_fit
from gangsched.core.preemption.arranged import arranged_fit
from gangsched.core.preemption.counted import CountedFit
from gangsched.core.preemption.domains import domain_fit
from gangsched.core.preemption.estimate import GUESSED_PER_STEP, PART, Estimate
from gangsched.core.preemption.fewest import Room
from gangsched.core.preemption.packed import PackedFit
from gangsched.core.state.podclass import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import Floats, Ints
from gangsched.model.records import Pod

#: Pods that are lifted from the simulation or dropped into it, one by one, in about one step.
_MOVED_PER_STEP = 20
#: From so many moves on the simulation is built up anew.
_JOURNAL = 20_000


class Fit(Protocol):
    """A simulated cluster from which pods are taken and to which they are given back."""

    steps: int  # search steps spent in here beside one per question
    monotone: bool  # taking more pods never makes the gang fit less

    def take(self, slots: Ints) -> None:
        """These pods leave."""

    def give_back(self, slots: Ints) -> None:
        """These pods come back."""

    def fits(self) -> bool:
        """Does the gang fit now?"""

    def shortfall(self) -> float:
        """How far the gang is from fitting; 0 or less when it fits. Smaller is better, fractions count progress."""

    def lacking(self) -> Room | None:
        """The room for equal members that is missing; None where room is not all that counts."""

    def holds(self, slot: int) -> tuple[float, ...]:
        """What one pod holds of the resources that :meth:`lacking` counts, in the same order."""

    def gains(self, options: Sequence[Ints], most_steps: int) -> Floats:
        """By how much taking each option alone would reduce the shortfall, ``(len(options),)``; an estimate where
        finding out would cost too much of ``most_steps``.
        """

    def rows(self, taken: frozenset[int]) -> dict[str, int]:
        """Rows that members (by UID) are known to fit on with these slots taken; empty where any will do."""

    def save(self) -> Any:
        """The present state, for :meth:`restore`."""

    def restore(self, state: Any) -> None:
        """Back to a saved state."""


class PlacedFit:
    """For gangs of several classes or with rules that see other pods: place all members, every time.

    What is known is used: taking more than a set that is enough is enough, less than one that is not is not. That
    holds unless members need other pods near them or spread over what is there.
    """

    def __init__(self, sim: Simulation, placer: Placer, wants: Sequence[Want]) -> None:
        self._sim = sim
        self._placer = placer
        self._wants = wants
        self._taken: set[int] = set()
        self._lifted: set[int] = set()  # of them, what the simulation shows
        self._base = sim.mark()
        self._shortfall: dict[frozenset[int], float] = {}
        self._rows: dict[frozenset[int], dict[str, int]] = {}
        self._failed: list[frozenset[int]] = []
        shapes = [p.shape for want in wants for p in want.members]
        self.monotone = not any(shape.affinity or shape.spread for shape in shapes) and all(
            placer.pipeline.monotone(sim.snapshot.class_of(p), sim) for p in _one_of_each(sim, _members(wants))
        )
        self.steps = 0
        self._moved = 0  # pods that no step has been counted for yet
        self._estimate = Estimate(sim, placer.pipeline, _members(wants))

    def take(self, slots: Ints) -> None:
        self._taken.update(slots.tolist())

    def give_back(self, slots: Ints) -> None:
        self._taken.difference_update(slots.tolist())

    def _show(self) -> None:
        """Have the simulation show what is taken: only when the members are placed, since most pods come and go."""
        gone, back = self._taken - self._lifted, self._lifted - self._taken
        journal = self._sim.mark() - self._base
        moved = len(gone) + len(back)
        if journal > _JOURNAL or journal + len(self._taken) < moved:  # it would grow with every test of a long search
            self._sim.rollback(self._base)
            moved = journal + len(self._taken)
            gone, back = self._taken, set()
        for slot in sorted(back):
            self._sim.drop(slot)
        for slot in sorted(gone):
            self._sim.lift(slot)
        self._lifted = set(self._taken)
        self._moved += moved
        self.steps += self._moved // _MOVED_PER_STEP
        self._moved %= _MOVED_PER_STEP

    def fits(self) -> bool:
        key = frozenset(self._taken)
        if self.monotone and key not in self._shortfall:
            if any(key.issuperset(known) for known in self._rows):
                return True
            if any(key.issubset(known) for known in self._failed):
                return False
        return self.shortfall() <= 0

    def shortfall(self) -> float:
        key = frozenset(self._taken)
        found = self._shortfall.get(key)
        if found is None:
            self._show()
            before = self._placer.looks
            mark = self._sim.mark()
            placed = self._placer.required(self._wants, self._sim, {})
            self._sim.rollback(mark)
            self.steps += self._placer.looks - before
            found = self._shortfall[key] = float(len(placed.failed))
            if placed.complete:
                self._rows[key] = dict(placed.rows)
            else:
                self._failed.append(key)
        return found

    def rows(self, taken: frozenset[int]) -> dict[str, int]:
        """Where the members went, by UID, when these slots were taken, or fewer that were enough."""
        if taken in self._rows:
            return self._rows[taken]
        return next((rows for known, rows in self._rows.items() if self.monotone and known <= taken), {})

    def lacking(self) -> None:
        """Other rules than room count too."""
        return

    def holds(self, slot: int) -> tuple[float, ...]:
        return ()

    def gains(self, options: Sequence[Ints], most_steps: int) -> Floats:
        now = self.shortfall()
        if len(options) * self.steps > most_steps * PART * len(self._shortfall):
            self.steps += 1 + len(options) // GUESSED_PER_STEP
            return self._estimate.gains(options, np.array(sorted(self._taken), dtype=np.int64))
        out = np.zeros(len(options))
        for n, option in enumerate(options):
            self.take(option)
            out[n] = now - self.shortfall()
            self.give_back(option)
        return out

    def save(self) -> Any:
        return set(self._taken)

    def restore(self, state: Any) -> None:
        self._taken = set(state)


def fit_for(sim: Simulation, placer: Placer, wants: Sequence[Want]) -> Fit:
    """The cheapest exact way to answer for this gang. The simulation is the base to take pods from."""
    members = [p for want in wants for p in want.members]
    classes = {sim.snapshot.class_of(p).ident for p in members}
    first = sim.snapshot.class_of(members[0])
    each = [sim.snapshot.class_of(p) for p in _one_of_each(sim, members)]
    counts = all(placer.pipeline.only_counts(c, sim) for c in each)
    if counts and _interchangeable(each, placer.pipeline, sim):
        needed = sum(want.required for want in wants)
        return CountedFit(sim, first, placer.pipeline.static_mask(first, sim), needed)
    if counts and len(members) > MAX_MEMBERS:
        return PackedFit(sim, placer.pipeline, wants)
    if not placer.pipeline.knows_company():
        return PlacedFit(sim, placer, wants)
    if len(classes) > 1:
        several = arranged_fit if len(members) <= MAX_MEMBERS else apart_fit
        exact = several(sim, placer.pipeline, wants)
        if exact is not None:
            return exact
    if len(classes) == 1:
        needed = sum(want.required for want in wants)
        found = domain_fit(sim, placer.pipeline, first, placer.pipeline.static_mask(first, sim), needed)
        if found is not None:
            return found
    return PlacedFit(sim, placer, wants)


def _interchangeable(classes: Sequence[PodClass], pipeline: Pipeline, sim: Simulation) -> bool:
    """Do pods of these classes, limited by resources alone, ask for the same and may they go to the same nodes? Members
    that differ in their volumes only are like this.
    """
    first = classes[0]
    if any(c.shape is not first.shape for c in classes):
        return False
    mask = pipeline.static_mask(first, sim)
    return all(np.array_equal(mask, pipeline.static_mask(c, sim)) for c in classes[1:])


def _members(wants: Sequence[Want]) -> list[Pod]:
    return [p for want in wants for p in want.members]


def _one_of_each(sim: Simulation, members: Sequence[Pod]) -> list[Pod]:
    """One member of each class."""
    return list({sim.snapshot.class_of(p).ident: p for p in members}.values())
