"""What is told of gangs that need quota, in the words of Kueue: when they get it, run, wait, or have to give it back.

Events: https://kueue.sigs.k8s.io/docs/concepts/workload/ . They are about the object that stands for the gang: its Job
or JobSet, its group object, or its pod. On Jobs the same is kept as conditions; the Job controller leaves those of
others alone. The Events' actions are those of pods: what waits to be told of "Scheduling" is history after "Binding".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from gangsched.core.actions import JobRef, JobStatus, PodRef, pod_reference
from gangsched.core.decision import Verdict
from gangsched.core.groups import group_key
from gangsched.core.lifecycle import report
from gangsched.core.quota.preemption import REASON_TEXT
from gangsched.core.quota.quota import Victim
from gangsched.core.state.suspended import WITHOUT_PODS
from gangsched.model.jobsets import JOBSET
from gangsched.model.records import JOB, SINGLE, GangId

if TYPE_CHECKING:
    from gangsched.core.groups import Group, Plan
    from gangsched.core.lifecycle.steps import Steps

#: Reasons of Events; the first two and the last are those of conditions as well.
RESERVED, ADMITTED, PENDING, EVICTED = "QuotaReserved", "Admitted", "Pending", "EvictedDueToPreempted"
PREEMPTED = "Preempted"

#: Type, status, reason and message.
Condition = tuple[str, str, str, str]
_RUNS: Condition = (ADMITTED, "True", ADMITTED, "The workload is admitted")


def reserved(steps: Steps, group: Group, verdict: Verdict) -> None:
    """A decision gives the group its quota. One that has pods on nodes has had it before, as has a Job that goes on."""
    use = next((d.quota for d in verdict.decisions if d.quota is not None), None)
    world = steps.world
    if use is None or world.managed.pods_of(group.key):
        return
    if world.suspended.rooms_of(p for gang in group.gangs for p in world.membership.pods(gang)):
        return
    steps.reserved[group.key] = use.queue, steps.now
    condition = _has_quota(use.queue)
    waited = max(0, int(steps.now - _waits_since(steps, group)))
    note = f"{condition[3]}, wait time since queued was {waited}s"
    for about in _objects(steps, group.gangs):
        steps.actions.append(report.event(about, "Normal", RESERVED, "Admitting", note))
        _set(steps, about, condition)


def _waits_since(steps: Steps, group: Group) -> float:
    """Since when the group waits (seconds): it has its pods, or it is suspended. One that was preempted may be old."""
    if group.gangs[0].family in WITHOUT_PODS:
        owner = steps.world.suspended.find(group.gangs[0].family, group.gangs[0].namespace, group.gangs[0].name)
        if owner is not None:
            return owner.suspended_since or owner.created
    membership = steps.world.membership
    pods = (p.created for gang in group.gangs for p in membership.census(gang).pending)
    return max(membership.created(group.gangs), min(pods, default=0.0))


def _has_quota(queue: str) -> Condition:
    return RESERVED, "True", RESERVED, f"Quota reserved in ClusterQueue {queue}"


def admitted(steps: Steps, group: Group) -> None:
    """The group runs: its members are bound, or its suspension has ended. Without the time there is no Event."""
    if group.key not in steps.reserved:
        return
    queue, since = steps.reserved.pop(group.key)
    for about in _objects(steps, group.gangs):
        if since is not None:
            waited = max(0, int(steps.now - since))
            note = f"Admitted by ClusterQueue {queue}, wait time since reservation was {waited}s"
            steps.actions.append(report.event(about, "Normal", ADMITTED, "Binding", note))
        _set(steps, about, _RUNS)


def taken_over(steps: Steps) -> None:
    """Tell each Job that holds quota so: an earlier process may have ended before it did. What stands on the Job
    already is not written again.
    """
    managed = steps.world.managed
    managed.settle()
    for uid, admission in sorted(managed.quota.admissions.items()):
        if not admission.evicted:
            queue, runs = admission.workload.queue, managed.tally.runs(uid)
            if not runs:
                steps.reserved[uid] = queue, None
            conditions = (_has_quota(queue), *([_RUNS] if runs else []))
            ours = (gang for gang in managed.gangs_of(uid) if steps.world.membership.is_ours(gang))
            for about in _objects(steps, ours):
                _set(steps, about, *conditions)


def pending(steps: Steps, group: Group) -> None:
    """The group was told why it has to wait. Where that stands on the object already it gets no second Event."""
    if not steps.world.managed.is_managed(group.gangs):
        return
    for gang in group.gangs:
        about = _object(steps, gang)
        if about is None:
            continue
        on_object = gang.family in WITHOUT_PODS or steps.options.events_per_gang
        if not on_object and gang.family != SINGLE:
            steps.actions.append(report.event(about, "Warning", PENDING, "Scheduling", group.message))
        _set(
            steps,
            about,
            (RESERVED, "False", PENDING, group.message),
            (ADMITTED, "False", "NoReservation", "The workload has no reservation"),
        )


def evicted(steps: Steps, group: Group, plan: Plan) -> None:
    """The plan's victims are being removed: tell those workloads among them that quota makes leave."""
    managed = steps.world.managed
    managed.settle()
    preemptor = managed.quota.admissions.get(group.key)
    asking = _object(steps, group.gangs[0])
    if preemptor is None or asking is None:
        return
    workload = msgspec.structs.replace(preemptor.workload, uid=asking[4])
    owner = asking[4] if asking[1] in (JOB, JOBSET) else ""
    for gangs, reason in _workloads(steps, plan):
        victim = managed.quota.admissions.get(group_key(gangs))
        if victim is None:
            continue
        said = managed.quota.message(Victim(victim.workload.uid, victim.workload, reason), workload, owner)
        note = f"{said}; preemptor: {group.name} (priority {workload.priority}, plan {plan.ident})"
        for about in _objects(steps, gangs):
            steps.actions.append(report.event(about, "Normal", EVICTED, "Preempting", note, asking))
            _set(steps, about, ("Evicted", "True", PREEMPTED, said), (PREEMPTED, "True", reason, said))


