"""The tree of cohorts and queues, and how much of each flavor's resources is owned, used and within reach.

Rules: https://kueue.sigs.k8s.io/docs/concepts/cohort/ and .../cluster_queue/#borrowing . Per node and cell (a resource
in a flavor):

- *subtree*: a queue's nominal quota; a cohort's own plus what its children do not keep to themselves.
- *local*: what a lending limit keeps from the parent, ``max(0, subtree - lending limit)``.
- *usage*: a queue's workloads; of a cohort's children what they use beyond their local part.
- *available*: at the root what is unused; below it what is unused of the local part, plus what is available at the
  parent as far as the borrowing limit lets the node go.

Amounts are Python integers: sums of quotas of strangers must neither overflow nor round. A change of usage walks one
path to the root, so that a decision costs the same with a thousand queues as with ten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gangsched.model.queues import ClusterQueue, Cohort, Limits, ResourceGroup

#: ``(flavor, resource)``: what quota is counted in.
Cell = tuple[str, str]
Amounts = tuple[tuple[Cell, int], ...]

#: A taller tree of cohorts is taken for a mistake.
MAX_DEPTH = 100

#: A cell by its number in the tree, with an amount.
Indexed = Sequence[tuple[int, int]]


class Node:
    """A queue or cohort. All lists are indexed by cell number; ``borrowing`` and ``lending`` are None for no limit.

    ``potential`` is what would be available without any usage. ``height`` is the distance to the farthest leaf.
    ``over`` are, by cell, the cohorts below that use more than their subtree's quota. ``watchers`` are sets to which
    queues directly below are added when something about them changes. ``stamp`` is the tree's clock when usage last
    changed here. Of a queue that is ``kept`` others take nothing back.
    """

    __slots__ = (
        "borrowing",
        "children",
        "height",
        "is_queue",
        "kept",
        "lending",
        "local",
        "name",
        "nominal",
        "number",
        "over_quota",
        "parent",
        "potential",
        "stamp",
        "subtree",
        "usage",
        "watchers",
        "weight",
    )

    def __init__(self, name: str, is_queue: bool, weight: float, cells: int) -> None:
        self.name = name
        self.is_queue = is_queue
        self.weight = weight
        self.kept = False
        self.number = 0
        self.parent: Node | None = None
        self.children: list[Node] = []
        self.height = 0
        self.nominal = [0] * cells
        self.borrowing: list[int | None] = [None] * cells
        self.lending: list[int | None] = [None] * cells
        self.subtree = [0] * cells
        self.local = [0] * cells
        self.potential = [0] * cells
        self.usage = [0] * cells
        self.over_quota: list[set[Node]] = []
        self.watchers: list[set[Node]] = []
        self.stamp = 0

    @property
    def root(self) -> Node:
        """The top of its tree; itself if it has no parent."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def ancestors(self) -> Iterator[Node]:
        """From the parent up to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def path(self) -> str:
        """``/root/…/name``, as messages have it."""
        names = [self.name, *(a.name for a in self.ancestors())]
        return "/" + "/".join(reversed(names))

    # -- how much there is ---------------------------------------------------------------------------------

    def unused_local(self, cell: int) -> int:
        """What is left of the part that the parent does not see."""
        return max(0, self.local[cell] - self.usage[cell])

    def available(self, cell: int) -> int:
        """The amount for one more workload; negative after quota was lowered below its usage."""
        if self.parent is None:
            return self.subtree[cell] - self.usage[cell]
        above = self.parent.available(cell)
        limit = self.borrowing[cell]
        local, usage = self.local[cell], self.usage[cell]
        if limit is not None:
            above = min(above, self.subtree[cell] - local - max(0, usage - local) + limit)
        return max(0, local - usage) + above

    def borrows(self, cell: int, more: int = 0) -> bool:
        """Return True if the node would use more than its own subtree's quota with so much more."""
        return self.usage[cell] + more > self.subtree[cell]

    def within(self, cells: Iterable[int]) -> bool:
        """Return True if the node is within its subtree's quota in all of these."""
        return all(self.usage[c] <= self.subtree[c] for c in cells)

    def cohorts_over(self, cells: Iterable[int]) -> list[Node]:
        """The cohorts below that are not within their quota in some of these, in the tree's order."""
        found = {n for c in cells for n in self.over_quota[c]}
        return sorted(found, key=lambda n: n.number)

    # -- changes of usage ----------------------------------------------------------------------------------

    def add(self, cell: int, units: int, stamp: int) -> None:
        """Use so much more here; what the local part does not hold is used of the parent."""
        more = max(0, units - self.unused_local(cell))
        self._set(cell, self.usage[cell] + units, stamp)
        if self.parent is not None and more:
            self.parent.add(cell, more, stamp)

    def remove(self, cell: int, units: int, stamp: int) -> None:
        """Undo :meth:`add`."""
        in_parent = max(0, self.usage[cell] - self.local[cell])
        self._set(cell, self.usage[cell] - units, stamp)
        if self.parent is not None and in_parent:
            self.parent.remove(cell, min(units, in_parent), stamp)

    def _set(self, cell: int, usage: int, stamp: int) -> None:
        self.usage[cell] = usage
        self.stamp = stamp
        if self.is_queue:
            self.changed()
        elif self.parent is not None:
            if usage > self.subtree[cell]:
                self.parent.over_quota[cell].add(self)
            else:
                self.parent.over_quota[cell].discard(self)

    def changed(self) -> None:
        """The usage of this queue, or its holders, have changed."""
        if self.parent is not None:
            for changed in self.parent.watchers:
                changed.add(self)


