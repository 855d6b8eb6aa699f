"""What is wanted of the cluster and not known to be so: every write that has been asked for, until it is settled.

A *phase* of a plan or an eviction asks for writes and is over when each of them is settled; whether it succeeded is
asked only then, so that a failed phase is never left while some of its writes may still take effect. What has to be so
in the end, whatever becomes of the plan that wanted it, is *kept up*: as long as it is not known to be so it is asked
for again, with growing pauses. That holds for every binding, since none can be taken back: an answer that does not
say what has become of it settles nothing, and only the same binding again can tell.

It costs the same for each answer, however much is on its way.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, TypeAlias

from gangsched.core.actions import Action, Bind, Mark, Nominate, Removal, Spare, Unmark, WithdrawNomination, Write
from gangsched.core.agenda import Page
from gangsched.core.events import Failure, Outcome

#: What can be kept up.
Kept: TypeAlias = Bind | WithdrawNomination | Mark | Unmark


class Aspect(enum.Enum):
    """What of a pod a write is about: of each, what was wanted last is what is wanted."""

    BINDING = "binding"
    NOMINATION = "nomination"
    MARK = "mark"


_ASPECTS: dict[type[Write], Aspect] = {
    Bind: Aspect.BINDING,
    Nominate: Aspect.NOMINATION,
    WithdrawNomination: Aspect.NOMINATION,
    Mark: Aspect.MARK,
    Unmark: Aspect.MARK,
}


class Answer(NamedTuple):
    """A write has been answered: what was asked for, and by whom (the key; empty for writes without a waiter).
    ``in_phase`` says that the present phase of theirs has waited for it; ``settled`` is False if it will be asked for
    again.
    """

    key: str
    action: Write
    in_phase: bool
    settled: bool


class _Phase:
    __slots__ = ("failed", "unsettled")

    def __init__(self) -> None:
        self.unsettled = 0
        self.failed: list[Failure] = []


class Wish:
    """Something that is wanted: the write that says so, as it was sent last."""

    __slots__ = ("action", "failures", "key", "keys", "phase")

    def __init__(self, key: str, action: Write, phase: _Phase | None = None) -> None:
        self.key = key
        self.keys = {key}  # whom it is about, as it was sent last
        self.action = action
        self.phase = phase
        self.failures = 0


class Actuator:
    """Hands writes to ``send``, in the order in which they are asked for. ``pause`` says for how many seconds nothing
    is asked for again that has failed so often, ``later`` when each is due that is. Keys are those of groups and
    evictions; ``owners`` has those that a mark on a pod (UID) names.
    """

    def __init__(
        self,
        send: Callable[[Action], None],
        pause: Callable[[int], float],
        later: Page[Wish],
        owners: Callable[[str], Collection[str]] = lambda _: (),
    ) -> None:
        self._send = send
        self._pause = pause
        self._owners = owners
        self._sent: dict[int, Wish] = {}
        self._of: Counter[str] = Counter()
        self._phases: dict[str, _Phase] = {}
        self._kept: dict[Aspect, dict[str, Wish]] = {aspect: {} for aspect in Aspect}
        self._later = later
        self._last: dict[str, list[Wish]] = {}  # those that are sent when nothing of a key is on its way any more
        self._removals: dict[str, dict[int, Removal]] = {}  # on their way, and wanted
        self._removing: Counter[str] = Counter()  # how many of them each pod or Job has, by UID

    # -- phases --------------------------------------------------------------------------------------------

    def begin(self, key: str) -> None:
        """A phase begins: what was asked for before is not waited for any more."""
        self._phases[key] = _Phase()

    def end(self, key: str) -> None:
        """Nothing is waited for any more."""
        self._phases.pop(key, None)

    def settled(self, key: str) -> bool:
        """Is every write of the phase settled?"""
        phase = self._phases.get(key)
        return phase is None or not phase.unsettled

    def failures(self, key: str) -> list[Failure]:
        """What has failed in the phase so far."""
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

    def ask(self, key: str, action: Write) -> None:
        """The phase, if one has begun, waits for this, which is asked for once."""
        phase = self._phases.get(key)
        if phase is not None:
            phase.unsettled += 1
        self._instead_of_others(action)
        self._ask(Wish(key, action, phase))

    def keep_up(self, action: Kept, key: str = "", *, after: str = "") -> None:
        """This has to be so in the end. It is not asked for while writes of the key ``after`` are on their way."""
        wish = Wish(key, action)
        self._instead_of_others(action)
        self._kept[_ASPECTS[type(action)]][action.pod.uid] = wish
        if after and self.any_of(after):
            self._last.setdefault(after, []).append(wish)
        else:
            self._ask(wish)

    def _instead_of_others(self, action: Write) -> None:
        """What was wanted of the pod in this respect is not wanted any more; who is bound needs no nomination."""
        if isinstance(action, Bind):
            self._drop(Aspect.NOMINATION, action.pod.uid)
        elif type(action) in _ASPECTS:
            self._drop(_ASPECTS[type(action)], action.pod.uid)

    def _drop(self, aspect: Aspect, uid: str) -> None:
        wish = self._kept[aspect].pop(uid, None)
        if wish is not None:
            self._later.never(wish)

    def kept(self, aspect: Aspect) -> Collection[str]:
        """The UIDs of the pods of which this is kept up. A binding is among them once an answer is unknown."""
        return self._kept[aspect].keys()

    def spare(self, key: str, removals: Collection[Removal]) -> None:
        """These removals, which are on their way, are not wanted any more by who has asked for them. Pods and Jobs that
        no other eviction needs are spared.
        """
        for removal in removals:
            self._unwanted(key, removal.id)
        for removal in removals:
            if removal.pod.uid not in self._removing:
                self._send(Spare(removal.pod))

    def removals(self, key: str) -> list[Removal]:
        """The removals that are on their way and still wanted by those with this key, oldest first."""
        return list(self._removals.get(key, {}).values())

    def removing(self) -> list[str]:
        """The keys that have any."""
        return list(self._removals)

    def any_of(self, key: str) -> bool:
        """Is any write of this key on its way, or one of others that names it?"""
        return key in self._of

    def _ask(self, wish: Wish) -> None:
        action = wish.action
        self._sent[action.id] = wish
        wish.keys = {wish.key, *self._owners(action.pod.uid)} if isinstance(action, Mark) else {wish.key}
        self._of.update(wish.keys)
        if isinstance(action, Removal):
            self._removals.setdefault(wish.key, {})[action.id] = action
            self._removing[action.pod.uid] += 1
        self._send(action)

    def _unwanted(self, key: str, action_id: int) -> None:
        known = self._removals.get(key, {})
        action = known.pop(action_id, None)
        if action is None:
            return
        if not known:
            del self._removals[key]
        self._removing[action.pod.uid] -= 1
        if not self._removing[action.pod.uid]:
            del self._removing[action.pod.uid]

    # -- answers -------------------------------------------------------------------------------------------

    def answered(self, action_id: int, outcome: Outcome, message: str, now: float) -> Answer | None:
        """What has become of a write; None when it is not known any more."""
        wish = self._sent.pop(action_id, None)
        if wish is None:
            return None
        key = wish.key
        if isinstance(wish.action, Removal):
            self._unwanted(key, action_id)
        for each in sorted(wish.keys):
            self._of[each] -= 1
            if not self._of[each]:
                del self._of[each]
                self._ask_last(self._last.pop(each, ()))
        if self._differs(wish, outcome):
            wish.failures += 1
            self._ask_later(wish, now + self._pause(wish.failures))
            return Answer(key, wish.action, in_phase=False, settled=False)
        return Answer(key, wish.action, self.settle(wish, outcome, message), settled=True)

    def _ask_last(self, wishes: Iterable[Wish]) -> None:
        for wish in wishes:
            if self._is_kept(wish):
                self._ask(wish)

    def _differs(self, wish: Wish, outcome: Outcome) -> bool:
        """May the cluster still be other than what has to be so?"""
        if isinstance(wish.action, Bind):
            return outcome is Outcome.TRANSIENT
        return outcome not in (Outcome.OK, Outcome.GONE) and self._is_kept(wish)

    def _is_kept(self, wish: Wish) -> bool:
        action = wish.action
        return isinstance(action, Kept) and self._kept[_ASPECTS[type(action)]].get(action.pod.uid) is wish

    def settle(self, wish: Wish, outcome: Outcome, message: str) -> bool:
        """This is the end of a wish, which is fulfilled or not wanted any more, and what is known of it. Returns
        whether its phase has waited for it.
        """
        action, phase = wish.action, wish.phase
        if self._is_kept(wish):
            self._drop(_ASPECTS[type(action)], action.pod.uid)
        if phase is None or self._phases.get(wish.key) is not phase:
            return False
        phase.unsettled -= 1
        if outcome is not Outcome.OK:
            phase.failed.append(Failure(action.pod.uid, outcome, message))
        return True

    # -- asking again --------------------------------------------------------------------------------------

    def _ask_later(self, wish: Wish, when: float) -> None:
        action = wish.action
        assert isinstance(action, Kept)
        self._kept[_ASPECTS[type(action)]][action.pod.uid] = wish
        self._later.at(wish, when)

    def due(self, now: float) -> list[Wish]:
        """What is to be asked for again, each once."""
        return self._later.due(now)

    def ask_again(self, wish: Wish, action: Kept) -> None:
        """Ask for it again, in the words of now. A phase that is over waits for it no more."""
        if wish.phase is not None and self._phases.get(wish.key) is not wish.phase:
            wish.key, wish.phase = "", None
        wish.action = action
        self._ask(wish)
