"""Which nodes a volume can be used from, and which volumes would do for a claim on each node."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Container, Iterable
from typing import TypeAlias

import numpy as np

from gangsched.core.arrays import Bools, Ints
from gangsched.core.state.columns import NodeColumns
from gangsched.model.records import IN, LabelSelector, NodeTerm
from gangsched.model.volumes import PersistentVolume, StorageClass

Terms: TypeAlias = tuple[NodeTerm, ...] | None

#: Answers that are kept of each kind.
CACHE_LIMIT = 4096
#: Volumes that at most so many nodes reach are found by node, others by trying them.
_NARROW = 8


class _Group:
    """Volumes that the same nodes reach, as ``(size, name)``, smallest first."""

    def __init__(self, rows: Ints) -> None:
        self.rows = rows
        self.members: list[tuple[int, str]] = []


class AvailableVolumes:
    """The available volumes that would do for a claim, wherever they are; kept current one volume at a time.

    ``count`` is ``(N,)``: how many of them each node reaches.
    """

    def __init__(self, reach: Reach, size: int) -> None:
        self._reach = reach
        self._groups: dict[Terms, _Group] = {}
        self._group_of: dict[str, tuple[_Group, int]] = {}
        self.count = np.zeros(size, dtype=np.int64)
        self._narrow: dict[int, list[_Group]] = {}
        self._wide: list[tuple[_Group, Bools]] = []

    def add(self, volume: PersistentVolume) -> None:
        """One more that would do."""
        group = self._groups.get(volume.node_terms)
        if group is None:
            group = self._groups[volume.node_terms] = self._new_group(volume.node_terms)
        insort(group.members, (volume.size, volume.name))
        self._group_of[volume.name] = (group, volume.size)
        self.count[group.rows] += 1

    def _new_group(self, terms: Terms) -> _Group:
        group = _Group(self._reach.rows(terms))
        if len(group.rows) <= _NARROW:
            for row in group.rows.tolist():
                self._narrow.setdefault(row, []).append(group)
        else:
            self._wide.append((group, self._reach.mask(terms)))
        return group

    def discard(self, name: str) -> None:
        """This one would not do any more, if it ever would."""
        found = self._group_of.pop(name, None)
        if found is not None:
            group, size = found
            group.members.remove((size, name))
            self.count[group.rows] -= 1

    def free(self, taken: Iterable[str]) -> Ints:
        """``(N,)``: how many candidates that are not taken each node reaches."""
        known = self._group_of
        gone = Counter(known[name][0] for name in taken if name in known)
        if not gone:
            return self.count
        count = self.count.copy()
        for group, number in gone.items():
            count[group.rows] -= number
        return count

    def change(self, count: Ints, name: str, change: int) -> None:
        """Bring what :meth:`free` answered up to date: the volume of this name is taken (-1) or free again (+1)."""
        found = self._group_of.get(name)
        if found is not None:
            count[found[0].rows] += change

    def pick(self, row: int, taken: Container[str]) -> str:
        """The smallest free candidate that the node reaches, the first by name among equals; empty if there is none."""
        free = (next((m for m in group.members if m[1] not in taken), None) for group in self._groups_at(row))
        return min((m for m in free if m is not None), default=(0, ""))[1]

    def names(self, row: int) -> list[str]:
        """All candidates that the node reaches, in the order in which they are preferred."""
        return [name for _, name in sorted(m for group in self._groups_at(row) for m in group.members)]

    def _groups_at(self, row: int) -> list[_Group]:
        return [*self._narrow.get(row, ()), *(group for group, mask in self._wide if mask[row])]


class Reach:
    """Which nodes a volume can be used from, and what storage they have access to.

    Answers are kept until labels of nodes change (``NodeColumns.generation``).
    """

    def __init__(self, nodes: NodeColumns) -> None:
        self._nodes = nodes
        self._generation = -1
        self._rows: dict[Terms, Ints] = {}
        self._by_value: dict[str, dict[str, list[int]]] = {}
        self._selected: dict[LabelSelector, Bools] = {}

    def _fresh(self) -> None:
        if self._generation != self._nodes.generation:
            self._generation = self._nodes.generation
            self._rows.clear()
            self._by_value.clear()
            self._selected.clear()

    def rows(self, terms: Terms) -> Ints:
        """Rows of the nodes that match any of the terms; None matches all."""
        self._fresh()
        found = self._rows.get(terms)
        if found is None:
            if len(self._rows) > 16 * CACHE_LIMIT:
                self._rows.clear()
            found = self._rows[terms] = self._compute(terms)
        return found

    def mask(self, terms: Terms) -> Bools:
        """The same as ``(N,)``."""
        out = np.zeros(self._nodes.size, dtype=np.bool_)
        out[self.rows(terms)] = True
        return out

    def _compute(self, terms: Terms) -> Ints:
        if terms is None:
            return np.arange(self._nodes.size, dtype=np.int64)
        simple = [t.expressions[0] for t in terms if len(t.expressions) == 1 and not t.fields]
        if len(simple) == len(terms) and all(r.operator == IN for r in simple):
            # The usual case, one volume per node: found by value instead of comparing every node for every volume.
            rows = {row for r in simple for value in r.values for row in self._with_value(r.key).get(value, ())}
            return np.array(sorted(rows), dtype=np.int64)
        chosen = np.zeros(self._nodes.size, dtype=np.bool_)
        for term in terms:
            chosen |= self._nodes.term(term)
        return np.flatnonzero(chosen)

    def _with_value(self, key: str) -> dict[str, list[int]]:
        found = self._by_value.get(key)
        if found is None:
            found = self._by_value[key] = {}
            for row, node in enumerate(self._nodes.nodes):
                value = node.labels.get(key)
                if value is not None:
                    found.setdefault(value, []).append(row)
        return found

    def topologies(self, storage_class: StorageClass) -> Bools:
        """``(N,)``: nodes for which the class may make volumes; an alternative without requirements selects none."""
        size = self._nodes.size
        if not storage_class.topologies:
            return np.ones(size, dtype=np.bool_)
        out = np.zeros(size, dtype=np.bool_)
        for term in storage_class.topologies:
            match = np.full(size, bool(term))
            for key, values in term:
                match &= self._nodes.label(key).among(values)
            out |= match
        return out

    def selected(self, selector: LabelSelector | None) -> Bools:
        """``(N,)``: nodes whose labels the selector selects; None selects none."""
        self._fresh()
        if selector is None:
            return np.zeros(self._nodes.size, dtype=np.bool_)
        found = self._selected.get(selector)
        if found is None:
            if len(self._selected) > CACHE_LIMIT:
                self._selected.clear()
            found = np.ones(self._nodes.size, dtype=np.bool_)
            for requirement in selector.requirements:
                found &= self._nodes.requirement(requirement)
            self._selected[selector] = found
        return found
