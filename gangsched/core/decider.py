"""The decision for one gang or GangGroup: fits, fits when terminating pods are gone, fits after evictions, or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from gangsched.core.decision import (
    BIND,
    GATHERING,
    PREEMPT,
    UNSCHEDULABLE,
    WAIT,
    Awaited,
    Decision,
    Placement,
    Reason,
    Spared,
    Unplaced,
    Victim,
)
from gangsched.core.options import Options
from gangsched.core.pipeline import default_pipeline
from gangsched.core.placement import Placed, Placer, Want
from gangsched.core.podtable import TERMINATING
from gangsched.core.preemption import explain
from gangsched.core.preemption.budgets import Budgets
from gangsched.core.preemption.fit import Fit, fit_for
from gangsched.core.preemption.planner import Choice, Search
from gangsched.core.preemption.units import Units
from gangsched.core.simulation import Phantom, Simulation
from gangsched.core.snapshot import Bools, Ints
from gangsched.core.world import World
from gangsched.model.records import PREEMPT_NEVER, GangId, Pod


class Verdict(msgspec.Struct, frozen=True):
    """The decisions of all gangs of a group, which share one outcome."""

    outcome: str
    decisions: tuple[Decision, ...]
    victims: tuple[Victim, ...] = ()
    awaiting: tuple[Awaited, ...] = ()
    placements: tuple[Placement, ...] = ()
    message: str = ""


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
    ) -> Verdict:
        """Decide the gangs of one group together.

        ``group`` is the key under which it holds room. ``prefer`` names, by UID, the node to try first; without
        it a member's own nomination is.
        """
        job = _Job(self, gangs, group, now, prefer)
        for lift, outcome in ((False, BIND), (True, WAIT)):
            sim = job.simulation()
            # Members beyond the minimum join where there is room now; nothing is held up for them.
            if lift and (not job.required or not job.lift_terminating(sim)):
                continue
            placed = self.placer.required(job.wants, sim, job.nominated(sim))
            if placed.complete and job.anything(placed, sim):
                return job.placed(outcome, sim, placed)
        why_not = ""
        choice: Choice | None = None
        units: Units | None = None
        if not job.required:
            why_not = ""
        elif not may_preempt:
            why_not = "not eligible: enough evicting rounds for now"
        elif self.world.membership.policy(gangs) == PREEMPT_NEVER:
            why_not = "not eligible due to preemptionPolicy=Never."
        else:
            units, choice = job.search()
            if choice is None:
                why_not = explain.no_plan(units)
        if choice is None or units is None:
            return job.unschedulable(why_not, units)
        return job.preempt(units, choice)

    def still_holds(
        self,
        gangs: Sequence[GangId],
        group: str,
        now: float,
        placements: Sequence[Placement],
        victims: Iterable[str],
    ) -> bool:
        """Would these members still fit on these nodes once the victims (UIDs) and terminating pods are gone?"""
        job = _Job(self, gangs, group, now, {})
        sim = job.simulation()
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


class _Job:
    """One decision in the making."""

    def __init__(
        self, decider: Decider, gangs: Sequence[GangId], group: str, now: float, prefer: Mapping[str, str]
    ) -> None:
        self.prefer = prefer
        self.world = decider.world
        self.options = decider.options
        self.placer = decider.placer
        self.gangs = tuple(gangs)
        self.group = group
        self.now = now
        member = self.world.membership
        self.priority = member.preemptor_priority(gangs)
        self.census = {g: member.census(g) for g in self.gangs}
        self.needs = {g: member.required(g, self.census[g]) for g in self.gangs}
        self.wants = [Want(tuple(self.census[g].pending), self.needs[g]) for g in self.gangs if self.needs[g]]
        self.required = sum(self.needs.values())

    # -- simulations ---------------------------------------------------------------------------------------

    def simulation(self) -> Simulation:
        """The cluster as this gang may see it: room held by others of at least its priority is taken."""
        return Simulation(self.world.snapshot, self._held())

    def _held(self) -> Iterable[Phantom]:
        for group in sorted(self.world.held):
            if group != self.group:
                yield from (p for p in self.world.held[group] if p.priority >= self.priority)

    def lift_terminating(self, sim: Simulation) -> bool:
        """Take the pods that are on their way out off their nodes; False when there are none."""
        table = self.world.snapshot.table
        slots = table.occupied()
        leaving: Ints = slots[(table.flags[slots] & TERMINATING) != 0]
        sim.lift_all(leaving)
        return bool(len(leaving))

    def nominated(self, sim: Simulation) -> dict[str, int]:
        """Rows that members are already nominated to; they are tried first."""
        rows = sim.snapshot.row_of
        wishes = (
            (p.uid, self.prefer.get(p.uid) or p.nominated_node) for g in self.gangs for p in self.census[g].pending
        )
        return {uid: rows[node] for uid, node in wishes if node in rows}

    def anything(self, placed: Placed, sim: Simulation) -> bool:
        """With nothing required, a decision to bind needs at least one further member that fits."""
        if self.required:
            return True
        mark = sim.mark()
        extras = self.placer.extras(self._others(placed), sim, self.nominated(sim))
        sim.rollback(mark)
        return bool(extras.rows)

    def _others(self, placed: Placed) -> list[Pod]:
        return [p for g in self.gangs for p in self.census[g].pending if p.uid not in placed.rows]

    # -- preemption ----------------------------------------------------------------------------------------

    def search(self) -> tuple[Units, Choice | None]:
        """Look for victims."""
        base = self.simulation()
        self.lift_terminating(base)
        usable = self._usable(base)
        budgets = self.budgets()
        units = Units(
            self.world.snapshot,
            self.world.membership,
            self.options,
            self.gangs,
            self.priority,
            usable,
            self._unbreakable(budgets),
            self.world.binding,
        )
        if units.empty:
            return units, None
        start = base.mark()

        def fresh() -> Fit:
            base.rollback(start)
            return fit_for(base, self.placer, self.wants)

        search = Search(units, fresh, budgets, self.cluster(), self.now, self.options.search_steps)
        choice = search.run()
        if choice is not None and self.options.strict_budgets and choice.harm.beyond_budget:
            return units, None
        return units, choice

    def _unbreakable(self, budgets: Budgets) -> frozenset[int]:
        """In strict mode: slots of lower-priority pods that their budgets do not let go."""
        if not self.options.strict_budgets or not budgets:
            return frozenset()
        table = self.world.snapshot.table
        lower = [p for p in table.pods if p is not None and p.live and p.priority < self.priority]
        return frozenset(table.slot_of[uid] for uid in budgets.unbreakable(lower))

    def _usable(self, sim: Simulation) -> Bools:
        usable = np.zeros(sim.snapshot.size, dtype=np.bool_)
        seen = set()
        for want in self.wants:
            for pod in want.members:
                pod_class = self.world.snapshot.class_of(pod)
                if pod_class.ident not in seen:
                    seen.add(pod_class.ident)
                    usable |= self.placer.pipeline.static_mask(pod_class, sim)
        return usable

    def budgets(self) -> Budgets:
        """The disruption budgets, those without a status computed from the pods that run now."""
        table = self.world.snapshot.table
        known = self.world.budgets.values()
        pods: Iterable[Pod] = ()
        if any(b.allowed is None for b in known):
            pods = (p for p in table.pods if p is not None and p.live)
        return Budgets(known, pods)

    def cluster(self) -> Mapping[str, float]:
        """Allocatable of each resource in the whole cluster."""
        snapshot = self.world.snapshot
        return dict(zip(snapshot.resources, snapshot.allocatable.sum(axis=1).tolist(), strict=True))

    # -- outcomes ------------------------------------------------------------------------------------------

    def placed(self, outcome: str, sim: Simulation, placed: Placed) -> Verdict:
        """All required members have a node; further members join where there is room without more waiting."""
        awaiting = self._awaiting(placed.rows) if outcome == WAIT else ()
        if outcome == WAIT:
            sim = self._with(placed.rows, [a.uid for a in awaiting])
        if outcome == WAIT and not awaiting:
            outcome = BIND
        extras = self.placer.extras(self._others(placed), sim, self.nominated(sim))
        placements = self._placements({**placed.rows, **extras.rows})
        return self._verdict(outcome, sim, placements, extras.failed, awaiting=awaiting)

    def _with(self, rows: Mapping[str, int], leaving: Iterable[str]) -> Simulation:
        """The cluster with these members placed and these pods (UIDs) gone."""
        sim = self.simulation()
        table = self.world.snapshot.table
        sim.lift_all(np.array(sorted(table.slot_of[uid] for uid in leaving), dtype=np.int64))
        for gang in self.gangs:
            for pod in self.census[gang].pending:
                if pod.uid in rows:
                    sim.place(self.world.snapshot.class_of(pod), rows[pod.uid])
        return sim

    def preempt(self, units: Units, choice: Choice) -> Verdict:
        """The victims are known: place the members in the room that they leave."""
        sim = self.simulation()
        self.lift_terminating(sim)
        sim.lift_all(np.array(sorted(choice.taken), dtype=np.int64))
        placed = self.placer.required(self.wants, sim, choice.rows or self.nominated(sim))
        if not placed.complete:  # pragma: no cover - the search has placed the same members in the same room
            return self.unschedulable("the plan could not be placed", units)
        victims = explain.victims(units, choice, self.budgets(), self.options)
        gone = {v.uid for v in victims}
        awaiting = self._awaiting(placed.rows, gone)
        sim = self._with(placed.rows, [*gone, *(a.uid for a in awaiting)])
        extras = self.placer.extras(self._others(placed), sim, self.nominated(sim))
        rows = {**placed.rows, **extras.rows}
        return self._verdict(
            PREEMPT,
            sim,
            self._placements(rows),
            extras.failed,
            awaiting=awaiting,
            victims=victims,
            spared=explain.spared(units, choice),
            warnings=explain.warnings(victims, self.world),
            stopped=choice.stopped,
            steps=choice.steps,
        )

    def unschedulable(self, why_not: str, units: Units | None) -> Verdict:
        """Say for every member why it has no node, and for the gang why evictions would not help."""
        sim = self.simulation()
        placed = self.placer.required(self.wants, sim, {})
        # What the first member without a node sees once the others have theirs is what people want to read.
        failed = placed.failed or self._others(placed)
        held = [p for w in self.wants for p in w.members[: w.required] if p.uid not in {f.uid for f in failed}]
        self.placer.extras(held, sim, {})
        reasons: tuple[Reason, ...] = ()
        unplaced: list[Unplaced] = []
        known: dict[int, tuple[Reason, ...]] = {}
        first = min(failed, key=lambda p: p.key, default=None)
        without = {p.uid for p in failed}
        for pod in (p for g in self.gangs for p in self.census[g].pending):
            if pod.uid in placed.rows and pod.uid not in without:
                unplaced.append(Unplaced(pod.key, ("fits, but the rest of its gang does not",)))
                continue
            pod_class = self.world.snapshot.class_of(pod)
            if pod_class.ident not in known:
                known[pod_class.ident] = tuple(self.placer.pipeline.diagnose(pod_class, sim)[0])
            texts = known[pod_class.ident]
            unplaced.append(Unplaced(pod.key, tuple(f"{r.nodes} {r.text}" for r in texts)))
            if first is not None and pod.uid == first.uid:
                reasons = texts
        message = explain.message(sim.snapshot.size, reasons, why_not)
        blockers = tuple(sorted(p.key for p in self._blockers(units))) if units is not None else ()
        return self._verdict(
            UNSCHEDULABLE,
            sim,
            (),
            [],
            reasons=reasons,
            message=message,
            unplaced=unplaced,
            blockers=blockers,
            spared=explain.not_considered(units),
        )

    def _blockers(self, units: Units) -> list[Pod]:
        """Required members without a node even when everything that may leave has left."""
        sim = self.simulation()
        self.lift_terminating(sim)
        sim.lift_all(units.everything())
        return self.placer.required(self.wants, sim, {}).failed

    def _placements(self, rows: Mapping[str, int]) -> tuple[Placement, ...]:
        names = self.world.snapshot.nodes
        return tuple(
            Placement(p.namespace, p.name, p.uid, names[rows[p.uid]].name)
            for g in self.gangs
            for p in self.census[g].pending
            if p.uid in rows
        )

    def _awaiting(self, rows: Mapping[str, int], gone: set[str] | None = None) -> tuple[Awaited, ...]:
        """The terminating pods on placed nodes without which the members do not fit there."""
        table = self.world.snapshot.table
        if not (table.flags[table.occupied()] & TERMINATING).any():
            return ()
        sim = self.simulation()
        sim.lift_all(np.array(sorted(table.slot_of[uid] for uid in gone or ()), dtype=np.int64))
        by_row: dict[int, list[Pod]] = {}
        for gang in self.gangs:
            for pod in self.census[gang].pending:
                if pod.uid in rows:
                    by_row.setdefault(rows[pod.uid], []).append(pod)
        out: list[Awaited] = []
        for row in sorted(by_row):
            node = self.world.snapshot.nodes[row].name
            leaving = [p for p in self.world.snapshot.pods_on(node) if p.deleting_since is not None]
            if not leaving:
                continue
            leaving.sort(key=lambda p: p.key)
            for pod in leaving:
                sim.lift(table.slot_of[pod.uid])
            for pod in leaving:
                sim.drop(table.slot_of[pod.uid])
                if not self._holds(sim, row, by_row[row]):
                    sim.lift(table.slot_of[pod.uid])
                    out.append(Awaited(pod.key, node, pod.uid))
            for member in by_row[row]:
                sim.place(self.world.snapshot.class_of(member), row)
        return tuple(out)

    def _holds(self, sim: Simulation, row: int, members: Sequence[Pod]) -> bool:
        """Do these members fit on this node now?"""
        mark = sim.mark()
        fits = True
        for pod in members:
            pod_class = self.world.snapshot.class_of(pod)
            if not self.placer.pipeline.mask(pod_class, sim)[row]:
                fits = False
                break
            sim.place(pod_class, row)
        sim.rollback(mark)
        return fits

    def _verdict(
        self,
        outcome: str,
        sim: Simulation,
        placements: tuple[Placement, ...],
        failed: Sequence[Pod],
        *,
        awaiting: tuple[Awaited, ...] = (),
        victims: tuple[Victim, ...] = (),
        spared: tuple[Spared, ...] = (),
        warnings: tuple[str, ...] = (),
        reasons: tuple[Reason, ...] = (),
        message: str = "",
        unplaced: Sequence[Unplaced] = (),
        blockers: tuple[str, ...] = (),
        stopped: bool = False,
        steps: int = 0,
    ) -> Verdict:
        if not unplaced and failed:
            unplaced = [Unplaced(p.key, self._texts(p, sim)) for p in failed]
        if not message:
            message = explain.summary(outcome, len(placements), victims, awaiting)
        warnings = (*warnings, *self._priority_warnings())
        decisions = []
        for gang in self.gangs:
            spec = self.world.membership.spec(gang)
            mine = {p.key for p in self.census[gang].pending}
            decisions.append(
                Decision(
                    gang=gang,
                    kind=spec.kind if spec is not None else "PodGroup",
                    group=tuple(g.key for g in self.gangs) if len(self.gangs) > 1 else (),
                    priority=self.priority,
                    required=self.needs[gang],
                    outcome=outcome,
                    placements=tuple(p for p in placements if p.key in mine),
                    unplaced=tuple(u for u in unplaced if u.pod in mine),
                    awaiting=awaiting,
                    victims=victims,
                    spared=spared,
                    blockers=blockers,
                    warnings=warnings,
                    reasons=reasons,
                    message=message,
                    stopped=stopped,
                    steps=steps,
                )
            )
        return Verdict(outcome, tuple(decisions), victims, awaiting, placements, message)

    def _texts(self, pod: Pod, sim: Simulation) -> tuple[str, ...]:
        found, _ = self.placer.pipeline.diagnose(self.world.snapshot.class_of(pod), sim)
        return tuple(f"{r.nodes} {r.text}" for r in found)

    def _priority_warnings(self) -> tuple[str, ...]:
        out = []
        for gang in self.gangs:
            found = {p.priority for p in (*self.census[gang].pending, *self.census[gang].bound)}
            if len(found) > 1:
                listed = ", ".join(map(str, sorted(found)))
                out.append(f"members of {gang.key} differ in priority ({listed}); the lowest counts")
        return tuple(out)
