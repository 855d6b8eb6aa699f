"""A gang as seen by quota: pod sets with requests, a priority, a place in a queue; once admitted, usage by flavor.

Admitted workloads are kept in the order of preemption, and borrowing queues are ranked by it. A search for victims
reads the queues of a cohort in some order and stops as soon as there is room. Sorting them for each search would cost
as much as there are queues; so only those are placed anew in which something has changed since it was asked for. Rules:
https://kueue.sigs.k8s.io/docs/concepts/workload/ . Amounts are integers in base units.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias, TypeVar

import msgspec

from gangsched.core.quota.tree import Amounts, Indexed, Node, Tree
from gangsched.messages import causes
from gangsched.model.constraints import PodShape
from gangsched.model.queues import WorkloadPriorityClass

#: The resource that counts pods; it costs quota only where a queue covers it.
PODS = "pods"

#: A workload's place in its queue: priority first, then who has waited longest, then UID.
Place = tuple[int, float, str]


class PodSet(msgspec.Struct, frozen=True, gc=False):
    """``count`` equal pods of a workload. ``shape`` has the requests of one pod, its selectors and tolerations."""

    name: str
    count: int
    shape: PodShape

    def requests(self, covered: Mapping[str, int]) -> dict[str, int]:
        """Requests of all its pods by resource, in name order; ``pods`` only if it is in ``covered``."""
        out = {name: units * self.count for name, units in self.shape.requests if name != PODS}
        if PODS in covered and not self.shape.is_part:
            out[PODS] = self.count
        return dict(sorted(out.items()))


class Workload(msgspec.Struct, frozen=True, gc=False):
    """A gang that waits for quota or has it.

    ``queue`` is its ClusterQueue. ``priority`` is for quota only. ``queued`` (seconds) is its place among equals: when
    it was created; being preempted does not change it. ``local_queue`` is ``namespace/name``.
    """

    namespace: str
    name: str
    uid: str
    queue: str
    pod_sets: tuple[PodSet, ...]
    priority: int = 0
    queued: float = 0.0
    local_queue: str = ""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def place(self) -> Place:
        """Its place in its queue."""
        return -self.priority, self.queued, self.uid


class Admission(msgspec.Struct, frozen=True, gc=False):
    """A workload that holds quota.

    The priority of ``workload`` is that by which it may be displaced. ``usage`` is what it holds, ``promised`` the part
    of it that no pod uses yet. ``since`` (seconds) is when it got it. ``evicted``: its eviction has begun, and it holds
    its quota until it is gone. If only some of its pods are evicted, ``leaving`` is their part.
    """

    workload: Workload
    usage: Amounts
    since: float = 0.0
    evicted: bool = False
    promised: Amounts = ()
    leaving: Amounts = ()

    @property
    def gives_back(self) -> Amounts:
        """Return the quota of its terminating pods."""
        return self.usage if self.evicted else self.leaving

    @property
    def order(self) -> tuple[int, float, str]:
        """Who is displaced first within a queue: lower priority, then the latest to be admitted, then UID."""
        return self.workload.priority, -self.since, self.workload.uid


def pod_sets(shapes: Iterable[PodShape]) -> tuple[PodSet, ...]:
    """Pods of a gang by shape, in the order in which each shape comes first; ``main`` if there is only one."""
    counts: dict[PodShape, int] = {}
    for shape in shapes:
        counts[shape] = counts.get(shape, 0) + 1
    if len(counts) == 1:
        return tuple(PodSet("main", n, s) for s, n in counts.items())
    return tuple(PodSet(f"role-{i}", n, s) for i, (s, n) in enumerate(counts.items()))


def workload_priority(
    class_name: str, classes: Mapping[str, WorkloadPriorityClass], pod_priority: int
) -> tuple[int, str]:
    """``(priority, problem)`` of a workload: that of its WorkloadPriorityClass, without one that of its pods."""
    if not class_name:
        return pod_priority, ""
    found = classes.get(class_name)
    if found is None:
        return pod_priority, causes.not_found(kind="WorkloadPriorityClass", name=class_name)
    return found.value, ""


_BINARY = (("Ei", 2**60), ("Pi", 2**50), ("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def quantity(resource: str, units: int) -> str:
    """An exact quantity for messages: ``cpu`` 1500 -> "1500m", ``memory`` 2**30 -> "1Gi", else the number."""
    if resource == "cpu":
        return str(units // 1000) if units % 1000 == 0 else f"{units}m"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for suffix, size in _BINARY:
            if units and units % size == 0:
                return f"{units // size}{suffix}"
    return str(units)


#: The key by which queues are ranked, the first first. No two queues have the same.
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
    """Rankings of the queues of all cohorts by the same key, computed on demand."""

    def __init__(self, key: Callable[[Node], Key | None]) -> None:
        self._key = key
        self._rankings: dict[Node, Ranking] = {}

    def ranking_of(self, cohort: Node) -> Ranking:
        """Return the ranking of one cohort."""
        found = self._rankings.get(cohort)
        if found is None:
            found = self._rankings[cohort] = Ranking(cohort, self._key)
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
    """An admission at its queue's node, or a part of it; ``amounts`` and ``cells`` are by cell number. ``evicted``: its
    pods leave already.
    """

    __slots__ = ("admission", "amounts", "cells", "evicted", "node", "order")

    def __init__(self, admission: Admission, node: Node, amounts: Indexed, *, evicted: bool) -> None:
        self.admission = admission
        self.node = node
        self.amounts = amounts
        self.cells = frozenset(cell for cell, _ in self.amounts)
        self.evicted = evicted
        self.order: Order = admission.order

    def parts(self, tree: Tree) -> list[Holder]:
        """What its pods hold that leave already, and what those hold that stay: each by itself where there is both."""
        leaving = tree.indexed(self.admission.leaving)
        if not leaving:
            return [self]
        staying = less(self.amounts, leaving)
        parts = ((leaving, True), (staying, False))
        return [Holder(self.admission, self.node, amounts, evicted=gone) for amounts, gone in parts]

    @property
    def priority(self) -> int:
        """The workload's priority."""
        return self.admission.workload.priority


def less(amounts: Indexed, part: Indexed) -> list[tuple[int, int]]:
    """These amounts without a part of them."""
    taken = dict(part)
    return [(cell, units - taken.get(cell, 0)) for cell, units in amounts if units > taken.get(cell, 0)]


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
        holder = Holder(admission, node, self.tree.indexed(admission.usage), evicted=admission.evicted)
        self.by_uid[admission.workload.uid] = holder
        for part in holder.parts(self.tree):
            insort(self.entries(node.name, part.evicted), (part.order, part))
        self.tree.add(node, holder.amounts)
        node.changed()

    @contextmanager
    def without(self, holders: Sequence[Holder]) -> Iterator[None]:
        """As long as this lasts their quota is free."""
        for holder in holders:
            self.tree.remove(holder.node, holder.amounts)
        yield
        for holder in holders:
            self.tree.add(holder.node, holder.amounts)

    def discard(self, uid: str) -> Holder | None:
        """The workload's quota is free; None if it held none."""
        holder = self.by_uid.pop(uid, None)
        if holder is not None:
            for part in holder.parts(self.tree):
                entries = self.entries(holder.node.name, part.evicted)
                del entries[bisect_left(entries, part.order, key=lambda e: e[0])]
            self.tree.remove(holder.node, holder.amounts)
            holder.node.changed()
        return holder
