"""YuniKorn's task groups: pods whose annotations say which groups their application has, and how many each needs.

YuniKorn makes placeholders for all of them before any pod starts. Here the pods that bear the whole list start
together: those of a Job or of a RayCluster. The driver of Spark announces executors that it will create once it runs,
and they bear no list: they start by themselves, as it does.
(https://yunikorn.apache.org/docs/user_guide/gang_scheduling/)
"""

from __future__ import annotations

import functools

import msgspec

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.dialects.dialect import Dialect
from gangsched.model.dialects.objects import MAX_MEMBERS, members
from gangsched.model.errors import FieldError, Mistake
from gangsched.model.names import shown
from gangsched.model.records import Gang, Labels, Pod

FAMILY = "yunikorn.apache.org"
HINT_PREFIX = "yunikorn.apache.org/task-group"
TASK_GROUPS, TASK_GROUP = f"{HINT_PREFIX}s", f"{HINT_PREFIX}-name"
#: Labels, or an annotation, with the application of a pod; the first of them counts.
APPLICATION = "yunikorn.apache.org/app-id"
_APPLICATION_LABELS = (APPLICATION, "applicationId", "spark-app-selector")
_SPARK_ROLE, _DRIVER = "spark-role", "driver"
#: More groups than this, or a longer list, are refused: their number is the user's to choose.
MAX_GROUPS, MAX_LIST = 256, 262_144
_FIELD = f"metadata.annotations[{TASK_GROUPS}]"


class _TaskGroup(wire.Wire):
    name: str = ""
    min_member: int = 0


def group_of(meta: wire.ObjectMeta, _spec: wire.PodSpec) -> tuple[str, str]:
    """The application of a pod that bears the list of its task groups, and where it names it."""
    labels, notes = meta.labels or {}, meta.annotations or {}
    if not notes.get(TASK_GROUPS):
        return "", ""
    for key in _APPLICATION_LABELS:
        if labels.get(key):
            return labels[key], f"metadata.labels[{key}]"
    return notes.get(APPLICATION, ""), f"metadata.annotations[{APPLICATION}]"


def task_group(_labels: Labels, notes: Labels) -> str:
    """The task group that a member is in."""
    return notes.get(TASK_GROUP, "")


def mistake_of_member(_labels: Labels, notes: Labels) -> Mistake | None:
    """What is wrong with what a member says about its gang."""
    try:
        _needed(notes.get(TASK_GROUPS, ""))
    except FieldError as error:
        return error.mistake
    return None


def gang_from_member(pod: Pod) -> Gang:
    """The members of all task groups start together; the driver of Spark starts alone. With a ``mistake`` none of them
    can be spared.
    """
    gang = Gang(FAMILY, pod.namespace, pod.gang.name, kind="Application", created=pod.created)
    try:
        needed = _needed(pod.hints.get(TASK_GROUPS, ""))
    except FieldError as error:
        return msgspec.structs.replace(gang, min_member=MAX_MEMBERS, mistake=error.mistake)
    if pod.labels.get(_SPARK_ROLE) == _DRIVER:
        return gang
    return msgspec.structs.replace(gang, min_member=max(1, sum(count for _, count in needed)), roles=needed)


@functools.lru_cache(maxsize=64)  # every member says the same
def _needed(raw: str) -> tuple[tuple[str, int], ...]:
    """How many members each task group needs."""
    try:
        if len(raw) > MAX_LIST:
            raise FieldError(_FIELD, invalid.too_many_task_groups(MAX_GROUPS))
        listed = msgspec.json.decode(raw, type=list[_TaskGroup])
    except (msgspec.DecodeError, RecursionError) as error:
        raise FieldError(_FIELD, f"{invalid.NOT_TASK_GROUPS}: {error}"[:300]) from None
    if not 1 <= len(listed) <= MAX_GROUPS:
        raise FieldError(_FIELD, invalid.too_many_task_groups(MAX_GROUPS))
    found: dict[str, int] = {}
    for each in listed:
        if not each.name or each.name in found:
            raise FieldError(_FIELD, invalid.task_group_twice(shown(each.name)))
        found[each.name] = members(each.min_member, _FIELD)
    members(sum(found.values()), _FIELD)
    return tuple(sorted((name, count) for name, count in found.items() if count))


DIALECT = Dialect(
    FAMILY,
    group_of,
    needs_object=lambda _: False,
    gang_from_member=gang_from_member,
    minimum_key=TASK_GROUPS,
    mistake_of=mistake_of_member,
    role_of=task_group,
)
