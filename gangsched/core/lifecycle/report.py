"""Reports: texts of conditions and Events, and the status of group objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from gangsched.core.actions import MARK_REASON, JobRef, PodRef, Report, pod_reference, reference
from gangsched.core.decision import Victim
from gangsched.core.quota.stop_policy import STOPPED, Stop
from gangsched.core.state.jobs import Suspendable, family_of
from gangsched.core.state.membership import Census
from gangsched.messages import notes
from gangsched.messages.text import counted, listed
from gangsched.model.dialects import DIALECTS
from gangsched.model.dialects.operators import FAMILIES
from gangsched.model.records import Gang, Owner, Pod

#: Reasons of Events and of the PodScheduled condition.
SCHEDULED = "Scheduled"
FAILED_SCHEDULING = "FailedScheduling"
WAITING_ON_PREEMPTION = "WaitingOnPreemption"
PREEMPTED = "Preempted"
PODS_EVICTED = "PodsEvicted"
EVICTION_ANNOUNCED = "EvictionAnnounced"
GANG_NOT_READY = "GangNotReady"
UNSCHEDULABLE = "Unschedulable"
ROOM_RELEASED = "AnnouncedRoomReleased"
REFUSED = "InvalidObject"
SCHEDULER_ERROR = "SchedulerError"
ROOM_TAKEN = "FreedRoomTaken"
RESUMED = "Resumed"
ROLLED_BACK = "RolledBack"
TWO_ADMITTERS = "TwoAdmitters"
NAME_TAKEN, NAME_SERVED = "SchedulerNameTaken", "SchedulerNameServed"

#: Reasons of Events that say that a workload leaves begin so; the reason of the eviction follows.
EVICTED_DUE_TO = "EvictedDueTo"
DRAIN_BLOCKED = "DrainBlocked"

#: Events are cut at this length by the API server.
_NOTE_LIMIT = 1024
#: So many pods are named by an Event about several.
_NAMES = 10

#: (apiVersion, kind, namespace, name, uid).
Reference: TypeAlias = tuple[str, str, str, str, str]

#: The version under which the objects of gang APIs are named in Events, by group; v1 for others.
_VERSIONS = {
    **{each.family: each.versions[-1] for each in DIALECTS if each.versions},
    "kueue.x-k8s.io": "v1beta1",
    "jobset.x-k8s.io": "v1alpha2",
}


def job_reference(job: Suspendable) -> JobRef:
    """The incarnation of a Job or JobSet that a write means."""
    return JobRef(job.namespace, job.name, job.uid, family_of(job))


def group_reference(family: str, kind: str, namespace: str, name: str, uid: str) -> Reference:
    """The object of a gang API (group ``family``; empty: core) that an Event is about."""
    operator = FAMILIES.get(family)
    if operator is not None:
        return (f"{operator.group}/{operator.versions[0]}", kind, namespace, name, uid)
    version = _VERSIONS.get(family, "v1")
    return (f"{family}/{version}" if family else version, kind, namespace, name, uid)


def event(about: Reference, kind: str, reason: str, action: str, note: str, related: Reference | None = None) -> Report:
    """An Event (``kind`` is Normal or Warning) whose note is cut where the API server would refuse it."""
    return Report(about, kind, reason, action, note[:_NOTE_LIMIT], related)


def scheduled(pod: PodRef, node: str) -> Report:
    """The pod was bound."""
    return Report(pod_reference(pod), "Normal", SCHEDULED, "Binding", notes.assigned(pod.key, node))


def members_scheduled(about: Reference, bound: Iterable[tuple[PodRef, str]]) -> Report:
    """These members of a gang were bound, each to its node."""
    places = sorted((pod.name, node) for pod, node in bound)
    shown = listed([f"{name} to {node}" for name, node in places], _NAMES)
    nodes = len({node for _, node in places})
    note = notes.pods_assigned(counted(len(places), "pod"), nodes, shown)
    return event(about, "Normal", SCHEDULED, "Binding", note)


def failed_scheduling(about: Reference, message: str) -> Report:
    """The pod's gang does not fit."""
    return event(about, "Warning", FAILED_SCHEDULING, "Scheduling", message)


def waiting_on_preemption(about: Reference, message: str) -> Report:
    """The pod's gang fits as soon as others have left, who do."""
    return event(about, "Normal", WAITING_ON_PREEMPTION, "Scheduling", message)


def scheduler_error(about: Reference, message: str) -> Report:
    """Nothing could be decided about the pod's gang."""
    return event(about, "Warning", SCHEDULER_ERROR, "Scheduling", message)


def not_ready(about: Reference, message: str) -> Report:
    """The pod waits for the rest of its gang."""
    return event(about, "Normal", GANG_NOT_READY, "Scheduling", message)


def victim_evicted(victim: Victim, preemptor: str, trigger: PodRef, priority: int) -> Report:
    """On the victim: the preemptor, and the rule that allowed the eviction."""
    ref = reference(victim)
    note = notes.preempted_by(preemptor, priority, trigger.key, victim.node, victim.reason, victim.why)
    return event(pod_reference(ref), "Normal", PREEMPTED, "Preempting", note, pod_reference(trigger))


def eviction_announced(pod: PodRef, preemptor: str, when: str) -> Report:
    """On a victim that has notice: when it will be evicted, and for whom."""
    note = notes.eviction_announced(preemptor, when)
    return event(pod_reference(pod), "Normal", EVICTION_ANNOUNCED, "Preempting", note)


