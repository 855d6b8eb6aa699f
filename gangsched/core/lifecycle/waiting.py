"""Waiting gangs: the room for a gang that does not fit, and when a gang that waits for room is checked again.

Gangs that only wait for terminating pods are checked again when other room is freed, and bound if they fit. These are
gangs without a write to a victim in flight: they depend on other plans, or all their victims were removed, or were
marked and then kept. A gang is checked only if a node has room for one of its members beside all held room. Of equal
single pods, only the first is checked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from gangsched.core.actuation.actuator import Actuator
from gangsched.core.arrays import Floats
from gangsched.core.decision import Order
from gangsched.core.events import Change, Hint
from gangsched.core.ledger.backfill import STRICT
from gangsched.core.ledger.condemned import STOPS, Phase
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.group import Failed, Group
from gangsched.core.planning.cycle import Decider
from gangsched.core.queue.blocked_gang import block, reserve
from gangsched.core.queue.scheduling_queue import Queue
from gangsched.core.world.kept_room import left_over
from gangsched.core.world.world import World, queue_order, share_of
from gangsched.model.records import PREEMPT_NEVER

#: Room is reserved for at most this time (seconds) at once: what was to end by itself may run for ever. The second is
#: for room in which pods run of which is not known when they end.
RESERVED_AT_MOST, RESERVED_WITHOUT_END = 86400.0, 600.0


class Waiting:
    """Puts groups into the ``queue``, and keeps ``ledger.turns`` in line with those that do not fit."""

    def __init__(self, decider: Decider, queue: Queue) -> None:
        self._world = decider.world
        self._ledger = decider.ledger
        self._work = decider.ledger.work
        self._decider = decider
        self._options = decider.options
        self._queue = queue

    def enqueue(self, group: Group) -> None:
        """Queue it for a decision. If processes have failed over it, or its pods were not created after it was resumed,
        only after its pause.
        """
        pause = self._world.cut.not_before(group.name) if self._world.cut else -math.inf
        job = report.job_of(self._world, group.gangs[0]) if group.without_pods else None
        if job is not None:
            pause = max(pause, self._world.resumes.not_before(job.uid))
        if pause > self._world.now:
            self._queue.rest(group.key, pause)
        else:
            self.push(group)

    def push(self, group: Group) -> None:
        """Put it into the queue at its place."""
        alone = self._world.membership.size(group.gangs) == 1
        self._queue.push(queue_order(self._world, group.gangs), self.share(group), single=alone)

    def share(self, group: Group) -> str:
        """With whom it takes turns in the queue."""
        return share_of(self._world, group.gangs, again=group.failures.count(Failed.ATTEMPT) > 0)

    def park(self, group: Group) -> None:
        """It does not fit: it waits for an event that may help, at least for its backoff. One that is bound in part
        sits out none: the room that comes meanwhile would be weaker work's.
        """
        group.failures.record(Failed.ATTEMPT)
        in_part = self._world.membership.half_bound(group.gangs)
        not_before = self._world.now + (0.0 if in_part else self._backoff(group))
        order = queue_order(self._world, group.gangs)
        self._queue.park(order, self._world.now, not_before, group.outlook.until)

    def retry(self, group: Group) -> None:
        """It is tried again after its backoff."""
        group.failures.record(Failed.ATTEMPT)
        self._queue.rest(group.key, self._world.now + self._backoff(group))

    def _backoff(self, group: Group) -> float:
        """Seconds; doubles with every attempt that did not help."""
        return self._options.backoff(group.failures.count(Failed.ATTEMPT))

    def look_again(self, group: Group, retry_at: float | None) -> float | None:
        """When time alone may change what was decided about the group; ``retry_at`` is what the decision says of it."""
        since = self._ledger.turns.since(group.key)
        gives_up_at = None if since is None else self._reserved_until(group, since)
        known = (retry_at, self._starves_at(group), gives_up_at)
        return min((t for t in known if t is not None and t > self._world.now), default=None)

    def _starves_at(self, group: Group) -> float | None:
        """When room is to be reserved for a group that does not fit until then; None: never."""
        never = not self._options.starvation_seconds or self._options.queue_policy == STRICT
        if group.waiting_since is None or never:
            return None
        return max(group.waiting_since + self._options.starvation_seconds, group.reserves_from)

    def block(self, group: Group) -> None:
        """The group does not fit: from now on those behind it have to leave it what is its due."""
        turns = self._ledger.turns
        before, rooms = turns.get(group.key), [made.pods for made in turns.reserved()]
        pipeline = self._decider.pipeline(group.gangs[0].scheduler)
        aside = group.outlook.short_of_quota or self._unadmitted(group)
        if aside or not block(self._world, turns, group.gangs, pipeline):
            self.unblock(group)  # it runs; members beyond its minimum wait without holding up others
            return
        starved = self._starves_at(group)
        if starved is not None and starved <= self._world.now:
            self._reserve(group)
        after = turns.get(group.key)
        if before is not None and after is not None and (before.order, before.classes) != (after.order, after.classes):
            self._work.changes.append(Change(Hint.TURN))
        kept = [made.pods for made in turns.reserved()]
        self._work.changes += [Change(Hint.ROOM, p.node) for room in rooms if room not in kept for p in room]

    def _unadmitted(self, group: Group) -> bool:
        """Return whether nothing has admitted the priority of a Job without pods: then it keeps no room from others."""
        return group.without_pods and self._world.membership.policy(group.gangs) == PREEMPT_NEVER

    def _reserved_until(self, group: Group, since: float) -> float:
        """When the room that has been reserved for the group since then is given up (seconds)."""
        return since + (RESERVED_AT_MOST if self._ledger.turns.known_end(group.key) else RESERVED_WITHOUT_END)

    def _reserve(self, group: Group) -> None:
        """Reserve room, or keep what is reserved. Give up a reservation that has not come true for too long, and let as
        much time pass as the group has been waiting in all.
        """
        turns, now = self._ledger.turns, self._world.now
        since = turns.since(group.key)
        if since is not None and self._reserved_until(group, since) <= now:
            group.reserves_from = now + now - (since if group.waiting_since is None else group.waiting_since)
            turns.end(group.key)
        else:
            reserve(self._decider, group.gangs, group.key)

    def unblock(self, group: Group) -> None:
        """The group is no longer in the way of those behind it."""
        group.reserves_from = 0.0
        kept = self._ledger.turns.unblock(group.key)
        if kept is not None:
            self._work.changes.append(Change(Hint.TURN))
            self._work.changes += [Change(Hint.ROOM, p.node) for p in kept]


class NominatedGangs:
    """Of ``groups`` those that something has happened for since they were decided."""

    def __init__(self, world: World, ledger: Ledger, actuator: Actuator, groups: Mapping[str, Group]) -> None:
        self._world = world
        self._ledger = ledger
        self._actuator = actuator
        self._groups = groups
        #: Their places in the queue, by key.
        self.helped: dict[str, Order] = {}

    def record_changes(self, changes: Sequence[Change]) -> None:
        """Find the gangs that these changes may help."""
        nodes = {change.node for change in changes if change.kind & Hint.ROOM_ON_NODES and change.node}
        found = left_over(self._world, self._ledger, sorted(nodes)) if nodes else {}
        rooms = [room for room in found.values() if (room > 0).any()]
        quota = any(change.kind & Hint.QUOTA for change in changes)
        if not rooms and not quota:
            return
        alike: dict[tuple[object, ...], Order] = {}
        for group in self._waiting():
            if not (quota and self._world.managed.is_managed(group.gangs)) and not self._fits_one(group, rooms):
                continue
            order = queue_order(self._world, group.gangs)
            if not group.single:
                self.helped[group.key] = order
                continue
            signature = (group.gangs[0].scheduler, order[0], *(p.pod.ident for p in self._ledger.pods_of(group.key)))
            alike[signature] = min(order, alike.get(signature, order))
        self.helped.update((order[2], order) for order in alike.values())

    def first(self) -> tuple[Order, Group] | None:
        """The first in the queue of those that can be looked at now."""
        for order in sorted(self.helped.values()):
            group = self._groups.get(order[2])
            if group is None or not group.evicts(*Phase):
                del self.helped[order[2]]
            elif self._quiet(group):
                return order, group
        return None

    def stopped(self, group: Group) -> None:
        """Its victims are marked, and need not leave (any more), or may not, though some may have left. It holds its
        room until it is checked, because weaker gangs would take it, or the quota that they gave up.
        """
        self.helped[group.key] = queue_order(self._world, group.gangs)

    def _waiting(self) -> Iterator[Group]:
        for key in self._ledger.holders():
            group = self._groups.get(key)
            if group is not None and key not in self.helped and group.evicts(*Phase):
                yield group

    def _fits_one(self, group: Group, rooms: Sequence[Floats]) -> bool:
        """Return True if any member fits in one of these rooms."""
        for shape in {id(p.pod.shape): p.pod.shape for p in self._ledger.pods_of(group.key)}.values():
            index, amounts = self._world.snapshot.vector(shape)
            if any((room[index] >= amounts).all() for room in rooms):
                return True
        return False

    def _quiet(self, group: Group) -> bool:
        """Return True if no write to a victim or of a nomination is on its way or about to be sent.

        When all marks or removals have been answered, gangs that may go on have asked for more. A gang that has not is
        stopped.
        """
        waits = group.evicts(Phase.NOMINATING, Phase.NOTICE, Phase.LEAVING) and self._ledger.waits(group.key)
        return bool(waits or group.evicts(*STOPS)) and self._actuator.settled(group.key)
