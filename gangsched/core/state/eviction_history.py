"""The history of evictions: a unit that is evicted too often is protected for some time."""

from __future__ import annotations

from collections import Counter, deque
from typing import TypeAlias

from gangsched.model.records import SINGLE, GangId, Pod

#: EvictionHistory count for so long.
WINDOW_SECONDS = 3600.0


#: A unit that has been evicted too often is protected for so long after the last time.
PROTECTED_SECONDS = 1800.0


#: So many units are remembered, the one that was evicted last the longest.
_MOST = 10_000


Unit: TypeAlias = "GangId | tuple[str, str, str]"


def unit_of(pod: Pod) -> Unit:
    """Return the owner that creates the pod again."""
    if pod.gang.family != SINGLE:
        return pod.gang
    if pod.owner is None:
        return "Pod", pod.namespace, pod.name
    return pod.owner.kind, pod.namespace, pod.owner.name


class EvictionHistory:
    """A unit of n pods has been evicted once when n of its pods have been: all of them, or one n times. An eviction is
    remembered by the process that has seen it.
    """

    def __init__(self) -> None:
        self._when: dict[Unit, deque[float]] = {}
        self._size: Counter[Unit] = Counter()

    def seen(self, old: Pod | None, new: Pod | None) -> None:
        """A pod has come, has changed, or is gone."""
        was = unit_of(old) if old is not None and old.live else None
        now = unit_of(new) if new is not None and new.live else None
        if was == now:
            return
        if now is not None:
            self._size[now] += 1
        if was is not None:
            self._size[was] -= 1
            if not self._size[was]:
                del self._size[was]

    def note(self, pod: Pod, now: float) -> None:
        """The pod has been evicted for others."""
        unit = unit_of(pod)
        when = self._when.pop(unit, None) or deque()
        when.append(now)
        self._when[unit] = when
        self._forget_old(now)

    def times(self, unit: Unit, now: float) -> int:
        """How often the unit has been evicted in the last hour."""
        when = self._when.get(unit)
        if when is None:
            return 0
        while when and when[0] <= now - WINDOW_SECONDS:
            when.popleft()
        return len(when) // max(1, self._size[unit])

    def protected_until(self, unit: Unit, limit: int, now: float) -> float:
        """Until when a unit is protected that may be evicted ``limit`` times in an hour; 0: it is not."""
        if not limit or self.times(unit, now) < limit:
            return 0.0
        return self._when[unit][-1] + PROTECTED_SECONDS

    def repeatedly(self, limit: int, now: float) -> int:
        """How many units have been evicted so often in the last hour."""
        return sum(self.times(unit, now) >= max(1, limit) for unit in self._when)

    def _forget_old(self, now: float) -> None:
        while self._when:  # they are in the order of their last evictions
            unit = next(iter(self._when))
            if len(self._when) <= _MOST and self._when[unit][-1] > now - WINDOW_SECONDS:
                break
            del self._when[unit]
