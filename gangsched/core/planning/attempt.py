"""One decision in the making: with what is there, with what others give up, and how to say it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
import numpy as np

from gangsched.core.decision import (
    BIND,
    PREEMPT,
    UNSCHEDULABLE,
    WAIT,
    Awaited,
    Decision,
    Placement,
    Reason,
    Spared,
    Unplaced,
    Verdict,
    Victim,
)
from gangsched.core.planning.awaiting import awaited, needed
from gangsched.core.planning.placement import Placed
from gangsched.core.planning.refusal import priority_warnings
from gangsched.core.planning.topology import Domain, least_harmful
from gangsched.core.planning.trial import NOBODY, Trial
from gangsched.core.preemption import explain, protected
from gangsched.core.preemption.budgets import Budgets
from gangsched.core.preemption.owners import Owners
from gangsched.core.preemption.removal import by_suspension
from gangsched.core.preemption.search import Choice, Search
from gangsched.core.preemption.units import Units
from gangsched.core.queueing.turns import both, waits_behind
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import Bools
from gangsched.model.records import GangId, Pod


class Attempt(Trial):
    """One decision in the making: without evictions, with them, and what is said of it."""

    # -- without evictions ---------------------------------------------------------------------------------

    def without_evictions(self, outcome: str) -> Verdict | None:
        """The members in room that is there (``bind``) or that others are giving up (``wait``): those that terminate,
        or else those that plans under way remove.
        """
        if outcome == BIND:
            found = self.fit(NOBODY)
            return self.placed(BIND, *found) if found is not None and self._stays(*found) else None
        for leaving in self.futures():
            found = self.fit(leaving) if len(leaving) else None
            if found is not None:
                return self.placed(WAIT, *found)
        return None

    def _stays(self, now: Simulation, placed: Placed) -> bool:
        """Do members that fit now still fit where they are in the planned future? They may want a pod beside them that
        leaves.
        """
        pending = {p.uid: p for g in self.gangs for p in self.census[g].pending}
        class_of, pipeline = self.world.snapshot.class_of, self.placer.pipeline
        members = [(row, class_of(pending[uid])) for uid, row in placed.rows.items() if uid in pending]
        classes = {pod.ident: pod for _, pod in members}
        if all(pipeline.only_counts(pod, now) for pod in classes.values()):
            return True
        leaving = self.terminating()
        if not len(leaving):
            return True
        sim = self.simulation()
        sim.lift_all(leaving)
        for row, pod in members:
            if not pipeline.mask(pod, sim)[row]:
                return False
            sim.place(pod, row)
        return True

    def behind(self, found: Verdict) -> Verdict:
        """A verdict that the gang does not fit, with the gangs ahead named if it would fit but for what they keep."""
        if not self.ahead:
            return found
        names = [b.name for b in self.ahead]
        self.ignore_turns()
        if self.fit(NOBODY) is not None:
            found = waits_behind(found, names, self.world.turns.strict)
        return msgspec.structs.replace(found, behind=True)

    # -- preemption ----------------------------------------------------------------------------------------

    def delay(self) -> float:
        """Seconds that the gang waits for room before it evicts."""
        return self.patience.delay({g: self.census[g].pending for g in self.gangs})

    def waiting_since(self, known: float | None) -> float:
        """When the gang first could not be placed, or when its oldest pending member was created."""
        if known is not None:
            return known
        return min((p.created for g in self.gangs for p in self.census[g].pending), default=0.0)

    def search(self) -> tuple[Units, Choice | None]:
        """Look for victims, in every domain that may turn out to be the best. Without a plan, the units are all that
        may be taken anywhere.
        """
        budgets = self.budgets()
        if not self.topology.constrained:
            units, choice, _ = self._search(budgets, self.options.search_steps)
            return units, choice
        self.domain = None
        sim = self.simulation()
        self.lift_terminating(sim)
        units = self._units(self._usable(sim) & self.topology.within, budgets)
        if units.empty:
            return units, None
        demand, slots = self._demand(sim), units.everything()
        widest_first = reversed(range(len(self.topology.levels)))
        price = self._searching(units, sim, budgets, 0).price_by_domain
        ranked = [self.topology.evictable(n, demand, sim.free, slots, sim.snapshot, price) for n in widest_first]

        def search(domain: Domain, steps: int) -> tuple[Units, Choice | None, int]:
            self.domain = domain
            return self._search(budgets, steps)

        plan, left_out = least_harmful(ranked, search, self.options.search_steps)
        self.left_out |= left_out
        if plan is None:
            return units, None
        self.domain = plan.domain
        return plan.units, plan.choice

    def _search(self, budgets: Budgets, max_steps: int) -> tuple[Units, Choice | None, int]:
        """Look for victims in the present domain; the last is the number of steps spent."""
        base = self.simulation()
        self.lift_terminating(base)
        units = self._units(self._usable(base), budgets)
        if units.empty:
            return units, None, 0
        search = self._searching(units, base, budgets, max_steps)
        choice = search.run()
        self.left_out |= units.cut_short
        return units, choice, search.spent

    def _searching(self, units: Units, sim: Simulation, budgets: Budgets, max_steps: int) -> Search:
        """The search among these units, not yet begun."""
        cluster, strict = self.cluster(), self.options.strict_budgets
        return Search(
            units, sim, self.placer, self.wants, budgets, cluster, self.now, max_steps, self.watchdog, strict=strict
        )

    def _units(self, usable: Bools, budgets: Budgets) -> Units:
        """Whoever may be taken."""
        return self._units_beside((), usable, budgets)

    def _units_beside(self, queued: Collection[GangId], usable: Bools, budgets: Budgets) -> Units:
        """The same without the gangs ``queued``, of which quota decides who may be taken."""
        condemned = self.condemned() if self.world.ledger.condemned else ()
        return Units(
            self.world.snapshot,
            self.world.membership,
            self.options,
            self.gangs,
            self.priority,
            usable,
            self._unbreakable(budgets),
            self.world.ledger.binding,
            self.patience,
            self.now,
            queued,
            condemned,
            Owners(self.world, condemned) if self.world.jobs else None,
        )

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
        """The disruption budgets, those without a status computed from the pods that run now; charged for those that
        are to leave and are not counted yet.
        """
        table, world = self.world.snapshot.table, self.world
        known = world.budgets.values()
        pods: Iterable[Pod] = ()
        if any(b.allowed is None for b in known):
            pods = (p for p in table.pods if p is not None and p.live)
        found = Budgets(known, pods)
        if found:
            found.count(world.ledger.condemned.charges(self.group, (), world.now))
        return found

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
        extras = self._extras(placed, sim)
        placements = self._placements({**placed.rows, **extras.rows})
        return self._verdict(outcome, sim, placements, extras.failed, awaiting=awaiting)

    def _extras(self, placed: Placed, sim: Simulation) -> Placed:
        """Further members, in the gang's domain where they fit there, else as far around as is allowed."""
        rows: dict[str, int] = {}
        left = self._others(placed)
        for domain in self.topology.around(self.domain):
            sim.restriction = both(domain.restriction, self._kept)
            found = self.placer.extras(left, sim, self.nominated(sim))
            rows.update(found.rows)
            left = found.failed
            if not left:
                break
        return Placed(rows, left + self._refused())

    def _refused(self) -> list[Pod]:
        """Further members for which there is no quota."""
        refused = self.gate.refused if self.gate is not None else {}
        return [p for g in self.gangs for p in self.census[g].pending if p.uid in refused] if refused else []

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
        budgets = self.budgets()
        found = explain.victims(units, choice, budgets, self.options)
        victims = by_suspension(found, self.world, self.options, self.priority, budgets)
        sim, waits, placed = self._room_of(victims, choice)
        if not placed.complete:  # quota counts no pods that leave with a Job without being of the workload
            return self.unschedulable("the gang does not fit without pods that would leave with their Job", units)
        leaving = {("Pod", v.key) for v in victims}  # those that only leave with their owner too
        gone = {v.uid for v in victims}
        awaiting = self._awaiting(placed.rows, gone)
        if waits:  # further members join only where no more pods have to be awaited
            sim = self._with(placed.rows, [*gone, *(a.uid for a in awaiting)])
        extras = self._extras(placed, sim)
        rows = {**placed.rows, **extras.rows}
        return self._verdict(
            PREEMPT,
            sim,
            self._placements(rows),
            extras.failed,
            awaiting=awaiting,
            victims=victims,
            spared=tuple(s for s in explain.spared(units, choice) if (s.unit.kind, s.unit.name) not in leaving),
            warnings=explain.warnings(victims, self.world),
            stopped=choice.stopped,
            steps=choice.steps,
            choice=choice,
        )

    def _room_of(self, victims: Iterable[Victim], choice: Choice) -> tuple[Simulation, bool, Placed]:
        """The cluster without these victims and without those that terminate, whether there are any of the latter, and
        the members in it.
        """
        sim = self.simulation()
        waits = self.lift_terminating(sim)
        slot_of = self.world.snapshot.table.slot_of
        sim.lift_all(np.array(sorted(slot_of[v.uid] for v in victims), dtype=np.int64))
        return sim, waits, self.placer.required(self.wants, sim, choice.rows or self.nominated(sim))

    def unschedulable(self, why_not: str, units: Units | None) -> Verdict:
        """Say for every member why it has no node, and for the gang why evictions would not help."""
        self.domain = self._nearest(units)
        sim = self.simulation()
        placed = self.placer.required(self.wants, sim, {})
        # What the first member without a node sees once the others have theirs is what people want to read.
        failed = placed.failed or self._others(placed)
        without = {p.uid for p in failed}
        held = [p for w in self.wants for p in w.members[: w.required] if p.uid not in without]
        self.placer.extras(held, sim, {})
        reasons: tuple[Reason, ...] = ()
        unplaced: list[Unplaced] = []
        known: dict[int, tuple[Reason, ...]] = {}
        first = min(failed, key=lambda p: p.key, default=None)
        refused = self.gate.refused if self.gate is not None else {}
        for pod in (p for g in self.gangs for p in self.census[g].pending):
            if pod.uid in refused:
                unplaced.append(Unplaced(pod.key, (refused[pod.uid],)))
                reasons = reasons or (Reason(refused[pod.uid], 0),)
                continue
            if pod.uid in placed.rows and pod.uid not in without:
                unplaced.append(Unplaced(pod.key, ("fits, but the rest of its gang does not",)))
                continue
            pod_class = self.world.snapshot.class_of(pod)
            if pod_class.ident not in known:
                known[pod_class.ident] = tuple(self.placer.pipeline.diagnose(pod_class, sim)[0])
            texts = known[pod_class.ident]
            unplaced.append(Unplaced(pod.key, tuple(r.told for r in texts)))
            if first is not None and pod.uid == first.uid:
                reasons = texts
        blocked, in_the_way = self._blocked(units) if units is not None else ([], [])
        if in_the_way:
            why_not += f"; {protected.fits_without(in_the_way, self.options)}"
        message = explain.message(sim.snapshot.size, reasons, why_not, self.topology.sentence(self.domain))
        return self._verdict(
            UNSCHEDULABLE,
            sim,
            (),
            [],
            reasons=reasons,
            message=message,
            unplaced=unplaced,
            blockers=tuple(sorted(p.key for p in blocked)),
            spared=explain.not_considered(units, protected.spared(in_the_way, self.options)),
        )

    def _nearest(self, units: Units | None) -> Domain:
        """The domain to explain: the one that is closest to holding the gang, everything evicted that may be."""
        self.domain = None
        if self.topology.problem or not self.topology.constrained:
            return self.topology.nowhere
        sim = self.simulation()
        if units is not None:
            self.lift_terminating(sim)
            sim.lift_all(units.everything())
        return self.topology.nearest(self._demand(sim), sim.free)

    def _blocked(self, units: Units) -> tuple[list[Pod], list[Pod]]:
        """Required members without a node even when everything that may leave has left; and pods that are never victims
        without which the gang would fit then: a smallest set, for one of the placements that would be possible, or MOST
        of it. None if it would not fit without all of them, either.
        """
        sim = self._emptied(units)
        blocked = self.placer.required(self.wants, sim, {}).failed
        return blocked, self._in_the_way(units, sim, blocked[0]) if blocked else []

    def _in_the_way(self, units: Units, sim: Simulation, blocked: Pod) -> list[Pod]:
        table, class_of = self.world.snapshot.table, self.world.snapshot.class_of
        slots = protected.never_victims(table)
        alike = [p for w in self.wants if len(w.members) == w.required for p in w.members]
        count = sum(class_of(p) is class_of(blocked) for p in alike)
        usable = self.placer.pipeline.static_mask(class_of(blocked), sim)
        if not len(slots) or protected.room_for(class_of(blocked), sim, slots, usable) < max(1, count):
            return []
        slots = slots[~protected.no_victims_anyway(table, slots, self.gangs, self.priority, self.options)]
        sim = self._emptied(units)
        sim.lift_all(slots)
        placed = self.placer.required(self.wants, sim, {})
        if not placed.complete:
            return []
        members = {p.uid: p for want in self.wants for p in want.members}
        might_go = set(slots.tolist())
        return needed(
            self._emptied(units),
            self.placer.pipeline,
            [(row, members[uid]) for uid, row in placed.rows.items()],
            lambda p: table.slot_of[p.uid] in might_go,
            protected.MOST,
        )

    def _emptied(self, units: Units) -> Simulation:
        """The cluster without everything that may leave."""
        sim = self.simulation()
        self.lift_terminating(sim)
        sim.lift_all(units.everything())
        return sim

    def _placements(self, rows: Mapping[str, int]) -> tuple[Placement, ...]:
        names = self.world.snapshot.nodes
        return tuple(
            Placement(p.namespace, p.name, p.uid, names[rows[p.uid]].name)
            for g in self.gangs
            for p in self.census[g].pending
            if p.uid in rows
        )

    def _awaiting(self, rows: Mapping[str, int], gone: set[str] | None = None) -> tuple[Awaited, ...]:
        """The terminating pods that keep members from fitting where they are placed; ``gone`` (UIDs) do not."""
        table, leaving = self.world.snapshot.table, self.terminating()
        if not len(leaving):
            return ()
        for_quota = self.gate.awaited if self.gate is not None else ()
        sim = self.simulation()
        sim.lift_all(np.array(sorted(table.slot_of[uid] for uid in gone or ()), dtype=np.int64))
        pending = {pod.uid: pod for gang in self.gangs for pod in self.census[gang].pending}
        members = [(row, pending[uid]) for uid, row in rows.items() if uid in pending]
        found = awaited(sim, self.placer.pipeline, members, set(leaving.tolist()))
        known = {a.uid for a in found}
        found = (*found, *(a for a in for_quota if a.uid not in known))
        removed_for = self.world.ledger.condemned.removed_for
        return tuple(msgspec.structs.replace(a, plan=removed_for(a.uid)) for a in found)

    def _verdict(  # noqa: PLR0913
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
        choice: Choice | None = None,
    ) -> Verdict:
        if not unplaced and failed:
            unplaced = [Unplaced(p.key, self._texts(p, sim)) for p in failed]
        if not message:
            message = explain.summary(outcome, len(placements), victims, awaiting)
        warnings = (*warnings, *priority_warnings(self.census))
        rows = [self.world.snapshot.row_of[p.node] for p in placements]
        label = self.topology.label_of(rows) if rows else None
        quota = self.gate.use(p.uid for p in placements) if self.gate is not None else None
        decisions = []
        known = choice is not None and choice.floor is not None
        gap = choice.gap if choice is not None else None
        alone = len(self.gangs) == 1
        for gang in self.gangs:
            spec = self.world.membership.spec(gang)
            mine = set() if alone else {p.key for p in self.census[gang].pending}
            decisions.append(
                Decision(
                    gang=gang,
                    kind=spec.kind if spec is not None else "PodGroup",
                    group=tuple(g.key for g in self.gangs) if len(self.gangs) > 1 else (),
                    priority=self.priority,
                    required=self.needs[gang],
                    outcome=outcome,
                    placements=placements if alone else tuple(p for p in placements if p.key in mine),
                    unplaced=tuple(unplaced if alone else (u for u in unplaced if u.pod in mine)),
                    awaiting=awaiting,
                    victims=victims,
                    spared=spared,
                    blockers=blockers,
                    warnings=warnings,
                    reasons=reasons,
                    message=message,
                    topology_domain=label,
                    stopped=stopped or self.left_out,
                    steps=steps,
                    optimal=gap is None if known else None,
                    gap=gap,
                    quota=quota,
                )
            )
        return Verdict(outcome, tuple(decisions), victims, awaiting, placements, message)

    def _texts(self, pod: Pod, sim: Simulation) -> tuple[str, ...]:
        if self.gate is not None and pod.uid in self.gate.refused:
            return (self.gate.refused[pod.uid],)
        found, _ = self.placer.pipeline.diagnose(self.world.snapshot.class_of(pod), sim)
        return tuple(r.told for r in found)
