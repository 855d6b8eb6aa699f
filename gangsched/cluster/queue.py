"""Waiting writes by object: one write of an object is in flight at a time, and the last one counts. The same for a real
cluster and for a simulated one.

*Writes* (actions with an id) are answered, each once. Conditions (PodScheduled) and Events are for users. A newer
reason why a pod is not scheduled replaces a waiting one of the same object, and a binding removes it. Equal waiting
Events are merged. When too many wait the oldest are dropped; Events of bindings, which say what the pod itself says,
are counted apart, so that they never drive out another one. *Statuses* of groups, queues and Jobs come last, and none
is dropped: what one is to be is looked up when it is sent.
"""

from __future__ import annotations

import enum
import math
from collections import deque
from collections.abc import Hashable
from typing import TypeAlias

from gangsched.core.actions import Bind, GangStatus, Report, SetCondition, SetGroupStatus, Write, overruled_by

#: The action of Events that say why a pod is not scheduled, and that it was.
WHY_NOT, BOUND = "Scheduling", "Binding"

#: While writes wait, each so many of them let one condition or Event go first that has waited for too long. That costs
#: the writes at most a ninth of all requests, even if the API server takes as long for an Event as for a binding.
WRITES_PER_OVERDUE = 8

Sendable: TypeAlias = Write | SetCondition | SetGroupStatus | Report
Queued: TypeAlias = Sendable | GangStatus


class Lane(enum.IntEnum):
    """Writes go first; then what people read, in this order."""

    WRITE = 0
    CONDITION = 1
    REASON = 2  # an Event that says why a pod is not scheduled
    EVENT = 3
    BOUND = 4
    STATUS = 5


#: Of these one write of an object is on its way at a time.
_ONE_AT_A_TIME = (Lane.WRITE, Lane.CONDITION, Lane.STATUS)


class Item:
    """An action until it is answered: when it was submitted (monotonic seconds), and how many events had been taken in
    when it was decided.

    ``uid`` is that of the written pod or Job, or of the pod of a volume. It is empty for an Event, which waits for no
    object. For a status it names the object. ``unsure`` is True from the moment in which the bytes of an attempt leave
    until an answer says that it has had no effect.
    """

    __slots__ = ("action", "key", "known", "lane", "submitted_at", "uid", "unsure")

    def __init__(self, action: Queued, submitted_at: float, known: int = 0) -> None:
        self.action = action
        self.submitted_at = submitted_at
        self.known = known
        self.lane, self.key = _place(action)
        self.uid = _object_of(action)
        self.unsure = False


