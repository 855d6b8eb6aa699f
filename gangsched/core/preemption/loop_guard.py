"""Workloads that are spared where quota decides, so that no eviction leads in a circle back to the first.

Quota lets a workload evict another whose pods have a higher priority than its own. Where these may evict a third, which
may evict the first, all would take turns for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gangsched.core.quota.assignment import QuotaAssignment
from gangsched.core.state.eviction_history import unit_of
from gangsched.core.world.world import World
from gangsched.messages import causes
from gangsched.messages.text import pluralize
from gangsched.model.records import Pod
from gangsched.model.times import render_time


class Spared(NamedTuple):
    """Why a workload is, and until when (seconds); 0: as long as priorities are what they are."""

    why: str
    until: float


class LoopGuard:
    """The pods that one preemptor must not evict. Its pods have this ``priority``. A unit that was evicted ``limit``
    times in an hour is protected (0: never).
    """

    def __init__(self, world: World, gate: QuotaAssignment, priority: int, limit: int, now: float) -> None:
        self._evictions = world.evictions
        self._holders = gate.managed.quota.holders.by_uid
        self._workload = gate.workload
        self._nodes_alone = not gate.mode.needs_preemption
        self._priority = priority
        self._limit = limit
        self._now = now

    def spares(self, uid: str, priority: int, pods: Sequence[Pod]) -> Spared | None:
        """Return the reason if the workload with this UID, whose pods have this priority, may not be evicted, and
        otherwise None.
        """
        holder = self._holders.get(uid)
        if self._priority > priority and (holder is None or self._workload.priority > holder.priority):
            return None
        if self._nodes_alone:
            why = causes.QUOTA_SUFFICES
            return Spared(causes.of_pods_and_queue(why=why), 0.0)
        units = {unit_of(pod) for pod in pods} if self._limit else ()
        until = max((self._evictions.protected_until(unit, self._limit, self._now) for unit in units), default=0.0)
        if until <= self._now:
            return None
        times = max(self._evictions.times(unit, self._now) for unit in units)
        why = causes.evicted_often(times=pluralize(times, "time"))
        return Spared(causes.evictable_again(why=why, time=render_time(until)), until)
