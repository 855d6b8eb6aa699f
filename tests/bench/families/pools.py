"""Pools of nodes that differ in what runs on them: some cheap, some dear, some that look cheap and are of no use."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gangsched.model.constraints import PodShape, Taint
from tests.bench.families.known import Scale
from tests.bench.families.site import GI, NodeKind, Site, Stock
from tests.oracle.generate import PREEMPTOR_PRIORITY

#: Higher than the gang, and equal to it: neither may be evicted.
_HIGHER = (PREEMPTOR_PRIORITY, PREEMPTOR_PRIORITY + 1, 1000)


class Unit(msgspec.Struct):
    """What a pool is made of: nodes with room for ``per_node`` pods of ``shape`` and ``slack`` millicores more."""

    shape: PodShape
    milli: int
    memory: int
    per_node: int
    slack: int

    @property
    def allocatable(self) -> dict[str, int]:
        """A node's room."""
        return {"cpu": self.per_node * self.milli + self.slack, "memory": (self.per_node + 1) * self.memory}

    def requests(self, pods: int, extra: int = 0) -> dict[str, int]:
        """As much as so many pods, and some millicores."""
        return {"cpu": pods * self.milli + extra, "memory": pods * self.memory}


def unit(site: Site) -> Unit:
    """A unit of some size."""
    chance = site.chance
    milli, memory = chance.choice((500, 1000, 1500, 2000, 4000)), chance.choice((1, 2, 3, 4)) * GI
    shape = site.make.shape({"cpu": milli, "memory": memory})
    return Unit(shape, milli, memory, site.between(*site.size.per_node), chance.randrange(0, milli, 100))


def loaded(site: Site, of: Unit, levels: Sequence[int], least_full: int, closed: float = 0.0) -> NodeKind:
    """A node with at least so many pods of one or two priorities, and perhaps something that stays and takes little.

    Some of the pods, as likely as ``closed`` says, are under a budget that lets none of them go.
    """
    chance = site.chance
    count = chance.randint(min(least_full, of.per_node), of.per_node)
    first = chance.randint(0, count) if len(levels) > 1 else count
    one, other = chance.choice(levels), chance.choice(levels)
    holds = [Stock(of.shape, one, first), Stock(of.shape, other, count - first)]
    for stock in holds:
        if chance.random() < closed:
            app = f"closed{chance.randrange(3)}"
            stock.labels, stock.beyond = {"guarded": app}, True
            site.budget(app, 0)
    if of.slack >= 100 and chance.random() < 0.3:
        agent = site.make.shape({"cpu": chance.randrange(100, of.slack + 1, 100)})
        holds.append(Stock(agent, chance.choice(_HIGHER), 1, stays=chance.random() < 0.3))
    return NodeKind(of.allocatable, [s for s in holds if s.count])


def useless(site: Site, of: Unit, level: int) -> NodeKind:
    """A node that looks cheap: little would have to leave, but the members cannot come, whatever leaves."""
    chance = site.chance
    way = chance.randrange(5)
    few = [Stock(of.shape, level, 1)]
    if way == 0:
        return NodeKind(of.allocatable, few, taints=(Taint("dedicated", "infra"),), open=False)
    if way == 1:
        return NodeKind(of.allocatable, few, open=False, unschedulable=True)
    if way == 2:
        return NodeKind(of.allocatable, few, open=False, ready=False, taints=(Taint("node.kubernetes.io/not-ready"),))
    if way == 3:
        return NodeKind({"cpu": of.milli, "memory": of.memory}, few)
    full = Stock(of.shape, chance.choice(_HIGHER), of.per_node - 1)
    return NodeKind(of.allocatable, [*few, full] if of.per_node > 1 else [Stock(of.shape, 1000, 1)])


def pool(
    site: Site,
    of: Unit,
    levels: Sequence[int],
    count: int,
    *,
    full: int,
    kinds: int = 6,
    noise: float = 0.3,
    closed: float | None = None,
) -> list[tuple[NodeKind, int]]:
    """So many nodes of up to ``kinds`` kinds and some of no use; each holds at least ``full`` pods. ``closed`` is as in
    :func:`loaded`, if the cluster's is not to be taken.
    """
    closed = site.closed if closed is None else closed
    chance = site.chance
    useful = [loaded(site, of, levels, full, closed) for _ in range(chance.randint(1, max(1, min(kinds, count // 4))))]
    wasted = int(count * chance.uniform(0.0, noise)) if count > 4 else 0
    out = list(zip(useful, site.shares(count - wasted, len(useful), 1), strict=True))
    if wasted:
        some = [useless(site, of, min(levels)) for _ in range(min(wasted, 3))]
        out += list(zip(some, site.shares(wasted, len(some)), strict=True))
    return [(kind, copies) for kind, copies in out if copies > 0]


def priorities(kinds: Sequence[tuple[NodeKind, int]]) -> Scale:
    """The scale of harm for these nodes."""
    return Scale({s.priority for kind, _ in kinds for s in kind.holds if s.evictable} | {0})
