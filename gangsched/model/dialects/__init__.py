"""The gang APIs people already use, one file each; every one yields the same :class:`~gangsched.model.records.Gang`.

A :class:`~gangsched.model.dialects.dialect.Dialect` knows the group of a pod, reads the gang from the group object or
from the members' annotations, and makes the status of the group object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.dialects import (
    coscheduling,
    grove,
    kai,
    koordinator,
    kueue,
    operators,
    owners,
    slices,
    upstream,
    volcano,
    yunikorn,
)
from gangsched.model.dialects.dialect import CommonStatus, CurrentObject, Dialect, api_group
from gangsched.model.dialects.objects import ALLOWED, delay_remark, is_subdomain, shown
from gangsched.model.errors import Mistake
from gangsched.model.records import SINGLE, Gang, GangId, Pod

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
    yunikorn.HINT_PREFIX,
)

#: All of them; of several groups that a pod names it is in that of the first of these.
DIALECTS = (
    upstream.DIALECT,
    koordinator.DIALECT,
    kueue.DIALECT,
    coscheduling.DIALECT,
    volcano.DIALECT,
    kai.DIALECT,
    yunikorn.DIALECT,
    grove.DIALECT,
)
BY_FAMILY: Mapping[str, Dialect] = {
    each.family: each for each in (*DIALECTS, upstream.COMPOSITE, owners.DIALECT, *operators.DIALECTS)
}
#: The kinds of the objects that describe groups, each with its API group after a dot.
GROUP_APIS: Mapping[str, str] = {f"{each.kind}.{api_group(each)}": family for family, each in BY_FAMILY.items()}
#: Families of groups that may be in groups of groups, and the hint in which a pod has the name of its group.
IN_TREES = frozenset(family for family, each in BY_FAMILY.items() if each.above and not each.below)
GROUP_HINT = upstream.GROUP_HINT
#: Of a pod that is its own gang, and of a family that no API describes by members or with a status: Jobs with a queue.
#: By the scheduler name of pods that others put into groups.
_GROUPED: Mapping[str, Dialect] = {each.scheduler_name: each for each in DIALECTS if each.grouped_by}
_OTHER = Dialect("", lambda _meta, _spec: ("", ""))
_ALONE = _OTHER._replace(needs_object=lambda _: False)


def membership(meta: wire.ObjectMeta, spec: wire.PodSpec) -> tuple[GangId, Mistake | None]:
    """The gang of a pod, and what is wrong with what it says about that.

    A pod in no group is its own gang, keyed by its name; so is one that names a group as no object can be called, or
    that cannot start as it asks to in a group that an object describes, or in a topology that nothing carries out.
    """
    labels, notes = meta.labels or {}, meta.annotations or {}
    unheeded = None if spec.node_name else slices.mistake_of(meta, spec)
    if unheeded is not None:
        return GangId(SINGLE, meta.namespace, meta.name, spec.scheduler_name), unheeded
    for dialect in DIALECTS:
        name, field = dialect.group_of(meta, spec)
        if name:
            break
    else:
        grouped = _GROUPED.get(spec.scheduler_name)
        mistake = grouped.mistake_of(labels, notes) if grouped is not None and not spec.node_name else None
        return GangId(SINGLE, meta.namespace, meta.name, spec.scheduler_name), mistake
    if not is_subdomain(name):
        wrong = Mistake(field, invalid.not_a_gang_name(value=shown(name), rule=ALLOWED))
        return GangId(SINGLE, meta.namespace, meta.name, spec.scheduler_name), wrong
    mistake = dialect.mistake_of(labels, notes)
    if mistake is not None and not spec.node_name and dialect.needs_object(labels):
        return GangId(SINGLE, meta.namespace, meta.name, spec.scheduler_name), mistake
    return GangId(dialect.family, meta.namespace, name, spec.scheduler_name), mistake


def ungrouped(gang: GangId, meta: wire.ObjectMeta, spec: wire.PodSpec) -> str:
    """Who is to put a pod into a group that is in none yet, in words; empty where that is not to be waited for."""
    grouped = _GROUPED.get(spec.scheduler_name)
    if grouped is None or gang.family != SINGLE or (meta.annotations or {}).get(grouped.alone_key) == "true":
        return ""
    return grouped.grouped_by


def _dialect_of(family: str) -> Dialect:
    return _ALONE if family == SINGLE else BY_FAMILY.get(family, _OTHER)


def remark(gang: GangId, meta: wire.ObjectMeta) -> Mistake | None:
    """Return an invalid value of a pod of this gang that is ignored."""
    labels, notes = meta.labels or {}, meta.annotations or {}
    return _dialect_of(gang.family).remark_of(labels, notes) or delay_remark(notes) or owners.remark(notes)


def gang_from_member(pod: Pod) -> Gang | None:
    """Return the gang from a member's own labels and annotations, or None if only an object describes it."""
    return _dialect_of(pod.gang.family).gang_from_member(pod)


def role_of(pod: Pod, gang: Gang) -> str:
    """The role of a member in its gang, which says how many it needs of each; empty for none."""
    return _dialect_of(pod.gang.family).role_of(pod, gang)


def role_in(pod: Pod, gang: Gang) -> str:
    """The role that a pod has, or would have as a member, in this gang."""
    return _dialect_of(gang.family).role_of(pod, gang)


def needs_object(pod: Pod) -> bool:
    """True when the pod's group is described by an object that must exist before the gang can start."""
    return _dialect_of(pod.gang.family).needs_object(pod.labels)


def group_api(family: str) -> str:
    """Return the kind of the objects that describe groups of this family, with its API group after a dot."""
    found = _dialect_of(family)
    return f"{found.kind}.{found.group or family}"


def minimum_key(family: str) -> str:
    """Where members of gangs of this family say how many they must be."""
    return _dialect_of(family).minimum_key


def has_status(family: str) -> bool:
    """Return True if the status of its group objects is ours to write."""
    return _dialect_of(family).status is not None


def changed_status(family: str, told: CommonStatus, seen: CurrentObject) -> dict[str, Any]:
    """The fields of a group object's status that differ from what they should be; empty when all is well. Fields and
    conditions of others are left alone.
    """
    dialect = BY_FAMILY[family]
    if dialect.status is None:
        return {}
    wanted = dialect.status(told, seen)
    now = seen.status
    return {name: value for name, value in wanted.items() if value != now.get(name) and (value or now.get(name))}
