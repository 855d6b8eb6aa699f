"""What happens to the core: changes of the cluster, outcomes of its own writes, and the passing of time.

And, of a change, what it may do for a gang that did not fit.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

from gangsched.model.constraints import NO_LABELS, Labels
from gangsched.model.devices import DeviceObject
from gangsched.model.jobsets import JobSet
from gangsched.model.pod_quotas import ResourceQuota
from gangsched.model.queues import KueueWorkload, QueueObject
from gangsched.model.records import (
    Budget,
    ClusterNetworkTopology,
    Gang,
    HyperNode,
    Job,
    Namespace,
    Node,
    Pod,
    PodSelector,
    PriorityClass,
    Topology,
)
from gangsched.model.volumes import StorageObject


class Hint(enum.Flag):
    """Kinds of events that may help a gang that did not fit."""

    NODE_ADDED = enum.auto()
    NODE_GONE = enum.auto()
    NODE_ROOM = enum.auto()  # allocatable changed
    NODE_LABELS = enum.auto()
    NODE_TAINTS = enum.auto()  # taints, cordon, readiness, deletion
    NODE = NODE_ADDED | NODE_GONE | NODE_ROOM | NODE_LABELS | NODE_TAINTS
    ROOM = enum.auto()  # a pod left, finished, shrank or began to terminate, or room is no longer held
    PODS = enum.auto()  # a pod came, or its labels changed
    VICTIMS = enum.auto()  # a pod or gang may be evicted that could not be, or not in this way
    BUDGET = enum.auto()  # a disruption budget changed, or a pod under one need not leave any more
    CLASSES = enum.auto()  # a PriorityClass changed
    NAMESPACES = enum.auto()  # the labels of a namespace changed
    VOLUMES = enum.auto()  # a claim, a volume or a storage class changed
    DEVICES = enum.auto()  # devices, their classes or a claim for them changed
    TURN = enum.auto()  # a gang that was ahead is no longer in the way
    QUOTA = enum.auto()  # quota was given back, a queue object changed, or the head of a queue did
    PROMISED = enum.auto()  # room and quota are kept for a gang until its victims are gone
    ROOM_ON_NODES = NODE_ADDED | NODE_ROOM | NODE_LABELS | NODE_TAINTS | ROOM
    ANY = NODE | ROOM | PODS | VICTIMS | BUDGET | CLASSES | NAMESPACES | VOLUMES | DEVICES | TURN | QUOTA


class Change(NamedTuple):
    """One event that may help. ``node`` is the name of the node that it is about, ``pod`` the pod as it is now (or last
    was), ``before`` as it was before; empty where the event is not about one. ``tree`` is the root of the cohort tree
    in which quota was given back; with QUOTA, empty for all.
    """

    kind: Hint
    node: str = ""
    pod: Pod | None = None
    before: Pod | None = None
    tree: str = ""


R = TypeVar("R")


class _Event(msgspec.Struct, frozen=True, gc=False):
    pass


#: The core's knowledge of the cluster: one record for each object.
Record: TypeAlias = (
    Pod
    | Node
    | Gang
    | Budget
    | Namespace
    | PriorityClass
    | ClusterNetworkTopology
    | Topology
    | HyperNode
    | DeviceObject
    | Job
    | JobSet
    | PodSelector
    | ResourceQuota
    | StorageObject
    | QueueObject
    | KueueWorkload
)


class Changed(_Event, frozen=True):
    """An object was created or changed: the record is its new state."""

    record: Record


class Gone(_Event, frozen=True):
    """An object no longer exists. ``kind`` is its API kind, ``group`` tells the APIs of PodGroups apart; ``namespace``
    is empty for what has none. A pod is known by its UID.
    """

    kind: str
    namespace: str
    name: str
    uid: str = ""
    group: str = ""


class ObjectRefused(_Event, frozen=True):
    """An object of the cluster could not be understood; it is reported once.

    ``kind`` is the API kind, with its group after a dot. A group object like this makes its gang wait, a queue admits
    no workload, a node takes no new pods (:mod:`gangsched.core.world.world`). Pods, budgets, PriorityClasses,
    Jobs and JobSets are shown as well, as what they are counted as (:mod:`gangsched.model.convert_refused`).
    """

    kind: str
    namespace: str
    name: str
    uid: str
    field: str
    message: str
    labels: Labels = NO_LABELS


class Reading(enum.StrEnum):
    """What is known of the objects of one kind that there are in the cluster."""

    UNKNOWN = "unknown"  # those that were seen, as in a manifest
    READ = "read"  # all of them
    ABSENT = "absent"  # there are none: the cluster does not serve their API
    CLOSED = "closed"  # none: they may not be read, or are left to others


class KindRead(_Event, frozen=True):
    """From now on so much is known of the objects of a ``kind``, which is an API kind with its group after a dot."""

    kind: str
    reading: Reading


class SearchCancelled(_Event, frozen=True):
    """The search for victims of the next decision was ended from outside when it asked for the ``question``-th time.

    The core reports this after the decision (:meth:`~gangsched.core.scheduler.Scheduler.cancelled`). Placed before that
    decision in a replay, it ends the search at the same place.
    """

    question: int


class Quarantined(_Event, frozen=True):
    """An object, or the decision of a gang, has led to an error ``times`` in a row, the last time ``at`` (seconds).

    ``kind`` is the API kind of an object, with its group after a dot. It is empty for the decision of the gang that
    ``name`` names; the end of a process during the decision counts too. ``why`` says what has failed. With ``times`` 0
    the quarantine of a gang is over.
    """

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    times: int = 0
    at: float = 0.0
    why: str = ""


class ServerClock(_Event, frozen=True):
    """The clock by which objects are stamped is so many seconds ahead of the one whose time comes with the events."""

    ahead_seconds: float


class Synced(_Event, frozen=True):
    """Every cache has been listed completely; nothing is decided before the first one."""


class Outcome(enum.StrEnum):
    """How a write can come out."""

    OK = "ok"
    GONE = "gone"  # 404, or the UID is another pod's, and no attempt to remove it can have had an effect before that
    CONFLICT = "conflict"  # 409: the state is not what the write assumed, such as a pod that is already bound
    # Not sent, or without any effect, and not wanted any more: a binding to a node to which others, known by now, have
    # bound pods since, or whose opposite has been asked for since, such as
    # a removal of a pod that is to be spared.
    OUTDATED = "outdated"
    REFUSED = "refused"  # 400/403/422: retrying will not help
    BLOCKED = "blocked"  # 429 from the eviction subresource: a budget forbids it
    TRANSIENT = "transient"  # given up after retries: timeouts, 429, 5xx


class Failure(NamedTuple):
    """How a write about the pod or Job ``uid`` has failed, and why in words."""

    uid: str
    outcome: Outcome
    message: str

    @property
    def text(self) -> str:
        """Both, for people."""
        return f"{self.outcome}: {self.message}"


class WriteDone(_Event, frozen=True):
    """The outcome of the write with the id ``action_id``; ``message`` is the server's."""

    action_id: int
    outcome: Outcome
    message: str = ""


class NameLeased(_Event, frozen=True):
    """The former owner of a scheduler ``name`` of ours renews its ``lease`` (``namespace/name``): ``owner`` says who
    that is in words, empty if it is free.
    """

    name: str
    owner: str
    lease: str = ""


class FormerNames(_Event, frozen=True):
    """The earlier leader of this installation had these scheduler names."""

    names: tuple[str, ...]


class LeadershipChanged(_Event, frozen=True):
    """This process may write (True) or must stop writing (False)."""

    leading: bool


Event: TypeAlias = (
    Changed
    | Gone
    | ObjectRefused
    | KindRead
    | SearchCancelled
    | Quarantined
    | ServerClock
    | Synced
    | WriteDone
    | NameLeased
    | FormerNames
    | LeadershipChanged
)


def records(events: Iterable[Event], kind: type[R]) -> Iterator[R]:
    """The objects of this kind that were created or changed, in the order of the events."""
    for event in events:
        if isinstance(event, Changed) and isinstance(event.record, kind):
            yield event.record


def record_of(event: Event) -> Record | None:
    """The object, if the event is one that was created or changed."""
    return event.record if isinstance(event, Changed) else None