class Tree:
    """All queues and cohorts. ``cells`` numbers the (flavor, resource) pairs that any of them lists."""

    def __init__(self, queues: Mapping[str, ClusterQueue], cohorts: Mapping[str, Cohort]) -> None:
        listed = [q.groups for _, q in sorted(queues.items())] + [c.groups for _, c in sorted(cohorts.items())]
        names = sorted({(f.flavor, r) for groups in listed for g in groups for f in g.flavors for r in g.resources})
        self.cells: dict[Cell, int] = {cell: i for i, cell in enumerate(names)}
        self.names: list[Cell] = names
        self.queues: dict[str, Node] = {}
        self.cohorts: dict[str, Node] = {}
        self.clock = 0
        #: Cohorts that are their own ancestors or have too many; their queues admit nothing.
        self.cyclic = _endless(cohorts)
        for name, queue in sorted(queues.items()):
            self.queues[name] = self._node(name, True, queue.weight, queue.groups)
            self.queues[name].kept = queue.kept
            if queue.cohort and queue.cohort not in self.cyclic:
                self._attach(self.queues[name], queue.cohort, cohorts)
        for name in sorted(cohorts):
            self._cohort(name, cohorts)
        self.roots = [n for n in (*self.cohorts.values(), *self.queues.values()) if n.parent is None]
        for root in self.roots:
            _sum_up(root)
            _potentials(root)
        for number, node in enumerate((*self.queues.values(), *self.cohorts.values())):
            node.number = number
            node.over_quota = [set() for _ in names]
            node.children.sort(key=lambda n: (n.is_queue, n.name))

    def _node(self, name: str, is_queue: bool, weight: float, groups: tuple[ResourceGroup, ...]) -> Node:
        node = Node(name, is_queue, weight, len(self.names))
        for cell, limits in quotas(groups):
            i = self.cells[cell]
            node.nominal[i], node.borrowing[i], node.lending[i] = limits.nominal, limits.borrowing, limits.lending
        return node

    def _cohort(self, name: str, cohorts: Mapping[str, Cohort]) -> Node:
        """The node of a cohort and of its ancestors; without an object it has no quota of its own and no parent."""
        found = self.cohorts.get(name)
        if found is not None:
            return found
        spec = cohorts.get(name) or Cohort(name)
        node = self.cohorts[name] = self._node(name, False, spec.weight, spec.groups)
        if spec.parent and name not in self.cyclic:
            self._attach(node, spec.parent, cohorts)
        return node

    def _attach(self, node: Node, parent: str, cohorts: Mapping[str, Cohort]) -> None:
        node.parent = self._cohort(parent, cohorts)
        node.parent.children.append(node)

    def indexed(self, amounts: Iterable[tuple[Cell, int]]) -> list[tuple[int, int]]:
        """Amounts by cell number; cells that no queue lists are left out: they can be neither lent nor missed."""
        return [(self.cells[cell], units) for cell, units in amounts if cell in self.cells]

    def add(self, node: Node, amounts: Indexed) -> None:
        """Use these amounts at a queue."""
        self.clock += 1
        for cell, units in amounts:
            node.add(cell, units, self.clock)

    def remove(self, node: Node, amounts: Indexed) -> None:
        """No longer use these amounts at a queue."""
        self.clock += 1
        for cell, units in amounts:
            node.remove(cell, units, self.clock)