class WriteQueue:
    """Waiting actions. Not thread-safe.

    ``low_in_flight`` bounds how many conditions and Events are on their way at once, so that a binding never waits
    behind a flood of them. While more than ``busy_writes`` writes are in flight, no report is sent, because it would
    delay them. The same holds for ``calm_seconds`` afterwards, because after many writes, such as the marks of a plan,
    the next ones follow. After ``patience_seconds``, a report is sent anyway, oldest first. While writes wait, too, one
    report follows after each :data:`WRITES_PER_OVERDUE` of them, and at most that share is in flight. So nothing waits
    for ever, but a long queue may take longer than the patience. A reason why a pod is not scheduled, and a status, is
    sent after ``kept_back_seconds``. ``dropped`` counts what was not sent, by reason: ``replaced`` by something newer,
    ``repeated`` while an equal one waited, ``overload`` when more than ``most`` of a lane waited, ``abandoned`` by
    :meth:`clear`.
    """

    def __init__(
        self,
        *,
        most: int = 20_000,
        low_in_flight: int = 16,
        busy_writes: int = 12,
        patience_seconds: float = 15.0,
        calm_seconds: float = 0.0,
        kept_back_seconds: float = 0.0,
    ) -> None:
        self._lines: dict[str, list[Item]] = {}  # by UID, in the order in which they were asked for
        self._sent: dict[str, Item] = {}  # by UID, what is on its way; it is no longer in its line
        self._turns: deque[str] = deque()  # UIDs of objects of which something may be sent
        self._low: dict[Lane, dict[Hashable, Item]] = {lane: {} for lane in Lane if lane is not Lane.WRITE}
        self._most = most
        self._low_limit = low_in_flight
        self._busy_writes = busy_writes
        self._patience_seconds = patience_seconds
        self._calm_seconds = calm_seconds
        self._kept_back_seconds = kept_back_seconds
        self._busy_at = -math.inf  # when many writes were last seen on their way
        self._since_low = 0  # writes that were taken since the last look at what is overdue
        self._writes_in_flight = 0
        self.writes_waiting = 0
        self.low_in_flight = 0
        self.dropped: dict[str, int] = {"replaced": 0, "repeated": 0, "overload": 0, "abandoned": 0}

    def __len__(self) -> int:
        return self.writes_waiting + self.low_waiting

    @property
    def low_waiting(self) -> int:
        """Conditions and Events that have not been taken."""
        return sum(map(len, self._low.values()))

    # -- what is wanted ------------------------------------------------------------------------------------

    def put(self, action: Queued, now: float, known: int = 0) -> list[Item]:
        """This is wanted from now on. Returns obsolete writes that were not taken: they must be answered."""
        item = Item(action, now, known)
        if item.lane is not Lane.WRITE:
            self._put_low(item)
            return []
        if isinstance(action, Bind):  # "not scheduled, because" is over
            for lane in (Lane.CONDITION, Lane.REASON):
                self.dropped["replaced"] += self._low[lane].pop(item.uid, None) is not None
        self.writes_waiting += 1
        line = self._lines.get(item.uid)
        if line is None:
            self._lines[item.uid] = [item]
            if item.uid not in self._sent:
                self._turns.append(item.uid)
            return []
        overruled = self._overruled(action, item.uid)
        line.append(item)
        return overruled

    def _overruled(self, by: Queued, uid: str) -> list[Item]:
        """Take out of the line of an object what need not be sent any more. A sent write is repeated until its outcome
        is known.
        """
        out = [item for item in self._lines.get(uid, ()) if isinstance(item.action, overruled_by(by))]
        for item in out:
            self._lines[uid].remove(item)
        self.writes_waiting -= len(out)
        return out

    def _put_low(self, item: Item) -> None:
        lane = self._low[item.lane]
        waiting = lane.get(item.key)
        if item.lane is Lane.STATUS:
            lane.setdefault(item.key, item)
            return
        if item.lane is Lane.BOUND:
            # A group object is bound to nothing, so this is what ends its "not scheduled".
            about = item.action.regarding[4] if isinstance(item.action, Report) else ""
            self.dropped["replaced"] += self._low[Lane.REASON].pop(about, None) is not None
        if waiting is not None and waiting.action == item.key:
            self.dropped["repeated"] += 1
            return
        if waiting is not None:  # its turn and its age stay the same
            self.dropped["replaced"] += 1
            item.submitted_at = waiting.submitted_at
        elif len(lane) >= self._most:
            lane.pop(next(iter(lane)))
            self.dropped["overload"] += 1
        lane[item.key] = item

    def clear(self) -> list[Item]:
        """Nothing that waits is wanted any more; conditions and Events are counted, the writes returned: they must be
        answered.
        """
        self.dropped["abandoned"] += self.low_waiting
        for lane in self._low.values():
            lane.clear()
        out = [item for line in self._lines.values() for item in line]
        self._lines.clear()
        self._turns.clear()
        self.writes_waiting = 0
        return out

    # -- what is sent --------------------------------------------------------------------------------------

    def next_write(self, now: float) -> Item | None:
        """Return the next action to send, or None when nothing may be sent now. :meth:`done` must follow."""
        if self._since_low >= WRITES_PER_OVERDUE and self.writes_waiting:
            self._since_low = 0
            few = self.low_in_flight * WRITES_PER_OVERDUE <= self._writes_in_flight
            if few and self.low_in_flight < self._low_limit and (late := self._overdue(now)) is not None:
                return self._start_low(late)
        while self._turns:
            uid = self._turns.popleft()
            line = self._lines.get(uid)
            if uid in self._sent or line is None:
                continue
            if not line:
                del self._lines[uid]
                continue
            return self._start_write(line.pop(0), now)
        if self.low_in_flight >= self._low_limit:
            return None
        hold_on = self._is_busy(now) or now < self._calm_at
        found = self._overdue(now) if hold_on else self._most_telling(now)
        return None if found is None else self._start_low(found)

    def _start_write(self, item: Item, now: float) -> Item:
        self._sent[item.uid] = item
        if not self._lines[item.uid]:
            del self._lines[item.uid]
        self.writes_waiting -= 1
        self._writes_in_flight += 1
        self._since_low += 1
        self._is_busy(now)
        return item

    def _start_low(self, item: Item) -> Item:
        self.low_in_flight += 1
        del self._low[item.lane][item.key]
        if item.lane in _ONE_AT_A_TIME:
            self._sent[item.uid] = item
        return item

    def done(self, item: Item, now: float) -> None:
        """This action has been answered: what is wanted next of its object may go."""
        self._is_busy(now)
        if item.lane is Lane.WRITE:
            self._writes_in_flight -= 1
        else:
            self.low_in_flight -= 1
        if item.lane in _ONE_AT_A_TIME:
            del self._sent[item.uid]
            if item.uid in self._lines:
                self._turns.appendleft(item.uid)

    # -- when what people read may go ----------------------------------------------------------------------

    def _most_telling(self, now: float) -> Item | None:
        """What goes next while there is nothing to hold it up: conditions, then why not, then what has happened."""
        newest = now - self._kept_back_seconds
        kept_back = (Lane.CONDITION, Lane.REASON, Lane.STATUS)
        ready = (item for item in self._sendable() if item.lane not in kept_back or item.submitted_at <= newest)
        return next(ready, None)

    def _overdue(self, now: float) -> Item | None:
        """Return the report that has waited longest, if that is too long."""
        oldest = min(self._sendable(), key=lambda item: item.submitted_at, default=None)
        return oldest if oldest is not None and now - oldest.submitted_at > self._patience_seconds else None

    def _sendable(self) -> list[Item]:
        """Of each lane what has waited longest and may be sent."""
        firsts = (next((i for i in lane.values() if i.uid not in self._sent), None) for lane in self._low.values())
        return [item for item in firsts if item is not None]

    def ready_in(self, now: float) -> float | None:
        """Seconds until something that is kept back may be sent; None when there is nothing of the kind."""
        firsts = [next(iter(lane.values())) for lane in self._low.values() if lane]
        moments = [item.submitted_at + self._kept_back_seconds for item in firsts]
        if moments:
            moments.append(self._calm_at)
        return min((moment - now for moment in moments if moment > now), default=None)

    @property
    def _calm_at(self) -> float:
        """From when on no write is expected right now."""
        return self._busy_at + self._calm_seconds

    def _is_busy(self, now: float) -> bool:
        """Return True if many writes are on their way, and remember when they were."""
        busy = self._writes_in_flight > self._busy_writes
        if busy:
            self._busy_at = now
        return busy


def _object_of(action: Queued) -> str:
    if isinstance(action, GangStatus):
        return str(action.key)
    return "" if isinstance(action, Report) else action.pod.uid


def _place(action: Queued) -> tuple[Lane, Hashable]:
    """The lane of an action, and what one that still waits there is replaced by: an equal key."""
    if isinstance(action, GangStatus):
        return Lane.STATUS, _object_of(action)
    if isinstance(action, SetCondition | SetGroupStatus):
        return Lane.CONDITION, action.pod.uid
    if not isinstance(action, Report):
        return Lane.WRITE, ""
    if action.action == WHY_NOT:
        return Lane.REASON, action.regarding[4]
    return (Lane.BOUND if action.action == BOUND else Lane.EVENT), action
