"""Who holds quota, in the order in which they would be displaced."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from functools import partial

from gangsched.core.quota.ranking import Rankings
from gangsched.core.quota.tree import Node, Tree
from gangsched.core.quota.workloads import Admission

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
        #: UIDs of those that are promised quota and run nowhere yet, when a claim was made last: nobody displaces them.
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
