"""Whose quota a workload may take, and which of those workloads have to go.

Rules: https://kueue.sigs.k8s.io/docs/concepts/preemption/ , classic preemption. Candidates are taken in order until the
workload fits; then those that turn out not to be needed are put back, the last taken first. A queue that is back within
its nominal quota is left alone: quota that is lent out is asked back, quota that is owned never is.
"""

from __future__ import annotations

import enum
import heapq
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

import msgspec

from gangsched.core.quota.flavors import Mode
from gangsched.core.quota.holders import Entry, Holder, Holders, Order
from gangsched.core.quota.ranking import merged
from gangsched.core.quota.tree import Node, Tree, fits_in_quota, lowest_fitting
from gangsched.core.quota.workloads import Workload
from gangsched.model.queues import ANY, LOWER, LOWER_OR_NEWER, NEVER, ClusterQueue

#: Why a workload was displaced, in Kueue's words.
IN_QUEUE = "InClusterQueue"
RECLAMATION = "InCohortReclamation"
RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
FAIR_SHARING = "InCohortFairSharing"

#: The same for people.
REASON_TEXT = {
    IN_QUEUE: "prioritization in the ClusterQueue",
    RECLAMATION: "reclamation within the cohort",
    RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
    FAIR_SHARING: "Fair Sharing within the cohort",
}


class Variant(enum.Enum):
    """What entitles the preemptor to a candidate's quota.

    ``HIERARCHICAL``: the quota belongs to a subtree that both are in, and in which the preemptor is nearer to it.
    ``NOT_BORROWING`` candidates go only if the preemptor's queue ends within its nominal quota.
    """

    OWN_QUEUE = IN_QUEUE
    HIERARCHICAL = "HierarchicalReclaim"
    NOT_BORROWING = "ReclaimWithoutBorrowing"
    BORROWING = RECLAIM_WHILE_BORROWING

    @property
    def reason(self) -> str:
        """The reason that users see."""
        if self is Variant.OWN_QUEUE:
            return IN_QUEUE
        return RECLAIM_WHILE_BORROWING if self is Variant.BORROWING else RECLAMATION


class Need(msgspec.Struct, frozen=True):
    """What a workload asks of its queue, by cell number; ``cells`` are those for which quota must be freed."""

    workload: Workload
    requests: tuple[tuple[int, int], ...]
    cells: frozenset[int]


class Target(msgspec.Struct, frozen=True):
    """A workload that has to go, and why it may be taken."""

    holder: Holder
    reason: str


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


def fill_back(tree: Tree, taken: list[Target], fits: Callable[[], bool]) -> list[Target]:
    """Put back who is not needed, the last taken first; the very last is what made room. Usage is kept in step."""
    kept = taken[-1:]
    for target in reversed(taken[:-1]):
        tree.add(target.holder.node, target.holder.amounts)
        if not fits():
            tree.remove(target.holder.node, target.holder.amounts)
            kept.append(target)
    return kept[::-1]


class Pool(msgspec.Struct, frozen=True):
    """Queues directly below ``cohort`` as candidates. ``meeting`` is the lowest cohort that they and the preemptor's
    queue are in; ``skip`` is the preemptor's queue where it is one of them.
    """

    cohort: Node
    meeting: Node
    skip: Node
    hierarchical: bool


