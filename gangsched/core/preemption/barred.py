"""Free room for members of several shapes, where pods that are there may also keep them off their nodes or domains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gangsched.core.filters.affinity import InterPodAffinity
from gangsched.core.filters.resources import NodeResourcesFit
from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.preemption.slots import FreeRoom, Pairs
from gangsched.core.state.podclass import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import Bools, Floats, Ints
from gangsched.core.state.terms import Domains, against, includes, selected_slots, selection_of

#: More classes of members are not looked at.
MAX_CLASSES = 6


class _Bar:
    """Domains that are closed to one class while pods are there that it keeps off, or that keep it off."""

    def __init__(self, of: int, code: Ints, hits: Bools, counts: Ints) -> None:
        self.of, self.code, self.hits, self.counts = of, code, hits, counts


def domains_apart(sim: Simulation, pipeline: Pipeline, classes: Sequence[PodClass]) -> dict[str, Domains] | None:
    """The domains over which these classes keep pods off, by label key; None when other rules count for them than room
    and that.
    """
    for pod_class in classes:
        names = {rule.name for rule in pipeline.watching(pod_class, sim)}
        if not names <= {NodeResourcesFit.name, InterPodAffinity.name} or pod_class.shape.affinity:
            return None
    return {key: Domains(sim, key) for key in sorted({t.topology_key for c in classes for t in c.shape.anti_affinity})}


class BarredRoom(FreeRoom):
    """``_asked`` is ``(classes, R)``: what a member of each class asks for, ``_static`` ``(classes, N)``: where it may
    go at all. ``_bars`` say which domains are closed to it now.
    """

    def __init__(self, sim: Simulation, pipeline: Pipeline, classes: Sequence[PodClass]) -> None:
        vectors = [sim.snapshot.vector(c.shape) for c in classes]
        index = np.unique(np.concatenate([i for i, _ in vectors]))
        super().__init__(sim, index)
        self._asked = np.zeros((len(vectors), len(index)))
        for n, (rows, amounts) in enumerate(vectors):
            self._asked[n, np.searchsorted(index, rows)] = amounts
        self._static: Bools = np.array([pipeline.static_mask(c, sim) for c in classes])
        self._bars = _bars(sim, classes)

    def take(self, slots: Ints) -> None:
        """These pods leave."""
        self._move(slots, +1.0)

    def give_back(self, slots: Ints) -> None:
        """They stay after all."""
        self._move(slots, -1.0)

    def _move(self, slots: Ints, sign: float) -> None:
        if not len(slots):
            return
        touched: Bools = np.zeros(self._free.shape[1], dtype=np.bool_)
        touched[self.shift(slots, sign)] = True
        for bar in self._bars:
            hit = slots[bar.hits[slots]]
            codes = bar.code[self._table.row[hit]]
            codes = codes[codes >= 0]
            if len(codes):
                np.add.at(bar.counts, codes, -int(sign))
                touched |= np.isin(bar.code, codes)
        self._touch(touched)

    def _touch(self, nodes: Bools) -> None:
        """What is free on these nodes has changed, or who is kept off them."""
        raise NotImplementedError

    def save(self) -> Any:
        """The state, for :meth:`restore`."""
        return self._free.copy(), [bar.counts.copy() for bar in self._bars]

    def restore(self, state: Any) -> None:
        """Go back to it."""
        self._free[:], counts = state
        for bar, count in zip(self._bars, counts, strict=True):
            bar.counts[:] = count

    def _parts(self, pairs: Pairs, options: Sequence[Ints]) -> Floats:
        """``(options,)`` how much of one member of each class more there would be room for, on each node by itself."""
        out = np.zeros(len(options))
        now = self._free[:, pairs.rows]
        for asked, static in zip(self._asked, self._static, strict=True):
            used = asked > 0
            had, has = (
                np.clip(free[used] / asked[used, None], 0.0, 1.0).min(axis=0) for free in (now, now + pairs.amounts)
            )
            gain = np.where(static[pairs.rows], has - had, 0.0)
            out += np.bincount(pairs.owner, weights=gain, minlength=len(options))
        return out


def _bars(sim: Simulation, classes: Sequence[PodClass]) -> list[_Bar]:
    """What closes domains to each class: pods that its terms select, and pods whose terms select it."""
    out: list[_Bar] = []
    table = sim.snapshot.table
    for k, pod in enumerate(classes):
        found: list[tuple[str, Ints, list[int]]] = []
        for term in pod.shape.anti_affinity:
            selection = selection_of(term)
            guests = [row for other, row in sim.visitors() if includes(sim, selection, other)]
            found.append((term.topology_key, selected_slots(sim, selection, lifted=True), guests))
        slots = table.occupied()
        for number in sim.snapshot.anti_shapes:
            terms = against(sim, sim.snapshot.shapes[number], pod)
            found += [(t.topology_key, slots[table.shape[slots] == number], []) for t in terms]
        for other, row in sim.visitors():
            found += [(t.topology_key, np.zeros(0, dtype=np.int64), [row]) for t in against(sim, other.shape, pod)]
        out += [_bar(sim, k, *entry) for entry in found]
    return out


def _bar(sim: Simulation, of: int, key: str, slots: Ints, guests: list[int]) -> _Bar:
    domains = Domains(sim, key)
    hits = np.zeros(sim.snapshot.table.size, dtype=np.bool_)
    hits[slots] = True
    lifted = sim.lifted()
    counts = np.zeros(max(domains.count, 1), dtype=np.int64)
    present = slots[~np.isin(slots, lifted)]
    codes = np.concatenate([domains.code[sim.snapshot.table.row[present]], domains.code[guests]])
    np.add.at(counts, codes[codes >= 0], 1)
    return _Bar(of, domains.code, hits, counts)