def _workloads(steps: Steps, plan: Plan) -> Iterator[tuple[tuple[GangId, ...], str]]:
    """The gangs of each workload that has to go because of quota, and why it may be taken."""
    found: dict[tuple[GangId, ...], str] = {}
    for uid, victim in plan.victims.items():
        pod = steps.world.pods.get(uid)
        if pod is not None and victim.reason in REASON_TEXT:
            gangs, _ = steps.world.membership.group(pod.gang)
            found.setdefault(gangs, victim.reason)
    yield from sorted(found.items())


def _set(steps: Steps, about: report.Reference, *conditions: Condition) -> None:
    """Conditions of a Job; other objects have none of these."""
    _, kind, namespace, name, uid = about
    if kind == JOB:
        steps.actions.append(JobStatus("batch", namespace, name, uid, {"conditions": conditions}, "jobs"))


def _objects(steps: Steps, gangs: Iterable[GangId]) -> Iterator[report.Reference]:
    found = (_object(steps, gang) for gang in gangs)
    return (about for about in found if about is not None)


def _object(steps: Steps, gang: GangId) -> report.Reference | None:
    """What stands for a gang: its object, else the first of its pods by name; None if there is neither."""
    membership = steps.world.membership
    spec = membership.objects.get((gang.family, gang.namespace, gang.name))
    if spec is not None and spec.kind in (JOB, JOBSET):
        return pod_reference(JobRef(gang.namespace, gang.name, spec.uid, spec.kind))
    if spec is not None:
        return report.group_reference(gang.family, spec.kind, gang.namespace, gang.name, spec.uid)
    first = min(membership.pods(gang), key=lambda p: p.name, default=None)
    return pod_reference(PodRef(first.namespace, first.name, first.uid)) if first is not None else None
