"""Gangs that do not fit: what those behind them have to leave to them, and since when."""

from __future__ import annotations

from contextlib import suppress

from gangsched.core.framework.guard import PluginError
from gangsched.core.groups import Group
from gangsched.core.hints import Change, Hint
from gangsched.core.ledger.backfill import STRICT
from gangsched.core.lifecycle.run import Run
from gangsched.core.options import Options
from gangsched.core.planning.decider import Decider
from gangsched.core.queue.blocked_gang import block, reserve
from gangsched.core.world.world import World

#: Room is reserved for at most this time (seconds) at once: what was to end by itself may run for ever.
RESERVED_AT_MOST = 86400.0


class Waiting:
    """Keeps ``world.turns`` in line with the groups, and notes in ``run.changes`` whom that may help."""

    def __init__(self, world: World, decider: Decider, options: Options, run: Run) -> None:
        self._world = world
        self._decider = decider
        self._options = options
        self._run = run

    def look_again(self, group: Group, retry_at: float | None) -> float | None:
        """When time alone may change what was decided about the group; ``retry_at`` is what the decision says of it."""
        gives_up_at = None if group.reserving_since is None else group.reserving_since + RESERVED_AT_MOST
        known = (retry_at, self._starves_at(group), gives_up_at)
        return min((t for t in known if t is not None and t > self._run.now), default=None)

    def _starves_at(self, group: Group) -> float | None:
        """When room is to be reserved for a group that does not fit until then; None: never."""
        never = not self._options.starvation_seconds or self._options.queue_policy == STRICT
        if group.waiting_since is None or never:
            return None
        return max(group.waiting_since + self._options.starvation_seconds, group.reserves_from)

    def block(self, group: Group) -> None:
        """The group does not fit: from now on those behind it have to leave it what is its due."""
        turns = self._world.turns
        ledger = self._world.ledger
        before, rooms = turns.get(group.key), list(map(ledger.turn_of, ledger.turns()))
        pipeline = self._decider.pipeline(group.gangs[0].scheduler)
        if group.outlook.short_of_quota or not block(self._world, group.gangs, pipeline):
            self.unblock(group)  # it runs; members beyond its minimum wait without holding up others
            return
        starved = self._starves_at(group)
        if starved is not None and starved <= self._run.now:
            self._reserve(group)
        after = turns.get(group.key)
        if before is not None and after is not None and (before.order, before.classes) != (after.order, after.classes):
            self._run.changes.append(Change(Hint.TURN))
        kept = list(map(ledger.turn_of, ledger.turns()))
        self._run.changes += [Change(Hint.ROOM, p.node) for room in rooms if room not in kept for p in room]

    def _reserve(self, group: Group) -> None:
        """Reserve room, or keep what is reserved; give up what has not come true for too long, and let as much time
        pass as the group has been waiting in all.
        """
        ledger, now = self._world.ledger, self._run.now
        since = group.reserving_since
        if since is not None and since + RESERVED_AT_MOST <= now:
            group.reserves_from = now + now - (since if group.waiting_since is None else group.waiting_since)
            ledger.end_turn(group.key)
        else:
            with suppress(PluginError):  # the decision names the plug-in at fault
                reserve(self._decider.contexts(group.gangs, group.key, now, displacing=False), group.key, self._world)
        if not ledger.turn_of(group.key):
            group.reserving_since = None
        elif since is None:
            group.reserving_since = now

    def unblock(self, group: Group) -> None:
        """The group is no longer in the way of those behind it."""
        group.reserving_since, group.reserves_from = None, 0.0
        kept = self._world.ledger.end_turn(group.key)
        if self._world.turns.drop(group.key) is not None:
            self._run.changes.append(Change(Hint.TURN))
            self._run.changes += [Change(Hint.ROOM, p.node) for p in kept]
