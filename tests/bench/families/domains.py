"""Families in which domains join nodes: affinity of the members to themselves, anti-affinity by zone, spread, topology.

Within one domain the optimum is that of :mod:`~.plain`. What joins domains is tried in full: the one domain for all of
the members, or a table over domains for how many members each gets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

import msgspec

from gangsched.model.constraints import PodShape, PodTerm, SpreadConstraint
from tests.bench.families.known import Cluster, Scale, cheapest
from tests.bench.families.plain import Pool, Unsuitable, gpu_pool, gpus_of, worker_on
from tests.bench.families.pools import Unit, pool, priorities, unit
from tests.bench.families.site import GPU_TOLERATION, NodeKind, Site, Size, Stock, curves, selects
from tests.oracle.case import ZONE, Case

RACK = "example.com/rack"


def in_zones(
    site: Site, of: Unit, levels: Sequence[int], count: int, full: int, most_kinds: int = 4
) -> dict[str, Pool]:
    """So many zones of uneven size, each with nodes of its own kinds."""
    total = max(site.between(*site.size.nodes), count)
    parts = site.shares(total, count, 1)
    return {
        f"zone-{n}": pool(site, of, levels, part, full=full, kinds=min(most_kinds, part))
        for n, part in enumerate(parts)
    }


def _scale(zones: dict[str, Pool]) -> Scale:
    return priorities([entry for nodes in zones.values() for entry in nodes])


def _build(site: Site, zones: dict[str, Pool], key: str = ZONE) -> None:
    for zone, nodes in zones.items():
        for kind, copies in nodes:
            if key == ZONE:
                site.add(kind, copies, zone=zone)
            else:
                site.add(kind, copies, labels={key: zone})


def _gangs_beside(site: Site, of: Unit, domains: Iterable[str], key: str, cost: int, scale: Scale) -> None:
    """In some clusters nodes of running gangs in every domain, which look cheap, of the highest priority that there is:
    as long as no budget has to be broken for single pods, they do less harm than any gang.
    """
    if site.chance.random() < 0.6 or cost >= scale.beyond():
        return
    whole = site.make.shape({"cpu": of.per_node * of.milli, "memory": of.per_node * of.memory})
    names = []
    for domain in domains:
        kind, copies = NodeKind(of.allocatable, []), site.chance.randint(0, max(1, len(site.nodes) // 20))
        names += site.add(kind, copies, **({"zone": domain} if key == ZONE else {"labels": {key: domain}}))
    site.rigid_gangs(Stock(whole, max(scale.levels), 1), names)


def _requests(site: Site, of: Unit) -> dict[str, int]:
    return of.requests(site.chance.randint(1, of.per_node), extra=site.chance.choice((0, min(of.slack, 100))))


def _tables(
    site: Site, zones: dict[str, Pool], scale: Scale, wanted: dict[str, int], most: int, need: int
) -> dict[str, list[int | None]]:
    """For each zone the least cost of 0, 1, ..., ``need`` members there."""
    asked = {**wanted, "pods": 1}
    return {z: cheapest(curves(nodes, scale, asked, most), need) for z, nodes in zones.items()}


def _in_one(site: Site, zones: dict[str, Pool], wanted: dict[str, int], most: int) -> tuple[Scale, int, int]:
    """Members for one domain: the number of them, and what the cheapest domain costs that can hold them."""
    scale = _scale(zones)
    asked = {**wanted, "pods": 1}
    slots = sorted(
        sum(len([c for c in curve if c is not None]) * copies for curve, copies in curves(nodes, scale, asked, most))
        for nodes in zones.values()
    )
    low, high = site.size.members
    holds = slots[len(slots) // 2]  # about half of the domains can hold it
    if holds < low:
        raise Unsuitable
    count = site.between(low, min(high, holds))
    tables = _tables(site, zones, scale, wanted, most, count)
    found = [t[count] for t in tables.values()]
    costs = [c for c in found if c is not None]
    if not costs or not min(costs):
        raise Unsuitable
    return scale, count, min(costs)


def _pinned(cluster: Cluster, key: str, shapes: Sequence[tuple[str, ...]]) -> Iterator[Case]:
    """Cases without the rule that the oracle does not know, with members selecting domains instead: one case for each
    way, which gives each member its domain.
    """
    members = [p for p in cluster.pods if not p.node]
    others = [p for p in cluster.pods if p.node]
    gangs = [msgspec.structs.replace(g, topology=()) for g in cluster.gangs]
    made: dict[tuple[int, str], PodShape] = {}
    for way in shapes:
        pods = []
        for pod, zone in zip(members, way, strict=True):
            shape = made.setdefault(
                (id(pod.shape), zone),
                msgspec.structs.replace(
                    pod.shape, affinity=(), anti_affinity=(), spread=(), node_selector=((key, zone),)
                ),
            )
            pods.append(msgspec.structs.replace(pod, shape=shape))
        yield Case(cluster.nodes, [*others, *pods], gangs, cluster.budgets)


def zone_affinity(site: Site) -> Cluster:
    """Equal members with required affinity to themselves by zone: all of them go to one zone.

    The optimum is the cheapest of the zones, each by itself. About half of the zones cannot hold the gang even when
    everything leaves, and those that are cheap for few members are often among them.
    """
    of = unit(site)
    count = site.chance.randint(2, 3) if site.size.nodes[1] < 20 else site.chance.randint(2, 12)
    zones = in_zones(site, of, site.levels(2), count, full=max(1, of.per_node - 1))
    wanted = _requests(site, of)
    scale, members, cost = _in_one(site, zones, wanted, of.per_node)
    _build(site, zones)
    _gangs_beside(site, of, zones, ZONE, cost, scale)
    term = PodTerm(ZONE, selects(job="want"), ("default",))
    site.want([(site.make.shape(wanted, affinity=(term,)), members)])
    out = site.done(scale.least(cost), f"all in one of {count} zones")
    if _tiny(site.size):
        out.same = tuple(_pinned(out, ZONE, [(z,) * members for z in zones]))
    return out


def topology(site: Site) -> Cluster:
    """Equal members of a gang whose topology constraint asks for one rack, of 2 to 200 racks.

    As with affinity by zone: the optimum is the cheapest of the racks that can hold the gang.
    """
    of = unit(site)
    nodes = site.size.nodes[1]
    count = site.chance.randint(2, 3) if nodes < 20 else site.between(2, min(200, nodes // 8))
    racks = in_zones(site, of, site.levels(2), count, full=max(1, of.per_node - 1), most_kinds=3)
    wanted = _requests(site, of)
    scale, members, cost = _in_one(site, racks, wanted, of.per_node)
    _build(site, racks, RACK)
    _gangs_beside(site, of, racks, RACK, cost, scale)
    site.want([(site.make.shape(wanted), members)], topology=((RACK, True),))
    out = site.done(scale.least(cost), f"all in one of {count} racks")
    if _tiny(site.size):
        out.same = tuple(_pinned(out, RACK, [(z,) * members for z in racks]))
    return out


def workers_in_a_rack(site: Site) -> Cluster:
    """A launcher and workers, all of them in one rack: each rack has CPU nodes with services and GPU nodes with
    notebooks.

    The two kinds share no nodes, so a rack costs the sum of both, and the cheapest rack is the optimum.
    """
    chance = site.chance
    nodes = site.size.nodes[1]
    count = chance.randint(2, 3) if nodes < 20 else site.between(2, min(60, nodes // 8))
    of, gpus = unit(site), gpus_of(site)
    services = in_zones(site, of, site.levels(2), count, full=max(1, of.per_node - 1), most_kinds=2)
    plain = chance.random() < 0.3
    notebooks = {
        rack: gpu_pool(site, gpus, max(1, sum(copies for _, copies in pool)), plain=plain)
        for rack, pool in services.items()
    }
    racks: dict[str, Pool] = {rack: [*services[rack], *notebooks[rack]] for rack in services}
    scale = _scale(racks)
    launcher, worker = of.requests(chance.randint(1, of.per_node)), worker_on(site, gpus)
    sizes = sorted(sum(copies for _, copies in pool) for pool in notebooks.values())
    low, high = site.size.members
    workers = site.between(max(1, low - 1), min(high, max(1, sizes[len(sizes) // 2])))
    costs = []
    for rack in racks:
        first = cheapest(curves(services[rack], scale, {**launcher, "pods": 1}, 1), 1)[1]
        others = cheapest(curves(notebooks[rack], scale, {**worker, "pods": 1}, 1), workers)[workers]
        if first is not None and others is not None:
            costs.append(first + others)
    if not costs or not min(costs):
        raise Unsuitable
    _build(site, racks, RACK)
    tolerant = site.make.shape(worker, tolerations=(GPU_TOLERATION,))
    site.want([(site.make.shape(launcher), 1), (tolerant, workers)], topology=((RACK, True),))
    out = site.done(scale.least(min(costs)), f"a launcher and workers in one of {count} racks")
    if _tiny(site.size):
        out.same = tuple(_pinned(out, RACK, [(rack,) * (workers + 1) for rack in racks]))
    return out


def one_per_zone(site: Site) -> Cluster:
    """Members that keep off each other's zones: one in each of some of many zones.

    A zone costs what its cheapest node does, and the cheapest zones are the optimum.
    """
    of = unit(site)
    nodes = site.size.nodes[1]
    count = site.chance.randint(3, 4) if nodes < 20 else site.between(4, min(120, nodes // 4))
    zones = in_zones(site, of, site.levels(2), count, full=max(1, of.per_node - 1), most_kinds=3)
    scale = _scale(zones)
    wanted = _requests(site, of)
    costs = sorted(t[1] for t in _tables(site, zones, scale, wanted, 1, 1).values() if t[1] is not None)
    low, high = site.size.members
    if len(costs) < low:
        raise Unsuitable
    members = site.between(low, min(high, len(costs)))
    if not sum(costs[:members]):
        raise Unsuitable
    _build(site, zones)
    term = PodTerm(ZONE, selects(job="want"), ("default",))
    site.want([(site.make.shape(wanted, anti_affinity=[term]), members)])
    return site.done(scale.least(sum(costs[:members])), f"one in each of {count} zones")


def zone_spread(site: Site) -> Cluster:
    """Equal members spread over zones, the counts of which differ by no more than ``maxSkew`` (1 or 2).

    Whatever a plan does, some zone has fewest members; for each number that may be, a table over zones shares the
    members out, each zone getting from so many to ``maxSkew`` more. The least of these is the optimum, since
    every plan is among them and each of them is a plan: members come one after another to the zone that has fewest
    of those that still get some. All zones have nodes that the members may use, so all of them count.
    """
    of = unit(site)
    count = site.chance.randint(2, 3) if site.size.nodes[1] < 20 else site.chance.randint(3, 8)
    zones = in_zones(site, of, site.levels(2), count, full=max(1, of.per_node - 1))
    scale = _scale(zones)
    wanted = _requests(site, of)
    skew = site.chance.choice((1, 1, 2))
    low, high = site.size.members
    members = site.between(max(low, 2), high)
    tables = _tables(site, zones, scale, wanted, of.per_node, min(members, -(-members // count) + 2 * skew))
    if any(not any(kind.open for kind, _ in nodes) for nodes in zones.values()):
        raise Unsuitable
    cost = _least_spread(list(tables.values()), members, skew)
    if not cost:
        raise Unsuitable
    _build(site, zones)
    constraint = SpreadConstraint(ZONE, skew, selects(job="want"), required=True)
    site.want([(site.make.shape(wanted, spread=(constraint,)), members)])
    out = site.done(scale.least(cost), f"over {count} zones, skew {skew}")
    if _tiny(site.size):
        ways = [w for w in _ways(list(zones), members) if _spread_of(w, list(zones)) <= skew]
        out.same = tuple(_pinned(out, ZONE, ways))
    return out


def _least_spread(tables: Sequence[Sequence[int | None]], members: int, skew: int) -> int | None:
    best: int | None = None
    for fewest in range(members // len(tables) + 1):
        most = range(fewest, fewest + skew + 1)
        if most[-1] * len(tables) < members:
            continue
        reached: dict[int, int] = {0: 0}
        for table in tables:
            grown: dict[int, int] = {}
            for placed, cost in reached.items():
                for count in most:
                    more = table[count] if count < len(table) else None
                    total = placed + count
                    if more is not None and total <= members:
                        grown[total] = min(cost + more, grown.get(total, cost + more))
            reached = grown
        found = reached.get(members)
        if found is not None and (best is None or found < best):
            best = found
    return best


def _ways(zones: Sequence[str], members: int) -> Iterator[tuple[str, ...]]:
    """Every way to share equal members out to zones, once."""
    for counts in product(range(members + 1), repeat=len(zones)):
        if sum(counts) == members:
            yield tuple(z for z, n in zip(zones, counts, strict=True) for _ in range(n))


def _spread_of(way: Sequence[str], zones: Sequence[str]) -> int:
    counts = [way.count(z) for z in zones]
    return max(counts) - min(counts)


def _tiny(size: Size) -> bool:
    return size.nodes[1] < 20
