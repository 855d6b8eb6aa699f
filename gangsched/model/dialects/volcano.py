"""``scheduling.volcano.sh/v1beta1`` PodGroup of Volcano.

Members name the group in the annotation ``scheduling.k8s.io/group-name``, and their role in ``volcano.sh/task-spec``.
Sources: the API types of volcano-sh/apis, and what Volcano's scheduler makes of them (``pkg/scheduler/api/job_info.go``
and ``pkg/scheduler/framework/session.go`` of volcano-sh/volcano).
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec

from gangsched.messages import invalid
from gangsched.messages import notes as said
from gangsched.model import conditions, wire
from gangsched.model.dialects.dialect import EVICTED, CommonStatus, CurrentObject, Dialect, counts, evicted
from gangsched.model.dialects.objects import (
    MinResources,
    PriorityClassName,
    QueueName,
    described,
    members,
    min_resources,
    named_in,
    shown,
)
from gangsched.model.errors import FieldError, Mistake
from gangsched.model.fields import Documented, ignored, in_status, used
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
from gangsched.model.records import MAX_TIER, TIER, TIER_NAME, Gang, HyperMember, HyperNode, Part, Pod
from gangsched.model.selectors import label_selector
from gangsched.model.shapes import parse_list

FAMILY = "scheduling.volcano.sh"
VERSION = "v1beta1"
#: The scheduler name that Volcano's controllers write where users leave it out.
SCHEDULER = "volcano"
GROUP_NAME = "scheduling.k8s.io/group-name"
TASK = "volcano.sh/task-spec"
#: On owners: in which Queue their group is.
QUEUE_NAME = f"{FAMILY}/queue-name"
ROOT = "root"
_COUNTED = ("allocated", "completed", "inqueue", "pending", "reservation", "running", "unknown")
TOPOLOGY_GROUP = "topology.volcano.sh"
#: The conditions of which a group has one or none.
_SCHEDULED, _UNSCHEDULABLE = "Scheduled", "Unschedulable"


class NetworkTopology(wire.Wire):
    """One HyperNode for all members."""

    mode: Annotated[str, used("`hard` (the default), or `soft`: rather so; reported if it names no tier")] = "hard"
    highest_tier_allowed: Annotated[int | None, used("one HyperNode of at most this tier (0 to 8), rather lower")] = (
        None
    )
    highest_tier_name: Annotated[str, used("one HyperNode of the tier of this name, for all members")] = ""


class SubGroupPolicy(wire.Wire):
    """Members with these labels, divided by the values of some of them."""

    name: Annotated[str, used("how messages call it")] = ""
    network_topology: Annotated[
        NetworkTopology | None, used("as `networkTopology` of the group, for each sub-group by itself")
    ] = None
    sub_group_size: Annotated[int, used("how many members a whole sub-group has")] = 1
    min_sub_groups: Annotated[int, used("so many sub-groups start whole")] = 0
    label_selector: Annotated[wire.LabelSelector | None, used("a member is in the first policy that selects it")] = None
    match_label_keys: Annotated[list[str] | None, used("their values divide the members; each has them all")] = None


class PodGroupSpec(wire.Wire):
    """The spec of a PodGroup."""

    min_member: Annotated[int, used("so many members start together; 0 counts as 1")] = 0
    min_task_member: Annotated[
        dict[str, int] | None,
        used(
            "so many of each task are among them, if they are not more than `minMember` together; otherwise ignored, "
            "as in Volcano. Beside `subGroupPolicy` it counts for tasks that no policy selects by the label "
            "`volcano.sh/task-spec`; if a policy selects by other labels, it is reported"
        ),
    ] = None
    min_resources: MinResources = None
    queue: QueueName = ""
    priority_class_name: PriorityClassName = ""
    network_topology: NetworkTopology | None = None
    sub_group_policy: list[SubGroupPolicy] | None = None


class PodGroup(wire.Object):
    """One PodGroup."""

    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: dict[str, Any] | None = None


def role(pod: Pod, gang: Gang) -> str:
    """Return the sub-group of a member if its group has sub-groups, else its task. The annotation comes before the
    label.
    """
    if gang.parts is not None:
        return part_of(gang.parts, pod.labels)
    return pod.hints.get(TASK) or pod.labels.get(TASK) or ""


def gang_from_object(obj: PodGroup) -> Gang:
    """One PodGroup. A group without a minimum starts one member at a time. Raises :class:`FieldError`."""
    spec = obj.spec
    members(spec.min_member, "spec.minMember")
    for task, count in (spec.min_task_member or {}).items():
        members(count, f"spec.minTaskMember[{task}]")
    parts, remark = _sub_groups(spec)
    topology, unclear = levels_of(spec.network_topology, "spec.networkTopology")
    return described(
        FAMILY,
        obj,
        remark or unclear,
        topology=topology,
        min_member=max(1, spec.min_member, members(fewest(parts), "spec.subGroupPolicy") if parts is not None else 0),
        min_resources=min_resources(spec.min_resources),
        roles=_roles(spec) if parts is None else (),
        parts=parts,
        priority_class=spec.priority_class_name,
        queue_name=spec.queue,
        status=obj.status or {},
    )


def _roles(spec: PodGroupSpec) -> tuple[tuple[str, int], ...]:
    """How many members of each task must start; Volcano looks at that only where ``minMember`` is no smaller than
    their sum.
    """
    wanted = {task: count for task, count in (spec.min_task_member or {}).items() if count}
    return tuple(sorted(wanted.items())) if sum(wanted.values()) <= spec.min_member else ()


def _sub_groups(spec: PodGroupSpec) -> tuple[Part | None, Mistake | None]:
    """Return the parts of the group, and a request of theirs that is not fulfilled."""
    parts, names, remark = [], set(), None
    for number, each in enumerate(spec.sub_group_policy or ()):
        field, keys = f"spec.subGroupPolicy[{number}]", tuple(each.match_label_keys or ())
        name = each.name or f"{number}"
        if "/" in name or name in names:
            raise FieldError(f"{field}.name", invalid.subgroup_twice(name=shown(name)))
        topology, unclear = levels_of(each.network_topology, f"{field}.networkTopology")
        remark = remark or unclear
        if each.min_sub_groups > 1 and not keys:
            raise FieldError(f"{field}.minSubGroups", invalid.ONE_SUBGROUP)
        names.add(name)
        size = members(each.sub_group_size, f"{field}.subGroupSize", 1)
        least = members(each.min_sub_groups, f"{field}.minSubGroups")
        selector = label_selector(each.label_selector, f"{field}.labelSelector")
        parts.append(Part(name, size, least, selector=selector, keys=keys, topology=topology))
    if not parts:
        return None, None
    policies = [each.label_selector for each in spec.sub_group_policy or ()]
    divided = {(each.match_labels or {}).get(TASK, "") if each is not None else "" for each in policies}
    for task, count in _roles(spec):
        if "" in divided or task in names - divided:
            remark = remark or FieldError("spec.minTaskMember", invalid.TASKS_AND_SUBGROUPS).remark
        elif task not in divided:
            of_task = label_selector(wire.LabelSelector({TASK: task}), "spec.minTaskMember")
            parts.append(Part(task, count, selector=of_task))
    return Part(least=len(parts), parts=tuple(parts)), remark


def levels_of(asked: NetworkTopology | None, field: str) -> tuple[tuple[tuple[str, bool], ...], Mistake | None]:
    """Return the constraint to one HyperNode of at most this tier, preferably lower, and a request that is not
    fulfilled. Without a tier, Volcano's scheduler looks for no HyperNode. Raises :class:`FieldError`.
    """
    if asked is None:
        return (), None
    required, highest = asked.mode != "soft", asked.highest_tier_allowed
    if asked.highest_tier_name:
        if highest is not None:
            raise FieldError(f"{field}.highestTierName", invalid.TIER_OR_NAME)
        return ((TIER_NAME + asked.highest_tier_name, required),), None
    if highest is None:
        return (), None if required else Mistake(field, invalid.SOFT_TOPOLOGY_WITHOUT_TIER)
    if not 0 <= highest <= MAX_TIER:
        raise FieldError(f"{field}.highestTierAllowed", invalid.not_between(value=highest, low=0, high=MAX_TIER))
    return tuple((f"{TIER}{tier}", required and tier == highest) for tier in range(highest, -1, -1)), None


class Match(wire.Wire):
    """A name, or a pattern of names."""

    name: str = ""
    pattern: str = ""


class MemberSelector(wire.Wire):
    """A selector of members. One of these is set."""

    exact_match: Annotated[Match | None, used("the node, or the HyperNode, of this `name`")] = None
    regex_match: Annotated[Match | None, used("those whose names match the `pattern`")] = None
    label_match: Annotated[wire.LabelSelector | None, used("nodes with these labels")] = None


class HyperNodeMember(wire.Wire):
    """Nodes or HyperNodes."""

    type: Annotated[str, used("`Node` or `HyperNode`. A node in two of one tier is in the first by name")] = "Node"
    selector: MemberSelector = msgspec.field(default_factory=MemberSelector)


class HyperNodeSpec(wire.Wire):
    """Where in the tree it is."""

    tier: Annotated[
        int,
        used("its nodes get a label that no object shows, with its name: `topology.volcano.sh/tier-2`; 0 to 8"),
    ] = 1
    tier_name: Annotated[str, used("the same, by name")] = ""
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
        # An empty selector selects no node there, other than elsewhere.
        labels = of.label_match
        empty = labels is None or not (labels.match_labels or labels.match_expressions)
        selector = None if empty else label_selector(labels, f"{field}.labelMatch")
        name = of.exact_match.name if of.exact_match is not None else ""
        members.append(HyperMember(each.type == "HyperNode", name, pattern, selector))
    if not 0 <= obj.spec.tier <= MAX_TIER:
        raise FieldError("spec.tier", invalid.not_between(value=obj.spec.tier, low=0, high=MAX_TIER))
    return HyperNode(obj.metadata.name, obj.spec.tier, obj.spec.tier_name, tuple(members))


class Guarantee(wire.Wire):
    """The resources that a queue keeps for itself."""

    resource: Annotated[wire.Quantities | None, used("so much of what it deserves is not lent")] = None


class QueueSpec(wire.Wire):
    """The quota of a Queue."""

    weight: Annotated[int | None, used("its share, with [fair sharing](quota.md)")] = None
    capability: Annotated[
        wire.Quantities | None,
        used(
            "the most that it uses: beyond what it deserves it borrows what others of its parent leave. Without "
            "`deserved` it is its own quota"
        ),
    ] = None
    deserved: Annotated[
        wire.Quantities | None, used("its own quota, which others of its `parent` may borrow and it takes back")
    ] = None
    guarantee: Guarantee | None = None
    reclaimable: Annotated[
        bool | None, used("`false`: it borrows nothing, and other queues take nothing back of what it uses")
    ] = None
    parent: Annotated[
        str,
        used(
            "the queues of one parent (`root` without one) lend to each other; limits of the parent itself hold for "
            "its own gangs only"
        ),
    ] = ""
    dequeue_strategy: Annotated[str, used("`fifo`: its first gang is not passed")] = ""
    priority: Annotated[Any, ignored("gangs are ordered by their own priority")] = None
    affinity: Annotated[Any, ignored("its gangs may use every node")] = None
    extend_clusters: Annotated[Any, ignored("there is one cluster")] = None
    type: Annotated[Any, ignored()] = None


class QueueState(wire.Wire):
    """Where a Queue stands."""

    state: str = ""


class Queue(wire.Object):
    """``scheduling.volcano.sh/v1beta1`` Queue."""

    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: QueueState = msgspec.field(default_factory=QueueState)


def queue_from_object(obj: Queue) -> ClusterQueue:
    """One Queue: what it deserves is its own, up to its capability it borrows from the others of its parent, and its
    guarantee it does not lend. One that cannot be reclaimed from borrows nothing, and
    keeps what it uses. Raises :class:`FieldError`.
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
        kept=spec.reclaimable is False,
        stop=STOP_HOLD if obj.status.state in ("Closed", "Closing") else STOP_NONE,
    )


