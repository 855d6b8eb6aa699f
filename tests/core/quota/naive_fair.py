"""Who gives way under fair sharing, told again slowly: at each step every queue is compared with every other."""

from __future__ import annotations

from typing import Any

from gangsched.core.quota.fair_sharing import FINAL_SHARE, INITIAL_SHARE, Shares, passes
from gangsched.core.quota.preemption import Need, has_room, satisfies
from gangsched.core.quota.quota import Quota
from gangsched.core.quota.tree import Node
from gangsched.core.quota.workloads import Holder

OWN, RECLAIMED, SHARED = "InClusterQueue", "InCohortReclamation", "InCohortFairSharing"
Left = dict[Node, list[Holder]]


class NaiveFair:
    """The search for the victims of ``need``. Usage in the quota's tree is put back."""

    def __init__(self, quota: Quota, need: Need) -> None:
        self.tree, self.need = quota.tree, need
        self.shares = Shares(quota.holders)
        self.node = quota.tree.queues[need.workload.queue]
        self.line = set(self.node.ancestors())
        self.taken: list[tuple[Holder, str]] = []
        policy = quota.queues[need.workload.queue].preemption
        self.left: Left = {}
        for name, node in quota.tree.queues.items():
            if node is self.node or (node.root is self.node.root and not node.within(need.cells)):
                rule = policy.within if node is self.node else policy.reclaim
                entries = [*quota.holders.entries(name, True), *quota.holders.entries(name, False)]
                mine = [h for _, h in entries if satisfies(rule, need.workload, h.admission.workload)]
                self.left[node] = [h for h in mine if need.cells & h.cells]

    def victims(self) -> list[tuple[str, str]]:
        """UIDs with reasons, in the order in which they are chosen."""
        self.tree.add(self.node, self.need.requests)
        refused: Left = {}
        fits = self._first(refused) or self._second(refused)
        self.tree.remove(self.node, self.need.requests)
        kept = []
        for i, (holder, reason) in reversed(list(enumerate(self.taken))):
            last = i == len(self.taken) - 1
            self.tree.add(holder.node, holder.amounts)
            if fits and (last or not has_room(self.node, self.need.requests)):
                self.tree.remove(holder.node, holder.amounts)
                kept.append((holder, reason))
        for holder, _ in kept:
            self.tree.add(holder.node, holder.amounts)
        return [(h.admission.workload.uid, reason) for h, reason in reversed(kept)]

    def _first(self, refused: Left) -> bool:
        entitled = self.node.within(self.need.cells)
        while (node := self._next(self.node.root, self.left)) is not None:
            if node is self.node or entitled:
                if self._take(self.left[node].pop(0), OWN if node is self.node else RECLAIMED):
                    return True
                continue
            while self.left[node]:
                holder = self.left[node].pop(0)
                if self._gives_way(holder, FINAL_SHARE):
                    if self._take(holder, SHARED):
                        return True
                    break
                refused.setdefault(node, []).append(holder)
        return False

    def _second(self, left: Left) -> bool:
        while (node := self._next(self.node.root, left)) is not None:
            holder = left.pop(node)[0]
            if self._gives_way(holder, INITIAL_SHARE) and self._take(holder, SHARED):
                return True
        return False

    def _next(self, cohort: Node, left: Left) -> Node | None:
        """Down to the child with the highest share that leads to a candidate; at a queue, itself."""
        if cohort.is_queue:
            return cohort if left.get(cohort) else None
        branches: list[tuple[tuple[Any, ...], Node]] = []
        for number, child in enumerate(cohort.children):
            own = child is self.node or child in self.line
            found = self._next(child, left) if own or self.shares.share_of(child).over_quota else None
            if found is None:
                continue
            key = self.shares.share_of(child).key
            if child.is_queue:  # of two with the same share a cohort comes first, the last of them
                first = left[child][0]
                rank = (not first.admission.evicted, child is self.node, first.order)
                branches.append(((-key[0], -key[1], 1, rank), found))
            else:
                branches.append(((-key[0], -key[1], 0, -number), found))
        return min(branches, key=lambda b: b[0])[1] if branches else None

    def _gives_way(self, holder: Holder, strategy: str) -> bool:
        theirs, mine = holder.node, self.node
        while theirs.parent not in self.line:
            assert theirs.parent is not None
            theirs = theirs.parent
        while mine.parent is not theirs.parent:
            assert mine.parent is not None
            mine = mine.parent
        before = self.shares.share_of(theirs)
        self.tree.remove(holder.node, holder.amounts)
        after = self.shares.share_of(theirs)
        self.tree.add(holder.node, holder.amounts)
        return passes(strategy, self.shares.share_of(mine), before, after)

    def _take(self, holder: Holder, reason: str) -> bool:
        """Does the workload fit now?"""
        self.tree.remove(holder.node, holder.amounts)
        self.taken.append((holder, reason))
        self.tree.remove(self.node, self.need.requests)
        fits = has_room(self.node, self.need.requests)
        self.tree.add(self.node, self.need.requests)
        return fits
