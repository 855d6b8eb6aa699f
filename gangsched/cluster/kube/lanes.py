"""The order in which waiting writes are sent: decisions first, then what people read.

Three lanes: *writes* (actions with an id; never dropped), *conditions* (PodScheduled), *reports* (Events; an equal one
that still waits absorbs a second, and the oldest are dropped when too many wait). Of what says why a pod is not
scheduled, conditions and Events, the newest of a pod replaces one that still waits, and a binding makes it pointless;
it is kept back a little for that, since the members of a gang are often created one right after another. Writes to one
pod never overlap: a condition that is on its way must not arrive after the binding that was asked for later.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Literal, NamedTuple, TypeAlias

from gangsched.core.actions import Bind, Report, SetCondition, Write

#: The action of Events that say why a pod is not scheduled, and that it was.
WHY_NOT, BOUND = "Scheduling", "Binding"

Lane: TypeAlias = Literal["write", "condition", "report"]


class Item(NamedTuple):
    """One waiting action and when it was submitted (monotonic seconds). ``known`` is how many events had been taken in
    when it was decided.
    """

    lane: Lane
    action: Write | SetCondition | Report
    submitted_at: float
    known: int = 0

    @property
    def pod_uid(self) -> str:
        """The UID of the pod that is written to, or for whose volumes; empty for an Event."""
        return "" if isinstance(self.action, Report) else self.action.pod.uid


class Lanes:
    """Waiting actions by priority. Not thread-safe; belongs to the I/O loop.

    ``low_in_flight`` bounds how many conditions and reports are on their way at once, so that a binding never
    waits behind a flood of them. While more than ``busy_writes`` writes are on their way none is sent, since each would
    take the API server's time from them, but for those that have waited for ``patience_seconds``; nor for
    ``calm_seconds`` afterwards: many writes that end together, the marks of a plan say, are followed by the next ones.
    What says why a pod is not scheduled is not sent before ``kept_back_seconds``. ``dropped`` counts what was not kept,
    by reason.
    """

    def __init__(
        self,
        *,
        max_conditions: int = 20_000,
        max_reports: int = 20_000,
        low_in_flight: int = 16,
        busy_writes: int = 12,
        patience_seconds: float = 5.0,
        calm_seconds: float = 0.0,
        kept_back_seconds: float = 0.0,
    ) -> None:
        self._writes: deque[Item] = deque()
        self._conditions: dict[str, Item] = {}
        self._reports: dict[Report, Item] = {}
        self._reasons: dict[str, Item] = {}
        self._kept_back_seconds = kept_back_seconds
        self._busy: dict[str, deque[Item]] = {}
        self._max_conditions = max_conditions
        self._max_reports = max_reports
        self._low_limit = low_in_flight
        self._low_in_flight = 0
        self._busy_writes = busy_writes
        self._patience_seconds = patience_seconds
        self._calm_seconds = calm_seconds
        self._busy_at = -math.inf  # when many writes were last seen on their way
        self._writes_in_flight = 0
        self._deferred = 0
        self.dropped: dict[str, int] = {"replaced": 0, "repeated": 0, "overload": 0}

    def __len__(self) -> int:
        return self.writes_waiting + len(self._conditions) + len(self._reports) + len(self._reasons)

    @property
    def writes_waiting(self) -> int:
        """Actions with an id that have not been taken, those deferred behind their pod's other write included."""
        return len(self._writes) + self._deferred

    def put_write(self, action: Write, now: float, known: int = 0) -> None:
        """Add an action that will be answered."""
        if isinstance(action, Bind):  # "not scheduled, because" is over
            for lane in (self._conditions, self._reasons):
                self.dropped["replaced"] += lane.pop(action.pod.uid, None) is not None
        self._writes.append(Item("write", action, now, known))

    def put_condition(self, action: SetCondition, now: float) -> None:
        """Add a condition; what waits for the same pod is replaced."""
        self._put_newest(self._conditions, action.pod.uid, Item("condition", action, now), self._max_conditions)

    def put_report(self, action: Report, now: float) -> None:
        """Add an Event, unless the same is waiting already."""
        if action.action == WHY_NOT:
            self._put_newest(self._reasons, action.regarding[4], Item("report", action, now), self._max_reports)
            return
        if action.action == BOUND:  # a group object is bound to nothing, so this is what ends its "not scheduled"
            self.dropped["replaced"] += self._reasons.pop(action.regarding[4], None) is not None
        if action in self._reports:
            self.dropped["repeated"] += 1
            return
        if len(self._reports) >= self._max_reports:
            self._reports.pop(next(iter(self._reports)))
            self.dropped["overload"] += 1
        self._reports[action] = Item("report", action, now)

    def _put_newest(self, lane: dict[str, Item], uid: str, item: Item, most: int) -> None:
        """What waits for the same pod is replaced, and its turn and its age stay the same."""
        waiting = lane.get(uid)
        if waiting is not None:
            self.dropped["replaced"] += 1
            item = item._replace(submitted_at=waiting.submitted_at)
        elif len(lane) >= most:
            lane.pop(next(iter(lane)))
            self.dropped["overload"] += 1
        lane[uid] = item

    def take(self, now: float) -> Item | None:
        """The next action to send, or None when nothing may be sent now. :meth:`done` must follow."""
        while self._writes:
            item = self._writes.popleft()
            if item.pod_uid in self._busy:
                self._busy[item.pod_uid].append(item)
                self._deferred += 1
                continue
            self._busy[item.pod_uid] = deque()
            self._writes_in_flight += 1
            self._look(now)
            return item
        if self._low_in_flight >= self._low_limit:
            return None
        if (self._look(now) or now < self._calm_at) and not self._waited_long(now):
            return None
        newest = now - self._kept_back_seconds
        uid = next((uid for uid in self._conditions if uid not in self._busy), None)
        if uid is not None and self._conditions[uid].submitted_at <= newest:
            self._busy[uid] = deque()
            self._low_in_flight += 1
            return self._conditions.pop(uid)
        uid = next(iter(self._reasons), None)
        if uid is not None and self._reasons[uid].submitted_at <= newest:
            self._low_in_flight += 1
            return self._reasons.pop(uid)
        if self._reports:
            self._low_in_flight += 1
            return self._reports.pop(next(iter(self._reports)))
        return None

    def ready_in(self, now: float) -> float | None:
        """Seconds until something that is kept back may be sent; None when there is nothing of the kind."""
        moments = [i.submitted_at + self._kept_back_seconds for i in self._oldest()]
        if moments:
            moments.append(self._calm_at)
        return min((moment - now for moment in moments if moment > now), default=None)

    @property
    def _calm_at(self) -> float:
        """From when on no write is expected right now."""
        return self._busy_at + self._calm_seconds

    def _look(self, now: float) -> bool:
        """Are many writes on their way? When they were is remembered."""
        busy = self._writes_in_flight > self._busy_writes
        if busy:
            self._busy_at = now
        return busy

    def _waited_long(self, now: float) -> bool:
        return any(now - item.submitted_at > self._patience_seconds for item in self._oldest())

    def _oldest(self) -> list[Item]:
        """Of each lane for people, what has waited longest."""
        lanes = (self._conditions, self._reasons, self._reports)
        return [next(iter(lane.values())) for lane in lanes if lane]

    def done(self, item: Item, now: float) -> None:
        """This action has been answered: others of its pod may go."""
        self._look(now)
        if item.lane == "write":
            self._writes_in_flight -= 1
        else:
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
        self._reasons.clear()
        return out
