"""Equals take turns: gangs that never fit keep neither those of other namespaces from being decided nor new ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from gangsched.core.decision import Order

#: So many decisions that come to nothing a share may have at one priority before those of others have their turn, if
#: they are about few members each.
TURN = 8
#: So many members that a decision looks at make it as long as one more that looks at few.
MEMBERS = 1000


class Rounds:
    """Who has had a turn, by priority and share (:func:`gangsched.core.world.world.share_of`)."""

    def __init__(self) -> None:
        self._refused: dict[int, Counter[str]] = {}

    def refused(self, order: Order, share: str, members: int) -> None:
        """The decision of a gang with this place and share, about so many members, has come to nothing."""
        self._refused.setdefault(order[0], Counter())[share] += 1 + members // MEMBERS

    def over(self) -> None:
        """Nothing waits to be decided."""
        self._refused.clear()

    def first(self, first: Order, others: Callable[[], Iterable[Order]], share: Callable[[Order], str]) -> Order:
        """The place that is next: the ``first``, unless its share has had its turn. Then it is the first of the
        ``others`` of its priority of which that is not so; once all have had theirs another round begins.
        """
        refused = self._refused.get(first[0])
        if not refused or refused[share(first)] < TURN:
            return first
        waiting = (order for order in others() if order[0] == first[0] and refused[share(order)] < TURN)
        found = min(waiting, default=None)
        if found is None:
            refused.clear()
        return first if found is None else found
