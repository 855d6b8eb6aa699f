"""When pods began and should be gone, by the scheduler's own clock.

Stamps in objects are of the API server's clock, which may be another, and what decides about victims counts the time
that has passed. The process that has seen it knows it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from gangsched.core.agenda import Page
from gangsched.core.state.eviction_history import EvictionHistory
from gangsched.core.state.foreign_nominations import ForeignNominations
from gangsched.core.state.refused_removals import RefusedRemovals
from gangsched.core.state.scheduler_names import SchedulerNames
from gangsched.model.records import Pod

#: Clocks that differ by less are the same: stamps have whole seconds, and an answer takes its time.
SAME_CLOCK_SECONDS = 3.0


class Sightings:
    """Seconds by UID: ``leaves_by`` when the grace period of each pod that terminates ends, ``began_at`` when pods were
    seen to begin, the latest last. Of those that ran before, that is known where their stamps would mislead.

    ``overdue`` are the UIDs of pods that still terminate ``overdue_after`` seconds after the end of their grace period,
    as of the last :meth:`newly_overdue`. Other facts about pods are updated with it.
    """

    def __init__(
        self,
        overdue_after: float,
        due: Page[str],
        evictions: EvictionHistory,
        nominations: ForeignNominations,
        names: SchedulerNames,
        refused: RefusedRemovals,
    ) -> None:
        self._evictions = evictions
        self._refused = refused
        self._nominations = nominations
        self._names = names
        self.leaves_by: dict[str, float] = {}
        self.overdue: set[str] = set()
        self.began_at: dict[str, float] = {}
        self._overdue_after = overdue_after
        self._due = due
        self._clocks_differ = False

    def seen(self, old: Pod | None, pod: Pod, now: float) -> None:
        """A pod has a new record instead of the ``old`` one, or is new."""
        self._evictions.seen(old, pod)
        self._nominations.seen(old, pod, now)
        if pod.deleting_since is not None and (old is None or old.deleting_since != pod.deleting_since):
            # Its deletionTimestamp is the end of its grace period, by the same clock or not. A pod that was live counts
            # from now, whatever its timestamp.
            ends, told = now + pod.grace_seconds, old is None and not self._clocks_differ
            self._leaves_by(pod.uid, min(ends, pod.deleting_since) if told else ends, now)
        if pod.node and self._begins(old, pod, now):
            self.began_at.pop(pod.uid, None)
            self.began_at[pod.uid] = now

    def _begins(self, old: Pod | None, pod: Pod, now: float) -> bool:
        """Return True if a bound pod begins to run now. One that was not known before began now at the latest. Its
        timestamps count only if they are of the same clock.
        """
        if old is None:
            return self._clocks_differ or pod.runs_since > now
        return not old.node or old.started != pod.started

    def forget_pod(self, uid: str, pod: Pod | None, now: float) -> None:
        """Forget a pod that no longer exists. ``pod`` is its last record, if it was known."""
        self._nominations.forget_pod(uid)
        self._names.forget_pod(uid)
        self._refused.forget_pod(uid)
        self.overdue.discard(uid)
        self.began_at.pop(uid, None)
        if self.leaves_by.pop(uid, None) is not None:
            self._due.never(uid)
        if pod is not None:
            self._evictions.seen(pod, None)
            if pod.deleting_since is not None:
                self._nominations.freed(pod.node, now)

    def _leaves_by(self, uid: str, when: float, now: float) -> None:
        self.leaves_by[uid] = when
        self.overdue.discard(uid)
        over = math.nextafter(when + self._overdue_after, math.inf)  # the first moment after the time that it may take
        self._due.at(uid, over)
        if over <= now:
            self._due.never(uid)
            self.overdue.add(uid)

    def newly_overdue(self, now: float) -> list[str]:
        """Return the UIDs of the pods that have become overdue."""
        found = self._due.due(now)
        self.overdue.update(found)
        return found

    def set_server_clock(self, ahead: float, pods: Iterable[Pod], now: float) -> None:
        """The clock of all stamps is so many seconds ahead of ours: what those of the pods say is put right."""
        self._clocks_differ = abs(ahead) >= SAME_CLOCK_SECONDS
        if self._clocks_differ:
            began = sorted((min(pod.runs_since - ahead, now), pod.uid) for pod in pods if pod.bound)
            self.began_at = {uid: at for at, uid in began}
            for pod in pods:
                if pod.deleting_since is not None:
                    self._leaves_by(pod.uid, min(now + pod.grace_seconds, pod.deleting_since - ahead), now)
