"""Reports about a gang: conditions and Events, without a flood, and the status of group objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gangsched.core.actions import (
    Bind,
    GangStatus,
    GroupRef,
    PodRef,
    Report,
    SetCondition,
    SetGroupStatus,
    pod_reference,
)
from gangsched.core.lifecycle import admission, report, suspension
from gangsched.core.lifecycle.eviction import Phase
from gangsched.core.lifecycle.failures import Cause as Failed
from gangsched.core.lifecycle.run import Run
from gangsched.core.lifecycle.table import State
from gangsched.core.state.jobs import WITHOUT_PODS
from gangsched.core.world.suspended import LENIENT
from gangsched.messages import notes
from gangsched.messages.text import listed
from gangsched.model.dialects import BY_FAMILY, changed_status, has_status
from gangsched.model.dialects.dialect import Seen, Told
from gangsched.model.jobsets import JOBSET
from gangsched.model.records import JOB, SINGLE, Gang, GangId
from gangsched.model.times import render_time

if TYPE_CHECKING:
    from gangsched.core.decision import Victim
    from gangsched.core.groups import Group, Plan
    from gangsched.model.records import Pod


#: Longest text of a condition: names in it are as long as users make them.
_TEXT_LIMIT = 4096


def where_it_stands(run: Run, group: Group) -> None:
    """Tell every member where its gang stands."""
    if group.obstacle is not None or group.state is State.GATHERING:
        reason, text = group.obstacle or (report.GANG_NOT_READY, "")
        # Of two admitters, and of a mistake, an Event tells whose object it is.
        tell(run, group, reason, text, report.not_ready if reason == report.GANG_NOT_READY else None)
        return
    # A gang that is decided before its backoff is over has no more to say for it.
    early = run.now < group.quiet_until
    if group.outlook.failed_plugin:
        told = tell(run, group, report.SCHEDULER_ERROR, group.message, report.scheduler_error, early=early)
    else:
        text = _with_what_is_bound(run, group)
        queued = group.gangs[0].family in WITHOUT_PODS and run.world.managed.is_managed(group.gangs)
        event = admission.waits if queued else report.failed_scheduling
        told = tell(run, group, report.UNSCHEDULABLE, text, event, early=early)
        if told:
            admission.pending(run, group)
    if told:
        group.quiet_until = run.now + run.pause(group.failures.count(Failed.ATTEMPT) + 1)


def _with_what_is_bound(run: Run, group: Group) -> str:
    """Why the gang does not fit; of one that is bound in part, that it is."""
    membership = run.world.membership
    if not group.message or not membership.half_bound(group.gangs):
        return group.message
    members = [membership.census(gang) for gang in group.gangs]
    needed = [membership.required(gang, census) for gang, census in zip(group.gangs, members, strict=True)]
    bound = sum(len(census.bound) for census in members)
    text = notes.bound_in_part(group.message.rstrip("."), bound, sum(needed))
    return notes.and_bound_are_removed(text) if group.rolled_back else text


def tell(  # noqa: C901
    run: Run,
    group: Group,
    reason: str,
    text: str,
    event: Callable[[report.Reference, str], Report] | None,
    early: bool = False,
) -> bool:
    """Condition and Event on every pending member, when the text is a new one for it. If it is ``early``, those
    that have another reason get it later. Without ``event`` there is the condition only. Returns whether
    anything was written.

    With one Event per gang the conditions are the same, and the Event is written once, when the text is a new one
    for the gang.
    """
    some = False
    text = text[:_TEXT_LIMIT]
    if not text:
        return some
    for gang in group.gangs:
        pending = run.world.membership.census(gang).pending
        if gang.family in WITHOUT_PODS:
            if not pending:
                continue  # it goes on
            job, pending = run.job(gang), []
            if early and group.told.get(job.uid, (reason, text)) != (reason, text):
                run.to_tell.at(group.key, group.quiet_until)
            elif group.told.get(job.uid) != (reason, text):
                some = True
                group.told[job.uid] = (reason, text)
                if event is not None:
                    run.actions.append(event(pod_reference(job), text))
        refs = []
        for pod in pending:
            seen = pod.scheduled_condition
            shown = (seen.reason, seen.message) if seen is not None else None
            if group.told.get(pod.uid) == (reason, text) or (pod.uid not in group.told and shown == (reason, text)):
                continue
            if early and pod.uid in group.told:
                run.to_tell.at(group.key, group.quiet_until)
                continue
            some = True
            group.told[pod.uid] = (reason, text)
            ref = report.reference(pod)
            refs.append(ref)
            run.actions.append(SetCondition(ref, reason, text))
            if event is not None and not _as_one(run, gang):
                run.actions.append(event(pod_reference(ref), text))
        if event is not None and refs and _as_one(run, gang) and group.told.get(str(gang)) != (reason, text):
            group.told[str(gang)] = (reason, text)
            run.actions.append(event(_spokesman(run, gang, refs), text))
    return some


def bound(run: Run, key: str, group: Group | None, action: Bind) -> None:
    """A pod has been bound by a write of the phase of the group ``key`` (empty: of none)."""
    pod = run.world.pods.get(action.pod.uid)
    if pod is None or not _as_one(run, pod.gang):
        run.actions.append(report.scheduled(action.pod, action.node))
    else:
        run.unsaid.setdefault(key, {}).setdefault(pod.gang, []).append(action)
    if group is not None:
        group.told.pop(action.pod.uid, None)
        if pod is not None:
            group.told.pop(str(pod.gang), None)


def bound_by_now(run: Run, key: str) -> None:
    """No binding of the group ``key`` is on its way any more: one Event per gang for those that have succeeded."""
    for gang, binds in run.unsaid.pop(key, {}).items():
        about = _spokesman(run, gang, [action.pod for action in binds])
        run.actions.append(report.members_scheduled(about, [(action.pod, action.node) for action in binds]))


def _as_one(run: Run, gang: GangId) -> bool:
    """Is an Event about members of this gang written once for all of them?"""
    return run.options.events_per_gang and gang.family != SINGLE


def _spokesman(run: Run, gang: GangId, members: Iterable[PodRef]) -> report.Reference:
    """What Events about a gang are attached to: its group object, or the first by name of these members."""
    spec = run.world.membership.objects.get((gang.family, gang.namespace, gang.name))
    if spec is None:
        return pod_reference(min(members, key=lambda ref: ref.name))
    return report.group_reference(gang.family, spec.kind, gang.namespace, gang.name, spec.uid)


def object_status(run: Run, gang: GangId, group: Group | None) -> None:
    """The status of the group object, when it changed and is ours to tell.

    The controllers write it. Where others create no members before it says so the scheduler does, also of a group that
    has none yet if its members will be of this scheduler name; what another client writes over it is corrected.
    """
    dialect = BY_FAMILY.get(gang.family)
    if dialect is None or dialect.status is None:
        return
    membership = run.world.membership
    spec = membership.objects.get((gang.family, gang.namespace, gang.name))
    if spec is None or spec.mistake is not None:  # what cannot be read is not written to either
        run.statuses.pop(gang, None)
        run.evicted.pop(gang, None)
        return
    awaited = bool(dialect.awaited_from)
    if gang not in membership.members and not (
        gang.scheduler == dialect.awaited_from if awaited else gang in run.statuses
    ):
        return  # another scheduler's group, or one that is not used yet
    message = group.message if group else ""
    if awaited and group:
        message = next((text for _, text in group.told.values()), "")  # not each one that it might be
    problem = group.problem if group else ""
    pods, census = membership.pods(gang), membership.census(gang)
    found = report.gang_status(spec, pods, census, problem, message, run.evicted.get(gang, ""))
    if awaited:
        _write_at_once(run, gang, spec, found, dialect.versions[0])
    elif run.statuses.get(gang) != found:
        run.statuses[gang] = found
        run.actions.append(GangStatus(gang.family, gang.namespace, gang.name, spec.uid, found))


def _write_at_once(run: Run, gang: GangId, spec: Gang, told: Told, version: str) -> None:
    """Change what is not as it should be in the status as it was last seen, unless that has been written since."""
    seen = spec.status or {}
    known = run.statuses.get(gang)
    written = known[1] if isinstance(known, tuple) and known[0] == seen else seen
    news = changed_status(gang.family, told, Seen(version, spec.generation, written, run.now))
    run.statuses[gang] = seen, {**written, **news}
    if not news:
        return
    # What was written may have been lost: all that differs from what was seen is in the next write.
    fields = {**changed_status(gang.family, told, Seen(version, spec.generation, seen, run.now)), **news}
    ref = GroupRef(gang.namespace, gang.name, spec.uid, gang.family, version)
    run.actions.append(SetGroupStatus(ref, fields))


def waits_for(run: Run, group: Group) -> str:
    """What a gang is doing, and which pods it waits for to be gone."""
    uids = run.world.ledger.waits(group.key) if group.evicts(Phase.LEAVING) else ()
    stay = {pod.uid for pod in group.plan.eviction.to_go(run.world)} if group.plan is not None else ()
    names = sorted(run.world.pods[uid].key for uid in uids if uid in run.world.pods and uid not in stay)
    return notes.still_terminating(group.message, listed(names, 5)) if names else group.message


def room_taken(run: Run, group: Group, plan: Plan, why: str) -> str:
    """Say who took the room that was freed, on the gang's first member too."""
    thieves = sorted(
        f"{p.key} ({p.scheduler})"
        for node in sorted(set(plan.node_of.values()))
        for p in run.world.snapshot.pods_on(node)
        if p.uid not in plan.neighbours and p.deleting_since is None
    )
    text = notes.room_taken(" by " + ", ".join(thieves[:5]) if thieves else "", why)
    run.actions.append(report.room_taken(run.trigger(group), text))
    return text


