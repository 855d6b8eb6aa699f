"""YuniKorn's task groups: pods whose annotations say which groups their application has, and how many each needs.

YuniKorn makes placeholders for all of them before any pod starts. Here the pods that bear the whole list start
together: those of a Job or of a RayCluster. The driver of Spark announces executors that it will create once it runs:
it starts when there is room for them too. They bear no list, and join it one by one.
(https://yunikorn.apache.org/docs/user_guide/gang_scheduling/)
"""

from __future__ import annotations

import functools
from typing import Annotated, Any

import msgspec

from gangsched.messages import invalid
from gangsched.model import wire
from gangsched.model.constraints import Labels, PodShape
from gangsched.model.dialects.dialect import Dialect
from gangsched.model.dialects.objects import MAX_MEMBERS, members, named_in, shown
from gangsched.model.errors import FieldError, Mistake
from gangsched.model.fields import Documented, ignored, used
from gangsched.model.jobsets import MAX_WITHOUT_PODS
from gangsched.model.records import Announced, Gang, Pod
from gangsched.model.selectors import required_node_terms, toleration
from gangsched.model.shapes import DEFAULT_SCORED, frozen, parse_list

FAMILY = "yunikorn.apache.org"
HINT_PREFIX = "yunikorn.apache.org/task-group"
TASK_GROUPS, TASK_GROUP = f"{HINT_PREFIX}s", f"{HINT_PREFIX}-name"
PARAMETERS = "yunikorn.apache.org/schedulingPolicyParameters"
#: Labels, or an annotation, with the application of a pod; the first of them counts.
APPLICATION = "yunikorn.apache.org/app-id"
_APPLICATION_LABELS = (APPLICATION, "applicationId", "spark-app-selector")
_SPARK_ROLE, _DRIVER = "spark-role", "driver"
#: More groups than this, or a longer list, are refused: their number is the user's to choose.
MAX_GROUPS, MAX_LIST = 256, 262_144
_FIELD = f"metadata.annotations[{TASK_GROUPS}]"


_SHAPE = used("on the driver of Spark the shape of [announced members](#announced-members)")


class _TaskGroup(wire.Wire):
    name: Annotated[str, used("what members say to be in")] = ""
    min_member: Annotated[int, used("so many start together with those of the other groups")] = 0
    min_resource: Annotated[wire.Quantities | None, _SHAPE] = None
    node_selector: Annotated[dict[str, str] | None, _SHAPE] = None
    tolerations: Annotated[list[wire.Toleration] | None, _SHAPE] = None
    affinity: Annotated[wire.Affinity | None, used("the same; only required node affinity")] = None
    topology_spread_constraints: Annotated[Any, ignored("those of each pod count")] = None
    labels: Annotated[Any, ignored("those of each pod count")] = None
    annotations: Annotated[Any, ignored("those of each pod count")] = None


def group_of(meta: wire.ObjectMeta, _spec: wire.PodSpec) -> tuple[str, str]:
    """The application of a pod that bears the list of its task groups or names its own, and where it names it."""
    notes = meta.annotations or {}
    if not (notes.get(TASK_GROUPS) or notes.get(TASK_GROUP)):
        return "", ""
    return named_in(meta, *(("labels", key) for key in _APPLICATION_LABELS), ("annotations", APPLICATION))


def task_group(pod: Pod, _gang: Gang) -> str:
    """The task group that a member is in."""
    return pod.hints.get(TASK_GROUP, "")


def mistake_of_member(_labels: Labels, notes: Labels) -> Mistake | None:
    """What is wrong with what a member says about its gang."""
    try:
        _groups(notes.get(TASK_GROUPS, ""))
    except FieldError as error:
        return error.mistake
    return None


