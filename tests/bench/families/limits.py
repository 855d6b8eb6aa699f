"""Families in which something beside room is short: volumes that nodes can attach, and quota."""

from __future__ import annotations

from collections import Counter

import msgspec

from gangsched.core.events import Changed
from gangsched.model.constraints import IN, NodeTerm, PodShape, PodVolumes, Requirement
from gangsched.model.queues import QUEUE_LABEL, LocalQueue, ResourceFlavor
from gangsched.model.records import Gang, Namespace, Pod
from gangsched.model.volumes import (
    ClaimRef,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageObject,
)
from tests.bench.families.domains import in_zones
from tests.bench.families.known import Cluster, Least, cheapest
from tests.bench.families.plain import Unsuitable
from tests.bench.families.pools import priorities, unit
from tests.bench.families.site import GI, NodeKind, Site, Stock, curves
from tests.core.quota.world import queue
from tests.oracle.case import NOW, ZONE, Case
from tests.oracle.generate import PREEMPTOR_PRIORITY, SIGS

#: How the model of a node counts volumes; nodes themselves have no such resource, but a CSINode.
ATTACH = "attach/volumes"
_DRIVER = "csi.example.com"
_CLASS = StorageClass("fast", provisioner=_DRIVER)


def volumes(site: Site) -> Cluster:
    """Every member has a disk of its own, which lies in one of the zones; nodes attach a few disks only, and on many of
    them running pods have as many.

    A disk that has to be attached is one more resource of which a node has a number, and a member can only go to the
    zone of its disk. So zones are independent of one another, and within one members are equal.
    """
    chance = site.chance
    of = unit(site)
    levels = site.levels(2)
    plain = in_zones(site, of, levels, chance.randint(2, 3), full=max(1, of.per_node - 1))
    zones = {zone: [(_attaching(site, kind), copies) for kind, copies in nodes] for zone, nodes in plain.items()}
    scale = priorities([entry for nodes in zones.values() for entry in nodes])
    wanted = of.requests(chance.randint(1, of.per_node))
    low, high = site.size.members
    shares = site.shares(site.between(max(low, 2), min(high, 24)), len(zones))
    cost = 0
    for nodes, count in zip(zones.values(), shares, strict=True):
        found = cheapest(curves(nodes, scale, {**wanted, "pods": 1, ATTACH: 1}, of.per_node), count)[count]
        if found is None:
            raise Unsuitable
        cost += found
    if not cost:
        raise Unsuitable
    site.more.append(Changed(_CLASS))
    for zone, nodes in zones.items():
        for kind, copies in nodes:
            for name in site.add(kind, copies, zone=zone):
                site.more.append(Changed(CSINode(name, ((_DRIVER, kind.allocatable[ATTACH]),))))
    shape = site.make.shape(wanted)
    site.want([(shape, sum(shares))])
    home = [zone for zone, count in zip(zones, shares, strict=True) for _ in range(count)]
    chance.shuffle(home)
    for n, pod in enumerate(site.pods):
        if pod.volumes is not None:
            _disk(site, pod, "")
        elif not pod.node:
            site.pods[n] = msgspec.structs.replace(pod, volumes=PodVolumes(claims=(f"{pod.name}-data",)))
            _disk(site, site.pods[n], home.pop())
    out = site.done(scale.least(cost), f"disks in {len(zones)} zones")
    out.same = (_counted(out),)
    return out


def _attaching(site: Site, kind: NodeKind) -> NodeKind:
    """The node with a limit of disks, and disks for some of what runs there."""
    chance = site.chance
    holds = [
        msgspec.structs.replace(s, takes={ATTACH: 1}) if chance.random() < 0.5 else s for s in kind.holds if s.count
    ]
    used = sum(s.count for s in holds if s.takes)
    limit = used + chance.choice((0, 0, 0, 1, 2, 30))
    return msgspec.structs.replace(kind, holds=holds, allocatable={**kind.allocatable, ATTACH: limit})


def _disk(site: Site, pod: Pod, zone: str) -> None:
    """A claim that is bound to a disk, which all nodes reach, or those of a zone."""
    name = f"{pod.name}-data"
    terms = (NodeTerm((Requirement(ZONE, IN, (zone,)),)),) if zone else None
    once = ("ReadWriteOnce",)
    claim = PersistentVolumeClaim(
        "default", name, uid=f"uid-{name}", storage_class=_CLASS.name, volume_name=f"pv-{name}", size=GI,
        access_modes=once, bound=True, phase="Bound",
    )  # fmt: skip
    disk = PersistentVolume(
        f"pv-{name}", uid=f"uid-pv-{name}", storage_class=_CLASS.name, size=GI, access_modes=once, node_terms=terms,
        claim=ClaimRef("default", name, claim.uid), phase="Bound", driver=_DRIVER, handle=f"disk-{name}",
    )  # fmt: skip
    site.more += [Changed(claim), Changed(disk)]


