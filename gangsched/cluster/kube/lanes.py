"""The order in which waiting writes are sent: decisions first, then what people read.

Three lanes: *writes* (actions with an id; never dropped), *conditions* (PodScheduled), *reports* (Events; an equal one
that still waits absorbs a second). Of what says why a pod is not scheduled, conditions and Events, the newest of a pod
replaces one that still waits, and a binding makes it pointless; it is kept back a little for that, since the members of
a gang are often created one right after another. When too many wait the oldest are dropped; Events of bindings, which
say what the pod itself says, are counted apart, so that they never drive out another one. Writes to one pod never
overlap: a condition that is on its way must not arrive after the binding that was asked for later.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection
from typing import Literal, NamedTuple, TypeAlias

from gangsched.core.actions import Bind, Report, SetCondition, Write

#: The action of Events that say why a pod is not scheduled, and that it was.
WHY_NOT, BOUND = "Scheduling", "Binding"

#: While writes wait, each so many of them let one condition or Event go first that has waited for too long. That costs
#: the writes at most a ninth of all requests, even if the API server takes as long for an Event as for a binding.
WRITES_PER_OVERDUE = 8

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
    take the API server's time from them; nor for ``calm_seconds`` afterwards: many writes that end together, the marks
    of a plan say, are followed by the next ones. What has waited for more than ``patience_seconds`` is sent all the
    same, oldest first: while writes wait too, one after each :data:`WRITES_PER_OVERDUE` of them, and none while more
    than that share is on its way. So nothing waits for ever, but a long queue may take longer than the patience.
    What says why a pod is not scheduled is not sent before ``kept_back_seconds``. ``dropped`` counts what was not sent,
    by reason: ``replaced`` by something newer, ``repeated`` while an equal one waited, ``overload`` when too many
    waited (``max_conditions``; ``max_reports`` for each kind of Event), ``abandoned`` by :meth:`clear`.
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
        self._reasons: dict[str, Item] = {}
        self._reports: dict[Report, Item] = {}
        self._bound: dict[Report, Item] = {}
        self._kept_back_seconds = kept_back_seconds
        self._busy: dict[str, deque[Item]] = {}
        self._max_conditions = max_conditions
        self._max_reports = max_reports
        self._low_limit = low_in_flight
        self._low_in_flight = 0
        self._since_low = 0  # writes that were taken since the last look at what is overdue
        self._busy_writes = busy_writes
        self._patience_seconds = patience_seconds
        self._calm_seconds = calm_seconds
        self._busy_at = -math.inf  # when many writes were last seen on their way
        self._writes_in_flight = 0
        self._deferred = 0
        self.dropped: dict[str, int] = {"replaced": 0, "repeated": 0, "overload": 0, "abandoned": 0}

    def __len__(self) -> int:
        return self.writes_waiting + self.low_waiting

    @property
    def writes_waiting(self) -> int:
        """Actions with an id that have not been taken, those deferred behind their pod's other write included."""
        return len(self._writes) + self._deferred

    @property
    def low_waiting(self) -> int:
        """Conditions and Events that have not been taken."""
        return len(self._conditions) + len(self._reasons) + len(self._reports) + len(self._bound)

    @property
    def low_in_flight(self) -> int:
        """Conditions and Events that have been taken and not answered."""
        return self._low_in_flight

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
        lane = self._reports
        if action.action == BOUND:
            lane = self._bound
            # A group object is bound to nothing, so this is what ends its "not scheduled".
            self.dropped["replaced"] += self._reasons.pop(action.regarding[4], None) is not None
        if action in lane:
            self.dropped["repeated"] += 1
            return
        if len(lane) >= self._max_reports:
            lane.pop(next(iter(lane)))
            self.dropped["overload"] += 1
        lane[action] = Item("report", action, now)

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
        if self._since_low >= WRITES_PER_OVERDUE and self._writes:
            self._since_low = 0
            few = self._low_in_flight * WRITES_PER_OVERDUE <= self._writes_in_flight
            if few and self._low_in_flight < self._low_limit and (late := self._overdue(now)) is not None:
                return self._send_low(late)
        while self._writes:
            item = self._writes.popleft()
            if item.pod_uid in self._busy:
                self._busy[item.pod_uid].append(item)
                self._deferred += 1
                continue
            self._busy[item.pod_uid] = deque()
            self._writes_in_flight += 1
            self._since_low += 1
            self._look(now)
            return item
        if self._low_in_flight >= self._low_limit:
            return None
        hold_on = self._look(now) or now < self._calm_at
        found = self._overdue(now) if hold_on else self._most_telling(now)
        return None if found is None else self._send_low(found)

    def _most_telling(self, now: float) -> Item | None:
        """What goes next while there is nothing to hold it up: conditions, then why not, then what has happened."""
        newest = now - self._kept_back_seconds
        conditions, reasons, *rest = self._sendable()
        kept_back = [item for item in (conditions, reasons) if item is not None and item.submitted_at <= newest]
        return next((item for item in (*kept_back, *rest) if item is not None), None)

    def _overdue(self, now: float) -> Item | None:
        """What has waited longest, if that is too long."""
        waiting = [item for item in self._sendable() if item is not None]
        oldest = min(waiting, key=lambda item: item.submitted_at, default=None)
        return oldest if oldest is not None and now - oldest.submitted_at > self._patience_seconds else None

    def _sendable(self) -> list[Item | None]:
        """Of conditions, reasons, other Events and Events of bindings each: what has waited longest and may be sent."""
        condition = next((item for uid, item in self._conditions.items() if uid not in self._busy), None)
        others = (self._reasons, self._reports, self._bound)
        return [condition, *(next(iter(lane.values()), None) for lane in others)]

    def _send_low(self, item: Item) -> Item:
        """This condition or Event is on its way from now on."""
        self._low_in_flight += 1
        action = item.action
        if isinstance(action, Report):
            if action.action == WHY_NOT:
                del self._reasons[action.regarding[4]]
            else:
                del (self._bound if action.action == BOUND else self._reports)[action]
        else:
            self._busy[item.pod_uid] = deque()
            del self._conditions[item.pod_uid]
        return item

    def ready_in(self, now: float) -> float | None:
        """Seconds until something that is kept back may be sent; None when there is nothing of the kind."""
        lanes = (self._conditions, self._reasons, self._reports, self._bound)
        moments = [next(iter(lane.values())).submitted_at + self._kept_back_seconds for lane in lanes if lane]
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

    def recall(self, ids: Collection[int]) -> list[Item]:
        """Take those of these writes out that have not been taken; they must still be answered."""
        out: list[Item] = []
        for waiting in (self._writes, *self._busy.values()):
            everything = list(waiting)
            waiting.clear()
            for item in everything:
                (out if isinstance(item.action, Write) and item.action.id in ids else waiting).append(item)
        self._deferred = sum(map(len, self._busy.values()))
        return out

    def clear(self) -> list[Item]:
        """Forget everything that waits, and count the conditions and Events; returns the writes among it, which must
        still be answered.
        """
        self.dropped["abandoned"] += self.low_waiting
        out = list(self._writes)
        for deferred in self._busy.values():
            out.extend(deferred)
            deferred.clear()
        self._deferred = 0
        for waiting in (self._writes, self._conditions, self._reasons, self._reports, self._bound):
            waiting.clear()
        return out
