"""Families in which nodes alone decide: launchers and workers, several kinds, several sizes and priorities, ports.

Why the optimum is known is the same for all. All evictable pods are single pods, so harm is a sum over pods; a member
takes room on one node and no rule joins nodes, so the sum falls into one part per node. What a node costs with so many
members on it is found by trying every choice of its pods (:func:`~.known.price`), and how the members are shared out
by a table over all nodes (:func:`~.known.cheapest`, :func:`~.known.together`), both exact. Kinds of members that may
not use the same nodes are independent, and their optima add up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from gangsched.core.options import Options
from gangsched.model.constraints import HostPort, PodShape, PodTerm
from tests.bench.families.known import Cluster, Counts, Curve, Option, cheapest, together
from tests.bench.families.pools import loaded, pool, priorities, unit, useless
from tests.bench.families.site import (
    GI,
    GPU,
    GPU_TAINT,
    GPU_TOLERATION,
    RUN_TIME,
    NodeKind,
    Site,
    Stock,
    curves,
    selects,
)
from tests.oracle.case import HOSTNAME, NOW, Case

Pool = Sequence[tuple[NodeKind, int]]


class Unsuitable(Exception):  # noqa: N818
    """What came out by chance is not what the family is about; another try will be."""


def some_members(site: Site, found: Sequence[Curve], most: int = 10**6) -> tuple[int, int]:
    """How many equal members, and what they cost at least. Some room is free, and too little for all of them."""
    slots = sum(len([c for c in curve if c is not None]) * copies for curve, copies in found)
    low, high = site.size.members
    if slots < low:
        raise Unsuitable
    high = max(low, min(high, most, int(slots * 0.8)))
    count = site.between(low, high) if site.chance.random() < 0.5 else site.chance.randint(low, high)
    cost = cheapest(found, count)[count]
    if not cost:
        raise Unsuitable
    return count, cost


def add_all(site: Site, nodes: Pool) -> None:
    """Put them all in."""
    for kind, copies in nodes:
        site.add(kind, copies)


# -- one kind of members ---------------------------------------------------------------------------------------------


def whole_nodes(site: Site) -> Cluster:
    """Members that want whole nodes, over nodes that hold more or fewer pods of one priority."""
    of = unit(site)
    nodes = pool(site, of, [site.chance.choice((0, 10))], site.between(*site.size.nodes), full=1)
    wanted = of.requests(of.per_node, extra=site.chance.choice((0, min(of.slack, 100))))
    return _equal(site, nodes, wanted, 1, "whole nodes")


def small_members(site: Site) -> Cluster:
    """Members of which a node can hold many, each worth a few pods: eight pods on one node are worth more than on
    eight nodes.
    """
    of = unit(site)
    nodes = pool(site, of, [0], site.between(*site.size.nodes), full=of.per_node - 1)
    wanted = of.requests(site.chance.randint(1, max(1, of.per_node // 2)), extra=site.chance.choice((0, 100)))
    return _equal(site, nodes, wanted, of.per_node, f"members of {wanted['cpu']}m")


def several_priorities(site: Site) -> Cluster:
    """Pods of two to four priorities mixed on every node: many of a low priority go before one of a higher."""
    of = unit(site)
    levels = site.chance.sample((-10, 0, 1, 10, 50, 99), site.chance.randint(2, 4))
    nodes = pool(site, of, levels, site.between(*site.size.nodes), full=max(1, of.per_node - 2), kinds=8)
    wanted = of.requests(site.chance.randint(1, of.per_node), extra=site.chance.choice((0, min(of.slack, 100))))
    return _equal(site, nodes, wanted, of.per_node, f"{len(levels)} priorities")


def young_pods(site: Site) -> Cluster:
    """Some pods have not run long enough to be evicted: nodes with few others look cheap, and cannot be had.

    They stay as pods of higher priority do, which is what the exact oracle takes them for.
    """
    chance = site.chance
    of = unit(site)
    levels = site.levels(2)
    nodes = pool(site, of, levels, site.between(*site.size.nodes), full=max(1, of.per_node - 1), kinds=8)
    for kind, _ in nodes:
        for stock in kind.holds:
            stock.young = stock.evictable and chance.random() < 0.3
    wanted = of.requests(chance.randint(1, of.per_node))
    options = Options(minimum_run_time_seconds=float(RUN_TIME))
    out = _equal(site, nodes, wanted, of.per_node, "pods that have begun lately", options=options)
    young = {p.uid for p in out.pods if p.node and p.started > NOW - RUN_TIME}
    pods = [msgspec.structs.replace(p, priority=1000) if p.uid in young else p for p in out.pods]
    out.same = (Case(out.nodes, pods, out.gangs, out.budgets),)
    return out


def uneven_pods(site: Site) -> Cluster:
    """Pods of several sizes, of which memory is short on some nodes and CPU on others: few large ones or many small
    ones could go.
    """
    chance = site.chance
    milli, memory = chance.choice((250, 500, 1000)), chance.choice((1, 2)) * GI
    big = max(2, min(8, site.size.per_node[1] // 2))
    sizes = [(1, 1), (2, 1), (1, 3), (big, 2), (3, big)]
    shapes = [site.make.shape({"cpu": c * milli, "memory": m * memory}) for c, m in sizes]
    kinds = []
    for _ in range(chance.randint(2, 7)):
        holds = [
            Stock(shapes[n], chance.choice((0, 0, 5)), chance.randint(1, max(1, site.size.per_node[1] // 3)))
            for n in chance.sample(range(len(sizes)), chance.randint(2, 3))
        ]
        cpu = sum(sizes[shapes.index(s.shape)][0] * s.count for s in holds)
        ram = sum(sizes[shapes.index(s.shape)][1] * s.count for s in holds)
        room = {"cpu": (cpu + chance.choice((0, 0, 1))) * milli, "memory": (ram + chance.choice((0, 2))) * memory}
        kinds.append(NodeKind(room, holds))
    nodes = list(zip(kinds, site.shares(site.between(*site.size.nodes), len(kinds), 1), strict=True))
    wanted = {"cpu": chance.randint(2, big + 2) * milli, "memory": chance.randint(2, big + 1) * memory}
    return _equal(site, nodes, wanted, 100, "pods of several sizes", limit=60)


def _equal(
    site: Site, nodes: Pool, wanted: Mapping[str, int], most: int, title: str, limit: int = 10**6, **more: Any
) -> Cluster:
    scale = priorities(nodes)
    shape = site.make.shape(dict(wanted))
    count, cost = some_members(site, curves(nodes, scale, {**wanted, "pods": 1}, most), limit)
    add_all(site, nodes)
    site.want([(shape, count)])
    return site.done(scale.least(cost), title, **more)


def one_per_node(site: Site) -> Cluster:
    """Members that keep off each other's nodes (anti-affinity by hostname), each of which is much smaller than a node.

    As for the others, with no more than one member on a node.
    """
    of = unit(site)
    nodes = pool(site, of, site.levels(2), site.between(*site.size.nodes), full=of.per_node - 1)
    scale = priorities(nodes)
    wanted = of.requests(site.chance.randint(1, max(1, of.per_node // 2)))
    term = PodTerm(HOSTNAME, selects(job="want"), ("default",))
    shape = site.make.shape(wanted, anti_affinity=[term])
    count, cost = some_members(site, curves(nodes, scale, {**wanted, "pods": 1}, 1))
    add_all(site, nodes)
    site.want([(shape, count)])
    return site.done(scale.least(cost), "one member per node")


def host_ports(site: Site) -> Cluster:
    """Members that want a port of the node, which on some nodes a pod holds that may go, or that may not.

    Two members never share a node. Where an evictable pod holds the port it has to go, whatever else leaves
    (``all_go``); where another holds it, no member can come. The exact oracle, which knows no ports, is asked with the
    port as a resource of which each node has one.
    """
    chance = site.chance
    of = unit(site)
    port = HostPort("0.0.0.0", "TCP", 8080)
    holder = site.make.shape({"cpu": of.milli, "memory": of.memory}, host_ports=[port])
    scale_levels = site.levels(2)
    nodes: list[tuple[NodeKind, int]] = []
    for kind, copies in pool(site, of, scale_levels, site.between(*site.size.nodes), full=1, kinds=8):
        room = kind.free()
        if kind.open and chance.random() < 0.6 and room["cpu"] >= of.milli and room["memory"] >= of.memory:
            level = chance.choice((*scale_levels, *scale_levels, 1000))
            kind.holds.append(Stock(holder, level, 1, all_go=True))
        nodes.append((kind, copies))
    scale = priorities(nodes)
    wanted = of.requests(chance.randint(1, of.per_node))
    shape = site.make.shape(wanted, host_ports=[port])
    count, cost = some_members(site, curves(nodes, scale, {**wanted, "pods": 1}, 1))
    add_all(site, nodes)
    site.want([(shape, count)])
    out = site.done(scale.least(cost), "a port of the node")
    out.same = (_as_resource(out),)
    return out


def _as_resource(cluster: Cluster) -> Case:
    """The port as a resource of which each node has one."""
    port = "example.com/port"
    shapes: dict[int, PodShape] = {}
    pods = []
    for pod in cluster.pods:
        if pod.shape.host_ports:
            if id(pod.shape) not in shapes:
                requests = tuple(sorted((*pod.shape.requests, (port, 1))))
                shapes[id(pod.shape)] = msgspec.structs.replace(pod.shape, requests=requests, host_ports=())
            pod = msgspec.structs.replace(pod, shape=shapes[id(pod.shape)])
        pods.append(pod)
    nodes = [msgspec.structs.replace(n, allocatable=tuple(sorted((*n.allocatable, (port, 1))))) for n in cluster.nodes]
    return Case(nodes, pods, cluster.gangs, cluster.budgets)


# -- several kinds ---------------------------------------------------------------------------------------------------


class GPUs(msgspec.Struct):
    """A pool of tainted GPU nodes with ``each`` GPUs, full of notebooks; all of priority 0."""

    each: int
    milli: int
    notebook: Callable[[int], Stock]

    def node(self, holds: list[Stock]) -> NodeKind:
        """A node of the pool. Of CPU and memory it has plenty."""
        room = {GPU: self.each, "cpu": (self.each + 6) * self.milli, "memory": 64 * self.each * GI}
        return NodeKind(room, holds, taints=(GPU_TAINT,))


def gpus_of(site: Site) -> GPUs:
    """A pool of some size."""
    each = site.chance.choice((4, 8, 8)) if site.size.nodes[1] > 10 else 2
    milli = site.chance.choice((1000, 2000, 4000))
    shapes = {
        gpus: site.make.shape({GPU: gpus, "cpu": milli, "memory": 16 * GI}, tolerations=(GPU_TOLERATION,))
        for gpus in (1, 2, 4)
    }
    return GPUs(each, milli, lambda gpus: Stock(shapes[gpus], 0, each // gpus))


def gpu_pool(site: Site, gpus: GPUs, count: int, *, plain: bool) -> list[tuple[NodeKind, int]]:
    """Nodes full of notebooks of one GPU; unless ``plain`` on some of two or four, on some not all of them, and some
    with a GPU that a pod of higher priority holds.
    """
    chance = site.chance
    full = gpus.node([gpus.notebook(1)])
    if plain or count < 4:
        return [(full, count)]
    kinds = [full]
    for size in (1, 2, 4):
        stock = gpus.notebook(size)
        if stock.count:
            stock.count -= chance.randint(0, stock.count - 1)
            kinds.append(gpus.node([stock]))
    some = gpus.notebook(1)
    some.count = max(1, gpus.each // 4)
    held = Stock(some.shape, 1000, 1)
    kinds.append(gpus.node([some, held]))
    chosen = chance.sample(kinds, chance.randint(1, len(kinds)))
    if kinds[-1] in chosen and len(chosen) == 1:
        chosen.append(full)
    return list(zip(chosen, site.shares(count, len(chosen), 1), strict=True))


def worker_on(site: Site, gpus: GPUs) -> dict[str, int]:
    """What a worker asks for: all GPUs of a node."""
    return {GPU: gpus.each, "cpu": site.chance.choice((1, 2)) * gpus.milli, "memory": 16 * GI}


def mpi(site: Site) -> Cluster:
    """A launcher and workers over CPU nodes full of services and tainted GPU nodes full of notebooks, everything of
    the default priority: the launcher needs the room of a few services, a worker all GPUs of a node.

    The launcher does not tolerate the taint and only GPU nodes have GPUs, so the two are independent. Every third
    cluster is as plain as can be: nodes are full and all alike, and 2 + 8 w victims are enough. Where no budget has to
    be broken there may be nodes of running gangs too, any of which would be worse than all of the single pods.
    """
    chance = site.chance
    plain = chance.random() < 1 / 3
    total = site.between(*site.size.nodes)
    count = max(2, int(total * chance.uniform(0.3, 0.7)))
    of, gpus = unit(site), gpus_of(site)
    services = [(NodeKind(of.allocatable, [Stock(of.shape, 0, of.per_node)]), count)]
    if not plain:
        services = pool(site, of, [0], count, full=max(1, of.per_node - 1))
    notebooks = gpu_pool(site, gpus, max(2, total - count), plain=plain)
    scale = priorities([*services, *notebooks])
    launcher = of.requests(min(2, of.per_node), extra=0 if plain else chance.choice((0, 100)))
    worker = worker_on(site, gpus)
    workers, cost = some_members(site, curves(notebooks, scale, {**worker, "pods": 1}, 1))
    first = cheapest(curves(services, scale, {**launcher, "pods": 1}, 1), 1)[1]
    if first is None:
        raise Unsuitable
    add_all(site, [*services, *notebooks])
    if chance.random() < 0.3:  # nodes of training gangs of the same priority, which may have to leave for no one
        whole = site.make.shape({GPU: gpus.each, "cpu": gpus.milli}, tolerations=(GPU_TOLERATION,))
        if first + cost < scale.beyond():
            site.rigid_gangs(Stock(whole, 0, 1), site.add(gpus.node([]), max(1, total // 5)))
    tolerant = site.make.shape(worker, tolerations=(GPU_TOLERATION,))
    site.want([(site.make.shape(launcher), 1), (tolerant, workers)])
    return site.done(scale.least(first + cost), "a launcher and workers" + (", plain" if plain else ""))


def riding_along(site: Site) -> Cluster:
    """A launcher that tolerates the taint as its workers do: beside a worker it may cost nothing, and on a CPU node the
    room of a service.
    """
    chance = site.chance
    total = site.between(*site.size.nodes)
    count = max(2, int(total * chance.uniform(0.3, 0.7)))
    of, gpus = unit(site), gpus_of(site)
    services = pool(site, of, [0], count, full=of.per_node, kinds=3)
    notebooks = gpu_pool(site, gpus, max(2, total - count), plain=chance.random() < 0.3)
    nodes = [*services, *notebooks]
    scale = priorities(nodes)
    worker = {**worker_on(site, gpus), "pods": 1}
    most = {"cpu": (gpus.each + 6) * gpus.milli - worker["cpu"], "memory": 8 * GI}
    launcher = {**most, "cpu": chance.choice((gpus.milli, most["cpu"] // 2, most["cpu"])), "pods": 1}
    workers, _ = some_members(site, curves(notebooks, scale, worker, 1), most=60)
    options: list[Option] = []
    for kind, copies in nodes:
        found = {(a, b): kind.cost(scale, [(launcher, a), (worker, b)]) for a, b in ((1, 0), (0, 1), (1, 1))}
        options.append(({counts: c for counts, c in found.items() if c is not None}, copies))
    cost = together(options, (1, workers)).get((1, workers))
    if not cost:
        raise Unsuitable
    add_all(site, nodes)
    one, other = (
        site.make.shape({r: n for r, n in amounts.items() if r != "pods"}, tolerations=(GPU_TOLERATION,))
        for amounts in (launcher, worker)
    )
    site.want([(one, 1), (other, workers)])
    return site.done(scale.least(cost), "a launcher that may ride along")


def three_kinds(site: Site) -> Cluster:
    """A head and servers that share the CPU nodes, and workers on GPU nodes.

    Head and servers are shared out together, by a table over everything that a node can hold of both.
    """
    chance = site.chance
    total = site.between(*site.size.nodes)
    count = max(3, int(total * chance.uniform(0.4, 0.7)))
    of, gpus = unit(site), gpus_of(site)
    levels = site.levels(2)
    services = pool(site, of, levels, count, full=of.per_node - 1, kinds=5)
    notebooks = gpu_pool(site, gpus, max(2, total - count), plain=chance.random() < 0.3)
    scale = priorities([*services, *notebooks])
    head = {**of.requests(chance.randint(1, of.per_node)), "pods": 1}
    server = {**of.requests(chance.randint(1, max(1, of.per_node - 1)), extra=100), "pods": 1}
    servers = chance.randint(1, max(1, min(6, site.size.members[1] - 2)))
    options: list[Option] = []
    for kind, copies in services:
        costs: dict[Counts, int] = {}
        for a in (0, 1):
            for b in range(servers + 1):
                cost = kind.cost(scale, [(head, a), (server, b)]) if a + b else None
                if cost is not None:
                    costs[(a, b)] = cost
        options.append((costs, copies))
    first = together(options, (1, servers)).get((1, servers))
    worker = worker_on(site, gpus)
    workers, cost = some_members(site, curves(notebooks, scale, {**worker, "pods": 1}, 1))
    if first is None:
        raise Unsuitable
    add_all(site, [*services, *notebooks])
    one, other = (site.make.shape({r: n for r, n in amounts.items() if r != "pods"}) for amounts in (head, server))
    tolerant = site.make.shape(worker, tolerations=(GPU_TOLERATION,))
    site.want([(one, 1), (other, servers), (tolerant, workers)])
    return site.done(scale.least(first + cost), f"a head, {servers} servers, workers")


def many_kinds(site: Site) -> Cluster:
    """Members of two to six kinds, each worth a whole number of pods, over nodes that are full of equal pods.

    A node has less free than a pod, so members that are worth ``t`` pods together need ``t`` pods gone wherever they
    go, and at least as many have to go, of the lowest priority at best. There are as many nodes full of that as there
    are members, so that is possible too. On other nodes the pods are of a higher priority, or under a budget that lets
    none go, or members of gangs that have none to spare.
    """
    chance = site.chance
    of = unit(site)
    levels = site.levels(2)
    total = site.between(*site.size.nodes)
    kinds = chance.randint(2, min(6, of.per_node))
    low, high = site.size.members
    members = site.between(max(low, kinds), max(kinds, min(high, total * 0.7)))
    cheap = max(members, int(total * chance.uniform(0.3, 0.9)))
    nodes = [(NodeKind(of.allocatable, [Stock(of.shape, levels[0], of.per_node)]), cheap)]
    fewer = [Stock(of.shape, levels[0], of.per_node, labels={"guarded": "closed"}, beyond=True)]
    dearer = [Stock(of.shape, levels[-1], of.per_node)] if len(levels) > 1 else fewer
    site.budget("closed", 0)
    nodes += [(NodeKind(of.allocatable, holds), max(1, (total - cheap) // 3)) for holds in (fewer, dearer)]
    add_all(site, nodes)
    large = site.make.shape({"cpu": of.per_node * of.milli, "memory": of.per_node * of.memory})
    site.rigid_gangs(Stock(large, levels[0], 1), site.add(NodeKind(of.allocatable, []), max(1, (total - cheap) // 3)))
    sizes = chance.sample(range(1, of.per_node + 1), kinds)
    counts = site.shares(members, kinds, 1)
    site.want([(site.make.shape(of.requests(size)), count) for size, count in zip(sizes, counts, strict=True)])
    scale = priorities(nodes)
    worth = sum(size * count for size, count in zip(sizes, counts, strict=True))
    return site.done(scale.least(scale.pod(levels[0], worth)), f"{kinds} kinds")


def work_lost(site: Site) -> Cluster:
    """Nodes full of equal pods that began at different times: any choice evicts as many, and the least work counts.

    A member wants the room of ``k`` pods and fits once on a node. Work lost is a sum over pods too, so a node costs the
    ``k`` youngest of its pods, and the nodes that cost least are the optimum.
    """
    of = unit(site)
    size = site.between(*site.size.nodes)
    site.add(NodeKind(of.allocatable, [Stock(of.shape, 0, of.per_node)]), size)
    if site.chance.random() < 0.7 and size > 6:
        site.add(useless(site, of, 0), max(1, size // 8))
    each = site.chance.randint(of.per_node // 2 + 1, of.per_node)
    wanted = of.requests(each)
    low, high = site.size.members
    count = site.between(low, min(high, size * 0.8))
    site.want([(site.make.shape(wanted), count)])
    scale = priorities([(loaded(site, of, [0], 1), 1)])
    out = site.done(scale.least(scale.pod(0, count * each)), "work lost decides")
    out.least = msgspec.structs.replace(out.least, work=_least_work(out, each, count))
    return out


def _least_work(cluster: Cluster, each: int, count: int) -> float:
    """Work lost by the ``count`` nodes whose ``each`` youngest pods lose least; in share of the cluster x seconds."""
    total: dict[str, int] = {}
    usable = {n.name for n in cluster.nodes if n.ready and not n.taints and not n.unschedulable}
    for node in cluster.nodes:
        for resource, amount in node.allocatable:
            total[resource] = total.get(resource, 0) + amount
    wanted = dict(next(p for p in cluster.pods if not p.node).shape.requests)
    by_node: dict[str, list[float]] = {}
    room = {n.name: dict(n.allocatable) for n in cluster.nodes}
    for pod in cluster.pods:
        if pod.node in usable and pod.priority < 100:
            share = sum(n / total[r] for r, n in pod.shape.requests)
            by_node.setdefault(pod.node, []).append(share * (1_000_000.0 - pod.started))
    costs = [
        sum(sorted(works)[:each])
        for node, works in by_node.items()
        if all(room[node][r] >= n for r, n in wanted.items()) and len(works) >= each
    ]
    return sum(sorted(costs)[:count])
