"""``scheduling.run.ai/v2alpha2`` PodGroup of KAI.

KAI's podgrouper creates a PodGroup for each workload with KAI's scheduler name. It writes the group's name into an
annotation of its pods, and their sub-group into a label. It also works without the scheduler. Sources: the API types
and the webhook of KAI-Scheduler (``pkg/apis/scheduling/v2alpha2``), and what its scheduler makes of them
(``pkg/scheduler/api/podgroup_info``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from gangsched.messages import invalid
from gangsched.model import conditions, wire
from gangsched.model.constraints import Labels
from gangsched.model.dialects.dialect import EVICTED, STARTED, CommonStatus, CurrentObject, Dialect, counts, evicted
from gangsched.model.dialects.objects import PriorityClassName, QueueName, described, members, named_in, shown
from gangsched.model.errors import FieldError, Mistake
from gangsched.model.fields import Documented, ignored, in_status, used
from gangsched.model.parts import as_roles, fewest
from gangsched.model.queues import ClusterQueue, Limits, of_other_api
from gangsched.model.records import Gang, Part, Pod, Topology
from gangsched.model.times import parse_duration

FAMILY = "scheduling.run.ai"
#: The scheduler name whose pods the podgrouper puts into groups.
SCHEDULER = "kai-scheduler"
#: The API group of Topologies.
TOPOLOGY_GROUP = "kai.scheduler"
GROUP_NAME = "pod-group-name"
SUBGROUP = "kai.scheduler/subgroup-name"
SKIP = "kai.scheduler/skip-podgrouper"
QUEUE = "kai.scheduler/queue"
NODE_POOL = "kai.scheduler/node-pool"
#: A pod gets a share of a GPU by these, through a pod and a ConfigMap that KAI's binder makes before it binds.
_SHARES = ("gpu-fraction", "gpu-memory")
#: The condition of a group that does not fit, and the only node pool.
_UNSCHEDULABLE, _NODE_POOL = "UnschedulableOnNodePool", "default"
#: Sub-groups within sub-groups, so many levels at most.
MAX_DEPTH = 8
#: The groups that KAI does not evict: all, or those from a priority on.
_PREEMPTIBILITY: Mapping[str, tuple[bool, int | None]] = {
    "": (False, 100),
    "preemptible": (False, None),
    "non-preemptible": (True, None),
}


class TopologyConstraint(wire.Wire):
    """Levels are called by their node label or by their alias in a Topology."""

    topology: Annotated[
        str, used("the Topology; without it the levels mean nothing. The gang waits until it exists")
    ] = ""
    required_topology_level: Annotated[str, used("one domain of this level ([topology.md](../topology.md))")] = ""
    preferred_topology_level: Annotated[
        str, used("rather one domain of this level, else of the one above, and so on up to the required level")
    ] = ""


class SubGroup(wire.Wire):
    """A part of a group."""

    name: Annotated[str, used("what members say to be in it")] = ""
    min_member: Annotated[int | None, used("so many members of it start together; required where none is in it")] = None
    min_sub_group: Annotated[int | None, used("so many of the sub-groups in it start whole; all without it")] = None
    parent: Annotated[str | None, used("8 levels at most; one that is not there, or a circle, is refused")] = None
    topology_constraint: Annotated[
        TopologyConstraint | None, used("as `topologyConstraint` of the group, for all members of this sub-group")
    ] = None


class PodGroupSpec(wire.Wire):
    """The spec of a PodGroup."""

    min_member: Annotated[int | None, used("so many members start together; ignored beside `subGroups`, as in KAI")] = (
        None
    )
    min_sub_group: Annotated[int | None, used("so many sub-groups without a parent start whole; all without it")] = None
    queue: QueueName = ""
    priority_class_name: PriorityClassName = ""
    preemptibility: Annotated[
        str,
        used("`non-preemptible`: no pod of it is a victim; absent: none if its priority is at least 100"),
    ] = ""
    preemption_delay: Annotated[str, used("[patience](preemption.md#patience)")] = ""
    topology_constraint: TopologyConstraint | None = None
    sub_groups: list[SubGroup] | None = None
    mark_unschedulable: Annotated[Any, ignored("every member gets condition and Event")] = None
    scheduling_backoff: Annotated[Any, ignored("a gang that does not fit is tried again in any case")] = None
    staleness_grace_period: Annotated[Any, ignored("a gang that runs in part is not evicted because of that")] = None


class PodGroup(wire.Object):
    """One PodGroup."""

    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)


def mistake_of_member(_labels: Labels, notes: Labels) -> Mistake | None:
    """A pod that would start without the share of a GPU that it asks for."""
    asked = next((key for key in _SHARES if notes.get(key)), "")
    return Mistake(f"metadata.annotations[{asked}]", invalid.SHARE_OF_GPU) if asked else None


def remark_of_member(labels: Labels, _notes: Labels) -> Mistake | None:
    """A pod of one of KAI's node pools may be placed outside of it."""
    return Mistake(f"metadata.labels[{NODE_POOL}]", invalid.NODE_POOL) if labels.get(NODE_POOL) else None


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
        raise FieldError("spec.preemptibility", invalid.none_of(value=shown(spec.preemptibility), allowed=allowed))
    minimum = members(spec.min_member or 0, "spec.minMember")
    tree = _tree(spec) if spec.sub_groups or spec.min_sub_group is not None else None
    roles = as_roles(tree) if tree is not None else None
    gang = described(
        FAMILY,
        obj,
        None,
        preemption_delay_seconds=parse_duration(spec.preemption_delay or "0s", "spec.preemptionDelay") or None,
        min_member=max(1, minimum if tree is None else members(fewest(tree), "spec.subGroups")),
        roles=tuple((name, count) for name, count in roles or () if count),
        parts=tree if roles is None else None,
        priority_class=spec.priority_class_name,
        queue_name=spec.queue,
        topology=_topology(spec.topology_constraint),
    )
    never, least = _PREEMPTIBILITY[spec.preemptibility]
    return msgspec.structs.replace(gang, stakes=msgspec.structs.replace(gang.stakes, never=never, never_from=least))


