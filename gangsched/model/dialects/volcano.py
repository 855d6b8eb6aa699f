"""``scheduling.volcano.sh/v1beta1`` PodGroup of Volcano.

Members name the group in the annotation ``scheduling.k8s.io/group-name``, and their role in ``volcano.sh/task-spec``.
Sources: the API types of volcano-sh/apis, and what Volcano's scheduler makes of them (``pkg/scheduler/api/job_info.go``
and ``pkg/scheduler/framework/session.go`` of volcano-sh/volcano).
"""

from __future__ import annotations

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.dialects.objects import described
from gangsched.model.errors import FieldError, Mistake
from gangsched.model.records import Gang, Labels

FAMILY = "scheduling.volcano.sh"
VERSION = "v1beta1"
#: The scheduler name that Volcano's controllers write where users leave it out.
SCHEDULER = "volcano"
GROUP_NAME = "scheduling.k8s.io/group-name"
TASK = "volcano.sh/task-spec"
DEFAULT_QUEUE = "default"
#: No gang has more members than this.
_MOST = 1_000_000


def group_name(notes: Labels) -> str:
    """The group's name as a member's annotation gives it, or an empty string."""
    return notes.get(GROUP_NAME) or ""


def role(labels: Labels, notes: Labels) -> str:
    """The task that a member is of; the annotation is asked first."""
    return notes.get(TASK) or labels.get(TASK) or ""


def gang_from_object(obj: wire.VolcanoPodGroup) -> Gang:
    """One PodGroup. A group without a minimum starts one member at a time. Raises :class:`FieldError`."""
    spec, status = obj.spec, obj.status
    _bounded(spec.min_member, "spec.minMember")
    for task, count in (spec.min_task_member or {}).items():
        _bounded(count, f"spec.minTaskMember[{task}]")
    if spec.sub_group_policy:
        raise FieldError("spec.subGroupPolicy", invalid.SUBGROUPS)
    return described(
        FAMILY,
        obj.metadata,
        _remark(spec),
        min_member=max(1, spec.min_member),
        roles=_roles(spec),
        priority_class=spec.priority_class_name,
        status={
            "phase": status.phase,
            "running": status.running,
            "succeeded": status.succeeded,
            "failed": status.failed,
            "conditions": [(each.type, each.status, each.reason, each.message) for each in status.conditions or ()],
        },
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
    if spec.queue not in ("", DEFAULT_QUEUE):
        return Mistake("spec.queue", invalid.queue_not_read(spec.queue))
    return None


def _bounded(count: int, field: str) -> None:
    if not 0 <= count <= _MOST:
        raise FieldError(field, invalid.not_between(count, 0, _MOST))
