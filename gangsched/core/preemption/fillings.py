"""What has to leave a node for members, every way that is not more than another: for clusters with few pods a node.

A *filling* of a node is a number of members of each kind, and a smallest set of its pods without which there is room
for them. Pods of a node that no rule tells apart are one class, and of those the ones that would come back last leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints
from gangsched.core.preemption.candidates import Candidates
from gangsched.core.preemption.demand import Demand
from gangsched.core.preemption.node_prices import NodePrices

#: Pods in all, sets of pods of one node, kinds of members together on one, and fillings in all, up to which all are
#: looked at. With a quarter of the sets or of the kinds together, or half of the fillings, 20 tight mixes come out the
#: same.
_PODS, _ALL_SETS, _VECTORS, _FILLINGS = 2000, 16384, 64, 4000
#: What a number of members on a node takes beside the sets that are looked at for it, in nodes x pods, and what all
#: may take: a tenth of a second.
_VECTOR, _WORK = 1000, 3_000_000


class Fillings(msgspec.Struct, eq=False):
    """``row`` ``(F,)`` the node of each, ``members`` ``(F, K)``; ``pods`` the indices of those that leave, filling by
    filling, ``of`` the filling of each.
    """

    row: Ints
    members: Ints
    pods: Ints
    of: Ints


def fillings_of(nodes: NodePrices) -> Fillings | None:
    """All fillings; None if there are too many. It counts as work of the ``nodes``."""
    c, demand = nodes.c, nodes.demand
    if len(c) > _PODS:
        return None
    key = _classes(c, nodes.conflict)
    rows: list[int] = []
    members: list[tuple[int, ...]] = []
    leaving: list[Ints] = []
    last = nodes.work + _WORK
    for node in np.flatnonzero(nodes.mask.any(axis=0)).tolist():
        pods = np.arange(c.start[node], c.start[node] + c.count[node])
        pods = pods[c.single[pods] | (c.unit[pods] >= 0)]
        by_class: dict[int, list[int]] = {}
        for pod in pods.tolist():
            by_class.setdefault(int(key[pod]), []).append(pod)
        classes = list(by_class.values())
        shape = tuple(len(some) + 1 for some in classes)
        if np.prod(shape, dtype=np.float64) > _ALL_SETS:
            return None
        taken = np.indices(shape).reshape(len(shape), int(np.prod(shape, dtype=np.int64)))
        room = c.free[:, node, None] + (c.req[:, [some[0] for some in classes]][:, :, None] * taken[None]).sum(axis=1)
        most = [demand.whole(k, room[:, -1:], nodes.mask[k, [node]]) for k in range(nodes.kinds)]
        ranges = [range(int(m[0]) + 1) for m in most]
        vectors = int(np.prod([len(r) for r in ranges], dtype=np.float64))
        nodes.work += vectors * (_VECTOR + room.size // 8)
        if vectors > _VECTORS or nodes.work > last:
            return None
        here: list[tuple[tuple[int, ...], int]] = []
        for vector in product(*ranges):
            if not any(vector) or not demand.together(vector):
                continue
            least = _smallest(demand, vector, room, taken, shape, _in_the_way(nodes, vector, classes))
            here += [(vector, number) for number in least.tolist()]
            if len(here) > _FILLINGS:
                return None
        for vector, number in _undominated(here, taken):
            rows.append(node)
            members.append(vector)
            some = [p for k, n in enumerate(taken[:, number].tolist()) if n for p in classes[k][-n:]]
            leaving.append(np.array(some, dtype=np.int64))
        if len(rows) > _FILLINGS:
            return None
    sizes = np.array([len(some) for some in leaving], dtype=np.int64)
    everything = np.concatenate(leaving) if leaving else np.zeros(0, dtype=np.int64)
    return Fillings(
        np.array(rows, dtype=np.int64),
        np.array(members, dtype=np.int64).reshape(len(rows), len(demand.need)),
        everything,
        np.repeat(np.arange(len(rows)), sizes),
    )


def _classes(c: Candidates, conflicts: Sequence[Bools | None]) -> Ints:
    """``(V,)`` equal numbers for pods that hold the same, count the same, and are bound by the same rules."""
    bound = np.zeros(len(c), dtype=np.int64)
    known: dict[tuple[int, int], int] = {}
    sets = [limited.pods for limited in c.limited] + [np.flatnonzero(some) for some in conflicts if some is not None]
    for number, pods in enumerate(sets):
        for pod in pods.tolist():
            bound[pod] = known.setdefault((int(bound[pod]), number), len(known) + 1)
    seen: dict[tuple[object, ...], int] = {}
    columns = zip(c.req.T.tolist(), c.level.tolist(), c.unit.tolist(), c.single.tolist(), bound.tolist(), strict=True)
    out = [seen.setdefault((tuple(held), *rest), len(seen)) for held, *rest in columns]
    return np.array(out, dtype=np.int64)


def _in_the_way(nodes: NodePrices, vector: tuple[int, ...], classes: Sequence[Sequence[int]]) -> list[int]:
    """The classes (numbers) that keep these members off the node, whatever room there is."""
    conflicts = [some for k, some in enumerate(nodes.conflict) if vector[k] and some is not None]
    return [n for n, pods in enumerate(classes) if any(some[pods[0]] for some in conflicts)]


def _smallest(
    demand: Demand, vector: tuple[int, ...], room: Floats, taken: Ints, shape: tuple[int, ...], leave: Sequence[int]
) -> Ints:
    """The sets (numbers) that make room for these members, the classes that have to ``leave`` among them, and none of
    which does with a pod less.
    """
    asked = (demand.request * np.array(vector)[:, None]).sum(axis=0)
    fits = (room >= asked[:, None]).all(axis=0)
    for k in leave:
        fits &= taken[k] == shape[k] - 1
    least = fits.copy()
    step = 1
    for k in range(len(shape) - 1, -1, -1):
        some = np.flatnonzero(taken[k] > 0)
        least[some] &= ~fits[some - step]
        step *= shape[k]
    return np.flatnonzero(least)


def _undominated(fillings: list[tuple[tuple[int, ...], int]], taken: Ints) -> list[tuple[tuple[int, ...], int]]:
    """Without those that make room for no more members than another, for which the same pods leave or fewer."""
    members = np.array([vector for vector, _ in fillings], dtype=np.int64)
    leaving = taken[:, [number for _, number in fillings]].T
    out = []
    for n, filling in enumerate(fillings):
        better = (members >= members[n]).all(axis=1) & (leaving <= leaving[n]).all(axis=1)
        if np.count_nonzero(better) == 1:  # no two are equal in both
            out.append(filling)
    return out
