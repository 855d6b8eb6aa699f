"""Writes that a core has asked for and whose effect is not known to the next one.

A core that takes the place of another one begins with what the caches show. So it does not lead before each write of
the earlier one is answered and the caches show the effect of those that succeeded. Otherwise it might decide a pod that
is being bound, or give its room to another.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, cast, get_args

from gangsched.core.actions import (
    Action,
    Bind,
    HoldNode,
    JobRef,
    Mark,
    NodeRef,
    Nominate,
    PodRef,
    ReleaseNode,
    Remove,
    ResumeJob,
    SuspendJob,
    Unmark,
    WithdrawNomination,
    Write,
)
from gangsched.core.events import Changed, Event, Outcome, WriteDone
from gangsched.core.keys import object_key
from gangsched.runtime.known import Known

_WRITES = frozenset(get_args(Write))  # a look-up is quicker than a question to each of them
#: The effect of a write is waited for so long (seconds) after its answer: others may have undone it meanwhile.
EFFECT_SECONDS = 5.0


class Unanswered:
    """Knows the writes that have no answer yet, and after :meth:`begin` those whose effect is to be seen first."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._writes: dict[int, Write] = {}
        self._waits: dict[int, float | None] = {}  # by the write's number: until when its effect is waited for
        self._unseen: dict[int, Write] = {}

    def asked(self, actions: Sequence[Action]) -> None:
        """These were asked for."""
        for action in actions:
            if type(action) in _WRITES:
                write = cast("Write", action)
                self._writes[write.id] = write

    def get(self, number: int) -> Write | None:
        """The write with this number that has no answer yet."""
        return self._writes.get(number)

    def begin(self) -> None:
        """Wait for all that is unanswered now."""
        self._unseen.update(self._writes)
        self._waits = {number: self._waits.get(number) for number in self._unseen}

    def forget(self) -> None:
        """Wait for nothing: the caches were read anew after the last answer."""
        self._waits.clear()
        self._unseen.clear()

    @property
    def waits(self) -> bool:
        """True while there is something to wait for."""
        return bool(self._waits)

    def until(self) -> float | None:
        """When a wait ends without any event; None: not."""
        return min((moment for moment in self._waits.values() if moment is not None), default=None)

    def answered(self, events: Sequence[Event], now: float) -> None:
        """These have come, and the caches show them."""
        for event in events:
            if isinstance(event, WriteDone):
                self._writes.pop(event.action_id, None)
                if event.action_id in self._waits:
                    done = event.outcome is Outcome.OK
                    self._waits[event.action_id] = now + EFFECT_SECONDS if done else now
        if self._waits:
            for number in [n for n, until in self._waits.items() if until is not None and self._is_over(n, until, now)]:
                del self._waits[number], self._unseen[number]

    def _is_over(self, number: int, until: float, now: float) -> bool:
        return until <= now or _shows(self._known, self._unseen[number])


def key_of_ref(ref: PodRef) -> Hashable:
    """The key by which :class:`~gangsched.runtime.known.Known` knows what a write is about."""
    match ref:
        case JobRef(kind=kind):
            return object_key(kind, "", ref.namespace, ref.name)
        case NodeRef():
            return object_key("Node", "", "", ref.name)
    return object_key("Pod", "", ref.namespace, ref.name, ref.uid)


def _shows(known: Known, write: Write) -> bool:
    """Return whether the caches show the effect of a write that has succeeded."""
    event = known.get(key_of_ref(write.pod))
    if not isinstance(event, Changed):
        return True  # it is gone
    record: Any = event.record
    match write:
        case Bind():
            return bool(record.node)
        case Nominate():
            return bool(record.on_record)
        case WithdrawNomination():
            return not record.on_record
        case Mark():
            return record.evicted_for is not None and record.evicted_for.status == "True"
        case Unmark():
            return record.evicted_for is None or record.evicted_for.status != "True"
        case Remove():
            return not record.live
        case SuspendJob() | ResumeJob():
            return bool(record.suspended) is isinstance(write, SuspendJob)
        case HoldNode() | ReleaseNode():
            return (record.held is not None) is isinstance(write, HoldNode)
    return True
