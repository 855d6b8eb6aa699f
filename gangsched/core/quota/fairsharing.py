"""Fair sharing: who gives way to whom because of their shares.

Rules: https://kueue.sigs.k8s.io/docs/concepts/preemption/#fair-sharing and
https://github.com/kubernetes-sigs/kueue/tree/main/keps/1714-fair-sharing .
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gangsched.core.quota.admitted_workloads import Holder, Holders
from gangsched.core.quota.fairwalk import Walk
from gangsched.core.quota.preemption import Need, satisfies
from gangsched.core.quota.ranking import Ranked
from gangsched.core.quota.shares import FINAL_SHARE, INITIAL_SHARE, Share, Shares, passes
from gangsched.core.quota.tree import Node
from gangsched.core.quota.victims import FAIR_SHARING, IN_QUEUE, RECLAMATION, OwnLimits
from gangsched.model.queues import NEVER, ClusterQueue


class FairRules:
    """Who may be taken for one workload, and in which order; see :class:`~.victims.Rules`.

    Shares are compared with the workload's own usage counted. Whether its queue borrows with it does not matter.
    """

    def __init__(self, holders: Holders, shares: Shares, queue: ClusterQueue, need: Need) -> None:
        self.tree = holders.tree
        self.holders = holders
        self.shares = shares
        self.policy = queue.preemption
        self.node = self.tree.queues[queue.name]
        self.need = need
        self.line = frozenset(self.node.ancestors())

    @contextmanager
    def counted(self) -> Iterator[None]:
        """The workload's own usage is in the tree."""
        self.tree.add(self.node, self.need.requests)
        try:
            yield
        finally:
            self.tree.remove(self.node, self.need.requests)

    def ways(self) -> tuple[bool, ...]:
        """There is one way to choose."""
        return (True,)

    def fits(self, borrowing: bool) -> bool:
        """Does the workload fit, now that it is counted?"""
        return all(self.node.available(cell) >= 0 for cell, _ in self.need.requests)

    def own_limits(self, borrowing: bool) -> OwnLimits | None:
        """Candidates of the own queue are not the last in order."""
        return None

    # -- candidates ----------------------------------------------------------------------------------------

    def above(self, cohort: Node) -> Iterator[Ranked]:
        """Queues directly below a cohort that may have candidates, the highest share first."""
        if self.policy.reclaim == NEVER:
            return iter(())
        return self.shares.rankings.of(cohort).above(self.need.cells)

    def candidates(self, node: Node) -> Iterator[Holder]:
        """Holders of a queue that may go, in order."""
        policy = self.policy.within if node is self.node else self.policy.reclaim
        if policy == NEVER:
            return
        for evicted in (True, False):
            for _, holder in self.holders.entries(node.name, evicted):
                candidate = holder.admission.workload
                if self.need.cells.isdisjoint(holder.cells) or candidate.uid in self.holders.promised:
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

    # -- the walk ------------------------------------------------------------------------------------------

    def walk(self, borrowing: bool) -> Iterator[tuple[Holder, str]]:
        """Candidates in order, each with its reason; the workload's own usage is counted."""
        walk = Walk(self, self.candidates)
        yield from self._first(walk)
        yield from self._second(Walk(self, walk.refused, walk))

    def eligible(self) -> Iterator[tuple[Holder, str]]:
        """Everybody who might be taken, nobody having been."""
        with self.counted():
            return iter(list(self.walk(True)))

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
