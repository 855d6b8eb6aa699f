"""The gang APIs people already use, one file each; every one yields the same :class:`~gangsched.model.records.Gang`.

A dialect answers two questions: to which group does a pod belong (``membership``), and what does the group
object, or where there is none the members' own annotations, say about the gang.
"""

from __future__ import annotations

from gangsched.model import wire
from gangsched.model.dialects import coscheduling, koordinator, upstream
from gangsched.model.records import SINGLE, Gang, GangId, Labels, Pod

#: Annotation prefixes that some dialect or preemption rule reads; all other annotations are dropped on decode.
HINT_PREFIXES = (
    "gang.scheduling.koordinator.sh/",
    "pod-group.scheduling.sigs.k8s.io/",
    "scheduling.koordinator.sh/",
    "volcano.sh/",
    "scheduling.volcano.sh/",
    "scheduling.k8s.io/",
    "godel.bytedance.com/",
    "kai.scheduler/",
    "sim.gangsched.dev/",
    "gangsched.dev/",
)


def membership(meta: wire.ObjectMeta, spec: wire.PodSpec) -> GangId:
    """The gang of a pod; a pod in no group is its own gang, keyed by its name."""
    labels: Labels = meta.labels or {}
    annotations: Labels = meta.annotations or {}
    if spec.scheduling_group is not None and spec.scheduling_group.pod_group_name:
        return GangId(upstream.FAMILY, meta.namespace, spec.scheduling_group.pod_group_name, spec.scheduler_name)
    name = koordinator.group_name(labels, annotations)
    if name:
        return GangId(koordinator.FAMILY, meta.namespace, name, spec.scheduler_name)
    name = coscheduling.group_name(labels)
    if name:
        return GangId(coscheduling.FAMILY, meta.namespace, name, spec.scheduler_name)
    return GangId(SINGLE, meta.namespace, meta.name, spec.scheduler_name)


def gang_from_member(pod: Pod) -> Gang | None:
    """What a member's own labels and annotations say about its gang, or None when only an object can say it."""
    if pod.gang.family == koordinator.FAMILY:
        return koordinator.gang_from_member(pod)
    return None


def needs_object(pod: Pod) -> bool:
    """True when the pod's group is described by an object that must exist before the gang can start."""
    if pod.gang.family == koordinator.FAMILY:
        return koordinator.needs_object(pod)
    return pod.gang.family != SINGLE
