"""``scheduling.x-k8s.io/v1alpha1`` PodGroup of the scheduler-plugins' coscheduling plug-in.

Read so that running gangs of that scheduler are seen as whole units when they are victims, and so that their
owners can switch over by changing nothing but ``schedulerName``.
"""

from __future__ import annotations

from gangsched.model import wire
from gangsched.model.dialects import koordinator
from gangsched.model.records import Gang, Labels

FAMILY = "scheduling.x-k8s.io"
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"


def group_name(labels: Labels) -> str:
    """The group's name as a member gives it, or an empty string."""
    return labels.get(GROUP_LABEL) or ""


def gang_from_object(obj: wire.SigsPodGroup) -> Gang:
    """The spec is the same as that of the sigs group. Raises :class:`~gangsched.model.errors.FieldError`."""
    gang = koordinator.gang_from_object(obj)
    return Gang(
        family=FAMILY,
        namespace=gang.namespace,
        name=gang.name,
        uid=gang.uid,
        created=gang.created,
        generation=gang.generation,
        min_member=gang.min_member,
        timeout_seconds=gang.timeout_seconds,
        source="PodGroup.scheduling.x-k8s.io",
        preemption_delay_seconds=gang.preemption_delay_seconds,
        queue=gang.queue,
        remark=gang.remark,
    )
