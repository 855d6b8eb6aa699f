"""What people are told of a gang: conditions and Events, without a flood, and the status of group objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gangsched.core.actions import Bind, GangStatus, PodRef, Report, SetCondition, pod_reference
from gangsched.core.lifecycle import admission, report
from gangsched.core.lifecycle.eviction import Phase
from gangsched.core.lifecycle.failures import Cause as Failed
from gangsched.core.lifecycle.table import State
from gangsched.core.state.suspended import WITHOUT_PODS
from gangsched.model.jobsets import QUEUED_JOBSET
from gangsched.model.records import QUEUED_JOB, SINGLE, GangId

if TYPE_CHECKING:
    from gangsched.core.groups import Group, Plan
    from gangsched.core.lifecycle.steps import Steps


#: Longest text of a condition: names in it are as long as users make them.
_TEXT_LIMIT = 4096


def where_it_stands(steps: Steps, group: Group) -> None:
    """Tell every member where its gang stands."""
    if steps.world.two_admitters(group.gangs):
        tell(steps, group, report.TWO_ADMITTERS, group.problem, None)
        return
    if group.problem and steps.world.membership.mistaken(group.gangs):
        tell(steps, group, report.REFUSED, group.problem, None)  # who has made the mistake is told by an Event
        return
    if group.state is State.GATHERING or group.problem:
        tell(steps, group, report.GANG_NOT_READY, group.problem, report.not_ready)
        return
    # A gang that is decided before its backoff is over has no more to say for it.
    early = steps.now < group.quiet_until
    if group.outlook.failed_plugin:
        told = tell(steps, group, report.SCHEDULER_ERROR, group.message, report.scheduler_error, early=early)
    else:
        text = _with_what_is_bound(steps, group)
        queued = group.gangs[0].family in WITHOUT_PODS and steps.world.managed.is_managed(group.gangs)
        event = admission.waits if queued else report.failed_scheduling
        told = tell(steps, group, report.UNSCHEDULABLE, text, event, early=early)
        if told:
            admission.pending(steps, group)
    if told:
        group.quiet_until = steps.now + steps.pause(group.failures.count(Failed.ATTEMPT) + 1)


def _with_what_is_bound(steps: Steps, group: Group) -> str:
    """Why the gang does not fit; of one that is bound in part, that it is."""
    membership = steps.world.membership
    if not group.message or not membership.half_bound(group.gangs):
        return group.message
    members = [membership.census(gang) for gang in group.gangs]
    needed = [membership.required(gang, census) for gang, census in zip(group.gangs, members, strict=True)]
    bound = sum(len(census.bound) for census in members)
    text = f"{group.message.rstrip('.')}. The gang is bound in part: {bound} bound, {sum(needed)} more needed"
    return f"{text}; those that are bound are removed" if group.rolled_back else text


def tell(  # noqa: C901
    steps: Steps,
    group: Group,
    reason: str,
    text: str,
    event: Callable[[report.Reference, str], Report] | None,
    early: bool = False,
) -> bool:
    """Condition and Event on every pending member, when the text is a new one for it. If it is ``early``, those
    that have been told something else hear of it later. Without ``event`` there is the condition only. Returns whether
    anybody was told.

    With one Event per gang the conditions are the same, and the Event is written once, when the text is a new one
    for the gang.
    """
    some = False
    text = text[:_TEXT_LIMIT]
    if not text:
        return some
    for gang in group.gangs:
        pending = steps.world.membership.census(gang).pending
        if gang.family in WITHOUT_PODS:
            if not pending:
                continue  # it goes on
            job, pending = steps.job(gang), []
            if early and group.told.get(job.uid, (reason, text)) != (reason, text):
                group.tell_at = group.quiet_until
            elif group.told.get(job.uid) != (reason, text):
                some = True
                group.told[job.uid] = (reason, text)
                if event is not None:
                    steps.actions.append(event(pod_reference(job), text))
        refs = []
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
            refs.append(ref)
            steps.actions.append(SetCondition(ref, reason, text))
            if event is not None and not _as_one(steps, gang):
                steps.actions.append(event(pod_reference(ref), text))
        if event is not None and refs and _as_one(steps, gang) and group.told.get(str(gang)) != (reason, text):
            group.told[str(gang)] = (reason, text)
            steps.actions.append(event(_spokesman(steps, gang, refs), text))
    return some


def bound(steps: Steps, key: str, group: Group | None, action: Bind) -> None:
    """A pod has been bound by a write of the phase of the group ``key`` (empty: of none)."""
    pod = steps.world.pods.get(action.pod.uid)
    if pod is None or not _as_one(steps, pod.gang):
        steps.actions.append(report.scheduled(action.pod, action.node))
    else:
        steps.unsaid.setdefault(key, {}).setdefault(pod.gang, []).append(action)
    if group is not None:
        group.told.pop(action.pod.uid, None)
        if pod is not None:
            group.told.pop(str(pod.gang), None)


def bound_by_now(steps: Steps, key: str) -> None:
    """No binding of the group ``key`` is on its way any more: one Event per gang for those that have succeeded."""
    for gang, binds in steps.unsaid.pop(key, {}).items():
        about = _spokesman(steps, gang, [action.pod for action in binds])
        steps.actions.append(report.members_scheduled(about, [(action.pod, action.node) for action in binds]))


def _as_one(steps: Steps, gang: GangId) -> bool:
    """Is an Event about members of this gang written once for all of them?"""
    return steps.options.events_per_gang and gang.family != SINGLE


def _spokesman(steps: Steps, gang: GangId, members: Iterable[PodRef]) -> report.Reference:
    """What Events about a gang are attached to: its group object, or the first by name of these members."""
    spec = steps.world.membership.objects.get((gang.family, gang.namespace, gang.name))
    if spec is None:
        return pod_reference(min(members, key=lambda ref: ref.name))
    return report.group_reference(gang.family, spec.kind, gang.namespace, gang.name, spec.uid)


def object_status(steps: Steps, gang: GangId, group: Group | None) -> None:
    """The status of the group object, when it changed and is ours to tell."""
    if gang.family in (SINGLE, QUEUED_JOB, QUEUED_JOBSET, *WITHOUT_PODS):
        return
    spec = steps.world.membership.objects.get((gang.family, gang.namespace, gang.name))
    if spec is None or spec.mistake is not None:  # what cannot be read is not written to either
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


def waits_for(steps: Steps, group: Group) -> str:
    """What a gang is doing, and which pods it waits for to be gone."""
    uids = group.plan.waiting if group.plan is not None and group.evicts(Phase.LEAVING) else ()
    names = sorted(steps.world.pods[uid].key for uid in uids if uid in steps.world.pods)
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"{group.message}; still terminating: {shown}" if names else group.message


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
