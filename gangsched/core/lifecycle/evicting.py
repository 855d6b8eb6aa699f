"""Carries evictions out: marks, removals, and taking back what is not needed any more.

All victims are marked, durably, before the first one is removed. The method is the victim's: it is deleted, evicted
through its budgets, or its Job (or JobSet) is suspended. An eviction that ends takes its marks off those that stay.

A plan *counts on* a condemned pod when its gang would not fit with that pod put back. If it could take the pod by its
own right it *owns* it too: the pod leaves for it, whatever becomes of the others. If not it *depends* on it.

What is left of a gang of which a pod has been removed is of no use. So an eviction that is *abandoned*,
since the gang that needed the room has given up or is gone, goes on by itself, for the units that it has begun to
remove, until all of their pods leave or the API refuses a removal.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from gangsched.core.actions import Action, Remove, SuspendJob
from gangsched.core.actuation import desired
from gangsched.core.actuation.actuator import Actuator
from gangsched.core.actuation.records import Owner
from gangsched.core.agenda import Page
from gangsched.core.decision import UnitRef, Verdict, Victim
from gangsched.core.events import Change, Failure, Hint, Outcome
from gangsched.core.ledger.condemned import NO_PLAN, UNSEEN_SECONDS, Cause, Eviction, Phase, unit_of
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.conditions import Reporter
from gangsched.core.options import Options
from gangsched.core.preemption.removal import SUSPEND, fails_jobs, suspended_for
from gangsched.core.state.jobs import Suspendable
from gangsched.core.world.world import World
from gangsched.model.preemptible import protected
from gangsched.model.records import PREEMPT_NEVER, SINGLE, GangId, Pod

if TYPE_CHECKING:
    from gangsched.core.lifecycle.group import Plan

#: Grace periods have whole seconds: what differs by less is equal.
_AT_ONCE_SECONDS = 0.1


def _like(victim: Victim, pod: Pod, eviction: Eviction | None) -> Victim:
    """The pod, which leaves by an eviction, as one that leaves together with the victim."""
    return msgspec.structs.replace(
        victim,
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        node=pod.node,
        priority=pod.priority,
        over_budget=eviction is not None and eviction.victims[pod.uid].over_budget,
    )


class Evictions:
    """Carries evictions out: ``actuator`` is asked for what they need."""

    def __init__(self, world: World, options: Options, actuator: Actuator, reporter: Reporter) -> None:
        self._world = world
        self._condemned = world.ledger.condemned
        self._options = options
        self._actuator = actuator
        self._reporter = reporter
        #: When more victims are removed, by the key of the eviction.
        self.removals: Page[str] = world.ledger.agenda.page()
        #: UIDs of pods that a plan does not need to leave any more, and the keys of the groups that were decided after
        #: a plan that is withdrawn.
        self.spared: set[str] = set()
        self.anew: set[str] = set()
        #: The gangs of pods that have been condemned or spared, and the Jobs and JobSets of those without a group, by
        #: UID: what that means for their other members is seen anew.
        self.losing: set[GangId] = set()
        self.losing_owners: dict[str, Suspendable] = {}

    def begin(self, eviction: Eviction, *, for_gang: bool = False) -> None:
        """The victims are condemned from now on."""
        self._actuator.begin(eviction.key)
        self._condemned.begin(eviction, for_gang=for_gang)
        self.condemn(eviction, eviction.victims)

    def mark(self, eviction: Eviction) -> None:
        """The eviction is to stand by name on every victim that has not been removed."""
        if not eviction.marked:
            eviction.count(self._world.pods)
        eviction.phase = Phase.MARKING
        self._actuator.begin(eviction.key)
        for pod in eviction.to_go(self._world.pods):
            self._condemned.name(pod, eviction)
            if pod.uid not in eviction.acknowledged and (wanted := desired.mark(self._world, pod)) is not None:
                self._actuator.want(wanted, eviction.key)
        self._actuator.check.add(eviction.key)

    def mark_again(self, eviction: Eviction) -> None:
        """The same, before further victims are removed: a mark does not stand for ever on a pod that does not
        terminate.
        """
        pods = self._world.pods
        eviction.acknowledged -= {
            uid for uid in eviction.acknowledged if uid in pods and not pods[uid].disruption_target
        }
        self.mark(eviction)

    def remove(self, eviction: Eviction) -> list[Victim]:
        """Remove the victims that stand and have not been removed, or mark them (again) if one of them is not known to
        be, be it one that another eviction removes: until it is gone it has to say for whom else it leaves. As long as
        they have notice nothing is removed.

        A Job that is gone takes its pods with it, but that is not waited for: they are removed like others. Returns the
        victims that are removed for the first time.
        """
        if not eviction.acknowledged.issuperset(pod.uid for pod in eviction.to_go(self._world.pods)):
            self.mark(eviction)
            return []
        if self._world.now < eviction.begins:
            eviction.phase = Phase.NOTICE
            self.removals.at(eviction.key, eviction.begins)
            return []
        leaving = self.due(eviction)
        eviction.phase = Phase.REMOVING
        world, jobs, pods = self._world, {}, []
        for pod in leaving:
            eviction.removed.add(pod.uid)
            job = world.jobs.owner_of(pod) if eviction.victims[pod.uid].method == SUSPEND else None
            if job is None:
                pods.append(pod)
            else:
                jobs[job.uid] = job
                eviction.leaving_with.setdefault(job.uid, set()).add(pod.uid)
        for job in jobs.values():
            self.suspend(eviction, job)
        for pod in pods:
            self._actuator.want(desired.remove(eviction, pod, self._options.strict_budgets), eviction.key)
        self._actuator.check.add(eviction.key)
        first = [eviction.victims[pod.uid] for pod in leaving if pod.uid not in eviction.reported]
        eviction.reported.update(victim.uid for victim in first)
        eviction.announced |= bool(first)
        return first

    def suspend(self, eviction: Eviction, job: Suspendable) -> None:
        """Let the Job go, with the pods that it has."""
        about, by = report.job_reference(job), (eviction.scheduler, eviction.owner, eviction.ident)
        self._actuator.want(desired.suspend(about, job.version, *by), eviction.key)

    def due(self, eviction: Eviction) -> list[Pod]:
        """The victims whose removal is to be asked for now: those with long grace periods first, so that all room
        appears together, and no other pod can take some of it while the gang waits for the rest.

        Units go together, each as long before the last pod that the gang waits for should be gone as the longest grace
        period in it takes. That time is read off the pods, so a process that takes over goes on in the same order.
        """
        waiting, world = self.not_asked_for(eviction), self._world
        if eviction.cause is not Cause.PREEMPTION or eviction.former or not waiting:
            return waiting
        takes: dict[object, float] = {}
        for uid, victim in eviction.victims.items():
            if uid in world.pods:
                unit = self._goes_with(victim)
                takes[unit] = max(takes.get(unit, 0.0), world.pods[uid].grace_seconds)
        awaited = (pod for uid in world.ledger.waits(eviction.key) if (pod := world.pods.get(uid)) is not None)
        last = max((world.leaves_by(pod) for pod in awaited), default=0.0)
        begins = {pod.uid: last - takes[self._goes_with(eviction.victims[pod.uid])] for pod in waiting}
        soon = self._world.now + _AT_ONCE_SECONDS
        later = [when for when in begins.values() if when > soon]
        if later:
            self.removals.no_later(eviction.key, min(later))
        return [pod for pod in waiting if begins[pod.uid] <= soon]

    def _goes_with(self, victim: Victim) -> object:
        """What a victim leaves together with: its unit, or the Job that is suspended for it."""
        pod = self._world.pods.get(victim.uid)
        job = self._world.jobs.owner_of(pod) if pod is not None and victim.method == SUSPEND else None
        return unit_of(victim) if job is None else job.uid

    def not_asked_for(self, eviction: Eviction) -> list[Pod]:
        """Victims that stand and whose removal has not been asked for, by this eviction or another, or has failed."""
        return [
            pod
            for pod in eviction.to_go(self._world.pods)
            if not self._condemned.leaves_for_others(pod.uid, eviction.key)
        ]

    def written(self, eviction: Eviction) -> list[Failure]:
        """Every mark or removal has been answered: what has failed, and matters. Other owners of the pods whose
        removals have failed may have to remove them.
        """
        failures = self._settle(eviction, self._actuator.take_failures(eviction.key))
        for uid in eviction.all_meant(failures):
            self._actuator.check.update(self._condemned.owners(uid))
        return failures

    def _settle(self, eviction: Eviction, failed: Sequence[Failure]) -> list[Failure]:
        failures = eviction.settle(failed)
        self._condemned.answer_lost(eviction.unsure & eviction.all_meant(failures), self._world.now)
        return failures

    def withdraw(self, eviction: Eviction, but: Iterable[str] = ()) -> None:
        """Take the eviction's name off those that stay, these aside."""
        stay = eviction.all_meant(self._actuator.failures(eviction.key)) | (eviction.marked - eviction.removed)
        for uid in sorted(stay.difference(but)):
            pod = self._world.pods.get(uid)
            if pod is not None and not pod.live:
                continue  # it leaves, for whoever that is
            job = self._world.jobs.owner_of(pod) if pod is not None else None
            if job is None or not job.suspended:
                self.disown(uid, eviction.key)

    def disown(self, uid: str, key: str) -> None:
        """The eviction with this key needs the pod no longer to leave. If none does, its mark is taken back."""
        self.spare(uid, key)
        former = self._condemned.unname(uid, key)
        pod = self._world.pods.get(uid)
        if former is not None and pod is not None and pod.live:
            self.restate(pod, former.owner)

    def take_over(self, pod: Pod, owners: Sequence[Owner]) -> None:
        """An earlier process has left a pod with these owners: those that are none any more are taken off it."""
        job = self._world.jobs.owner_of(pod)
        named = self._condemned.named(pod.uid)
        if not pod.live or (not named and job is not None and job.suspended):
            return
        said = {(o.name, o.plan) for o in owners if o.plan}
        if not named or not said <= {(e.owner, e.ident) for e in named.values()}:
            self.restate(pod, owners[0].name)

    def restate(self, pod: Pod, former: str) -> None:
        """The pod is to name its owners, to whom the one of this name does not belong any more, and no phase waits for
        that: it is on its way for one of them. If it has none it need not leave.
        """
        self._actuator.want(desired.mark_or_unmark(self._world, pod, former))

    def end(self, eviction: Eviction) -> None:
        """It is given up: those of its victims stay whose removal has not been sent, or has failed."""
        self.removals.never(eviction.key)
        self._actuator.spare(eviction.key, self._actuator.removals(eviction.key))
        failed = eviction.all_meant(self._actuator.failures(eviction.key))
        for uid in eviction.victims.keys() | eviction.marked:
            if uid in eviction.removed and uid not in failed:
                self._condemned.sent(uid, eviction.key, self._world.now)
            else:
                self.spare(uid, eviction.key)
        self._condemned.end(eviction)
        self._actuator.end(eviction.key)

    def not_removed(self, key: str, action: Action, outcome: Outcome, message: str) -> None:
        """A removal has failed that its eviction does not follow any more: its pods stay, unless another one needs them
        to leave.
        """
        uids = []
        if isinstance(action, Remove):
            uids = [action.pod.uid]
        elif isinstance(action, SuspendJob):
            job = self._world.jobs.find(action.job.kind, action.job.namespace, action.job.name)
            if job is not None and job.uid == action.job.uid and not job.suspended:
                uids = [pod.uid for pod in self._world.jobs.pods_of(job)]
        if outcome is Outcome.TRANSIENT:
            self._condemned.answer_lost(uids, self._world.now)
        for uid in uids:
            self.spare(uid, NO_PLAN)
            self.disown(uid, key)
        for rest in self._condemned.rests.values():
            rest.settle([Failure(uid, outcome, message) for uid in rest.removed.intersection(uids)])

    def give_up(self, eviction: Eviction) -> None:
        """The gang for which an eviction was does not need it any more: what has, or may have, begun goes on without
        it, and its name is taken off the others.
        """
        waiting = {uid for each in self._actuator.removals(eviction.key) for uid in eviction.meant(each.pod.uid)}
        if eviction.phase is Phase.REMOVING:
            self._settle(eviction, self._actuator.failures(eviction.key))
        left = eviction.begun_units(self._world.pods, waiting, ())
        begun = left | eviction.in_doubt(self._world.pods) | {unit_of(eviction.victims[uid]) for uid in waiting}
        units = begun if eviction.cause is Cause.PREEMPTION else set()
        refused = {unit_of(eviction.victims[uid]) for uid in eviction.refused}
        self._left_in_part(eviction, units & left & refused)
        rest = eviction.rest(v for v in eviction.victims.values() if unit_of(v) in units - refused)
        self.go_on(rest)
        for uid in rest.marked:
            self._condemned.unname(uid, eviction.key)
        self.withdraw(eviction, but=rest.marked)

    def _left_in_part(self, eviction: Eviction, units: Container[UnitRef | str]) -> None:
        """Pods of these units have been removed, and the others stay, since it ends: their gangs may be broken."""
        victims, owners = eviction.victims, self._condemned.owners
        staying = [p for p in eviction.to_go(self._world.pods) if unit_of(victims[p.uid]) in units]
        self._reporter.left_in_part(eviction, [pod for pod in staying if {*owners(pod.uid)} <= {eviction.key}])

    def go_on(self, rest: Eviction) -> None:
        """From now on this eviction, which is for no gang, goes on by itself. Pods that may not leave any more stay."""
        leaves = [pod.uid for pod in rest.standing(self._world.pods) if self._leaves(rest.victims[pod.uid], pod)]
        stays = {pod.uid for pod in rest.standing(self._world.pods)}.difference(leaves)
        rest.victims = {uid: victim for uid, victim in rest.victims.items() if uid not in stays}
        if leaves:
            self.begin(rest)
            for uid in leaves:
                self._condemned.name(self._world.pods[uid], rest)

    def _leaves(self, victim: Victim, pod: Pod) -> bool:
        """Does a victim leave with others, and not with its Job in any case?"""
        job = self._world.jobs.owner_of(pod)
        if protected(pod, self._options.evict_daemonset_pods) or (job is not None and job.suspended):
            return False
        return not victim.partial and victim.unit.kind != "Pod"

    def follow_rests(self) -> None:
        """Where every write has been answered, what is left of the units of which a pod was removed is removed, too,
        and the others stay. Where the answer was lost it is waited for that the pod is seen to leave.
        """
        for eviction in list(self._condemned.rests.values()):
            if not self._actuator.settled(eviction.key) or self._actuator.any_of(eviction.former):
                continue
            failures = self.written(eviction)
            units = eviction.begun_units(self._world.pods, (), ())
            doubts = eviction.in_doubt(self._world.pods) - units
            eviction.shows_until = (eviction.shows_until or self._world.now + UNSEEN_SECONDS) if doubts else 0.0
            waits = self._world.now < eviction.shows_until
            if waits:
                units |= doubts
            for uid in [uid for uid, victim in eviction.victims.items() if unit_of(victim) not in units]:
                del eviction.victims[uid]
                eviction.marked.discard(uid)
                self.disown(uid, eviction.key)
            if eviction.fails(failures) or eviction.refused or not eviction.to_go(self._world.pods):
                self._left_in_part(eviction, units)
                self.withdraw(eviction)
                self.end(eviction)
            elif waits:
                self.removals.at(eviction.key, eviction.shows_until)
            else:
                self.remove(eviction)

    def condemn(self, eviction: Eviction, uids: Iterable[str]) -> None:
        """These pods leave by this eviction. Their room may help others."""
        world = self._world
        for uid in uids:
            pod = world.pods.get(uid)
            if pod is None or not pod.bound:
                continue
            if world.ledger.condemned.add(pod, eviction.key, suspended_for(world, eviction.victims.get(uid))):
                self._may_help(pod, Hint.ROOM)

    def spare(self, uid: str, key: str) -> None:
        """The plan with this key does not need the pod to leave. If none does, it may be a victim again, or another of
        its budgets may be, and plans that have counted on it are made anew.
        """
        pod = self._world.pods.get(uid)
        if self._condemned.spare(uid, key) and pod is not None:
            self._may_help(pod, Hint.VICTIMS | Hint.BUDGET)
        self.spared.add(uid)

    def _may_help(self, pod: Pod, hint: Hint) -> None:
        self.touched(pod)
        self._world.membership.changed.add(pod.gang)
        self._world.ledger.changes.append(Change(hint, pod.node, pod))

    def depends(self, plan: Plan) -> bool:
        """Does it count on pods that others make leave, and that do not terminate yet? It removes no pod before."""
        pods, awaited = self._world.pods, self._world.ledger.waits(plan.eviction.key)
        return any(uid not in plan.victims and (pod := pods.get(uid)) is not None and pod.live for uid in awaited)

    def owned(self, gangs: Sequence[GangId], verdict: Verdict, *, paused: bool) -> tuple[list[Victim], list[str]]:
        """Whom the plan of this verdict owns: its victims, and of the condemned pods that it counts on those that it
        could take itself. What leaves together is owned together: who takes the rest of a gang owns its condemned
        members, too. Then the UIDs of those pods on which it only depends, or that terminate. A gang that is ``paused``
        owns none.
        """
        if paused:
            return [], sorted(a.uid for a in verdict.awaiting)
        pods, found = self._world.pods, {v.uid: v for v in verdict.victims}
        awaited, shared = {a.uid for a in verdict.awaiting}, list(self._shared(a.uid for a in verdict.awaiting))
        rests = list(self._the_rest([*verdict.victims, *(v for theirs in shared for v in theirs if v.uid in pods)]))
        # The rest of a gang first: a surplus member of it is no longer one for this plan, and leaves with the others.
        for theirs in [*rests, *shared]:
            whole = [v for v in theirs if v.uid not in found and v.uid in pods and pods[v.uid].live]
            if all(self._has_the_right(v.uid, gangs) for v in whole):
                found.update((v.uid, v) for v in whole)
        awaited.update(v.uid for rest in rests for v in rest)
        return list(found.values()), sorted(awaited - found.keys())

    def _shared(self, uids: Iterable[str]) -> Iterator[list[Victim]]:
        """What other plans make leave together with these pods. A plan by which a Job would fail that has lost others
        since is about to be made anew: who counts on it waits for what becomes of it.
        """
        asked: dict[str, dict[UnitRef | str, None]] = {}
        for uid in uids:
            eviction = self._condemned.first(uid)
            if eviction is not None:
                asked.setdefault(eviction.key, {})[unit_of(eviction.victims[uid])] = None
        for key, units in asked.items():
            eviction = self._condemned.evictions[key]
            if not eviction.begun and self._fails_jobs(eviction):
                continue
            victims: dict[UnitRef | str, list[Victim]] = {}
            for victim in eviction.victims.values():
                for unit in (victim.uid, victim.unit):
                    victims.setdefault(unit, []).append(victim)
            yield from (victims[unit] for unit in units)

    def _fails_jobs(self, eviction: Eviction) -> bool:
        standing = [eviction.victims[pod.uid] for pod in eviction.standing(self._world.pods)]
        return fails_jobs(standing, eviction, self._world, eviction.key)

    def _the_rest(self, victims: Sequence[Victim]) -> Iterator[list[Victim]]:
        """Of Jobs that are suspended for these victims, and of gangs that leave as a whole with them, the pods that
        other plans make leave, as these do: a Job takes along all that it has.
        """
        for like, pods in self._wholes(victims) if self._condemned.records else ():
            rest = [p for p in pods if p.uid in self._condemned and p.live]
            if rest:
                yield [_like(like, pod, self._condemned.first(pod.uid)) for pod in rest]

    def _wholes(self, victims: Sequence[Victim]) -> Iterator[tuple[Victim, list[Pod]]]:
        """What leaves as a whole with these victims: one of them, and all pods of its Job, or of its gang."""
        world, membership = self._world, self._world.membership
        with_job = [(world.jobs.owner_of(world.pods[v.uid]), v) for v in victims if v.method == SUSPEND]
        for job, like in {job.uid: (job, v) for job, v in with_job if job is not None}.values():
            yield like, world.jobs.pods_of(job)
        whole = {world.pods[v.uid].gang: v for v in victims if not v.partial and v.unit.kind != "Pod"}
        for gang, like in whole.items():
            gangs = membership.group(gang)[0] if like.unit.kind == "GangGroup" else (gang,)
            yield like, [p for each in gangs if each.family != SINGLE for p in membership.census(each).bound]

    def _has_the_right(self, uid: str, gangs: Sequence[GangId]) -> bool:
        """Could these gangs evict a pod that others make leave? Where quota decides they could if the others are
        weaker; otherwise they wait until it terminates, which is never wrong.
        """
        world = self._world
        if not may_leave(world, world.pods[uid], gangs, self._options.evict_daemonset_pods):
            return False
        priority = world.membership.preemptor_priority(gangs)
        owners = [self._condemned.evictions.get(key) for key in world.ledger.condemned.owners(uid)]
        if all(owner is not None and owner.priority < priority for owner in owners):
            return True
        return not world.managed.is_managed(world.membership.group(world.pods[uid].gang)[0])

    def withdrawn(self, key: str) -> None:
        """The plan with this key is about to end before its gang has its room: those made after it may need less, or
        other victims.
        """
        self.anew.update(self._condemned.after(key))

    def touched(self, pod: Pod) -> None:
        """The gang of this pod, or its Job, may lose it, has lost it, or keeps it after all: what that means for the
        others is seen anew.
        """
        owner = self._world.jobs.owner_of(pod)
        if pod.gang.family != SINGLE:
            self.losing.add(pod.gang)
        elif owner is not None:
            self.losing_owners[owner.uid] = owner


def may_leave(world: World, pod: Pod, gangs: Sequence[GangId], evict_daemonset_pods: bool) -> bool:
    """Does the pod run, of a lower priority than these gangs, no member of them and not protected?"""
    membership = world.membership
    return (
        pod.live
        and pod.bound
        and pod.gang not in gangs
        and (pod.priority < membership.preemptor_priority(gangs) or _for_quota(world, pod, gangs))
        and membership.policy(gangs) != PREEMPT_NEVER
        and not protected(pod, evict_daemonset_pods)
    )


def _for_quota(world: World, pod: Pod, gangs: Sequence[GangId]) -> bool:
    """Do both need quota? Then it is not the pods' priority that has made one the victim of the other."""
    managed = world.managed
    return managed.is_managed(gangs) and managed.is_managed(world.membership.group(pod.gang)[0])
