"""``scheduling.volcano.sh/v1beta1`` PodGroup of Volcano.

Members name the group in the annotation ``scheduling.k8s.io/group-name``, and their role in ``volcano.sh/task-spec``.
Sources: the API types of volcano-sh/apis, and what Volcano's scheduler makes of them (``pkg/scheduler/api/job_info.go``
and ``pkg/scheduler/framework/session.go`` of volcano-sh/volcano).
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from gangsched.messages import invalid
from gangsched.messages import notes as said
from gangsched.model import conditions, wire
from gangsched.model.dialects.dialect import Dialect, Seen, Told, counts, evicted
from gangsched.model.dialects.objects import described, members, min_resources, shown
from gangsched.model.errors import FieldError, Mistake
from gangsched.model.parts import fewest, part_of
from gangsched.model.queues import (
    BEST_EFFORT_FIFO,
    STOP_HOLD,
    STOP_NONE,
    STRICT_FIFO,
    ClusterQueue,
    Limits,
    of_other_api,
)
from gangsched.model.records import TIER, TIER_NAME, Gang, HyperMember, HyperNode, Part, Pod
from gangsched.model.selectors import label_selector
from gangsched.model.shapes import parse_list

FAMILY = "scheduling.volcano.sh"
VERSION = "v1beta1"
#: The scheduler name that Volcano's controllers write where users leave it out.
SCHEDULER = "volcano"
GROUP_NAME = "scheduling.k8s.io/group-name"
TASK = "volcano.sh/task-spec"
ROOT = "root"
#: Each tier is one more level in which a place is looked for.
MAX_TIER = 8
TOPOLOGY_GROUP = "topology.volcano.sh"
#: The conditions of which a group has one or none.
_SCHEDULED, _UNSCHEDULABLE = "Scheduled", "Unschedulable"


def group_of(meta: wire.ObjectMeta, _spec: wire.PodSpec) -> tuple[str, str]:
    """The group's name as a member's annotation gives it, and where."""
    return (meta.annotations or {}).get(GROUP_NAME, ""), f"metadata.annotations[{GROUP_NAME}]"


def role(pod: Pod, gang: Gang) -> str:
    """The sub-group that a member is in, where its group has such, else its task: the annotation is asked first."""
    if gang.parts is not None:
        return part_of(gang.parts, pod.labels)
    return pod.hints.get(TASK) or pod.labels.get(TASK) or ""


def gang_from_object(obj: wire.VolcanoPodGroup) -> Gang:
    """One PodGroup. A group without a minimum starts one member at a time. Raises :class:`FieldError`."""
    spec = obj.spec
    members(spec.min_member, "spec.minMember")
    for task, count in (spec.min_task_member or {}).items():
        members(count, f"spec.minTaskMember[{task}]")
    parts, remark = _sub_groups(spec)
    return described(
        FAMILY,
        obj.metadata,
        remark,
        topology=_topology(spec.network_topology),
        min_member=max(1, spec.min_member, members(fewest(parts), "spec.subGroupPolicy") if parts is not None else 0),
        min_resources=min_resources(spec.min_resources),
        roles=_roles(spec) if parts is None else (),
        parts=parts,
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


def _sub_groups(spec: wire.VolcanoPodGroupSpec) -> tuple[Part | None, Mistake | None]:
    """The parts that the members are divided into, and what is asked of them and not looked at."""
    parts, names, remark = [], set(), None
    for number, each in enumerate(spec.sub_group_policy or ()):
        field, keys = f"spec.subGroupPolicy[{number}]", tuple(each.match_label_keys or ())
        name = each.name or f"{number}"
        if "/" in name or name in names:
            raise FieldError(f"{field}.name", invalid.subgroup_twice(shown(name)))
        asked = each.network_topology
        if asked is not None and (asked.highest_tier_allowed is not None or asked.highest_tier_name):
            if asked.mode != "soft":
                raise FieldError(f"{field}.networkTopology", invalid.HARD_TOPOLOGY_OF_SUBGROUP)
            remark = Mistake(f"{field}.networkTopology", invalid.SOFT_TOPOLOGY_OF_SUBGROUP)
        if each.min_sub_groups > 1 and not keys:
            raise FieldError(f"{field}.minSubGroups", invalid.ONE_SUBGROUP)
        names.add(name)
        size = members(each.sub_group_size, f"{field}.subGroupSize", 1)
        least = members(each.min_sub_groups, f"{field}.minSubGroups")
        selector = label_selector(each.label_selector, f"{field}.labelSelector")
        parts.append(Part(name, size, least, selector=selector, keys=keys))
    if not parts:
        return None, None
    if spec.min_task_member and remark is None:
        remark = FieldError("spec.minTaskMember", invalid.TASKS_AND_SUBGROUPS).remark
    return Part(least=len(parts), parts=tuple(parts)), remark


def _topology(asked: wire.NetworkTopology | None) -> tuple[tuple[str, bool], ...]:
    """All members in one HyperNode of at most this tier, rather of a lower one."""
    if asked is None:
        return ()
    required = asked.mode != "soft"
    if asked.highest_tier_name:
        return ((TIER_NAME + asked.highest_tier_name, required),)
    highest = asked.highest_tier_allowed
    if highest is None:
        return ()
    if not 0 <= highest <= MAX_TIER:
        raise FieldError("spec.networkTopology.highestTierAllowed", invalid.not_between(highest, 0, MAX_TIER))
    return tuple((f"{TIER}{tier}", required and tier == highest) for tier in range(highest, -1, -1))


class Match(wire.Wire):
    """A name, or a pattern of names."""

    name: str = ""
    pattern: str = ""


class MemberSelector(wire.Wire):
    """Which members; one of these is set."""

    exact_match: Match | None = None
    regex_match: Match | None = None
    label_match: wire.LabelSelector | None = None


class HyperNodeMember(wire.Wire):
    """Nodes or HyperNodes."""

    type: str = "Node"
    selector: MemberSelector = msgspec.field(default_factory=MemberSelector)


class HyperNodeSpec(wire.Wire):
    """Where in the tree it is."""

    tier: int = 1
    tier_name: str = ""
    members: list[HyperNodeMember] | None = None


class RawHyperNode(wire.Object):
    """``topology.volcano.sh/v1alpha1`` HyperNode."""

    spec: HyperNodeSpec = msgspec.field(default_factory=HyperNodeSpec)


def hyper_node(obj: RawHyperNode) -> HyperNode:
    """One HyperNode. Raises :class:`FieldError`."""
    members = []
    for number, each in enumerate(obj.spec.members or ()):
        field, of = f"spec.members[{number}].selector", each.selector
        pattern = of.regex_match.pattern if of.regex_match is not None else ""
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise FieldError(f"{field}.regexMatch.pattern", f"{error}"[:200]) from None
        selector = label_selector(of.label_match, f"{field}.labelMatch")
        name = of.exact_match.name if of.exact_match is not None else ""
        members.append(HyperMember(each.type == "HyperNode", name, pattern, selector))
    if not 0 <= obj.spec.tier <= MAX_TIER:
        raise FieldError("spec.tier", invalid.not_between(obj.spec.tier, 0, MAX_TIER))
    return HyperNode(obj.metadata.name, obj.spec.tier, obj.spec.tier_name, tuple(members))


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
