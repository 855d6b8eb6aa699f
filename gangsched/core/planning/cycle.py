"""The one way from a gang to its decision.

What quota makes of the gang comes first: the flavors of its queue are tried in the order in which the queue rules have
them, and in each the members must fit both into what is left of the quota and on nodes of the flavor. A gang without a
queue is tried once, as it is. If it fits in none, victims are looked for in the same order (and before the next flavor
is tried, where the queue's rules stop at one in which workloads would be evicted). No pod is evicted unless the gang
then has its quota and its nodes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

import msgspec

from gangsched.core.agenda import Watchdog
from gangsched.core.decision import BIND, Fits, Placement, QuotaUse, Unschedulable, Verdict
from gangsched.core.options import Options
from gangsched.core.placement.placer import Placer
from gangsched.core.planning.context import SchedulingContext
from gangsched.core.planning.outcomes import Outcomes, refused, without_quota
from gangsched.core.planning.victims import VictimsOf
from gangsched.core.preemption import explain
from gangsched.core.preemption.budgets import Budgets
from gangsched.core.preemption.patience import delayed
from gangsched.core.preemption.units import Units
from gangsched.core.quota.assignment import NO_QUOTA, NoQuota, QuotaAssignment
from gangsched.core.quota.flavors import Assignment, Chosen, Mode
from gangsched.core.world.world import World, queue_order
from gangsched.messages import causes
from gangsched.messages.text import listed
from gangsched.model.records import PREEMPT_NEVER, GangId
from gangsched.model.times import render_time

#: Flavors that are tried one after another for one gang.
_MAX_FLAVORS = 64
#: So many workloads that are spared are named in a message.
_NAMED = 3
#: Quota is out of reach: not even evictions would give it to the gang.
_OUT_OF_REACH = (Mode.NO_FIT, Mode.NO_CANDIDATES)


class Pause(NamedTuple):
    """A gang evicts no pod ``until`` then (seconds), because of this."""

    until: float
    why: str


NO_PAUSE = Pause(0.0, "")


class Question(msgspec.Struct, frozen=True):
    """What is asked about the gangs of one group; see :meth:`.decider.Decider.decide`."""

    gangs: Sequence[GangId]
    group: str
    now: float
    may_preempt: bool = True
    pause: Pause = NO_PAUSE
    prefer: Mapping[str, str] = {}
    waiting_since: float | None = None
    holding: bool = False
    as_planned: bool = False
    keep_off: Mapping[str, Collection[str]] = {}
    wait_until: float = math.inf

    @property
    def plain(self) -> bool:
        """Does it want nothing special of nodes?"""
        return not (self.prefer or self.keep_off or self.holding)


class GangCycle:
    """One decision, about to be made."""

    def __init__(self, world: World, options: Options, placer: Placer, watchdog: Watchdog, asked: Question) -> None:
        self._world = world
        self._options = options
        self._placer = placer
        self._watchdog = watchdog
        self._asked = asked
        self._gangs = asked.gangs
        self._claim = world.managed.claim(asked.gangs)
        #: Contexts in which the gang could run after evictions, those first in which victims have been looked for.
        self._tried: list[SchedulingContext] = []
        self._searched = 0
        self._budgets: Budgets | None = None
        self._units: Units | None = None
        self._over_cap = ""

    def decide(self) -> Verdict:
        """Decide the gangs together."""
        if self._claim is not None and self._claim.problem:
            return self._not_queued(self._claim.problem, self._claim.workload.queue)
        specs = map(self._world.membership.spec, self._gangs)
        anywhere = not any(spec.topology for spec in specs if spec is not None)
        out_of_reach: list[QuotaAssignment] = []
        for gate in self._gates():
            if isinstance(gate, QuotaAssignment) and gate.mode in _OUT_OF_REACH:
                out_of_reach.append(gate)
                if anywhere:
                    continue
            elif gate.mode == Mode.FIT and self._asked.plain:
                found = one_of_many(self._world, self._placer, self._gangs, gate)
                if found is not None:
                    return found
            context = self._context(gate)
            if context.topology.problem:
                return Outcomes(context).unschedulable("", None)
            if gate.mode in _OUT_OF_REACH:
                continue
            self._tried.append(context)
            found = self._without_evictions(context) if gate.mode == Mode.FIT else self._evict()
            if found is not None:
                return found
        if not self._tried:
            return without_quota(self._world, self._gangs, out_of_reach[0], nodes_unseen=True)
        return self._evict() or self._refuse()

    def fits_now(self) -> Verdict | None:
        """The decision to bind the gangs in room that is there; None if there is none."""
        if self._claim is not None and self._claim.problem:
            return None
        for gate in takewhile(lambda gate: not self._waits_in(gate), self._gates()):
            found = Outcomes(self._context(gate)).in_free_room() if gate.mode == Mode.FIT else None
            if found is not None:
                return found
        return None

    def contexts(self, *, displacing: bool) -> Iterator[SchedulingContext]:
        """The beginnings of a decision in each of the flavors in which the gang has its quota, or, if ``displacing``,
        would have it if others left.
        """
        if self._claim is None or not self._claim.problem:
            for gate in self._gates():
                if gate.mode == Mode.FIT or (displacing and gate.mode not in _OUT_OF_REACH):
                    yield self._context(gate)

    def _context(self, gate: QuotaAssignment | NoQuota) -> SchedulingContext:
        asked = self._asked
        context = SchedulingContext(
            self._world,
            self._options,
            self._placer,
            self._gangs,
            asked.group,
            asked.now,
            asked.prefer,
            self._watchdog,
            gate,
            paused=asked.pause.until > asked.now,
        )
        if asked.keep_off:
            context.keep_off(asked.keep_off)
        if asked.holding:
            context.ignore_turns()
        context.counts_as_planned = asked.as_planned
        context.wait_until(asked.wait_until)
        return context

    # -- quota ---------------------------------------------------------------------------------------------

    def _gates(self) -> Iterator[QuotaAssignment | NoQuota]:
        """Flavors in the order in which they are tried: as the rules of the queue walk through them, and then, where it
        is nodes that the gang lacks, those in whose place the rules have chosen others.
        """
        if self._claim is None:
            yield NO_QUOTA
            return
        managed, workload = self._world.managed, self._claim.workload
        resume: Mapping[tuple[str, str], int] = {}
        passed: frozenset[Chosen] = frozenset()
        seen: list[Assignment] = []
        for _ in range(_MAX_FLAVORS):
            assignment = managed.quota.assign(workload, resume, passed)
            if passed and assignment.mode == Mode.NO_FIT:
                return
            yield QuotaAssignment(managed, self._claim, assignment, self._asked.now)
            seen.append(assignment)
            if assignment.resume and assignment.resume != resume:
                resume = assignment.resume
                continue
            others = frozenset(c for each in seen for c in managed.quota.alternatives(workload, each))
            if others <= passed or not any(map(self._has_its_quota, seen)):
                return
            passed, resume = others, {}

    def _has_its_quota(self, assignment: Assignment) -> bool:
        """Is there quota in these flavors, or would there be after evictions, whatever the nodes are like?"""
        if assignment.mode == Mode.FIT or assignment.mode in _OUT_OF_REACH or self._claim is None:
            return assignment.mode == Mode.FIT
        return bool(self._world.managed.quota.victims(self._claim.workload, assignment))

    @staticmethod
    def _waits_in(gate: QuotaAssignment | NoQuota) -> bool:
        """Is it in these flavors that the gang waits for its victims? The queue's rules have it stay there, although
        there may be room in a later flavor.
        """
        return isinstance(gate, QuotaAssignment) and gate.mode.needs_preemption and gate.waited_for

    def _not_queued(self, problem: str, queue: str) -> Verdict:
        """Something is wrong with the queue, or with what is asked of it."""
        quota = QuotaUse(queue)
        return refused(
            Unschedulable, self._world, self._gangs, problem, quota=quota, short_of_quota=True, nodes_unseen=True
        )

    # -- nodes ---------------------------------------------------------------------------------------------

    @staticmethod
    def _without_evictions(context: SchedulingContext) -> Verdict | None:
        outcomes = Outcomes(context)
        found = outcomes.in_free_room()
        # Members beyond the minimum join where there is room now; nothing is held up for them.
        return outcomes.in_freed_room() if found is None and context.required else found

    def _may_not_preempt(self, context: SchedulingContext) -> tuple[str, float | None]:
        """Why the gang may not evict any pod now, and when it may; an empty reason if it may."""
        asked = self._asked
        if not asked.may_preempt:
            return causes.NOT_ASKED_FOR, None
        if self._world.membership.policy(self._gangs) == PREEMPT_NEVER:
            return causes.PREEMPTION_POLICY_NEVER, None
        until, why = asked.pause
        if until > asked.now:
            return causes.not_yet(why, render_time(until)), until
        delay = context.patience.delay({g: census.pending for g, census in context.census.items()})
        since = asked.waiting_since
        if since is None:
            since = min((p.created for p in context.pending), default=0.0)
        return (delayed(delay, since + delay), since + delay) if delay and since + delay > asked.now else ("", None)

    def _evict(self) -> Verdict | None:
        """Look for victims where that has not been done yet. The queue may want that before the flavors
        that follow are looked at: its rules say where the walk through them stops.
        """
        contexts, self._searched = self._tried[self._searched :], len(self._tried)
        for context in contexts:
            if not context.required:
                return None
            if self._may_not_preempt(context)[0]:
                return self._refuse() if self._waits_in(context.gate) else None
            victims = VictimsOf(context)
            units, choice = victims.search()
            outcomes, found = Outcomes(context), None
            if choice is not None and choice.taken:
                found = outcomes.preempt(units, choice, victims.budgets)
            elif choice is not None:  # of leaving pods only: the members wait for these
                found = outcomes.once_gone(context.terminating())
            if found is not None:
                return found
            units.unproven |= choice is not None  # members that do not find their places prove nothing
            self._over_cap = self._over_cap or victims.over_cap
            self._units, self._budgets = self._units or units, victims.budgets
        return None

    def _refuse(self) -> Verdict:
        """Say why not, of the first flavors in which victims might have helped."""
        first, units = self._tried[0], self._units
        outcomes = Outcomes(first)
        if not first.required:
            return outcomes.behind(outcomes.unschedulable("", None))
        why_not, retry_at = self._may_not_preempt(first)
        if not why_not:
            retry_at = units.eligible_at if units is not None else None
            why_not = self._no_plan(first.gate)
        if isinstance(first.gate, QuotaAssignment) and first.gate.mode.needs_preemption:
            found = without_quota(self._world, self._gangs, first.gate, why_not, first.left_out)
        else:
            found = outcomes.behind(outcomes.unschedulable(why_not, units))
        gates = (context.gate for context in self._tried)
        had = {each for gate in gates if isinstance(gate, QuotaAssignment) for each in gate.had}
        return found.but(retry_at=retry_at, had_quota=tuple(sorted(had)))

    def _no_plan(self, gate: QuotaAssignment | NoQuota) -> str:
        if self._over_cap:
            return self._over_cap
        if isinstance(gate, NoQuota):
            return explain.no_plan(self._units, self._budgets if self._options.strict_budgets else None)
        why = causes.EVICTING_ALL_NOT_ENOUGH
        if gate.mode.needs_preemption:
            why = causes.NO_WORKLOADS_TO_DISPLACE
        spared = self._units.protected if self._units is not None else ()
        return f"{why}; {listed(spared, _NAMED)}" if spared else why


def one_of_many(
    world: World, placer: Placer, gangs: Sequence[GangId], gate: QuotaAssignment | NoQuota
) -> Verdict | None:
    """The short way to a decision for a gang of one pod that wants nothing special, as thousands may come one after
    another: to bind it now, as the whole cycle would; None when it has to be looked at more closely. By ``gate`` it has
    its quota, if it needs any, and without evictions.
    """
    gang, member = gangs[0], world.membership
    if len(gangs) != 1 or world.ledger.holders() or world.foreign_nominations:
        return None
    census, spec = member.census(gang), member.spec(gang)
    if spec is None or spec.topology or spec.min_member != 1 or spec.announces:
        return None
    if len(census.pending) != 1 or member.required(gang, census) != 1:
        return None
    (pod,) = census.pending
    if pod.nominated_node or (world.turns.keep_something and world.turns.ahead(queue_order(world, gangs))):
        return None
    row = placer.streak.next(world.snapshot.class_of(gate.member(pod)), pod.uid, world.snapshot)
    if row is None:
        return None
    places = (Placement(pod.namespace, pod.name, pod.uid, world.snapshot.nodes[row].name),)
    message = explain.summary(BIND, 1, (), ())
    quota = gate.use((pod.uid,))
    priority = member.preemptor_priority(gangs)
    return Verdict((Fits(gang, spec.kind, (), priority, 1, message=message, placements=places, quota=quota),))
