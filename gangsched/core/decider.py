"""The decision for one gang or GangGroup: fits, fits when terminating pods are gone, fits after evictions, or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gangsched.core.attempt import Attempt
from gangsched.core.decision import (
    BIND,
    GATHERING,
    WAIT,
    Decision,
    Placement,
    Unplaced,
    Verdict,
)
from gangsched.core.options import Options
from gangsched.core.pipeline import default_pipeline
from gangsched.core.placement import Placer
from gangsched.core.podtable import TERMINATING
from gangsched.core.preemption import explain
from gangsched.core.preemption.patience import delayed
from gangsched.core.preemption.planner import Choice
from gangsched.core.preemption.units import Units
from gangsched.core.world import World
from gangsched.model.records import PREEMPT_NEVER, GangId

__all__ = ["Decider", "Verdict", "gathering"]


def gathering(world: World, gangs: Sequence[GangId], problem: str) -> Verdict:
    """The verdict on gangs that are not complete."""
    membership = world.membership
    decisions = []
    for gang in gangs:
        spec = membership.spec(gang)
        census = membership.census(gang)
        decisions.append(
            Decision(
                gang=gang,
                kind=spec.kind if spec is not None else "PodGroup",
                group=tuple(g.key for g in gangs) if len(gangs) > 1 else (),
                priority=membership.preemptor_priority(gangs),
                required=membership.required(gang, census),
                outcome=GATHERING,
                unplaced=tuple(Unplaced(p.key, (problem,)) for p in (*census.pending, *census.gated)),
                message=problem,
            )
        )
    return Verdict(GATHERING, tuple(decisions), message=problem)


class Decider:
    """Makes decisions; changes nothing but its own caches."""

    def __init__(self, world: World, options: Options) -> None:
        self.world = world
        self.options = options
        self.placer = Placer(default_pipeline(options))

    def decide(
        self,
        gangs: Sequence[GangId],
        group: str,
        now: float,
        *,
        may_preempt: bool = True,
        prefer: Mapping[str, str] = {},
        waiting_since: float | None = None,
    ) -> Verdict:
        """Decide the gangs of one group together.

        ``group`` is the key under which it holds room. ``prefer`` names, by UID, the node to try first; without
        it a member's own nomination is. ``waiting_since`` is when the gang first could not be placed (None: when its
        oldest pending member was created).
        """
        job = Attempt(self.world, self.options, self.placer, gangs, group, now, prefer)
        if job.topology.problem:
            return job.unschedulable("", None)
        found = job.without_evictions(BIND)
        # Members beyond the minimum join where there is room now; nothing is held up for them.
        if found is None and job.required:
            found = job.without_evictions(WAIT)
        if found is not None:
            return found
        why_not = ""
        choice: Choice | None = None
        units: Units | None = None
        retry_at: float | None = None
        if not job.required:
            why_not = ""
        elif not may_preempt:
            why_not = "not eligible: enough evicting rounds for now"
        elif self.world.membership.policy(gangs) == PREEMPT_NEVER:
            why_not = "not eligible due to preemptionPolicy=Never."
        elif (delay := job.delay()) and (until := job.waiting_since(waiting_since) + delay) > now:
            why_not, retry_at = delayed(delay, until), until
        else:
            units, choice = job.search()
            if choice is None:
                why_not = explain.no_plan(units)
        if choice is None or units is None:
            if units is not None:
                retry_at = units.eligible_at
            return msgspec.structs.replace(job.unschedulable(why_not, units), retry_at=retry_at)
        return job.preempt(units, choice)

    def still_holds(
        self,
        gangs: Sequence[GangId],
        group: str,
        now: float,
        placements: Sequence[Placement],
        victims: Iterable[str],
    ) -> bool:
        """Would these members still fit on these nodes, and be in one domain where that is required, once the victims
        (UIDs) and terminating pods are gone?
        """
        job = Attempt(self.world, self.options, self.placer, gangs, group, now, {})
        sim = job.simulation()
        rows = sim.snapshot.row_of
        if not job.topology.allows([rows[p.node] for p in placements if p.node in rows]):
            return False
        job.lift_terminating(sim)
        table = self.world.snapshot.table
        for uid in victims:
            slot = table.slot_of.get(uid)
            if slot is not None and table.row[slot] >= 0 and not table.flags[slot] & TERMINATING:
                sim.lift(slot)
        pending = {p.uid: p for census in job.census.values() for p in census.pending}
        for place in placements:
            pod = pending.get(place.uid)
            row = sim.snapshot.row_of.get(place.node)
            if pod is None or row is None or not self.placer.pipeline.mask(self.world.snapshot.class_of(pod), sim)[row]:
                return False
            sim.place(self.world.snapshot.class_of(pod), row)
        return True