def status(told: CommonStatus, seen: CurrentObject) -> dict[str, Any]:
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
        for each in conditions.conditions_in(seen.status)
        if each.get("type") in keep or each.get("type") not in (_SCHEDULED, _UNSCHEDULABLE)
    ]
    listed = conditions.with_these(others, [*ours, *evicted(told)], 0, seen.now)
    return {"phase": phase, **counts(told, seen, "running", "succeeded", "failed"), "conditions": listed}


#: Its controllers create no pods before the phase is ``Inqueue``, and its API has no status subresource.
DIALECT = Dialect(
    FAMILY,
    lambda meta, _: named_in(meta, ("annotations", GROUP_NAME)),
    (VERSION,),
    PodGroup,
    gang_from_object=gang_from_object,
    role_of=role,
    status=status,
    awaited_from=SCHEDULER,
    scheduler_name=SCHEDULER,
    grouped_by="Volcano's controller",
    queue=(Queue, queue_from_object),
    documented=(
        Documented(
            f"PodGroup `{FAMILY}/{VERSION}`",
            PodGroupSpec,
            in_status(
                phase="`Inqueue` until the members that it needs are bound, then `Running`, `Completed` "
                "when all have ended; `Unknown` when members run and the gang cannot be completed",
                running="members are counted by their phase",
                succeeded="the same",
                failed="the same",
                conditions="`Scheduled`, or `Unschedulable` with the reason that the members have; "
                f"`{EVICTED}` ([events.md](events.md))",
            ),
        ),
        Documented(
            "on pods",
            None,
            {
                f"annotation `{GROUP_NAME}`": "the PodGroup that the pod is a member of, which must exist",
                f"annotation, else label, `{TASK}`": "its task",
                "annotation or label `volcano.sh/preemptable`": "may it be a victim? [preemption.md](preemption.md)",
                "annotation `volcano.sh/last-checkpoint-time`": "[what is lost]"
                "(preemption.md#what-owners-say-about-harm) with it",
                "annotations `volcano.sh/network-topology-mode`, `volcano.sh/network-topology-highest-tier`, "
                f"`{QUEUE_NAME}`, on owners `{FAMILY}/group-min-member`": "read by Volcano's controllers, "
                "which write them into the PodGroup",
                "`volcano.sh/task-priority`": "ignored: members are placed in the order of their names",
                "`volcano.sh/cooldown-time`": "ignored: [patience](preemption.md#patience) has annotations of its own",
                "`volcano.sh/sla-waiting-time`": "ignored: a gang that waits does not rise",
                "`volcano.sh/jdb-min-available`, `jdb-max-unavailable`": "ignored: PodDisruptionBudgets count",
            },
        ),
        Documented(
            f"HyperNode `{TOPOLOGY_GROUP}/v1alpha1`",
            HyperNodeSpec,
            in_status(conditions="left alone", nodeCount="left alone"),
        ),
        Documented(
            f"Queue `{FAMILY}/{VERSION}`",
            QueueSpec,
            in_status(state="`Closed` or `Closing`: nothing more is admitted")
            | in_status(**dict.fromkeys(_COUNTED, "left alone")),
        ),
    ),
)