# -- two admitters ----------------------------------------------------------------------------------------

#: So many objects are remembered as reported.
_MOST_TOLD = 10_000


def tell_two_admitters(run: Run, gangs: Sequence[GangId]) -> None:
    """If these gangs have two admitters, tell the objects that stand for them, each once."""
    text = run.world.managed.two_admitters(gangs)
    for gang in gangs if text else ():
        about = _admitted_object(run, gang)
        if about is None or about[4] in run.told_two_admitters:
            continue
        if len(run.told_two_admitters) >= _MOST_TOLD:
            run.told_two_admitters.clear()
        run.told_two_admitters.add(about[4])
        run.actions.append(report.event(about, "Warning", report.TWO_ADMITTERS, "Admitting", text))


def _admitted_object(run: Run, gang: GangId) -> report.Reference | None:
    """What stands for a gang that is not over; None if nothing does, or if it is up to another scheduler."""
    if any(pod.live for pod in run.world.membership.pods(gang)):
        return admission.stands_for(run, gang)
    owner = suspension.owner(run, gang) if gang.family in WITHOUT_PODS else None
    if owner is None or not owner.suspended or owner.finished or owner.template is None:
        return None
    if owner.owner is not None and owner.owner.kind not in LENIENT:
        return None  # what is above it starts it
    ours = (owner.suspended_by or owner.template.scheduler) == gang.scheduler
    return pod_reference(suspension.reference(owner)) if ours else None


