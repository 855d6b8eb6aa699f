"""``scheduling.k8s.io`` PodGroup, in the shapes of v1alpha2 (Kubernetes 1.36) and v1alpha3/v1beta1 (1.37).

Members name the group in ``spec.schedulingGroup.podGroupName``. Sources: KEP-4671 (gang scheduling) and
KEP-5710 (workload-aware preemption), https://github.com/kubernetes/enhancements .
"""

from __future__ import annotations

from typing import Any

from gangsched.messages import invalid
from gangsched.model import conditions, wire
from gangsched.model.dialects.dialect import EVICTED, CommonStatus, CurrentObject, Dialect, evicted, scheduled
from gangsched.model.dialects.objects import described
from gangsched.model.errors import FieldError
from gangsched.model.fields import Documented, in_status
from gangsched.model.records import Gang, GroupLink

FAMILY = "scheduling.k8s.io"
#: The family of groups of groups.
COMPOSITES, COMPOSITE_KIND = f"compositepodgroups.{FAMILY}", "CompositePodGroup"
#: Where a pod keeps the name of its group, while it is a member of the tree that its group is in.
GROUP_HINT = "spec.schedulingGroup.podGroupName"
#: Served versions in the order of preference; which one a cluster has is found by discovery.
VERSIONS = ("v1beta1", "v1alpha3", "v1alpha2")
#: The condition by version: renamed when the API became beta (KEP-4671).
CONDITION, CONDITION_1_37 = "PodGroupScheduled", "PodGroupInitiallyScheduled"
_UNSCHEDULABLE = "Unschedulable"
_MODES = {"Pod": "pod", "PodGroup": "gang"}
_UNION = {"single": "pod", "all": "gang"}


def gang_from_object(obj: wire.UpstreamPodGroup) -> Gang:
    """One PodGroup. A ``basic`` policy needs one member at a time, whatever runs. Raises :class:`FieldError`."""
    spec = obj.spec
    policy = spec.scheduling_policy
    minimum = policy.gang.min_count if policy.gang is not None else 1
    if minimum < 1:
        raise FieldError("spec.schedulingPolicy.gang.minCount", invalid.below(value=minimum, least=1))
    if policy.gang is not None and policy.basic is not None:
        raise FieldError("spec.schedulingPolicy", invalid.GANG_OR_BASIC)
    return described(
        FAMILY,
        obj,
        None,
        min_member=minimum,
        match_policy="once-satisfied" if policy.gang is not None else "only-waiting",
        priority=spec.priority,
        preemption_policy=spec.preemption_policy,
        disruption=_disruption(spec.disruption_mode),
        topology=_topology(spec.scheduling_constraints),
        priority_class=spec.priority_class_name,
        link=_link(spec.parent_composite_pod_group_name, spec.workload_ref, None),
    )


def composite_from_object(obj: wire.CompositePodGroup) -> Gang:
    """One CompositePodGroup. Raises :class:`FieldError`."""
    spec = obj.spec
    gang = spec.scheduling_policy.gang
    if gang is None:
        raise FieldError("spec.schedulingPolicy", invalid.BASIC_OF_GROUPS)
    least = gang.min_group_count
    if least < 1:
        raise FieldError("spec.schedulingPolicy.gang.minGroupCount", invalid.below(value=least, least=1))
    return described(
        COMPOSITES,
        obj,
        None,
        kind=COMPOSITE_KIND,
        priority=spec.priority,
        preemption_policy=spec.preemption_policy,
        disruption=_disruption(spec.disruption_mode),
        topology=_topology(spec.scheduling_constraints),
        priority_class=spec.priority_class_name,
        link=_link(spec.parent_composite_pod_group_name, spec.workload_ref, least),
    )


def _link(above: str, workload: wire.WorkloadReference | None, least: int | None) -> GroupLink | None:
    """Return the place of a group in its tree; None for a group of pods that is in none."""
    if not above and least is None:
        return None
    if workload is None or not workload.workload_name:
        raise FieldError("spec.workloadRef", invalid.NO_WORKLOAD_OF_TREE)
    return GroupLink(above, workload.workload_name, least)


