"""Carries evictions out: marks, removals, and taking back what is not needed any more.

All victims are marked, durably, before the first one is removed. The method is the victim's: it is deleted, evicted
through its budgets, or its Job (or JobSet) is suspended. An eviction that ends takes its marks off those that stay.

A plan *counts on* a condemned pod of another plan when its gang would not fit with that pod put back: it waits until
the pod terminates. If a stronger gang counts on it, the weaker plan is withdrawn first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gangsched.core.actions import Action, Remove, SuspendJob
from gangsched.core.actuation import desired
from gangsched.core.actuation.actuator import Actuator
from gangsched.core.actuation.records import EvictionOwner
from gangsched.core.agenda import Page
from gangsched.core.decision import Verdict, Victim
from gangsched.core.events import Change, Failure, Hint, Outcome
from gangsched.core.ledger.condemned import NO_PLAN, Cause, Eviction, Phase, VictimState, unit_of
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.conditions import Reporter
from gangsched.core.options import Options
from gangsched.core.preemption.removal import SUSPEND, suspended_for
from gangsched.core.state.jobs import Suspendable
from gangsched.core.world.world import World
from gangsched.model.preemptible import protected
from gangsched.model.records import PREEMPT_NEVER, SINGLE, GangId, Pod

if TYPE_CHECKING:
    from gangsched.core.lifecycle.group import Plan

#: Grace periods have whole seconds: what differs by less is equal.
_AT_ONCE_SECONDS = 0.1


class Evictions:
    """Carries evictions out, by requests to the ``actuator``."""

    def __init__(self, world: World, ledger: Ledger, options: Options, actuator: Actuator, reporter: Reporter) -> None:
        self._world = world
        self._ledger = ledger
        self._condemned = ledger.condemned
        self._work = ledger.work
        self._options = options
        self._actuator = actuator
        self._reporter = reporter
        #: When more victims are removed, by the key of the eviction.
        self.removals: Page[str] = ledger.agenda.page(on_due=ledger.work.phases.add)

    def begin(self, eviction: Eviction, *, for_gang: bool = False) -> None:
        """The victims are condemned from now on."""
        self._actuator.begin(eviction.key)
        self._condemned.begin(eviction, for_gang=for_gang)
        self.condemn(eviction, eviction.victims)

    def ask_first(self, eviction: Eviction) -> None:
        """Check victims whose removal is likely to be refused with a dry run, before any victim is written. So a plan
        that cannot be completed removes no pod.
        """
        refused, now = self._world.refused_removals, self._world.now
        for pod in eviction.standing(self._world.pods):
            if eviction.victims[pod.uid].method != SUSPEND and refused.likely(pod.namespace, now):
                self._actuator.want(desired.ask(pod, self._options.strict_budgets), eviction.key)

    def mark(self, eviction: Eviction) -> None:
        """The eviction is to stand by name on every victim that has not been removed."""
        if not eviction.state:
            eviction.count(self._world.pods)
        eviction.phase = Phase.MARKING
        self._actuator.begin(eviction.key)
        for pod in eviction.to_go(self._world.pods):
            self._condemned.name(pod, eviction)
            wanted = None if eviction.stands(pod.uid) else desired.mark(self._condemned, pod, self._world.now)
            if wanted is not None:
                eviction.marking(pod.uid)
                self._actuator.want(wanted, eviction.key)
        self._work.phases.add(eviction.key)

    def mark_again(self, eviction: Eviction) -> None:
        """Mark the victims before more of them are removed: a mark does not stand for ever on a pod that does not
        terminate.
        """
        for pod in eviction.to_go(self._world.pods):
            if not pod.disruption_target:
                eviction.lost_mark(pod.uid)
        self.mark(eviction)

    def remove(self, eviction: Eviction) -> list[Victim]:
        """Delete the remaining victims. If any of them is not known to have the mark of this eviction, mark those
        first. As long as they have notice nothing is removed.

        A Job that is gone takes its pods with it, but that is not waited for: they are removed like others. Returns the
        victims that are removed for the first time.
        """
        if not all(eviction.stands(pod.uid) for pod in eviction.to_go(self._world.pods)):
            self.mark(eviction)
            return []
        if self._world.now < eviction.begins:
            eviction.phase = Phase.NOTICE
            self.removals.at(eviction.key, eviction.begins)
            return []
        leaving = self.due(eviction)
        eviction.phase = Phase.REMOVING
        world, jobs, pods = self._world, {}, []
        first = [eviction.victims[pod.uid] for pod in leaving if eviction.removed(pod.uid)]
        for pod in leaving:
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
        self._work.phases.add(eviction.key)
        eviction.begun |= bool(first)
        return first

    def suspend(self, eviction: Eviction, job: Suspendable) -> None:
        """Let the Job go, with the pods that it has."""
        about, why = report.job_reference(job), eviction.grounds
        asked = desired.suspend(about, job.version, why.scheduler, why.owner, why.ident)
        self._actuator.want(asked, eviction.key)

    def due(self, eviction: Eviction) -> list[Pod]:
        """The victims whose removal is to be requested now. Those with long grace periods come first, so that all room
        appears together, and no other pod can take some of it while the gang waits for the rest.

        Units go together, each as long before the last pod that the gang waits for should be gone as the longest grace
        period in it takes. That time is read off the pods, so a process that takes over goes on in the same order.
        """
        waiting, world = self.not_asked_for(eviction), self._world
        if eviction.grounds.cause is not Cause.PREEMPTION or not eviction.number or not waiting:
            return waiting
        takes: dict[object, float] = {}
        for uid, victim in eviction.victims.items():
            if uid in world.pods:
                unit = self._goes_with(victim)
                takes[unit] = max(takes.get(unit, 0.0), world.pods[uid].grace_seconds)
        awaited = (pod for uid in self._ledger.waits(eviction.key) if (pod := world.pods.get(uid)) is not None)
        last = max((world.leaves_by(pod) for pod in awaited), default=0.0)
        begins = {pod.uid: last - takes[self._goes_with(eviction.victims[pod.uid])] for pod in waiting}
        soon = self._world.now + _AT_ONCE_SECONDS
        later = [when for when in begins.values() if when > soon]
        if later:
            self.removals.no_later(eviction.key, min(later))
        return [pod for pod in waiting if begins[pod.uid] <= soon]

    def _goes_with(self, victim: Victim) -> object:
        """Return the set with which a victim is evicted: its unit, or the Job that is suspended for it."""
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
        """Every mark or removal has been answered: return what has failed, and matters."""
        return self._record_answers(eviction, self._actuator.take_failures(eviction.key))

    def _record_answers(self, eviction: Eviction, failed: Sequence[Failure]) -> list[Failure]:
        failures = eviction.record_answers(failed)
        lost = eviction.within(VictimState.UNKNOWN) & eviction.all_meant(failures)
        self._condemned.answer_lost(lost, self._world.now)
        return failures

    def withdraw(self, eviction: Eviction) -> list[Pod]:
        """Take the eviction's name off those that stay. Return the pods of which it is not taken off yet, because other
        members of their gang were removed, or may have been.
        """
        failed = self._actuator.failures(eviction.key)
        if eviction.phase is Phase.REMOVING:
            self._record_answers(eviction, failed)
        stay = eviction.all_meant(failed) | (eviction.state.keys() - eviction.removing)
        begun = eviction.begun_units({f.uid for f in failed if f.outcome is Outcome.GONE})
        kept = []
        for uid in sorted(stay):
            pod = self._world.pods.get(uid)
            if pod is not None and not pod.live:
                continue  # it leaves, for whoever that is
            job = self._world.jobs.owner_of(pod) if pod is not None else None
            victim = eviction.victims.get(uid)
            if pod is not None and pod.gang.family != SINGLE and victim is not None and unit_of(victim) in begun:
                self.spare(uid, eviction.key)
                kept.append(pod)
            elif job is None or not job.suspended:
                self.disown(uid, eviction.key)
        return kept

    def disown(self, uid: str, key: str) -> None:
        """The eviction with this key needs the pod no longer to leave. If none does, its mark is taken back."""
        self.spare(uid, key)
        former = self._condemned.forget_name(uid, key)
        pod = self._world.pods.get(uid)
        if former is not None and pod is not None and pod.live:
            self.restate(pod, former.grounds.owner)

    def take_over(self, pod: Pod, owners: Sequence[EvictionOwner]) -> None:
        """An earlier process has left a pod with these owners: those that are none any more are taken off it."""
        job = self._world.jobs.owner_of(pod)
        named = self._condemned.named(pod.uid)
        if not pod.live or (named is None and job is not None and job.suspended):
            return
        said = {(o.name, o.plan) for o in owners}
        if named is None or said != {(named.grounds.owner, named.grounds.ident)}:
            self.restate(pod, owners[0].name)

    def restate(self, pod: Pod, former: str) -> None:
        """The pod is to name its owners, to whom the one of this name does not belong any more, and no phase waits for
        that: it is on its way for one of them. If it has none it need not leave.
        """
        self._actuator.want(desired.mark_or_unmark(self._condemned, pod, former, self._world.now))

    def end(self, eviction: Eviction) -> None:
        """It is given up: those of its victims stay whose removal has not been sent, or has failed."""
        self.removals.never(eviction.key)
        leave = eviction.removing - eviction.all_meant(self._actuator.failures(eviction.key))
        for uid in eviction.victims.keys() | eviction.state.keys():
            if uid in leave:
                self._condemned.sent(uid, eviction.key, self._world.now)
            else:
                self.spare(uid, eviction.key)
        self._condemned.end(eviction)
        self._actuator.end(eviction.key)

    def not_removed(self, key: str, action: Action, outcome: Outcome) -> None:
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

    def condemn(self, eviction: Eviction, uids: Iterable[str]) -> None:
        """These pods leave by this eviction. Their room may help others."""
        world = self._world
        for uid in uids:
            pod = world.pods.get(uid)
            if pod is None or not pod.bound:
                continue
            if self._condemned.add(pod, eviction.key, suspended_for(world, eviction.victims.get(uid))):
                self._may_help(pod, Hint.ROOM)

    def spare(self, uid: str, key: str) -> None:
        """The plan with this key does not need the pod to leave. If none does, it may be a victim again, or another of
        its budgets may be, and plans that have counted on it are made anew.
        """
        pod = self._world.pods.get(uid)
        if self._condemned.spare(uid, key) and pod is not None:
            self._may_help(pod, Hint.VICTIMS | Hint.BUDGET)
        self._work.spared.add(uid)

    def _may_help(self, pod: Pod, hint: Hint) -> None:
        self.touched(pod)
        self._world.membership.changed.add(pod.gang)
        self._work.changes.append(Change(hint, pod.node, pod))

    def depends(self, plan: Plan) -> bool:
        """Return True if the plan counts on pods that others evict and that do not terminate yet. It removes no pod
        before they do.
        """
        pods, awaited = self._world.pods, self._ledger.waits(plan.eviction.key)
        return any(uid not in plan.victims and (pod := pods.get(uid)) is not None and pod.live for uid in awaited)

    def awaited(self, verdict: Verdict) -> list[str]:
        """UIDs of the condemned and terminating pods that the plan of this verdict waits for: those without which its
        gang does not fit, and those that other plans take of Jobs which it suspends: a Job takes all of its pods along.
        """
        awaited, pods = {a.uid for a in verdict.awaiting}, self._world.pods
        with_job = (self._world.jobs.owner_of(pods[v.uid]) for v in verdict.victims if v.method == SUSPEND)
        for job in {job.uid: job for job in with_job if job is not None}.values():
            awaited.update(p.uid for p in self._world.jobs.pods_of(job) if p.live and p.uid in self._condemned)
        return sorted(awaited.difference(v.uid for v in verdict.victims))

    def touched(self, pod: Pod) -> None:
        """The gang of this pod, or its Job, may lose it, has lost it, or keeps it after all: what that means for the
        others is seen anew.
        """
        owner = self._world.jobs.owner_of(pod)
        if pod.gang.family != SINGLE:
            self._work.losing.add(pod.gang)
        elif owner is not None:
            self._work.losing_owners[owner.uid] = owner


def may_leave(world: World, pod: Pod, gangs: Sequence[GangId], evict_daemonset_pods: bool) -> bool:
    """Return True if the pod runs, has a lower priority than these gangs, is no member of them and is not protected."""
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
    """Return True if both need quota. Then it is not the pods' priority that has made one the victim of the other."""
    managed = world.managed
    return managed.is_managed(gangs) and managed.is_managed(world.membership.group(pod.gang)[0])
