"""The one walk through the candidates whose quota a workload may take.

Candidates are taken in the order of the queue rules until the workload fits; then those that turn out not to be needed
are put back, the last taken first. Rules: https://kueue.sigs.k8s.io/docs/concepts/preemption/ . What else the workload
needs, its nodes, is one more condition of the same walk: with :data:`QUOTA_ALONE`, which is always content, the victims
are exactly those of the queue rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import msgspec

from gangsched.core.quota.admitted_workloads import Holder
from gangsched.core.quota.tree import Tree
from gangsched.messages import causes

#: Why a workload was displaced, in Kueue's words.
IN_QUEUE = "InClusterQueue"
RECLAMATION = "InCohortReclamation"
RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
FAIR_SHARING = "InCohortFairSharing"

#: The same for people.
REASON_TEXT = {
    IN_QUEUE: causes.IN_CLUSTER_QUEUE,
    RECLAMATION: causes.IN_COHORT,
    RECLAIM_WHILE_BORROWING: causes.IN_COHORT_WHILE_BORROWING,
    FAIR_SHARING: causes.FAIR_SHARING,
}

#: Above the place of every candidate of another queue.
_OWN_QUEUE = 2**30


class Target(msgspec.Struct, frozen=True):
    """A candidate, and why it may be taken; without a ``holder`` it holds no quota. ``slots`` are its pods.

    ``priority`` says when its turn comes among those that hold none.
    """

    holder: Holder | None
    reason: str
    priority: int
    slots: tuple[int, ...] = ()


class Taken(msgspec.Struct, frozen=True):
    """A victim, and its place in the order of all candidates."""

    target: Target
    place: int


#: Candidates in order, each with its reason. Who takes one removes its usage from the tree before the next.
Walk = Iterator[tuple[Holder, str]]


class OwnLimits(NamedTuple):
    """The order of candidates in parts: those being evicted already, of other queues, of the own queue. ``within``: is
    there room now in what the queue may use at most, whatever other queues use?
    """

    leaving: Walk
    others: Walk
    own: Walk
    within: Callable[[], bool]


class Rules(Protocol):
    """Who may be taken for one workload, in which order, and when its quota is enough."""

    tree: Tree

    def counted(self) -> AbstractContextManager[object]:
        """While the walk lasts, usage in the tree is as these rules compare it."""

    def ways(self) -> tuple[bool, ...]:
        """Whether the workload may borrow, in the order in which it is tried; nothing when no workload may be taken."""

    def walk(self, borrowing: bool) -> Walk:
        """All candidates in order."""

    def fits(self, borrowing: bool) -> bool:
        """Is there quota enough now?"""

    def own_limits(self, borrowing: bool) -> OwnLimits | None:
        """What the order consists of, if some of the own queue have to make room in the queue's own limits."""


class Nodes(Protocol):
    """What a workload needs beside quota."""

    def target(self, holder: Holder, reason: str) -> Target | None:
        """The candidate; None if nodes say that it may not be taken."""

    def without_queue(self) -> Iterator[Target]:
        """Candidates that hold no quota, the lowest priority first. They are taken only for nodes."""

    def leaves(self, target: Target) -> None:
        """The candidate is taken."""

    def returns(self, target: Target) -> None:
        """It is put back."""

    def fits(self) -> bool:
        """Is there room on nodes now?"""

    def exhausted(self) -> bool:
        """Has the walk to end without a choice?"""


class _QuotaAlone:
    def target(self, holder: Holder, reason: str) -> Target | None:
        return Target(holder, reason, holder.priority)

    def without_queue(self) -> Iterator[Target]:
        return iter(())

    def leaves(self, target: Target) -> None:
        pass

    def returns(self, target: Target) -> None:
        pass

    def fits(self) -> bool:
        return True

    def exhausted(self) -> bool:
        return False


#: Wherever there is quota there are nodes.
QUOTA_ALONE = _QuotaAlone()


