"""What is decided for a gang in one context, and its message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from gangsched.core.arrays import Ints, union
from gangsched.core.decision import (
    BIND,
    Awaited,
    ClaimAllocation,
    Decision,
    Fits,
    FitsWhenFreed,
    Lack,
    Placement,
    Preempt,
    QuotaUse,
    Reason,
    Unplaced,
    Unschedulable,
    Verdict,
)
from gangsched.core.ledger.backfill import both, waits_behind
from gangsched.core.placement.placer import Placed, Want
from gangsched.core.planning.context import NO_PODS, SchedulingContext
from gangsched.core.planning.headline import headline, out_of_quota
from gangsched.core.planning.topology import OUTSIDE, Domain
from gangsched.core.planning.victims import awaited, needed
from gangsched.core.preemption import explain, job_failures
from gangsched.core.preemption.harm import Budgets, render_lost_work
from gangsched.core.preemption.removal import by_suspension
from gangsched.core.preemption.search import Choice
from gangsched.core.preemption.units import Units
from gangsched.core.quota.assignment import QuotaAssignment
from gangsched.core.state.census import Census
from gangsched.core.state.simulation import Restriction, Simulation
from gangsched.core.world.world import World
from gangsched.messages import causes, devices, notes
from gangsched.messages.text import join_names
from gangsched.model.records import SINGLE, GangId, Pod

#: So many domains of parts are named.
_NAMED = 4


def verdict(
    kind: type[Decision],
    world: World,
    census: Mapping[GangId, Census],
    message: str,
    unplaced: Sequence[Unplaced],
    placements: Sequence[Placement] = (),
    **fields: Any,
) -> Verdict:
    """A decision of this kind for each of these gangs, with the members of its own; ``fields`` are what else it has."""
    membership, gangs = world.membership, tuple(census)
    priority, alone = membership.preemptor_priority(gangs), len(gangs) == 1
    decisions = []
    for gang, members in census.items():
        spec = membership.spec(gang)
        mine = set() if alone else {p.key for p in (*members.pending, *members.gated)}
        if placements:
            fields["placements"] = tuple(p for p in placements if alone or p.key in mine)
        said: dict[str, Any] = {
            "gang": gang,
            "kind": spec.kind if spec is not None else SINGLE if gang.family == SINGLE else "PodGroup",
            "group": () if alone else tuple(g.key for g in gangs),
            "priority": priority,
            "required": membership.required(gang, members),
            "unplaced": tuple(u for u in unplaced if alone or u.pod in mine),
            "message": message,
        }
        decisions.append(kind(**said, **fields))
    return Verdict(tuple(decisions))


def refused(kind: type[Decision], world: World, gangs: Sequence[GangId], problem: str, **fields: Any) -> Verdict:
    """The same words about every member; no node was looked at."""
    census = {gang: world.membership.census(gang) for gang in gangs}
    unplaced = [Unplaced(p.key, (problem,)) for found in census.values() for p in (*found.pending, *found.gated)]
    return verdict(kind, world, census, problem, unplaced, **fields)


def with_more(first: Verdict, more: Verdict) -> Verdict:
    """The decision to bind gangs with that about their further members, which was made later."""
    placed = len(first.placements) + len(more.placements)
    later = {d.gang: d for d in more.decisions}
    message = explain.summary(BIND, placed, (), ())
    return Verdict(
        tuple(
            msgspec.structs.replace(
                d,
                placements=(*d.placements, *later[d.gang].placements),
                unplaced=later[d.gang].unplaced,
                message=message,
                quota=_used_together(d.quota, later[d.gang].quota),
            )
            for d in first.decisions
        )
    )


def _used_together(first: QuotaUse | None, more: QuotaUse | None) -> QuotaUse | None:
    if first is None or more is None or not more.by_pod:
        return first
    return msgspec.structs.replace(more, by_pod={**first.by_pod, **more.by_pod}, short=first.short)


def without_quota(
    world: World,
    gangs: Sequence[GangId],
    gate: QuotaAssignment,
    why_not: str = "",
    stopped: bool = False,
    **fields: Any,
) -> Verdict:
    """Say to every pending member what quota the flavors of ``gate`` lack, and why none is displaced for it; nothing
    is simulated. ``stopped`` says that the search for victims was cut short.
    """
    short = gate.assignment.message
    census = {gang: world.membership.census(gang) for gang in gangs}
    return verdict(
        Unschedulable,
        world,
        census,
        f"{short}. preemption: {why_not}" if why_not else short,
        [Unplaced(p.key, (short,)) for members in census.values() for p in members.pending],
        warnings=priority_warnings(census),
        headline=out_of_quota(gate),
        reasons=(Reason(short, 0),),
        stopped=stopped,
        quota=msgspec.structs.replace(gate.use(()), lacks=_lacks(gate)),
        short_of_quota=True,
        **fields,
    )


def _lacks(gate: QuotaAssignment) -> tuple[Lack, ...]:
    refusing = [each for each in gate.assignment.pod_sets if each.problems]
    found = refusing[-1].shortages if refusing else ()
    return tuple(Lack(s.flavor, s.resource, s.asked, s.left, s.most) for s in found)


def priority_warnings(census: Mapping[GangId, Census]) -> tuple[str, ...]:
    """The gangs whose members differ in priority, a sentence each."""
    out = []
    for gang, members in census.items():
        found = {p.priority for p in (*members.pending, *members.bound)}
        if len(found) > 1:
            listed = ", ".join(map(str, sorted(found)))
            out.append(causes.priorities_differ(gang=gang.key, priorities=listed))
    return tuple(out)


class Outcomes:
    """The decisions that may come of one context."""

    def __init__(self, context: SchedulingContext) -> None:
        self.context = context
        self._world = context.world
        self._snapshot = context.world.snapshot

    # -- without evictions ---------------------------------------------------------------------------------

    def in_free_room(self) -> Verdict | None:
        """The members in room that is there."""
        found = self.context.fit(NO_PODS)
        if found is None or not self.context.stays(*found):
            return None
        sim, placed = found
        if self.context.asked.minimum_first and self.context.required:
            return self._verdict(Fits, sim, placed.rows, [])
        extras = self._extras(placed, sim)
        return self._verdict(Fits, sim, {**placed.rows, **extras.rows}, extras.failed)

    def in_freed_room(self) -> Verdict | None:
        """The members in room that others are giving up: those that terminate, or else those that plans under way
        remove.
        """
        futures = (leaving for leaving in self.context.futures() if len(leaving))
        return next((found for leaving in futures if (found := self.once_gone(leaving)) is not None), None)

    def once_gone(self, leaving: Ints) -> Verdict | None:
        """The members where they fit once these pods (slots) are gone; further members join where there is room without
        more waiting.
        """
        found = self.context.fit(leaving)
        if found is None:
            return None
        _, placed = found
        awaiting = self._awaiting(placed.rows)
        sim = self._with(placed.rows, (a.uid for a in awaiting))
        extras = self._extras(placed, sim)
        rows = {**placed.rows, **extras.rows}
        if not awaiting:
            return self._verdict(Fits, sim, rows, extras.failed)
        return self._verdict(FitsWhenFreed, sim, rows, extras.failed, awaiting=awaiting)

    def _extras(self, placed: Placed, sim: Simulation) -> Placed:
        """Further members, in the gang's domain where they fit there, else as far around as is allowed."""
        context = self.context
        rows: dict[str, int] = {}
        if context.parts is not None:
            rows, assignment = context.further_parts(sim, placed.rows)
            context.assign(assignment)
            placed = Placed({**placed.rows, **rows}, placed.failed)
        left = context.others(placed)
        if left:
            context.hold_later(sim)
        for domain in context.topology.around(context.domain):
            sim.restriction = both(domain.restriction, context.ahead_restriction)
            found = context.placer.extras(left, sim, context.nominated(sim))
            rows.update(found.rows)
            left = found.failed
            if not left:
                break
        return Placed(rows, left + [p for p in context.pending if p.uid in context.gate.refused])

    def _with(self, rows: Mapping[str, int], leaving: Iterable[str]) -> Simulation:
        """The cluster with these members placed and these pods (UIDs) gone."""
        sim = self.context.simulation(self.context.slots(leaving))
        for pod in self.context.pending:
            if pod.uid in rows:
                sim.place(self._snapshot.class_of(pod), rows[pod.uid])
        return sim

    def _awaiting(self, rows: Mapping[str, int], gone: Iterable[str] = ()) -> tuple[Awaited, ...]:
        """The terminating pods that keep members from fitting where they are placed; ``gone`` (UIDs) do not."""
        context, leaving = self.context, self.context.terminating()
        if not len(leaving):
            return ()
        pending = {pod.uid: pod for pod in context.pending}
        members = [(row, pending[uid]) for uid, row in rows.items() if uid in pending]
        found = awaited(
            context.simulation(context.slots(gone)), context.placer.pipeline, members, set(leaving.tolist())
        )
        known = {a.uid for a in found}
        found = (*found, *(a for a in context.gate.awaited if a.uid not in known))
        removed_for = self.context.ledger.condemned.removed_for
        return tuple(msgspec.structs.replace(a, plan=removed_for(a.uid)) for a in found)

    # -- with victims --------------------------------------------------------------------------------------

    def preempt(self, units: Units, choice: Choice, budgets: Budgets) -> Verdict | None:
        """The victims are known: place the members in the room that they leave. None when they do not fit there."""
        context = self.context
        found = explain.victims(units, choice, budgets, context.options)
        victims = by_suspension(
            found, self._world, context.ledger.condemned, context.options, context.priority, budgets
        )
        gone = sorted(v.uid for v in victims)
        slots = [self._snapshot.table.slot_of[uid] for uid in gone]
        sim = context.planned(context.slots(gone))
        placed = context.placer.required(context.wants, sim, choice.rows or context.nominated(sim))
        if not placed.complete:  # quota counts no pods that leave with a Job without being of the workload
            return None
        awaiting = self._awaiting(placed.rows, gone)
        if len(context.terminating()):  # further members join only where no more pods have to be awaited
            sim = self._with(placed.rows, [*gone, *(a.uid for a in awaiting)])
        extras = self._extras(placed, sim)
        lost = render_lost_work(map(units.pod, slots), slots, units.unsaved, units.now)
        return self._verdict(
            Preempt,
            sim,
            {**placed.rows, **extras.rows},
            extras.failed,
            awaiting=awaiting,
            victims=victims,
            spared=explain.spared(units, choice, victims),
            warnings=job_failures.warnings(victims, self._world, context.ledger.condemned),
            stopped=choice.stopped or context.left_out,
            steps=choice.steps,
            optimal=choice.gap is None if choice.floor is not None else None,
            gap=choice.gap,
            lost=lost,
        )

    def with_announced(self, found: Verdict) -> Verdict | None:
        """The verdict on members that exist, with the room that is free then for those that are announced; None if not
        all of these have some.
        """
        context, names = self.context, self._snapshot.nodes
        absent, rows = context.absent(), self._snapshot.row_of
        sim = context.planned(context.slots(victim.uid for victim in found.victims))
        pending = {pod.uid: pod for pod in context.pending}
        for place in found.placements:
            sim.place(self._snapshot.class_of(pending[place.uid]), rows[place.node])
        placed = context.placer.required([Want(tuple(absent), len(absent))], sim, {})
        if not placed.complete:
            return None
        announced = tuple((pod, names[placed.rows[pod.uid]].name) for pod in absent)
        return found.but(announced=announced, message=found.message + causes.AND_ROOM_FOR_ANNOUNCED)

    # -- neither -------------------------------------------------------------------------------------------

    def unschedulable(self, why_not: str, units: Units | None) -> Verdict:
        """Say for every member why it has no node, and for the gang why evictions would not help."""
        context = self.context
        domain = context.domain = self._nearest(units)
        sim = context.simulation()
        placed = context.placer.required(context.wants, sim, {})
        # What the first member without a node sees once the others have theirs is what people want to read.
        failed = placed.failed or context.others(placed)
        without = {p.uid for p in failed}
        held = [p for w in context.wants for p in w.members[: w.required] if p.uid not in without]
        context.placer.extras(held, sim, {})
        first = min(failed, key=lambda p: (p.uid in context.announced, p.key), default=None)
        reasons: tuple[Reason, ...] = ()
        unplaced: list[Unplaced] = []
        known: dict[int, tuple[Reason, ...]] = {}
        for pod in context.pending:
            quota = context.gate.refused.get(pod.uid)
            if quota is not None:
                unplaced.append(Unplaced(pod.key, (quota,)))
                reasons = reasons or (Reason(quota, 0),)
                continue
            if pod.uid not in context.announced and pod.uid in placed.rows and pod.uid not in without:
                unplaced.append(Unplaced(pod.key, (causes.REST_OF_GANG_DOES_NOT_FIT,)))
                continue
            pod_class = self._snapshot.class_of(pod)
            if pod_class.ident not in known:
                known[pod_class.ident] = tuple(context.placer.pipeline.diagnose(pod_class, sim)[0])
            texts = known[pod_class.ident]
            if pod.uid not in context.announced:
                unplaced.append(Unplaced(pod.key, tuple(r.sentence for r in texts)))
            if first is not None and pod.uid == first.uid:
                reasons = texts
        blocked, in_the_way = self._blocked(units) if units is not None else ([], [])
        if in_the_way:
            why_not += f"; {explain.fits_without(in_the_way, context.options)}"
        return self._verdict(
            Unschedulable,
            sim,
            {},
            [],
            headline=headline(context, first, max(0, context.required - len(placed.failed)), reasons)
            if context.required
            else None,
            reasons=reasons,
            message=(causes.FOR_ANNOUNCED if first is not None and first.uid in context.announced else "")
            + explain.message(sim.snapshot.size, reasons, why_not, self._about_domains(domain)),
            unplaced=unplaced,
            blockers=tuple(sorted(p.key for p in blocked if p.uid not in context.announced)),
            spared=explain.not_considered(units, explain.in_the_way(in_the_way, context.options)),
        )

    def _about_domains(self, domain: Domain) -> str:
        """Notes about domains beside the reasons of the nodes."""
        context, lack = self.context, self.context.lack()
        if context.parts is None or context.topology.problem:
            return context.topology.sentence(domain)
        if lack is not None:
            return causes.part_lacks(
                part=lack.part, keys=lack.keys, domain=lack.domain, found=lack.found, members=lack.members
            )
        keys, count = context.parts.levels
        return causes.parts_lack(keys=keys, count=count)

    def behind(self, found: Verdict) -> Verdict:
        """A verdict that the gang does not fit, with the gangs ahead named if it would fit but for what they keep."""
        context = self.context
        if not context.ahead:
            return found
        names = [b.name for b in context.ahead]
        context.ignore_turns()
        if context.fit(NO_PODS) is not None:
            found = waits_behind(found, names, self.context.ledger.turns.strict)
        return found.but(behind=True)

    def _nearest(self, units: Units | None) -> Domain:
        """The domain to explain: the one that is closest to holding the gang, everything evicted that may be."""
        context = self.context
        context.domain = None
        if context.parts is not None:
            if not context.topology.problem:
                context.assign_nearest(NO_PODS if units is None else union(context.terminating(), units.everything()))
            if context.topology.problem or context.parts.assignment is None:
                nothing = np.zeros(self._snapshot.size, dtype=np.bool_)
                return Domain(0, -1, "", Restriction(nothing, ((OUTSIDE, ~nothing),)))
        if context.topology.problem or not context.topology.constrained:
            return context.topology.nowhere
        sim = context.simulation() if units is None else context.planned(units.everything())
        return context.topology.nearest(context.demand(sim), sim.free)

    def _blocked(self, units: Units) -> tuple[list[Pod], list[Pod]]:
        """Required members without a node even when everything that may leave has left, and pods in their way. The
        latter are never victims, and without them the gang would fit then. They are a smallest set, for one of the
        possible placements, or MOST_IN_THE_WAY of it. None if the gang would not fit without all of them, either.
        """
        sim = self.context.planned(units.everything())
        blocked = self.context.placer.required(self.context.wants, sim, {}).failed
        return blocked, self._in_the_way(units, sim, blocked[0]) if blocked else []

    def _in_the_way(self, units: Units, sim: Simulation, blocked: Pod) -> list[Pod]:
        context, table, class_of = self.context, self._snapshot.table, self._snapshot.class_of
        slots = explain.never_victims(table)
        alike = [p for w in context.wants if len(w.members) == w.required for p in w.members]
        count = sum(class_of(p) is class_of(blocked) for p in alike)
        usable = context.placer.pipeline.static_mask(class_of(blocked), sim)
        if not len(slots) or explain.room_for(class_of(blocked), sim, slots, usable) < max(1, count):
            return []
        slots = slots[~explain.no_victims_anyway(table, slots, context.gangs, context.priority, context.options)]
        everything = units.everything()
        sim = context.planned(union(everything, slots))
        placed = context.placer.required(context.wants, sim, {})
        if not placed.complete:
            return []
        members = {p.uid: p for want in context.wants for p in want.members}
        might_go = set(slots.tolist())
        return needed(
            context.planned(everything),
            context.placer.pipeline,
            [(row, members[uid]) for uid, row in placed.rows.items()],
            lambda p: table.slot_of[p.uid] in might_go,
            explain.MOST_IN_THE_WAY,
        )

    # -- messages ------------------------------------------------------------------------------------------

    def _verdict(
        self,
        kind: type[Decision],
        sim: Simulation,
        rows: Mapping[str, int],
        failed: Sequence[Pod],
        *,
        message: str = "",
        lost: str = "",
        unplaced: Sequence[Unplaced] = (),
        warnings: tuple[str, ...] = (),
        **fields: Any,
    ) -> Verdict:
        """The members of ``rows`` are placed, those that ``failed`` in this simulation are not."""
        context, names = self.context, self._snapshot.nodes
        members = [p for p in context.pending if p.uid in rows and p.uid not in context.announced]
        announced = tuple((pod, names[rows[uid]].name) for uid, pod in context.announced.items() if uid in rows)
        chosen = self._devices(members, rows) if kind is Fits else {}
        if chosen is None:  # nothing is bound without its devices
            return refused(Unschedulable, self._world, context.gangs, devices.CHOICE_STOPPED)
        placements = [
            Placement(p.namespace, p.name, p.uid, names[rows[p.uid]].name, chosen.get(p.uid, ())) for p in members
        ]
        placed = {p.uid for p in members}
        victims, awaiting = fields.get("victims", ()), fields.get("awaiting", ())
        return verdict(
            kind,
            self._world,
            context.census,
            message
            or explain.summary(kind.outcome, len(placements), victims, awaiting, lost)
            + (causes.AND_ROOM_FOR_ANNOUNCED if announced else ""),
            unplaced or [Unplaced(p.key, self._texts(p, sim)) for p in failed],
            placements,
            announced=announced,
            warnings=(*warnings, *priority_warnings(context.census)),
            topology_domain=self._domain_of([rows[p.uid] for p in members]) if members else None,
            quota=context.gate.use(uid for uid in rows if uid in context.announced or uid in placed),
            **{"stopped": context.left_out, **fields},
        )

    def _devices(
        self, members: Sequence[Pod], rows: Mapping[str, int]
    ) -> dict[str, tuple[ClaimAllocation, ...]] | None:
        """Return the devices of the members' claims that have none, by UID: chosen for all of them at once. None if the
        search was stopped.
        """
        if all(p.devices is None for p in members):
            return {}
        sim = self.context.simulation()
        placed = [(p, sim.class_of(p), rows[p.uid]) for p in members]
        for _, pod_class, row in placed:
            sim.place(pod_class, row)
        return sim.devices.chosen([(p, c.ident, row) for p, c, row in placed if p.devices is not None])

    def _domain_of(self, rows: Sequence[int]) -> str | None:
        """The label of the domain of the members in these rows, or those of their parts."""
        parts = self.context.parts
        return self.context.topology.label_of(rows) if parts is None else join_names(parts.domains(), _NAMED) or None

    def _texts(self, pod: Pod, sim: Simulation) -> tuple[str, ...]:
        quota = self.context.gate.refused.get(pod.uid)
        if quota is not None:
            return (quota,)
        found, _ = self.context.placer.pipeline.diagnose(self._snapshot.class_of(pod), sim)
        return tuple(r.sentence for r in found)


def with_what_is_bound(world: World, gangs: Sequence[GangId], message: str, tried: str) -> str:
    """Why the gangs do not fit. If they are bound in part, it says so, and what is ``tried``: their members hold room
    without doing anything, and are not evicted because of that.
    """
    membership = world.membership
    if not message or not membership.half_bound(gangs):
        return message
    bound = sum(len(membership.census(gang).bound) for gang in gangs)
    needed = sum(membership.lacking(gangs))
    return notes.bound_in_part(message=message.rstrip("."), bound=bound, needed=needed, tried=tried)
