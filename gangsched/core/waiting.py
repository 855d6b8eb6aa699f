"""Gangs that do not fit: what those behind them have to leave to them, and since when."""

from __future__ import annotations

from contextlib import suppress

from gangsched.core.blocking import block, likeness
from gangsched.core.decider import Decider
from gangsched.core.groups import Group
from gangsched.core.guard import PluginError
from gangsched.core.options import Options
from gangsched.core.queue import Change, Hint
from gangsched.core.reservation import reserve
from gangsched.core.steps import Steps
from gangsched.core.turns import STRICT
from gangsched.core.world import World


class Waiting:
    """Keeps ``world.turns`` in line with the groups, and notes in ``steps.changes`` whom that may help."""

    def __init__(self, world: World, decider: Decider, options: Options, steps: Steps) -> None:
        self._world = world
        self._decider = decider
        self._options = options
        self._steps = steps

    def look_again(self, group: Group, retry_at: float | None) -> float | None:
        """When time alone may change what was decided about the group; ``retry_at`` is what the decision says of it."""
        times = (t for t in (retry_at, self._starves_at(group)) if t is not None and t > self._steps.now)
        return min(times, default=None)

    def _starves_at(self, group: Group) -> float | None:
        """When room is to be reserved for a group that does not fit until then; None: never."""
        never = not self._options.starvation_seconds or self._options.queue_policy == STRICT
        if group.waiting_since is None or never:
            return None
        return group.waiting_since + self._options.starvation_seconds

    def block(self, group: Group) -> None:
        """The group does not fit: from now on those behind it have to leave it what is its due."""
        turns = self._world.turns
        before, rooms = turns.get(group.key), [b.room for b in turns.reserving()]
        group.likeness = likeness(self._world, group.gangs)
        if not block(self._world, group.gangs, group.likeness):
            self.unblock(group)  # it runs; members beyond its minimum wait without holding up others
            return
        starved = self._starves_at(group)
        if starved is not None and starved <= self._steps.now:
            with suppress(PluginError):  # the decision has told whose fault it is
                reserve(self._decider.attempt(group.gangs, group.key, self._steps.now), group, self._world)
        after = turns.get(group.key)
        if before is not None and after is not None and (before.order, before.classes) != (after.order, after.classes):
            self._steps.changes.append(Change(Hint.TURN))
        kept = [b.room for b in turns.reserving()]
        self._steps.changes += [Change(Hint.ROOM, p.node) for room in rooms if room not in kept for p in room]

    def unblock(self, group: Group) -> None:
        """The group is no longer in the way of those behind it."""
        blocked = self._world.turns.drop(group.key)
        if blocked is not None:
            self._steps.changes.append(Change(Hint.TURN))
            self._steps.changes += [Change(Hint.ROOM, p.node) for p in blocked.room]
