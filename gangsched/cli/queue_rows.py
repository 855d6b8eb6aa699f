"""Cohorts and queues as a list: what each uses, has and lends. Facts in, rows out; no I/O."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gangsched.core.quota.quota import Quota
from gangsched.core.quota.status import Tally
from gangsched.core.quota.tree import Node


class Usage(msgspec.Struct, frozen=True):
    """One resource in one flavor at one node, base units.

    ``reserved`` is what workloads hold, ``used`` what those of them hold that run. ``available`` is what is free now of
    the node's own ``quota``.
    """

    flavor: str
    resource: str
    reserved: int
    used: int
    quota: int
    available: int

    @property
    def borrowed(self) -> int:
        """What is reserved beyond the node's own quota."""
        return max(0, self.reserved - self.quota)


class Row(msgspec.Struct, frozen=True):
    """One queue or cohort. ``depth`` is 0 for roots; ``problem`` says why a queue admits nothing.

    Workloads of a queue: ``pending`` wait, ``reserving`` hold quota, ``admitted`` are those of the latter that run.
    """

    name: str
    is_queue: bool
    depth: int
    usages: tuple[Usage, ...]
    pending: int = 0
    reserving: int = 0
    admitted: int = 0
    problem: str = ""


def rows(quota: Quota, tally: Tally) -> Iterator[Row]:
    """All nodes from the roots down, each followed by what is below it."""
    used = _used(quota, tally)
    roots = sorted(quota.tree.roots, key=lambda n: (n.is_queue, n.name))
    for root in roots:
        yield from _below(quota, tally, used, root, 0)


def _used(quota: Quota, tally: Tally) -> dict[Node, list[int]]:
    """Return the usage of every node without the room held for pods that do not run yet, by cell."""
    waiting = [h for h in quota.holders if not tally.runs(h.admission.workload.uid)]
    for holder in waiting:
        quota.tree.remove(holder.node, holder.amounts)
    found: dict[Node, list[int]] = {}
    below = list(quota.tree.roots)
    while below:
        node = below.pop()
        found[node] = list(node.usage)
        below += node.children
    for holder in waiting:
        quota.tree.add(holder.node, holder.amounts)
    return found


def _below(quota: Quota, tally: Tally, used: dict[Node, list[int]], node: Node, depth: int) -> Iterator[Row]:
    usages = tuple(
        Usage(
            flavor,
            resource,
            node.usage[i],
            used[node][i],
            node.subtree[i],
            max(0, min(node.available(i), _free(node, i))),
        )
        for (flavor, resource), i in quota.tree.cells.items()
        if node.usage[i] or node.subtree[i] or node.borrowing[i] is not None
    )
    name = node.name
    if node.is_queue:
        sums = tally.of_queue(name)
        yield Row(name, True, depth, usages, sums.pending, sums.reserving, sums.admitted, quota.inactive(name))
    else:
        yield Row(name, False, depth, usages)
    for child in node.children:
        yield from _below(quota, tally, used, child, depth + 1)


def _free(node: Node, cell: int) -> int:
    """What is not reserved of the node's own quota."""
    return max(0, node.subtree[cell] - node.usage[cell])
