"""``scheduling.run.ai/v2alpha2`` PodGroup of KAI.

KAI's podgrouper makes a PodGroup for each workload with KAI's scheduler name, and then writes the group's name into an
annotation of its pods, and a label that says which part of the group they are in; it works on without the scheduler.
Sources: the API types and the webhook of KAI-Scheduler (``pkg/apis/scheduling/v2alpha2``), and what its scheduler makes
of them (``pkg/scheduler/api/podgroup_info``).
"""

from __future__ import annotations

from typing import Any

import msgspec

from gangsched.messages import invalid
from gangsched.model import conditions, wire
from gangsched.model.dialects.dialect import STARTED, Dialect, Seen, Told, counts, evicted
from gangsched.model.dialects.objects import described, members, shown
from gangsched.model.errors import FieldError, Mistake
from gangsched.model.parts import as_roles, fewest
from gangsched.model.queues import ClusterQueue, Limits, of_other_api
from gangsched.model.records import Gang, Part, Pod
from gangsched.model.times import parse_duration

FAMILY = "scheduling.run.ai"
#: The scheduler name whose pods the podgrouper puts into groups.
SCHEDULER = "kai-scheduler"
GROUP_NAME = "pod-group-name"
SUBGROUP = "kai.scheduler/subgroup-name"
SKIP = "kai.scheduler/skip-podgrouper"
QUEUE = "kai.scheduler/queue"
#: The condition of a group that does not fit, and the only node pool.
_UNSCHEDULABLE, _NODE_POOL = "UnschedulableOnNodePool", "default"
#: Sub-groups within sub-groups, so many levels at most.
MAX_DEPTH = 8
_PREEMPTIBILITY = {"": False, "preemptible": False, "non-preemptible": True}


class TopologyConstraint(wire.Wire):
    """Levels are keys of node labels; the Topology object has their order."""

    topology: str = ""
    required_topology_level: str = ""
    preferred_topology_level: str = ""


class SubGroup(wire.Wire):
    """A part of a group."""

    name: str = ""
    min_member: int | None = None
    min_sub_group: int | None = None
    parent: str | None = None
    topology_constraint: TopologyConstraint | None = None


class PodGroupSpec(wire.Wire):
    """What a PodGroup asks for."""

    min_member: int | None = None
    min_sub_group: int | None = None
    queue: str = ""
    priority_class_name: str = ""
    preemptibility: str = ""
    topology_constraint: TopologyConstraint | None = None
    sub_groups: list[SubGroup] | None = None


class PodGroup(wire.Object):
    """One PodGroup."""

    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)


def group_of(meta: wire.ObjectMeta, spec: wire.PodSpec) -> tuple[str, str]:
    """The group that the annotation of a member names. A pod with KAI's scheduler name that has none yet is in one of
    its own name, which is not there: it would start alone before the podgrouper has seen it.
    """
    notes, field = meta.annotations or {}, f"metadata.annotations[{GROUP_NAME}]"
    name = notes.get(GROUP_NAME, "")
    if name or spec.scheduler_name != SCHEDULER or notes.get(SKIP) == "true":
        return name, field
    return meta.name, field


def part(pod: Pod, _gang: Gang) -> str:
    """The part of its group that a member is in."""
    return pod.labels.get(SUBGROUP, "")


def gang_from_object(obj: PodGroup) -> Gang:
    """One PodGroup. Raises :class:`FieldError`. Where it has parts, its own ``minMember`` means nothing, as in KAI."""
    spec = obj.spec
    if spec.min_member and spec.min_sub_group is not None:
        raise FieldError("spec.minSubGroup", invalid.MEMBERS_OR_SUBGROUPS)
    if spec.preemptibility not in _PREEMPTIBILITY:
        allowed = ", ".join(filter(None, _PREEMPTIBILITY))
        raise FieldError("spec.preemptibility", invalid.none_of(shown(spec.preemptibility), allowed))
    minimum = members(spec.min_member or 0, "spec.minMember")
    tree = _tree(spec) if spec.sub_groups or spec.min_sub_group is not None else None
    roles = as_roles(tree) if tree is not None else None
    gang = described(
        FAMILY,
        obj.metadata,
        _remark(spec),
        min_member=max(1, minimum if tree is None else members(fewest(tree), "spec.subGroups")),
        roles=tuple((name, count) for name, count in roles or () if count),
        parts=tree if roles is None else None,
        priority_class=spec.priority_class_name,
        queue_name=spec.queue,
        topology=_topology(spec.topology_constraint),
    )
    if not _PREEMPTIBILITY[spec.preemptibility]:
        return gang
    return msgspec.structs.replace(gang, stakes=msgspec.structs.replace(gang.stakes, never=True))


