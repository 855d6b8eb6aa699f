"""The gangs under way: who there is, and the one way in which their states change."""

from __future__ import annotations

from gangsched.core.groups import Clock, Group
from gangsched.core.hints import Change, Hint
from gangsched.core.lifecycle.steps import Steps
from gangsched.core.lifecycle.table import TIMED, UNDER_WAY, Signal, State, step
from gangsched.core.lifecycle.waking import Waking
from gangsched.core.options import Options
from gangsched.core.planning.decider import Decider
from gangsched.core.queue.unschedulable_gangs import Waiting
from gangsched.core.state.world import World
from gangsched.model.records import GangId


class UnderWay:
    """``groups`` has by key every gang or GangGroup that waits, or whose plan is being carried out.

    ``clock`` knows what is due when for any of them, ``waiting`` and ``waking`` those that do not fit. ``prebinding``
    are the keys of those that wait for their volumes.
    """

    def __init__(self, world: World, decider: Decider, options: Options, steps: Steps) -> None:
        self._world = world
        self._steps = steps
        self.groups: dict[str, Group] = {}
        self.clock = Clock()
        self.waiting = Waiting(world, decider, options, steps)
        self.waking = Waking(world, decider, options, steps, self.groups, self.signal)
        self.prebinding: set[str] = set()
        self._group_of: dict[GangId, str] = {}

    def of(self, gang: GangId) -> Group | None:
        """The group that this gang is in."""
        return self.groups.get(self._group_of.get(gang, ""))

    def begin(self, gangs: tuple[GangId, ...]) -> Group:
        """A group of these gangs, of which none is in any other."""
        group = Group(gangs, self.clock)
        self.groups[group.key] = group
        for gang in gangs:
            self._group_of[gang] = group.key
        return group

    def forget(self, group: Group) -> None:
        """The group is no more, and what is held for it is given up."""
        self._steps.queue.remove(group.key)
        self.waiting.unblock(group)
        self._steps.release(group)
        self.groups.pop(group.key, None)
        group.known = False
        self.prebinding.discard(group.key)
        self._steps.check.discard(group.key)
        for gang in group.gangs:
            self._group_of.pop(gang, None)
        self.waking.forget(group)

    def signal(self, group: Group, signal: Signal) -> None:  # noqa: PLR0912
        """Something happened to a gang: take the step that the table has for it."""
        found = step(group.state, signal)
        if found is None:
            return
        bound = group.plan.placements if group.state is State.BINDING and group.plan is not None else ()
        group.state = found.state
        for do in found.do:
            self._steps.carry_out(do, group)
        self._steps.losses.touch(group.gangs)
        if found.state in UNDER_WAY:
            self._steps.check.add(group.key)
        if found.state not in TIMED:
            group.deadline = None
        if found.state is State.PREBINDING:
            self.prebinding.add(group.key)
        else:
            self.prebinding.discard(group.key)
        if found.state is State.BINDING:
            self._world.ledger.binding.update(group.gangs)
        else:
            self._world.ledger.binding.difference_update(group.gangs)
        for place in bound:  # a gang whose bindings are on their way is no victim, from now on it is
            if place.uid in self._world.pods:
                self._steps.changes.append(Change(Hint.VICTIMS, place.node, self._world.pods[place.uid]))
        if found.state is not State.BACKOFF:
            group.tell_at = None
        if found.state is State.BACKOFF:
            self.waiting.block(group)
        elif found.state is not State.QUEUED:
            self.waiting.unblock(group)
        self.waking.moved(group)
