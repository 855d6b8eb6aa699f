"""Which queue gives way next under fair sharing: from the root of the cohorts down to the child with the highest share.

Queues that borrow stand ready in their rankings, so that only those are looked at whose turn comes: a queue enters the
walk when no other is before it, and only what has happened in this search is compared again.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Protocol

from gangsched.core.quota.admitted_workloads import Holder
from gangsched.core.quota.ranking import Key, Ranked
from gangsched.core.quota.shares import Shares, rank
from gangsched.core.quota.tree import Node


class Asking(Protocol):
    """The search that walks, for a workload of the queue ``node``, below the cohorts ``line``."""

    node: Node
    line: frozenset[Node]
    shares: Shares

    def above(self, cohort: Node) -> Iterator[Ranked]:
        """Queues directly below a cohort that may have candidates, the highest share first."""


class _Line:
    """Candidates of one queue, made when they are asked for."""

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

    During a walk shares may only fall, those of queues from which somebody was taken. Of a walk that goes ``on`` after
    another the queues are those that the other has not come to, and those in which it refused somebody.
    """

    def __init__(self, search: Asking, candidates: Callable[[Node], Iterator[Holder]], on: Walk | None = None) -> None:
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
        """Has the queue candidates left?"""
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

    def drop(self, node: Node) -> None:
        """Do not come back to this queue."""
        self.closed.add(node)

    def give_up(self, theirs: Node) -> None:
        """Nobody gives way of those below the parent of this queue or cohort: none has a higher share than this one,
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
        share = self.search.shares.of(node)
        return rank(share, not first.admission.evicted, node is self.search.node, first.order)

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
            share = self.search.shares.of(child)
            if not share.over and child not in self.search.line:
                self.closed.add(child)
            elif share.key >= cohort_key:
                best_cohort, cohort_key = child, share.key
        queue = self._best_queue(cohort)
        if best_cohort is not None and (queue is None or cohort_key >= self.search.shares.of(queue).key):
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
            if node in self.closed or first is None or not (own or self.search.shares.of(node).over):
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
