"""Who is looked at first: within a queue, and among the heads of all queues.

Rules: https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#queueing-strategy . Each ClusterQueue offers one
workload at a time, its head. With StrictFIFO a head that does not fit stays the head. With BestEffortFIFO it is set
aside until something happens in its cohort tree, and so are all workloads of the queue that are like it.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from gangsched.core.quota.flavors import Assignment
from gangsched.core.quota.shares import Shares
from gangsched.core.quota.tree import Node, Tree
from gangsched.core.quota.workloads import PodSet, Workload
from gangsched.model.queues import STRICT_FIFO

#: Priority first, then who has waited longest, then UID.
Place = tuple[int, float, str]

_Likeness = tuple[int, tuple[PodSet, ...]]
_Rank = tuple[bool, tuple[int, float], int, float, str]


def place(workload: Workload) -> Place:
    """Its place in its queue."""
    return -workload.priority, workload.queued, workload.uid


class Again(enum.Enum):
    """What becomes of a head that was not admitted.

    ``NOW``: it may do better in the next cycle (it lost to another head, it waits for its victims, or there are flavors
    left to try). ``LATER``: it has to wait for a change; others like it too.
    """

    NOW = "now"
    LATER = "later"


class _Line:
    """Workloads in the order of their places."""

    def __init__(self) -> None:
        self.members: dict[str, Workload] = {}
        self.heap: list[Place] = []
        self._in_heap: dict[str, Place] = {}

    def push(self, workload: Workload) -> None:
        self.members[workload.uid] = workload
        where = place(workload)
        if self._in_heap.get(workload.uid) != where:
            self._in_heap[workload.uid] = where
            heapq.heappush(self.heap, where)

    def first(self) -> Place | None:
        while self.heap:
            first = self.heap[0]
            found = self.members.get(first[2])
            if found is not None and place(found) == first:
                return first
            heapq.heappop(self.heap)
            if self._in_heap.get(first[2]) == first:
                del self._in_heap[first[2]]
        return None

    def joined(self, other: _Line) -> _Line:
        """Both as one, neither of which is to be used any more: the shorter goes into the longer."""
        short, long = sorted((self, other), key=lambda line: len(line.members))
        for workload in short.members.values():
            long.push(workload)
        return long


class _Alike:
    """Pending workloads of one queue that are alike: those that wait, and those that are set aside."""

    def __init__(self) -> None:
        self.waiting = _Line()
        self.aside = _Line()

    def set_aside(self) -> None:
        self.waiting, self.aside = _Line(), self.aside.joined(self.waiting)

    def wake(self) -> None:
        self.waiting, self.aside = self.waiting.joined(self.aside), _Line()


class _Lane:
    """The pending workloads of one ClusterQueue. ``sticky`` waits for its victims and stays at the head."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.groups: dict[_Likeness, _Alike] = {}
        self.group_of: dict[str, _Alike] = {}
        self.sticky = ""

    def push(self, workload: Workload) -> None:
        group = self.groups.setdefault(_likeness(workload), _Alike())
        group.waiting.push(workload)
        self.group_of[workload.uid] = group

    def drop(self, uid: str) -> None:
        group = self.group_of.pop(uid)
        workload = group.waiting.members.pop(uid, None) or group.aside.members.pop(uid)
        if not group.waiting.members and not group.aside.members:
            del self.groups[_likeness(workload)]
        if self.sticky == uid:
            self.sticky = ""

    def waits(self, uid: str) -> bool:
        """Is it neither gone nor set aside?"""
        return uid in self.group_of and uid in self.group_of[uid].waiting.members

    def head(self) -> Workload | None:
        if self.waits(self.sticky):
            return self.group_of[self.sticky].waiting.members[self.sticky]
        places = [first for group in self.groups.values() if (first := group.waiting.first()) is not None]
        if not places:
            return None
        uid = min(places)[2]
        return self.group_of[uid].waiting.members[uid]


