"""The decision for one gang or GangGroup: fits, fits when terminating pods are gone, fits after evictions, or not."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from gangsched.core.agenda import Watchdog
from gangsched.core.decision import (
    Fits,
    FitsWhenFreed,
    Gathering,
    Placement,
    Preempt,
    Unschedulable,
    Verdict,
    group_key,
)
from gangsched.core.framework.pipeline import Pipeline, Stopwatch, pipeline_of
from gangsched.core.framework.registry import PluginError, PluginSet
from gangsched.core.options import Options
from gangsched.core.placement.placer import Placer
from gangsched.core.planning.context import SchedulingContext
from gangsched.core.planning.cycle import NO_PAUSE, GangCycle, Pause, Question
from gangsched.core.planning.outcomes import Outcomes, refused
from gangsched.core.quota.assignment import Nominated
from gangsched.core.quota.usage import Flavors
from gangsched.core.state.podtable import TERMINATING
from gangsched.core.state.simulation import Simulation
from gangsched.core.world.world import World
from gangsched.messages import causes
from gangsched.model.records import GangId, Pod
from gangsched.model.times import render_time

__all__ = ["Decider", "Verdict", "gathering"]


def gathering(world: World, gangs: Sequence[GangId], problem: str) -> Verdict:
    """The verdict on gangs that are not complete."""
    return refused(Gathering, world, gangs, problem)


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

    def _cycle(self, asked: Question) -> GangCycle:
        return GangCycle(self.world, self.options, self._placers[asked.gangs[0].scheduler], self.watchdog, asked)

    def context(self, gangs: Sequence[GangId], group: str, now: float) -> SchedulingContext:
        """Where the gangs could go, for questions of other kinds; it may raise :class:`PluginError` when asked. What
        flavors of quota ask of nodes is left out: see :meth:`contexts`.
        """
        placer = self._placers[gangs[0].scheduler]
        return SchedulingContext(self.world, self.options, placer, gangs, group, now, {}, self.watchdog)

    def contexts(
        self, gangs: Sequence[GangId], group: str, now: float, *, displacing: bool
    ) -> Iterator[SchedulingContext]:
        """The same for gangs that may need quota: in each of the flavors in which they have it, in the order in which
        they are tried, or, if ``displacing``, would have it if others left.
        """
        return self._cycle(Question(gangs, group, now)).contexts(displacing=displacing)

    def decide(  # noqa: PLR0913
        self,
        gangs: Sequence[GangId],
        group: str,
        now: float,
        *,
        may_preempt: bool = True,
        pause: Pause = NO_PAUSE,
        prefer: Mapping[str, str] = {},
        waiting_since: float | None = None,
        as_planned: bool = False,
        keep_off: Mapping[str, Collection[str]] = {},
    ) -> Verdict:
        """Decide the gangs of one group together.

        ``group`` is the key under which it holds room. Before its ``pause`` is over it evicts no pod. ``prefer`` names,
        by UID, the node to try first; without it a member's own nomination is. ``waiting_since`` is when the gang first
        could not be placed (None: when its oldest pending member was created). The victims of one that is decided
        ``as_planned`` are gone: what is kept for gangs ahead in the queue does not count, nor in the places of its plan
        what is kept for plans that were made later. ``keep_off`` names, by UID, nodes that a member must
        not go to. When a plug-in of others fails, so does the gang: the verdict says which.
        """
        asked = Question(gangs, group, now, may_preempt, pause, prefer, waiting_since, as_planned, as_planned, keep_off)
        found = self._answer(asked)
        return self._sooner(found, asked) if may_preempt and found.awaiting else found

    def _sooner(self, found: Verdict, asked: Question) -> Verdict:
        """The gang has to wait for pods that leave. If that takes too long, others are evicted instead, unless those
        take as long: so is decided what happens if the slow ones are not counted on.
        """
        limit, slow = asked.now + self.options.max_wait_seconds, self._waits_until(found)
        if slow <= limit:
            return found
        other = self._answer(msgspec.structs.replace(asked, wait_until=limit))
        if isinstance(other.first, Fits | FitsWhenFreed | Preempt) and self._waits_until(other) < slow:
            return other
        warning = causes.waits_for_slow_pods(render_time(slow))
        return found.but(warnings=(*found.first.warnings, warning))

    def _waits_until(self, found: Verdict) -> float:
        """When all pods that are in the way of these placements should be gone (seconds)."""
        uids = [*(victim.uid for victim in found.victims), *(awaited.uid for awaited in found.awaiting)]
        pods = (self.world.pods[uid] for uid in uids if uid in self.world.pods)
        return max(map(self.world.leaves_by, pods), default=-math.inf)

    def _answer(self, asked: Question) -> Verdict:
        try:
            return self._cycle(asked).decide()
        except PluginError as error:
            return refused(Unschedulable, self.world, asked.gangs, str(error), failed_plugin=error.plugin)

    def fits_now(self, gangs: Sequence[GangId], group: str, now: float, prefer: Mapping[str, str]) -> Verdict | None:
        """The decision to bind gangs that hold room already, if they fit without any eviction. ``prefer`` is as in
        :meth:`decide`.
        """
        try:
            return self._cycle(Question(gangs, group, now, prefer=prefer, holding=True)).fits_now()
        except PluginError:
            return None

    def fits_without(
        self, gangs: Sequence[GangId], group: str, now: float, prefer: Mapping[str, str], victims: Container[str]
    ) -> Verdict | None:
        """The decision to run the gang without evicting others (any more), without these victims (UIDs) leaving for
        others, and without waiting for too long; None if that cannot be. ``prefer`` is as in :meth:`decide`.
        """
        until = now + self.options.max_wait_seconds
        asked = Question(gangs, group, now, may_preempt=False, prefer=prefer, wait_until=until)
        found = self._answer(asked)
        waits = isinstance(found.first, FitsWhenFreed) and not any(each.uid in victims for each in found.awaiting)
        return found if waits or isinstance(found.first, Fits) else None

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
            job = self.context(gangs, group, now)
            job.ignore_turns()
            if {(held.uid, held.node) for held in self.world.ledger.pods_of(group)}.issuperset(
                (place.uid, place.node) for place in placements
            ):
                job.as_planned()
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
            for job in self.contexts(gangs, group, now, displacing=True):
                job.ignore_turns()
                leaving = {*job.terminating().tolist(), *(slot_of[uid] for uid in gone if uid in slot_of)}
                found = Outcomes(job).once_gone(np.array(sorted(leaving), dtype=np.int64))
                if found is not None:
                    return found.placements if self._quota_holds(job, gone) else ()
            return ()
        except PluginError:
            return ()

    def room_for(
        self,
        absent: Sequence[Pod],
        gangs: Sequence[GangId],
        now: float,
        placements: Sequence[Placement] = (),
        victims: Iterable[str] = (),
    ) -> list[tuple[Pod, str]]:
        """Where stand-ins for announced members would be, as far as there is room for them, beside members that are
        placed and once these victims (UIDs) and terminating pods are gone.
        """
        try:
            job = self.context(gangs, group_key(gangs), now)
            job.ignore_turns()
            sim = self._once_gone(job, victims)
            for place in placements:
                if place.node in sim.snapshot.row_of:
                    sim.place(sim.class_of(self.world.pods[place.uid]), sim.snapshot.row_of[place.node])
            found = job.placer.extras(absent, sim, {}).rows
        except PluginError:
            return []
        return [(pod, sim.snapshot.nodes[found[pod.uid]].name) for pod in absent if pod.uid in found]

    def _quota_holds(self, job: SchedulingContext, victims: Iterable[str]) -> bool:
        """Is there quota enough once the victims and terminating pods are gone, those aside that are overdue?"""
        if not self.world.managed.active:
            return True
        known, overdue = self.world.pods, self.world.sightings.overdue
        leaving = [known[uid] for uid in victims if uid in known and uid not in overdue]
        there = self.world.snapshot.table.pods
        leaving += [pod for slot in job.terminating().tolist() if (pod := there[slot]) is not None]
        return self.world.managed.still_holds(job.gangs, leaving)

    def _once_gone(self, job: SchedulingContext, victims: Iterable[str], terminating_leave: bool = True) -> Simulation:
        """The cluster without these pods (UIDs), and without terminating ones if they leave."""
        sim = job.simulation()
        if terminating_leave:
            job.lift_terminating(sim)
        table, lifted = self.world.snapshot.table, set(sim.lifted().tolist())
        for uid in victims:
            slot = table.slot_of.get(uid)
            if slot is None or slot in lifted:
                continue
            if table.row[slot] >= 0 and not table.flags[slot] & TERMINATING:
                sim.lift(slot)
        return sim

    def _holds(
        self,
        job: SchedulingContext,
        nominated: Nominated,
        placements: Sequence[Placement],
        victims: Iterable[str],
        terminating_leave: bool,
    ) -> bool:
        sim = self._once_gone(job, victims, terminating_leave)
        rows = sim.snapshot.row_of
        if not job.topology.allows([rows[p.node] for p in placements if p.node in rows]):
            return False
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
