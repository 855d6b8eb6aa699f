"""The gang APIs people already use, one file each; every one yields the same :class:`~gangsched.model.records.Gang`.

A dialect answers two questions: to which group does a pod belong (``membership``), and what does the group
object, or where there is none the members' own annotations, say about the gang.
"""

from __future__ import annotations

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.dialects import coscheduling, kai, koordinator, kueue, owners, upstream, volcano
from gangsched.model.errors import Mistake
from gangsched.model.names import ALLOWED, is_subdomain, shown
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
    owners.HINT_PREFIX,
    kueue.HINT_PREFIX,
)


def membership(meta: wire.ObjectMeta, spec: wire.PodSpec) -> tuple[GangId, Mistake | None]:
    """The gang of a pod, and what is wrong with what it says about that.

    A pod in no group is its own gang, keyed by its name; so is one that names a group as no object can be called.
    """
    family, name, field = _named(meta.labels or {}, meta.annotations or {}, spec)
    if not name:
        return GangId(SINGLE, meta.namespace, meta.name, spec.scheduler_name), None
    if not is_subdomain(name):
        wrong = Mistake(field, invalid.not_a_gang_name(shown(name), ALLOWED))
        return GangId(SINGLE, meta.namespace, meta.name, spec.scheduler_name), wrong
    mistake = None
    if family == koordinator.FAMILY and not koordinator.needs_object(meta.labels or {}):
        mistake = koordinator.mistake_of_member(meta.labels or {}, meta.annotations or {})
    elif family == kueue.FAMILY:
        mistake = kueue.mistake_of_member(meta.annotations or {})
    return GangId(family, meta.namespace, name, spec.scheduler_name), mistake


def remark(gang: GangId, meta: wire.ObjectMeta) -> Mistake | None:
    """What a pod of this gang says about waiting, and what is invalid in it, which is ignored."""
    labels, notes = meta.labels or {}, meta.annotations or {}
    speaks = gang.family == koordinator.FAMILY and not koordinator.needs_object(labels)
    own = koordinator.remark_of_member(labels, notes) if speaks else None
    return own or kai.remark(notes) or owners.remark(notes)


def _named(labels: Labels, annotations: Labels, spec: wire.PodSpec) -> tuple[str, str, str]:
    """``(family, name, field)`` of the group that a pod names."""
    if spec.scheduling_group is not None and spec.scheduling_group.pod_group_name:
        return upstream.FAMILY, spec.scheduling_group.pod_group_name, "spec.schedulingGroup.podGroupName"
    name, field = koordinator.group_name(labels, annotations)
    if name:
        return koordinator.FAMILY, name, field
    if labels.get(kueue.GROUP_LABEL):
        return kueue.FAMILY, labels[kueue.GROUP_LABEL], f"metadata.labels[{kueue.GROUP_LABEL}]"
    name = coscheduling.group_name(labels)
    if name or not volcano.group_name(annotations):
        return coscheduling.FAMILY, name, f"metadata.labels[{coscheduling.GROUP_LABEL}]"
    return volcano.FAMILY, volcano.group_name(annotations), f"metadata.annotations[{volcano.GROUP_NAME}]"


def gang_from_member(pod: Pod) -> Gang | None:
    """What a member's own labels and annotations say about its gang, or None when only an object can say it."""
    if pod.gang.family == koordinator.FAMILY:
        return koordinator.gang_from_member(pod)
    if pod.gang.family == kueue.FAMILY:
        return kueue.gang_from_member(pod)
    return owners.gang_from_member(pod) if pod.gang.family == owners.FAMILY else None


def role_of(pod: Pod) -> str:
    """The role of a member in a gang that says how many it needs of each; empty for none."""
    return volcano.role(pod.labels, pod.hints)


def needs_object(pod: Pod) -> bool:
    """True when the pod's group is described by an object that must exist before the gang can start."""
    if pod.gang.family == koordinator.FAMILY:
        return koordinator.needs_object(pod.labels)
    return pod.gang.family not in (SINGLE, kueue.FAMILY, owners.FAMILY)
