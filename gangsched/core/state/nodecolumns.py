"""Node properties as columns over rows, so that selectors and taints are array comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gangsched.core.arrays import Bools, Codes, Ints, isin
from gangsched.model.records import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, Node, NodeTerm, Requirement, Taint
from gangsched.model.selectors import requirement_matches

if TYPE_CHECKING:
    from gangsched.core.state.snapshot import Snapshot


ABSENT = -1
_OLD_TAINTS = 256
_OLD_VALUES = 256


class LabelColumn:
    """The values of one label key: ``codes[row]`` indexes ``values``; :data:`ABSENT` where the label is missing."""

    def __init__(self, size: int) -> None:
        self.codes: Codes = np.full(size, ABSENT, dtype=np.int32)
        self.values: list[str] = []
        self._code_of: dict[str, int] = {}

    def set(self, row: int, value: str | None) -> None:
        """Store one node's value."""
        if value is None:
            self.codes[row] = ABSENT
            return
        code = self._code_of.get(value)
        if code is None:
            code = self._code_of[value] = len(self.values)
            self.values.append(value)
        self.codes[row] = code

    def among(self, wanted: tuple[str, ...]) -> Bools:
        """Rows whose value is one of ``wanted``."""
        codes = [self._code_of[v] for v in wanted if v in self._code_of]
        if len(codes) == 1:
            return np.asarray(self.codes == codes[0])
        return isin(self.codes, codes)


class NodeColumns:
    """Columns made when first asked for and kept current row by row."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._labels: dict[str, LabelColumn] = {}
        self._taint_codes: Codes | None = None
        self._taint_sets: list[tuple[Taint, ...]] = []
        self._taint_code_of: dict[tuple[Taint, ...], int] = {}
        self._flags: dict[str, Bools] = {}

    def renumber(self, take: Ints) -> None:
        """New row i is the old row ``take[i]``; :meth:`update` has to follow for each that is -1.

        Columns most of whose values no node has any more are made anew when asked for: each node has a hostname of its
        own.
        """
        few = 2 * len(take) + _OLD_VALUES
        self._labels = {key: column for key, column in self._labels.items() if len(column.values) <= few}
        if not (take >= 0).any():  # nothing to go by: made anew when asked for
            self._labels.clear()
            self._taint_codes = None
            self._flags.clear()
        for column in self._labels.values():
            column.codes = column.codes[take]
        if self._taint_codes is not None:
            self._taint_codes = self._taint_codes[take]
        self._flags = {name: flags[take] for name, flags in self._flags.items()}

    def update(self, row: int, node: Node) -> None:
        """One node changed."""
        for key, column in self._labels.items():
            column.set(row, node.labels.get(key))
        if self._taint_codes is not None:
            self._taint_codes[row] = self._taint_code(node.taints)
        for name, flags in self._flags.items():
            flags[row] = getattr(node, name)

    def label(self, key: str) -> LabelColumn:
        """The column of one label key."""
        column = self._labels.get(key)
        if column is None:
            nodes = self._snapshot.nodes
            column = self._labels[key] = LabelColumn(len(nodes))
            for row, node in enumerate(nodes):
                column.set(row, node.labels.get(key))
        return column

    def taints(self) -> tuple[Codes, list[tuple[Taint, ...]]]:
        """``(codes, sets)``: ``sets[codes[row]]`` are the taints of a node. Few nodes differ in their taints.

        Sets that no node has any more are dropped now and then: autoscalers put the time into theirs.
        """
        nodes = self._snapshot.nodes
        if self._taint_codes is None or len(self._taint_sets) > len(nodes) + _OLD_TAINTS:
            self._taint_sets, self._taint_code_of = [], {}
            self._taint_codes = np.array([self._taint_code(n.taints) for n in nodes], dtype=np.int32)
        return self._taint_codes, self._taint_sets

    def flag(self, name: str) -> Bools:
        """A boolean attribute of all nodes (``unschedulable``, ``ready``, ``deleting``)."""
        flags = self._flags.get(name)
        if flags is None:
            flags = self._flags[name] = np.array([getattr(n, name) for n in self._snapshot.nodes], dtype=np.bool_)
        return flags

    def requirement(self, req: Requirement) -> Bools:
        """Rows for which one label requirement holds."""
        column = self.label(req.key)
        if req.operator == IN:
            return column.among(req.values)
        if req.operator == NOT_IN:
            return ~column.among(req.values)
        if req.operator == EXISTS:
            return np.asarray(column.codes != ABSENT)
        if req.operator == DOES_NOT_EXIST:
            return np.asarray(column.codes == ABSENT)
        holds = np.array([requirement_matches(req, {req.key: v}) for v in column.values] + [False])
        return np.asarray(holds[column.codes])  # ABSENT = -1 indexes the False at the end

    def term(self, term: NodeTerm) -> Bools:
        """Rows that one node selector term matches; a term without requirements matches none."""
        size = self._snapshot.size
        if not term.expressions and not term.fields:
            return np.zeros(size, dtype=np.bool_)
        mask = np.ones(size, dtype=np.bool_)
        for req in term.expressions:
            mask &= self.requirement(req)
        for req in term.fields:
            named = np.zeros(size, dtype=np.bool_)
            if req.key == "metadata.name":
                named[[self._snapshot.row_of[v] for v in req.values if v in self._snapshot.row_of]] = True
            mask &= named if req.operator == IN else ~named
        return mask

    def _taint_code(self, taints: tuple[Taint, ...]) -> int:
        code = self._taint_code_of.get(taints)
        if code is None:
            code = self._taint_code_of[taints] = len(self._taint_sets)
            self._taint_sets.append(taints)
        return code
