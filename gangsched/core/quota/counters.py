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


class _Counted(msgspec.Struct, frozen=True, gc=False):
    """What one workload adds to the sums of its queues; ``usage`` is None while it waits."""

    queue: str
    local_queue: str
    usage: Amounts | None = None
    admitted: bool = False


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
        self._waiting: dict[str, _Counted] = {}
        self._holding: dict[str, _Counted] = {}

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