def gang_of_job(job: wire.Job) -> Gang | None:
    """Return the gang of a Job's ``spec.scheduling``: all pods that it runs at once, or fewer. None where it says
    nothing, or ``basic``. Raises :class:`FieldError`.
    """
    asked, meta = job.spec.scheduling, job.metadata
    policy = asked.scheduling_policy if asked is not None else None
    if asked is None or policy is None or policy.gang is None:
        return None
    if policy.basic is not None:
        raise FieldError("spec.scheduling.schedulingPolicy", invalid.GANG_OR_BASIC)
    minimum = policy.gang.min_count
    if minimum is not None and minimum < 1:
        raise FieldError("spec.scheduling.schedulingPolicy.gang.minCount", invalid.below(value=minimum, least=1))
    try:
        topology, disruption = _topology(asked.scheduling_constraints), _disruption(asked.disruption_mode)
    except FieldError as error:
        raise FieldError(error.field.replace("spec.", "spec.scheduling.", 1), error.message) from None
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    return Gang(
        FAMILY,
        meta.namespace,
        meta.name,
        min_member=max(1, parallelism if minimum is None else minimum),
        topology=topology,
        disruption=disruption,
    )


def _topology(raw: wire.SchedulingConstraints | None) -> tuple[tuple[str, bool], ...]:
    """All members in one domain of each key: the API knows required constraints only."""
    listed = (raw.topology if raw is not None else None) or []
    for n, constraint in enumerate(listed):
        if not constraint.key:
            raise FieldError(f"spec.schedulingConstraints.topology[{n}].key", invalid.NO_KEY_OF_TOPOLOGY)
    return tuple((key, True) for key in dict.fromkeys(c.key for c in listed))


def _disruption(raw: object) -> str:
    """Both spellings; absent is the API's default, pods one by one."""
    if raw is None:
        return "pod"
    if isinstance(raw, str) and raw in _MODES:
        return _MODES[raw]
    if isinstance(raw, dict) and len(raw) == 1 and (key := next(iter(raw))) in _UNION:
        return _UNION[key]
    raise FieldError(
        "spec.disruptionMode", invalid.none_of(value=repr(raw), allowed="Pod, PodGroup, {single: {}}, {all: {}}")
    )


def group_of(_meta: wire.ObjectMeta, spec: wire.PodSpec) -> tuple[str, str]:
    """The group that the spec of a member names."""
    group = spec.scheduling_group
    return (group.pod_group_name or "") if group is not None else "", "spec.schedulingGroup.podGroupName"


def status(told: CommonStatus, seen: CurrentObject) -> dict[str, Any]:
    """One condition. By upstream's contract True is final, the gang was scheduled once; and it knows no gang that still
    gathers, and tools read it as it is defined.
    """
    listed = conditions.conditions_in(seen.status)
    name = CONDITION if seen.version == "v1alpha2" else CONDITION_1_37
    old = conditions.named(listed, name)
    ours = [each for each in scheduled(told, name) if each[1] == "True" or each[2] == _UNSCHEDULABLE]
    if old is not None and old.get("status") == "True":
        ours = []
    return {"conditions": conditions.with_these(listed, [*ours, *evicted(told)], seen.generation, seen.now)}


COMPOSITE = Dialect(
    COMPOSITES,
    lambda _meta, _spec: ("", ""),
    ("v1beta1", "v1alpha3"),
    wire.CompositePodGroup,
    gang_from_object=composite_from_object,
    kind=COMPOSITE_KIND,
    plural="compositepodgroups",
    above=COMPOSITES,
    below=FAMILY,
    group=FAMILY,
    role_of=lambda pod, _: pod.hints.get(GROUP_HINT, ""),
)
DIALECT = Dialect(
    FAMILY,
    group_of,
    VERSIONS,
    wire.UpstreamPodGroup,
    gang_from_object=gang_from_object,
    above=COMPOSITES,
    status=status,
    documented=(
        Documented(
            f"PodGroup `{FAMILY}` (v1alpha2, v1alpha3, v1beta1)",
            wire.UpstreamPodGroupSpec,
            in_status(
                conditions=f"`{CONDITION_1_37}`, in v1alpha2 `{CONDITION}`, and `{EVICTED}` "
                "([events.md](events.md#status-of-groups)); `DisruptionTarget` is not written",
                resourceClaimStatuses="left alone",
            ),
        ),
        Documented(
            "on pods", None, {"`spec.schedulingGroup.podGroupName`": "the PodGroup that the pod is a member of"}
        ),
        Documented("Job `spec.scheduling` (1.37)", wire.JobScheduling),
        Documented(
            f"CompositePodGroup `{FAMILY}` (v1alpha3, v1beta1)",
            wire.CompositePodGroupSpec,
            in_status(conditions="left alone, as by kube-scheduler 1.37"),
        ),
    ),
)