def _tree(spec: PodGroupSpec) -> Part:
    """The parts of a group: of each so many members, or so many of the parts within it, of which absent means all."""
    below: dict[str, list[tuple[str, SubGroup]]] = {}
    names, levels = set(), dict[str, tuple[tuple[str, bool], ...]]()
    for number, each in enumerate(spec.sub_groups or ()):
        field = f"spec.subGroups[{number}]"
        if not each.name or each.name in names:
            raise FieldError(f"{field}.name", invalid.subgroup_twice(name=shown(each.name)))
        if each.min_member is not None and each.min_sub_group is not None:
            raise FieldError(f"{field}.minSubGroup", invalid.MEMBERS_OR_SUBGROUPS)
        names.add(each.name)
        levels[each.name] = _topology(each.topology_constraint)
        below.setdefault((each.parent or "").lower(), []).append((field, each))

    def whole(name: str, least: int | None, field: str, depth: int) -> Part:
        listed = below.pop(name, [])
        if not depth:
            raise FieldError(field, invalid.subgroups_too_deep(most=MAX_DEPTH))
        if least is not None and not 0 <= least <= len(listed):
            raise FieldError(f"{field}.minSubGroup", invalid.few_subgroups(wanted=len(listed), count=least))
        parts = [
            leaf(each, where) if each.name not in below else whole(each.name, each.min_sub_group, where, depth - 1)
            for where, each in listed
        ]
        least = len(listed) if least is None else least
        return Part(name, least=least, parts=tuple(parts), topology=levels.get(name, ()))

    def leaf(each: SubGroup, field: str) -> Part:
        if each.min_member is None:
            raise FieldError(f"{field}.minMember", invalid.SUBGROUP_WITHOUT_MINIMUM)
        return Part(each.name, members(each.min_member, f"{field}.minMember"), topology=levels[each.name])

    tree = whole("", spec.min_sub_group, "spec", MAX_DEPTH)
    if below:  # their parents are not there, or in a circle
        field, each = next(iter(below.values()))[0]
        raise FieldError(f"{field}.parent", invalid.no_subgroup(name=shown(each.parent or "")))
    return tree


def _topology(wanted: TopologyConstraint | None) -> tuple[tuple[str, bool], ...]:
    """The required level and, within it, the preferred one; KAI looks at neither without the name of a Topology."""
    if wanted is None or not wanted.topology:
        return ()
    levels = {wanted.required_topology_level: True}
    levels.setdefault(wanted.preferred_topology_level, False)
    return tuple((_level(wanted.topology, level), required) for level, required in levels.items() if level)


def _level(topology: str, level: str) -> str:
    """The key of a level in constraints: no label of a node, so that no gang is placed before its Topology is known."""
    return f"{level} of Topology {topology}"


class Level(wire.Wire):
    """One level."""

    node_label: Annotated[str, used("nodes with the same values of this label and of those above are a domain")] = ""
    alias: Annotated[str, used("another name of the level in constraints")] = ""


class TopologySpec(wire.Wire):
    """The levels of a topology."""

    levels: list[Level] | None = None


class RawTopology(wire.Object):
    """``kai.scheduler/v1alpha1`` Topology."""

    spec: TopologySpec = msgspec.field(default_factory=TopologySpec)


