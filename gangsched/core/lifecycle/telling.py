"""What people are told of a gang: conditions and Events, without a flood, and the status of group objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gangsched.core.actions import GangStatus, PodRef, Report, SetCondition
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.table import State
from gangsched.model.records import JOB, SINGLE, GangId

if TYPE_CHECKING:
    from gangsched.core.groups import Group, Plan
    from gangsched.core.lifecycle.steps import Steps


def where_it_stands(steps: Steps, group: Group) -> None:
    """Tell every member where its gang stands."""
    if group.state is State.GATHERING or group.problem:
        tell(steps, group, report.GANG_NOT_READY, group.problem, report.not_ready)
        return
    # A gang that is decided before its backoff is over has no more to say for it.
    early = steps.now < group.quiet_until
    if group.failed_plugin:
        told = tell(steps, group, report.SCHEDULER_ERROR, group.message, report.scheduler_error, early=early)
    else:
        told = tell(steps, group, report.UNSCHEDULABLE, group.message, report.failed_scheduling, early=early)
    if told:
        group.quiet_until = steps.now + steps.pause(group.attempts + 1)


def tell(
    steps: Steps, group: Group, reason: str, text: str, event: Callable[[PodRef, str], Report], early: bool = False
) -> bool:
    """Condition and Event on every pending member, when the text is a new one for it. If it is ``early``, those
    that have been told something else hear of it later. Returns whether anybody was told.
    """
    some = False
    if not text:
        return some
    for gang in group.gangs:
        pending = steps.world.membership.census(gang).pending
        if gang.family == JOB:
            job, pending = steps.job(gang), []
            if early and group.told.get(job.uid, (reason, text)) != (reason, text):
                group.tell_at = group.quiet_until
            elif group.told.get(job.uid) != (reason, text):
                some = True
                group.told[job.uid] = (reason, text)
                steps.actions.append(event(job, text))
        for pod in pending:
            seen = pod.scheduled_condition
            shown = (seen.reason, seen.message) if seen is not None else None
            if group.told.get(pod.uid) == (reason, text) or (pod.uid not in group.told and shown == (reason, text)):
                continue
            if early and pod.uid in group.told:
                group.tell_at = group.quiet_until
                continue
            some = True
            group.told[pod.uid] = (reason, text)
            ref = report.reference(pod)
            steps.actions.append(SetCondition(ref, reason, text))
            steps.actions.append(event(ref, text))
    return some


def object_status(steps: Steps, gang: GangId, group: Group | None) -> None:
    """The status of the group object, when it changed and is ours to tell."""
    if gang.family in (SINGLE, JOB):
        return
    spec = steps.world.membership.objects.get((gang.family, gang.namespace, gang.name))
    if spec is None:
        steps.statuses.pop(gang, None)
        return
    membership = steps.world.membership
    if gang not in membership.members and gang not in steps.statuses:
        return  # another scheduler's group, or one that nobody uses yet
    found = report.gang_status(
        spec,
        membership.pods(gang),
        membership.census(gang),
        group.problem if group else "",
        group.message if group else "",
    )
    if steps.statuses.get(gang) != found:
        steps.statuses[gang] = found
        steps.actions.append(GangStatus(gang.family, gang.namespace, gang.name, spec.uid, found))


def room_taken(steps: Steps, group: Group, plan: Plan, why: str) -> str:
    """Say who took the room that was freed, on the gang's first member too."""
    thieves = sorted(
        f"{p.key} ({p.scheduler})"
        for node in sorted(set(plan.node_of.values()))
        for p in steps.world.snapshot.pods_on(node)
        if p.uid not in plan.neighbours and p.deleting_since is None
    )
    text = f"the room that was freed is taken{' by ' + ', '.join(thieves[:5]) if thieves else ''}: {why}"
    steps.actions.append(report.room_taken(steps.trigger(group), text))
    return text
