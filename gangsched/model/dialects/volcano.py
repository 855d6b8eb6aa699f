"""``scheduling.volcano.sh/v1beta1`` PodGroup of Volcano.

Members name the group in the annotation ``scheduling.k8s.io/group-name``, and their role in ``volcano.sh/task-spec``.
Sources: the API types of volcano-sh/apis, and what Volcano's scheduler makes of them (``pkg/scheduler/api/job_info.go``
and ``pkg/scheduler/framework/session.go`` of volcano-sh/volcano).
"""

from __future__ import annotations

from typing import Any

import msgspec

from gangsched.messages import invalid
from gangsched.messages import notes as said
from gangsched.model import conditions, wire
from gangsched.model.dialects.dialect import Dialect, Seen, Told, counts, evicted
from gangsched.model.dialects.objects import described, members, min_resources
from gangsched.model.errors import FieldError, Mistake
from gangsched.model.queues import (
    BEST_EFFORT_FIFO,
    STOP_HOLD,
    STOP_NONE,
    STRICT_FIFO,
    ClusterQueue,
    Limits,
    of_other_api,
)
from gangsched.model.records import Gang, Labels
from gangsched.model.shapes import parse_list

FAMILY = "scheduling.volcano.sh"
VERSION = "v1beta1"
#: The scheduler name that Volcano's controllers write where users leave it out.
SCHEDULER = "volcano"
GROUP_NAME = "scheduling.k8s.io/group-name"
TASK = "volcano.sh/task-spec"
ROOT = "root"
#: The conditions of which a group has one or none.
_SCHEDULED, _UNSCHEDULABLE = "Scheduled", "Unschedulable"


def group_of(meta: wire.ObjectMeta, _spec: wire.PodSpec) -> tuple[str, str]:
    """The group's name as a member's annotation gives it, and where."""
    return (meta.annotations or {}).get(GROUP_NAME, ""), f"metadata.annotations[{GROUP_NAME}]"


def role(labels: Labels, notes: Labels) -> str:
    """The task that a member is of; the annotation is asked first."""
    return notes.get(TASK) or labels.get(TASK) or ""


def gang_from_object(obj: wire.VolcanoPodGroup) -> Gang:
    """One PodGroup. A group without a minimum starts one member at a time. Raises :class:`FieldError`."""
    spec = obj.spec
    members(spec.min_member, "spec.minMember")
    for task, count in (spec.min_task_member or {}).items():
        members(count, f"spec.minTaskMember[{task}]")
    if spec.sub_group_policy:
        raise FieldError("spec.subGroupPolicy", invalid.SUBGROUPS)
    return described(
        FAMILY,
        obj.metadata,
        _remark(spec),
        min_member=max(1, spec.min_member),
        min_resources=min_resources(spec.min_resources),
        roles=_roles(spec),
        priority_class=spec.priority_class_name,
        queue_name=spec.queue,
        status=obj.status or {},
    )


def _roles(spec: wire.VolcanoPodGroupSpec) -> tuple[tuple[str, int], ...]:
    """How many members of each task must start; Volcano looks at that only where ``minMember`` is no smaller than
    their sum.
    """
    wanted = {task: count for task, count in (spec.min_task_member or {}).items() if count}
    return tuple(sorted(wanted.items())) if sum(wanted.values()) <= spec.min_member else ()


def _remark(spec: wire.VolcanoPodGroupSpec) -> Mistake | None:
    """What the group asks for and does not get. A hard topology is a :class:`FieldError`: it would be broken."""
    topology = spec.network_topology
    if topology is not None and (topology.highest_tier_allowed is not None or topology.highest_tier_name):
        if topology.mode != "soft":
            text = invalid.HARD_TOPOLOGY
            raise FieldError("spec.networkTopology", text)
        return Mistake("spec.networkTopology", invalid.SOFT_TOPOLOGY)
    return None


class Guarantee(wire.Wire):
    """What a queue keeps for itself."""

    resource: wire.Quantities | None = None


class QueueSpec(wire.Wire):
    """What a Queue may use."""

    weight: int | None = None
    capability: wire.Quantities | None = None
    deserved: wire.Quantities | None = None
    guarantee: Guarantee | None = None
    reclaimable: bool | None = None
    parent: str = ""
    dequeue_strategy: str = ""


class QueueState(wire.Wire):
    """Where a Queue stands."""

    state: str = ""


class Queue(wire.Object):
    """``scheduling.volcano.sh/v1beta1`` Queue."""

    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: QueueState = msgspec.field(default_factory=QueueState)


def queue_from_object(obj: Queue) -> ClusterQueue:
    """One Queue: what it deserves is its own, up to its capability it borrows from the others of its parent, and its
    guarantee it does not lend. One that cannot be reclaimed from borrows nothing. Raises :class:`FieldError`.
    """
    spec = obj.spec
    deserved = parse_list(spec.deserved, "spec.deserved")
    most = parse_list(spec.capability, "spec.capability")
    kept = parse_list(spec.guarantee.resource if spec.guarantee else None, "spec.guarantee.resource")
    limits = {}
    for name in {**deserved, **most}:
        nominal = deserved.get(name, most.get(name, 0))
        borrowing = max(0, most[name] - nominal) if name in most else None
        lending = max(0, nominal - kept[name]) if name in kept else None
        limits[name] = Limits(nominal, 0 if spec.reclaimable is False else borrowing, lending)
    return of_other_api(
        FAMILY,
        obj.metadata,
        spec.parent or ROOT,
        limits,
        weight=float(1 if spec.weight is None else spec.weight),
        strategy=STRICT_FIFO if spec.dequeue_strategy == "fifo" else BEST_EFFORT_FIFO,
        stop=STOP_HOLD if obj.status.state in ("Closed", "Closing") else STOP_NONE,
    )


def status(told: Told, seen: Seen) -> dict[str, Any]:
    """Volcano's phases: ``Inqueue``, in which its controllers create pods, when the group is served and understood."""
    minimum, active = told["minimum"], told["scheduled"] - told["succeeded"]
    text, enough = told["message"], told["scheduled"] + told["failed"] >= minimum
    if enough and not active:
        phase = "Completed" if told["succeeded"] + told["failed"] else "Inqueue"
    elif enough:
        phase = "Running"
    else:
        phase = "Unknown" if told["running"] and text else "Inqueue"
    ours = []
    if phase == "Running":
        ours = [(_SCHEDULED, "True", "Scheduled", said.MINIMUM_BOUND)]
    elif text:
        lacks = "NotEnoughResources" if told["reason"] == _UNSCHEDULABLE else "NotEnoughTasks"
        ours = [(_UNSCHEDULABLE, "True", lacks, text)]
    keep = {_SCHEDULED, _UNSCHEDULABLE} & {each[0] for each in ours}
    others = [
        each
        for each in conditions.listed(seen.status)
        if each.get("type") in keep or each.get("type") not in (_SCHEDULED, _UNSCHEDULABLE)
    ]
    listed = conditions.with_these(others, [*ours, *evicted(told)], 0, seen.now)
    return {"phase": phase, **counts(told, seen, "running", "succeeded", "failed"), "conditions": listed}


#: Its controllers create no pods before the phase is ``Inqueue``, and its API has no status subresource.
DIALECT = Dialect(
    FAMILY,
    group_of,
    (VERSION,),
    wire.VolcanoPodGroup,
    gang_from_object=gang_from_object,
    role_of=role,
    status=status,
    awaited_from=SCHEDULER,
    queue=(Queue, queue_from_object),
)
