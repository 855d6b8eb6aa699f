"""The one walk through the candidates whose quota a workload may take, and the rules of classic preemption for it.

Candidates are taken in the order of the queue rules until the workload fits. Then those that are not needed are put
back, the last taken first. Rules: https://kueue.sigs.k8s.io/docs/concepts/preemption/ . The nodes of the workload are
one more condition of the same walk. With :data:`QUOTA_ALONE`, which is always fulfilled, the victims are exactly those
of the queue rules. A queue that is back within its nominal quota gives no more: borrowed quota is reclaimed, owned
quota never.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeAlias

import msgspec

from gangsched.core.quota.tree import Indexed, Node, Tree, fits_in_quota
from gangsched.core.quota.workloads import Entry, Holder, Holders, Order, Workload, merged
from gangsched.messages import causes
from gangsched.model.queues import ANY, LOWER, LOWER_OR_NEWER, NEVER, ClusterQueue

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


class Target(msgspec.Struct, frozen=True):
    """A candidate, and why it may be taken; without a ``holder`` it holds no quota. ``slots`` are its pods.

    ``priority`` says when its turn comes among those that hold none. One that is ``surplus`` is a member that its gang
    can do without; ``amounts`` are what the holder gives back with it.
    """

    holder: Holder | None
    reason: str
    priority: int
    slots: tuple[int, ...] = ()
    amounts: Indexed = ()
    surplus: bool = False


#: What is taken of a candidate at once.
Step = Sequence[Target]


class Taken(msgspec.Struct, frozen=True):
    """A victim, and the place of its candidate in the order of all."""

    target: Target
    place: int


#: Candidates in order, each with its reason. The caller removes the usage of a taken candidate from the tree before the
#: next.
Walk: TypeAlias = Iterator[tuple[Holder, str]]


class QuotaRules(Protocol):
    """The possible victims for one workload, their order, and the test if quota is enough."""

    tree: Tree

    def counting_workload(self) -> AbstractContextManager[object]:
        """While the walk lasts, usage in the tree is as these rules compare it."""

    def borrowing_choices(self) -> tuple[bool, ...]:
        """Whether the workload may borrow, in the order in which it is tried."""

    def walk(self, borrowing: bool) -> Walk:
        """All candidates in order."""

    def fits(self, borrowing: bool) -> bool:
        """Return True if there is enough quota now."""


class Nodes(Protocol):
    """The needs of a workload beside quota."""

    def taken_of(self, holder: Holder, reason: str) -> Sequence[Step]:
        """Yield the parts of the candidate that may be evicted, step by step: the surplus of an elastic gang, then all
        of it; none if the rules of nodes forbid it.
        """

    def without_queue(self) -> Iterator[Target]:
        """Candidates that hold no quota, the lowest priority first. They are taken only for nodes."""

    def leaves(self, target: Target) -> None:
        """The candidate is taken."""

    def returns(self, target: Target) -> None:
        """It is put back."""

    def fits(self) -> bool:
        """Return True if there is room on nodes now."""

    def exhausted(self) -> bool:
        """Return True if the walk has to end without a choice."""


def whole(holder: Holder, reason: str) -> Step:
    """A candidate whose nodes do not matter."""
    return (Target(holder, reason, holder.priority, amounts=holder.amounts),)


class _QuotaAlone:
    def taken_of(self, holder: Holder, reason: str) -> Sequence[Step]:
        return (whole(holder, reason),)

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

    def __init__(self, rules: QuotaRules, nodes: Nodes = QUOTA_ALONE) -> None:
        self._rules = rules
        self._nodes = nodes
        self._taken: list[Taken] = []

    def run(self) -> list[Taken] | None:
        """The victims, those put back aside, in the order in which they were taken; None if no eviction helps."""
        with self._rules.counting_workload():
            for borrowing in self._rules.borrowing_choices():
                if self._in_order(borrowing):
                    for taken in self._taken:
                        self._use_again(taken.target)
                    return self._taken
        return None

    def _in_order(self, borrowing: bool) -> bool:
        """Take one after another; pods without a queue when quota is enough, before workloads of higher priority."""
        walk, without = self._rules.walk(borrowing), self._nodes.without_queue()
        queued: list[Step] = []
        other = next(without, None)
        last: Step = ()
        while not self._nodes.exhausted():
            short = not self._rules.fits(borrowing)
            if not short and self._nodes.fits():
                known = len(last) if len(last) == 1 else 0  # without it there was not enough
                end = len(self._taken) - known
                self._taken[:end] = self._needed(self._taken[:end], self._taken[end:], borrowing)
                return True
            queued = queued or self._next(walk)
            if other is not None and not short and (not queued or other.priority < queued[0][0].priority):
                last = (other,)
                other = next(without, None)
            elif queued:
                last = queued.pop(0)
            else:
                break
            self._evict(last)
        self._give_back()
        return False

    def _next(self, walk: Walk) -> list[Step]:
        """Yield the parts of the next candidate that may be evicted, step by step."""
        for holder, reason in walk:
            if self._nodes.exhausted():
                break
            steps = self._nodes.taken_of(holder, reason)
            if steps:
                return list(steps)
        return []

    def _evict(self, step: Step) -> None:
        before = self._taken[-1] if self._taken else None
        place = 0
        if before is not None:
            # The rest of a gang comes after its surplus, in the same place.
            place = before.place + (not before.target.surplus or before.target.holder is not step[0].holder)
        for target in step:
            self._leaves(target)
            self._taken.append(Taken(target, place))

    def _needed(self, taken: Sequence[Taken], known: Sequence[Taken], borrowing: bool) -> list[Taken]:
        """Put back who is not needed, the last taken first. Of those ``known`` to be is known that they are; with the
        rest of a gang its surplus leaves too.
        """
        kept = []
        whole = {id(each.target.holder) for each in known if not each.target.surplus}
        for each in reversed(taken):
            if each.target.surplus and id(each.target.holder) in whole:
                kept.append(each)
                continue
            self._returns(each.target)
            if self._rules.fits(borrowing) and self._nodes.fits():
                continue
            self._leaves(each.target)
            kept.append(each)
            if not each.target.surplus:
                whole.add(id(each.target.holder))
        return kept[::-1]

    def _give_back(self) -> None:
        for taken in self._taken:
            self._returns(taken.target)
        self._taken = []

    def _leaves(self, target: Target) -> None:
        if target.holder is not None:
            self._rules.tree.remove(target.holder.node, target.amounts)
        self._nodes.leaves(target)

    def _returns(self, target: Target) -> None:
        self._use_again(target)
        self._nodes.returns(target)

    def _use_again(self, target: Target) -> None:
        if target.holder is not None:
            self._rules.tree.add(target.holder.node, target.amounts)


def holders_of(victims: Iterable[Taken] | None) -> list[tuple[Holder, str]]:
    """The victims that hold quota, in order, each with the reason."""
    found = ((taken.target.holder, taken.target.reason) for taken in victims or ())
    return [(holder, reason) for holder, reason in found if holder is not None]


class Need(msgspec.Struct, frozen=True):
    """The request of a workload to its queue, by cell number; ``cells`` are those for which quota must be freed."""

    workload: Workload
    requests: tuple[tuple[int, int], ...]
    cells: frozenset[int]


def satisfies(policy: str, workload: Workload, candidate: Workload) -> bool:
    """Return True if the policy lets ``workload`` displace ``candidate``."""
    if policy == LOWER_OR_NEWER and candidate.priority == workload.priority:
        return workload.queued < candidate.queued
    if policy in (LOWER, LOWER_OR_NEWER):
        return candidate.priority < workload.priority
    return policy == ANY


def has_room(node: Node, requests: Iterable[tuple[int, int]]) -> bool:
    """Return whether the queue can take these requests now."""
    return all(units <= max(0, node.available(cell)) for cell, units in requests)


class Pool(msgspec.Struct, frozen=True):
    """Queues directly below ``cohort`` as candidates. ``meeting`` is the lowest cohort that they and the preemptor's
    queue are in; ``skip`` is the preemptor's queue where it is one of them.
    """

    cohort: Node
    meeting: Node
    skip: Node
    hierarchical: bool


class ClassicRules:
    """The possible victims for one workload in order; see :class:`QuotaRules`."""

    def __init__(self, holders: Holders, queue: ClusterQueue, need: Need) -> None:
        self.tree: Tree = holders.tree
        self.holders = holders
        self.policy = queue.preemption
        self.node = self.tree.queues[queue.name]
        self.need = need
        self.pools = self._pools() if self.policy.reclaim != NEVER else []

    # -- candidates ----------------------------------------------------------------------------------------

    def _pools(self) -> list[Pool]:
        """Cohorts in which queues may use more than their quota of what is needed, from the nearest up to the root."""
        out: list[Pool] = []
        ahead, rest = fits_in_quota(self.node, self.need.requests)
        below = self.node
        for cohort in self.node.ancestors():
            self._collect(cohort, cohort, below, ahead, out)
            fits, rest = fits_in_quota(cohort, rest)
            ahead = ahead or fits
            below = cohort
        return out

    def _collect(self, cohort: Node, meeting: Node, skip: Node, hierarchical: bool, out: list[Pool]) -> None:
        out.append(Pool(cohort, meeting, skip, hierarchical))
        for child in cohort.cohorts_over(self.need.cells):
            if child is not skip:
                self._collect(child, meeting, skip, hierarchical, out)

    def _goes_to_borrowers(self, holder: Holder) -> bool:
        """Return True if the preemptor may take this candidate's quota although its queue borrows then. The quota is no
        nearer to the preemptor.
        """
        policy, threshold = self.policy, self.policy.threshold
        return (
            policy.borrow != NEVER
            and holder.priority < self.need.workload.priority
            and (threshold is None or holder.priority <= threshold)
        )

    def _passing(self, entries: Sequence[Entry], policy: str) -> Iterator[Entry]:
        """Entries that the policy lets go and that use what is needed."""
        workload, cells, promised = self.need.workload, self.need.cells, self.holders.promised
        highest = self._highest(policy)
        for entry in entries:
            holder = entry[1]
            if holder.priority > highest:
                return  # entries are sorted by priority
            candidate = holder.admission.workload
            if cells.isdisjoint(holder.cells) or candidate.uid in promised:
                continue
            if satisfies(policy, workload, candidate):
                yield entry

    def _highest(self, policy: str) -> float:
        """No workload of a higher priority may go."""
        if policy == ANY:
            return math.inf
        return self.need.workload.priority - (policy == LOWER)

    def _others(self, evicted: bool, hierarchical: bool) -> Iterator[tuple[Order, Holder, Node]]:
        """Candidates of other queues in order, each with the cohort in which its queue meets the preemptor's.

        Within an attempt usage only falls: a queue above its quota was above it from the beginning.
        """
        rankings, highest = self.holders.rankings(evicted), self._highest(self.policy.reclaim)
        pools = [p for p in self.pools if p.hierarchical == hierarchical]
        if not pools:
            return iter(())

        def queues(pool: Pool) -> Iterator[tuple[Order, Node, Node]]:
            for first, node in rankings.ranking_of(pool.cohort).above(self.need.cells):
                if first[0] > highest:
                    return
                if node is not pool.skip and not node.kept:
                    yield first, node, pool.meeting

        found = queues(pools[0]) if len(pools) == 1 else heapq.merge(*map(queues, pools), key=lambda q: q[0])
        return merged((first, self._from_queue(node, meeting, evicted)) for first, node, meeting in found)

    def _from_queue(self, node: Node, meeting: Node, evicted: bool) -> Iterator[tuple[Order, Holder, Node]]:
        for order, holder in self._passing(self.holders.entries(node.name, evicted), self.policy.reclaim):
            if node.within(self.need.cells):
                return
            yield order, holder, meeting

    def _of_others(self, borrowing: bool, evicted: bool) -> Walk:
        # Without borrowWithinCohort only those with a better right to the quota may borrow at others' expense.
        rights = (True,) if borrowing and self.policy.borrow == NEVER else (True, False)
        for hierarchical in rights:
            for _, holder, meeting in self._others(evicted, hierarchical):
                while_borrowing = not hierarchical and self._goes_to_borrowers(holder)
                entitled = hierarchical or while_borrowing or not borrowing
                if entitled and not self._lends(holder.node, meeting):
                    yield holder, RECLAIM_WHILE_BORROWING if while_borrowing else RECLAMATION

    def _of_own(self, evicted: bool) -> Walk:
        if self.policy.within != NEVER:
            for _, holder in self._passing(self.holders.entries(self.node.name, evicted), self.policy.within):
                yield holder, IN_QUEUE

    def _lends(self, queue: Node, meeting: Node) -> bool:
        """Return True if the queue, or a cohort between it and the preemptor, is within its own quota by now."""
        if queue.within(self.need.cells):
            return True
        for cohort in queue.ancestors():
            if cohort is meeting:
                return False
            if cohort.within(self.need.cells):
                return True
        return False

    def _any(self, hierarchical: bool) -> bool:
        """Return True if there is any candidate of another queue with (without) hierarchical advantage."""
        return any(True for evicted in (True, False) for _ in self._others(evicted, hierarchical))

    def _attempts(self) -> tuple[bool, ...]:
        hierarchical, others = self._any(True), self._any(False)
        if not hierarchical and not others:
            return (True,)
        if self.policy.borrow == NEVER:
            if not all(self.node.usage[c] < self.node.nominal[c] for c in self.need.cells):
                return (True,)
            if not hierarchical:
                return (False, True)
        return (True, False)

    def borrowing_choices(self) -> tuple[bool, ...]:
        """Whether the workload may borrow, in the order in which it is tried."""
        return tuple(b for b in self._attempts() if b or self._own_quota_suffices())

    def walk(self, borrowing: bool) -> Walk:
        """Candidates in order: those already evicted first; among these by entitlement, then priority and age.

        With ``borrowing`` those are left out that may only be taken by a queue that does not borrow.
        """
        for evicted in (True, False):
            yield from self._of_others(borrowing, evicted)
            yield from self._of_own(evicted)

    def eligible(self) -> Walk:
        """All workloads that might be taken, before any was."""
        return self.walk(all(self._attempts()))

    # -- how much is enough --------------------------------------------------------------------------------

    def counting_workload(self) -> AbstractContextManager[object]:
        """Usage in the tree is compared as it is."""
        return nullcontext()

    def fits(self, borrowing: bool) -> bool:
        """Return whether the queue can take the workload now, and (without ``borrowing``) within its nominal quota of
        what quota must be freed for. What it borrows of another resource that is not short takes nothing from others:
        https://github.com/kubernetes-sigs/kueue/issues/7393 .
        """
        short = self.need.cells
        return has_room(self.node, self.need.requests) and (
            borrowing or not any(self.node.borrows(c, units) for c, units in self.need.requests if c in short)
        )

    def _own_quota_suffices(self) -> bool:
        """Return True if the workload could be within nominal quota without all candidates of its own queue. This saves
        a walk that cannot succeed.
        """
        node = self.node
        asked = ((c, units) for c, units in self.need.requests if c in self.need.cells)
        missing = {c: u for c, units in asked if (u := node.usage[c] + units - node.nominal[c]) > 0}
        if not missing or self.policy.within == NEVER:
            return not missing
        for evicted in (True, False):
            for _, holder in self._passing(self.holders.entries(self.node.name, evicted), self.policy.within):
                for cell, units in holder.amounts:
                    if cell in missing:
                        missing[cell] -= units
        return all(units <= 0 for units in missing.values())