class VictimSearch:
    """One walk. It changes usage in the tree and puts it back before it returns."""

    def __init__(self, rules: Rules, nodes: Nodes = QUOTA_ALONE) -> None:
        self._rules = rules
        self._nodes = nodes
        self._taken: list[Taken] = []

    def run(self) -> list[Taken] | None:
        """The victims, those put back aside, in the order in which they were taken; None if no eviction helps."""
        with self._rules.counted():
            for borrowing in self._rules.ways():
                if self._own_first(borrowing) or self._in_order(borrowing):
                    for holder, _ in holders_of(self._taken):
                        self._rules.tree.add(holder.node, holder.amounts)
                    return self._taken
        return None

    def _in_order(self, borrowing: bool) -> bool:
        """Take one after another; pods without a queue when quota is enough, before workloads of higher priority."""
        walk, without = self._rules.walk(borrowing), self._nodes.without_queue()
        queued: Target | None = None
        other = next(without, None)
        while not self._nodes.exhausted():
            short = not self._rules.fits(borrowing)
            if not short and self._nodes.fits():
                self._taken[:-1] = self._needed(self._taken[:-1], self._enough(borrowing))
                return True
            queued = queued or self._next(walk)
            if other is not None and not short and (queued is None or other.priority < queued.priority):
                self._take(other)
                other = next(without, None)
            elif queued is not None:
                self._take(queued)
                queued = None
            else:
                break
        self._give_back()
        return False

    def _own_first(self, borrowing: bool) -> bool:
        """The same where the queue's own workloads have to make room in the queue's own limits.

        They are the last in the order of candidates: taking all before them only to put them back would cost as
        much as is lent in the whole cohort. What others use does not matter to these limits, so it is known at once
        who of the own queue goes, and of the others only the first in order are needed. False when this is not the
        case, or when there may be victims that are not found in this way.
        """
        parts = self._rules.own_limits(borrowing)
        if parts is None:
            return False
        enough = self._enough(borrowing)
        for _ in self._take_all(parts.leaving):
            pass
        others, self._taken = self._taken, []
        good = not parts.within() and any(parts.within() for _ in self._take_all(parts.own, _OWN_QUEUE))
        own, self._taken = self._taken, others
        if good:
            own[:-1] = self._needed(own[:-1], parts.within)
            good = enough() or any(enough() for _ in self._take_all(parts.others))
        if good:
            # The very last in order is one of the own queue, so that all others may be put back.
            self._taken = self._needed(self._taken, enough)
        self._taken += own
        if not good:
            self._give_back()
        return good

    def _enough(self, borrowing: bool) -> Callable[[], bool]:
        return lambda: self._rules.fits(borrowing) and self._nodes.fits()

    def _next(self, walk: Walk) -> Target | None:
        for holder, reason in walk:
            if self._nodes.exhausted():
                return None
            target = self._nodes.target(holder, reason)
            if target is not None:
                return target
        return None

    def _take_all(self, walk: Walk, first: int = 0) -> Iterator[Target]:
        """Take one each time the next is asked for."""
        while (target := self._next(walk)) is not None:
            self._take(target, first)
            yield target

    def _take(self, target: Target, first: int = 0) -> None:
        self._leaves(target)
        self._taken.append(Taken(target, first + len(self._taken)))

    def _needed(self, taken: Sequence[Taken], enough: Callable[[], bool]) -> list[Taken]:
        """Put back who is not needed, the last taken first."""
        kept = []
        for each in reversed(taken):
            self._returns(each.target)
            if not enough():
                self._leaves(each.target)
                kept.append(each)
        return kept[::-1]

    def _give_back(self) -> None:
        for taken in self._taken:
            self._returns(taken.target)
        self._taken = []

    def _leaves(self, target: Target) -> None:
        if target.holder is not None:
            self._rules.tree.remove(target.holder.node, target.holder.amounts)
        self._nodes.leaves(target)

    def _returns(self, target: Target) -> None:
        if target.holder is not None:
            self._rules.tree.add(target.holder.node, target.holder.amounts)
        self._nodes.returns(target)


def holders_of(victims: Iterable[Taken] | None) -> list[tuple[Holder, str]]:
    """Those of the victims that hold quota, in order, each with the reason."""
    found = ((taken.target.holder, taken.target.reason) for taken in victims or ())
    return [(holder, reason) for holder, reason in found if holder is not None]
