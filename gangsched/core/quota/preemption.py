"""Whose quota a workload may take under classic preemption, and in which order.

Rules: https://kueue.sigs.k8s.io/docs/concepts/preemption/ . A queue that is back within its nominal quota is left
alone: quota that is lent out is asked back, quota that is owned never is.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain

import msgspec

from gangsched.core.quota.admitted_workloads import Entry, Holder, Holders, Order, merged
from gangsched.core.quota.tree import Node, Tree, fits_in_quota
from gangsched.core.quota.victims import IN_QUEUE, RECLAIM_WHILE_BORROWING, RECLAMATION, OwnLimits, Walk
from gangsched.core.quota.workloads import Workload
from gangsched.model.queues import ANY, LOWER, LOWER_OR_NEWER, NEVER, ClusterQueue


class Need(msgspec.Struct, frozen=True):
    """What a workload asks of its queue, by cell number; ``cells`` are those for which quota must be freed."""

    workload: Workload
    requests: tuple[tuple[int, int], ...]
    cells: frozenset[int]


def satisfies(policy: str, workload: Workload, candidate: Workload) -> bool:
    """Does the policy let ``workload`` displace ``candidate``?"""
    if policy == LOWER_OR_NEWER and candidate.priority == workload.priority:
        return workload.queued < candidate.queued
    if policy in (LOWER, LOWER_OR_NEWER):
        return candidate.priority < workload.priority
    return policy == ANY


def has_room(node: Node, requests: Iterable[tuple[int, int]], borrowing: bool = True) -> bool:
    """Can the queue take these requests now, and (without ``borrowing``) within its nominal quota?"""
    return all(
        units <= max(0, node.available(cell)) and (borrowing or not node.borrows(cell, units))
        for cell, units in requests
    )


class Pool(msgspec.Struct, frozen=True):
    """Queues directly below ``cohort`` as candidates. ``meeting`` is the lowest cohort that they and the preemptor's
    queue are in; ``skip`` is the preemptor's queue where it is one of them.
    """

    cohort: Node
    meeting: Node
    skip: Node
    hierarchical: bool


class ClassicRules:
    """Who may be taken for one workload, and in which order; see :class:`~.victims.Rules`."""

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
        """May the preemptor take this candidate's quota, which is no nearer to it, although its queue borrows then?"""
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

        Within an attempt usage only falls: who is above its quota when it is asked for was so from the beginning.
        """
        rankings, highest = self.holders.rankings(evicted), self._highest(self.policy.reclaim)
        pools = [p for p in self.pools if p.hierarchical == hierarchical]
        if not pools:
            return iter(())

        def queues(pool: Pool) -> Iterator[tuple[Order, Node, Node]]:
            for first, node in rankings.of(pool.cohort).above(self.need.cells):
                if first[0] > highest:
                    return
                if node is not pool.skip:
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
        """Is the queue, or a cohort between it and the preemptor, within its own quota by now?"""
        if queue.within(self.need.cells):
            return True
        for cohort in queue.ancestors():
            if cohort is meeting:
                return False
            if cohort.within(self.need.cells):
                return True
        return False

    def _any(self, hierarchical: bool) -> bool:
        """Is there any candidate of another queue with (without) hierarchical advantage?"""
        return any(True for evicted in (True, False) for _ in self._others(evicted, hierarchical))

    def _nobody(self) -> bool:
        """Is it plain that there is no candidate at all? Most that wait ask when none may be taken."""
        holders, cells = self.holders, self.need.cells
        within, reclaim = self._highest(self.policy.within), self._highest(self.policy.reclaim)
        for evicted in (False, True):
            if self.policy.within != NEVER:
                first = holders.first(self.node, evicted)
                if first is not None and first[0] <= within:
                    return False
            rankings = holders.rankings(evicted)
            for pool in self.pools:
                for order, node in rankings.of(pool.cohort).above(cells):
                    if order[0] > reclaim:
                        break
                    if node is not pool.skip:
                        return False
        return True

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

    def ways(self) -> tuple[bool, ...]:
        """Whether the workload may borrow, in the order in which it is tried; nothing when no workload may be taken."""
        if not self.fits(True) and self._nobody():
            return ()
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

    def counted(self) -> AbstractContextManager[object]:
        """Usage in the tree is compared as it is."""
        return nullcontext()

    def fits(self, borrowing: bool) -> bool:
        """Can the queue take the workload now, and (without ``borrowing``) within its nominal quota?"""
        return has_room(self.node, self.need.requests, borrowing)

    def own_limits(self, borrowing: bool) -> OwnLimits | None:
        """See :class:`~.victims.Rules`."""
        if self._within_limits(borrowing):
            return None
        leaving = chain(self._of_others(borrowing, True), self._of_own(True))
        others, own = self._of_others(borrowing, False), self._of_own(False)
        return OwnLimits(leaving, others, own, lambda: self._within_limits(borrowing))

    def _within_limits(self, borrowing: bool) -> bool:
        """Would the workload be within what the queue may use at most, whatever others use?"""
        node = self.node
        return all(
            (borrowing or not node.borrows(cell, units))
            and (
                (limit := node.borrowing[cell]) is None
                or units <= max(0, node.subtree[cell] + limit - node.usage[cell])
            )
            for cell, units in self.need.requests
        )

    def _own_quota_suffices(self) -> bool:
        """Could the workload be within nominal quota if all candidates of its own queue went? Saves a vain walk."""
        node = self.node
        missing = {c: u for c, units in self.need.requests if (u := node.usage[c] + units - node.nominal[c]) > 0}
        if not missing or self.policy.within == NEVER:
            return not missing
        for evicted in (True, False):
            for _, holder in self._passing(self.holders.entries(self.node.name, evicted), self.policy.within):
                for cell, units in holder.amounts:
                    if cell in missing:
                        missing[cell] -= units
        return all(units <= 0 for units in missing.values())
