"""Gangs whose decision was cut, by the end of a process or by the clock: others are decided before them.

A decision that never ends, or takes the process with it, would be the first one after the restart again, and no other
gang would ever be decided. So such a gang comes after all others, and pauses longer each time. A gang of which the
search took too long by the clock comes after those of its priority that wait by then.
"""

from __future__ import annotations

import math

#: A gang is not decided within this time (seconds) after its decision was cut for the second time; it doubles.
PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 60.0, 3600.0


class CutDecisions:
    """Names of the gangs whose last decision was cut, with how often, and when that was last (seconds)."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, float]] = {}
        self._slow: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self._known or self._slow)

    def __contains__(self, gang: object) -> bool:
        return gang in self._known

    def cut(self, gang: str, times: int, at: float) -> None:
        """Its decision did not come to an end."""
        self._known[gang] = times, at

    def decided(self, gang: str) -> None:
        """It did now."""
        self._known.pop(gang, None)
        self._slow.pop(gang, None)

    def took_long(self, gang: str, now: float) -> None:
        """It came to an end because of the clock."""
        self._slow[gang] = now

    def age_in_queue(self, gang: str, created: float) -> float:
        """Return from when on the gang counts for its place in the queue (seconds)."""
        return max(created, self._slow.get(gang, created))

    def not_before(self, gang: str) -> float:
        """When the gang may be decided again (seconds)."""
        times, at = self._known.get(gang, (0, -math.inf))
        return at + pause_seconds(times)


def pause_seconds(times: int) -> float:
    """Return for how long something that has failed so often is not tried again."""
    return 0.0 if times < 2 else min(LONGEST_PAUSE_SECONDS, PAUSE_SECONDS * 2.0 ** min(times - 2, 30))
