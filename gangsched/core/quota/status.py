"""What the status of a queue object should say, in the fields and words of ``kueue.x-k8s.io/v1beta2``.

Fields: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/ . Reservation counts everybody who holds quota, usage
only those who run; both list every flavor and resource of the queue, zeros included.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gangsched.core.actions import QueueStatus
from gangsched.core.quota.counters import Tally
from gangsched.core.quota.quota import Quota
from gangsched.core.quota.tree import Node
from gangsched.core.quota.workloads import Cell, quantity
from gangsched.model.queues import GROUP, STOP_NONE, ClusterQueue, LocalQueue

#: Kueue's share of somebody with weight zero who borrows (the largest int64).
_ENDLESS = 2**63 - 1

#: Reasons and messages of the condition Active.
_READY = ("True", "Ready", "Can admit new workloads")
_LOCAL_READY = ("True", "Ready", "Can submit new workloads to localQueue")
_LOCAL_STOPPED = ("False", "Stopped", "LocalQueue is stopped")
_NO_QUEUE = ("False", "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue")
_QUEUE_INACTIVE = ("False", "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue")


class QueueStatuses:
    """The statuses of all queue objects, each told once and again when it has become another."""

    def __init__(self, quota: Quota, tally: Tally) -> None:
        self._quota = quota
        self._tally = tally
        self._told: dict[tuple[str, str, str], QueueStatus] = {}
        self._all = True

    def objects_changed(self) -> None:
        """Queue objects came, changed or went: what any status says may be another."""
        self._all = True

    def take(self, again: bool = False) -> list[QueueStatus]:
        """Statuses that are others than those told last, by kind and name; with ``again`` all of them."""
        if again:
            self._told.clear()
        everything, self._all = self._all or again, False
        quota, tally = self._quota, self._tally
        queues, locals_ = tally.changed_queues, tally.changed_local_queues
        tally.changed_queues, tally.changed_local_queues = set(), set()
        if everything:
            queues, locals_ = set(quota.queues), set(quota.local_queues)
            self._told = {key: told for key, told in self._told.items() if self._exists(told)}
        found = [self._queue(quota.queues[name]) for name in sorted(queues) if name in quota.queues]
        found += [self._local(quota.local_queues[key]) for key in sorted(locals_) if key in quota.local_queues]
        if quota.fair_sharing is not None:
            found += self._cohorts(queues)
        return [status for status in found if self._is_news(status)]

    def _exists(self, told: QueueStatus) -> bool:
        match told.plural:
            case "clusterqueues":
                return told.name in self._quota.queues
            case "localqueues":
                return f"{told.namespace}/{told.name}" in self._quota.local_queues
        return told.name in self._quota.cohorts

    def _is_news(self, status: QueueStatus) -> bool:
        key = status.plural, status.namespace, status.name
        if self._told.get(key) == status:
            return False
        self._told[key] = status
        return True

    def _queue(self, queue: ClusterQueue) -> QueueStatus:
        sums = self._tally.of_queue(queue.name)
        inactive = self._quota.inactive(queue.name)
        node = self._quota.tree.queues[queue.name]
        status: dict[str, Any] = {
            "pendingWorkloads": sums.pending,
            "reservingWorkloads": sums.reserving,
            "admittedWorkloads": sums.admitted,
            "flavorsReservation": _flavors(queue, sums.reserved, borrowed=True),
            "flavorsUsage": _flavors(queue, sums.used, borrowed=True),
            "active": ("False", inactive, f"Can't admit new workloads: {inactive}") if inactive else _READY,
        }
        if self._quota.fair_sharing is not None:
            status["fairSharing"] = self._share(node)
        return QueueStatus(GROUP, "", queue.name, queue.uid, status, "clusterqueues")

    def _local(self, local: LocalQueue) -> QueueStatus:
        sums = self._tally.of_local_queue(local.key)
        queue = self._quota.queues.get(local.cluster_queue)
        status: dict[str, Any] = {
            "pendingWorkloads": sums.pending,
            "reservingWorkloads": sums.reserving,
            "admittedWorkloads": sums.admitted,
            "flavorsReservation": _flavors(queue, sums.reserved) if queue is not None else [],
            "flavorsUsage": _flavors(queue, sums.used) if queue is not None else [],
            "active": self._local_active(local),
        }
        return QueueStatus(GROUP, local.namespace, local.name, local.uid, status, "localqueues")

    def _local_active(self, local: LocalQueue) -> tuple[str, str, str]:
        if local.stop != STOP_NONE:
            return _LOCAL_STOPPED
        if local.cluster_queue not in self._quota.queues:
            return _NO_QUEUE
        return _QUEUE_INACTIVE if self._quota.inactive(local.cluster_queue) else _LOCAL_READY

    def _cohorts(self, queues: Iterable[str]) -> Iterator[QueueStatus]:
        """Cohorts have nothing but a share; it changes with what the queues below them use."""
        above: dict[str, Node] = {}
        for name in queues:
            node = self._quota.tree.queues.get(name)
            while node is not None and node.parent is not None:
                node = node.parent
                above[node.name] = node
        for name in sorted(above):
            cohort = self._quota.cohorts.get(name)
            if cohort is not None:
                share = {"fairSharing": self._share(above[name])}
                yield QueueStatus(GROUP, "", name, cohort.uid, share, "cohorts")

    def _share(self, node: Node) -> dict[str, int]:
        share = self._quota.shares.of(node).weighted
        return {"weightedShare": _ENDLESS if math.isinf(share) else math.ceil(share)}


def _flavors(queue: ClusterQueue, amounts: Mapping[Cell, int], *, borrowed: bool = False) -> list[dict[str, Any]]:
    """Amounts of every flavor and resource of a queue, in its order; ``borrowed`` adds what is beyond its own quota."""
    out = []
    for group in queue.groups:
        for flavor in group.flavors:
            resources = []
            for resource, limits in flavor.resources:
                units = amounts.get((flavor.flavor, resource), 0)
                entry = {"name": resource, "total": quantity(resource, units)}
                if borrowed:
                    entry["borrowed"] = quantity(resource, max(0, units - limits.nominal) if queue.cohort else 0)
                resources.append(entry)
            out.append({"name": flavor.flavor, "resources": resources})
    return out
