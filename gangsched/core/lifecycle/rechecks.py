"""Whether the victims of a plan may still be evicted, and have to: asked again as long as they can be spared.

That is so before the first removal, when another process takes over, before removals are repeated, and whenever
something happens that matters to removals that are on their way: they may have to wait, for their turn or for an API
server that is busy. Those that are not wanted any more are not sent: their pods are spared.

Announced evictions: victims know when they will leave, so that they may save their work before that. The time stands in
the victims' ``gangsched.dev/EvictedFor``, without ``DisruptionTarget``, so a process that takes over knows it too. When
it has come they are marked and removed like all others. If one of them has ended, or has saved its work since then,
others may be the better choice now: the gang is decided anew, once, and who is chosen again has had its notice.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gangsched.core.actions import reference
from gangsched.core.actuation.actuator import Actuator
from gangsched.core.decision import UnitRef, Victim
from gangsched.core.events import Change, Hint
from gangsched.core.ledger.condemned import Eviction, Phase, unit_of
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.conditions import Reporter
from gangsched.core.lifecycle.evicting import may_leave
from gangsched.core.lifecycle.group import Failed, Group, Plan
from gangsched.core.planning.cycle import Decider
from gangsched.core.preemption.harm import unsaved
from gangsched.core.preemption.removal import breaks_gangs, budgets_of, fails_jobs, incomplete
from gangsched.messages import notes
from gangsched.model.times import render_time

#: What a change may mean for a plan: something about a victim, or that there may be room.
_VICTIM, _HELPS = 1, 2
#: What may give a gang room.
_ROOM = Hint.ROOM_ON_NODES | Hint.QUOTA


class _Look(NamedTuple):
    """How far a plan has come: the victims (UIDs) that are still there and of which no removal has been accepted, and
    the units of which a pod has been removed for it, or leaves since removals were asked for.
    """

    standing: list[str]
    begun: set[UnitRef | str]


class Rechecks:
    """Looks again at the plans of ``groups``."""

    def __init__(self, decider: Decider, actuator: Actuator, reporter: Reporter, groups: Mapping[str, Group]) -> None:
        self._world = decider.world
        self._ledger = decider.world.ledger
        self._options = decider.options
        self._decider = decider
        self._actuator = actuator
        self._reporter = reporter
        self._groups = groups

    # -- between two phases --------------------------------------------------------------------------------

    def other_budgets(self, group: Group, plan: Plan) -> bool:
        """Do victims break budgets that allowed them when the plan was made? Then others may be better ones.

        A plan is made anew for a budget once in a round at most, lest one that changes all the time keeps it from going
        on for ever.
        """
        tightened = self._tightened(group, plan, self._look(group, plan))
        if tightened:
            group.failures.record(Failed.BUDGET)
        return tightened

    def goes_on(self, group: Group, plan: Plan) -> bool:
        """May all victims whose removal has not been asked for, or has come to nothing, be evicted now, and have to?"""
        return self._right(group, plan, self._look(group, plan))

    def _look(self, group: Group, plan: Plan, unanswered: Collection[str] = ()) -> _Look:
        """How far a plan has come. Removals of ``unanswered`` pods (UIDs) have been asked for and not been answered."""
        eviction, failures = plan.eviction, self._actuator.failures(plan.eviction.key)
        removed = eviction.accepted(unanswered, failures)
        standing = [pod.uid for pod in eviction.standing(self._world.pods) if pod.uid not in removed]
        return _Look(standing, eviction.begun_units(self._world.pods, unanswered, failures))

    def _right(self, group: Group, plan: Plan, now: _Look, room: bool = True) -> bool:
        """May the victims that stand all still be evicted? And does the gang need them to go, if ``room`` may have
        turned up?
        """
        world, unprotected = self._world, self._options.evict_daemonset_pods
        if not all(may_leave(world, world.pods[uid], group.gangs, unprotected) for uid in now.standing):
            return False
        victims = [plan.victims[uid] for uid in now.standing]
        if incomplete(victims, plan.victims, world) or self._not_as_made(group, plan, now):
            return False
        return not (room and self._needless(group, plan, now))

    def _not_as_made(self, group: Group, plan: Plan, now: _Look) -> bool:
        """Does the gang need more or fewer members than the plan is for, while no pod has left for it yet? Is a member
        that it takes singly no surplus of its own gang any more? Or would other Jobs fail than was known, by the loss
        of what need not leave whole? Those that have left for it are in their counts, if anything has.
        """
        if not now.begun and plan.required and plan.required != self._world.membership.lacking(group.gangs):
            return True
        world, key = self._world, None if now.begun else group.key
        rest = [victim for uid in now.standing if unit_of(victim := plan.victims[uid]) not in now.begun]
        broken = breaks_gangs(rest, self._ledger.condemned, world, self._options)
        return broken or fails_jobs(rest, plan.eviction, world, key)

    def _needless(self, group: Group, plan: Plan, now: _Look) -> bool:
        """No more pods go when room has turned up since the plan was made, or the gang lacks no member. Units of
        which a pod has left for it leave whole, and who leaves for an earlier plan too is not spared by this one. When
        no pod is left to be spared the plan stands: its room may be what has turned up, and given up it would be weaker
        work's until the nominations are withdrawn.
        """
        if not now.standing:
            return False
        own = self._own(group, now.standing)
        if not now.begun:
            own = own or now.standing
            return self._decider.fits_without(group.gangs, plan.node_of, own) is not None
        leave = {uid for uid in plan.victims if uid in self._world.pods and unit_of(plan.victims[uid]) in now.begun}
        if leave.issuperset(own):
            return False
        lacks = any(self._world.membership.lacking(group.gangs))
        return not lacks or bool(self._decider.places_without(group.gangs, leave))

    def _tightened(self, group: Group, plan: Plan, now: _Look) -> bool:
        """Would victims that were within their budgets break them by now, and is there still time to choose others?
        Once a pod has been removed the list is finished.
        """
        if group.failures.count(Failed.BUDGET) or not self._world.budgets or now.begun:
            return False
        pods = [self._world.pods[uid] for uid in now.standing]
        budgets = budgets_of(self._world, group.key, plan.victims)
        # Those that another plan takes too were charged to that one: who is beyond has changed, and not how many.
        said = budgets.draws(pod for pod in pods if plan.victims[pod.uid].over_budget)
        return any(count - budgets.allowed[key] > said[key] for key, count in budgets.draws(pods).items())

    def _own(self, group: Group, uids: Sequence[str]) -> list[str]:
        """Those of these victims that leave for no plan that was made before."""
        counts_on = self._ledger.condemned.counts_on
        return [uid for uid in uids if not counts_on(uid, group.key)]

    # -- while removals are on their way -------------------------------------------------------------------

    def noted(self, changes: Sequence[Change]) -> None:
        """Something has happened: spare the victims that need not leave any more because of that."""
        evictions = self._ledger.condemned.evictions
        for eviction in evictions.values():
            if eviction.phase is Phase.REMOVING:
                self._spare_ended(eviction, changes)
        for group, plan in self._evicting(evictions):
            doubts = [self._doubt(change, plan.victims) for change in changes]
            if any(doubts):
                self._spare_wrong(group, plan, room=_HELPS in doubts)

    def look_again(self, group: Group) -> None:
        """The gang itself is not what it was when its victims were chosen, or it is known now that a victim did not
        leave for it: spare those that it does not need to leave any more.
        """
        for each, plan in self._evicting([group.key]):
            self._spare_wrong(each, plan, room=True)

    def _evicting(self, keys: Iterable[str]) -> Iterator[tuple[Group, Plan]]:
        """Those of the groups that evict, with their plans."""
        for key in keys:
            group = self._groups.get(key)
            if group is not None and group.plan is not None and group.evicts(Phase.REMOVING):
                yield group, group.plan

    def _doubt(self, change: Change, victims: Mapping[str, Victim]) -> int:
        """What a change may mean for a plan with these victims."""
        pod = change.pod
        if pod is not None and pod.uid in victims:
            known = self._world.pods.get(pod.uid)
            return _VICTIM if known is not None and known.live else 0
        if pod is None and change.kind & (Hint.VICTIMS | Hint.BUDGET):
            return _VICTIM
        if not change.kind & _ROOM:
            return 0
        if pod is None:
            return _HELPS
        # Room for which a gang waits is held for them; that of a pod which terminated was counted on before it went.
        expected = pod.uid not in self._world.pods and pod.deleting_since is not None
        return 0 if expected or pod.uid in self._ledger.awaited else _HELPS

    def _spare_ended(self, eviction: Eviction, changes: Sequence[Change]) -> None:
        """A victim that has ended by itself need not be removed, and one that is gone cannot be."""
        pods = (change.pod for change in changes if change.pod is not None)
        touched = {pod.uid for pod in pods if pod.uid in eviction.victims}
        ended = {uid for uid in touched if (pod := self._world.pods.get(uid)) is None or pod.finished}
        if ended:
            removals = self._actuator.removals(eviction.key)
            self._actuator.spare(eviction.key, [r for r in removals if r.pod.uid in ended])

    def _spare_wrong(self, group: Group, plan: Plan, *, room: bool) -> None:
        """Spare those whose removals wait, if these are not right any more, and leave no unit half gone that may go
        whole. What becomes of the plan is seen when the last of them has been answered: some may have been carried out.
        """
        removals = self._actuator.removals(group.key)
        if not removals:
            return
        now = self._look(group, plan, {uid for removal in removals for uid in plan.eviction.meant(removal.pod.uid)})
        if self._tightened(group, plan, now) or not self._right(group, plan, now, room):
            self._actuator.spare(group.key, removals)

    # -- announced evictions --------------------------------------------------------------------------------------

    def notice_ends(self, victims: Iterable[Victim], known: Mapping[str, float]) -> float:
        """When these victims may be marked and removed: those to whom it was announced before, by UID, at the time that
        is ``known`` to them. In whole seconds, as it is written down; 0: at once.
        """
        of_class, membership = dict(self._options.notice), self._world.membership
        times = [0.0]
        for victim in victims if of_class else ():
            pod = self._world.pods[victim.uid]
            spec = membership.spec(pod.gang)
            name = (spec.priority_class if spec is not None else "") or pod.priority_class
            seconds = of_class.get(name, of_class.get("", 0.0))
            if seconds:
                times.append(known.get(victim.uid, math.ceil(self._world.now + seconds)))
        return max(times)

    def announce(self, eviction: Eviction, preemptor: str) -> None:
        """Report it on each victim that stands, as an Event."""
        note = notes.eviction_announced(preemptor=preemptor, when=render_time(eviction.begins))
        for pod in eviction.standing(self._world.pods):
            self._reporter.event(reference(pod), report.EVICTION_ANNOUNCED, note)

    def calls_for_another_look(self, eviction: Eviction) -> bool:
        """Has a victim ended, or saved its work, since its eviction was announced? A second choice is final."""
        if eviction.weighed_again:
            return False
        world = self._world
        standing = eviction.standing(world.pods)
        if len(standing) < len(eviction.victims):
            return True
        found, slots = unsaved(world, self._world.now), world.snapshot.table.slot_of
        if found is None:
            return False
        since = ((pod.uid, pod.evicted_for.since) for pod in standing if pod.evicted_for is not None)
        return any(found.checkpoint[slots[uid]] > announced for uid, announced in since)
