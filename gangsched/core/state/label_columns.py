"""Namespaces and labels of pods as columns, so that a selector is an array comparison over all pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from gangsched.core.arrays import Bools, Codes, Ints, isin
from gangsched.core.state.podtable import PodTable
from gangsched.model.records import DOES_NOT_EXIST, EXISTS, IN, LabelSelector, Requirement

_ABSENT = -1
_NAMESPACE = ""  # no label has an empty key


class _Column:
    """``codes[kin]`` is the place of a value in ``code_of``, or -1; filled up to ``filled``."""

    def __init__(self) -> None:
        self.codes: Codes = np.full(256, _ABSENT, dtype=np.int32)
        self.code_of: dict[str, int] = {}
        self.filled = 0

    def extend(self, values: Iterable[str | None]) -> None:
        """The values of the kins that come next."""
        code_of = self.code_of
        codes = [_ABSENT if value is None else code_of.setdefault(value, len(code_of)) for value in values]
        end = self.filled + len(codes)
        if end > len(self.codes):
            room = np.full(2 * end, _ABSENT, dtype=np.int32)
            room[: self.filled] = self.codes[: self.filled]
            self.codes = room
        self.codes[self.filled : end] = codes
        self.filled = end


class KinColumns:
    """Columns over the kin numbers of a pod table, made when first asked for and extended as pods come."""

    def __init__(self, table: PodTable) -> None:
        self._table = table
        self._columns: dict[str, _Column] = {}
        self._generation = table.kin_generation

    def in_namespaces(self, kins: Ints, test: Callable[[str], bool]) -> Bools:
        """``(len(kins),)``: those in a namespace for which the test holds; it is asked once per namespace."""
        column = self._column(_NAMESPACE)
        answers = np.array([test(name) for name in column.code_of] or [False], dtype=np.bool_)
        return np.asarray(answers[column.codes[kins]])

    def selected(self, kins: Ints, selector: LabelSelector | None) -> Bools:
        """``(len(kins),)``: those whose labels the selector selects; None selects nothing."""
        if selector is None:
            return np.zeros(len(kins), dtype=np.bool_)
        mask = np.ones(len(kins), dtype=np.bool_)
        for requirement in selector.requirements:
            mask &= self._holds(kins, requirement)
        return mask

    def _holds(self, kins: Ints, requirement: Requirement) -> Bools:
        column = self._column(requirement.key)
        codes = column.codes[kins]
        if requirement.operator == EXISTS:
            return np.asarray(codes != _ABSENT)
        if requirement.operator == DOES_NOT_EXIST:
            return np.asarray(codes == _ABSENT)
        wanted = [column.code_of[v] for v in requirement.values if v in column.code_of]
        holds = np.asarray(codes == wanted[0]) if len(wanted) == 1 else isin(codes, wanted)
        return holds if requirement.operator == IN else ~holds

    def _column(self, key: str) -> _Column:
        """The column of a label key (or of the namespace), with all kins that there are by now."""
        if self._generation != self._table.kin_generation:
            self._generation = self._table.kin_generation
            self._columns.clear()
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = _Column()
        kins = self._table.kins
        if column.filled < len(kins):
            new = kins[column.filled :]
            if key == _NAMESPACE:
                column.extend(namespace for namespace, _ in new)
            else:
                column.extend(labels.get(key) for _, labels in new)
        return column
