"""Fair sharing: who gives way to whom because of their shares.

Rules: https://kueue.sigs.k8s.io/docs/concepts/preemption/#fair-sharing and
https://github.com/kubernetes-sigs/kueue/tree/main/keps/1714-fair-sharing .
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing

from gangsched.core.quota.fairwalk import Walk
from gangsched.core.quota.holders import Holder, Holders
from gangsched.core.quota.preemption import (
    FAIR_SHARING,
    IN_QUEUE,
    RECLAMATION,
    Need,
    Target,
    fill_back,
    has_room,
    restore,
    satisfies,
)
from gangsched.core.quota.ranking import Ranked
from gangsched.core.quota.shares import FINAL_SHARE, INITIAL_SHARE, Share, Shares, passes
from gangsched.core.quota.tree import Node
from gangsched.model.queues import NEVER, ClusterQueue


class FairSearch:
    """The search for one workload's victims under fair sharing. Usage in the tree is put back before it returns."""

    def __init__(self, holders: Holders, shares: Shares, queue: ClusterQueue, need: Need) -> None:
        self.tree = holders.tree
        self.holders = holders
        self.shares = shares
        self.policy = queue.preemption
        self.node = self.tree.queues[queue.name]
        self.need = need
        self.line = frozenset(self.node.ancestors())
        self._asking = False

    def victims(self) -> list[Target]:
        """Who has to go, in the order in which they were chosen; nobody if that would not help."""
        targets: list[Target] = []
        fits = False
        with closing(self.walk(True)) as walk:
            for holder, reason in walk:
                self.tree.remove(holder.node, holder.amounts)
                targets.append(Target(holder, reason))
                fits = self.fits_on_the_way(True)
                if fits:
                    break
        kept = fill_back(self.tree, targets, self.fits) if fits else targets
        restore(self.tree, kept)
        return kept if fits else []

    def fits(self, borrowing: bool = True) -> bool:
        """Does the workload fit now? (Not while its own usage is added.) Whether it borrows does not matter here."""
        return borrowing and has_room(self.node, self.need.requests)

    # -- candidates ----------------------------------------------------------------------------------------

    def above(self, cohort: Node) -> Iterator[Ranked]:
        """Queues directly below a cohort that may have candidates, the highest share first."""
        if self.policy.reclaim == NEVER:
            return iter(())
        return self.shares.rankings.of(cohort).above(self.need.cells)

    def _queues(self) -> list[Node]:
        """The own queue, and others in the cohort tree that use more than their quota of what is needed."""
        out = [self.node]
        if self.policy.reclaim != NEVER and self.node.parent is not None:
            out += [n for n in _over_below(self.node.root, self.need.cells) if n is not self.node]
        return out

    def candidates(self, node: Node) -> Iterator[Holder]:
        """Holders of a queue that may go, in order."""
        policy = self.policy.within if node is self.node else self.policy.reclaim
        if policy == NEVER:
            return
        for evicted in (True, False):
            for _, holder in self.holders.entries(node.name, evicted):
                candidate = holder.admission.workload
                if self.need.cells.isdisjoint(holder.cells) or candidate.uid in self.holders.taken:
                    continue
                if satisfies(policy, self.need.workload, candidate):
                    yield holder

    # -- comparisons ---------------------------------------------------------------------------------------

    def sides(self, node: Node) -> tuple[Node, Node]:
        """The children of the lowest common cohort that are above the preemptor and above ``node``."""
        theirs = node
        while theirs.parent is not None and theirs.parent not in self.line:
            theirs = theirs.parent
        mine = self.node
        while mine.parent is not theirs.parent and mine.parent is not None:
            mine = mine.parent
        return mine, theirs

    def _falls(self, share: Share) -> bool:
        """Does the share of a queue fall whoever of it leaves? Where only one cell matters this is seen at once."""
        return len(self.need.cells) == 1 and self.need.cells.issuperset(share.over) and share.ratio > 0

    def share_without(self, holder: Holder, theirs: Node) -> Share:
        """The share of the other side once the holder is gone."""
        self.tree.remove(holder.node, holder.amounts)
        share = self.shares.of(theirs)
        self.tree.add(holder.node, holder.amounts)
        return share

    # -- a choice that somebody else makes -----------------------------------------------------------------

    def ways(self) -> tuple[bool, ...]:
        """There is one way to choose."""
        return (True,)

    def walk(self, borrowing: bool) -> Generator[tuple[Holder, str], None, None]:
        """Candidates in order, each with its reason. Who takes one removes its usage from the tree before the next.
        Until the walk is closed, the workload's own usage is in the tree.
        """
        self.tree.add(self.node, self.need.requests)
        self._asking = True
        try:
            walk = Walk(self, self.candidates)
            yield from self._first(walk)
            yield from self._second(Walk(self, walk.refused, walk))
        finally:
            self._asking = False
            self.tree.remove(self.node, self.need.requests)

    def _first(self, walk: Walk) -> Iterator[tuple[Holder, str]]:
        """By the first strategy."""
        # Whoever is within nominal quota even with the new workload takes its own back, whatever the shares are.
        entitled = self.node.within(self.need.cells)
        while (node := walk.next()) is not None:
            if node is self.node or entitled:
                yield walk.pop(node), IN_QUEUE if node is self.node else RECLAMATION
                continue
            mine, theirs = self.sides(node)
            shares = self.shares.of(mine), self.shares.of(theirs)
            if shares[0].key > shares[1].key:
                walk.give_up(theirs)
                continue
            if shares[0].key == shares[1].key and node is theirs and self._falls(shares[1]):
                walk.refuse_rest(node)
                continue
            refused: set[tuple[tuple[int, int], ...]] = set()
            while walk.has(node):
                holder = walk.pop(node)
                # Whoever uses as much as one who was refused would be refused for the same shares.
                amounts = tuple(holder.amounts)
                if amounts not in refused and passes(FINAL_SHARE, *shares, self.share_without(holder, theirs)):
                    yield holder, FAIR_SHARING
                    break  # shares have changed: another queue may be the one to give way
                refused.add(amounts)
                walk.refuse(holder)

    def _second(self, walk: Walk) -> Iterator[tuple[Holder, str]]:
        """By the second strategy, once for each queue."""
        while (node := walk.next()) is not None:
            mine, theirs = self.sides(node)
            before = self.shares.of(theirs)
            if passes(INITIAL_SHARE, self.shares.of(mine), before, before):
                yield walk.pop(node), FAIR_SHARING
            elif mine is self.node or mine in walk.closed:
                walk.give_up(theirs)
            walk.drop(node)

    def fits_on_the_way(self, borrowing: bool) -> bool:
        """Does the workload fit now, in the middle of a walk?"""
        if not self._asking:
            return self.fits()
        self.tree.remove(self.node, self.need.requests)
        fits = self.fits()
        self.tree.add(self.node, self.need.requests)
        return fits

    # -- sets that somebody else proposes ------------------------------------------------------------------

    def eligible(self) -> dict[str, str]:
        """By UID everybody who might be taken first, in order, with the reason."""
        out: dict[str, str] = {}
        self.tree.add(self.node, self.need.requests)
        entitled = self.node.within(self.need.cells)
        for node in self._queues():
            for holder in list(self.candidates(node)):
                reason = self._reason(holder, entitled)
                if reason:
                    out[holder.admission.workload.uid] = reason
        self.tree.remove(self.node, self.need.requests)
        return out

    def _reason(self, holder: Holder, entitled: bool) -> str:
        """Why the holder may be taken now (the preemptor's usage being added); empty if it may not."""
        if holder.node is self.node:
            return IN_QUEUE
        if holder.node.within(self.need.cells):
            return ""
        if entitled:
            return RECLAMATION
        mine, theirs = self.sides(holder.node)
        my_share, before = self.shares.of(mine), self.shares.of(theirs)
        after = self.share_without(holder, theirs)
        return FAIR_SHARING if any(passes(s, my_share, before, after) for s in (FINAL_SHARE, INITIAL_SHARE)) else ""


def _over_below(cohort: Node, cells: frozenset[int]) -> Iterator[Node]:
    """The queues below that are not within their quota in some of these cells."""
    for child in cohort.children:
        if not child.is_queue:
            yield from _over_below(child, cells)
        elif not child.within(cells):
            yield child
