"""Reports about gangs that need quota, in the words of Kueue: when they get it, run, wait, or have to give it back.

Events: https://kueue.sigs.k8s.io/docs/concepts/workload/ . They are about the object that stands for the gang: its Job
or JobSet, its group object, or its pod. On Jobs and JobSets the same is kept as conditions; their controllers leave
those of others alone. The Events' actions are those of pods: what waits to be reported of "Scheduling" is history after
"Binding".
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from gangsched.core.actions import JobRef, JobStatus, PodRef, Report, pod_reference
from gangsched.core.decision import QuotaUse, Verdict
from gangsched.core.identity import group_key
from gangsched.core.lifecycle import report, suspension
from gangsched.core.quota.stop_policy import Stop
from gangsched.core.quota.victims import REASON_TEXT
from gangsched.core.state.jobs import WITHOUT_PODS
from gangsched.messages import notes
from gangsched.model.jobsets import JOBSET
from gangsched.model.records import JOB, SINGLE, GangId

if TYPE_CHECKING:
    from gangsched.core.groups import Group, Plan
    from gangsched.core.lifecycle.run import Run

#: Reasons of Events; the first two and the last are those of conditions as well.
RESERVED, ADMITTED, PENDING, EVICTED = "QuotaReserved", "Admitted", "Pending", "EvictedDueToPreempted"
PREEMPTED = "Preempted"

#: Type, status, reason and message.
Condition = tuple[str, str, str, str]
_RUNS: Condition = (ADMITTED, "True", ADMITTED, notes.WORKLOAD_ADMITTED)


def _new_use(run: Run, group: Group, verdict: Verdict) -> QuotaUse | None:
    """The quota that a decision gives the group. None if it needs none, or has had it before: it has pods on nodes, or
    they are those of a Job that goes on.
    """
    use = next((d.quota for d in verdict.decisions if d.quota is not None), None)
    world = run.world
    if use is None or world.managed.pods_of(group.key):
        return None
    pods = (p for gang in group.gangs for p in world.membership.pods(gang))
    return None if world.managed.rooms_of(pods) else use


def preempting(run: Run, group: Group, verdict: Verdict) -> None:
    """The group gets quota and nodes when others have left; until then it has neither, and says so."""
    use = _new_use(run, group, verdict)
    if use is None:
        return
    text = use.short or verdict.message
    if verdict.victims:
        text += notes.and_pending_preemption(len({v.unit for v in verdict.victims}))
    elif use.short:
        text += f". {verdict.message}"
    _waits(run, group, text, told=False)


def reserved(run: Run, group: Group, verdict: Verdict) -> None:
    """A decision gives the group its quota, and no pod has to leave first."""
    use = _new_use(run, group, verdict)
    if use is None:
        return
    run.reserved[group.key] = use.queue, run.now
    for gang in group.gangs:
        group.told.pop(_told_as(gang), None)
    condition = _has_quota(use.queue)
    waited = max(0, int(run.now - _waits_since(run, group)))
    note = notes.quota_reserved_after(condition[3], waited)
    for about in _objects(run, group.gangs):
        run.actions.append(report.event(about, "Normal", RESERVED, "Admitting", note))
        set_conditions(run, about, condition)


def _waits_since(run: Run, group: Group) -> float:
    """Since when the group waits (seconds): it has its pods, or it is suspended. One that was preempted may be old."""
    if group.gangs[0].family in WITHOUT_PODS:
        owner = suspension.owner(run, group.gangs[0])
        if owner is not None:
            return owner.suspended_since or owner.created
    membership = run.world.membership
    pods = (p.created for gang in group.gangs for p in membership.census(gang).pending)
    return max(membership.created(group.gangs), min(pods, default=0.0))


def _has_quota(queue: str) -> Condition:
    return RESERVED, "True", RESERVED, notes.quota_reserved(queue)


def admitted(run: Run, group: Group) -> None:
    """The group runs: its members are bound, or its suspension has ended."""
    if group.key not in run.reserved:
        return
    queue, since = run.reserved.pop(group.key)
    note = notes.admitted_after(queue, max(0, int(run.now - since)))
    for about in _objects(run, group.gangs):
        run.actions.append(report.event(about, "Normal", ADMITTED, "Binding", note))
        set_conditions(run, about, _RUNS)


def taken_over(run: Run) -> None:
    """Tell each Job that runs with quota so: an earlier process may have ended before it did. What stands on the Job
    already is not written again.
    """
    managed = run.world.managed
    managed.settle()
    for uid, admission in sorted(managed.quota.admissions.items()):
        if not admission.evicted and managed.tally.runs(uid):
            ours = (gang for gang in managed.gangs_of(uid) if run.world.membership.is_ours(gang))
            for about in _objects(run, ours):
                set_conditions(run, about, _has_quota(admission.workload.queue), _RUNS)


def pending(run: Run, group: Group) -> None:
    """The group's members have got the reason why it waits; of a Job without pods, the Job has."""
    if run.world.managed.is_managed(group.gangs):
        _waits(run, group, group.message, told=True)


def waits(about: report.Reference, why: str) -> Report:
    """The Event that says that a workload waits, and why."""
    return report.event(about, "Warning", PENDING, "Scheduling", why)


