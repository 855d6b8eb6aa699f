"""The one way from a gang to its decision.

Quota comes first. The flavors of its queue are tried in the order of the queue rules. In each, the members must fit
both into the remaining quota and on nodes of the flavor. A gang without a queue is tried once, as it is. If it fits in
none, victims are searched in the same order. The queue's rules may stop at a flavor in which workloads would be
evicted: then victims are searched before the next flavor is tried. No pod is evicted unless the gang then has its quota
and its nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

import msgspec

from gangsched.core.decision import (
    BIND,
    Fits,
    FitsWhenFreed,
    Headline,
    Placement,
    Preempt,
    QuotaUse,
    Unschedulable,
    Verdict,
    group_key,
)
from gangsched.core.framework.pipeline import Pipeline, Stopwatch, pipeline_of
from gangsched.core.framework.registry import PluginError, PluginSet
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.options import Options
from gangsched.core.placement.placer import Placer
from gangsched.core.planning.contained import Contained
from gangsched.core.planning.context import KnownPlan, Question, SchedulingContext, Standing
from gangsched.core.planning.held_nodes import contested, scarce_nodes
from gangsched.core.planning.outcomes import Outcomes, refused, without_quota
from gangsched.core.planning.victims import VictimsOf
from gangsched.core.preemption import explain
from gangsched.core.preemption.harm import Budgets
from gangsched.core.preemption.patience import delayed
from gangsched.core.preemption.units import Units
from gangsched.core.quota.assignment import NO_QUOTA, Nominated, NoQuota, QuotaAssignment
from gangsched.core.quota.flavors import Mode
from gangsched.core.watchdog import Watchdog
from gangsched.core.world.world import World, queue_order
from gangsched.messages import answers, causes
from gangsched.messages.text import are, join_names, pluralize
from gangsched.model.records import PREEMPT_NEVER, GangId, Pod
from gangsched.model.times import render_duration, render_time

#: So many workloads that are spared are named in a message.
_NAMED = 3
#: A gang is decided again after so long for which its namespace has no share of held nodes left.
_SHARE_SECONDS = 5.0


class Barred(NamedTuple):
    """Why a gang may not evict any pod now: the ``text`` of its message, empty if it may. If only time keeps it from
    that, ``until`` is when, and ``why`` says it in a few words.
    """

    text: str = ""
    until: float | None = None
    why: str = ""

    def headline(self, found: Headline | None) -> Headline | None:
        """The headline of a gang that might start if it evicted others: what it waits for."""
        if self.until is None or found is None or found.word != answers.NOT_NOW:
            return found
        return Headline(answers.WAITS, answers.evicts_later(time=render_time(self.until), why=self.why))


MAY_EVICT = Barred()


class GangCycle:
    """One decision, about to be made."""

    def __init__(
        self, world: World, ledger: Ledger, options: Options, placer: Placer, watchdog: Watchdog, asked: Question
    ) -> None:
        self._world = world
        self._ledger = ledger
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
        self._not_for_announced = False

    def decide(self) -> Verdict:
        """Decide the gangs together."""
        if self._claim is not None and self._claim.problem:
            return self._not_queued(self._claim.problem, self._claim.workload.queue)
        if self._asked.at_once:
            return self._at_once()
        specs = map(self._world.membership.spec, self._gangs)
        anywhere = not any(spec.topology or spec.parts is not None for spec in specs if spec is not None)
        out_of_reach: list[QuotaAssignment] = []
        for gate in self._gates():
            if isinstance(gate, QuotaAssignment) and gate.mode.out_of_reach:
                out_of_reach.append(gate)
                if anywhere:
                    continue
            elif gate.mode == Mode.FIT and self._asked.plain:
                found = one_of_many(self._world, self._ledger, self._placer, self._gangs, gate)
                if found is not None:
                    return found
            context = self._context(gate)
            if context.topology.problem:
                return Outcomes(context).unschedulable("", None)
            if gate.mode.out_of_reach:
                continue
            self._tried.append(context)
            found = self._without_evictions(context) if gate.mode == Mode.FIT else self._evict()
            if found is not None:
                return found
        if not self._tried:
            return without_quota(self._world, self._gangs, out_of_reach[0], nodes_unseen=True)
        return self._evict() or self._refuse()

    def _at_once(self) -> Verdict:
        """Bind the gangs in room that is there, if they fit into it."""
        for gate in takewhile(lambda gate: not self._waits_in(gate), self._gates()):
            if gate.mode != Mode.FIT:
                continue
            context = self._context(gate)
            if context.topology.problem:
                break
            found = Outcomes(context).in_free_room()
            if found is not None:
                return found
        return refused(Unschedulable, self._world, self._gangs, causes.NO_ROOM_NOW)

    def contexts(self, *, displacing: bool) -> Iterator[SchedulingContext]:
        """The beginnings of a decision in each of the flavors in which the gang has its quota, or, if ``displacing``,
        would have it if others left.
        """
        if self._claim is None or not self._claim.problem:
            for gate in self._gates():
                if gate.mode == Mode.FIT or (displacing and not gate.mode.out_of_reach):
                    yield self._context(gate)

    def _context(self, gate: QuotaAssignment | NoQuota, *, announced: bool = True) -> SchedulingContext:
        asked = self._asked if announced else msgspec.structs.replace(self._asked, announced=False)
        return SchedulingContext(self._world, self._ledger, self._options, self._placer, self._watchdog, asked, gate)

    # -- quota ---------------------------------------------------------------------------------------------

    def _gates(self) -> Iterator[QuotaAssignment | NoQuota]:
        """Flavors in the order in which they are tried."""
        if self._claim is None:
            yield NO_QUOTA
            return
        managed, claim = self._world.managed, self._claim
        for assignment in managed.quota.assignments(claim.workload):
            yield QuotaAssignment(managed, claim, assignment, self._world.now)

    @staticmethod
    def _waits_in(gate: QuotaAssignment | NoQuota) -> bool:
        """Return True if the gang waits for its victims in these flavors. The queue's rules keep it there, although a
        later flavor may have room.
        """
        return isinstance(gate, QuotaAssignment) and gate.mode.needs_preemption and gate.waited_for

    def _not_queued(self, problem: str, queue: str) -> Verdict:
        """Refuse a gang because of a problem of its queue, or of its requests to it."""
        return refused(
            Unschedulable,
            self._world,
            self._gangs,
            problem,
            headline=Headline(answers.WAITS, problem),
            quota=QuotaUse(queue),
            short_of_quota=True,
            nodes_unseen=True,
        )

    # -- nodes ---------------------------------------------------------------------------------------------

    @staticmethod
    def _without_evictions(context: SchedulingContext) -> Verdict | None:
        outcomes = Outcomes(context)
        found = outcomes.in_free_room()
        # Members beyond the minimum join where there is room now; nothing is held up for them.
        return outcomes.in_freed_room() if found is None and context.required else found

    def _barred(self, context: SchedulingContext) -> Barred:
        """Why the gang may not evict any pod now."""
        asked = self._asked
        if not asked.may_preempt:
            return Barred(causes.NOT_ASKED_FOR)
        if self._world.membership.policy(self._gangs) == PREEMPT_NEVER:
            return Barred(causes.PREEMPTION_POLICY_NEVER)
        until, why = asked.pause
        if until > self._world.now:
            return Barred(causes.not_yet(why=why, time=render_time(until)), until, why)
        delay = context.patience.delay({g: census.pending for g, census in context.census.items()})
        since = asked.waiting_since
        if since is None:
            since = min((p.created for p in context.pending), default=0.0)
        until = since + delay
        if not delay or until <= self._world.now:
            return MAY_EVICT
        return Barred(delayed(delay, until), until, causes.delay(duration=render_duration(delay)))

    def _evict(self) -> Verdict | None:
        """Search for victims where that has not been done yet. The queue may want that before the following flavors:
        its rules say where the walk through them stops.
        """
        contexts, self._searched = self._tried[self._searched :], len(self._tried)
        for context in contexts:
            if not context.required:
                return None
            if self._barred(context).text:
                return self._refuse() if self._waits_in(context.gate) else None
            existing = self._of_existing(context)
            if existing is not context and existing.fit(existing.terminating()) is not None:
                self._not_for_announced = True  # these fit, and only the others would need victims
                continue
            victims = VictimsOf(existing)
            units, choice = victims.search()
            outcomes, found = Outcomes(existing), None
            if choice is not None and choice.taken:
                found = outcomes.preempt(units, choice, victims.budgets)
                if found is not None and existing is not context:
                    found = outcomes.with_announced(found)
                    self._not_for_announced |= found is None
            elif choice is not None and existing is context:  # of leaving pods only: the members wait for these
                found = outcomes.once_gone(context.terminating())
            if found is not None:
                return found
            units.unproven |= choice is not None  # members that do not find their places prove nothing
            self._over_cap = self._over_cap or victims.over_cap
            self._units, self._budgets = self._units or units, victims.budgets
        return None

    def _of_existing(self, context: SchedulingContext) -> SchedulingContext:
        """The context in which victims are looked for: as a rule that of members that exist."""
        if context.evicts_for_announced:
            return context
        existing = self._context(context.gate, announced=False)
        existing.domain = context.domain
        return existing

    def _refuse(self) -> Verdict:
        """Say why not, of the first flavors in which victims might have helped."""
        first, units = self._tried[0], self._units
        outcomes = Outcomes(first)
        if not first.required:
            return outcomes.behind(outcomes.unschedulable("", None))
        barred = self._barred(first)
        retry_at = barred.until if barred.text else self._more_may_leave_at()
        why_not = barred.text or self._no_plan(first.gate)
        if isinstance(first.gate, QuotaAssignment) and first.gate.mode.needs_preemption:
            found = without_quota(self._world, self._gangs, first.gate, why_not, first.left_out)
            found = found.but(headline=barred.headline(found.first.headline))
        else:
            found = outcomes.unschedulable(why_not, units)
            found = outcomes.behind(found.but(headline=barred.headline(found.first.headline)))
        gates = (context.gate for context in self._tried)
        had = {each for gate in gates if isinstance(gate, QuotaAssignment) for each in gate.had}
        return found.but(retry_at=retry_at, had_quota=tuple(sorted(had)))

    def _more_may_leave_at(self) -> float | None:
        """When more pods may be evicted though nothing happens: they have run long enough, or a budget is no longer
        charged.
        """
        times = [self._units.eligible_at] if self._units is not None else []
        if self._budgets is not None and self._options.strict_budgets:
            times.append(self._budgets.more_at)
        return min((at for at in times if at is not None and at < math.inf), default=None)

    def _no_plan(self, gate: QuotaAssignment | NoQuota) -> str:
        if self._over_cap:
            return self._over_cap
        if self._not_for_announced:
            return causes.NOT_FOR_ANNOUNCED
        if isinstance(gate, NoQuota):
            return explain.no_plan(self._units, self._budgets if self._options.strict_budgets else None)
        why = causes.EVICTING_ALL_NOT_ENOUGH
        if self._units is not None and self._units.over_budgets:
            why = explain.no_plan(self._units)
        elif gate.mode.needs_preemption:
            why = causes.NO_WORKLOADS_TO_DISPLACE
        spared = self._units.protected if self._units is not None else ()
        return f"{why}; {join_names(spared, _NAMED)}" if spared else why


def one_of_many(
    world: World, ledger: Ledger, placer: Placer, gangs: Sequence[GangId], gate: QuotaAssignment | NoQuota
) -> Verdict | None:
    """The short way to a decision for a gang of one pod that wants nothing special. Thousands of them may come one
    after another. Return the binding as the whole cycle would decide it, or None if it needs the whole cycle. By
    ``gate`` it has its quota, if it needs any, and without evictions.
    """
    gang, member = gangs[0], world.membership
    if len(gangs) != 1 or ledger.holders() or world.foreign_nominations:
        return None
    census, spec = member.census(gang), member.spec(gang)
    if spec is None or spec.topology or spec.parts is not None or spec.min_member != 1 or spec.announces:
        return None
    if len(census.pending) != 1 or member.required(gang, census) != 1:
        return None
    (pod,) = census.pending
    if pod.nominated_node or (ledger.turns.keep_something and ledger.turns.ahead(queue_order(world, gangs))):
        return None
    row = placer.streak.next(world.snapshot.class_of(gate.member(pod)), pod.uid, world.snapshot)
    if row is None:
        return None
    places = (Placement(pod.namespace, pod.name, pod.uid, world.snapshot.nodes[row].name),)
    message = explain.summary(BIND, 1, (), ())
    quota = gate.use((pod.uid,))
    priority = member.preemptor_priority(gangs)
    return Verdict((Fits(gang, spec.kind, (), priority, 1, message=message, placements=places, quota=quota),))


class Decider:
    """Makes decisions; changes nothing but its own caches. The ``ledger`` is another one from the next leadership on.

    A gang is decided with the filters and scores of its scheduler name; profiles that are alike share them.
    """

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        options: Options,
        watchdog: Watchdog | None = None,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        self.world = world
        self.ledger = ledger
        self.options = options
        self.watchdog = watchdog or Watchdog()
        self.stopwatch = stopwatch or Stopwatch()
        self.contained = Contained(on=options.contain_errors)
        made: list[tuple[PluginSet, Placer]] = []
        self._placers: dict[str, Placer] = {}
        for name in options.scheduler_names:
            plugins = options.plugins_of(name)
            placer = next((known for of, known in made if of == plugins), None)
            if placer is None:
                placer = Placer(pipeline_of(plugins, self.stopwatch))
                made.append((plugins, placer))
                if placer.pipeline.pod_labels is not None:
                    world.snapshot.tell_apart(placer.pipeline.pod_labels)
            self._placers[name] = placer
        self._distinct = [placer for _, placer in made]
        self._looks_before = 0

    @property
    def steps(self) -> int:
        """Steps that the decision under way has taken: those of searches, and looks at all nodes."""
        looks = sum(placer.looks for placer in self._distinct)
        return self.watchdog.steps + looks - self._looks_before

    def begin(self) -> None:
        """A decision begins."""
        self.watchdog.begin()
        self._looks_before = sum(placer.looks for placer in self._distinct)

    @property
    def placer(self) -> Placer:
        """That of the first scheduler name."""
        return self._placers[self.options.scheduler_names[0]]

    def pipeline(self, scheduler: str) -> Pipeline:
        """The filters and scores of this scheduler name."""
        return self._placers[scheduler].pipeline

    def _cycle(self, asked: Question) -> GangCycle:
        return GangCycle(
            self.world, self.ledger, self.options, self._placers[asked.gangs[0].scheduler], self.watchdog, asked
        )

    def context(self, gangs: Sequence[GangId], *, kinds: bool = False) -> SchedulingContext:
        """Where the gangs could go if no gang were ahead of them, for questions of other kinds; it may raise
        :class:`PluginError` when used. It leaves out the nodes of flavors of quota: see :meth:`contexts`. With
        ``kinds`` it is not about places.
        """
        placer, asked = self._placers[gangs[0].scheduler], Question(gangs, holding=True, kinds=kinds)
        return SchedulingContext(self.world, self.ledger, self.options, placer, self.watchdog, asked)

    def contexts(self, gangs: Sequence[GangId], *, displacing: bool = False) -> Iterator[SchedulingContext]:
        """Where gangs that may need quota could go: in each of the flavors in which they have it, in the order in which
        they are tried. If ``displacing``, they would have the quota if others left, and no gang is ahead of them.
        """
        return self._cycle(Question(gangs, holding=displacing)).contexts(displacing=displacing)

    def decide(self, asked: Question) -> Verdict:
        """Decide the gangs of one group together. When a plug-in of others fails, so does the gang: the verdict says
        which. So it does when this program fails over it.
        """
        try:
            with self.contained.about(asked.gangs):
                found = self._answer(asked)
                if found.awaiting:
                    found = self._bounded(self._sooner(found, asked) if asked.may_preempt else found, asked)
                return self._within_share(found, asked)
        except PluginError as error:
            return self._failed(asked, error)

    def _sooner(self, found: Verdict, asked: Question) -> Verdict:
        """The gang has to wait for pods that leave. If that takes too long, others are evicted instead, unless those
        take as long. So it is decided what happens if the slow ones are not counted on. The choice with the least harm
        may itself be slow. Then it is decided what happens if its slow victims stay: one owner must not keep all others
        out with the grace period of its pods.
        """
        limit, slow = self.world.now + self.options.max_wait_seconds, self._waits_until(found)
        if slow <= limit:
            return found
        for spare_slow in (False, True):
            other = self._answer(msgspec.structs.replace(asked, wait_until=limit, spare_slow=spare_slow))
            if not isinstance(other.first, Fits | FitsWhenFreed | Preempt):
                break
            if self._waits_until(other) < slow:
                return other
        warning = causes.waits_for_slow_pods(time=render_time(slow))
        return found.but(warnings=(*found.first.warnings, warning))

    def _bounded(self, found: Verdict, asked: Question) -> Verdict:
        """The verdict, if it holds no room for pods that take longer to leave than is waited for, nor again for a gang
        that it did not bind. An owner that chooses the grace period of its pods would keep all others out.
        """
        until = self._gone_at(awaited.uid for awaited in found.awaiting)
        if until > self.world.now + self.options.max_wait_seconds:
            text = causes.not_held_for_long(pods=pluralize(len(found.awaiting), "pod"), time=render_time(until))
            return self._not_held(found, asked, text, until - self.options.max_wait_seconds)
        if isinstance(found.first, FitsWhenFreed) and asked.no_hold_until > self.world.now:
            text = causes.held_in_vain(time=render_time(asked.no_hold_until))
            return self._not_held(found, asked, text, asked.no_hold_until)
        return found

    def _within_share(self, found: Verdict, asked: Question) -> Verdict:
        """The verdict, if the nodes that would be held for it against other schedulers are within the share of its
        namespace, and this one does not pause. A single gang may need more than the share: it is held alone.
        """
        shares, namespace, key = self.ledger.held_shares, asked.gangs[0].namespace, group_key(asked.gangs)
        paused, others = shares.may_hold_from(namespace), shares.of_others(namespace, key)
        if (paused <= self.world.now and not others) or asked.holding or not asked.may_preempt:
            return found
        leaving = [*(victim.uid for victim in found.victims), *(each.uid for each in found.awaiting)]
        if not leaving or not contested(self.world, self.options.hold_room, leaving):
            return found
        nodes = scarce_nodes(self.world, self.ledger, key, found.placements)
        if nodes and paused > self.world.now:
            text = causes.holds_paused(namespace=namespace, time=render_time(paused))
            return self._not_held(found, asked, text, paused)
        most = math.ceil(self.options.held_share * len(self.world.snapshot.nodes))
        if nodes - others and len(nodes | others) > most:
            text = causes.over_held_share(
                nodes=pluralize(len(others), "node"), are=are(len(others)), namespace=namespace, most=most
            )
            return self._not_held(found, asked, text, self.world.now + _SHARE_SECONDS)
        return found

    def _not_held(self, found: Verdict, asked: Question, text: str, retry_at: float) -> Verdict:
        quota = found.first.quota
        waits = Headline(answers.WAITS, text)
        return refused(Unschedulable, self.world, asked.gangs, text, retry_at=retry_at, quota=quota, headline=waits)

    def _waits_until(self, found: Verdict) -> float:
        """When all pods that are in the way of these placements should be gone (seconds)."""
        return self._gone_at([*(victim.uid for victim in found.victims), *(each.uid for each in found.awaiting)])

    def _gone_at(self, uids: Iterable[str]) -> float:
        """When all of these pods should be gone (seconds)."""
        pods = (self.world.pods[uid] for uid in uids if uid in self.world.pods)
        return max(map(self.world.leaves_by, pods), default=-math.inf)

    def _answer(self, asked: Question) -> Verdict:
        try:
            with self.contained.about(asked.gangs):
                return self._cycle(asked).decide()
        except PluginError as error:
            return self._failed(asked, error)

    def _failed(self, asked: Question, error: PluginError) -> Verdict:
        return refused(Unschedulable, self.world, asked.gangs, str(error), failed_plugin=error.plugin)

    def still_holds(self, known: KnownPlan) -> Standing:
        """Whether a plan still holds, and the nodes of members that do not exist yet. If a plug-in of others fails over
        it, it does not hold.
        """
        try:
            with self.contained.about(known.gangs):
                job, gone = self.context(known.gangs), frozenset(known.gone)
                nominated = Nominated(self.world.managed, known.gangs, known.flavors)
                holds = job.holds(known.placements, gone, nominated.on, terminating_leave=known.terminating_leave)
                return Standing(holds and self._quota_holds(job, gone), self._places_of(known, job))
        except PluginError:
            return Standing(False)

    def _places_of(self, known: KnownPlan, job: SchedulingContext) -> list[tuple[Pod, str]]:
        """Where those that are absent would be, as far as there is room for them beside the plan."""
        if not known.absent:
            return []
        sim = job.planned(job.staying(known.gone))
        for place in known.placements:
            if place.node in sim.snapshot.row_of:
                sim.place(sim.class_of(self.world.members[place.uid]), sim.snapshot.row_of[place.node])
        found = job.placer.extras(known.absent, sim, {}).rows
        return [(pod, sim.snapshot.nodes[found[pod.uid]].name) for pod in known.absent if pod.uid in found]

    def _quota_holds(self, job: SchedulingContext, victims: Iterable[str]) -> bool:
        """Return True if quota suffices without the victims and the terminating pods. Overdue pods keep theirs."""
        if not self.world.managed.active:
            return True
        known, overdue = self.world.pods, self.world.sightings.overdue
        leaving = [known[uid] for uid in victims if uid in known and uid not in overdue]
        there = self.world.snapshot.table.pods
        leaving += [pod for slot in job.terminating().tolist() if (pod := there[slot]) is not None]
        return self.world.managed.still_holds(job.gangs, leaving)
