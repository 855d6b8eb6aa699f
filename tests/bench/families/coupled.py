"""Families in which budgets and gangs join pods of different nodes."""

from __future__ import annotations

from tests.bench.families.known import Cluster
from tests.bench.families.plain import Unsuitable, add_all, some_members
from tests.bench.families.pools import pool, priorities, unit
from tests.bench.families.site import NodeKind, Site, Stock, curves


def budgets(site: Site) -> Cluster:
    """Half of all pods are under budgets, some of which let none go (``maxUnavailable: 0``) and some a few.

    A node holds pods of one priority, free ones and guarded ones. Under a budget that lets none go every pod is one
    beyond, wherever it is: such nodes cost a sum over pods, as others do. An open budget guards pods of nodes
    that are alike, ``c`` on each, and a member needs all gone that is there; ``k`` such nodes draw ``k c`` from it and
    cost ``max(0, k c - allowed)`` beyond, which with every node grows by as much as before or more. No pod is under two
    budgets, so harm is a sum over nodes and open budgets, in steps that never get cheaper: the cheapest steps are the
    optimum.
    """
    chance = site.chance
    of = unit(site)
    level = chance.choice((0, 10))
    total = site.between(*site.size.nodes)
    wanted = of.requests(of.per_node)
    scale = priorities([(NodeKind(of.allocatable, [Stock(of.shape, level, 1)]), 1)])
    parts = site.shares(total, 4, 1)
    kinds: list[tuple[NodeKind, int]] = []
    steps: list[tuple[int, int]] = []
    for n in range(chance.randint(1, 3)):  # budgets that let none go; some nodes have free pods beside
        guarded = chance.randint(1, of.per_node)
        holds = [
            Stock(of.shape, level, guarded, labels={"guarded": f"closed{n}"}, beyond=True),
            Stock(of.shape, level, chance.randint(0, of.per_node - guarded)),
        ]
        kinds.append((NodeKind(of.allocatable, [s for s in holds if s.count]), 0))
        site.budget(f"closed{n}", 0)
    shares = site.shares(parts[0] + parts[1], len(kinds))
    kinds = [(kind, copies) for (kind, _), copies in zip(kinds, shares, strict=True)]
    for kind, copies in kinds:
        cost = kind.cost(scale, [({**wanted, "pods": 1}, 1)])
        if cost is not None:
            steps.append((cost, copies))
    many = chance.randint(1, 12)
    for n, copies in enumerate(site.shares(parts[2], many)):
        each = chance.randint(1, of.per_node)
        beside = chance.choice((0, of.per_node - each))
        allowed = chance.choice((1, each, each + 1, 2 * each, max(1, copies * each // 3)))
        holds = [Stock(of.shape, level, each, labels={"guarded": f"open{n}"}), Stock(of.shape, level, beside)]
        open_kind = NodeKind(of.allocatable, [s for s in holds if s.count])
        site.budget(f"open{n}", allowed)
        kinds.append((open_kind, copies))
        needed = open_kind.cost(scale, [({**wanted, "pods": 1}, 1)])
        if needed != scale.pod(
            level, each + beside
        ):  # some of its pods could stay: not one of the nodes that are alike
            raise Unsuitable
        for k in range(copies):
            excess = max(0, (k + 1) * each - allowed) - max(0, k * each - allowed)
            steps.append((scale.pod(level, each + beside) + scale.beyond(excess), 1))
    free = pool(site, of, [level], parts[3], full=1, kinds=4, closed=0.0)
    steps += [
        (curve[0], copies) for curve, copies in curves(free, scale, {**wanted, "pods": 1}, 1) if curve[0] is not None
    ]
    members, cost = some_members(site, [((step,), copies) for step, copies in steps])
    add_all(site, [*kinds, *free])
    site.want([(site.make.shape(wanted), members)])
    return site.done(scale.least(cost), f"{len(site.budgets)} budgets")


def gangs_beside_singles(site: Site) -> Cluster:
    """Nodes of running gangs that have no member to spare, where one large pod would have to leave, and nodes of
    single pods, of which many would.

    Gangs count before pods at the same priority. The gangs' is the highest that any victim could have, so a plan that
    takes one does more harm than every plan that takes single pods only; the optimum is that of the single pods.
    """
    chance = site.chance
    of = unit(site)
    levels = site.levels(2)
    total = site.between(*site.size.nodes)
    mine = max(2, int(total * chance.uniform(0.3, 0.8)))
    nodes = pool(site, of, levels, mine, full=max(1, of.per_node - 2), closed=0.0)
    wanted = of.requests(chance.randint(max(1, of.per_node // 2), of.per_node))
    scale = priorities([*nodes, (NodeKind(of.allocatable, [Stock(of.shape, levels[-1], 1)]), 1)])
    members, cost = some_members(site, curves(nodes, scale, {**wanted, "pods": 1}, of.per_node))
    add_all(site, nodes)
    large = site.make.shape({"cpu": of.per_node * of.milli, "memory": of.per_node * of.memory})
    names = site.add(NodeKind(of.allocatable, []), max(1, total - mine))
    site.rigid_gangs(Stock(large, levels[-1], 1), names)
    site.want([(site.make.shape(wanted), members)])
    return site.done(scale.least(cost), "gangs that need not be touched")


def elastic_gangs(site: Site) -> Cluster:
    """Running gangs with members to spare, whole nodes each, beside gangs that have none.

    All are of one priority, and there is surplus enough, so no gang need be interrupted and none is in the optimum.
    Of a gang with a surplus of ``s``, ``c`` of whose members share a node, at most ``s // c`` nodes can be had, at
    ``c`` pods each. Sets of nodes with at most so many of each gang are a matroid, so the cheapest steps are the
    optimum.
    """
    chance = site.chance
    of = unit(site)
    total = site.between(*site.size.nodes)
    level = chance.choice((0, 10))
    scale = priorities([(NodeKind(of.allocatable, [Stock(of.shape, level, 1)]), 1)])
    wanted = of.requests(of.per_node)
    steps: list[tuple[int, int]] = []
    mine = max(2, int(total * chance.uniform(0.5, 0.9)))
    made = 0
    while made < mine:
        size = min(mine - made, chance.randint(1, min(30, mine)))
        each = chance.randint(1, min(4, of.per_node))
        stock = Stock(site.make.shape(of.requests(of.per_node // each)), level, each)
        spare = chance.choice((0, 0, each - 1, each, 2 * each, chance.randint(0, size * each)))
        spare = min(spare, size * each - 1)
        site.gang(stock, site.add(NodeKind(of.allocatable, []), size), each, spare)
        made += size
        kind = NodeKind(of.allocatable, [stock])
        cost = kind.cost(scale, [({**wanted, "pods": 1}, 1)])
        if cost != scale.pod(level, each):  # less than all of them would do
            raise Unsuitable
        if spare // each:
            steps.append((cost, spare // each))
    singles = pool(site, of, [level], max(1, total - mine), full=1, kinds=3, closed=0.0)
    steps += [(curve[0], n) for curve, n in curves(singles, scale, {**wanted, "pods": 1}, 1) if curve[0] is not None]
    add_all(site, singles)
    members, cost = some_members(site, [((step,), copies) for step, copies in steps])
    site.want([(site.make.shape(wanted), members)])
    return site.done(scale.least(cost), "surplus members")


def whole_gangs(site: Site) -> Cluster:
    """Nothing but running gangs without surplus, on nodes of their own: which of them leave?

    A gang of a priority frees as many nodes as it has, and costs itself and its pods; the two gangs of a GangGroup
    leave together. A member takes a whole node. Gangs share nothing, so the least harm of freeing enough nodes is a
    knapsack, which is solved in full.
    """
    chance = site.chance
    of = unit(site)
    levels = site.levels(2)
    total = site.between(*site.size.nodes)
    groups = 0.3 if chance.random() < 0.4 else 0.0
    scale = priorities([(NodeKind(of.allocatable, [Stock(of.shape, level, 1) for level in levels]), 1)])
    wanted = of.requests(of.per_node)
    names = site.add(NodeKind(of.allocatable, []), total)
    chance.shuffle(names)
    found: dict[tuple[int, int], int] = {}
    while names:
        level, each = chance.choice(levels), chance.randint(1, min(8, of.per_node))
        stock = Stock(site.make.shape(of.requests(max(1, of.per_node // each))), level, each)
        size = min(len(names), site.between(1, 16))
        mine, names = names[:size], names[size:]
        cost = scale.gang(level) + scale.pod(level, size * each)
        if size > 1 and chance.random() < groups:
            both, middle = sorted(site.name("run") for _ in range(2)), chance.randint(1, size - 1)
            for name, some in zip(both, (mine[:middle], mine[middle:]), strict=True):
                site.gang(stock, some, each, name=name, group=tuple(f"default/{n}" for n in both))
            cost += scale.gang(level)
        else:
            site.gang(stock, mine, each)
        found[(size, cost)] = found.get((size, cost), 0) + 1
    low, high = site.size.members
    high = min(high, max(low, total // 2))
    members = site.between(low, high) if chance.random() < 0.5 else chance.randint(low, high)
    least = _covering([(size, cost, copies) for (size, cost), copies in found.items()], members)
    if least is None:
        raise Unsuitable
    site.want([(site.make.shape(wanted), members)])
    return site.done(scale.least(least), "whole gangs")


def _covering(entries: list[tuple[int, int, int]], need: int) -> int | None:
    """The least cost of entries (size, cost, copies) the sizes of which add up to at least ``need``."""
    table: list[int | None] = [0] + [None] * need
    for size, cost, copies in entries:
        for _ in range(min(copies, -(-need // size))):
            for have in range(need - 1, -1, -1):
                known = table[have]
                if known is None:
                    continue
                reached = min(need, have + size)
                there = table[reached]
                if there is None or known + cost < there:
                    table[reached] = known + cost
    return table[need]
