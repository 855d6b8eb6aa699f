"""The status of a queue object, in the fields and words of ``kueue.x-k8s.io/v1beta2``, and its numbers.

Fields: https://kueue.sigs.k8s.io/docs/reference/kueue.v1beta2/ . Reservation counts all that hold quota, usage
only those who run; both list every flavor and resource of the queue, zeros included. How many workloads of each queue
wait, have quota and run, and what those use, is kept up to date with each change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from gangsched.core.actions import QueueStatus
from gangsched.core.quota.quota import Quota
from gangsched.core.quota.tree import Amounts, Cell, Node
from gangsched.core.quota.workloads import Admission, Workload, quantity
from gangsched.messages import causes
from gangsched.model.queues import GROUP, STOP_NONE, ClusterQueue, LocalQueue


class Sums:
    """Of one ClusterQueue or LocalQueue: workloads that wait (``pending``), that hold quota (``reserving``), and those
    of them that run (``admitted``); what the latter two hold, base units by flavor and resource.
    """

    __slots__ = ("admitted", "pending", "reserved", "reserving", "used")

    def __init__(self) -> None:
        self.pending = self.reserving = self.admitted = 0
        self.reserved: dict[Cell, int] = {}
        self.used: dict[Cell, int] = {}


class _Counted(msgspec.Struct, frozen=True, gc=False):
    """The share of one workload in the sums of its queues; ``usage`` is None while it waits."""

    queue: str
    local_queue: str
    usage: Amounts | None = None
    admitted: bool = False


class Tally:
    """Sums by ClusterQueue (``queues``) and by LocalQueue (``local_queues``, as ``namespace/name``).

    In Kueue's meaning: a workload *reserves* quota from the moment it is promised, although its victims may not be gone
    yet; it is *admitted* when it may run, which here means that pods of it have a node. ``changed_queues`` and
    ``changed_local_queues`` are the names whose sums differ; the caller that has written them clears the sets.
    """

    def __init__(self) -> None:
        self.queues: dict[str, Sums] = {}
        self.local_queues: dict[str, Sums] = {}
        self.changed_queues: set[str] = set()
        self.changed_local_queues: set[str] = set()
        self._waiting: dict[str, _Counted] = {}
        self._holding: dict[str, _Counted] = {}

    def of_queue(self, name: str) -> Sums:
        """The sums of a ClusterQueue; zeros for an unused one."""
        return self.queues.get(name) or Sums()

    def of_local_queue(self, key: str) -> Sums:
        """The sums of a LocalQueue, ``namespace/name``."""
        return self.local_queues.get(key) or Sums()

    def runs(self, uid: str) -> bool:
        """Return True if the workload of this UID is admitted."""
        holding = self._holding.get(uid)
        return holding is not None and holding.admitted

    def waits(self, uid: str, workload: Workload | None) -> None:
        """The workload of this UID waits for quota from now on; None: it does not."""
        now = _Counted(workload.queue, workload.local_queue) if workload is not None else None
        self._replace(self._waiting, uid, now)

    def holds(self, uid: str, admission: Admission | None, admitted: bool = False) -> None:
        """The workload of this UID has quota from now on, and runs if it is ``admitted``; None: it has none."""
        now = None
        if admission is not None:
            workload = admission.workload
            now = _Counted(workload.queue, workload.local_queue, admission.usage, admitted)
        self._replace(self._holding, uid, now)

    def _replace(self, known: dict[str, _Counted], uid: str, now: _Counted | None) -> None:
        before = known.pop(uid, None)
        if now is not None:
            known[uid] = now
        if now != before:
            for each, change in ((before, -1), (now, +1)):
                if each is not None:
                    for sums in self._sums_of(each.queue, each.local_queue):
                        _count(sums, each, change)

    def _sums_of(self, queue: str, local_queue: str) -> tuple[Sums, Sums]:
        self.changed_queues.add(queue)
        self.changed_local_queues.add(local_queue)
        return self.queues.setdefault(queue, Sums()), self.local_queues.setdefault(local_queue, Sums())


def _count(sums: Sums, each: _Counted, change: int) -> None:
    if each.usage is None:
        sums.pending += change
        return
    sums.reserving += change
    sums.admitted += change if each.admitted else 0
    for amounts in (sums.reserved, sums.used) if each.admitted else (sums.reserved,):
        for cell, units in each.usage:
            left = amounts.get(cell, 0) + change * units
            if left:
                amounts[cell] = left
            else:
                amounts.pop(cell, None)


#: Kueue's share of a queue with weight zero that borrows (the largest int64).
_ENDLESS = 2**63 - 1

#: Reasons and messages of the condition Active.
_READY = ("True", "Ready", causes.CAN_ADMIT)
_LOCAL_READY = ("True", "Ready", causes.CAN_SUBMIT)
_LOCAL_STOPPED = ("False", "Stopped", causes.LOCAL_QUEUE_STOPPED)
_NO_QUEUE = ("False", "ClusterQueueDoesNotExist", causes.CANNOT_SUBMIT)
_QUEUE_INACTIVE = ("False", "ClusterQueueIsInactive", causes.CANNOT_SUBMIT)


class QueueStatuses:
    """The statuses of all queue objects, each returned once and again when it has changed."""

    def __init__(self, quota: Quota, tally: Tally) -> None:
        self._quota = quota
        self._tally = tally
        self._reported: dict[tuple[str, str, str], QueueStatus] = {}
        self._all = True

    def objects_changed(self) -> None:
        """Queue objects came, changed or went: what any status says may be another."""
        self._all = True

    def changed(self, again: bool = False) -> list[QueueStatus]:
        """Statuses that differ from those returned last, by kind and name; with ``again`` all of them."""
        if again:
            self._reported.clear()
        everything, self._all = self._all or again, False
        quota, tally = self._quota, self._tally
        queues, locals_ = tally.changed_queues, tally.changed_local_queues
        tally.changed_queues, tally.changed_local_queues = set(), set()
        if everything:
            queues, locals_ = set(quota.queues), set(quota.local_queues)
            self._reported = {key: told for key, told in self._reported.items() if self._exists(told)}
        found = [
            self._queue(quota.queues[name])
            for name in sorted(queues)
            if name in quota.queues and not quota.queues[name].foreign
        ]
        found += [self._local(quota.local_queues[key]) for key in sorted(locals_) if key in quota.local_queues]
        if quota.fair_sharing:
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
        if self._reported.get(key) == status:
            return False
        self._reported[key] = status
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
            "active": ("False", inactive, causes.cannot_admit(inactive=inactive)) if inactive else _READY,
        }
        if self._quota.fair_sharing:
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
        share = self._quota.shares.share_of(node).weighted
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
