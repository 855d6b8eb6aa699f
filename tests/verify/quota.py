"""Quota: usage in the tree, who holds it, who waits for it, and sums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gangsched.core.quota.flavors import used_by
from gangsched.core.quota.gang_workloads import Managed
from gangsched.core.quota.quota import Quota
from gangsched.core.quota.status import Sums, Tally
from gangsched.core.quota.tree import Node
from gangsched.core.world.world import World
from tests.verify.differences import filled, unlike


def quota(world: World) -> Iterator[str]:
    """All of it; nothing while there is no ClusterQueue."""
    managed = world.managed
    if not managed.active:
        yield from unlike("workloads without a ClusterQueue", managed.quota.admissions, {})
        return
    managed.update_holdings()
    yield from _tree(managed.quota)
    yield from _workloads(managed)
    yield from _sums(managed)


def _tree(kept: Quota) -> Iterator[str]:
    fresh = Quota(kept.fair_sharing)
    for kind, objects in kept._objects.items():
        fresh._objects[kind].update(objects)
    for admission in kept.admissions.values():
        fresh.admit(admission)
    yield from unlike("quota tree queues", _nodes(kept.tree.queues), _nodes(fresh.tree.queues))
    yield from unlike("quota tree cohorts", _nodes(kept.tree.cohorts), _nodes(fresh.tree.cohorts))
    held = {uid: (h.node.name, sorted(h.amounts)) for uid, h in kept.holders.by_uid.items()}
    yield from unlike(
        "holders of quota", held, {uid: (h.node.name, sorted(h.amounts)) for uid, h in fresh.holders.by_uid.items()}
    )
    for evicted in (True, False):
        for name in kept.tree.queues:
            lists = [[order for order, _ in q.holders.entries(name, evicted)] for q in (kept, fresh)]
            yield from unlike(f"order of holders of {name}", *lists)
        cells = range(len(kept.tree.names))
        for cohort in kept.holders.rankings(evicted)._rankings:
            ranked = [
                [(k, n.name) for k, n in q.holders.rankings(evicted).ranking_of(at).above(cells)]
                for q, at in ((kept, cohort), (fresh, fresh.tree.cohorts[cohort.name]))
            ]
            yield from unlike(f"ranking of queues below {cohort.name}", *ranked)
    if kept.fair_sharing:
        shares = [
            {n: q.shares.share_of(node) for n, node in (q.tree.queues | q.tree.cohorts).items()} for q in (kept, fresh)
        ]
        yield from unlike("fair shares", *shares)


def _nodes(nodes: dict[str, Node]) -> dict[str, Any]:
    return {
        name: (
            n.usage,
            n.subtree,
            n.local,
            n.potential,
            n.parent.name if n.parent is not None else "",
            [sorted(o.name for o in over) for over in n.over_quota],
        )
        for name, n in nodes.items()
    }


def _workloads(managed: Managed) -> Iterator[str]:
    yield from unlike(
        "gangs of workloads", {g: key for key, gangs in managed._gangs_of.items() for g in gangs}, managed._key_of
    )
    pending: dict[str, list[Any]] = {}
    for key, (queue, place) in managed._place.items():
        pending.setdefault(queue, []).append((place, key))
    yield from unlike(
        "workloads that wait, by queue",
        filled(managed._pending),
        {queue: sorted(found) for queue, found in pending.items()},
    )
    for uid, admission in managed.quota.admissions.items():
        of = managed.quota.queues.get(admission.workload.queue)
        if of is None:
            continue
        pods = managed.pods_of(uid)
        there = {p.uid for p in pods}
        promised = [p for p in managed._kept_for(uid) if p.uid not in there]
        held = [(p.shape, managed._flavors.of_pod(p, of)) for p in pods]
        kept = [(p.pod.shape, managed._flavors.of_promised(p.uid, p.pod.shape, p.node, of)) for p in promised]
        yield from unlike(
            f"quota of {uid}", (admission.usage, admission.promised), (used_by(held + kept), used_by(kept))
        )


def _sums(managed: Managed) -> Iterator[str]:
    kept, fresh = managed.tally, Tally()
    yield from unlike("workloads in the sums", set(kept._holding), set(managed.quota.admissions))
    for known, of in ((kept._waiting, fresh._waiting), (kept._holding, fresh._holding)):
        for uid, counted in known.items():
            fresh._replace(of, uid, counted)
    for uid, admission in managed.quota.admissions.items():
        if uid in kept._holding:
            yield from unlike(f"usage of {uid} in the sums", kept._holding[uid].usage, admission.usage)
    yield from unlike("sums by ClusterQueue", _counted(kept.queues), _counted(fresh.queues))
    yield from unlike("sums by LocalQueue", _counted(kept.local_queues), _counted(fresh.local_queues))


def _counted(sums: dict[str, Sums]) -> dict[str, Any]:
    found = {name: (s.pending, s.reserving, s.admitted, s.reserved, s.used) for name, s in sums.items()}
    return {name: each for name, each in found.items() if each != (0, 0, 0, {}, {})}
