"""Fair sharing: who gives way to whom because of their shares, how much a queue or cohort borrows beside others.

Rules: https://kueue.sigs.k8s.io/docs/concepts/preemption/#fair-sharing and
https://github.com/kubernetes-sigs/kueue/tree/main/keps/1714-fair-sharing .

The next queue to give way is found from the root of the cohorts down to the child with the highest share. Borrowing
queues are kept in rankings, so that only the next ones are read. A queue enters the walk when no other is before it,
and only changes of this search are compared again.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import msgspec

from gangsched.core.quota.preemption import FAIR_SHARING, IN_QUEUE, RECLAMATION, Need, satisfies
from gangsched.core.quota.tree import Node
from gangsched.core.quota.workloads import Holder, Holders, Key, Order, Ranked, Rankings
from gangsched.model.queues import NEVER, ClusterQueue

#: When a workload of another queue may be displaced: the preemptor's share, with the new workload, must be at most that
#: of the other side after it has lost one (S2-a), or, where that does not help, less than that of the other side before
#: (S2-b).
FINAL_SHARE, INITIAL_SHARE = "LessThanOrEqualToFinalShare", "LessThanInitialShare"


class Share(msgspec.Struct, frozen=True):
    """A dominant resource share: the largest ratio, over resources, of what is borrowed to what could be, in permille.

    ``over_quota`` are the cells in which the node is above its quota.
    """

    ratio: float = 0.0
    weight: float = 1.0
    over_quota: tuple[int, ...] = ()

    @property
    def key(self) -> tuple[int, float]:
        """The key by which shares are compared: higher keys give way first. A borrower with weight 0 is above all
        others.
        """
        if self.ratio and not self.weight:
            return 1, self.ratio
        return 0, self.weighted

    @property
    def weighted(self) -> float:
        """The ratio divided by the weight; infinite for weight 0."""
        if not self.ratio:
            return 0.0
        return self.ratio / self.weight if self.weight else math.inf

    def borrows(self, cells: Iterable[int]) -> bool:
        """Return True if the node is above its quota in any of these cells."""
        return not set(self.over_quota).isdisjoint(cells)


class Shares:
    """Shares of all nodes of a tree; computed again when a node's usage has changed. ``rankings`` have the queues that
    borrow: the highest share first, among equal ones as their first holders would have to go.
    """

    def __init__(self, holders: Holders) -> None:
        self.resource_of = [resource for _, resource in holders.tree.names]
        self.rankings = Rankings(self._rank)
        self._holders = holders
        self._lendable: dict[Node, dict[str, int]] = {}
        self._known: dict[Node, tuple[int, Share]] = {}

    def share_of(self, node: Node) -> Share:
        """The share of a node; zero for one without a parent: there is none to compare it with."""
        known = self._known.get(node)
        if known is not None and known[0] == node.stamp:
            return known[1]
        share = self._compute(node)
        self._known[node] = node.stamp, share
        return share

    def _rank(self, queue: Node) -> Key | None:
        for evicted in (True, False):
            first = self._holders.first(queue, evicted)
            if first is not None:
                return rank(self.share_of(queue), not evicted, False, first)
        return None

    def _compute(self, node: Node) -> Share:
        if node.parent is None:
            return Share(weight=node.weight)
        over = tuple(i for i, (used, quota) in enumerate(zip(node.usage, node.subtree, strict=True)) if used > quota)
        if not over:
            return Share(weight=node.weight)
        borrowed: dict[str, int] = {}
        for cell in over:
            resource = self.resource_of[cell]
            borrowed[resource] = borrowed.get(resource, 0) + node.usage[cell] - node.subtree[cell]
        lendable = self.lendable(node.parent)
        ratios = [units * 1000.0 / lendable[r] for r, units in borrowed.items() if lendable[r] > 0]
        return Share(max(ratios, default=0.0), node.weight, over)

    def lendable(self, node: Node) -> dict[str, int]:
        """Return the most that children of ``node`` could use, by resource, all flavors together."""
        found = self._lendable.get(node)
        if found is None:
            found = self._lendable[node] = {}
            for resource, units in zip(self.resource_of, node.potential, strict=True):
                found[resource] = found.get(resource, 0) + units
        return found


def passes(strategy: str, mine: Share, before: Share, after: Share) -> bool:
    """Return True if the other side may lose a workload. Shares: mine with the new workload, theirs before and after
    the loss.
    """
    return mine.key <= after.key if strategy == FINAL_SHARE else mine.key < before.key


def rank(share: Share, live: bool, own: bool, first: Order) -> Key:
    """The rank of a queue among those that may give way, first first: by its share, then by its first candidate."""
    above, weighted = share.key
    return -above, -weighted, live, own, first


class _Line:
    """Candidates of one queue, computed on demand."""

    def __init__(self, holders: Iterator[Holder]) -> None:
        self._rest = holders
        self.first = next(holders, None)

    def pop(self) -> Holder:
        """Take the first."""
        holder = self.first
        assert holder is not None
        self.first = next(self._rest, None)
        return holder


class Walk:
    """One walk. ``candidates`` are those of a queue, in order. Branches that do not borrow are left alone, except on
    the preemptor's own line: inside it there may be an imbalance although the whole is within its quota.

    During a walk shares may only fall, those of queues from which one was taken. Of a walk that goes ``on`` after
    another the queues are those that the other has not come to, and those in which it refused a workload.
    """

    def __init__(
        self, search: FairRules, candidates: Callable[[Node], Iterator[Holder]], on: Walk | None = None
    ) -> None:
        self.search = search
        self.closed: set[Node] = set()
        self._candidates = candidates
        self._lines: dict[Node, _Line] = {}
        #: By cohort: queues in the walk (with ranks that may have been higher), and those still to come, next first.
        self._ranks: dict[Node, list[Ranked]] = {}
        self.coming: dict[Node, tuple[Ranked | None, Iterator[Ranked]]] = {}
        self.refusals: dict[Node, Holder] = {}
        if on is not None:
            self.coming = on.coming
            self.closed.add(search.node)
            for node in on.refusals:
                self._enter(node)
        else:
            self._enter(search.node)

    # -- queues in the walk --------------------------------------------------------------------------------

    def has(self, node: Node) -> bool:
        """Return True if the queue has candidates left."""
        return self._lines[node].first is not None

    def pop(self, node: Node) -> Holder:
        """Take the queue's first candidate."""
        return self._lines[node].pop()

    def refuse(self, holder: Holder) -> None:
        """The holder does not give way; the first of each queue may be asked once more."""
        self.refusals.setdefault(holder.node, holder)

    def refuse_rest(self, node: Node) -> None:
        """None of the queue's candidates gives way."""
        first = self._lines[node].first
        if first is not None:
            self.refuse(first)
        self.closed.add(node)

    def refused(self, node: Node) -> Iterator[Holder]:
        """Whom to ask of a queue in a walk that goes on after this one: the first that was refused, or not asked."""
        found = self.refusals.get(node)
        if found is None and node not in self._lines:
            found = next(self._candidates(node), None)
        return iter(()) if found is None else iter((found,))

    def close(self, node: Node) -> None:
        """Do not come back to this queue."""
        self.closed.add(node)

    def give_up(self, theirs: Node) -> None:
        """None gives way of those below the parent of this queue or cohort: none has a higher share than this one,
        and the preemptor's own side there is through.
        """
        assert theirs.parent is not None
        self._shut(theirs.parent)

    def _shut(self, cohort: Node) -> None:
        self.closed.add(cohort)
        for _, node in self._ranks.get(cohort, ()):
            if node not in self.closed:
                self.refuse_rest(node)
        for child in cohort.children:
            if child.is_queue:
                break  # cohorts come first
            self._shut(child)

    def _enter(self, node: Node) -> None:
        line = self._lines[node] = _Line(self._candidates(node))
        if line.first is None:
            self.closed.add(node)
        elif node.parent is not None:
            heapq.heappush(self._ranks.setdefault(node.parent, []), (self._rank(node, line.first), node))

    def _rank(self, node: Node, first: Holder) -> Key:
        share = self.search.shares.share_of(node)
        return rank(share, not first.evicted, node is self.search.node, first.order)

    # -- who is next ---------------------------------------------------------------------------------------

    def next(self) -> Node | None:
        """The queue that gives way next; None when there is none left."""
        root = self.search.node.root
        if root is self.search.node:
            return root if root not in self.closed and root in self._lines and self.has(root) else None
        while root not in self.closed:
            found = self._descend(root)
            if found is not None:
                return found
        return None

    def _descend(self, cohort: Node) -> Node | None:
        best_cohort: Node | None = None
        cohort_key = (0, -1.0)
        for child in cohort.children:
            if child.is_queue:
                break  # cohorts come first
            if child in self.closed:
                continue
            share = self.search.shares.share_of(child)
            if not share.over_quota and child not in self.search.line:
                self.closed.add(child)
            elif share.key >= cohort_key:
                best_cohort, cohort_key = child, share.key
        queue = self._best_queue(cohort)
        if best_cohort is not None and (queue is None or cohort_key >= self.search.shares.share_of(queue).key):
            return self._descend(best_cohort)
        if queue is None:
            self.closed.add(cohort)
        return queue

    def _best_queue(self, cohort: Node) -> Node | None:
        """Of the queues directly below."""
        ranks = self._ranks.setdefault(cohort, [])
        while True:
            self._let_in(cohort, ranks)
            if not ranks:
                return None
            known, node = ranks[0]
            first = self._lines[node].first
            own = node is self.search.node
            if node in self.closed or first is None or not (own or self.search.shares.share_of(node).over_quota):
                self.closed.add(node)
                heapq.heappop(ranks)
                continue
            now = self._rank(node, first)
            if now == known:
                return node
            heapq.heapreplace(ranks, (now, node))

    def _let_in(self, cohort: Node, ranks: list[Ranked]) -> None:
        """Queues come in that may be before all who are in."""
        if cohort not in self.coming:
            rest = self.search.above(cohort)
            self.coming[cohort] = next(rest, None), rest
        following, rest = self.coming[cohort]
        while following is not None and (not ranks or following[0] <= ranks[0][0]):
            if following[1] is not self.search.node and following[1] not in self._lines:
                self._enter(following[1])
            following = next(rest, None)
        self.coming[cohort] = following, rest


