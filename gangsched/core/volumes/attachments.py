"""Which volumes are on which nodes, and how many of each driver a node can take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from gangsched.core.arrays import Floats, Ints
from gangsched.model.records import Node

#: ``(driver, handle)``: the same volume used by several pods of a node is attached once.
Handle: TypeAlias = tuple[str, str]


class Attachments:
    """Reference counts of volumes by node, kept event by event; arrays over node rows are made when asked for.

    A volume is referred to by every pod that uses it and by its VolumeAttachment.
    """

    def __init__(self) -> None:
        self.nodes_of: dict[Handle, dict[str, int]] = {}
        self._count: dict[str, dict[str, int]] = {}
        self._limits: dict[str, tuple[tuple[str, int], ...]] = {}
        self._drivers_with_limits: dict[str, int] = {}
        self._row_of: dict[str, int] = {}
        self._nodes: Sequence[Node] = ()
        self._counts: dict[str, Ints] = {}
        self._limit_arrays: dict[str, Floats] = {}

    def add(self, handle: Handle, node: str) -> None:
        """One more reference."""
        nodes = self.nodes_of.setdefault(handle, {})
        nodes[node] = nodes.get(node, 0) + 1
        if nodes[node] == 1:
            self._change(handle[0], node, +1)

    def drop(self, handle: Handle, node: str) -> None:
        """One reference less."""
        nodes = self.nodes_of[handle]
        nodes[node] -= 1
        if not nodes[node]:
            del nodes[node]
            if not nodes:
                del self.nodes_of[handle]
            self._change(handle[0], node, -1)

    def _change(self, driver: str, node: str, by: int) -> None:
        counts = self._count.setdefault(driver, {})
        counts[node] = counts.get(node, 0) + by
        if not counts[node]:
            del counts[node]
        array = self._counts.get(driver)
        row = self._row_of.get(node, -1)
        if array is not None and row >= 0:
            array[row] += by

    def set_limits(self, node: str, limits: tuple[tuple[str, int], ...]) -> None:
        """What a node can take of each driver; empty = no limits."""
        for driver, _ in self._limits.pop(node, ()):
            self._drivers_with_limits[driver] -= 1
        if limits:
            self._limits[node] = limits
        for driver, _ in limits:
            self._drivers_with_limits[driver] = self._drivers_with_limits.get(driver, 0) + 1
        self._limit_arrays.clear()

    def limits_of(self, node: str) -> tuple[tuple[str, int], ...]:
        """What was set for the node."""
        return self._limits.get(node, ())

    def limited(self, driver: str) -> bool:
        """Does any node limit this driver?"""
        return bool(self._drivers_with_limits.get(driver))

    def rows_are(self, nodes: Sequence[Node], row_of: dict[str, int]) -> None:
        """Arrays are over these nodes from now on."""
        if nodes is not self._nodes:
            self._nodes, self._row_of = nodes, row_of
            self._counts.clear()
            self._limit_arrays.clear()

    def counts(self, driver: str) -> Ints:
        """``(N,)`` volumes of the driver on each node. Do not modify."""
        array = self._counts.get(driver)
        if array is None:
            array = self._counts[driver] = np.zeros(len(self._nodes), dtype=np.int64)
            for node, count in self._count.get(driver, {}).items():
                row = self._row_of.get(node, -1)
                if row >= 0:
                    array[row] = count
        return array

    def limits(self, driver: str) -> Floats:
        """``(N,)`` the most volumes of the driver that each node takes; infinite without a limit. Do not modify."""
        array = self._limit_arrays.get(driver)
        if array is None:
            array = self._limit_arrays[driver] = np.full(len(self._nodes), np.inf)
            for node, limits in self._limits.items():
                row = self._row_of.get(node, -1)
                for name, limit in limits:
                    if name == driver and row >= 0:
                        array[row] = limit
        return array
