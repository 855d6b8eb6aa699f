"""Who holds quota, in the order in which they would be displaced, and the queues that use more than theirs, ranked.

A search for victims looks at the queues of a cohort in some order and stops as soon as there is room. Sorting them for
each search would cost as much as there are queues; here only those are placed anew in which something has changed since
it was asked for.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeAlias, TypeVar

from gangsched.core.quota.tree import Node, Tree
from gangsched.core.quota.workloads import Admission

#: What queues are ranked by, first first; no two queues have the same.
Key: TypeAlias = tuple[Any, ...]
Ranked: TypeAlias = tuple[Key, Node]

Item = TypeVar("Item", bound=tuple[Any, ...])


class Ranking:
    """The queues directly below one cohort, by cell: those that are above their quota there and have a key."""

    def __init__(self, cohort: Node, key: Callable[[Node], Key | None]) -> None:
        self._key = key
        self._changed = {child for child in cohort.children if child.is_queue}
        self._placed: dict[Node, tuple[Key, tuple[int, ...]]] = {}
        self._by_cell: dict[int, list[Ranked]] = {}
        cohort.watchers.append(self._changed)

    def above(self, cells: Iterable[int]) -> Iterator[Ranked]:
        """Queues that are above their quota in some of these cells, each once, as they are now: what changes while
        they are gone through does not matter.
        """
        self._renew()
        lists = [tuple(found) for cell in cells if (found := self._by_cell.get(cell))]
        if len(lists) < 2:
            return iter(lists[0] if lists else ())
        return _once(heapq.merge(*lists, key=lambda ranked: ranked[0]))

    def _renew(self) -> None:
        coming: list[tuple[Key, tuple[int, ...], Node]] = []
        for node in self._changed:
            cells = tuple(i for i, (used, own) in enumerate(zip(node.usage, node.subtree, strict=True)) if used > own)
            key = self._key(node) if cells else None
            before = self._placed.get(node)
            if before == ((key, cells) if key is not None else None):
                continue
            if before is not None:
                for cell in before[1]:
                    ranked = self._by_cell[cell]
                    del ranked[bisect_left(ranked, (before[0],))]
                del self._placed[node]
            if key is not None:
                coming.append((key, cells, node))
        self._changed.clear()
        # Only now: a key may have gone from one queue to another.
        for key, cells, node in coming:
            self._placed[node] = key, cells
            for cell in cells:
                insort(self._by_cell.setdefault(cell, []), (key, node))


class Rankings:
    """Rankings of the queues of all cohorts by the same key, made when they are asked for."""

    def __init__(self, key: Callable[[Node], Key | None]) -> None:
        self._key = key
        self._of: dict[Node, Ranking] = {}

    def of(self, cohort: Node) -> Ranking:
        """That of one cohort."""
        found = self._of.get(cohort)
        if found is None:
            found = self._of[cohort] = Ranking(cohort, self._key)
        return found


def _once(ranked: Iterable[Ranked]) -> Iterator[Ranked]:
    last: Node | None = None
    for each in ranked:
        if each[1] is not last:
            yield each
        last = each[1]


def merged(streams: Iterable[tuple[Key, Iterator[Item]]]) -> Iterator[Item]:
    """Sorted streams as one. Each comes with a key that is not above the first field of its first item, and they come
    in the order of these keys: a stream is begun only when its turn may have come. No two first fields are equal.
    """
    heap: list[tuple[Key, Item, Iterator[Item]]] = []
    rest = iter(streams)
    coming = next(rest, None)
    while True:
        while coming is not None and (not heap or coming[0] <= heap[0][0]):
            first = next(coming[1], None)
            if first is not None:
                heapq.heappush(heap, (first[0], first, coming[1]))
            coming = next(rest, None)
        if not heap:
            return
        _, item, stream = heap[0]
        yield item
        following = next(stream, None)
        if following is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (following[0], following, stream))


#: Sorts by priority, then the latest admission first, then UID: unique, so that holders are never compared.
Order = tuple[int, float, str]


class Holder:
    """An admission at its queue's node; ``amounts`` and ``cells`` are by cell number."""

    __slots__ = ("admission", "amounts", "cells", "node", "order")

    def __init__(self, admission: Admission, node: Node, tree: Tree) -> None:
        self.admission = admission
        self.node = node
        self.amounts = tree.indexed(admission.usage)
        self.cells = frozenset(cell for cell, _ in self.amounts)
        self.order: Order = admission.order

    @property
    def priority(self) -> int:
        """The workload's priority."""
        return self.admission.workload.priority


Entry = tuple[Order, Holder]


class Holders:
    """Holders by UID and by queue; usage in the tree is kept equal to theirs."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.by_uid: dict[str, Holder] = {}
        #: UIDs of those with promised quota that run nowhere yet, when a claim was made last: they are not displaced.
        self.promised: frozenset[str] = frozenset()
        self._live: dict[str, list[Entry]] = {name: [] for name in tree.queues}
        self._evicted: dict[str, list[Entry]] = {name: [] for name in tree.queues}
        self._rankings = {evicted: Rankings(partial(self.first, evicted=evicted)) for evicted in (True, False)}

    def __iter__(self) -> Iterator[Holder]:
        return iter(self.by_uid.values())

    def entries(self, queue: str, evicted: bool) -> list[Entry]:
        """Holders of a queue in the order in which they are displaced."""
        return (self._evicted if evicted else self._live)[queue]

    def first(self, queue: Node, evicted: bool) -> Order | None:
        """The place of the first of :meth:`entries`."""
        entries = self.entries(queue.name, evicted)
        return entries[0][0] if entries else None

    def rankings(self, evicted: bool) -> Rankings:
        """Queues above their quota by :meth:`first`."""
        return self._rankings[evicted]

    def add(self, admission: Admission) -> None:
        """A workload got quota (or its admission changed)."""
        self.discard(admission.workload.uid)
        node = self.tree.queues[admission.workload.queue]
        holder = Holder(admission, node, self.tree)
        self.by_uid[admission.workload.uid] = holder
        insort(self.entries(node.name, admission.evicted), (holder.order, holder))
        self.tree.add(node, holder.amounts)
        node.changed()

    def discard(self, uid: str) -> Holder | None:
        """The workload's quota is free; None if it held none."""
        holder = self.by_uid.pop(uid, None)
        if holder is not None:
            entries = self.entries(holder.node.name, holder.admission.evicted)
            del entries[bisect_left(entries, holder.order, key=lambda e: e[0])]
            self.tree.remove(holder.node, holder.amounts)
            holder.node.changed()
        return holder