def _tree(spec: PodGroupSpec) -> Part:
    """The parts of a group: of each so many members, or so many of the parts within it, of which absent means all."""
    below: dict[str, list[tuple[str, SubGroup]]] = {}
    names = set()
    for number, each in enumerate(spec.sub_groups or ()):
        field = f"spec.subGroups[{number}]"
        if not each.name or each.name in names:
            raise FieldError(f"{field}.name", invalid.subgroup_twice(shown(each.name)))
        if each.min_member is not None and each.min_sub_group is not None:
            raise FieldError(f"{field}.minSubGroup", invalid.MEMBERS_OR_SUBGROUPS)
        if each.topology_constraint is not None and each.topology_constraint.required_topology_level:
            raise FieldError(f"{field}.topologyConstraint", invalid.HARD_TOPOLOGY_OF_SUBGROUP)
        names.add(each.name)
        below.setdefault((each.parent or "").lower(), []).append((field, each))

    def whole(name: str, least: int | None, field: str, depth: int) -> Part:
        listed = below.pop(name, [])
        if not depth:
            raise FieldError(field, invalid.subgroups_too_deep(MAX_DEPTH))
        if least is not None and not 0 <= least <= len(listed):
            raise FieldError(f"{field}.minSubGroup", invalid.few_subgroups(len(listed), least))
        parts = [
            leaf(each, where) if each.name not in below else whole(each.name, each.min_sub_group, where, depth - 1)
            for where, each in listed
        ]
        return Part(name, least=len(listed) if least is None else least, parts=tuple(parts))

    def leaf(each: SubGroup, field: str) -> Part:
        if each.min_member is None:
            raise FieldError(f"{field}.minMember", invalid.SUBGROUP_WITHOUT_MINIMUM)
        return Part(each.name, members(each.min_member, f"{field}.minMember"))

    tree = whole("", spec.min_sub_group, "spec", MAX_DEPTH)
    if below:  # their parents are not there, or in a circle
        field, each = next(iter(below.values()))[0]
        raise FieldError(f"{field}.parent", invalid.no_subgroup(shown(each.parent or "")))
    return tree


def _topology(wanted: TopologyConstraint | None) -> tuple[tuple[str, bool], ...]:
    """The required level and, within it, the preferred one; KAI looks at neither without the name of a Topology."""
    if wanted is None or not wanted.topology:
        return ()
    levels = {wanted.required_topology_level: True}
    levels.setdefault(wanted.preferred_topology_level, False)
    return tuple((key, required) for key, required in levels.items() if key)


def _remark(spec: PodGroupSpec) -> Mistake | None:
    """What the group asks for and does not get, and what breaks nothing."""
    for number, each in enumerate(spec.sub_groups or ()):
        if each.topology_constraint is not None and each.topology_constraint.preferred_topology_level:
            return Mistake(f"spec.subGroups[{number}].topologyConstraint", invalid.SOFT_TOPOLOGY_OF_SUBGROUP)
    return None


class QueueResource(wire.Wire):
    """What is owned and the most that is used of a resource; below 0: any amount."""

    quota: float = 0
    limit: float = -1


class QueueResources(wire.Wire):
    """Milli-cores, megabytes, and devices of ``nvidia.com/gpu``."""

    cpu: QueueResource | None = None
    memory: QueueResource | None = None
    gpu: QueueResource | None = None


class QueueSpec(wire.Wire):
    """What a Queue may use, and how long its pods run before they may be evicted."""

    parent_queue: str = ""
    resources: QueueResources | None = None
    preempt_min_runtime: str = ""
    reclaim_min_runtime: str = ""


class Queue(wire.Object):
    """``scheduling.run.ai/v2`` Queue."""

    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)


def queue_from_object(obj: Queue) -> ClusterQueue:
    """One Queue: its quota is its own, up to its limit it borrows from the others of its parent. Raises
    :class:`FieldError`.
    """
    spec, limits = obj.spec, {}
    given = spec.resources or QueueResources()
    for name, each, unit in (("cpu", given.cpu, 1), ("memory", given.memory, 10**6), ("nvidia.com/gpu", given.gpu, 1)):
        if each is None or (each.quota < 0 and each.limit < 0):
            continue
        nominal = round((each.quota if each.quota >= 0 else each.limit) * unit)
        limits[name] = Limits(nominal, None if each.limit < 0 else max(0, round(each.limit * unit) - nominal))
    first, later = (
        parse_duration(raw or "0s", f"spec.{field}")
        for field, raw in (
            ("preemptMinRuntime", spec.preempt_min_runtime),
            ("reclaimMinRuntime", spec.reclaim_min_runtime),
        )
    )
    return of_other_api(FAMILY, obj.metadata, spec.parent_queue, limits, preempt_after=first, reclaim_after=later)


def status(told: Told, seen: Seen) -> dict[str, Any]:
    """Phase and counts, and KAI's condition while the group does not fit."""
    known = seen.status.get("schedulingConditions")
    others: list[Any] = []
    ours: list[dict[str, Any]] = []
    for each in known if isinstance(known, list) else ():
        mine = isinstance(each, dict) and (each.get("type"), each.get("nodePool")) == (_UNSCHEDULABLE, _NODE_POOL)
        (ours if mine else others).append(each)
    if told["phase"] in STARTED or not told.get("message"):
        ours = []
    else:
        text, reason = str(told["message"]), str(told["reason"])
        before = ours
        ours = conditions.with_these(ours, [(_UNSCHEDULABLE, "True", reason, text)], 0, seen.now)
        if ours is not before:
            ours = [
                {**ours[-1], "nodePool": _NODE_POOL, "reasons": [{"reason": reason, "message": ours[-1]["message"]}]}
            ]
    listed = conditions.listed(seen.status)
    return {
        "phase": told["phase"],
        **counts(told, seen, "running", "succeeded", "failed"),
        "schedulingConditions": [*others, *ours],
        "conditions": conditions.with_these(listed, evicted(told), 0, seen.now),
    }


DIALECT = Dialect(
    FAMILY,
    group_of,
    ("v2alpha2",),
    PodGroup,
    gang_from_object=gang_from_object,
    unread=("markUnschedulable", "schedulingBackoff"),
    role_of=part,
    status=status,
    queue=(Queue, queue_from_object),
    queue_versions=("v2",),
)