class Pending:
    """Pending workloads of all ClusterQueues."""

    def __init__(self) -> None:
        self._lanes: dict[str, _Lane] = {}
        self._queue_of: dict[str, str] = {}
        #: By UID after which flavors the next attempt goes on.
        self.resume: dict[str, Mapping[tuple[str, str], int]] = {}

    def set_queue(self, name: str, strategy: str) -> None:
        """A ClusterQueue exists, with this strategy."""
        self._lane(name).strict = strategy == STRICT_FIFO

    def add(self, workload: Workload) -> None:
        """A workload is new, has changed, or is back."""
        self.remove(workload.uid)
        self._queue_of[workload.uid] = workload.queue
        self._lane(workload.queue).push(workload)

    def remove(self, uid: str) -> None:
        """A workload was admitted or is gone."""
        queue = self._queue_of.pop(uid, None)
        self.resume.pop(uid, None)
        if queue is not None:
            self._lanes[queue].drop(uid)

    def heads(self) -> list[Workload]:
        """The head of each queue that has one, by queue name. They stay where they are."""
        found = (self._lanes[name].head() for name in sorted(self._lanes))
        return [w for w in found if w is not None]

    def failed(
        self,
        workload: Workload,
        again: Again,
        *,
        waits_for_victims: bool = False,
        resume: Mapping[tuple[str, str], int] = {},
    ) -> None:
        """The head was not admitted. With BestEffortFIFO one that waits for its victims stays the head.

        ``resume`` is that of its assignment; it is forgotten when the queue is woken.
        """
        lane = self._lanes.get(workload.queue)
        if lane is None or not lane.waits(workload.uid):
            return
        self.resume.pop(workload.uid, None)
        if resume and not waits_for_victims:
            self.resume[workload.uid] = resume
        if lane.strict:
            return
        if waits_for_victims:
            lane.sticky = workload.uid
        if again is Again.LATER:
            lane.group_of[workload.uid].set_aside()

    def wake(self, queues: Iterable[str]) -> int:
        """Something happened that may help these queues; how many workloads are looked at again."""
        count = 0
        for name in queues:
            lane = self._lanes.get(name)
            if lane is not None:
                for group in lane.groups.values():
                    if group.aside.members:
                        count += len(group.aside.members)
                        group.wake()
                if self.resume:
                    for uid in lane.group_of:
                        self.resume.pop(uid, None)
        return count

    def counts(self, queue: str) -> tuple[int, int]:
        """``(active, set aside)`` of one queue."""
        lane = self._lanes.get(queue)
        if lane is None:
            return 0, 0
        aside = sum(len(g.aside.members) for g in lane.groups.values())
        return len(lane.group_of) - aside, aside

    def _lane(self, name: str) -> _Lane:
        return self._lanes.setdefault(name, _Lane(strict=False))


def _likeness(workload: Workload) -> _Likeness:
    """Workloads of a queue that are alike are turned down for the same reasons."""
    return workload.priority, workload.pod_sets


class Candidate(msgspec.Struct, frozen=True):
    """A head with its assignment; ``has_quota`` for one that holds quota already and is looked at again."""

    workload: Workload
    assignment: Assignment
    has_quota: bool = False


def classic(heads: Sequence[Candidate]) -> list[Candidate]:
    """Those that borrow least far first, then higher priority, then who has waited longest."""
    return sorted(
        heads,
        key=lambda h: (not h.has_quota, h.assignment.level, -h.workload.priority, h.workload.queued, h.workload.uid),
    )


def fair(heads: Sequence[Candidate], tree: Tree, shares: Shares) -> Iterator[Candidate]:
    """By tournament: in each cohort the child with the lowest share (its head's usage added) wins, up to the root.

    Between two winners usage may change in the queue of the first, and nowhere else. Trees follow one another in name
    order.
    """
    roots: dict[Node, list[Candidate]] = {}
    for head in heads:
        roots.setdefault(tree.queues[head.workload.queue].root, []).append(head)
    for root in sorted(roots, key=lambda n: n.name):
        contest = _Contest(roots[root], tree, shares)
        while (winner := contest.winner(root)) is not None:
            yield winner
            contest.leaves(winner)


class _Contest:
    """The tournament of one tree.

    A child's rank depends on nothing outside its own subtree, so that after a winner has left only the nodes above it
    are ranked again. ``ranks`` are the present ranks and heads by node; heaps may hold outdated ones.
    """

    def __init__(self, heads: Sequence[Candidate], tree: Tree, shares: Shares) -> None:
        self.tree = tree
        self.shares = shares
        self.heads = {tree.queues[h.workload.queue]: h for h in heads}
        self.heaps: dict[Node, list[tuple[_Rank, int, Node]]] = {}
        self.ranks: dict[Node, tuple[_Rank, Candidate]] = {}
        for queue in list(self.heads):
            self._enter(queue)

    def winner(self, node: Node) -> Candidate | None:
        """The best head below this node, or None."""
        if node.is_queue:
            return self.heads.get(node)
        heap = self.heaps.get(node, [])
        while heap:
            rank, _, child = heap[0]
            known = self.ranks.get(child)
            if known is not None and known[0] == rank:
                return known[1]
            heapq.heappop(heap)
        return None

    def leaves(self, head: Candidate) -> None:
        """The head has been dealt with; what was used for it is in the tree."""
        queue = self.tree.queues[head.workload.queue]
        del self.heads[queue]
        self._enter(queue)

    def _enter(self, queue: Node) -> None:
        """Rank a queue and the cohorts above it (again)."""
        node: Node = queue
        while node.parent is not None:
            found = self.winner(node)
            if found is None:
                self.ranks.pop(node, None)
            else:
                rank = self._rank(found, node)
                self.ranks[node] = rank, found
                heapq.heappush(self.heaps.setdefault(node.parent, []), (rank, node.number, node))
            node = node.parent

    def _rank(self, head: Candidate, below: Node) -> _Rank:
        """Lower wins: not borrowing what is asked for, the lower share, higher priority, who has waited longest."""
        queue = self.tree.queues[head.workload.queue]
        amounts = self.tree.indexed(head.assignment.usage)
        self.tree.add(queue, amounts)
        share = self.shares.of(below)
        self.tree.remove(queue, amounts)
        return share.borrows(c for c, _ in amounts), share.key, *place(head.workload)
