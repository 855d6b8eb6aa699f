"""What has gone wrong for a gang, in one record: how often, by cause, for which members, and until when it pauses.

A gang for which others were evicted, and which was not bound after that, pauses: whoever took the room would take it
again. The pause is longer each time, until the gang is bound.
"""

from __future__ import annotations

import enum
from collections import Counter

import msgspec


class Cause(enum.Enum):
    """What did not lead to the gang being bound."""

    ATTEMPT = "attempt"  # a decision, or a plan: its backoff doubles with each
    ROUND = "round"  # others were evicted for it
    CONFLICT = "conflict"  # the cluster was not what a plan assumed
    BUDGET = "budget"  # a plan was made anew for a budget that had been tightened, in the present round of evictions
    BINDING = "binding"  # some members were bound, and others could not be
    ROLLBACK = "rollback"  # those that were bound have been removed for that


#: So often in a row is something tried that others may undo: a rollback, the binding of a member.
TRIES = 3
#: Seconds in which a gang evicts no pod after a round of evictions that did not end in its binding; twice as long after
#: each further one.
ROUND_PAUSE_SECONDS = 30.0
LONGEST_PAUSE_SECONDS = 1800.0


def pause(first_seconds: float, times: int) -> float:
    """Seconds of the pause after something has gone wrong so often in a row."""
    return min(first_seconds * 2.0 ** min(times - 1, 30), LONGEST_PAUSE_SECONDS)


class Refusal(msgspec.Struct, frozen=True):
    """A member could not be bound. ``until`` is the end of the ``pauses``-th pause, ``asked`` what it looked like."""

    pauses: int
    until: float
    asked: object


class Failures:
    """How often in a row each has happened. ``begun`` are the UIDs of the members that were bound since the gang was
    last whole, ``refused_on`` the nodes on which others were refused for good, by UID. ``refusals`` are, by UID, those
    of members that have not been bound since; they keep the gang from evicting others, as the rounds that have come to
    nothing do until ``paused_until``.
    """

    def __init__(self) -> None:
        self._count: Counter[Cause] = Counter()
        self.begun: set[str] = set()
        self.refused_on: dict[str, set[str]] = {}
        self.refusals: dict[str, Refusal] = {}
        self.paused_until = 0.0
        self._in_round = False
        self._taken = False

    def record(self, cause: Cause) -> None:
        """It has happened once more."""
        self._count[cause] += 1
        if cause is Cause.ROUND:
            self.forget(Cause.BUDGET)
            self._in_round, self._taken = True, False

    def room_taken(self) -> None:
        """Another pod took the room that was freed in this round, and may do so again: the pause is twice as long."""
        self._taken = True

    def round_ended(self, now: float, *, none_left: bool) -> None:
        """A plan is over. If others were evicted for it, and the gang is not bound (:meth:`bound`), it pauses."""
        if self._in_round:
            self._in_round = False
            if none_left:
                self._count[Cause.ROUND] -= 1
            else:
                first = ROUND_PAUSE_SECONDS * (2.0 if self._taken else 1.0)
                self.paused_until = now + pause(first, self.count(Cause.ROUND))

    def count(self, cause: Cause) -> int:
        """How often it has happened."""
        return self._count[cause]

    @property
    def matter(self) -> bool:
        """Does a decision look at what has happened to the gang?"""
        return bool(self._count[Cause.ROUND] or self.begun or self.refused_on or self.refusals)

    def forget(self, cause: Cause) -> None:
        """It counts no more."""
        del self._count[cause]

    def whole_again(self) -> None:
        """The gang is bound as decided, or not at all."""
        self.begun.clear()
        self.refused_on.clear()
        self.forget(Cause.BINDING)

    def bound(self) -> None:
        """The gang is bound as decided: what happened before is over."""
        self._count.clear()
        self.paused_until = 0.0
        self.whole_again()
