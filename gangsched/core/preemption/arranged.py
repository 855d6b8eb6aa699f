"""Fit of a small gang of several shapes, exactly: which loads each node can hold, and what they add up to.

For members that count resources and keep other pods off their node or domain (anti-affinity). Loads of a node are
found once for what it has free; sets of what nodes hold together are those of :mod:`.lattice`. When pods come and go
only their nodes are looked at again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import numpy as np

from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.planning.placement import Want
from gangsched.core.preemption.barred import MAX_CLASSES, BarredRoom, domains_apart
from gangsched.core.preemption.estimate import GUESSED_PER_STEP, PART
from gangsched.core.preemption.lattice import Lattice, Vector
from gangsched.core.preemption.slots import HINT
from gangsched.core.state.podclass import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import Bools, Floats, Ints
from gangsched.core.state.terms import Domains, against
from gangsched.model.records import Pod

#: More states of the gang are not looked at.
MAX_STATES = 4096
#: Operations on sets of states that count as one step.
_WORK_PER_STEP = 400
#: Gains of so many options are found out in about one step; in clusters of so many nodes they cost that much again.
_OPTIONS_PER_STEP, _NODES_COPIED = 4, 500


def arranged_fit(sim: Simulation, pipeline: Pipeline, wants: Sequence[Want]) -> ArrangedFit | None:
    """An exact fit for these members; None when there are too many kinds of them, or rules beside anti-affinity."""
    groups: dict[tuple[int, int], list[Pod]] = {}
    for number, want in enumerate(wants):
        for pod in sorted(want.members, key=lambda p: p.name):
            groups.setdefault((number, sim.snapshot.class_of(pod).ident), []).append(pod)
    classes = [sim.snapshot.class_of(members[0]) for members in groups.values()]
    if len(groups) > MAX_CLASSES or np.prod([len(g) + 1 for g in groups.values()]) > MAX_STATES:
        return None
    apart = domains_apart(sim, pipeline, classes)
    if apart is None:
        return None
    wide = [key for key, domains in apart.items() if not domains.single]
    if len(wide) > 1:
        return None
    return ArrangedFit(sim, pipeline, wants, groups, wide[0] if wide else "")


class ArrangedFit(BarredRoom):
    """``wide`` is the one label key whose domains have several nodes and over which members keep off each other."""

    monotone = True

    def __init__(
        self,
        sim: Simulation,
        pipeline: Pipeline,
        wants: Sequence[Want],
        groups: dict[tuple[int, int], list[Pod]],
        wide: str,
    ) -> None:
        self.steps = 0
        self._groups = list(groups.values())
        classes = [sim.snapshot.class_of(members[0]) for members in self._groups]
        super().__init__(sim, pipeline, classes)
        self._requests = self._asked.tolist()
        needs = [
            ([k for k, (number, _) in enumerate(groups) if number == n], want.required) for n, want in enumerate(wants)
        ]
        self._lattice = Lattice([len(g) for g in self._groups], needs)
        self._everything = self._asked.T @ np.array([len(g) for g in self._groups], dtype=np.float64)
        self._near: set[tuple[int, int]] = set()  # classes that do not share a node
        self._far: set[tuple[int, int]] = set()  # nor a domain
        self._conflicts(sim, classes, wide)
        self._code: Ints = Domains(sim, wide).code if wide else np.full(self._free.shape[1], -1, dtype=np.int64)
        self._cliques = _conflict_free(len(classes), self._far)
        self._loads: dict[tuple[Any, ...], tuple[int, ...]] = {}
        self._numbers: dict[tuple[int, ...], int] = {(): 0}
        self._tables: list[tuple[int, ...]] = [()]
        self._of_domain: dict[tuple[int, ...], int] = {}
        self._kind = np.zeros((len(self._cliques), self._free.shape[1]), dtype=np.int64)
        self._dirty = np.ones(self._free.shape[1], dtype=np.bool_)
        self._known: dict[bytes, int] = {}
        self._seen = self._uncounted = 0  # of the work in the lattice
        self._base = self.save()

    def _conflicts(self, sim: Simulation, classes: Sequence[PodClass], wide: str) -> None:
        for (i, one), (j, other) in product(enumerate(classes), repeat=2):
            for term in against(sim, one.shape, other):
                pairs = self._far if term.topology_key == wide else self._near
                pairs.update({(i, j), (j, i)})

    # -- pods come and go ----------------------------------------------------------------------------------

    def _touch(self, nodes: Bools) -> None:
        self._dirty |= nodes

    def save(self) -> Any:
        return super().save(), self._kind.copy(), self._dirty.copy()

    def restore(self, state: Any) -> None:
        room, self._kind[:], self._dirty[:] = state
        super().restore(room)

    # -- loads ---------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Find the loads of the nodes at which something has changed, for each set of classes that go together."""
        rows = np.flatnonzero(self._dirty)
        if not len(rows):
            return
        self._dirty[:] = False
        may = self._static[:, rows].copy()
        for bar in self._bars:
            code = bar.code[rows]
            may[bar.of] &= (code < 0) | (bar.counts[code] == 0)
        may &= (self._free[None, :, rows] >= self._asked[:, :, None]).all(axis=1, where=self._asked[:, :, None] > 0)
        free = np.minimum(self._free[:, rows], self._everything[:, None]).T.tolist()
        for n, row in enumerate(rows.tolist()):
            allowed = may[:, n].tolist()
            for c, clique in enumerate(self._cliques):
                in_none = self._code[row] < 0
                classes = tuple(k for k, ok in enumerate(allowed) if ok and (in_none or k in clique))
                self._kind[c, row] = self._number(self._loads_of(free[n], classes)) if classes else 0

    def _number(self, loads: tuple[int, ...]) -> int:
        found = self._numbers.get(loads)
        if found is None:
            found = self._numbers[loads] = len(self._tables)
            self._tables.append(loads)
        return found

    def _loads_of(self, free: Sequence[float], classes: tuple[int, ...]) -> tuple[int, ...]:
        """The largest loads of these classes that fit into what is free."""
        key = (classes, *free)
        found = self._loads.get(key)
        if found is None:
            states = 0
            stack: list[tuple[int, int, Sequence[float], tuple[int, ...]]] = [(0, 0, free, ())]
            while stack:
                at, code, left, here = stack.pop()
                if at == len(classes):
                    states |= 1 << code
                    continue
                k = classes[at]
                asked = self._requests[k]
                most = min(int(f // a) for f, a in zip(left, asked, strict=True) if a)
                if any((k, other) in self._near for other in here):
                    most = 0
                most = max(0, min(most, 1 if (k, k) in self._near else self._lattice.most[k]))
                self._lattice.work += most
                # Of the last class, the most is all that matters.
                for count in range(most if at + 1 == len(classes) else 0, most + 1):
                    room = [f - count * a for f, a in zip(left, asked, strict=True)]
                    stack.append((at + 1, code + count * self._lattice.strides[k], room, (*here, k) if count else here))
            found = self._loads[key] = self._lattice.top(self._lattice.closed(states))
        return found

    def _places(self) -> list[tuple[tuple[int, ...], list[int], int]]:
        """``(loads, rows, domain)``: nodes and whole domains with what they can hold; a domain's loads are those of
        its nodes together.
        """
        self._refresh()
        alone = np.flatnonzero((self._code < 0) & (self._kind[0] > 0))
        out = [(self._tables[self._kind[0, row]], [row], -1) for row in alone.tolist()]
        inside = np.flatnonzero((self._code >= 0) & (self._kind > 0).any(axis=0))
        for domain in np.unique(self._code[inside]).tolist():
            rows = inside[self._code[inside] == domain].tolist()
            out.append((self._tables[self._domain(rows)], rows, domain))
        return out

    def _domain(self, rows: list[int]) -> int:
        key = tuple(self._kind[:, rows].ravel().tolist())
        found = self._of_domain.get(key)
        if found is None:
            states = 0
            for c in range(len(self._cliques)):
                states |= self._together(c, rows)
            found = self._of_domain[key] = self._number(self._lattice.top(states))
        return found

    def _together(self, clique: int, rows: Sequence[int]) -> int:
        """What the nodes of one domain hold of classes that may share it."""
        states = 1
        for row in rows:
            states = self._lattice.added(states, self._tables[self._kind[clique, row]])
        return self._lattice.limited(states, [(k, 1) for k in self._cliques[clique] if (k, k) in self._far])

    # -- questions -----------------------------------------------------------------------------------------

    def fits(self) -> bool:
        return self.shortfall() <= 0

    def shortfall(self) -> float:
        self._refresh()
        counts = self._kinds()
        key = counts.tobytes()
        found = self._known.get(key)
        if found is None:
            states = 1
            most = sum(self._lattice.most)
            for number in np.flatnonzero(counts).tolist():
                # Each node that is used holds at least one member, so more equal nodes than members do not help.
                for _ in range(min(most, int(counts[number]))):
                    states = self._lattice.added(states, self._tables[number])
                if self._lattice.goal(states) >= 0:
                    break
            found = self._known[key] = self._lattice.shortfall(states)
        steps, self._uncounted = divmod(self._lattice.work - self._seen + self._uncounted, _WORK_PER_STEP)
        self._seen = self._lattice.work
        self.steps += steps
        return float(found)

    def _kinds(self) -> Ints:
        """How many nodes and domains there are of each table of loads."""
        alone = self._code < 0
        kinds = self._kind[0, alone]
        if alone.all():
            return np.bincount(kinds[kinds > 0], minlength=1).astype(np.int64)
        domains = [self._domain(rows) for _, rows, domain in self._places() if domain >= 0]
        kinds = np.concatenate([kinds, np.array(domains, dtype=np.int64)])
        return np.bincount(kinds[kinds > 0], minlength=1).astype(np.int64)

    def lacking(self) -> None:
        """It is not one room that is missing."""
        return

    def gains(self, options: Sequence[Ints], most_steps: int) -> Floats:
        if not options:
            return np.zeros(0)
        steps = len(options) * (1 + self._free.shape[1] // _NODES_COPIED) // _OPTIONS_PER_STEP
        now = self.shortfall()
        pairs = self.pairs(options)
        parts = self._parts(pairs, options)
        if steps > most_steps * PART:
            self.steps += 1 + len(options) // GUESSED_PER_STEP
            return parts / len(self._asked)  # the members for which there would be room, alone
        out = HINT * parts
        state = self.save()
        for number, option in enumerate(options):
            self.take(option)
            out[number] += now - self.shortfall()
            self.restore(state)
        self.steps += steps
        return out

    def rows(self, taken: frozenset[int]) -> dict[str, int]:
        """Where the members go when exactly these slots are taken; empty when they do not fit."""
        state = self.save()
        self.restore(self._base)
        self.take(np.array(sorted(taken), dtype=np.int64))
        out: dict[str, int] = {}
        if self.fits():
            left = [[p.uid for p in group] for group in self._groups]
            for row, load in self._arrangement():
                for k, count in enumerate(load):
                    for _ in range(count):
                        out[left[k].pop(0)] = row
        self.restore(state)
        return out

    def _arrangement(self) -> list[tuple[int, Vector]]:
        """``(row, members of each class)`` for the nodes that hold members."""
        lattice = self._lattice
        places = self._places()
        states = 1
        for used, (loads, _, _) in enumerate(places, start=1):
            states = lattice.added(states, loads)
            if lattice.goal(states) >= 0:
                places = places[:used]
                break
        held = lattice.traced([loads for loads, _, _ in places], lattice.goal(states)) or []
        out: list[tuple[int, Vector]] = []
        for code, (_, rows, domain) in zip(held, places, strict=True):
            inner = [code]
            if domain >= 0:
                clique = next(c for c in range(len(self._cliques)) if self._together(c, rows) >> code & 1)
                inner = lattice.traced([self._tables[self._kind[clique, row]] for row in rows], code) or []
            out += [(row, lattice.vector(part)) for row, part in zip(rows, inner, strict=True) if part]
        return out


def _conflict_free(classes: int, conflicts: set[tuple[int, int]]) -> list[frozenset[int]]:
    """The largest sets of classes no two of which conflict."""
    found: list[frozenset[int]] = []
    for size in range(classes, 0, -1):
        for some in combinations(range(classes), size):
            chosen = frozenset(some)
            fine = not any(pair in conflicts for pair in combinations(some, 2))
            if fine and not any(chosen < other for other in found):
                found.append(chosen)
    return found
