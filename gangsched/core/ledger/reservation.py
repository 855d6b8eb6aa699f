"""Room that is kept for a gang."""

from __future__ import annotations

import enum
from collections.abc import Callable, Container
from typing import TypeAlias

import msgspec

from gangsched.core.state.simulation import Phantom

#: A place in the queue: smaller is earlier.
Turn: TypeAlias = tuple[int, float, str]


class Kind(enum.Enum):
    """Why room is kept."""

    NOMINATED = "nominated"  # the members of a plan, until the pods in their way are gone
    REPLACEMENT = "replacement"  # members that a gang has lost, until they are made again
    RESUMED = "resumed"  # the pods of a Job that goes on, until they are there
    ANNOUNCED = "announced"  # members that do not exist before others of their gang run
    BACKFILL = "backfill"  # the turn of a gang that keeps losing to work behind it, until others have ended


class Reservation(msgspec.Struct, frozen=True, eq=False):
    """Room for the ``pods`` of a holder (the key of a group), each on its node.

    It is kept from whatever has no higher ``priority``. What is kept for a gang that waits for its turn (BACKFILL) is
    kept from those behind it in the queue, of which ``turn`` is its place, and ``known_end`` whether it is known when
    the pods end that are in its way; it has been kept without a break ``since`` then (seconds). ``owner`` is the UID of
    the Job or JobSet whose pods a RESUMED reservation is for, ``adopted`` are the UIDs of those that have taken their
    part of it.
    """

    holder: str
    kind: Kind
    pods: tuple[Phantom, ...]
    priority: int = 0
    turn: Turn | None = None
    known_end: bool = False
    since: float = 0.0
    owner: str = ""
    adopted: frozenset[str] = frozenset()

    def binds(self, priority: int, turn: Turn | None, own: Container[str]) -> bool:
        """Is the room taken as far as a gang of this priority and place in the queue is concerned? Not if its group, or
        one that keeps room for it, is among the holders ``own``. Without a place nothing is kept for others' turns.
        """
        if self.holder in own:
            return False
        if self.turn is not None:
            return turn is not None and self.turn < turn
        return self.priority >= priority

    def of_classes(self, of_its_class: Callable[[Phantom], Phantom]) -> Reservation:
        """The same room for pods that are distinguished from now on."""
        return msgspec.structs.replace(self, pods=tuple(map(of_its_class, self.pods)))
