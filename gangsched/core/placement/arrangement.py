"""Another arrangement of a mixed gang, when placing its members one by one at the best-scored node fails.

First fit decreasing on the tightest node, then a bounded search over all assignments. Nodes that are the same
for every filter are tried once, and members of one class in one order, so small gangs are searched completely.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints
from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.placement.packing import Packed, packed
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.model.records import Pod

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
        if not self._alike:
            return Packed(known=False)
        sim = self._sim
        kinds: dict[tuple[int, bytes], list[Pod]] = {}
        for pod in members:
            pod_class = sim.class_of(pod)
            mask = self._pipeline.static_mask(pod_class, sim)
            kinds.setdefault((id(pod_class.shape), mask.tobytes()), []).append(pod)
        request: Floats = np.zeros((len(kinds), len(sim.free)))
        for k, some in enumerate(kinds.values()):
            index, amounts = sim.snapshot.vector(sim.class_of(some[0]).shape)
            request[k, index] = amounts
        masks = np.array([np.frombuffer(mask, dtype=np.bool_) for _, mask in kinds])
        used = request.any(axis=0)
        found = packed(request[:, used], masks, tuple(map(len, kinds.values())), sim.free[used])
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
        seen: set[tuple[float, ...]] = set()
        for row in self._ranked(pod).tolist():
            if self._alike:
                look = (*sim.free[:, row].tolist(), *(float(mask[row]) for mask in self._masks))
                if look in seen:
                    continue
                seen.add(look)
            yield row
