"""What is wanted of the cluster and not known to be so: every write that has been asked for, until it is settled.

A *phase* of a plan or an eviction needs writes and is over when each of them is settled. Its success is checked only
then, so that a failed phase never ends while some of its writes may still take effect. Writes that no phase waits for
are *kept up*: they are repeated with growing pauses, as desired by then, until they are known to have taken effect.
That holds for every binding, too, since none can be taken back: an answer that does not say what has become of it
settles nothing, and only the same binding again can tell.

It costs the same for each answer, however much is on its way.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

import msgspec

from gangsched.core.actions import (
    Action,
    Bind,
    HoldNode,
    Mark,
    Nominate,
    ReleaseClaim,
    ReleaseNode,
    Unmark,
    WithdrawNomination,
    Write,
)
from gangsched.core.actuation.desired import Kept
from gangsched.core.agenda import Page
from gangsched.core.events import Failure, Outcome


class Aspect(enum.Enum):
    """The part of a pod or node that a write changes. For each, the last wish counts."""

    BINDING = "binding"
    NOMINATION = "nomination"
    MARK = "mark"
    HOLD = "hold"
    CLAIM = "claim"


_ASPECTS: dict[type[Write], Aspect] = {
    Bind: Aspect.BINDING,
    Nominate: Aspect.NOMINATION,
    WithdrawNomination: Aspect.NOMINATION,
    Mark: Aspect.MARK,
    Unmark: Aspect.MARK,
    HoldNode: Aspect.HOLD,
    ReleaseNode: Aspect.HOLD,
    ReleaseClaim: Aspect.CLAIM,
}


class Answer(NamedTuple):
    """A write has been answered so, or need not be sent any more: what was asked for, and by whom (the key; empty for
    writes without a waiter). ``in_phase`` says that the present phase of theirs has waited for it; ``settled`` is False
    if it will be asked for again.
    """

    key: str
    action: Write
    outcome: Outcome
    message: str
    in_phase: bool = False
    settled: bool = True


class _Phase:
    __slots__ = ("failed", "unsettled")

    def __init__(self) -> None:
        self.unsettled = 0
        self.failed: list[Failure] = []


class Wish:
    """Something that is wanted: the write that says so, as it was sent last."""

    __slots__ = ("action", "failures", "key", "keys", "phase")

    def __init__(self, key: str, action: Write, phase: _Phase | None) -> None:
        self.key = key
        self.keys = {key}  # whom it is about, as it was sent last
        self.action = action
        self.phase = phase
        self.failures = 0


class Actuator:
    """Hands writes to ``send``, in the order in which they are wanted, with numbers of ``ids``. ``pause`` says for how
    many seconds nothing is asked for again that has failed so often, ``later`` when each is due that is, and ``again``
    what is desired instead then, or why nothing is. Keys are those of groups and evictions; ``over`` gets each of which
    a phase may be over, and ``owner`` is the one that a mark on a pod (UID) names.
    """

    def __init__(
        self,
        send: Callable[[Action], None],
        ids: Iterator[int],
        pause: Callable[[int], float],
        later: Page[Wish],
        again: Callable[[Kept], Kept | str],
        over: Callable[[str], None],
        owner: Callable[[str], str] = lambda _: "",
    ) -> None:
        self._send = send
        self._ids = ids
        self._pause = pause
        self._later = later
        self._again = again
        self._owner = owner
        self._over = over
        self._sent: dict[int, Wish] = {}
        self._sent_by_key: dict[str, dict[int, Wish]] = {}  # the same by key
        self._phases: dict[str, _Phase] = {}
        self._kept: dict[Aspect, dict[str, Wish]] = {aspect: {} for aspect in Aspect}
        self._last: dict[str, list[Wish]] = {}  # those that are sent when nothing of a key is on its way any more

    # -- phases --------------------------------------------------------------------------------------------

    def begin(self, key: str) -> None:
        """A phase begins: what was asked for before is not waited for any more."""
        self._phases[key] = _Phase()

    def end(self, key: str) -> None:
        """Nothing is waited for any more."""
        self._phases.pop(key, None)

    def settled(self, key: str) -> bool:
        """Return True if every write of the phase is settled."""
        phase = self._phases.get(key)
        return phase is None or not phase.unsettled

    def failures(self, key: str) -> list[Failure]:
        """The failures of the phase so far."""
        phase = self._phases.get(key)
        return phase.failed if phase is not None else []

    def fail(self, key: str, *failures: Failure) -> None:
        """The phase has failed so, too."""
        self._phases[key].failed.extend(failures)

    def take_failures(self, key: str) -> list[Failure]:
        """The phase is over: what has failed in it. The next one begins."""
        failed = self.failures(key)
        self.begin(key)
        return failed

    # -- wanting -------------------------------------------------------------------------------------------

    def want(self, action: Write, key: str = "", *, after: str = "") -> None:
        """This is wanted, instead of what was wanted of the pod in this respect. The phase of ``key``, if one has
        begun, waits for it; without a key it is kept up. It is not asked for while writes of the key ``after`` are on
        their way.
        """
        uid, aspect, phase = action.pod.uid, _ASPECTS.get(type(action)), self._phases.get(key) if key else None
        wish = Wish(key, action, phase)
        if phase is not None:
            phase.unsettled += 1
        if aspect is not None:
            # Who is bound needs no nomination.
            self._stop_keeping(Aspect.NOMINATION if aspect is Aspect.BINDING else aspect, uid)
            if not key:
                self._kept[aspect][uid] = wish
        if after and self.has_writes_in_flight(after):
            self._last.setdefault(after, []).append(wish)
        else:
            self._ask(wish)

    def _stop_keeping(self, aspect: Aspect, uid: str) -> None:
        wish = self._kept[aspect].pop(uid, None)
        if wish is not None:
            self._later.never(wish)

    def pods_kept(self, aspect: Aspect) -> Collection[str]:
        """Return the UIDs of the pods of which this is kept up. A binding is among them once an answer is unknown."""
        return self._kept[aspect].keys()

    def has_writes_in_flight(self, key: str) -> bool:
        """Return True if a write of this key, or one of others that names it, is on its way."""
        return key in self._sent_by_key

    def _ask(self, wish: Wish) -> None:
        action = wish.action = msgspec.structs.replace(wish.action, id=next(self._ids))
        self._sent[action.id] = wish
        wish.keys = {wish.key, self._owner(action.pod.uid) or wish.key} if isinstance(action, Mark) else {wish.key}
        for each in wish.keys:
            self._sent_by_key.setdefault(each, {})[action.id] = wish
        self._send(action)

    # -- answers -------------------------------------------------------------------------------------------

    def answered(self, action_id: int, outcome: Outcome, message: str, now: float) -> Answer | None:
        """The result of a write; None when it is not known any more."""
        wish = self._sent.pop(action_id, None)
        if wish is None:
            return None
        for each in sorted(wish.keys):
            del self._sent_by_key[each][action_id]
            if not self._sent_by_key[each]:
                del self._sent_by_key[each]
                for last in self._last.pop(each, ()):
                    if self._is_kept(last):
                        self._ask(last)
        if not self._differs(wish, outcome):
            return self._end_wish(wish, outcome, message)
        wish.failures += 1
        self._kept[_ASPECTS[type(wish.action)]][wish.action.pod.uid] = wish
        self._later.at(wish, now + self._pause(wish.failures))
        return Answer(wish.key, wish.action, outcome, message, settled=False)

    def _differs(self, wish: Wish, outcome: Outcome) -> bool:
        """Return True if the cluster may still differ from what is wanted."""
        if isinstance(wish.action, Bind):
            return outcome is Outcome.TRANSIENT
        return outcome not in (Outcome.OK, Outcome.GONE) and self._is_kept(wish)

    def _is_kept(self, wish: Wish) -> bool:
        aspect = _ASPECTS.get(type(wish.action))
        return aspect is not None and self._kept[aspect].get(wish.action.pod.uid) is wish

    def _end_wish(self, wish: Wish, outcome: Outcome, message: str) -> Answer:
        """End a wish, which is fulfilled or not wanted any more. Return what is known of it."""
        action, phase = wish.action, wish.phase
        if self._is_kept(wish):
            self._stop_keeping(_ASPECTS[type(action)], action.pod.uid)
        in_phase = phase is not None and self._phases.get(wish.key) is phase
        if phase is not None and in_phase:
            phase.unsettled -= 1
            if not phase.unsettled:
                self._over(wish.key)
            if outcome is not Outcome.OK:
                phase.failed.append(Failure(action.pod.uid, outcome, message))
        return Answer(wish.key, action, outcome, message, in_phase)

    def ask_again(self, now: float) -> list[Answer]:
        """Ask again for what is due, as it is desired by now. Returns what is not, and has come to nothing."""
        over = []
        for wish in self._later.due(now):
            assert isinstance(wish.action, Kept)
            desired = self._again(wish.action)
            if isinstance(desired, str):
                answer = self._end_wish(wish, Outcome.OUTDATED if desired else Outcome.OK, desired)
                over += [answer] if desired else []
                continue
            if wish.phase is not None and self._phases.get(wish.key) is not wish.phase:
                wish.key, wish.phase = "", None  # a phase that is over waits for it no more
            wish.action = desired
            self._ask(wish)
        return over