def quotas(groups: Iterable[ResourceGroup]) -> Iterator[tuple[Cell, Limits]]:
    """All limits of resource groups, by cell."""
    for group in groups:
        for flavor in group.flavors:
            for resource, limits in flavor.resources:
                yield (flavor.flavor, resource), limits


def _endless(cohorts: Mapping[str, Cohort]) -> frozenset[str]:
    """Cohorts that never reach a root when going up, or only after more than :data:`MAX_DEPTH` steps."""
    depth: dict[str, int] = {}
    for start in sorted(cohorts):
        path: list[str] = []
        name = start
        while name in cohorts and name not in depth and name not in path:
            path.append(name)
            name = cohorts[name].parent
        above = MAX_DEPTH if name in path else depth.get(name, 0)
        for each in reversed(path):
            depth[each] = above = above + 1
    return frozenset(name for name, steps in depth.items() if steps > MAX_DEPTH)


def _sum_up(node: Node) -> None:
    """Subtree quota, local part and height, children first."""
    node.subtree = list(node.nominal)
    for child in node.children:
        _sum_up(child)
        node.height = max(node.height, child.height + 1)
        for cell, units in enumerate(child.subtree):
            node.subtree[cell] += units - child.local[cell]
    for cell, limit in enumerate(node.lending):
        node.local[cell] = 0 if limit is None else max(0, node.subtree[cell] - limit)


def _potentials(node: Node) -> None:
    """The potential of each node if nothing were used, parents first."""
    for cell, subtree in enumerate(node.subtree):
        if node.parent is None:
            node.potential[cell] = subtree
            continue
        most = node.local[cell] + node.parent.potential[cell]
        limit = node.borrowing[cell]
        node.potential[cell] = most if limit is None else min(most, subtree + limit)
    for child in node.children:
        _potentials(child)


def lowest_fitting(queue: Node, cell: int, units: int) -> tuple[int, bool]:
    """``(level, more above)``: the height of the smallest subtree with so much quota unused, and whether there is
    anything beyond it.

    Level 0 is the queue's own quota. If no subtree has it, the height of the whole tree and False.
    """
    if queue.parent is None or not queue.borrows(cell, units):
        return 0, queue.parent is not None
    left = units - queue.unused_local(cell)
    root = queue.parent
    for node in queue.ancestors():
        if not node.borrows(cell, left):
            return node.height, node.parent is not None
        left -= node.unused_local(cell)
        root = node
    return root.height, False


def fits_in_quota(node: Node, requests: Indexed) -> tuple[bool, list[tuple[int, int]]]:
    """``(fits, rest)``: do the requests fit in the subtree's own quota, and what of them is asked of the parent."""
    fits = all(not node.borrows(cell, units) for cell, units in requests)
    return fits, [(cell, max(0, units - node.unused_local(cell))) for cell, units in requests]
