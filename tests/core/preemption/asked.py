"""The question of one pending gang, taken apart: what its search is given, and the search itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from gangsched.core.arrays import Ints
from gangsched.core.decision import group_key
from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.planning.cycle import Decider
from gangsched.core.preemption.candidates import Candidates
from gangsched.core.preemption.demand import Demand, demands_of
from gangsched.core.preemption.fit import Fit, fit_for
from gangsched.core.preemption.harm import work_lost
from gangsched.core.preemption.node_prices import MAY, Offer
from gangsched.core.preemption.places import Places
from gangsched.core.preemption.removal import budgets_of
from gangsched.core.preemption.search import Search
from gangsched.core.preemption.units import Units
from gangsched.core.watchdog import Watchdog
from gangsched.model.records import GangId
from tests.bench.worlds import World
from tests.core.harness import Built, world
from tests.oracle.case import Case


class Asked:
    """What the decision about these gangs starts from, with terminating pods gone and nothing taken."""

    def __init__(self, decider: Decider, gangs: Sequence[GangId]) -> None:
        self._context = decider.context(gangs)
        self._now = decider.world.now
        self.sim = self._context.planned()
        self.wants = self._context.wants
        self.budgets = budgets_of(decider.world, decider.ledger.condemned, group_key(gangs))
        self.demands = demands_of(self.sim, self._context.placer.pipeline, self.wants)

    @property
    def pipeline(self) -> Pipeline:
        """The filters that it is decided with."""
        return self._context.placer.pipeline

    @property
    def demand(self) -> Demand:
        """The first way to choose the required members."""
        return self.demands[0]

    @cached_property
    def units(self) -> Units:
        """What may be taken."""
        context = self._context
        usable = context.usable(self.sim)
        return Units(
            self.sim.snapshot,
            context.world.membership,
            context.options,
            frozenset(context.gangs),
            context.priority,
            usable,
        )

    def fit(self) -> Fit:
        """How the search knows whether the gang fits."""
        return fit_for(self.sim, self._context.placer, self.wants, self.demand)

    @cached_property
    def candidates(self) -> Candidates:
        """What may leave, as arrays."""
        works = work_lost(self.sim.snapshot, self._context.cluster(), self._now)
        return Candidates(self.units, self.budgets, self.demand, works)

    def places(self, *, lower: bool = False) -> Places:
        """The search for places."""
        return Places(self.candidates, self.demand, lower=lower)

    def offer(self, prices: Sequence[float]) -> Offer:
        """Each candidate may leave for its price."""
        return Offer(np.full(self.candidates.size, MAY), np.array(prices, dtype=np.complex128))

    def search(self, max_steps: int = 10_000, *, strict: bool = False) -> Search:
        """A search with this budget."""
        context = self._context
        return Search(
            self.units, self.sim, context.placer, self.wants, self.budgets, context.cluster(), self._now, max_steps,
            Watchdog(), strict=strict,
        )  # fmt: skip

    def slots(self, *names: str) -> Ints:
        """Slots of these pods of namespace ``d``."""
        return np.array([self.sim.snapshot.table.slot_of[f"uid-d-{n}"] for n in names], dtype=np.int64)


def asked(*objects: Built, gang: str = "g", now: float = 0.0, **options: object) -> Asked:
    """The question of gang ``d/<gang>`` among these objects."""
    core = world(*objects, **options)
    mine = next(g for g in core.world.membership.members if g.name == gang)
    core.world.now = now
    return Asked(core.decider, (mine,))


def asked_in(case: Case) -> Asked:
    """The question of the gang ``want`` of a case."""
    made = World(case)
    return Asked(made.decider, made.gangs[0])
