"""What happens to the core: changes of the cluster, outcomes of its own writes, and the passing of time."""

from __future__ import annotations

import enum
from typing import TypeAlias

import msgspec

from gangsched.model.jobsets import JobSet
from gangsched.model.queues import QueueObject
from gangsched.model.records import (
    NO_LABELS,
    Budget,
    Gang,
    Job,
    Labels,
    Namespace,
    Node,
    Owner,
    Pod,
    PodSelector,
    PriorityClass,
)
from gangsched.model.volumes import StorageObject


class _Event(msgspec.Struct, frozen=True, gc=False):
    pass


class PodChanged(_Event, frozen=True):
    """A pod was created or changed (the record is its new state)."""

    pod: Pod


class PodGone(_Event, frozen=True):
    """A pod object no longer exists."""

    namespace: str
    name: str
    uid: str


class NodeChanged(_Event, frozen=True):
    """A node was created or changed."""

    node: Node


class NodeGone(_Event, frozen=True):
    """A node object no longer exists."""

    name: str


class GangChanged(_Event, frozen=True):
    """A group object was created or changed."""

    gang: Gang


class GangGone(_Event, frozen=True):
    """A group object no longer exists."""

    family: str
    namespace: str
    name: str


class BudgetChanged(_Event, frozen=True):
    """A PodDisruptionBudget was created or changed."""

    budget: Budget


class BudgetGone(_Event, frozen=True):
    """A PodDisruptionBudget no longer exists."""

    namespace: str
    name: str


class NamespaceChanged(_Event, frozen=True):
    """A namespace was created or changed."""

    namespace: Namespace


class NamespaceGone(_Event, frozen=True):
    """A namespace no longer exists."""

    name: str


class PriorityClassChanged(_Event, frozen=True):
    """A PriorityClass was created or changed."""

    priority_class: PriorityClass


class PriorityClassGone(_Event, frozen=True):
    """A PriorityClass no longer exists."""

    name: str


class JobChanged(_Event, frozen=True):
    """A Job was created or changed."""

    job: Job


class JobGone(_Event, frozen=True):
    """A Job no longer exists."""

    namespace: str
    name: str


class JobSetChanged(_Event, frozen=True):
    """A JobSet was created or changed."""

    jobset: JobSet


class JobSetGone(_Event, frozen=True):
    """A JobSet no longer exists."""

    namespace: str
    name: str


class PodSelectorChanged(_Event, frozen=True):
    """A Service, ReplicaSet, StatefulSet or ReplicationController was created or changed."""

    pod_selector: PodSelector


class PodSelectorGone(_Event, frozen=True):
    """Such an object no longer exists."""

    kind: str
    namespace: str
    name: str


class StorageChanged(_Event, frozen=True):
    """A claim, a volume, a storage class or another object of :mod:`gangsched.model.volumes` was created or changed."""

    record: StorageObject


class StorageGone(_Event, frozen=True):
    """Such an object no longer exists; ``kind`` is its API kind, ``namespace`` empty for what has none."""

    kind: str
    namespace: str
    name: str


class QueueObjectChanged(_Event, frozen=True):
    """A ClusterQueue, Cohort, LocalQueue, ResourceFlavor or WorkloadPriorityClass was created or changed."""

    record: QueueObject


class QueueObjectGone(_Event, frozen=True):
    """Such an object no longer exists; ``kind`` is its API kind, ``namespace`` empty for what has none."""

    kind: str
    namespace: str
    name: str


class KueueAdmits(_Event, frozen=True):
    """Kueue has this Workload for the objects that own it, and admits them itself; no owners: it is gone."""

    namespace: str
    name: str
    owners: tuple[Owner, ...] = ()


class ObjectRefused(_Event, frozen=True):
    """An object of the cluster could not be understood; it is reported once.

    ``kind`` is the API kind, with its group after a dot. A group object like this makes its gang wait, a queue admits
    nobody, and a node takes no new pods (:mod:`gangsched.core.world.refusals`). Pods, budgets, PriorityClasses, Jobs
    and JobSets are shown as well, as what they are counted as (:mod:`gangsched.model.convert_refused`).
    """

    kind: str
    namespace: str
    name: str
    uid: str
    field: str
    message: str
    labels: Labels = NO_LABELS


class SearchCancelled(_Event, frozen=True):
    """The search for victims of the next decision was ended from outside when it asked for the ``question``-th time.

    The core tells so of the decision that it has just made (:meth:`~gangsched.core.scheduler.Scheduler.cancelled`); put
    before that decision when recorded inputs are replayed, it ends the search at the same place.
    """

    question: int


class ServerClock(_Event, frozen=True):
    """The clock by which objects are stamped is so many seconds ahead of the one whose time comes with the events."""

    ahead_seconds: float


class Synced(_Event, frozen=True):
    """Every cache has been listed completely; nothing is decided before the first one."""


class Outcome(enum.StrEnum):
    """How a write can come out."""

    OK = "ok"
    GONE = "gone"  # 404, or the UID is another pod's
    CONFLICT = "conflict"  # 409: the state is not what the write assumed, such as a pod that is already bound
    # Not sent, or without any effect, and not wanted any more: a binding to a node to which others, told by now, have
    # bound pods since, or whose opposite has been asked for since, such as
    # a removal of a pod that is to be spared.
    OUTDATED = "outdated"
    REFUSED = "refused"  # 400/403/422: retrying will not help
    BLOCKED = "blocked"  # 429 from the eviction subresource: a budget forbids it
    TRANSIENT = "transient"  # given up after retries: timeouts, 429, 5xx


class WriteDone(_Event, frozen=True):
    """The outcome of the write with the id ``action_id``; ``message`` is the server's."""

    action_id: int
    outcome: Outcome
    message: str = ""


class LeadershipChanged(_Event, frozen=True):
    """This process may write (True) or must stop writing (False)."""

    leading: bool


Event: TypeAlias = (
    PodChanged
    | PodGone
    | NodeChanged
    | NodeGone
    | GangChanged
    | GangGone
    | BudgetChanged
    | BudgetGone
    | NamespaceChanged
    | NamespaceGone
    | PriorityClassChanged
    | PriorityClassGone
    | JobChanged
    | JobGone
    | JobSetChanged
    | JobSetGone
    | PodSelectorChanged
    | PodSelectorGone
    | StorageChanged
    | StorageGone
    | QueueObjectChanged
    | QueueObjectGone
    | KueueAdmits
    | ObjectRefused
    | SearchCancelled
    | ServerClock
    | Synced
    | WriteDone
    | LeadershipChanged
)
