"""The decision for one gang or GangGroup: fits, fits when terminating pods are gone, fits after evictions, or not."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec
import numpy as np

from gangsched.core.decision import (
    BIND,
    GATHERING,
    PREEMPT,
    UNSCHEDULABLE,
    WAIT,
    Decision,
    Placement,
    QuotaUse,
    Unplaced,
    Verdict,
)
from gangsched.core.framework.guard import PluginError
from gangsched.core.framework.pipeline import Pipeline, pipeline_of
from gangsched.core.framework.plugins import PluginSet
from gangsched.core.framework.stopwatch import Stopwatch
from gangsched.core.options import Options
from gangsched.core.planning.alone import one_of_many
from gangsched.core.planning.attempt import Attempt
from gangsched.core.planning.joint import Joint, QueuedAttempt
from gangsched.core.planning.placement import Placer
from gangsched.core.planning.watchdog import Watchdog
from gangsched.core.preemption import explain
from gangsched.core.preemption.patience import delayed
from gangsched.core.preemption.search import Choice
from gangsched.core.preemption.units import Units
from gangsched.core.quota.flavors import Mode
from gangsched.core.quota.forms import Nominated
from gangsched.core.quota.gate import Gate
from gangsched.core.quota.holdings import Flavors
from gangsched.core.quota.managed import Claim
from gangsched.core.state.podtable import TERMINATING
from gangsched.core.state.world import World
from gangsched.model.records import PREEMPT_NEVER, GangId
from gangsched.model.times import render_time

__all__ = ["Decider", "Verdict", "gathering"]

_Attempt = TypeVar("_Attempt", bound=Attempt)


def gathering(world: World, gangs: Sequence[GangId], problem: str) -> Verdict:
    """The verdict on gangs that are not complete."""
    return _without_placements(world, gangs, GATHERING, problem)


def _without_placements(world: World, gangs: Sequence[GangId], outcome: str, problem: str, plugin: str = "") -> Verdict:
    """The same words about every member; no node was looked at."""
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
                outcome=outcome,
                unplaced=tuple(Unplaced(p.key, (problem,)) for p in (*census.pending, *census.gated)),
                message=problem,
                failed_plugin=plugin,
            )
        )
    return Verdict(outcome, tuple(decisions), message=problem, failed_plugin=plugin)


class _Question(msgspec.Struct, frozen=True):
    """What is asked of :meth:`Decider.decide`."""

    gangs: Sequence[GangId]
    group: str
    now: float
    may_preempt: bool = True
    evicts_from: float = 0.0
    prefer: Mapping[str, str] = {}
    waiting_since: float | None = None
    holding: bool = False
    keep_off: Mapping[str, Collection[str]] = {}
    wait_until: float = math.inf

    @property
    def plain(self) -> bool:
        """Does it want nothing special of nodes?"""
        return not (self.prefer or self.keep_off or self.holding)

    def begun(self, job: _Attempt) -> _Attempt:
        """The attempt, with what it is to keep to."""
        if self.keep_off:
            job.keep_off(self.keep_off)
        if self.holding:
            job.ignore_turns()
        job.wait_until(self.wait_until)
        return job


class Decider:
    """Makes decisions; changes nothing but its own caches.

    A gang is decided with the filters and scores of its scheduler name; profiles that are alike share them.
    """

    def __init__(self, world: World, options: Options) -> None:
        self.world = world
        self.options = options
        self.watchdog = Watchdog()
        self.stopwatch = Stopwatch()
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

    @property
    def placer(self) -> Placer:
        """That of the first scheduler name."""
        return self._placers[self.options.scheduler_names[0]]

    def pipeline(self, scheduler: str) -> Pipeline:
        """The filters and scores of this scheduler name."""
        return self._placers[scheduler].pipeline

    def attempt(self, gangs: Sequence[GangId], group: str, now: float, prefer: Mapping[str, str] = {}) -> Attempt:
        """The beginnings of a decision, for questions of other kinds. It may raise :class:`PluginError` when asked.
        What flavors of quota ask of nodes is left out: see :meth:`attempts`.
        """
        placer = self._placers[gangs[0].scheduler]
        return Attempt(self.world, self.options, placer, gangs, group, now, prefer, self.watchdog)

    def attempts(self, gangs: Sequence[GangId], group: str, now: float, *, displacing: bool) -> Iterator[Attempt]:
        """The same for gangs that may need quota: in each of the flavors in which they have it, in the order in which
        they are tried, or, if ``displacing``, would have it if others left.
        """
        claim = self.world.managed.claim(gangs)
        if claim is None:
            yield self.attempt(gangs, group, now)
        elif not claim.problem:
            modes = {Mode.FIT} if not displacing else set(Mode) - {Mode.NO_FIT, Mode.NO_CANDIDATES}
            yield from self._joint(claim, _Question(gangs, group, now)).attempts(modes)

    def decide(  # noqa: PLR0913
        self,
        gangs: Sequence[GangId],
        group: str,
        now: float,
        *,
        may_preempt: bool = True,
        evicts_from: float = 0.0,
        prefer: Mapping[str, str] = {},
        waiting_since: float | None = None,
        holding: bool = False,
        keep_off: Mapping[str, Collection[str]] = {},
    ) -> Verdict:
        """Decide the gangs of one group together.

        ``group`` is the key under which it holds room. Before ``evicts_from`` it evicts nobody, because a member was
        refused. ``prefer`` names, by UID, the node to try first; without
        it a member's own nomination is. ``waiting_since`` is when the gang first could not be placed (None: when its
        oldest pending member was created). What is kept for gangs ahead in the queue does not count for one that is
        ``holding`` its room. ``keep_off`` names, by UID, nodes that a member must not go to. When a plug-in of others
        fails, so does the gang: the verdict says which.
        """
        asked = _Question(gangs, group, now, may_preempt, evicts_from, prefer, waiting_since, holding, keep_off)
        found = self._answer(asked)
        return self._sooner(found, asked) if may_preempt and found.awaiting else found

    def _sooner(self, found: Verdict, asked: _Question) -> Verdict:
        """The gang has to wait for pods that leave. If that takes too long, others are evicted instead, unless those
        take as long: so is decided what happens if the slow ones are not counted on.
        """
        limit, slow = asked.now + self.options.max_wait_seconds, self._waits_until(found)
        if slow <= limit:
            return found
        other = self._answer(msgspec.structs.replace(asked, wait_until=limit))
        if other.outcome in (BIND, WAIT, PREEMPT) and self._waits_until(other) < slow:
            return other
        warning = (
            f"waits for pods that have until {render_time(slow)} to terminate, which is longer than preemption.maxWait:"
            " it would not fit sooner if others were evicted instead"
        )
        told = (msgspec.structs.replace(d, warnings=(*d.warnings, warning)) for d in found.decisions)
        return msgspec.structs.replace(found, decisions=tuple(told))

    def _waits_until(self, found: Verdict) -> float:
        """When all pods that are in the way of these placements should be gone (seconds)."""
        uids = [*(victim.uid for victim in found.victims), *(awaited.uid for awaited in found.awaiting)]
        pods = (self.world.pods[uid] for uid in uids if uid in self.world.pods)
        return max(map(self.world.leaves_by, pods), default=-math.inf)

    def _answer(self, asked: _Question) -> Verdict:
        gangs, group, now, prefer = asked.gangs, asked.group, asked.now, asked.prefer
        try:
            claim = self.world.managed.claim(gangs)
            if claim is not None:
                return self._not_queued(claim, gangs) if claim.problem else self._joint(claim, asked).decide()
            if asked.plain:
                found = one_of_many(self.world, self._placers[gangs[0].scheduler], gangs)
                if found is not None:
                    return found
            return self._decide(asked.begun(self.attempt(gangs, group, now, prefer)), asked)
        except PluginError as error:
            return _without_placements(self.world, gangs, UNSCHEDULABLE, str(error), error.plugin)

    def _joint(self, claim: Claim, asked: _Question) -> Joint:
        """The decision for gangs that need quota, about to be made."""
        gangs, now = asked.gangs, asked.now
        placer = self._placers[gangs[0].scheduler]

        def attempt(gate: Gate) -> QueuedAttempt:
            return asked.begun(
                QueuedAttempt(
                    self.world, self.options, placer, gangs, asked.group, now, asked.prefer, self.watchdog, gate
                )
            )

        def alone(gate: Gate) -> Verdict | None:
            return one_of_many(self.world, placer, gangs, gate) if asked.plain else None

        def may_not_preempt(job: Attempt) -> tuple[str, float | None]:
            return self._may_not_preempt(job, asked)

        return Joint(self.world, gangs, claim, now, attempt, alone, may_not_preempt)

    def _not_queued(self, claim: Claim, gangs: Sequence[GangId]) -> Verdict:
        """Something is wrong with the queue, or with what is asked of it."""
        found = _without_placements(self.world, gangs, UNSCHEDULABLE, claim.problem)
        use = QuotaUse(claim.workload.queue)
        decisions = tuple(msgspec.structs.replace(d, quota=use) for d in found.decisions)
        return msgspec.structs.replace(found, decisions=decisions, short_of_quota=True, nodes_unseen=True)

    def _may_not_preempt(self, job: Attempt, asked: _Question) -> tuple[str, float | None]:
        """Why the gang may not evict anybody now, and when it may; an empty reason if it may."""
        if not asked.may_preempt:
            return "not eligible: enough evicting rounds for now", None
        if self.world.membership.policy(job.gangs) == PREEMPT_NEVER:
            return "not eligible due to preemptionPolicy=Never.", None
        until = asked.evicts_from
        if until > asked.now:
            text = f"not yet: a binding was refused, and nobody is evicted for the gang until {render_time(until)}"
            return text, until
        delay = job.delay()
        until = job.waiting_since(asked.waiting_since) + delay
        return (delayed(delay, until), until) if delay and until > asked.now else ("", None)

    def _decide(self, job: Attempt, asked: _Question) -> Verdict:
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
        if job.required:
            why_not, retry_at = self._may_not_preempt(job, asked)
            if not why_not:
                units, choice = job.search()
                if choice is None:
                    why_not = explain.no_plan(units, job.budgets() if job.options.strict_budgets else None)
        if choice is None or units is None:
            if units is not None:
                retry_at = units.eligible_at
            found = job.unschedulable(why_not, units)
            return msgspec.structs.replace(job.behind(found), retry_at=retry_at)
        return job.preempt(units, choice)

    def has_room(self, gangs: Sequence[GangId], group: str, now: float, prefer: Mapping[str, str]) -> bool:
        """Could the gang run without evicting others (any more), and without waiting for too long? ``prefer`` is as in
        :meth:`decide`.
        """
        until = now + self.options.max_wait_seconds
        asked = _Question(gangs, group, now, may_preempt=False, prefer=prefer, wait_until=until)
        return self._answer(asked).outcome in (BIND, WAIT)

    def still_holds(
        self,
        gangs: Sequence[GangId],
        group: str,
        now: float,
        placements: Sequence[Placement],
        victims: Iterable[str],
        *,
        terminating_leave: bool = True,
        flavors: Mapping[str, Flavors] = {},
    ) -> bool:
        """Would these members still fit on these nodes, and be in one domain where that is required, once the victims
        (UIDs) and terminating pods are gone? Not as far as is known when a plug-in of others fails over it. If not
        ``terminating_leave``, terminating pods stay. ``flavors`` are those that members (UIDs) are to be given; others
        have theirs, or those of their node.
        """
        try:
            job = self.attempt(gangs, group, now)
            job.ignore_turns()
            gone = frozenset(victims)
            nominated = Nominated(self.world.managed, gangs, flavors)
            return self._holds(job, nominated, placements, gone, terminating_leave) and self._quota_holds(job, gone)
        except PluginError:
            return False

    def places_without(
        self, gangs: Sequence[GangId], group: str, now: float, victims: Iterable[str]
    ) -> Sequence[Placement]:
        """Where the members would go once these pods (UIDs) and the terminating ones are gone; nowhere when they would
        not fit even then, or a plug-in of others fails over it.
        """
        try:
            gone = frozenset(victims)
            slot_of = self.world.snapshot.table.slot_of
            for job in self.attempts(gangs, group, now, displacing=True):
                job.ignore_turns()
                leaving = {*job.terminating().tolist(), *(slot_of[uid] for uid in gone if uid in slot_of)}
                found = job.fit(np.array(sorted(leaving), dtype=np.int64))
                if found is not None:
                    return job.placed(WAIT, *found).placements if self._quota_holds(job, gone) else ()
            return ()
        except PluginError:
            return ()

    def _quota_holds(self, job: Attempt, victims: Iterable[str]) -> bool:
        """Is there quota enough once the victims and terminating pods are gone, those aside that are overdue?"""
        if not self.world.managed.active:
            return True
        known, overdue = self.world.pods, self.world.sightings.overdue
        leaving = [known[uid] for uid in victims if uid in known and uid not in overdue]
        there = self.world.snapshot.table.pods
        leaving += [pod for slot in job.terminating().tolist() if (pod := there[slot]) is not None]
        return self.world.managed.still_holds(job.gangs, leaving)

    def _holds(
        self,
        job: Attempt,
        nominated: Nominated,
        placements: Sequence[Placement],
        victims: Iterable[str],
        terminating_leave: bool,
    ) -> bool:
        sim = job.simulation()
        rows = sim.snapshot.row_of
        if not job.topology.allows([rows[p.node] for p in placements if p.node in rows]):
            return False
        if terminating_leave:
            job.lift_terminating(sim)
        table, lifted = self.world.snapshot.table, set(sim.lifted().tolist())
        for uid in victims:
            slot = table.slot_of.get(uid)
            if slot is None or slot in lifted:
                continue
            if table.row[slot] >= 0 and not table.flags[slot] & TERMINATING:
                sim.lift(slot)
        pending = {p.uid: p for census in job.census.values() for p in census.pending}
        for place in placements:
            pod = pending.get(place.uid)
            row = sim.snapshot.row_of.get(place.node)
            if pod is None or row is None:
                return False
            found = self.world.snapshot.class_of(nominated.on(pod, place.node))
            if not job.placer.pipeline.mask(found, sim)[row]:
                return False
            sim.place(found, row)
        return True
