"""Another arrangement of a mixed gang, when placing its members one by one at the best-scored node fails.

First fit decreasing on the tightest node, then a bounded search over all assignments. Nodes that are the same
for every filter are tried once, and members of one class in one order, so small gangs are searched completely.

Members of a few kinds that only ask for room are *packed*: dynamic programming over the nodes, by how many of each kind
have places. A node takes one of its largest fillings, and where some members fit, fewer do. Nodes with the same
fillings follow each other, until one more changes nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby, product

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints
from gangsched.core.devices.columns import DeviceColumns
from gangsched.core.devices.demand import DeviceDemand
from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.model.records import Pod

#: Entries of the table: numbers of each kind x fillings x nodes. About 10 ms.
_TABLE = 400_000
#: The most fillings of a node, times nodes.
_LOOKS = 100_000


class Packed(msgspec.Struct, frozen=True, eq=False):
    """Whether members fit, and where.

    ``known`` is False if that could not be found out. If they fit, ``counts`` ``(K, N)`` are members of each kind on
    each node. ``rows`` has the row of each member (UID) where the caller knows the members.
    """

    known: bool
    counts: Ints | None = None
    rows: dict[str, int] = msgspec.field(default_factory=dict)


def packed(request: Floats, mask: Bools, need: tuple[int, ...], free: Floats) -> Packed:
    """Return places for ``need`` members of each kind with ``request`` ``(K, R)``, on nodes with ``free`` ``(R, N)``
    room where ``mask`` ``(K, N)`` allows it.
    """
    states = np.prod([n + 1 for n in need], dtype=np.float64)
    if states > _TABLE:  # with a single node
        return Packed(known=False)
    most = np.array([whole(request[k], free, mask[k], need[k]) for k in range(len(need))]).astype(np.int64)
    if (most.sum(axis=1) < need).any():
        return Packed(known=True)
    rows = np.flatnonzero(most.any(axis=0) & (free >= 0).all(axis=0))  # each takes one filling or more
    shape = tuple((most.max(axis=1) + 1).tolist())
    if np.prod(shape, dtype=np.float64) * len(rows) > _LOOKS or states * len(rows) > _TABLE:
        return Packed(known=False)
    vectors: Ints = np.array(list(product(*map(range, shape))), dtype=np.int64)
    fits = ((vectors @ request)[:, :, None] <= free[None][:, :, rows]).all(axis=1)
    fits &= (vectors[:, :, None] <= most[None][:, :, rows]).all(axis=1)
    by_fillings: dict[bytes, list[int]] = {}
    largest = _largest(fits.reshape(*shape, len(rows))).reshape(fits.shape)
    for number in range(len(rows)):
        by_fillings.setdefault(largest[:, number].tobytes(), []).append(number)
    if states * float(largest.sum()) > _TABLE:
        return Packed(known=False)
    return _filled(need, vectors, largest, rows, list(by_fillings.values()), free.shape[1])


def whole(asked: Floats, free: Floats, allowed: Bools, most: int) -> Floats:
    """``(n,)`` members that ask for ``asked`` ``(R,)`` on nodes with ``(R, n)`` room: no more than ``most``, and none
    where that is not ``allowed``.
    """
    used = asked > 0
    room = (free[used] / asked[used, None]).min(axis=0, initial=most)
    return np.where(allowed, np.floor(np.maximum(room, 0.0)), 0.0)


def _largest(fits: Bools) -> Bools:
    """Return the fillings (an axis for the number of each kind, and the nodes) to which no member can be added."""
    out = fits.copy()
    for axis in range(fits.ndim - 1):
        fewer = [slice(None)] * fits.ndim
        more = [slice(None)] * fits.ndim
        fewer[axis], more[axis] = slice(None, -1), slice(1, None)
        out[tuple(fewer)] &= ~fits[tuple(more)]
    return out


def _filled(
    need: tuple[int, ...], vectors: Ints, largest: Bools, rows: Ints, alike: list[list[int]], nodes: int
) -> Packed:
    reached: Bools = np.zeros([n + 1 for n in need], dtype=np.bool_)
    reached[(0,) * len(need)] = True
    steps: list[tuple[int, Ints, Bools]] = []
    for same in alike:
        fillings = vectors[largest[:, same[0]]]
        before = [
            np.ix_(*(np.maximum(np.arange(n + 1) - x, 0) for n, x in zip(need, v, strict=True))) for v in fillings
        ]
        for number in same:
            now = reached.copy()
            for index in before:
                now |= reached[index]
            if (now == reached).all():
                break
            steps.append((number, fillings, reached))
            reached = now
            if reached[need]:
                return Packed(known=True, counts=_counts(need, rows, steps, nodes))
    return Packed(known=True)


def _counts(need: tuple[int, ...], rows: Ints, steps: list[tuple[int, Ints, Bools]], nodes: int) -> Ints:
    """The fillings taken, the last first; of those that leave over more than is missing, as much as is missing."""
    counts: Ints = np.zeros((len(need), nodes), dtype=np.int64)
    left: Ints = np.array(need, dtype=np.int64)
    for number, fillings, reached in reversed(steps):
        if reached[tuple(left)]:
            continue
        rest = np.maximum(left - fillings, 0)
        chosen = next(r for r in rest if reached[tuple(r)])
        counts[:, rows[number]] = left - chosen
        left = chosen
    return counts


#: Members tried in all assignments; a larger gang is only packed tightly.
MAX_MEMBERS = 16
#: Placements that one bounded search may try.
MAX_TRIES = 600


def hopeless(members: Sequence[Pod], sim: Simulation, pipeline: Pipeline) -> bool:
    """True when no arrangement can exist: some class, or all members together, ask for more than there is."""
    free = np.maximum(sim.free, 0.0)
    counts: dict[int, tuple[PodClass, int]] = {}
    for pod in members:
        pod_class = sim.snapshot.class_of(pod)
        _, before = counts.get(pod_class.ident, (pod_class, 0))
        counts[pod_class.ident] = (pod_class, before + 1)
    asked: Floats = np.zeros(len(free))
    usable: Bools = np.zeros(free.shape[1], dtype=np.bool_)
    for pod_class, number in counts.values():
        index, amounts = sim.snapshot.vector(pod_class.shape)
        mask = pipeline.static_mask(pod_class, sim)
        room = np.floor(free[index] / amounts[:, None]).min(axis=0)[mask].sum()
        if room < number:
            return True
        asked[index] += number * amounts
        usable |= mask
    return bool((asked > free[:, usable].sum(axis=1)).any())


class Arranger:
    """One search for an arrangement. ``tries`` counts placements tried; the search ends at :data:`MAX_TRIES`."""

    def __init__(self, pipeline: Pipeline, sim: Simulation, members: Sequence[Pod]) -> None:
        self._pipeline = pipeline
        self._sim = sim
        self.tries = 0
        classes = {c.ident: c for c in map(sim.snapshot.class_of, members)}.values()
        self._masks = [pipeline.static_mask(c, sim) for c in classes]
        self._alike = all(pipeline.only_counts(c, sim) for c in classes)
        #: A member changes nothing but what its own node can take.
        self._local = self._alike or all(pipeline.only_own_node(c, sim) for c in classes)
        self._demands = [c.devices for c in classes if c.devices is not None]

    def tight(self, members: Sequence[Pod]) -> dict[str, int] | None:
        """Each member, in this order, on the node that it leaves fullest; None when one has no node. On success the
        simulation holds the members.
        """
        mark = self._sim.mark()
        rows: dict[str, int] = {}
        runs = groupby(members, self._sim.snapshot.class_of) if self._alike else ((None, [pod]) for pod in members)
        for _, some in runs:
            found = self._run(list(some))
            if found is None:
                self._sim.rollback(mark)
                return None
            rows |= found
        return rows

    def _run(self, members: Sequence[Pod]) -> dict[str, int] | None:
        """The same for members of one class, several only where nothing but room counts: a node that is the fullest
        stays so until it takes no more.
        """
        sim, pod_class = self._sim, self._sim.snapshot.class_of(members[0])
        ranked = self._ranked(pod_class)
        room = np.ones(len(ranked), dtype=np.int64)
        if len(members) > 1:
            index, amounts = sim.snapshot.vector(pod_class.shape)
            used = amounts > 0
            whole = np.floor(sim.free[index[used]][:, ranked] / amounts[used, None])
            room = whole.min(axis=0, initial=len(members)).astype(np.int64)
        last = int(np.searchsorted(np.cumsum(room), len(members)))
        if last == len(ranked):
            return None
        taken = np.repeat(ranked[: last + 1], room[: last + 1])[: len(members)]
        sim.place_all(pod_class, taken)
        return dict(zip((pod.uid for pod in members), taken.tolist(), strict=True))

    def packed(self, members: Sequence[Pod]) -> Packed:
        """Places for all members where they only ask for room, and are of a few kinds. On success the simulation holds
        the members.
        """
        sim = self._sim
        columns = DeviceColumns(sim.devices, self._demands) if self._local and self._demands else None
        if not self._local or (columns is not None and not columns.exact):
            return Packed(known=False)
        kinds: dict[tuple[int, bytes, DeviceDemand | None], list[Pod]] = {}
        for pod in members:
            pod_class = sim.class_of(pod)
            mask = self._pipeline.static_mask(pod_class, sim)
            kinds.setdefault((id(pod_class.shape), mask.tobytes(), pod_class.devices), []).append(pod)
        free = sim.free if columns is None else np.vstack([sim.free, columns.free])
        request: Floats = np.zeros((len(kinds), len(free)))
        for k, some in enumerate(kinds.values()):
            index, amounts = sim.snapshot.vector(sim.class_of(some[0]).shape)
            request[k, index] = amounts
            if columns is not None:
                request[k, len(sim.free) :] = columns.request(sim.class_of(some[0]).devices)
        masks = np.array([np.frombuffer(mask, dtype=np.bool_) for _, mask, _ in kinds])
        used = request.any(axis=0)
        found = packed(request[:, used], masks, tuple(map(len, kinds.values())), free[used])
        if found.counts is None:
            return found
        for some, counts in zip(kinds.values(), found.counts, strict=True):
            for pod, row in zip(some, np.repeat(np.arange(len(counts)), counts).tolist(), strict=True):
                sim.place(sim.class_of(pod), row)
                found.rows[pod.uid] = row
        return found

    def all_ways(self, members: Sequence[Pod], needed: Sequence[tuple[frozenset[str], int]]) -> dict[str, int] | None:
        """Any assignment that places, of each set of UIDs, at least so many; None when none was found in time.

        ``members`` come in the order in which they are decided. On success the simulation holds the members.
        """
        return self._next(list(members), 0, {}, list(needed))

    def _next(
        self, members: list[Pod], at: int, rows: dict[str, int], needed: list[tuple[frozenset[str], int]]
    ) -> dict[str, int] | None:
        if all(sum(1 for u in uids if u in rows) >= count for uids, count in needed):
            return rows
        if at == len(members):
            return None
        pod = members[at]
        sim = self._sim
        pod_class = sim.snapshot.class_of(pod)
        for row in self._rows(pod_class):
            if self.tries >= MAX_TRIES:
                return None
            self.tries += 1
            mark = sim.mark()
            sim.place(pod_class, row)
            found = self._next(members, at + 1, {**rows, pod.uid: row}, needed)
            if found is not None:
                return found
            sim.rollback(mark)
        uids, count = next((u, c) for u, c in needed if pod.uid in u)
        left = sum(1 for p in members[at + 1 :] if p.uid in uids) + sum(1 for u in uids if u in rows)
        if left >= count:
            return self._next(members, at + 1, rows, needed)
        return None

    def _ranked(self, pod: PodClass) -> Ints:
        """Nodes that can take one, the fullest first."""
        sim = self._sim
        passing = np.flatnonzero(self._pipeline.mask(pod, sim))
        index, amounts = sim.snapshot.vector(pod.shape)
        room = np.maximum(sim.snapshot.allocatable[index][:, passing], 1.0)
        left = ((sim.free[index][:, passing] - amounts[:, None]) / room).sum(axis=0)
        ranked: Ints = passing[np.lexsort((passing, np.round(left, 9)))]
        return ranked

    def _rows(self, pod: PodClass) -> Iterator[int]:
        """Nodes that can take one, the fullest first; of nodes that look the same to this class, the first."""
        sim = self._sim
        seen: set[tuple[Hashable, ...]] = set()
        for row in self._ranked(pod).tolist():
            if self._local:
                devices = sim.devices.fingerprint(row) if self._demands else ()
                look = (*sim.free[:, row].tolist(), *(float(mask[row]) for mask in self._masks), devices)
                if look in seen:
                    continue
                seen.add(look)
            yield row