def gang_from_member(pod: Pod) -> Gang:
    """The members of all task groups start together. The driver of Spark announces the others. A pod without a list
    starts by itself. With a ``mistake`` none of them can be spared.
    """
    gang = Gang(FAMILY, pod.namespace, pod.gang.name, kind="Application", created=pod.created)
    try:
        announced = _groups(pod.hints.get(TASK_GROUPS, ""))
    except FieldError as error:
        return msgspec.structs.replace(gang, min_member=MAX_MEMBERS, mistake=error.mistake)
    roles = tuple((each.role, each.count) for each in announced if each.count)
    if pod.labels.get(_SPARK_ROLE) == _DRIVER:
        if sum(count for _, count in roles) > MAX_WITHOUT_PODS:
            mistake = Mistake(_FIELD, invalid.too_many_announced(most=MAX_WITHOUT_PODS))
            return msgspec.structs.replace(gang, min_member=MAX_MEMBERS, mistake=mistake)
        own = tuple((name, 1) for name, _ in roles if name == pod.hints.get(TASK_GROUP))
        return msgspec.structs.replace(gang, roles=own, announced=announced)
    return msgspec.structs.replace(gang, min_member=max(1, sum(count for _, count in roles)), roles=roles)


def remark_of_member(_labels: Labels, notes: Labels) -> Mistake | None:
    """Return a request of a member that is not fulfilled."""
    soft = "gangSchedulingStyle=Soft" in notes.get(PARAMETERS, "").split()
    return Mistake(f"metadata.annotations[{PARAMETERS}]", invalid.SOFT_GANG) if soft else None


@functools.lru_cache(maxsize=64)  # every member says the same
def _groups(raw: str) -> tuple[Announced, ...]:
    """The task groups by name; none without a list."""
    if not raw:
        return ()
    try:
        if len(raw) > MAX_LIST:
            raise FieldError(_FIELD, invalid.too_many_task_groups(most=MAX_GROUPS))
        listed = msgspec.json.decode(raw, type=list[_TaskGroup])
    except (msgspec.DecodeError, RecursionError) as error:
        raise FieldError(_FIELD, f"{invalid.NOT_TASK_GROUPS}: {error}"[:300]) from None
    if not 1 <= len(listed) <= MAX_GROUPS:
        raise FieldError(_FIELD, invalid.too_many_task_groups(most=MAX_GROUPS))
    found: dict[str, Announced] = {}
    for each in listed:
        if not each.name or each.name in found:
            raise FieldError(_FIELD, invalid.task_group_twice(name=shown(each.name)))
        found[each.name] = Announced(each.name, members(each.min_member, _FIELD), _shape(each))
    members(sum(each.count for each in found.values()), _FIELD)
    return tuple(found[name] for name in sorted(found))


def _shape(group: _TaskGroup) -> PodShape:
    """Return the shape of a member that does not exist yet, from the list."""
    requests = parse_list(group.min_resource, f"{_FIELD}.minResource")
    return PodShape(
        requests=frozen(requests),
        scored=tuple((name, requests.get(name, units)) for name, units in DEFAULT_SCORED.items()),
        node_selector=tuple(sorted((group.node_selector or {}).items())),
        node_terms=required_node_terms(group.affinity or wire.Affinity(), f"{_FIELD}.affinity"),
        tolerations=tuple(toleration(t, f"{_FIELD}.tolerations[{i}]") for i, t in enumerate(group.tolerations or ())),
    )


DIALECT = Dialect(
    FAMILY,
    group_of,
    needs_object=lambda _: False,
    gang_from_member=gang_from_member,
    minimum_key=TASK_GROUPS,
    mistake_of=mistake_of_member,
    remark_of=remark_of_member,
    role_of=task_group,
    documented=(
        Documented(
            "on pods",
            None,
            {
                f"annotation `{TASK_GROUPS}`": "the pods that bear it start together: of each task group so many as "
                "it needs. What cannot be understood makes the gang wait. The list of the oldest member counts",
                f"annotation `{TASK_GROUP}`": "the task group of a pod",
                f"label `{APPLICATION}`, `applicationId` or `spark-app-selector`, or annotation `{APPLICATION}`": "the "
                "application, which is the gang; without one a pod starts by itself",
                f"label `{_SPARK_ROLE}: {_DRIVER}`": "the driver of Spark starts when there is room for its executors "
                "too; they bear no `task-groups`, and join it one by one",
                f"annotation `{PARAMETERS}`": "`gangSchedulingStyle=Soft` is reported: each gang is `Hard`, and waits; "
                "the rest is ignored",
                "label or annotation `yunikorn.apache.org/queue`": "ignored",
            },
        ),
        Documented(f"each group in `{TASK_GROUPS}`", _TaskGroup),
    ),
)
