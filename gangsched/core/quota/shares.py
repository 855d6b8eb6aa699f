"""Shares: how much a queue or cohort borrows in comparison with others.

Rules: https://github.com/kubernetes-sigs/kueue/tree/main/keps/1714-fair-sharing .
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from gangsched.core.quota.admitted_workloads import Holders, Order
from gangsched.core.quota.ranking import Key, Rankings
from gangsched.core.quota.tree import Node

#: When a workload of another queue may be displaced: the preemptor's share, with the new workload, must be at most that
#: of the other side after it has lost one (S2-a), or, where that does not help, less than that of the other side before
#: (S2-b).
FINAL_SHARE, INITIAL_SHARE = "LessThanOrEqualToFinalShare", "LessThanInitialShare"


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
    """Shares of all nodes of a tree; computed again when a node's usage has changed. ``rankings`` have the queues that
    borrow: the highest share first, among equal ones as their first holders would have to go.
    """

    def __init__(self, holders: Holders) -> None:
        self.resource_of = [resource for _, resource in holders.tree.names]
        self.rankings = Rankings(self._rank)
        self._holders = holders
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

    def _rank(self, queue: Node) -> Key | None:
        for evicted in (True, False):
            first = self._holders.first(queue, evicted)
            if first is not None:
                return rank(self.of(queue), not evicted, False, first)
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


def rank(share: Share, live: bool, own: bool, first: Order) -> Key:
    """The rank of a queue among those that may give way, first first: by its share, then by its first candidate."""
    above, weighted = share.key
    return -above, -weighted, live, own, first