def finished(victim: Victim, preemptor: str) -> Report:
    """The same, where the gang for which others of its unit had to go does not need it any more."""
    note = notes.finished(victim.node, victim.unit.kind, victim.unit.name, preemptor)
    ref = pod_reference(reference(victim))
    return event(ref, "Normal", PREEMPTED, "Preempting", note)


def job_suspended(job: JobRef, preemptor: str, trigger: PodRef, priority: int, plan: str) -> Report:
    """On a Job whose pods were evicted."""
    note = notes.job_suspended(preemptor, priority, trigger.key, plan)
    return event(pod_reference(job), "Normal", PREEMPTED, "Suspending", note, pod_reference(trigger))


def job_resumed(job: JobRef, pods: int, but: str = "") -> Report:
    """On a Job that goes on; ``but`` is what could not be done with it."""
    note = notes.job_resumed(counted(pods, "pod"))
    return event(pod_reference(job), "Normal", RESUMED, "Resuming", f"{note}; {but}" if but else note)


def evicted_for(preemptor: str, victims: Iterable[Victim], plan: str) -> str:
    """Which pods are evicted, and for which gang: on the preemptor, and on the victims' owners."""
    names = sorted(v.key for v in victims)
    note = notes.preempted_pods(counted(len(names), "pod"), preemptor, plan, listed(names, _NAMES))
    return note[:_NOTE_LIMIT]


def preemptor_evicts(trigger: PodRef, note: str) -> Report:
    """On the preemptor: the evicted pods."""
    return Report(pod_reference(trigger), "Normal", PREEMPTED, "Preempting", note)


def room_taken(trigger: PodRef, message: str) -> Report:
    """On the preemptor: another pod was bound into the room that was freed for it."""
    return event(pod_reference(trigger), "Warning", ROOM_TAKEN, "Preempting", message)


def rolled_back(victim: Victim, owner: Owner, gang: str, why: str) -> Report:
    """On a member that ran: the others of its gang have no place."""
    ref = reference(victim)
    note = notes.rolled_back(victim.node, gang, owner.kind, owner.name, why)
    return event(pod_reference(ref), "Warning", ROLLED_BACK, "RollingBack", note)


def name_served(about: Reference, owner: str, name: str) -> Report:
    """Where it is seen who serves a scheduler name: its ``owner`` (in words), or this scheduler (empty)."""
    if owner:
        return event(about, "Warning", NAME_TAKEN, "Scheduling", owner)
    return event(about, "Normal", NAME_SERVED, "Scheduling", notes.name_served(name))


def mark_message(scheduler: str, preemptor: str, trigger: str) -> str:
    """The message of a victim's DisruptionTarget condition, in the words that Koordinator's users know."""
    return notes.preempting(scheduler, notes.HIGHER_PRIORITY, preemptor, trigger)


def rollback_message(scheduler: str, gang: str, trigger: str) -> str:
    """The same for a member that is removed because the rest of its gang has no place."""
    return notes.rolling_back(scheduler, gang, trigger)


def drain_message(scheduler: str, stop: Stop, workload: str) -> str:
    """The message of the DisruptionTarget condition of a pod that leaves because its queue is drained."""
    return notes.draining(scheduler, stop, workload)


def spared(owner: str) -> tuple[str, str]:
    """Message and reason of the DisruptionTarget condition of a pod that need not leave any more for a gang
    (``ns/name``), or because of a queue (its kind and its name).
    """
    kind = owner.partition(" ")[0]
    if kind in STOPPED:
        return notes.no_longer_drained(owner), STOPPED[kind]
    return notes.no_longer_needed(owner), MARK_REASON


def drained(victim: Victim, stop: Stop, workload: str) -> Report:
    """On a pod that is evicted because its queue is drained; ``workload`` is what leaves as a whole."""
    ref = reference(victim)
    note = notes.drained_pod(stop.message, stop, workload, victim.node)
    return event(pod_reference(ref), "Normal", EVICTED_DUE_TO + stop.reason, "Draining", note)


def gang_status(
    gang: Gang, pods: Iterable[Pod], census: Census, problem: str, message: str, evicted: str
) -> Mapping[str, Any]:
    """Where a gang stands, for the status of its group object: in one form for all dialects, phases as Koordinator's
    users know them. ``evicted`` says of its pods which were
    evicted last, and for whom.
    """
    phases = [p.phase for p in pods]
    running, succeeded, failed = (phases.count(x) for x in ("Running", "Succeeded", "Failed"))
    scheduled_now = len(census.bound) + len(census.terminating) + succeeded
    minimum = gang.min_member
    if succeeded >= minimum:
        phase = "Finished"
    elif failed and failed + running + succeeded >= minimum:
        phase = "Failed"
    elif scheduled_now >= minimum:
        phase = "Running" if running + succeeded >= minimum else "Scheduled"
    elif scheduled_now:
        phase = "Scheduling"
    elif census.present >= minimum and not problem:
        phase = "PreScheduling"
    else:
        phase = "Pending"
    done = scheduled_now >= minimum
    return {
        "phase": phase,
        "minimum": minimum,
        "members": len(phases),
        "scheduled": scheduled_now,
        "running": running,
        "succeeded": succeeded,
        "failed": failed,
        "reason": SCHEDULED if done else (GANG_NOT_READY if problem else UNSCHEDULABLE if message else ""),
        "message": "" if done else problem or message,
        "evicted": evicted,
    }
