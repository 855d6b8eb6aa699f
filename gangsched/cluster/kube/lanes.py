"""The order in which waiting writes are sent: decisions first, then what people read.

Three lanes: *writes* (actions with an id; never dropped), *conditions* (PodScheduled; the newest of a pod
replaces one that still waits), *reports* (Events; an equal one that still waits absorbs a second, and the oldest
are dropped when too many wait). Writes to one pod never overlap: a condition that is on its way must not arrive
after the binding that was asked for later.
"""

from __future__ import annotations

from collections import deque
from typing import Literal, NamedTuple, TypeAlias

from gangsched.core.actions import Bind, Report, SetCondition, Write

Lane: TypeAlias = Literal["write", "condition", "report"]


class Item(NamedTuple):
    """One waiting action and when it was submitted (monotonic seconds)."""

    lane: Lane
    action: Write | SetCondition | Report
    submitted_at: float

    @property
    def pod_uid(self) -> str:
        """The UID of the pod that is written to, or for whose volumes; empty for an Event."""
        return "" if isinstance(self.action, Report) else self.action.pod.uid


class Lanes:
    """Waiting actions by priority. Not thread-safe; belongs to the I/O loop.

    ``low_in_flight`` bounds how many conditions and reports are on their way at once, so that a binding never
    waits behind a flood of them. ``dropped`` counts what was not kept, by reason.
    """

    def __init__(self, *, max_conditions: int = 20_000, max_reports: int = 2_000, low_in_flight: int = 16) -> None:
        self._writes: deque[Item] = deque()
        self._conditions: dict[str, Item] = {}
        self._reports: dict[Report, Item] = {}
        self._busy: dict[str, deque[Item]] = {}
        self._max_conditions = max_conditions
        self._max_reports = max_reports
        self._low_limit = low_in_flight
        self._low_in_flight = 0
        self._deferred = 0
        self.dropped: dict[str, int] = {"replaced": 0, "repeated": 0, "overload": 0}

    def __len__(self) -> int:
        return self.writes_waiting + len(self._conditions) + len(self._reports)

    @property
    def writes_waiting(self) -> int:
        """Actions with an id that have not been taken, those deferred behind their pod's other write included."""
        return len(self._writes) + self._deferred

    def put_write(self, action: Write, now: float) -> None:
        """Add an action that will be answered."""
        if isinstance(action, Bind) and self._conditions.pop(action.pod.uid, None) is not None:
            self.dropped["replaced"] += 1  # "not scheduled, because" is over
        self._writes.append(Item("write", action, now))

    def put_condition(self, action: SetCondition, now: float) -> None:
        """Add a condition; what waits for the same pod is replaced."""
        if self._conditions.pop(action.pod.uid, None) is not None:
            self.dropped["replaced"] += 1
        elif len(self._conditions) >= self._max_conditions:
            self._conditions.pop(next(iter(self._conditions)))
            self.dropped["overload"] += 1
        self._conditions[action.pod.uid] = Item("condition", action, now)

    def put_report(self, action: Report, now: float) -> None:
        """Add an Event, unless the same is waiting already."""
        if action in self._reports:
            self.dropped["repeated"] += 1
            return
        if len(self._reports) >= self._max_reports:
            self._reports.pop(next(iter(self._reports)))
            self.dropped["overload"] += 1
        self._reports[action] = Item("report", action, now)

    def take(self) -> Item | None:
        """The next action to send, or None when nothing may be sent now. :meth:`done` must follow."""
        while self._writes:
            item = self._writes.popleft()
            if item.pod_uid in self._busy:
                self._busy[item.pod_uid].append(item)
                self._deferred += 1
                continue
            self._busy[item.pod_uid] = deque()
            return item
        if self._low_in_flight >= self._low_limit:
            return None
        uid = next((uid for uid in self._conditions if uid not in self._busy), None)
        if uid is not None:
            self._busy[uid] = deque()
            self._low_in_flight += 1
            return self._conditions.pop(uid)
        if self._reports:
            self._low_in_flight += 1
            return self._reports.pop(next(iter(self._reports)))
        return None

    def done(self, item: Item) -> None:
        """This action has been answered: others of its pod may go."""
        if item.lane != "write":
            self._low_in_flight -= 1
        if item.lane != "report":
            deferred = self._busy.pop(item.pod_uid)
            self._deferred -= len(deferred)
            self._writes.extendleft(reversed(deferred))

    def clear(self) -> list[Item]:
        """Forget everything that waits; the writes among it, which must still be answered."""
        out = list(self._writes)
        for deferred in self._busy.values():
            out.extend(deferred)
            deferred.clear()
        self._deferred = 0
        self._writes.clear()
        self._conditions.clear()
        self._reports.clear()
        return out
