"""Numbers for node names that stay while the rows of nodes move."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gangsched.core.arrays import Ints


class NodeIds:
    """A small number for every node that is known or has pods, so that counts by node outlive a change of rows.

    Numbers of nodes that are gone are used again. ``row`` is ``(ids,)``: the row of the node, -1 while it has none.
    """

    def __init__(self) -> None:
        self.row: Ints = np.full(64, -1, dtype=np.int64)
        self._of: dict[str, int] = {}
        self._free: list[int] = []

    def take(self, name: str) -> int:
        """The number of a node, given to it now if it has none."""
        found = self._of.get(name)
        if found is None:
            found = self._of[name] = self._free.pop() if self._free else len(self._of)
            if found >= len(self.row):
                self.row = np.concatenate([self.row, np.full(len(self.row), -1, dtype=np.int64)])
        return found

    def release(self, name: str) -> None:
        """Nothing is counted for this node any more."""
        found = self._of.pop(name, None)
        if found is not None:
            self.row[found] = -1
            self._free.append(found)

    def place(self, row_of: Mapping[str, int]) -> None:
        """The rows of nodes are these now."""
        self.row.fill(-1)
        numbers = [self._of[name] for name in row_of]
        self.row[numbers] = list(row_of.values())