def _counted(cluster: Cluster) -> Case:
    """Disks as a resource of nodes, and the zone of a member's disk as its node selector."""
    limits: dict[str, int] = {}
    zone_of: dict[str, str] = {}
    for event in cluster.more:
        record = event.record if isinstance(event, Changed) and isinstance(event.record, StorageObject) else None
        if isinstance(record, CSINode):
            limits[record.name] = record.limits[0][1]
        elif isinstance(record, PersistentVolume) and record.claim is not None and record.node_terms:
            zone_of[record.claim.name] = record.node_terms[0].expressions[0].values[0]
    nodes = [
        msgspec.structs.replace(n, allocatable=tuple(sorted((*n.allocatable, (ATTACH, limits[n.name])))))
        for n in cluster.nodes
    ]
    pods = []
    made: dict[tuple[int, str], PodShape] = {}
    for pod in cluster.pods:
        if pod.volumes is not None:
            zone = zone_of.get(pod.volumes.claims[0], "")
            requests = tuple(sorted((*pod.shape.requests, (ATTACH, 1))))
            shape = msgspec.structs.replace(pod.shape, requests=requests, node_selector=((ZONE, zone),) if zone else ())
            made.setdefault((id(pod.shape), zone), shape)
            pod = msgspec.structs.replace(pod, shape=made[(id(pod.shape), zone)], volumes=None)
        pods.append(pod)
    return Case(nodes, pods, cluster.gangs, cluster.budgets)


def quota(site: Site) -> Cluster:
    """A queue the quota of which is used by workloads of lower priority, and nodes with room for everybody.

    Quota alone binds, so the victims are those of Kueue's rules and no others, told again here for a queue without a
    cohort: workloads of lower priority leave, the lowest priority first and of one priority the one admitted last,
    until there is quota; then those that are not needed come back, the last but one first. Pods without a queue, other
    queues and equals of the gang stay.
    """
    chance = site.chance
    of = unit(site)
    total = site.between(site.size.nodes[0], min(3000, site.size.nodes[1]))
    low, high = site.size.members
    members = site.between(low, min(high, 64, max(low, total // 2)))
    wanted = of.requests(chance.randint(1, of.per_node))
    site.add(NodeKind(of.allocatable, []), members)  # for the gang
    names = site.add(NodeKind(of.allocatable, []), max(1, total - members))
    levels = chance.sample((-10, 0, 1, 10, 50), chance.randint(1, 3))
    free = Counter(dict.fromkeys(names, of.per_node))
    started = chance.sample(range(1, 10_000_000), 4 * len(names))
    holders: list[tuple[int, float, str, int, list[Pod]]] = []
    used = 0
    for n in range(chance.randint(3, max(3, min(3000, 2 * len(names))))):
        count, kind = chance.choice((1, 1, 2, 4, 8)), chance.random()
        places = [node for node in chance.sample(names, min(count, len(names))) if free[node] > 0]
        level = PREEMPTOR_PRIORITY if kind < 0.1 else chance.choice(levels)
        local = "other" if 0.1 < kind < 0.25 else "" if 0.25 < kind < 0.4 else "team"
        since = NOW - started[n]
        stock = Stock(of.shape, level, 1, labels={QUEUE_LABEL: local} if local else {})
        name = site.name("run")
        first = len(site.pods)
        for node in places:
            free[node] -= 1
            site.run(stock, node, 1, gang=(SIGS, name) if len(places) > 1 else None)
        site.pods[first:] = [msgspec.structs.replace(p, started=since) for p in site.pods[first:]]
        if len(places) > 1:
            site.gangs.append(Gang(SIGS, "default", name, min_member=len(places)))
        if local == "team" and places:
            used += len(places)
            if level < PREEMPTOR_PRIORITY:
                holders.append((level, -since, name, len(places), site.pods[first:]))
    asked = members * wanted["cpu"]
    mine = sum(h[3] for h in holders) * of.milli
    if not mine or asked > mine + of.milli:
        raise Unsuitable
    spare = chance.randrange(0, asked)
    nominal = used * of.milli + spare
    leaving = _by_quota(holders, of.milli, asked - spare)
    if not leaving:
        raise Unsuitable
    site.want([(site.make.shape(wanted), members)], labels={QUEUE_LABEL: "team"})
    site.more += [Changed(Namespace("default")), Changed(ResourceFlavor("default"))]
    for name, cpu in (("team", nominal), ("other", used * of.milli)):
        made = queue(name, within="LowerPriority" if name == "team" else "Never", cpu=cpu / 1000, memory=1 << 60)
        site.more += [Changed(made), Changed(LocalQueue("default", name, name))]
    gone = [pod for _, _, _, _, pods in leaving for pod in pods]
    gangs = Counter(h[0] for h in leaving if len(h[4]) > 1)
    pods = Counter(h[0] for h in leaving for _ in h[4])
    least = Least(0, tuple((p, gangs[p], pods[p]) for p in sorted(pods, reverse=True)))
    out = site.done(least, "quota")
    out.victims = frozenset(p.uid for p in gone)
    return out


def _by_quota(
    holders: list[tuple[int, float, str, int, list[Pod]]], milli: int, short: int
) -> list[tuple[int, float, str, int, list[Pod]]]:
    """Who leaves so that so many millicores are free, in the order of the queue's rules."""
    taken = []
    freed = 0
    for holder in sorted(holders, key=lambda h: h[:3]):
        taken.append(holder)
        freed += holder[3] * milli
        if freed >= short:
            break
    else:
        return []
    staying = set()
    for holder in taken[-2::-1]:
        if freed - holder[3] * milli >= short:
            freed -= holder[3] * milli
            staying.add(holder[2])
    return [h for h in taken if h[2] not in staying]
