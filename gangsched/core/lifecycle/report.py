"""Events: for each reason its kind and action, and how one is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from gangsched.core.actions import JobRef, PodRef, Report, reference
from gangsched.core.decision import Victim
from gangsched.core.lifecycle.group import Group
from gangsched.core.quota.stop_policy import STOPPED
from gangsched.core.state.jobs import WITHOUT_PODS, Suspendable, family_of
from gangsched.core.world import obstacles
from gangsched.core.world.suspended import LENIENT
from gangsched.core.world.world import World
from gangsched.messages import notes
from gangsched.messages.text import join_names, pluralize
from gangsched.model.dialects import BY_FAMILY, has_status
from gangsched.model.dialects.operators import FAMILIES
from gangsched.model.jobsets import GROUP, JOBSET, VERSION
from gangsched.model.records import JOB, GangId, Pod

#: Reasons of Events, and of conditions.
SCHEDULED = "Scheduled"
FAILED_SCHEDULING = "FailedScheduling"
WAITING_ON_PREEMPTION = "WaitingOnPreemption"
PREEMPTED = "Preempted"
PODS_EVICTED = "PodsEvicted"
EVICTION_ANNOUNCED = "EvictionAnnounced"
GANG_BROKEN = "GangBroken"
GANG_NOT_READY, REFUSED, TWO_ADMITTERS = obstacles.GANG_NOT_READY, obstacles.REFUSED, obstacles.TWO_ADMITTERS
UNSCHEDULABLE = "Unschedulable"
ROOM_RELEASED = "AnnouncedRoomReleased"
SCHEDULER_ERROR = "SchedulerError"
ROOM_TAKEN = "FreedRoomTaken"
STATUS_HELD_BACK = "StatusWriteHeldBack"
ROOM_NOT_HELD = "RoomNotHeld"
RESUMED = "Resumed"
PODS_MISSING = "ResumedPodsMissing"
ROLLED_BACK = "RolledBack"
REWRITTEN = "VictimRewritten"
NAME_TAKEN, NAME_SERVED = "SchedulerNameTaken", "SchedulerNameServed"
RESERVED, ADMITTED, PENDING = "QuotaReserved", "Admitted", "Pending"
#: Reasons of Events that say that a workload leaves begin so; the reason of the eviction follows.
EVICTED_DUE_TO = "EvictedDueTo"
EVICTED = EVICTED_DUE_TO + PREEMPTED
DRAIN_BLOCKED = "DrainBlocked"

#: Of each Event kind (Normal or Warning) and action, by its reason.
EVENTS = {
    SCHEDULED: ("Normal", "Binding"),
    FAILED_SCHEDULING: ("Warning", "Scheduling"),
    WAITING_ON_PREEMPTION: ("Normal", "Scheduling"),
    GANG_NOT_READY: ("Normal", "Scheduling"),
    SCHEDULER_ERROR: ("Warning", "Scheduling"),
    ROOM_RELEASED: ("Normal", "Scheduling"),
    PODS_MISSING: ("Warning", "Resuming"),
    NAME_TAKEN: ("Warning", "Scheduling"),
    NAME_SERVED: ("Normal", "Scheduling"),
    REFUSED: ("Warning", "Reading"),
    PREEMPTED: ("Normal", "Preempting"),
    PODS_EVICTED: ("Normal", "Preempting"),
    EVICTION_ANNOUNCED: ("Normal", "Preempting"),
    GANG_BROKEN: ("Warning", "Preempting"),
    ROOM_TAKEN: ("Warning", "Preempting"),
    STATUS_HELD_BACK: ("Warning", "UpdatingStatus"),
    ROOM_NOT_HELD: ("Warning", "Preempting"),
    RESUMED: ("Normal", "Resuming"),
    ROLLED_BACK: ("Warning", "RollingBack"),
    REWRITTEN: ("Warning", "Preempting"),
    TWO_ADMITTERS: ("Warning", "Admitting"),
    RESERVED: ("Normal", "Admitting"),
    ADMITTED: ("Normal", "Binding"),
    PENDING: ("Warning", "Scheduling"),
    EVICTED: ("Normal", "Preempting"),
    DRAIN_BLOCKED: ("Warning", "Draining"),
    **{EVICTED_DUE_TO + reason: ("Normal", "Draining") for reason in STOPPED.values()},
}

#: Events are cut at this length by the API server.
_NOTE_LIMIT = 1024
#: So many pods are named by an Event about several.
_NAMES = 10

#: (apiVersion, kind, namespace, name, uid).
Reference: TypeAlias = tuple[str, str, str, str, str]
#: The kinds of objects of Events.
About: TypeAlias = Reference | PodRef | Victim

#: The version under which the objects of gang APIs are named in Events, by group; v1 for others.
_VERSIONS = {
    "kueue.x-k8s.io": "v1beta1",
    "jobset.x-k8s.io": "v1alpha2",
}


def pod_reference(pod: PodRef) -> Reference:
    """The pod (or Job, or JobSet) as an object reference of an Event."""
    if isinstance(pod, JobRef):
        api = "batch/v1" if pod.kind == JOB else f"{GROUP}/{VERSION}"
        return (api, pod.kind, pod.namespace, pod.name, pod.uid)
    return ("v1", "Pod", pod.namespace, pod.name, pod.uid)


def job_reference(job: Suspendable) -> JobRef:
    """The incarnation of a Job or JobSet that a write means."""
    return JobRef(job.namespace, job.name, job.uid, family_of(job))


def group_reference(family: str, kind: str, namespace: str, name: str, uid: str) -> Reference:
    """The object of a gang API (group ``family``; empty: core) that an Event is about."""
    operator = FAMILIES.get(family)
    if operator is not None:
        return (f"{operator.group}/{operator.versions[0]}", kind, namespace, name, uid)
    dialect = BY_FAMILY.get(family)
    version = dialect.versions[-1] if dialect is not None and dialect.versions else _VERSIONS.get(family, "v1")
    group = dialect.group or family if dialect is not None else family
    return (f"{group}/{version}" if group else version, kind, namespace, name, uid)


def job_of(world: World, gang: GangId) -> Suspendable | None:
    """The Job or JobSet that a gang without pods stands for, if there is one."""
    return world.jobs.find(gang.family, gang.namespace, gang.name)


def job(world: World, gang: GangId) -> JobRef:
    """That Job or JobSet, as Events and writes name it."""
    spec = world.membership.spec(gang)
    return JobRef(gang.namespace, gang.name, spec.uid if spec is not None else "", gang.family)


def trigger(world: World, group: Group) -> PodRef:
    """The first placed member by name: the pod that messages name. For a Job without pods, the Job."""
    if group.without_pods:
        return job(world, group.gangs[0])
    first = group.plan.first if group.plan is not None else None
    return reference(first) if first is not None else PodRef("", group.name, "")


def stands_for(world: World, gang: GangId) -> Reference | None:
    """The object that represents a gang: its group object, else the first of its pods by name; None if there is
    neither.
    """
    membership = world.membership
    if gang.family in WITHOUT_PODS:  # none of its members is expected any more when the cluster shows that it goes on
        owner = job_of(world, gang)
        return pod_reference(job_reference(owner)) if owner is not None else None
    spec = membership.objects.get((gang.family, gang.namespace, gang.name))
    if spec is not None and spec.kind in (JOB, JOBSET):
        return pod_reference(JobRef(gang.namespace, gang.name, spec.uid, spec.kind))
    if spec is not None:
        return group_reference(gang.family, spec.kind, gang.namespace, gang.name, spec.uid)
    first = min(membership.pods(gang), key=lambda p: p.name, default=None)
    return pod_reference(PodRef(first.namespace, first.name, first.uid)) if first is not None else None


def admitted_object(world: World, gang: GangId) -> Reference | None:
    """The object that represents a gang that is not over; None if nothing does, or if it is up to another scheduler."""
    if any(pod.live for pod in world.membership.kinds(gang)):
        return stands_for(world, gang)
    owner = job_of(world, gang) if gang.family in WITHOUT_PODS else None
    if owner is None or not owner.suspended or owner.finished or owner.template is None:
        return None
    if owner.owner is not None and owner.owner.kind not in LENIENT:
        return None  # what is above it starts it
    ours = (owner.suspended_by or owner.template.scheduler) == gang.scheduler
    return pod_reference(job_reference(owner)) if ours else None


def owners_of(world: World, pod: Pod) -> Iterator[tuple[Reference, GangId | None]]:
    """The objects that a pod belongs to, including its gang if that is a group whose status is ours to write."""
    job, membership, gang = world.jobs.owner_of(pod), world.membership, pod.gang
    if job is not None:
        yield pod_reference(job_reference(job)), None
    elif pod.owner is not None:
        yield (*pod.owner.of_api(), pod.namespace, pod.owner.name, pod.owner.uid), None
    spec = membership.objects.get((gang.family, gang.namespace, gang.name))
    if spec is not None and spec.kind not in (JOB, JOBSET):
        about = group_reference(gang.family, spec.kind, gang.namespace, gang.name, spec.uid)
        yield about, gang if membership.is_ours(gang) and has_status(gang.family) else None


def event(about: About, reason: str, note: str, related: About | None = None, action: str = "") -> Report:
    """An Event, whose note is cut where the API server would refuse it. ``action`` is another one than usual."""
    kind, usual = EVENTS[reason]
    other = _referred(related) if related is not None else None
    return Report(_referred(about), kind, reason, action or usual, note[:_NOTE_LIMIT], other)


def _referred(about: About) -> Reference:
    if isinstance(about, Victim):
        about = reference(about)
    return pod_reference(about) if isinstance(about, PodRef) else about


def members_scheduled(about: Reference, bound: Iterable[tuple[PodRef, str]]) -> Report:
    """These members of a gang were bound, each to its node."""
    places = sorted((pod.name, node) for pod, node in bound)
    shown = join_names([f"{name} to {node}" for name, node in places], _NAMES)
    nodes = len({node for _, node in places})
    return event(about, SCHEDULED, notes.pods_assigned(pods=pluralize(len(places), "pod"), nodes=nodes, names=shown))


def evicted_for(preemptor: str, victims: Iterable[Victim], plan: str) -> str:
    """Report evicted pods and their preemptor, on the preemptor and on the victims' owners."""
    names = sorted(v.key for v in victims)
    note = notes.preempted_pods(
        pods=pluralize(len(names), "pod"), preemptor=preemptor, plan=plan, names=join_names(names, _NAMES)
    )
    return note[:_NOTE_LIMIT]


def mark_message(scheduler: str, preemptor: str, trigger: str) -> str:
    """The message of a victim's DisruptionTarget condition, in the words that Koordinator's users know."""
    return notes.preempting(scheduler=scheduler, higher=notes.HIGHER_PRIORITY, preemptor=preemptor, trigger=trigger)