class Search:
    """The search for one workload's victims. It changes usage in the tree and puts it back before it returns."""

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

    def variant(self, holder: Holder, hierarchical: bool) -> Variant:
        """What entitles the preemptor to this candidate, if its queue's policy lets it be one."""
        if holder.node is self.node:
            return Variant.OWN_QUEUE
        if hierarchical:
            return Variant.HIERARCHICAL
        threshold = self.policy.threshold
        if (
            self.policy.borrow == NEVER
            or holder.priority >= self.need.workload.priority
            or (threshold is not None and holder.priority > threshold)
        ):
            return Variant.NOT_BORROWING
        return Variant.BORROWING

    def _passing(self, entries: Sequence[Entry], policy: str) -> Iterator[Entry]:
        """Entries that the policy lets go and that use what is needed."""
        workload, cells, taken = self.need.workload, self.need.cells, self.holders.taken
        highest = self._highest(policy)
        for entry in entries:
            holder = entry[1]
            if holder.priority > highest:
                return  # entries are sorted by priority
            candidate = holder.admission.workload
            if cells.isdisjoint(holder.cells) or candidate.uid in taken:
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

    def _ordered(self, borrowing: bool) -> Iterator[tuple[Holder, Variant]]:
        """Candidates in order: those already evicted first; among these by entitlement, then priority and age.

        With ``borrowing`` those are left out that may only go to somebody who does not borrow.
        """
        for evicted in (True, False):
            yield from self._of_others(borrowing, evicted)
            yield from self._of_own(evicted)

    def _of_others(self, borrowing: bool, evicted: bool) -> Iterator[tuple[Holder, Variant]]:
        # Without borrowWithinCohort nobody but those with a better right to the quota may borrow at others' expense.
        rights = (True,) if borrowing and self.policy.borrow == NEVER else (True, False)
        for hierarchical in rights:
            for _, holder, meeting in self._others(evicted, hierarchical):
                variant = self.variant(holder, hierarchical)
                if borrowing and variant is Variant.NOT_BORROWING:
                    continue
                if not self._lends(holder.node, meeting):
                    yield holder, variant

    def _of_own(self, evicted: bool) -> Iterator[tuple[Holder, Variant]]:
        if self.policy.within != NEVER:
            for _, holder in self._passing(self.holders.entries(self.node.name, evicted), self.policy.within):
                yield holder, Variant.OWN_QUEUE

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
        """Is it plain that there is no candidate at all? Of those who wait, most ask when nobody may go for them."""
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

    def attempts(self) -> tuple[bool, ...]:
        """Whether to borrow, in the order in which it is tried."""
        hierarchical, others = self._any(True), self._any(False)
        if not hierarchical and not others:
            return (True,)
        if self.policy.borrow == NEVER:
            if not all(self.node.usage[c] < self.node.nominal[c] for c in self.need.cells):
                return (True,)
            if not hierarchical:
                return (False, True)
        return (True, False)

    # -- the choice ----------------------------------------------------------------------------------------

    def fits(self, borrowing: bool = True) -> bool:
        """Does the workload fit now?"""
        return has_room(self.node, self.need.requests, borrowing)

    def victims(self) -> list[Target]:
        """Who has to go, in the order in which they were chosen; nobody if that would not help."""
        if self._nobody():
            return []
        for borrowing in self.attempts():
            found = self._attempt(borrowing)
            if found:
                return found
        return []

    def _attempt(self, borrowing: bool) -> list[Target]:
        if not borrowing and not self._own_quota_suffices():
            return []
        found = self._own_first(borrowing)
        if found:
            return found
        taken: list[Target] = []
        if self._take(self._ordered(borrowing), taken, lambda: self.fits(borrowing)):
            taken = fill_back(self.tree, taken, lambda: self.fits(borrowing))
            restore(self.tree, taken)
            return taken
        restore(self.tree, taken)
        return []

    def _take(self, walk: Iterator[tuple[Holder, Variant]], taken: list[Target], enough: Callable[[], bool]) -> bool:
        """Take one after another until it is enough; False when it never is."""
        for holder, variant in walk:
            self.tree.remove(holder.node, holder.amounts)
            taken.append(Target(holder, variant.reason))
            if enough():
                return True
        return False

    def _own_first(self, borrowing: bool) -> list[Target]:
        """The victims where the queue's own workloads have to make room in the queue's own limits.

        They are the last in the order of candidates: taking everybody before them only to put them back would cost as
        much as is lent in the whole cohort. What others use does not matter to these limits, so it is known at once
        who of the own queue goes, and of the others only the first in order are needed. Empty when this is not the
        case, or when there may be victims that are not found in this way.
        """
        if self._within_limits(borrowing):
            return []
        taken: list[Target] = []
        own: list[Target] = []
        for holder, variant in (*self._of_others(borrowing, True), *self._of_own(True)):
            self.tree.remove(holder.node, holder.amounts)
            taken.append(Target(holder, variant.reason))
        good = False
        if not self._within_limits(borrowing):
            good = self._take(self._of_own(False), own, lambda: self._within_limits(borrowing))
        if good:
            own = fill_back(self.tree, own, lambda: self._within_limits(borrowing))
            if not self.fits(borrowing):
                good = self._take(self._of_others(borrowing, False), taken, lambda: self.fits(borrowing))
        if good:
            # The very last in order is one of the own queue, so that everybody else may be put back.
            taken = fill_back(self.tree, [*taken, own[-1]], lambda: self.fits(borrowing))[:-1]
        restore(self.tree, [*taken, *own])
        return [*taken, *own] if good else []

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

    # -- a choice that somebody else makes -----------------------------------------------------------------

    def ways(self) -> tuple[bool, ...]:
        """The ways to choose, in the order in which they are tried; True: the preemptor may borrow."""
        return tuple(b for b in self.attempts() if b or self._own_quota_suffices())

    def walk(self, borrowing: bool) -> Generator[tuple[Holder, str], None, None]:
        """Candidates in order, each with its reason. Who takes one removes its usage from the tree before the next."""
        for holder, variant in self._ordered(borrowing):
            yield holder, variant.reason

    def fits_on_the_way(self, borrowing: bool) -> bool:
        """Does the workload fit now, in the middle of a walk?"""
        return self.fits(borrowing)

    def eligible(self) -> dict[str, str]:
        """By UID everybody who might be taken, in order, with the reason: the rule for a single candidate."""
        return {h.admission.workload.uid: v.reason for h, v in self._ordered(all(self.attempts()))}


def restore(tree: Tree, targets: Iterable[Target]) -> None:
    """Let them hold their quota again."""
    for target in targets:
        tree.add(target.holder.node, target.holder.amounts)


def judged(targets: Sequence[Target], tree: Tree, node: Node, cell: int, units: int) -> tuple[Mode, int]:
    """What preemption could do for one cell: its mode, and how far away the quota is once the victims are gone."""
    if not targets:
        return Mode.NO_CANDIDATES, lowest_fitting(node, cell, units)[0]
    for target in targets:
        tree.remove(target.holder.node, target.holder.amounts)
    level, _ = lowest_fitting(node, cell, units)
    restore(tree, targets)
    own = any(t.holder.node is node for t in targets)
    return (Mode.PREEMPT if own else Mode.RECLAIM), level
