"""Fair sharing: how much a queue or cohort borrows in comparison with others, and who gives way because of it.

Rules: https://kueue.sigs.k8s.io/docs/concepts/preemption/#fair-sharing and
https://github.com/kubernetes-sigs/kueue/tree/main/keps/1714-fair-sharing .
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator

import msgspec

from gangsched.core.quota.holders import Holder, Holders, Order
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
from gangsched.core.quota.tree import Node, Tree
from gangsched.model.queues import NEVER, ClusterQueue

#: When a workload of another queue may be displaced: the preemptor's share, with the new workload, must be at most that
#: of the other side after it has lost one (S2-a), or less than that of the other side before (S2-b).
FINAL_SHARE, INITIAL_SHARE = "LessThanOrEqualToFinalShare", "LessThanInitialShare"
DEFAULT_STRATEGIES = (FINAL_SHARE, INITIAL_SHARE)


class Share(msgspec.Struct, frozen=True):
    """A dominant resource share: the largest ratio, over resources, of what is borrowed to what could be, in permille.

    ``over`` are the cells in which the node is above its quota.
    """

    ratio: float = 0.0
    weight: float = 1.0
    over: tuple[int, ...] = ()

    @property
    def key(self) -> tuple[int, float]:
        """What shares are compared by: higher keys give way first. Who borrows with weight 0 is above all others."""
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
        """Is the node above its quota in any of these?"""
        return not set(self.over).isdisjoint(cells)


class Shares:
    """Shares of all nodes of a tree; computed again when a node's usage has changed."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.resource_of = [resource for _, resource in tree.names]
        self._lendable: dict[Node, dict[str, int]] = {}
        self._known: dict[Node, tuple[int, Share]] = {}

    def of(self, node: Node) -> Share:
        """The share of a node; zero for one without a parent: there is nobody to compare it with."""
        known = self._known.get(node)
        if known is not None and known[0] == node.stamp:
            return known[1]
        share = self._compute(node)
        self._known[node] = node.stamp, share
        return share

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
        """What children of ``node`` could use at most, by resource, all flavors together."""
        found = self._lendable.get(node)
        if found is None:
            found = self._lendable[node] = {}
            for resource, units in zip(self.resource_of, node.potential, strict=True):
                found[resource] = found.get(resource, 0) + units
        return found


def passes(strategy: str, mine: Share, before: Share, after: Share) -> bool:
    """May the other side lose a workload? Shares: mine with the new workload, theirs before and after the loss."""
    return mine.key <= after.key if strategy == FINAL_SHARE else mine.key < before.key