# -- owners of pods that leave ----------------------------------------------------------------------------

# The pods and their Events do not last, owners do. Jobs, JobSets and groups of ours get a condition; other owners an
# Event, since their status is not ours to write. Each is written once for all of its pods that a plan takes.

#: The condition of Jobs and JobSets; that of groups is made of their status.
_EVICTED_PODS = f"gangsched.dev/{report.PODS_EVICTED}"


def pods_evicted(run: Run, group: Group, victims: Iterable[Victim], plan: str) -> None:
    """These victims are being removed for the group."""
    lost: dict[tuple[report.Reference, GangId | None], list[Victim]] = {}
    for victim in victims:
        pod = run.world.pods.get(victim.uid)
        for owner in _owners_of(run, pod) if pod is not None else ():
            lost.setdefault(owner, []).append(victim)
    for (about, gang), theirs in lost.items():
        text = report.evicted_for(group.name, theirs, plan)
        last = f"{render_time(run.now)}: {text}"
        if gang is not None:
            run.evicted[gang] = last  # its status follows when the pods change
        elif about[1] in (JOB, JOBSET):
            admission.set_conditions(run, about, (_EVICTED_PODS, "True", report.PREEMPTED, last))
        else:
            trigger = pod_reference(run.trigger(group))
            run.actions.append(report.event(about, "Normal", report.PODS_EVICTED, "Preempting", text, trigger))


def _owners_of(run: Run, pod: Pod) -> Iterator[tuple[report.Reference, GangId | None]]:
    """What a pod belongs to; with its gang where that is a group whose status is ours to write."""
    job, membership, gang = run.world.jobs.owner_of(pod), run.world.membership, pod.gang
    if job is not None:
        yield pod_reference(suspension.reference(job)), None
    elif pod.owner is not None:
        yield ("", pod.owner.kind, pod.namespace, pod.owner.name, pod.owner.uid), None
    spec = membership.objects.get((gang.family, gang.namespace, gang.name))
    if spec is not None and spec.kind not in (JOB, JOBSET):
        about = report.group_reference(gang.family, spec.kind, gang.namespace, gang.name, spec.uid)
        yield about, gang if membership.is_ours(gang) and has_status(gang.family) else None
