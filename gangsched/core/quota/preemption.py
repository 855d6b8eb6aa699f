"""Whose quota a workload may take, and which of those workloads have to go.

Rules: https://kueue.sigs.k8s.io/docs/concepts/preemption/ , classic preemption. Candidates are taken in order until the
workload fits; then those that turn out not to be needed are put back, the last taken first. A queue that is back within
its nominal quota is left alone: quota that is lent out is asked back, quota that is owned never is.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

import msgspec

from gangsched.core.quota.flavors import Mode
from gangsched.core.quota.holders import Entry, Holder, Holders
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


class Pool(msgspec.Struct):
    """Candidates of one queue (not the preemptor's). ``meeting`` is the lowest cohort that both queues are in."""

    node: Node
    meeting: Node
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
        """Queues that use more than their quota of what is needed, from the nearest cohort up to the root."""
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
        for child in cohort.over_children(self.need.cells):
            if child is skip:
                continue
            if child.is_queue:
                out.append(Pool(child, meeting, hierarchical))
            else:
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
        for entry in entries:
            holder = entry[1]
            if policy != ANY and holder.priority > workload.priority:
                return  # entries are sorted by priority
            candidate = holder.admission.workload
            if cells.isdisjoint(holder.cells) or candidate.uid in taken:
                continue
            if satisfies(policy, workload, candidate):
                yield entry

    def _from_pool(self, pool: Pool, evicted: bool) -> Iterator[tuple[tuple[int, float, str], Holder, Pool]]:
        for order, holder in self._passing(self.holders.entries(pool.node.name, evicted), self.policy.reclaim):
            # Within an attempt usage only falls: a queue that is within its quota stays so.
            if pool.node.within(self.need.cells):
                return
            yield order, holder, pool

    def _ordered(self, borrowing: bool) -> Iterator[tuple[Holder, Variant]]:
        """Candidates in order: those already evicted first; among these by entitlement, then priority and age.

        With ``borrowing`` those are left out that may only go to somebody who does not borrow.
        """
        # Without borrowWithinCohort nobody but those with a better right to the quota may borrow at others' expense.
        rights = (True,) if borrowing and self.policy.borrow == NEVER else (True, False)
        for evicted in (True, False):
            for hierarchical in rights:
                streams = [
                    self._from_pool(p, evicted)
                    for p in self.pools
                    if p.hierarchical == hierarchical and self.holders.entries(p.node.name, evicted)
                ]
                for _, holder, pool in heapq.merge(*streams):
                    variant = self.variant(holder, hierarchical)
                    if borrowing and variant is Variant.NOT_BORROWING:
                        continue
                    if self._lends(pool):
                        continue
                    yield holder, variant
            if self.policy.within != NEVER:
                for _, holder in self._passing(self.holders.entries(self.node.name, evicted), self.policy.within):
                    yield holder, Variant.OWN_QUEUE

    def _lends(self, pool: Pool) -> bool:
        """Is the queue, or a cohort between it and the preemptor, within its own quota by now?"""
        if pool.node.within(self.need.cells):
            return True
        for cohort in pool.node.ancestors():
            if cohort is pool.meeting:
                return False
            if cohort.within(self.need.cells):
                return True
        return False

    def _any(self, hierarchical: bool) -> bool:
        """Is there any candidate of another queue with (without) hierarchical advantage?"""
        return any(
            True
            for evicted in (True, False)
            for pool in self.pools
            if pool.hierarchical == hierarchical
            for _ in self._from_pool(pool, evicted)
        )

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
        for borrowing in self.attempts():
            found = self._attempt(borrowing)
            if found:
                return found
        return []

    def _attempt(self, borrowing: bool) -> list[Target]:
        if not borrowing and not self._own_quota_suffices():
            return []
        taken: list[Target] = []
        for holder, variant in self._ordered(borrowing):
            self.tree.remove(holder.node, holder.amounts)
            taken.append(Target(holder, variant.reason))
            if self.fits(borrowing):
                kept = fill_back(self.tree, taken, lambda: self.fits(borrowing))
                restore(self.tree, kept)
                return kept
        restore(self.tree, taken)
        return []

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

    # -- sets that somebody else proposes ------------------------------------------------------------------

    def eligible(self) -> dict[str, str]:
        """By UID everybody who might be taken, in order, with the reason: the rule for a single candidate."""
        return {h.admission.workload.uid: v.reason for h, v in self._ordered(all(self.attempts()))}

    def allows(self, uids: frozenset[str]) -> bool:
        """May exactly these go, and does the workload fit then?

        They are taken in order; each must still be allowed when its turn comes, and with one that may only go to
        somebody who does not borrow the preemptor must end within its nominal quota.
        """
        return any(self._allows(uids, borrowing) for borrowing in self.attempts())

    def _allows(self, uids: frozenset[str], borrowing: bool) -> bool:
        taken: list[Target] = []
        for holder, variant in self._ordered(borrowing):
            if holder.admission.workload.uid in uids:
                self.tree.remove(holder.node, holder.amounts)
                taken.append(Target(holder, variant.reason))
        good = len(taken) == len(uids) and self.fits(borrowing)
        restore(self.tree, taken)
        return good


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
