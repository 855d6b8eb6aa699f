"""How many workloads of each queue wait, have quota and run, and what those use: kept up to date with each change."""

from __future__ import annotations

import msgspec

from gangsched.core.quota.workloads import Admission, Amounts, Cell, Workload


class Sums:
    """Of one ClusterQueue or LocalQueue: workloads that wait (``pending``), that hold quota (``reserving``), and those
    of them that run (``admitted``); what the latter two hold, base units by flavor and resource.
    """

    __slots__ = ("admitted", "pending", "reserved", "reserving", "used")

    def __init__(self) -> None:
        self.pending = self.reserving = self.admitted = 0
        self.reserved: dict[Cell, int] = {}
        self.used: dict[Cell, int] = {}


class _Waiting(msgspec.Struct, frozen=True, gc=False):
    queue: str
    local_queue: str


class _Holding(msgspec.Struct, frozen=True, gc=False):
    queue: str
    local_queue: str
    usage: Amounts
    admitted: bool


class Tally:
    """Sums by ClusterQueue (``queues``) and by LocalQueue (``local_queues``, as ``namespace/name``).

    In Kueue's meaning: a workload *reserves* quota from the moment it is promised, although its victims may not be gone
    yet; it is *admitted* when it may run, which here means that pods of it have a node. ``changed_queues`` and
    ``changed_local_queues`` are the names whose sums are others than before; whoever has told them clears the sets.
    """

    def __init__(self) -> None:
        self.queues: dict[str, Sums] = {}
        self.local_queues: dict[str, Sums] = {}
        self.changed_queues: set[str] = set()
        self.changed_local_queues: set[str] = set()
        self._waiting: dict[str, _Waiting] = {}
        self._holding: dict[str, _Holding] = {}

    def of_queue(self, name: str) -> Sums:
        """The sums of a ClusterQueue; zeros for one that nobody has used."""
        return self.queues.get(name) or Sums()

    def of_local_queue(self, key: str) -> Sums:
        """The sums of a LocalQueue, ``namespace/name``."""
        return self.local_queues.get(key) or Sums()

    def runs(self, uid: str) -> bool:
        """Is the workload of this UID admitted?"""
        holding = self._holding.get(uid)
        return holding is not None and holding.admitted

    def waits(self, uid: str, workload: Workload | None) -> None:
        """The workload of this UID waits for quota from now on; None: it does not."""
        now = _Waiting(workload.queue, workload.local_queue) if workload is not None else None
        before = self._waiting.get(uid)
        if now == before:
            return
        for each, change in ((before, -1), (now, +1)):
            if each is not None:
                for sums in self._sums_of(each.queue, each.local_queue):
                    sums.pending += change
        if now is None:
            del self._waiting[uid]
        else:
            self._waiting[uid] = now

    def holds(self, uid: str, admission: Admission | None, admitted: bool = False) -> None:
        """The workload of this UID has quota from now on, and runs if it is ``admitted``; None: it has none."""
        now = None
        if admission is not None:
            workload = admission.workload
            now = _Holding(workload.queue, workload.local_queue, admission.usage, admitted)
        before = self._holding.get(uid)
        if now == before:
            return
        for each, change in ((before, -1), (now, +1)):
            if each is not None:
                for sums in self._sums_of(each.queue, each.local_queue):
                    _count(sums, each, change)
        if now is None:
            del self._holding[uid]
        else:
            self._holding[uid] = now

    def _sums_of(self, queue: str, local_queue: str) -> tuple[Sums, Sums]:
        self.changed_queues.add(queue)
        self.changed_local_queues.add(local_queue)
        found, local = self.queues.get(queue), self.local_queues.get(local_queue)
        if found is None:
            found = self.queues[queue] = Sums()
        if local is None:
            local = self.local_queues[local_queue] = Sums()
        return found, local


def _count(sums: Sums, holding: _Holding, change: int) -> None:
    sums.reserving += change
    sums.admitted += change if holding.admitted else 0
    for amounts in (sums.reserved, sums.used) if holding.admitted else (sums.reserved,):
        for cell, units in holding.usage:
            left = amounts.get(cell, 0) + change * units
            if left:
                amounts[cell] = left
            else:
                amounts.pop(cell, None)
