"""Gangs that wait for the room of pods that leave are looked at again when other room is freed, and bound if they fit.

Only gangs of which no write to a victim is on its way: those that depend on other plans, and those whose victims have
all been removed. The others look for themselves before each removal (see :mod:`.rechecks`), and are looked at here once
that is through, or has stopped them before the first one. Nothing is looked at unless a node has room, beyond all that
is kept, for one of the members; of single pods that are alike only the first is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gangsched.core.actuation.actuator import Actuator
from gangsched.core.arrays import Floats
from gangsched.core.groups import Group
from gangsched.core.hints import Change, Hint
from gangsched.core.identity import Order
from gangsched.core.lifecycle.eviction import Phase
from gangsched.core.state.simulation import Phantom
from gangsched.core.world.world import World, queue_order

#: What may give a gang room now.
_ROOM = Hint.NODE_ADDED | Hint.NODE_ROOM | Hint.NODE_LABELS | Hint.NODE_TAINTS | Hint.ROOM


class NominatedGangs:
    """Of ``groups`` those that something has happened for since they were decided."""

    def __init__(self, world: World, actuator: Actuator, groups: Mapping[str, Group]) -> None:
        self._world = world
        self._actuator = actuator
        self._groups = groups
        self._helped: dict[str, Order] = {}

    def noted(self, changes: Sequence[Change]) -> None:
        """Something has happened that may help."""
        rooms = [
            free
            for node in sorted({change.node for change in changes if change.kind & _ROOM and change.node})
            if (free := self._left_over(node)) is not None
        ]
        quota = any(change.kind & Hint.QUOTA for change in changes)
        if not rooms and not quota:
            return
        alike: dict[tuple[object, ...], Order] = {}
        for group in self._waiting():
            if not (quota and self._world.managed.is_managed(group.gangs)) and not self._fits_one(group, rooms):
                continue
            order = queue_order(self._world, group.gangs)
            if not group.single:
                self._helped[group.key] = order
                continue
            signature = (group.gangs[0].scheduler, order[0], *(p.pod.ident for p in self._kept(group)))
            alike[signature] = min(order, alike.get(signature, order))
        self._helped.update((order[2], order) for order in alike.values())

    def first(self) -> tuple[Order, Group] | None:
        """The first in the queue of those that can be looked at now."""
        for order in sorted(self._helped.values()):
            group = self._groups.get(order[2])
            if group is None or not group.evicts(*Phase):
                del self._helped[order[2]]
            elif self._quiet(group):
                return order, group
        return None

    def stopped(self, group: Group) -> None:
        """Its victims are marked, and need not leave, or may not. It keeps its room until it is looked at: weaker gangs
        that have lost theirs to it may have given up the quota with which it needs no victims, and would take it back.
        """
        self._helped[group.key] = queue_order(self._world, group.gangs)

    def looked_at(self, group: Group) -> None:
        """Until something else happens there is nothing to be found for this one."""
        self._helped.pop(group.key, None)

    def _waiting(self) -> Iterator[Group]:
        for key in self._world.ledger.holders():
            group = self._groups.get(key)
            if group is not None and key not in self._helped and group.evicts(*Phase):
                yield group

    def _kept(self, group: Group) -> Sequence[Phantom]:
        return self._world.ledger.pods_of(group.key)

    def _fits_one(self, group: Group, rooms: Sequence[Floats]) -> bool:
        """Is there room for any member in one of these?"""
        for shape in {id(p.pod.shape): p.pod.shape for p in self._kept(group)}.values():
            index, amounts = self._world.snapshot.vector(shape)
            if any((room[index] >= amounts).all() for room in rooms):
                return True
        return False

    def _left_over(self, node: str) -> Floats | None:
        """``(R,)`` what a node has beyond all that is on it and all that is kept; None if that is nothing."""
        snapshot = self._world.snapshot
        snapshot.settle()
        row = snapshot.row_of.get(node)
        if row is None:
            return None
        free: Floats = snapshot.allocatable[:, row] - snapshot.used[:, row]
        for held in self._world.ledger.kept_on(node):
            index, amounts = snapshot.vector(held.pod.shape)
            np.subtract.at(free, index, amounts)
        return free if (free > 0).any() else None

    def _quiet(self, group: Group) -> bool:
        """Is no write to a victim, or of a nomination, on its way, and none about to be sent? When the marks are all
        there, those who may go on have asked for removals: who has not is stopped.
        """
        waits = bool(self._world.ledger.waits(group.key)) and group.evicts(Phase.NOMINATING, Phase.LEAVING)
        return (waits or group.evicts(Phase.MARKING)) and self._actuator.settled(group.key)
