"""Fit of a large gang of several shapes whose members all keep each other off their nodes, exactly.

A node holds one member at most, so members and nodes have to be matched. By Hall's theorem, in the form that counts
who is left over, as many members find a node as the worst set S of shapes allows: all members of other shapes, and as
many of S as there are nodes for any of them. With few shapes all sets are looked at, for very many questions at once.
(P. Hall, On Representatives of Subsets, 1935; O. Ore, Graphs and matching theorems, 1955.)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement, pairwise
from typing import Any

import numpy as np

from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.planning.placement import Want
from gangsched.core.preemption.barred import MAX_CLASSES, BarredRoom, domains_apart
from gangsched.core.preemption.slots import HINT
from gangsched.core.state.podclass import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import Bools, Floats, Ints
from gangsched.core.state.terms import against
from gangsched.model.records import Pod

#: Gains of so many options are found out in about one step.
_OPTIONS_PER_STEP = 100


def apart_fit(sim: Simulation, pipeline: Pipeline, wants: Sequence[Want]) -> ApartFit | None:
    """An exact fit for these members; None when there are too many shapes, two of them may share a node, or other
    rules count than room and anti-affinity between single nodes.
    """
    if len(wants) > 1 and any(len(want.members) > want.required for want in wants):
        return None
    groups: dict[int, list[Pod]] = {}
    for pod in sorted((p for want in wants for p in want.members), key=lambda p: p.key):
        groups.setdefault(sim.snapshot.class_of(pod).ident, []).append(pod)
    classes = [sim.snapshot.class_of(members[0]) for members in groups.values()]
    if len(groups) > MAX_CLASSES:
        return None
    apart = domains_apart(sim, pipeline, classes)
    if apart is None or not all(domains.single for domains in apart.values()):
        return None
    if not all(_conflict(sim, one, other) for one, other in combinations_with_replacement(classes, 2)):
        return None
    return ApartFit(sim, pipeline, list(groups.values()), sum(want.required for want in wants))


def _conflict(sim: Simulation, one: PodClass, other: PodClass) -> bool:
    """Does one of them keep the other off its node?"""
    return bool(against(sim, one.shape, other) or against(sim, other.shape, one))


class ApartFit(BarredRoom):
    """``groups`` are the members by shape, of which ``needed`` in all must have a node of their own.

    ``_kind`` is ``(N,)``: which shapes each node could take now, as bits.
    """

    #: Taking more pods never makes the gang fit less.
    monotone = True

    def __init__(self, sim: Simulation, pipeline: Pipeline, groups: list[list[Pod]], needed: int) -> None:
        self.steps = 0
        self._groups = groups
        self._needed = needed
        classes = [sim.snapshot.class_of(members[0]) for members in groups]
        super().__init__(sim, pipeline, classes)
        hits = np.zeros(sim.snapshot.table.size, dtype=np.bool_)
        for bar in self._bars:
            hits |= bar.hits
        #: Slots of pods that keep members off their node.
        self._keeping: Ints = np.flatnonzero(hits)
        self._bits: Ints = 1 << np.arange(len(classes), dtype=np.int64)
        sets = np.arange(1 << len(classes), dtype=np.int64)
        sizes: Ints = np.array([len(members) for members in groups], dtype=np.int64)
        #: ``(sets, kinds)``: is a node of this kind one for some shape of the set?
        self._serves: Floats = ((sets[:, None] & sets) != 0).astype(np.float64)
        #: ``(sets,)`` members of the shapes outside of it.
        self._outside: Floats = ((sets[:, None] & self._bits) == 0).astype(np.float64) @ sizes
        self._kind: Ints = np.zeros(self._free.shape[1], dtype=np.int64)
        self._touch(np.ones(self._free.shape[1], dtype=np.bool_))
        self._base = self.save()

    # -- pods come and go ----------------------------------------------------------------------------------

    def _touch(self, nodes: Bools) -> None:
        rows = np.flatnonzero(nodes)
        self._kind[rows] = self._kinds(rows, self._free[:, rows])

    def _kinds(self, rows: Ints, free: Floats) -> Ints:
        """``(rows,)`` which shapes could go to these nodes if so much was free, as bits."""
        may = self._static[:, rows]
        for bar in self._bars:
            code = bar.code[rows]
            may[bar.of] &= (code < 0) | (bar.counts[code] == 0)
        may &= (free >= self._asked[:, :, None]).all(axis=1, where=self._asked[:, :, None] > 0)
        return np.asarray(self._bits @ may, dtype=np.int64)

    def save(self) -> Any:
        return super().save(), self._kind.copy()

    def restore(self, state: Any) -> None:
        room, self._kind[:] = state
        super().restore(room)

    # -- questions -----------------------------------------------------------------------------------------

    def fits(self) -> bool:
        return self.shortfall() <= 0

    def shortfall(self) -> float:
        return float(self._needed - self._held(self._nodes()[None])[0])

    def _nodes(self) -> Floats:
        """``(kinds,)`` how many nodes there are of each."""
        return np.bincount(self._kind, minlength=len(self._outside)).astype(np.float64)

    def _held(self, nodes: Floats) -> Floats:
        """``(cases,)`` how many members find a node, of ``(cases, kinds)`` nodes of each kind."""
        return np.asarray((nodes @ self._serves.T + self._outside).min(axis=1))

    def lacking(self) -> None:
        """It is not one room that is missing."""
        return

    def gains(self, options: Sequence[Ints], most_steps: int) -> Floats:
        if not options:
            return np.zeros(0)
        pairs = self.pairs(options)
        kinds = self._kinds(pairs.rows, self._free[:, pairs.rows] + pairs.amounts)
        change = np.zeros((len(options), len(self._outside)))
        np.add.at(change, (pairs.owner, kinds), 1.0)
        np.add.at(change, (pairs.owner, self._kind[pairs.rows]), -1.0)
        before = self._held(self._nodes()[None])[0]
        out = self._held(self._nodes() + change) - before
        if len(self._keeping):  # few pods keep members off
            there = np.isin(np.concatenate(options), self._keeping)
            owner = np.repeat(np.arange(len(options)), [len(option) for option in options])
            for n in np.unique(owner[there]).tolist():
                state = self.save()
                self.take(options[n])
                out[n] = self._held(self._nodes()[None])[0] - before
                self.restore(state)
                self.steps += 1
        self.steps += len(options) // _OPTIONS_PER_STEP
        return np.asarray(out + HINT / len(self._asked) * self._parts(pairs, options))

    def rows(self, taken: frozenset[int]) -> dict[str, int]:
        """Where the members go when exactly these slots are taken; empty when they do not fit."""
        state = self.save()
        self.restore(self._base)
        self.take(np.array(sorted(taken), dtype=np.int64))
        out: dict[str, int] = {}
        if self.fits():
            flow = self._matched()
            for kind in np.flatnonzero(flow.any(axis=0)).tolist():
                rows = iter(np.flatnonzero(self._kind == kind).tolist())
                for n, count in enumerate(flow[:, kind].tolist()):
                    first = int(flow[n, :kind].sum())
                    out.update((pod.uid, next(rows)) for pod in self._groups[n][first : first + count])
        self.restore(state)
        return out

    def _matched(self) -> Ints:
        """``(shapes, kinds)`` members of each shape on nodes of each kind, as many as are needed: a flow that grows
        along shortest paths (Edmonds and Karp).
        """
        left = self._nodes().astype(np.int64)
        flow: Ints = np.zeros((len(self._groups), len(left)), dtype=np.int64)
        needed = self._needed
        for n, members in enumerate(self._groups):
            missing = min(len(members), needed)
            while missing:
                path = self._path(n, left, flow)
                if not path:
                    break
                given_up = [int(flow[after, kind]) for (_, kind), (after, _) in pairwise(path)]
                push = min([missing, int(left[path[-1][1]]), *given_up])
                for (shape, kind), after in zip(path, [*path[1:], None], strict=True):
                    flow[shape, kind] += push
                    if after is not None:
                        flow[after[0], kind] -= push
                left[path[-1][1]] -= push
                missing -= push
                needed -= push
        return flow

    def _path(self, shape: int, left: Ints, flow: Ints) -> list[tuple[int, int]]:
        """From a shape to a kind with nodes left: ``(shape, kind)`` pairs, each shape after the first giving up its
        place in the kind before. Empty if there is none.
        """
        paths: list[list[tuple[int, int]]] = [[]]
        queue, seen = [(shape, paths[0])], {shape}
        while queue:
            at, path = queue.pop(0)
            for kind in np.flatnonzero(self._serves[1 << at]).tolist():
                longer = [*path, (at, kind)]
                if left[kind]:
                    return longer
                for other in np.flatnonzero(flow[:, kind]).tolist():
                    if other not in seen:
                        seen.add(other)
                        queue.append((other, longer))
        return []
