"""Room that is kept for a gang: for the pods of a plan, or until its turn in the queue comes.

:func:`gangsched.core.world.kept_room.taken_room` says for which gangs the room is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from gangsched.core.state.simulation import Phantom

#: A place in the queue: smaller is earlier.
Turn: TypeAlias = tuple[int, float, str]


_ANNOUNCED = " announced"


def announced_by(group: str) -> str:
    """Return the holder of the room for the members that the gangs of this group (its key) announce."""
    return group + _ANNOUNCED


class PlanReservation(msgspec.Struct, frozen=True, eq=False):
    """Room for the ``pods`` of a holder (the key of a group), each on its node, until they are there.

    The pods are the members of a plan, those that a gang has lost or announces, or those of a Job or JobSet that goes
    on. Of this, ``owner`` is the UID, ``resumed`` says that the cluster has shown it without its suspension, and
    ``adopted`` are the UIDs of pods that have taken their part of the room.
    """

    holder: str
    pods: tuple[Phantom, ...]
    priority: int
    owner: str = ""
    resumed: bool = False
    adopted: frozenset[str] = frozenset()

    @property
    def group(self) -> str:
        """The key of the group for whose members, or announced members, the room is kept."""
        return self.holder.removesuffix(_ANNOUNCED)

    def of_classes(self, of_its_class: Callable[[Phantom], Phantom]) -> PlanReservation:
        """The same room for pods that are distinguished from now on."""
        return msgspec.structs.replace(self, pods=tuple(map(of_its_class, self.pods)))


class TurnReservation(msgspec.Struct, frozen=True, eq=False):
    """Room for the ``pods`` of a gang (the holder's key) that keeps losing to work behind it, until others have ended.

    It is kept from gangs behind the holder in the queue, of which ``turn`` is its place. ``known_end`` says whether it
    is known when the pods end that are in its way. It has been kept without a break ``since`` then (seconds).
    """

    holder: str
    pods: tuple[Phantom, ...]
    turn: Turn
    known_end: bool = False
    since: float = 0.0

    def of_classes(self, of_its_class: Callable[[Phantom], Phantom]) -> TurnReservation:
        """The same room for pods that are distinguished from now on."""
        return msgspec.structs.replace(self, pods=tuple(map(of_its_class, self.pods)))
