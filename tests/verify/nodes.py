"""Nodes and the pods that take room on them: matrices, columns, pod table, counts of terms and images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from gangsched.core.state.podtable import ASSUMED, PROTECTED, STARTING, TERMINATING, Numbers, _tie
from gangsched.core.state.snapshot import Snapshot, scored_vector
from gangsched.core.state.termcounts import APART, NEAR, PREFERRED, SERVICE, NodeCounts, _filed_under
from gangsched.core.world.world import World
from gangsched.model.constraints import PodShape
from gangsched.model.preemptible import protected
from gangsched.model.records import JOB, SINGLE, Pod
from tests.verify.differences import filled, unlike

#: Below this is the hash of a pod's name. What is above says whether it was marked when it was put into the table.
_HASHES = 1 << 56


def known_pods(world: World) -> dict[str, Pod]:
    """Return the pods of the cluster by UID, without made-up ones."""
    return {uid: world.pods[uid] for uid in world.uid_of.values() if uid in world.pods}


def charged(world: World) -> dict[str, tuple[Pod, str]]:
    """Return the pods that take room, by UID, with their nodes."""
    places = (
        (pod, "" if pod.finished else pod.node or world.assumed.get(uid, "")) for uid, pod in known_pods(world).items()
    )
    return {pod.uid: (pod, node) for pod, node in places if node}


def nodes(world: World) -> Iterator[str]:
    """Rows of nodes, and what each offers, uses and is."""
    snapshot = world.snapshot
    snapshot.align_rows()
    names = sorted(snapshot._known)
    yield from unlike("node rows", [n.name for n in snapshot.nodes], names)
    yield from unlike(
        "node records", dict(enumerate(snapshot.nodes)), dict(enumerate(snapshot._known[n] for n in names))
    )
    yield from unlike("rows by name", snapshot.row_of, {name: row for row, name in enumerate(names)})
    yield from unlike(
        "resource rows", snapshot.resource_row, {name: row for row, name in enumerate(snapshot.resources)}
    )
    allocatable, used = np.zeros_like(snapshot.allocatable), np.zeros_like(snapshot.used)
    scored = np.zeros_like(snapshot.scored)
    for row, name in enumerate(names):
        for resource, units in snapshot._known[name].allocatable:
            allocatable[snapshot.resource_row[resource], row] = units
    for pod, node in charged(world).values():
        if node in snapshot.row_of:
            row = snapshot.row_of[node]
            index, amounts = snapshot._charged(pod.shape)
            used[index, row] += amounts
            scored[:, row] += scored_vector(pod.shape)
    for what, kept, fresh in (
        ("allocatable", snapshot.allocatable, allocatable),
        ("used", snapshot.used, used),
        ("scored", snapshot.scored, scored),
    ):
        yield from unlike(f"node matrix {what}", _cells(snapshot, kept), _cells(snapshot, fresh))
    yield from _columns(snapshot)
    yield from _shapes(snapshot)


def _cells(snapshot: Snapshot, matrix: Any) -> dict[tuple[int, str], float]:
    rows, columns = np.nonzero(matrix)
    return {
        (r, snapshot.nodes[c].name): float(matrix[r, c]) for r, c in zip(rows.tolist(), columns.tolist(), strict=True)
    }


def _columns(snapshot: Snapshot) -> Iterator[str]:
    columns = snapshot.columns
    for key, column in columns._labels.items():
        kept = {
            n.name: column.values[code] if code >= 0 else None
            for n, code in zip(columns.nodes, column.codes.tolist(), strict=True)
        }
        yield from unlike(f"node label column {key}", kept, {n.name: n.labels.get(key) for n in columns.nodes})
    if columns._taint_codes is not None:
        codes = columns._taint_codes.tolist()
        kept_taints = {n.name: columns._taint_sets[code] for n, code in zip(columns.nodes, codes, strict=True)}
        yield from unlike("node taint column", kept_taints, {n.name: n.taints for n in columns.nodes})
    for flag, values in columns._flags.items():
        yield from unlike(f"node column {flag}", values.tolist(), [getattr(n, flag) for n in columns.nodes])


def _shapes(snapshot: Snapshot) -> Iterator[str]:
    numbers = range(len(snapshot.shapes))
    yield from unlike("shape numbers", snapshot._known_shapes, {snapshot.shapes[n]: n for n in numbers})
    for number in numbers:
        shape = snapshot.shapes[number]
        index, amounts = snapshot._charged(shape)
        row = np.zeros(len(snapshot.resources))
        row[index] = amounts
        kept_index, kept_amounts = snapshot._vectors[number]
        yield from unlike(
            f"shape vector {number}", (kept_index.tolist(), kept_amounts.tolist()), (index.tolist(), amounts.tolist())
        )
        yield from unlike(f"shape matrix {number}", snapshot._shape_matrix[number].tolist(), row.tolist())
        yield from unlike(f"shape scores {number}", snapshot._scored[number].tolist(), scored_vector(shape).tolist())
    yield from unlike(
        "shapes with anti-affinity", snapshot.anti_shapes, [n for n in numbers if snapshot.shapes[n].anti_affinity]
    )
    yield from unlike(
        "shapes with host ports", snapshot.port_shapes, [n for n in numbers if snapshot.shapes[n].host_ports]
    )


def table(world: World) -> Iterator[str]:
    """The pods that take room, as columns, and what they are counted by."""
    snapshot, rows = world.snapshot, world.snapshot.table
    wanted = charged(world)
    yield from unlike("pod table members", set(rows.slot_of), set(wanted))
    yield from unlike("pod table free slots", sorted(rows._free), [s for s, pod in enumerate(rows.pods) if pod is None])
    for uid, slot in rows.slot_of.items():
        if uid in wanted:
            yield from unlike(f"pod table {uid}", _kept_row(snapshot, slot), _fresh_row(world, *wanted[uid]))
    places = Counter(node for _, node in wanted.values())
    on = {node: {p.uid: p for p, where in wanted.values() if where == node} for node in places}
    yield from unlike("pods by node", snapshot._pods_on, on)
    places.update(list(snapshot._known))
    yield from unlike("users of node numbers", _users(snapshot.node_ids), dict(places))
    yield from unlike("users of gang numbers", _users(rows._gangs), dict(Counter(p.gang for p, _ in wanted.values())))
    jobs = Counter(
        (p.namespace, p.owner.name, p.owner.uid)
        for p, _ in wanted.values()
        if p.owner is not None and p.owner.kind == JOB
    )
    yield from unlike("users of job numbers", _users(rows._jobs), dict(jobs))
    alone = {gang: bool(rows.alone[number]) for gang, number in rows._gangs._number_of.items()}
    yield from unlike("gangs of one pod", alone, {gang: gang.family == SINGLE for gang in alone})
    numbers = snapshot.node_ids
    kept = {name: int(numbers.row[number]) for name, number in numbers._number_of.items()}
    yield from unlike("rows of node numbers", kept, {name: snapshot.row_of.get(name, -1) for name in kept})


def _users(numbers: Numbers[Any]) -> dict[Any, int]:
    return {key: numbers._users[number] for key, number in numbers._number_of.items()}


def _kept_row(snapshot: Snapshot, slot: int) -> tuple[object, ...]:
    rows, row, job = snapshot.table, int(snapshot.table.row[slot]), int(snapshot.table.job[slot])
    number = int(rows.gang[slot])
    return (
        rows.pods[slot],
        snapshot.nodes[row].name if row >= 0 else "",
        snapshot.node_ids.keys[int(rows.place[slot])],
        int(rows.priority[slot]),
        snapshot.shapes[int(rows.shape[slot])],
        rows.gang_ids[number],
        rows.kins[int(rows.kin[slot])],
        int(rows.flags[slot]),
        float(rows.started[slot]),
        str(rows.checkpoint[slot]),
        str(rows.restart[slot]),
        int(rows.cost[slot]),
        int(rows.tie[slot]) % _HASHES,
        rows.job_ids[job] if job >= 0 else None,
    )


def _fresh_row(world: World, pod: Pod, node: str) -> tuple[object, ...]:
    told = pod.stakes
    flags = TERMINATING if pod.deleting_since is not None else 0
    flags |= PROTECTED if protected(pod, world._evict_daemonset_pods) else 0
    flags |= ASSUMED if not pod.node else STARTING if pod.phase == "Pending" else 0
    of_job = pod.owner is not None and pod.owner.kind == JOB
    return (
        pod,
        node if node in world.snapshot.row_of else "",
        node,
        pod.priority,
        pod.shape,
        pod.gang,
        (pod.namespace, pod.labels),
        flags,
        float(pod.started),
        str(np.float64(np.nan if told.checkpoint is None else told.checkpoint)),
        str(np.float64(np.nan if told.restart_seconds is None else told.restart_seconds)),
        told.cost,
        _tie(pod) % _HASHES,
        (pod.namespace, pod.owner.name, pod.owner.uid) if pod.owner is not None and of_job else None,
    )


def _pairs(counts: NodeCounts) -> dict[int, int]:
    places, amounts = counts.pairs()
    return dict(zip(places.tolist(), amounts.tolist(), strict=True))


def _terms(shape: PodShape) -> list[tuple[int, int, Any]]:
    out: list[tuple[int, int, Any]] = [(APART, 1, t) for t in shape.anti_affinity]
    out += [(NEAR, 1, t) for t in shape.affinity]
    out += [(PREFERRED, w, t) for w, t in shape.preferred_affinity]
    return out + [(PREFERRED, -w, t) for w, t in shape.preferred_anti_affinity]


def terms(world: World) -> Iterator[str]:
    """The pods that each term concerns, by node."""
    snapshot, index = world.snapshot, world.snapshot.terms
    wanted: dict[Any, Counter[int]] = {key: Counter() for key in index.carried}
    numbers: dict[Any, list[int]] = {key: [] for key in index.carried}
    for number, shape in enumerate(snapshot.shapes):
        for key in _terms(shape):
            numbers.setdefault(key, []).append(number)
    for pod, node in charged(world).values():
        for key in _terms(pod.shape):
            wanted.setdefault(key, Counter())[snapshot.node_ids.number(node)] += 1
    carried = {key: (sorted(c.shapes), _pairs(c.pods), c.pods.total) for key, c in index.carried.items()}
    fresh = {key: (sorted(numbers.get(key, [])), dict(count), count.total()) for key, count in wanted.items()}
    yield from unlike("counts of carried terms", carried, fresh)
    for selections, found in index._selected.items():
        live, leaving = Counter[int](), Counter[int]()
        for pod, node in charged(world).values():
            if all(index.selects(s, pod.namespace, pod.labels) for s in selections):
                counts = leaving if pod.deleting_since is not None else live
                counts[snapshot.node_ids.number(node)] += 1
        yield from unlike(
            "counts of selected pods", (_pairs(found.live), _pairs(found.leaving)), (dict(live), dict(leaving))
        )
        yield from unlike(
            "totals of selected pods", (found.live.total, found.leaving.total), (live.total(), leaving.total())
        )


def images(world: World) -> Iterator[str]:
    """The bytes of each image by node."""
    snapshot = world.snapshot
    fresh: dict[str, dict[int, int]] = {}
    for name, node in snapshot._known.items():
        for image, size in dict(node.images).items():
            if size:
                fresh.setdefault(image, {})[snapshot.node_ids.number(name)] = size
    yield from unlike("images by node", filled({name: _pairs(found) for name, found in snapshot.images.items()}), fresh)


def selectors(world: World) -> Iterator[str]:
    """Services by the label that they are filed under, and the answers that are kept."""
    index = world.snapshot.selectors
    fresh: dict[Any, dict[str, Any]] = {}
    for each in index.known.values():
        if each.kind == SERVICE and (place := _filed_under(each)) is not None:
            fresh.setdefault(place, {})[each.name] = each.selector
    yield from unlike("services by label", index._services, fresh)
    for pod in known_pods(world).values():
        owner = (
            pod.owner
            if pod.owner is not None and pod.owner.kind in ("ReplicaSet", "StatefulSet", "ReplicationController")
            else None
        )
        kind, name = (owner.kind, owner.name) if owner is not None else ("", "")
        found = index._answers.get((pod.namespace, id(pod.labels), kind, name))
        if found is not None and found[0] is pod.labels:
            yield from unlike(f"selector of {pod.key}", found[1], index._find(pod, kind, name))