def _waits(run: Run, group: Group, why: str, *, told: bool) -> None:
    """The group has no quota, or no nodes with it. Where an Event about its members says so on the same object, there
    is no second one, nor for the same reason again; ``told`` says that a Job without pods has had its Event.
    """
    for gang in group.gangs:
        about = stands_for(run, gang)
        if about is None:
            continue
        said = report.UNSCHEDULABLE, why
        if gang.family in WITHOUT_PODS:
            new = not told and group.told.get(about[4]) != said
            group.told[about[4]] = said
        else:
            key = _told_as(gang)
            new = gang.family != SINGLE and not run.options.events_per_gang and group.told.get(key) != said
            group.told[key] = said
        if new:
            run.actions.append(waits(about, why))
        set_conditions(
            run,
            about,
            (RESERVED, "False", PENDING, why),
            (ADMITTED, "False", "NoReservation", notes.NO_RESERVATION),
        )


def _told_as(gang: GangId) -> str:
    """Under which name a group keeps what was reported about a gang with pods; these have names of their own."""
    return f"{PENDING} {gang}"


def evicted(run: Run, group: Group, plan: Plan, uids: Container[str]) -> None:
    """These victims of the plan are being removed: tell those workloads among them that quota makes leave."""
    managed = run.world.managed
    managed.settle()
    preemptor = managed.quota.admissions.get(group.key)
    asking = stands_for(run, group.gangs[0])
    if preemptor is None or asking is None:
        return
    workload = msgspec.structs.replace(preemptor.workload, uid=asking[4])
    owner = asking[4] if asking[1] in (JOB, JOBSET) else ""
    for gangs, reason in _workloads(run, plan, uids):
        victim = managed.quota.admissions.get(group_key(gangs))
        if victim is None:
            continue
        said = managed.quota.message(victim.workload, reason, workload, owner)
        note = notes.evicted_for_quota(said, group.name, workload.priority, plan.ident)
        for about in _objects(run, gangs):
            run.actions.append(report.event(about, "Normal", EVICTED, "Preempting", note, asking))
            set_conditions(run, about, ("Evicted", "True", PREEMPTED, said), (PREEMPTED, "True", reason, said))


def drained(run: Run, gangs: Iterable[GangId], stop: Stop) -> None:
    """These gangs are being removed because their queue is drained."""
    note = notes.drained_workload(stop.message, stop)
    for about in _objects(run, gangs):
        run.actions.append(report.event(about, "Normal", report.EVICTED_DUE_TO + stop.reason, "Draining", note))
        set_conditions(run, about, ("Evicted", "True", stop.reason, stop.message))


def drain_blocked(run: Run, gangs: Iterable[GangId], stop: Stop, why: str) -> None:
    """These gangs have to leave because their queue is drained, and cannot for now."""
    for about in _objects(run, gangs):
        note = notes.drain_blocked(stop, why)
        run.actions.append(report.event(about, "Warning", report.DRAIN_BLOCKED, "Draining", note))


def _workloads(run: Run, plan: Plan, uids: Container[str]) -> Iterator[tuple[tuple[GangId, ...], str]]:
    """The gangs of each workload that has to go because of quota, and why it may be taken."""
    found: dict[tuple[GangId, ...], str] = {}
    for uid, victim in plan.victims.items():
        pod = run.world.pods.get(uid)
        if pod is not None and uid in uids and victim.reason in REASON_TEXT:
            gangs, _ = run.world.membership.group(pod.gang)
            found.setdefault(gangs, victim.reason)
    yield from sorted(found.items())


def set_conditions(run: Run, about: report.Reference, *conditions: Condition) -> None:
    """Conditions of a Job or JobSet; other objects have none of these."""
    api, kind, namespace, name, uid = about
    if kind in (JOB, JOBSET):
        family, plural = api.partition("/")[0], f"{kind.lower()}s"
        run.actions.append(JobStatus(family, namespace, name, uid, {"conditions": conditions}, plural))


def _objects(run: Run, gangs: Iterable[GangId]) -> Iterator[report.Reference]:
    found = (stands_for(run, gang) for gang in gangs)
    return (about for about in found if about is not None)


def stands_for(run: Run, gang: GangId) -> report.Reference | None:
    """What stands for a gang: its object, else the first of its pods by name; None if there is neither."""
    membership = run.world.membership
    if gang.family in WITHOUT_PODS:  # its pods have no stand-ins any more when the cluster shows that it goes on
        owner = suspension.owner(run, gang)
        return pod_reference(suspension.reference(owner)) if owner is not None else None
    spec = membership.objects.get((gang.family, gang.namespace, gang.name))
    if spec is not None and spec.kind in (JOB, JOBSET):
        return pod_reference(JobRef(gang.namespace, gang.name, spec.uid, spec.kind))
    if spec is not None:
        return report.group_reference(gang.family, spec.kind, gang.namespace, gang.name, spec.uid)
    first = min(membership.pods(gang), key=lambda p: p.name, default=None)
    return pod_reference(PodRef(first.namespace, first.name, first.uid)) if first is not None else None
