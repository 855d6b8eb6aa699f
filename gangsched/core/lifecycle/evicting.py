"""Carries evictions out: marks, removals, and taking back what is not needed any more.

All victims are marked, durably, before the first one is removed. The method is the victim's: it is deleted, evicted
through its budgets, or its Job (or JobSet) is suspended. An eviction that ends takes its marks off those that stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangsched.core.actions import Action, Mark, Remove, SuspendJob, Unmark
from gangsched.core.decision import Victim
from gangsched.core.ledger.condemned import NO_PLAN
from gangsched.core.lifecycle import condemning, report, shared_marks, suspension
from gangsched.core.lifecycle.eviction import Eviction, Phase
from gangsched.core.preemption.removal import SUSPEND

if TYPE_CHECKING:
    from gangsched.core.lifecycle.steps import Steps


def begin(steps: Steps, eviction: Eviction, name: str = "", priority: float | None = None) -> None:
    """The victims are condemned from now on, for the gang of this name and priority if it is for one."""
    steps.evictions[eviction.key] = eviction
    steps.world.ledger.condemned.begin(eviction.key, name, priority)
    condemning.condemn(steps, eviction.key, eviction.victims)


def mark(steps: Steps, eviction: Eviction) -> None:
    """Mark every victim that stands."""
    eviction.phase = Phase.MARKING
    steps.actuator.begin(eviction.key)
    for pod in eviction.standing(steps.world):
        if pod.uid in eviction.removed:
            continue  # it is leaving, and does not look like it yet
        marked_by(steps, eviction, pod.uid, eviction.mark)
        if pod.uid in eviction.standing_marks:
            eviction.standing_marks.discard(pod.uid)
            continue
        steps.actuator.drop(Unmark, pod.uid)
        steps.actuator.drop(Mark, pod.uid)
        action = Mark(steps.new_id(), report.reference(pod), eviction.mark, eviction.reason)
        steps.actuator.ask(eviction.key, action)
    steps.check.add(eviction.key)


def marked_by(steps: Steps, eviction: Eviction, uid: str, text: str) -> None:
    """The pod is on the list of this eviction: it bears this mark, or will."""
    eviction.marked.add(uid)
    steps.marks.add(uid)
    steps.mark_texts.asked(uid, eviction.key, text)


def remove(steps: Steps, eviction: Eviction) -> list[Victim]:
    """Remove the victims that stand and have not been removed. A Job that is gone takes its pods with it, but nobody
    waits for that: they are removed like others. Returns the victims when they are the first to leave.
    """
    eviction.phase = Phase.REMOVING
    world, jobs, pods = steps.world, {}, []
    leaving = [pod for pod in eviction.standing(world) if pod.uid not in eviction.removed]
    for pod in leaving:
        eviction.removed.add(pod.uid)
        job = world.suspended.owner_of(pod) if eviction.victims[pod.uid].method == SUSPEND else None
        if job is None:
            pods.append(pod)
        else:
            jobs[job.uid] = job
            eviction.leaving_with.setdefault(job.uid, set()).add(pod.uid)
    for job in jobs.values():
        about = suspension.reference(job)
        suspend = SuspendJob(steps.new_id(), about, job.version, eviction.scheduler, eviction.owner, eviction.ident)
        steps.actuator.ask(eviction.key, suspend)
    strict = steps.options.strict_budgets
    for pod in pods:
        ref = report.reference(pod)
        steps.actuator.ask(eviction.key, Remove(steps.new_id(), ref, strict, eviction.mark, eviction.reason))
    steps.check.add(eviction.key)
    first = bool(leaving) and not eviction.announced
    eviction.announced |= first
    return [eviction.victims[pod.uid] for pod in leaving] if first else []


def withdraw(steps: Steps, eviction: Eviction) -> None:
    """Take the marks off those that stay, or hand them over to others who need these pods to leave."""
    stay = {pod for f in steps.actuator.failures(eviction.key) for pod in eviction.meant(f.uid)}
    stay |= eviction.marked - eviction.removed
    for uid in sorted(stay & steps.marks):
        pod = steps.world.pods.get(uid)
        if pod is not None and not pod.live:
            continue  # it leaves, for whoever that is
        job = steps.world.suspended.owner_of(pod) if pod is not None else None
        if job is None or not job.suspended:
            shared_marks.given_up(steps, uid, eviction.key, eviction.owner)


def end(steps: Steps, eviction: Eviction) -> None:
    """Nobody follows the eviction any more: those of its victims stay whose removal has not been sent, or has failed.
    Those whose removal still waits are spared.
    """
    if steps.evictions.get(eviction.key) is eviction:
        del steps.evictions[eviction.key]
    steps.actuator.spare(eviction.key, steps.actuator.removals(eviction.key))
    condemned = steps.world.ledger.condemned
    failed = {pod for f in steps.actuator.failures(eviction.key) for pod in eviction.meant(f.uid)}
    for uid in eviction.victims.keys() | eviction.marked:
        if uid in eviction.removed and uid not in failed:
            condemned.sent(uid, eviction.key, steps.now)
        else:
            condemning.spare(steps, uid, eviction.key)
    condemned.end(eviction.key)
    steps.actuator.end(eviction.key)


def not_removed(steps: Steps, key: str, action: Action) -> None:
    """A removal has failed that no eviction follows any more: its pods stay, unless another one needs them to leave."""
    if isinstance(action, Remove):
        uids, owner = [action.pod.uid], report.owner_of(action.mark)
    elif isinstance(action, SuspendJob):
        job = steps.world.suspended.find(action.job.kind, action.job.namespace, action.job.name)
        stays = job is not None and job.uid == action.job.uid and not job.suspended
        uids = [pod.uid for pod in steps.world.suspended.pods_of(job)] if job is not None and stays else []
        owner = action.preemptor
    else:
        return
    for uid in uids:
        condemning.spare(steps, uid, NO_PLAN)
        if uid in steps.marks and owner:
            shared_marks.given_up(steps, uid, key, owner)
