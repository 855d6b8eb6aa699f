"""Turns: decisions that come to nothing, and long searches, hold up neither other namespaces nor gangs that fit.

Two rules, both counted in the steps that decisions take, so that they are the same on every machine:

- *Shares.* A share is charged the steps of its decisions that came to nothing. One that has spent its quantum waits
  until the others have spent theirs, whatever the priorities. What it spent beyond the quantum counts in the next
  round (deficit round robin; M. Shreedhar and G. Varghese, 1995).
- *Glances.* When decisions have taken a slice of steps, each gang that has not been decided since it became active is
  tried without evictions before the next search. Single pods come first, and are decided to the end while their share
  has something left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from gangsched.core.decision import Order
from gangsched.core.options import STEPS_PER_MILLISECOND

#: Steps that a share may spend on decisions which come to nothing before others have their turn.
QUANTUM = 240 * STEPS_PER_MILLISECOND
#: A decision counts as this much at least, so that a share has eight short ones in a turn.
LEAST = 30 * STEPS_PER_MILLISECOND
#: Steps of decisions after which the gangs that are not decided yet are tried without evictions.
SLICE = 50 * STEPS_PER_MILLISECOND
#: Steps that a member counts for, beside those of searches.
_MEMBER = 2


def charged(steps: int, members: int) -> int:
    """Return what a decision about so many members counts for if it does not end in a binding, in steps."""
    return steps + members * _MEMBER


class Rounds:
    """The steps that each share (:func:`gangsched.core.world.world.share_of`) has spent."""

    def __init__(self) -> None:
        self._spent: Counter[str] = Counter()
        self._since_glances = 0

    def searched(self, steps: int) -> None:
        """A decision that did not end in a binding has taken so many steps."""
        self._since_glances += steps

    def refused(self, share: str, steps: int) -> None:
        """Charge a share for a decision that refused a gang after so many steps."""
        self._spent[share] += max(steps, LEAST)

    def end(self) -> None:
        """End the round, because nothing waits to be decided."""
        self._spent.clear()
        self._since_glances = 0

    @property
    def glances_due(self) -> bool:
        """True when gangs that were not decided yet are to be tried before the next search."""
        return self._since_glances >= SLICE

    def is_spent(self, share: str) -> bool:
        """Return True if the share has had its turn in this round."""
        return self._spent[share] >= QUANTUM

    def glanced(self) -> None:
        """Every gang has been tried."""
        self._since_glances = 0

    def first(self, first: Order, others: Callable[[], Iterable[Order]], share: Callable[[Order], str]) -> Order:
        """Return the place that is next: the ``first``, unless its share has spent its quantum.

        Then it is the first of the ``others`` whose share has not. If there is none, the next round begins.
        """
        if not self.is_spent(share(first)):
            return first
        waiting = list(others())
        found = min((order for order in waiting if not self.is_spent(share(order))), default=None)
        if found is not None:
            return found
        # As many rounds at once as pass until one of those that wait may go on.
        rounds = min(self._spent[share(order)] for order in waiting) // QUANTUM
        self._spent = Counter({name: left for name, s in self._spent.items() if (left := s - rounds * QUANTUM) > 0})
        return min(order for order in waiting if not self.is_spent(share(order)))
