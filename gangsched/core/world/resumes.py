"""Jobs and JobSets that were let go on, and whose pods did not come.

A quota, an admission policy or a missing object refuses pods only when they are created. Room is held for them
nevertheless, so a user could block others by writing such Jobs. The owner pauses, longer each time; and room is kept
for other Jobs of its namespace for a shorter time each, in the end for none.
"""

from __future__ import annotations

import math

#: Seconds for which room is kept for pods that are to come, from the last that came.
PODS_COME_SECONDS = 30.0
#: Seconds before an owner whose pods did not come is let go on again; twice as long after each further time.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 30.0, 1800.0
#: So long (seconds) does it count against a namespace, and after so many in that time no room is kept.
REMEMBERED_SECONDS, AT_MOST = 3600.0, 6


class Resumes:
    """By UID of an owner how often its pods did not come, and when last; by namespace when that was, of all owners."""

    def __init__(self) -> None:
        self._owners: dict[str, tuple[int, float]] = {}
        self._namespaces: dict[str, list[float]] = {}

    def record_without_pods(self, owner: str, namespace: str, now: float) -> float:
        """Record that no pod has come. Return when the owner may be resumed again (seconds)."""
        times, _ = self._owners.get(owner, (0, 0.0))
        self._owners[owner] = times + 1, now
        self._namespaces[namespace] = [*self._recent(namespace, now), now][-AT_MOST:]
        if len(self._owners) > 10_000:
            del self._owners[next(iter(self._owners))]
        return self.not_before(owner)

    def came(self, owner: str) -> None:
        """All of its pods have come."""
        self._owners.pop(owner, None)

    def not_before(self, owner: str) -> float:
        """When the owner may be let go on (seconds)."""
        times, at = self._owners.get(owner, (0, -math.inf))
        return at + min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(times - 1, 30))

    def seconds(self, namespace: str, now: float) -> float:
        """For how long room is kept for pods of this namespace that are to come."""
        times = len(self._recent(namespace, now))
        return 0.0 if times >= AT_MOST else PODS_COME_SECONDS / 2.0**times

    def _recent(self, namespace: str, now: float) -> list[float]:
        found = [at for at in self._namespaces.get(namespace, ()) if at > now - REMEMBERED_SECONDS]
        if not found:
            self._namespaces.pop(namespace, None)
        return found