class FairSearch:
    """The search for one workload's victims under fair sharing. Usage in the tree is put back before it returns."""

    def __init__(
        self, holders: Holders, shares: Shares, strategies: tuple[str, ...], queue: ClusterQueue, need: Need
    ) -> None:
        self.tree = holders.tree
        self.holders = holders
        self.shares = shares
        self.strategies = strategies
        self.policy = queue.preemption
        self.node = self.tree.queues[queue.name]
        self.need = need
        self.line = frozenset(self.node.ancestors())
        self._asking = False

    def victims(self) -> list[Target]:
        """Who has to go, in the order in which they were chosen; nobody if that would not help."""
        walk = _Walk(self, {node: _Line(self._candidates(node)) for node in self._queues()})
        if not any(walk.left.values()):
            return []
        self.tree.add(self.node, self.need.requests)
        targets: list[Target] = []
        fits, retry = self._first(walk, targets)
        if not fits and len(self.strategies) > 1:
            fits = self._second(retry, targets)
        self.tree.remove(self.node, self.need.requests)
        if not fits:
            restore(self.tree, targets)
            return []
        kept = fill_back(self.tree, targets, self.fits)
        restore(self.tree, kept)
        return kept

    def fits(self, borrowing: bool = True) -> bool:
        """Does the workload fit now? (Not while its own usage is added.) Whether it borrows does not matter here."""
        return borrowing and has_room(self.node, self.need.requests)

    # -- candidates ----------------------------------------------------------------------------------------

    def _queues(self) -> list[Node]:
        """The own queue, and others in the cohort tree that use more than their quota of what is needed."""
        out = [self.node] if self.policy.within != NEVER else []
        if self.policy.reclaim != NEVER and self.node.parent is not None:
            out += [n for n in _over_below(self.node.root, self.need.cells) if n is not self.node]
        return out

    def _candidates(self, node: Node) -> Iterator[Holder]:
        policy = self.policy.within if node is self.node else self.policy.reclaim
        for evicted in (True, False):
            for _, holder in self.holders.entries(node.name, evicted):
                candidate = holder.admission.workload
                if self.need.cells.isdisjoint(holder.cells) or candidate.uid in self.holders.taken:
                    continue
                if satisfies(policy, self.need.workload, candidate):
                    yield holder

    # -- the two passes ------------------------------------------------------------------------------------

    def _take(self, holder: Holder, reason: str, targets: list[Target]) -> bool:
        """Take one; does the workload fit now?"""
        self.tree.remove(holder.node, holder.amounts)
        targets.append(Target(holder, reason))
        self.tree.remove(self.node, self.need.requests)
        fits = self.fits()
        self.tree.add(self.node, self.need.requests)
        return fits

    def _sides(self, node: Node) -> tuple[Node, Node]:
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
        share = self.shares.of(theirs)
        self.tree.add(holder.node, holder.amounts)
        return share

    def _first(self, walk: _Walk, targets: list[Target]) -> tuple[bool, list[Holder]]:
        """The first strategy; ``(fits, those that it refused)``."""
        retry: list[Holder] = []
        # Whoever is within nominal quota even with the new workload takes its own back, whatever the shares are.
        entitled = self.node.within(self.need.cells)
        while (node := walk.next()) is not None:
            if node is self.node or entitled:
                if self._take(walk.pop(node), IN_QUEUE if node is self.node else RECLAMATION, targets):
                    return True, []
                continue
            mine, theirs = self._sides(node)
            my_share, before = self.shares.of(mine), self.shares.of(theirs)
            refused: set[tuple[tuple[int, int], ...]] = set()
            while walk.left[node]:
                holder = walk.pop(node)
                # Whoever uses as much as one who was refused would be refused for the same shares.
                amounts = tuple(holder.amounts)
                if amounts not in refused and passes(
                    self.strategies[0], my_share, before, self.share_without(holder, theirs)
                ):
                    if self._take(holder, FAIR_SHARING, targets):
                        return True, []
                    break  # shares have changed: another queue may be the one to give way
                refused.add(amounts)
                retry.append(holder)
        return False, retry

    def _second(self, retry: list[Holder], targets: list[Target]) -> bool:
        """The second strategy, once for each queue."""
        walk = _Walk(self, {h.node: _Line(o for o in retry if o.node is h.node) for h in retry})
        while (node := walk.next()) is not None:
            mine, theirs = self._sides(node)
            my_share, before = self.shares.of(mine), self.shares.of(theirs)
            if passes(INITIAL_SHARE, my_share, before, before) and self._take(walk.pop(node), FAIR_SHARING, targets):
                return True
            walk.drop(node)
        return False

    # -- a choice that somebody else makes -----------------------------------------------------------------

    def ways(self) -> tuple[bool, ...]:
        """There is one way to choose."""
        return (True,)

    def walk(self, borrowing: bool) -> Generator[tuple[Holder, str], None, None]:
        """Candidates in order, each with its reason. Who takes one removes its usage from the tree before the next.
        Until the walk is closed, the workload's own usage is in the tree.
        """
        walk = _Walk(self, {node: _Line(self._candidates(node)) for node in self._queues()})
        self.tree.add(self.node, self.need.requests)
        self._asking = True
        try:
            yield from self._walk(walk)
        finally:
            self._asking = False
            self.tree.remove(self.node, self.need.requests)

    def _walk(self, walk: _Walk) -> Iterator[tuple[Holder, str]]:
        retry: list[Holder] = []
        entitled = self.node.within(self.need.cells)
        while (node := walk.next()) is not None:
            holder = walk.pop(node)
            if node is self.node or entitled:
                yield holder, IN_QUEUE if node is self.node else RECLAMATION
                continue
            mine, theirs = self._sides(node)
            shares = self.shares.of(mine), self.shares.of(theirs), self.share_without(holder, theirs)
            if passes(self.strategies[0], *shares):
                yield holder, FAIR_SHARING
            else:
                retry.append(holder)
        if len(self.strategies) < 2:
            return
        walk = _Walk(self, {h.node: _Line(o for o in retry if o.node is h.node) for h in retry})
        while (node := walk.next()) is not None:
            mine, theirs = self._sides(node)
            before = self.shares.of(theirs)
            if passes(INITIAL_SHARE, self.shares.of(mine), before, before):
                yield walk.pop(node), FAIR_SHARING
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
            for holder in list(self._candidates(node)):
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
        mine, theirs = self._sides(holder.node)
        my_share, before = self.shares.of(mine), self.shares.of(theirs)
        after = self.share_without(holder, theirs)
        return FAIR_SHARING if any(passes(s, my_share, before, after) for s in self.strategies) else ""

    def allows(self, uids: frozenset[str]) -> bool:
        """May exactly these go, and does the workload fit then? Each must be allowed when its turn comes."""
        wanted = {
            node: _Line(h for h in list(self._candidates(node)) if h.admission.workload.uid in uids)
            for node in self._queues()
        }
        walk = _Walk(self, wanted)
        self.tree.add(self.node, self.need.requests)
        entitled = self.node.within(self.need.cells)
        targets: list[Target] = []
        while (node := walk.next()) is not None:
            holder = walk.pop(node)
            if not (reason := self._reason(holder, entitled)):
                break
            self._take(holder, reason, targets)
        self.tree.remove(self.node, self.need.requests)
        good = len(targets) == len(uids) and self.fits()
        restore(self.tree, targets)
        return good