def topology_from_object(obj: RawTopology) -> Topology:
    """The levels of a topology, each with those above it. Raises :class:`FieldError`."""
    above: tuple[str, ...] = ()
    paths: dict[str, tuple[str, ...]] = {}
    for number, each in enumerate(obj.spec.levels or ()):
        if not each.node_label or each.node_label in above:
            raise FieldError(f"spec.levels[{number}].nodeLabel", invalid.level_twice(label=shown(each.node_label)))
        above = (*above, each.node_label)
        for name in filter(None, (each.node_label, each.alias)):
            paths.setdefault(_level(obj.metadata.name, name), above)
    return Topology(obj.metadata.name, tuple(sorted(paths.items())))


class QueueResource(wire.Wire):
    """What is owned and the most that is used of a resource; below 0: any amount."""

    quota: Annotated[float, used("its own; below 0 there is no limit")] = 0
    limit: Annotated[float, used("up to this it borrows from the other queues of its parent; below 0 all")] = -1
    over_quota_weight: Annotated[Any, ignored("what is left is lent as with Kueue")] = None


class QueueResources(wire.Wire):
    """Milli-cores, megabytes, and devices of ``nvidia.com/gpu``."""

    cpu: QueueResource | None = None
    memory: QueueResource | None = None
    gpu: QueueResource | None = None


class QueueSpec(wire.Wire):
    """The quota of a Queue, and how long its pods run before they may be evicted."""

    parent_queue: Annotated[str, used("as `parent` of [Volcano's Queues](#volcano)")] = ""
    resources: QueueResources | None = None
    preempt_min_runtime: Annotated[
        str,
        used(
            "so long its pods run before gangs of the same queue may evict them ([patience](preemption.md#patience)); "
            "those of its parents are ignored"
        ),
    ] = ""
    reclaim_min_runtime: Annotated[str, used("the same for gangs of other queues")] = ""
    display_name: Annotated[Any, ignored()] = None
    priority: Annotated[Any, ignored("gangs are ordered by their own priority")] = None


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


def status(told: CommonStatus, seen: CurrentObject) -> dict[str, Any]:
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
    listed = conditions.conditions_in(seen.status)
    return {
        "phase": told["phase"],
        **counts(told, seen, "running", "succeeded", "failed"),
        "schedulingConditions": [*others, *ours],
        "conditions": conditions.with_these(listed, evicted(told), 0, seen.now),
    }


DIALECT = Dialect(
    FAMILY,
    lambda meta, _: named_in(meta, ("annotations", GROUP_NAME)),
    ("v2alpha2",),
    PodGroup,
    gang_from_object=gang_from_object,
    scheduler_name=SCHEDULER,
    grouped_by="KAI's podgrouper",
    alone_key=SKIP,
    mistake_of=mistake_of_member,
    remark_of=remark_of_member,
    role_of=part,
    status=status,
    queue=(Queue, queue_from_object),
    queue_versions=("v2",),
    documented=(
        Documented(
            f"PodGroup `{FAMILY}/v2alpha2`",
            PodGroupSpec,
            in_status(
                schedulingConditions=f"`{_UNSCHEDULABLE}` (node pool `{_NODE_POOL}`) while it does not fit",
                conditions=f"`{EVICTED}` ([events.md](events.md))",
                phase="with `running`, `succeeded` and `failed` where the definition has them, as ours "
                "([events.md](events.md#status-of-groups))",
                resourcesStatus="left to KAI's podgroup controller",
            ),
        ),
        Documented(
            "on pods",
            None,
            {
                f"annotation `{GROUP_NAME}`": "the PodGroup that the pod is a member of, which must exist",
                f"annotation `{SKIP}`": '`"true"`: the pod waits for no PodGroup',
                f"label `{SUBGROUP}`": "its sub-group. Those of none, or of one that the group has not, join where "
                "there is room",
                f"label `{NODE_POOL}`": "reported: node pools are not kept apart. A `nodeSelector` for that label of "
                "nodes keeps pods in one",
                "annotations `gpu-fraction`, `gpu-memory`": "the pod waits, with the Event `InvalidObject`: "
                "shares of a GPU are not supported",
                "label `kai.scheduler/preemptibility`": "`non-preemptible`: the pod is no victim",
                "annotation `kai.scheduler/preemption-delay`, on group objects of all APIs too": "[patience]"
                "(preemption.md#patience)",
                "labels `kai.scheduler/queue`, `priorityClassName`, annotations `kai.scheduler/topology`, "
                "`topology-required-placement`, `topology-preferred-placement`, `staleness-grace-period`, "
                "`batch-min-member`, `segment-size`": "read by KAI's podgrouper, which writes them into the PodGroup",
            },
        ),
        Documented(f"Topology `{TOPOLOGY_GROUP}/v1alpha1`", TopologySpec),
        Documented(
            f"Queue `{FAMILY}/v2`",
            QueueSpec,
            {"`status`": "left alone"},
        ),
    ),
)
