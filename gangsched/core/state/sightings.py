"""When pods were seen to begin to run, and to begin to terminate, by the scheduler's own clock.

Stamps in objects are of the API server's clock, which may be another, and what decides about victims counts the time
that has passed.
"""

from __future__ import annotations

from collections.abc import Iterable

from gangsched.model.records import Pod

#: Clocks that differ by less are the same: stamps have whole seconds, and an answer takes its time.
SAME_CLOCK_SECONDS = 3.0


class Sightings:
    """Seconds by UID: ``leaving_since`` when each pod that terminates was first seen to, ``began_at`` when pods were
    seen to begin, the latest last. Of those that ran before, that is known where their stamps would mislead.
    """

    def __init__(self) -> None:
        self.leaving_since: dict[str, float] = {}
        self.began_at: dict[str, float] = {}
        self._clocks_differ = False

    def seen(self, old: Pod | None, pod: Pod, now: float) -> None:
        """A pod has a new record instead of the ``old`` one, or is new."""
        if pod.deleting_since is not None:
            self.leaving_since.setdefault(pod.uid, now)
        if pod.node and self._begins(old, pod, now):
            self.began_at.pop(pod.uid, None)
            self.began_at[pod.uid] = now

    def _begins(self, old: Pod | None, pod: Pod, now: float) -> bool:
        """Does a pod that is bound begin to run now? One that was not known before began now at the latest. What its
        stamps say counts only if they are of the same clock.
        """
        if old is None:
            return self._clocks_differ or pod.runs_since > now
        return not old.node or old.started != pod.started

    def gone(self, uid: str) -> None:
        """A pod no longer exists."""
        self.leaving_since.pop(uid, None)
        self.began_at.pop(uid, None)

    def set_server_clock(self, ahead: float, pods: Iterable[Pod], now: float) -> None:
        """The clock of all stamps is so many seconds ahead of ours: what those of the pods say is put right."""
        self._clocks_differ = abs(ahead) >= SAME_CLOCK_SECONDS
        if self._clocks_differ:
            began = sorted((min(pod.runs_since - ahead, now), pod.uid) for pod in pods if pod.bound)
            self.began_at = {uid: at for at, uid in began}
