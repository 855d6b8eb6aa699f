"""A gang API is one :class:`Dialect`. No other code knows its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from gangsched.messages import notes
from gangsched.model import wire
from gangsched.model.conditions import Condition
from gangsched.model.constraints import Labels
from gangsched.model.errors import Mistake
from gangsched.model.fields import Documented
from gangsched.model.queues import ClusterQueue
from gangsched.model.records import Gang, Pod

#: The condition with the last evicted pods of a group. In an API without conditions the server drops it.
EVICTED = "gangsched.dev/PodsEvicted"
#: Phases of a gang whose minimum is bound.
STARTED = ("Scheduled", "Running", "Finished")

#: Where a gang stands, in one form for all APIs: :func:`gangsched.core.lifecycle.group_statuses.gang_status`.
CommonStatus: TypeAlias = Mapping[str, Any]


class CurrentObject(NamedTuple):
    """The group object whose status is to be made: the version of its API, its generation and status as they are.
    ``now`` are seconds since the epoch.
    """

    version: str
    generation: int
    status: Mapping[str, Any]
    now: float


class Dialect(NamedTuple):
    """One gang API.

    ``group_of`` says of metadata and spec of a pod which group it names, and in which field; an empty name for none.
    Pods with this ``scheduler_name`` that are in no group are put into one by others (``grouped_by``, in words), and
    wait for that, unless they have the annotation ``alone_key``. ``decoded_as`` is what its group objects are decoded
    as, of which ``kind`` and ``plural`` they are, ``gang_from_object`` what they say (it raises
    :class:`~gangsched.model.errors.FieldError`), ``versions`` those of the API, the best first. Members say with
    ``needs_object`` (of labels) whether there must be one, and with ``gang_from_member`` what they say where there is
    none, under ``minimum_key`` how many they must be. ``mistake_of`` and ``remark_of`` (of labels and annotations) name
    what is wrong in that.

    A group may be in a group of groups of the family ``above``, and that in another of them; ``below`` is the family of
    the groups that have members. ``group`` is the API group where the family is not called so.

    ``role_of`` tells members apart of which a gang needs so many each.

    ``status`` makes the fields that the group object's status should have; None: its status is not ours to write. The
    controllers write it. If other controllers wait for the status before they create pods, the scheduler writes it at
    once, also for groups without members if its name is ``awaited_from``.

    ``queue`` is what its Queue objects are decoded as, and what they say, in ``queue_versions`` (none: ``versions``).

    ``documented`` has every field, label and annotation of the API.
    """

    family: str
    group_of: Callable[[wire.ObjectMeta, wire.PodSpec], tuple[str, str]]
    versions: tuple[str, ...] = ()
    decoded_as: type[wire.Object] | None = None
    gang_from_object: Callable[[Any], Gang] | None = None
    kind: str = "PodGroup"
    plural: str = "podgroups"
    above: str = ""
    below: str = ""
    group: str = ""
    scheduler_name: str = ""
    grouped_by: str = ""
    alone_key: str = ""
    needs_object: Callable[[Labels], bool] = lambda _: True
    gang_from_member: Callable[[Pod], Gang | None] = lambda _: None
    minimum_key: str = ""
    mistake_of: Callable[[Labels, Labels], Mistake | None] = lambda _labels, _notes: None
    remark_of: Callable[[Labels, Labels], Mistake | None] = lambda _labels, _notes: None
    role_of: Callable[[Pod, Gang], str] = lambda _pod, _gang: ""
    status: Callable[[CommonStatus, CurrentObject], dict[str, Any]] | None = None
    awaited_from: str = ""
    queue: tuple[type[wire.Object], Callable[[Any], ClusterQueue]] | None = None
    queue_versions: tuple[str, ...] = ()
    documented: tuple[Documented, ...] = ()


def api_group(dialect: Dialect) -> str:
    """Return the API group of the group objects."""
    return dialect.group or dialect.family


def scheduled(told: CommonStatus, name: str) -> list[Condition]:
    """The condition ``name`` of a group: its minimum is bound, or why not; none when there is nothing to say."""
    if told["phase"] in STARTED:
        return [(name, "True", "Scheduled", notes.MINIMUM_BOUND)]
    if not told.get("reason"):
        return []
    return [(name, "False", str(told["reason"]), str(told.get("message") or told["reason"]))]


def evicted(told: CommonStatus) -> list[Condition]:
    """The condition of a group that pods of it were evicted."""
    return [(EVICTED, "True", "Preempted", str(told["evicted"]))] if told.get("evicted") else []


def counts(told: CommonStatus, seen: CurrentObject, *names: str) -> dict[str, Any]:
    """How many members do what. A controller written in Go leaves zeros out; adding them would make the two take
    turns.
    """
    return {name: int(told.get(name) or 0) for name in names if told.get(name) or seen.status.get(name)}
