"""Nodes that bear the taint by which room is held: whose plans it names, and which of it is left behind.

The taint is ours if it names a plan of one of our scheduler names, or of one that the Lease shows to have been used by
an earlier process of this installation. Taints of another installation are respected until their plan is too old to
need them.
"""

from __future__ import annotations

from collections.abc import Iterable

from gangsched.core.agenda import Page
from gangsched.model.held import MOST_AGE_SECONDS, is_of, made_at
from gangsched.model.records import Node


class HeldTaints:
    """``ours`` are the scheduler names of this installation, ``aged`` says when taints of others are too old."""

    def __init__(self, ours: Iterable[str], aged: Page[str]) -> None:
        self._names = frozenset(ours)
        self._aged = aged
        #: By name, the nodes with a taint that is ours to take off, and those whose taint is another installation's.
        self.nodes: dict[str, Node] = {}
        self.foreign: dict[str, Node] = {}
        #: Nodes of which the first has changed. The consumer empties this.
        self.changed: set[str] = set()

    def seen(self, name: str, node: Node | None, now: float) -> None:
        """A node has this record now; None: it is gone."""
        before = self.nodes.pop(name, None)
        self.foreign.pop(name, None)
        self._aged.never(name)
        if node is not None and node.held is not None:
            too_old = made_at(node.held.value) + MOST_AGE_SECONDS
            if is_of(node.held.value, self._names) or too_old <= now:
                self.nodes[name] = node
            else:
                self.foreign[name] = node
                self._aged.at(name, too_old)
        after = self.nodes.get(name)
        if (before and (before.uid, before.held)) != (after and (after.uid, after.held)):
            self.changed.add(name)

    def former(self, names: Iterable[str]) -> list[Node]:
        """An earlier process of this installation had these names; returns the nodes whose taint is ours now."""
        self._names |= frozenset(names)
        return [node for node in self.foreign.values() if node.held is not None and is_of(node.held.value, self._names)]

    def left_behind(self, now: float) -> list[Node]:
        """The nodes whose taint has become too old."""
        return [self.foreign[name] for name in self._aged.due(now) if name in self.foreign]
