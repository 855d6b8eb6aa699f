"""Jobs (and JobSets) without pods: the end of their suspension, and the room that is kept until their pods come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangsched.core.actions import JobRef, ResumeJob
from gangsched.core.hints import Change, Hint
from gangsched.core.lifecycle.holding import hold
from gangsched.core.lifecycle.templates import changed
from gangsched.core.state.suspended import WITHOUT_PODS, Suspendable, family_of
from gangsched.model.records import GangId, Pod

if TYPE_CHECKING:
    from gangsched.core.groups import Group
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


# -- going on -------------------------------------------------------------------------------------------------


def let_go_on(steps: Steps, group: Group) -> None:
    """End the suspension; the room that the stand-ins hold is now for the pods that will come."""
    gang = group.gangs[0]
    job = owner(steps, gang)
    steps.actuator.begin(group.key)
    if group.plan is None or job is None:
        return
    hold(steps, group, group.plan)
    group.message = f"waiting for the pods of {gang.family} {job.key}"
    steps.world.ledger.resume(group.key, job.uid)
    held, templates = steps.world.suspended.held(job), changed(steps, group, job)
    action = ResumeJob(steps.new_id(), reference(job), job.version, gang.scheduler, held=held, templates=templates)
    steps.actuator.ask(group.key, action)


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