def _over_below(cohort: Node, cells: frozenset[int]) -> Iterator[Node]:
    """The queues below that are not within their quota in some of these cells."""
    for child in cohort.children:
        if child.is_queue:
            break  # cohorts come first
        yield from _over_below(child, cells)
    yield from (n for n in cohort.over_children(cells) if n.is_queue)


class _Line:
    """Candidates of one queue, made when they are asked for."""

    def __init__(self, holders: Iterator[Holder]) -> None:
        self._rest = holders
        self.first = next(holders, None)

    def __bool__(self) -> bool:
        return self.first is not None

    def pop(self) -> Holder:
        """Take the first."""
        holder = self.first
        assert holder is not None
        self.first = next(self._rest, None)
        return holder


class _Walk:
    """Which queue gives way next: from the root down to the child with the highest share.

    ``left`` are the candidates by queue. Branches that do not borrow are left alone, except on the preemptor's own
    line: inside it there may be an imbalance although the whole is within its quota.
    """

    def __init__(self, search: FairSearch, left: dict[Node, _Line]) -> None:
        self.search = search
        self.left = left
        self.closed: set[Node] = set()
        #: By cohort, the children that may be open: of queues those that have candidates.
        self.children: dict[Node, list[Node]] = {}
        for node, line in left.items():
            if node.parent is not None and line:
                self.children.setdefault(node.parent, []).append(node)

    def pop(self, node: Node) -> Holder:
        """Take the queue's first candidate."""
        return self.left[node].pop()

    def drop(self, node: Node) -> None:
        """Do not come back to this queue."""
        self.closed.add(node)

    def next(self) -> Node | None:
        """The queue that gives way next; None when there is none left."""
        root = self.search.node.root
        if root is self.search.node:
            return root if root not in self.closed and self.left.get(root) else None
        while root not in self.closed:
            found = self._descend(root)
            if found is not None:
                return found
        return None

    def _open(self, cohort: Node) -> Iterator[Node]:
        for child in cohort.children:
            if child.is_queue:
                break  # cohorts come first
            yield child
        self.children[cohort] = [q for q in self.children.get(cohort, []) if q not in self.closed]
        yield from self.children[cohort]

    def _descend(self, cohort: Node) -> Node | None:
        best_queue: Node | None = None
        best_cohort: Node | None = None
        queue_key = cohort_key = (0, -1.0)
        for child in self._open(cohort):
            if child in self.closed:
                continue
            share = self.search.shares.of(child)
            if child.is_queue:
                if (not share.over and child is not self.search.node) or not self.left.get(child):
                    self.closed.add(child)
                elif share.key > queue_key or (
                    share.key == queue_key and best_queue is not None and self._rank(child) < self._rank(best_queue)
                ):
                    best_queue, queue_key = child, share.key
            elif not share.over and child not in self.search.line:
                self.closed.add(child)
            elif share.key >= cohort_key:
                best_cohort, cohort_key = child, share.key
        if best_queue is None and best_cohort is None:
            self.closed.add(cohort)
            return None
        if best_cohort is not None and cohort_key >= queue_key:
            return self._descend(best_cohort)
        return best_queue

    def _rank(self, node: Node) -> tuple[bool, bool, Order]:
        """Among equal shares: whose first candidate would go first."""
        holder = self.left[node].first
        assert holder is not None
        return not holder.admission.evicted, node is self.search.node, holder.order