class FairRules:
    """The possible victims for one workload in order; see :class:`~.preemption.Rules`.

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
    def counting_workload(self) -> Iterator[None]:
        """The workload's own usage is in the tree."""
        self.tree.add(self.node, self.need.requests)
        try:
            yield
        finally:
            self.tree.remove(self.node, self.need.requests)

    def borrowing_choices(self) -> tuple[bool, ...]:
        """There is one way to choose."""
        return (True,)

    def fits(self, borrowing: bool) -> bool:
        """Return True if the workload, which is counted now, fits."""
        return all(self.node.available(cell) >= 0 for cell, _ in self.need.requests)

    # -- candidates ----------------------------------------------------------------------------------------

    def above(self, cohort: Node) -> Iterator[Ranked]:
        """Queues directly below a cohort that may have candidates, the highest share first."""
        if self.policy.reclaim == NEVER:
            return iter(())
        return self.shares.rankings.ranking_of(cohort).above(self.need.cells)

    def candidates(self, node: Node) -> Iterator[Holder]:
        """Holders of a queue that may go, in order."""
        policy = self.policy.within if node is self.node else self.policy.reclaim
        if policy == NEVER or (node.kept and node is not self.node):
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

    def share_without(self, holder: Holder, theirs: Node) -> Share:
        """The share of the other side once the holder is gone."""
        self.tree.remove(holder.node, holder.amounts)
        share = self.shares.share_of(theirs)
        self.tree.add(holder.node, holder.amounts)
        return share

    # -- the walk ------------------------------------------------------------------------------------------

    def walk(self, borrowing: bool) -> Iterator[tuple[Holder, str]]:
        """Candidates in order, each with its reason; the workload's own usage is counted."""
        walk = Walk(self, self.candidates)
        yield from self._first(walk)
        yield from self._second(Walk(self, walk.refused, walk))

    def eligible(self) -> Iterator[tuple[Holder, str]]:
        """All workloads that might be taken, before any was."""
        with self.counting_workload():
            return iter(list(self.walk(True)))

    def _first(self, walk: Walk) -> Iterator[tuple[Holder, str]]:
        """By the first strategy."""
        # A queue within its nominal quota, with the new workload included, reclaims it whatever the shares are.
        entitled = self.node.within(self.need.cells)
        while (node := walk.next()) is not None:
            if node is self.node or entitled:
                yield walk.pop(node), IN_QUEUE if node is self.node else RECLAMATION
                continue
            mine, theirs = self.sides(node)
            shares = self.shares.share_of(mine), self.shares.share_of(theirs)
            if shares[0].key > shares[1].key:
                walk.give_up(theirs)
                continue
            refused: set[tuple[tuple[int, int], ...]] = set()
            while walk.has(node):
                holder = walk.pop(node)
                # A candidate with the same usage as a refused one would be refused, too.
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
            before = self.shares.share_of(theirs)
            if passes(INITIAL_SHARE, self.shares.share_of(mine), before, before):
                yield walk.pop(node), FAIR_SHARING
            elif mine is self.node or mine in walk.closed:
                walk.give_up(theirs)
            walk.close(node)
