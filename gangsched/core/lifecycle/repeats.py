"""Writes that have to take effect in the end, whatever becomes of the gang that asked for them.

Taking back a nomination or a mark, a mark that another had overwritten, and a binding of which nobody knows whether it
took effect: the gang that they belonged to may be forgotten by the time of the answer. They are repeated, with growing
pauses, until an answer is final.
"""

from __future__ import annotations

import msgspec

from gangsched.core.actions import Bind, Mark, Unmark, WithdrawNomination
from gangsched.core.events import Outcome

Repeated = WithdrawNomination | Mark | Unmark | Bind
Kind = type[WithdrawNomination] | type[Mark] | type[Unmark] | type[Bind]


class _Open(msgspec.Struct):
    action: Repeated
    failures: int = 0
    due: float | None = None


class Repeats:
    """At most one write of each kind per pod: in flight, or due at a time (seconds)."""

    def __init__(self) -> None:
        self._open: dict[tuple[Kind, str], _Open] = {}

    def __len__(self) -> int:
        return len(self._open)

    def has(self, kind: Kind, uid: str) -> bool:
        """Is such a write of this pod in flight or due?"""
        return (kind, uid) in self._open

    def sent(self, action: Repeated) -> None:
        """The write is in flight, for the first time or again."""
        known = self._open.setdefault((type(action), action.pod.uid), _Open(action))
        known.action, known.due = action, None

    def drop(self, kind: Kind, uid: str) -> None:
        """No longer wanted: something else was asked for that makes it void."""
        self._open.pop((kind, uid), None)

    def answered(self, action: Repeated, outcome: Outcome) -> int:
        """The outcome of a write that was :meth:`sent`: how often it has failed so far, 0 when that is the end of it.

        Until it is told when (:meth:`again`), a write that has failed is not repeated.
        """
        key = (type(action), action.pod.uid)
        known = self._open.get(key)
        if known is None or known.action.id != action.id:
            return 0  # dropped, or asked for anew since
        final = outcome is not Outcome.TRANSIENT if isinstance(action, Bind) else outcome in (Outcome.OK, Outcome.GONE)
        if final:
            del self._open[key]
            return 0
        known.failures += 1
        return known.failures

    def again(self, action: Repeated, when: float) -> None:
        """Repeat this write at a time."""
        self._open[(type(action), action.pod.uid)].due = when

    def due(self, now: float) -> list[Repeated]:
        """Writes whose time has come, in the order in which they were first asked for."""
        return [each.action for each in self._open.values() if each.due is not None and each.due <= now]

    def wake_at(self) -> float | None:
        """When :meth:`due` will have something; None: never."""
        return min((each.due for each in self._open.values() if each.due is not None), default=None)
