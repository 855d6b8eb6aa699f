"""Queues that were stopped: who may not get quota any more, and who has to leave.

``stopPolicy: Hold`` admits no workload, and takes its promise back from whoever has quota and does not run yet;
``HoldAndDrain`` makes those that run leave, too. Rules and words are those of Kueue's workload controller:
https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#stoppolicy .
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from gangsched.core.quota.gang_workloads import Managed
from gangsched.core.quota.quota import Quota
from gangsched.core.quota.workloads import Workload
from gangsched.messages import causes
from gangsched.model.queues import STOP_DRAIN, STOP_NONE
from gangsched.model.records import GangId

CLUSTER_QUEUE, LOCAL_QUEUE = "ClusterQueue", "LocalQueue"
#: Why a workload was evicted, in Kueue's words, by the kind of the queue that was stopped.
STOPPED = {CLUSTER_QUEUE: "ClusterQueueStopped", LOCAL_QUEUE: "LocalQueueStopped"}


class Stop(msgspec.Struct, frozen=True, gc=False):
    """The queue because of which a workload leaves: its API kind, and its name (``namespace/name`` of a LocalQueue)."""

    kind: str
    name: str

    @property
    def reason(self) -> str:
        """Why the workload is evicted."""
        return STOPPED[self.kind]

    @property
    def message(self) -> str:
        """The same as a sentence."""
        return causes.queue_is_stopped(kind=self.kind)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def stop_of(quota: Quota, workload: Workload) -> Stop | None:
    """The queue that makes a workload leave, if one does: of two its LocalQueue, which Kueue looks at first."""
    local = quota.local_queues.get(workload.local_queue)
    if local is not None and local.stop == STOP_DRAIN:
        return Stop(LOCAL_QUEUE, local.key)
    queue = quota.queues.get(workload.queue)
    return Stop(CLUSTER_QUEUE, queue.name) if queue is not None and queue.stop == STOP_DRAIN else None


def drained_queues(quota: Quota) -> dict[str, tuple[str, ...]]:
    """The ClusterQueues of which workloads have to leave, in name order, each with those of its LocalQueues
    (``namespace/name``) for which that is so; none: all.
    """
    out: dict[str, list[str]] = {}
    for key, local in sorted(quota.local_queues.items()):
        if local.stop == STOP_DRAIN and local.cluster_queue in quota.queues:
            out.setdefault(local.cluster_queue, []).append(key)
    out.update((name, []) for name, queue in quota.queues.items() if queue.stop == STOP_DRAIN)
    return {name: tuple(locals_) for name, locals_ in sorted(out.items())}


def leaving(managed: Managed, queues: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, Stop]]:
    """The workloads (UIDs) of such queues that hold quota and are not all on their way out, each with the queue that
    makes it leave; of a ClusterQueue in the order in which they would be displaced. Nothing may be settled meanwhile.
    """
    quota, tally = managed.quota, managed.tally
    for queue, some in queues.items():
        if queue not in quota.queues or (some and not any(tally.of_local_queue(key).reserving for key in some)):
            continue
        for _, holder in quota.holders.entries(queue, evicted=False):
            stop = stop_of(quota, holder.admission.workload)
            if stop is not None:
                yield holder.admission.workload.uid, stop


def policy(managed: Managed, gangs: Sequence[GangId]) -> str:
    """The stop policy that holds for a gang: the stricter of those of its LocalQueue and its ClusterQueue."""
    if not managed.is_managed(gangs):
        return STOP_NONE
    quota = managed.quota
    local = quota.local_queues.get(f"{gangs[0].namespace}/{managed.labels_of(gangs).local_queue}")
    if local is None:
        return STOP_NONE
    queue = quota.queues.get(local.cluster_queue)
    found = {local.stop, queue.stop if queue is not None else STOP_NONE}
    return STOP_DRAIN if STOP_DRAIN in found else next((stop for stop in sorted(found) if stop != STOP_NONE), STOP_NONE)
