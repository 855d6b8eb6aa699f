"""Carries evictions out: marks, removals, and taking back what is not needed any more.

All victims are marked, durably, before the first one is removed. The method is the victim's: it is deleted, evicted
through its budgets, or its Job (or JobSet) is suspended. An eviction that ends takes its marks off those that stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gangsched.core.actions import Action, Mark, Remove, SuspendJob, Unmark
from gangsched.core.decision import Victim
from gangsched.core.ledger.condemned import NO_PLAN
from gangsched.core.lifecycle import condemning, report, suspension
from gangsched.core.lifecycle.eviction import Eviction, Phase
from gangsched.core.lifecycle.intent import Owner
from gangsched.core.preemption.removal import SUSPEND
from gangsched.model.records import Pod

if TYPE_CHECKING:
    from gangsched.core.lifecycle.steps import Steps


def begin(steps: Steps, eviction: Eviction, name: str = "") -> None:
    """The victims are condemned from now on, for the gang of this name if it is for one."""
    steps.evictions[eviction.key] = eviction
    steps.world.ledger.condemned.begin(eviction.key, name, eviction.priority if name else None)
    condemning.condemn(steps, eviction.key, eviction.victims)


def mark(steps: Steps, eviction: Eviction) -> None:
    """Mark every victim that stands. The marks are complete when the eviction stands on all of them by name."""
    eviction.phase = Phase.MARKING
    steps.actuator.begin(eviction.key)
    for pod in eviction.standing(steps.world):
        if pod.uid in eviction.removed:
            continue  # it is leaving, and does not look like it yet
        own(steps, eviction, pod.uid)
        if pod.uid in eviction.standing_marks:
            eviction.standing_marks.discard(pod.uid)
            continue
        steps.actuator.drop(Unmark, pod.uid)
        steps.actuator.drop(Mark, pod.uid)
        steps.actuator.ask(eviction.key, steps.ownership.mark(pod, steps.new_id()))
    steps.check.add(eviction.key)


def own(steps: Steps, eviction: Eviction, uid: str) -> None:
    """The pod is on the list of this eviction: it bears its name, or will."""
    eviction.marked.add(uid)
    steps.ownership.own(uid, eviction.key, eviction.owning(uid))


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
    """Take the eviction's name off those that stay."""
    stay = {pod for f in steps.actuator.failures(eviction.key) for pod in eviction.meant(f.uid)}
    stay |= eviction.marked - eviction.removed
    for uid in sorted(stay):
        pod = steps.world.pods.get(uid)
        if pod is not None and not pod.live:
            continue  # it leaves, for whoever that is
        job = steps.world.suspended.owner_of(pod) if pod is not None else None
        if job is None or not job.suspended:
            disown(steps, uid, eviction.key)


def disown(steps: Steps, uid: str, key: str) -> None:
    """The eviction with this key needs the pod no longer to leave. If none does, its mark is taken back."""
    condemning.spare(steps, uid, key)
    owner = steps.ownership.disown(uid, key)
    if owner is None:
        return
    pod = steps.world.pods.get(uid)
    if uid not in steps.ownership:
        steps.unmark(uid, owner.name)
    elif pod is not None and pod.live:
        keep_up_mark(steps, pod)


def restate(steps: Steps, pod: Pod, owners: Sequence[Owner]) -> None:
    """An earlier process has left a pod with these owners: those that are none any more are taken off it."""
    if not pod.live:
        return
    if pod.uid not in steps.ownership:
        job = steps.world.suspended.owner_of(pod)
        if job is None or not job.suspended:
            steps.unmark(pod.uid, owners[0].name)
    elif not {(o.name, o.plan) for o in owners if o.plan} <= steps.ownership.names(pod.uid):
        keep_up_mark(steps, pod)


def keep_up_mark(steps: Steps, pod: Pod) -> None:
    """The pod is to name its owners, and no phase waits for that; it is on its way for one of them."""
    steps.actuator.drop(Unmark, pod.uid)
    steps.actuator.keep_up(steps.ownership.mark(pod, steps.new_id()), next(iter(steps.ownership.keys(pod.uid))))


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
    uids = []
    if isinstance(action, Remove):
        uids = [action.pod.uid]
    elif isinstance(action, SuspendJob):
        job = steps.world.suspended.find(action.job.kind, action.job.namespace, action.job.name)
        if job is not None and job.uid == action.job.uid and not job.suspended:
            uids = [pod.uid for pod in steps.world.suspended.pods_of(job)]
    for uid in uids:
        condemning.spare(steps, uid, NO_PLAN)
        disown(steps, uid, key)
