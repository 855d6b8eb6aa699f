"""What may end a search for victims from outside: a wall clock, which the core cannot see."""

from __future__ import annotations


class Watchdog:
    """Asked by a search beside its budget. Only :meth:`cancel` may be called from another thread."""

    def __init__(self) -> None:
        #: Number of the decision that was begun last.
        self.decision = 0
        self._under_way = False
        self._cancelled = 0
        self._questions = 0
        #: At which question the search of the last decision was ended; 0 if it was not.
        self._end_at = self._next_end_at = 0
        self.ended_at = 0
        #: Steps that searches of the present decision have taken.
        self.steps = 0

    def begin(self) -> None:
        """A decision begins: whatever concerned earlier ones is over."""
        self.decision += 1
        self._under_way = True
        self._questions = self.ended_at = self.steps = 0
        self._end_at, self._next_end_at = self._next_end_at, 0

    def cancel(self, decision: int) -> None:
        """The decision of this number should end; nothing happens if it is over."""
        self._cancelled = decision

    def end_at(self, question: int) -> None:
        """The search of the next decision ends at this question, counted from 1, as it did when it was recorded."""
        self._next_end_at = question

    def barks(self) -> bool:
        """Return True if the search should end. It stays True until the next decision begins."""
        if not self._under_way:
            return False
        self._questions += 1
        if not self.ended_at and (self._cancelled == self.decision or self._questions == self._end_at):
            self.ended_at = self._questions
        return self.ended_at > 0

    def finish(self) -> int:
        """The decision is over; at which question its search was ended, 0 if it was not."""
        self._under_way = False
        return self.ended_at
