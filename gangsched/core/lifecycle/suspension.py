"""The writes that suspend a Job (or JobSet) to make room and let it go on, and the room that is kept for its pods
meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangsched.core.actions import JobRef, ResumeJob, SuspendJob
from gangsched.core.hints import Change, Hint
from gangsched.core.ledger.condemned import NO_PLAN
from gangsched.core.lifecycle import condemning, report, shared_marks
from gangsched.core.lifecycle.holding import hold
from gangsched.core.lifecycle.permit import Barrier
from gangsched.core.lifecycle.templates import changed
from gangsched.core.preemption.removal import SUSPEND
from gangsched.core.state.suspended import WITHOUT_PODS, Suspendable, family_of
from gangsched.model.records import GangId, Pod

if TYPE_CHECKING:
    from gangsched.core.groups import Group, Plan
    from gangsched.core.lifecycle.steps import Steps


def is_suspended_job(group: Group) -> bool:
    """Is the group a Job or JobSet without pods? Nothing can be written to its members, and they cannot be bound."""
    return group.gangs[0].family in WITHOUT_PODS


def owner(steps: Steps, gang: GangId) -> Suspendable | None:
    """The Job or JobSet that a gang without pods stands for."""
    return steps.world.suspended.find(gang.family, gang.namespace, gang.name)


def reference(job: Suspendable) -> JobRef:
    """The incarnation of a Job or JobSet that a write means."""
    return JobRef(job.namespace, job.name, job.uid, family_of(job))


# -- suspending -----------------------------------------------------------------------------------------------


def suspend(steps: Steps, group: Group, plan: Plan, uids: list[str]) -> list[str]:
    """Suspend the Jobs of those victims that are to leave so; returns the others. A Job that is gone takes its pods
    with it, but nobody waits for that: they are removed like others.
    """
    others, jobs = [], {}
    for uid in uids:
        pod = steps.world.pods[uid]
        job = steps.world.suspended.owner_of(pod) if plan.victims[uid].method == SUSPEND else None
        if job is None:
            others.append(uid)
        else:
            jobs[job.uid] = job
            plan.leaving_with.setdefault(job.uid, set()).add(uid)
    for job in jobs.values():
        action_id = steps.new_id()
        plan.removed.update(plan.leaving_with[job.uid])
        scheduler = group.gangs[0].scheduler
        action = SuspendJob(action_id, reference(job), job.version, scheduler, group.name, plan.ident)
        steps.write(group, action, action_id, job.uid)
    return others


def suspended(steps: Steps, group: Group, plan: Plan, job: JobRef) -> None:
    """The Job is suspended: tell it and its pods."""
    trigger, priority = steps.trigger(group), steps.world.membership.preemptor_priority(group.gangs)
    for uid in sorted(plan.leaving_with.get(job.uid, ())):
        steps.actions.append(report.victim_evicted(plan.victims[uid], group.name, trigger, priority))
    steps.actions.append(report.job_suspended(job, group.name, trigger, priority, plan.ident))


def not_suspended(steps: Steps, key: str, action: SuspendJob) -> None:
    """A suspension has failed that no plan of this group follows any more: the Job's pods stay, unless another plan
    needs them to leave.
    """
    job = steps.world.suspended.find(action.job.kind, action.job.namespace, action.job.name)
    if job is None or job.uid != action.job.uid or job.suspended:
        return
    for pod in steps.world.suspended.pods_of(job):
        condemning.spare(steps, pod.uid, NO_PLAN)
        if pod.uid in steps.marks:
            shared_marks.given_up(steps, pod.uid, key, action.preemptor)


# -- going on -------------------------------------------------------------------------------------------------


def let_go_on(steps: Steps, group: Group) -> None:
    """End the suspension; the room that the stand-ins hold is now for the pods that will come."""
    gang = group.gangs[0]
    job = owner(steps, gang)
    group.barrier = Barrier()
    if group.plan is None or job is None:
        return
    hold(steps, group, group.plan)
    group.message = f"waiting for the pods of {gang.family} {job.key}"
    steps.world.ledger.resume(group.key, job.uid)
    action_id = steps.new_id()
    held, templates = steps.world.suspended.held(job), changed(steps, group, job)
    action = ResumeJob(action_id, reference(job), job.version, gang.scheduler, held=held, templates=templates)
    steps.write(group, action, action_id, job.uid)


def suspended_anew(steps: Steps, job: Suspendable) -> bool:
    """Has a Job that was let go on been suspended since, by us or by others? No pods come then. Until the cluster shows
    that it goes on, it only looks so.
    """
    ledger = steps.world.ledger
    if not job.suspended and ledger.kept_for(job.uid) is not None:
        ledger.resumed.add(job.uid)
    ours = job.suspended_by or steps.world.suspended.held(job)
    return job.suspended and (not ours or job.uid in ledger.resumed)


def take_room(steps: Steps, pod: Pod, node: str) -> None:
    """A pod of a Job takes room on a node: as much is no longer kept for the Job, there if possible."""
    ledger = steps.world.ledger
    job = steps.world.suspended.owner_of(pod) if ledger.resumes and pod.live else None
    made = ledger.kept_for(job.uid) if job is not None else None
    taken = ledger.adopt(job.uid, pod.uid, node) if job is not None else None
    if made is None or taken is None:
        return
    if taken.node != node:
        steps.changes.append(Change(Hint.ROOM, taken.node))
    steps.check.add(made.holder)
