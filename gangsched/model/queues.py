"""Quota objects as the core knows them: Kueue's queues, cohorts, flavors and workload priorities.

The records hold what ``kueue.x-k8s.io`` objects of v1beta1 and v1beta2 say, with that API's defaults applied. Amounts
are integers in base units (milli-cores, bytes, devices); None stands for "no limit".
Reference: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/ .
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from gangsched.model import wire
from gangsched.model.constraints import NO_LABELS, Labels, LabelSelector, Named, Record, Taint, Toleration
from gangsched.model.records import NO_QUEUE, Owner, QueueLabels

#: API group of all these objects.
GROUP = "kueue.x-k8s.io"
#: Served versions in the order of preference; the records are made of either.
VERSIONS = ("v1beta2", "v1beta1")
#: Labels on Jobs, JobSets, pod groups and pods: the LocalQueue and the WorkloadPriorityClass.
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
#: The prefix of Kueue's scheduling gates, and its labels on pods: on pods that it admits itself, and on pods of a Job
#: that it has started.
KUEUE_PREFIX = f"{GROUP}/"
KUEUE_LABELS = ("kueue.x-k8s.io/managed", "kueue.x-k8s.io/podset")

#: Preemption policies. ``Any`` is for reclaiming only, ``LowerOrNewerEqualPriority`` for the own queue only.
NEVER, LOWER, LOWER_OR_NEWER, ANY = "Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any"
#: Queueing strategies.
STRICT_FIFO, BEST_EFFORT_FIFO = "StrictFIFO", "BestEffortFIFO"
#: When to look at further flavors.
MAY_STOP, TRY_NEXT = "MayStopSearch", "TryNextFlavor"
#: The preference between two flavors if neither is free.
BORROWING_FIRST, PREEMPTION_FIRST = "BorrowingOverPreemption", "PreemptionOverBorrowing"
#: Stop policies.
STOP_NONE, STOP_HOLD, STOP_DRAIN = "None", "Hold", "HoldAndDrain"


class Limits(Record, frozen=True):
    """Quota of one resource in one flavor, base units.

    ``nominal`` is owned; ``borrowing`` bounds what is used beyond it, ``lending`` what others may use of it.
    """

    nominal: int = 0
    borrowing: int | None = None
    lending: int | None = None


class FlavorQuota(Record, frozen=True):
    """Quota in one flavor, by resource in the order of the group."""

    flavor: str
    resources: tuple[tuple[str, Limits], ...]


class ResourceGroup(Record, frozen=True):
    """Resources that take the same flavor, and the flavors in order of preference."""

    resources: tuple[str, ...]
    flavors: tuple[FlavorQuota, ...]


class QueuePreemption(Record, frozen=True):
    """Whom workloads of a ClusterQueue may displace.

    ``borrow`` is borrowWithinCohort.policy; ``threshold`` its maxPriorityThreshold, the highest priority (itself
    included) that may be displaced by a queue that borrows.
    """

    within: str = NEVER
    reclaim: str = NEVER
    borrow: str = NEVER
    threshold: int | None = None


class Fungibility(Record, frozen=True):
    """When the search for a flavor goes on although one was found; see :mod:`gangsched.core.quota.flavors`."""

    when_can_borrow: str = MAY_STOP
    when_can_preempt: str = TRY_NEXT
    preference: str = BORROWING_FIRST


#: The queue of another API that a group without one is given there.
DEFAULT_QUEUE = "default"
#: The flavor of queues of other APIs: every node.
ANY_NODE = "*"


def foreign_queue(family: str, name: str) -> str:
    """Return the internal name of a queue of the API group ``family``, which no object can have."""
    return f"{family}:{name}"


def queue_api(family: str) -> str:
    """Return the kind of the queues of the API group ``family``, with the group after a dot."""
    return f"Queue.{family}"


def is_foreign(name: str) -> bool:
    """Return whether this is the name of a queue of another API (:func:`foreign_queue`)."""
    return ":" in name


class ClusterQueue(Record, frozen=True):
    """A ClusterQueue, or a queue of another API (:func:`of_other_api`).

    ``cohort`` is empty for none. ``namespaces`` None selects no namespace. ``checks`` names its admission checks.
    ``preempt_after`` and ``reclaim_after`` are how many seconds its pods run before others of the same queue, or of
    other queues, may evict them. Of one that is ``kept`` other queues take nothing back, whatever it uses.
    """

    name: str
    cohort: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    strategy: str = BEST_EFFORT_FIFO
    namespaces: LabelSelector | None = None
    stop: str = STOP_NONE
    preemption: QueuePreemption = QueuePreemption()
    fungibility: Fungibility = Fungibility()
    weight: float = 1.0
    checks: tuple[str, ...] = ()
    uid: str = ""
    generation: int = 0
    preempt_after: float = 0.0
    reclaim_after: float = 0.0
    kept: bool = False

    @property
    def foreign(self) -> bool:
        """True if it is of another API. Resources without quota in such a queue are not limited, and its status is not
        ours.
        """
        return is_foreign(self.name)


def of_other_api(
    family: str, meta: wire.ObjectMeta, parent: str, limits: Mapping[str, Limits], **more: Any
) -> ClusterQueue:
    """A queue of the API group ``family`` with these limits by resource, which lends to the queues of its ``parent``
    and takes back what it lends.
    """
    quota = FlavorQuota(ANY_NODE, tuple(sorted(limits.items())))
    return ClusterQueue(
        foreign_queue(family, meta.name),
        foreign_queue(family, parent),
        (ResourceGroup(tuple(sorted(limits)), (quota,)),) if limits else (),
        namespaces=LabelSelector(),
        preemption=QueuePreemption(LOWER, ANY),
        uid=meta.uid,
        generation=meta.generation,
        **more,
    )


class Cohort(Record, frozen=True):
    """A Cohort object: its parent (empty for a root) and quota of its own, which its members share."""

    name: str
    parent: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    weight: float = 1.0
    uid: str = ""
    generation: int = 0


class LocalQueue(Named, frozen=True):
    """A LocalQueue: the name under which a namespace submits to a ClusterQueue."""

    cluster_queue: str
    stop: str = STOP_NONE
    uid: str = ""
    generation: int = 0


class ResourceFlavor(Record, frozen=True):
    """A ResourceFlavor: which nodes it stands for, and what pods need to run there.

    Pods that are admitted in it get ``labels`` as a node selector and ``tolerations`` beside their own. No pod is while
    it is ``outdated``: its newest state could not be understood.
    """

    name: str
    labels: Labels = NO_LABELS
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str = ""
    outdated: bool = False


class WorkloadPriorityClass(Record, frozen=True):
    """A priority for quota only: the pods' own priority stays what it is."""

    name: str
    value: int = 0


class KueueWorkload(Record, frozen=True):
    """A Workload that Kueue has for these objects, which it admits itself."""

    namespace: str
    name: str
    owners: tuple[Owner, ...] = ()


#: The objects of quota: all of this module that is Kueue's, but for its Workloads.
QueueObject: TypeAlias = ClusterQueue | Cohort | LocalQueue | ResourceFlavor | WorkloadPriorityClass
QUEUE_KINDS: Mapping[str, type[QueueObject]] = {
    kind.__name__: kind for kind in (ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WorkloadPriorityClass)
}


def queue_labels(labels: Labels) -> QueueLabels:
    """Return the statements of these labels about quota."""
    local_queue, priority_class = labels.get(QUEUE_LABEL, ""), labels.get(PRIORITY_LABEL, "")
    return QueueLabels(local_queue, priority_class) if local_queue or priority_class else NO_QUEUE
