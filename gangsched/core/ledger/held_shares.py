"""What is held of nodes for each namespace, against other schedulers: for how long, how much, and what follows.

Nodes are held for at most so long for the gangs of one namespace without one of them being bound; then the namespace
pauses. The pauses double, so that no namespace keeps other schedulers off nodes again and again.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gangsched.core.agenda import pause

#: Seconds of the first pause of a namespace.
FIRST_PAUSE_SECONDS = 30.0


class _Account(msgspec.Struct):
    """The account of one namespace: for how many seconds nodes were held without a binding since its last pause, and
    how many pauses came in a row. The last of them ends at ``until``.
    """

    seconds: float = 0.0
    pauses: int = 0
    until: float = 0.0


class HeldShares:
    """By namespace. ``most_seconds`` is for how long nodes are held without a binding."""

    def __init__(self, most_seconds: float = 0.0) -> None:
        self.most_seconds = most_seconds
        self._accounts: dict[str, _Account] = {}
        self._nodes: dict[str, dict[str, frozenset[str]]] = {}
        self._node_seconds: dict[str, float] = {}

    # -- which nodes -----------------------------------------------------------------------------------------

    def claim(self, namespace: str, key: str, nodes: frozenset[str]) -> None:
        """The plan of the group with this key needs these nodes held; without any it is over."""
        claims = self._nodes.setdefault(namespace, {})
        if nodes:
            claims[key] = nodes
        else:
            claims.pop(key, None)
        if not claims:
            del self._nodes[namespace]

    def of_others(self, namespace: str, key: str) -> frozenset[str]:
        """The nodes that other groups of the namespace need held."""
        claims: Mapping[str, frozenset[str]] = self._nodes.get(namespace, {})
        return frozenset[str]().union(*(nodes for other, nodes in claims.items() if other != key))

    # -- for how long ----------------------------------------------------------------------------------------

    def may_hold_from(self, namespace: str) -> float:
        """When nodes may be held (again) for gangs of the namespace (seconds)."""
        account = self._accounts.get(namespace)
        return account.until if account is not None else 0.0

    def seconds_left(self, namespace: str) -> float:
        """For how many seconds a node may be held now."""
        account = self._accounts.get(namespace)
        return self.most_seconds - (account.seconds if account is not None else 0.0)

    def held_in_vain(self, namespace: str, seconds: float, now: float) -> None:
        """Nodes were held so long for a plan that did not end in a binding. The namespace pauses once less than half
        of its time is left: for a short rest no plan is worth its evictions.
        """
        account = self._accounts.setdefault(namespace, _Account())
        account.seconds += seconds
        if account.seconds < self.most_seconds / 2:
            return
        account.seconds, account.pauses = 0.0, account.pauses + 1
        account.until = now + pause(FIRST_PAUSE_SECONDS, account.pauses)

    def bound(self, namespace: str) -> None:
        """A gang for which nodes were held is bound: the next pause is half as long."""
        account = self._accounts.get(namespace)
        if account is None:
            return
        account.seconds, account.pauses = 0.0, max(0, account.pauses - 1)
        if not account.pauses:
            del self._accounts[namespace]

    # -- how much --------------------------------------------------------------------------------------------

    def add(self, namespace: str, node_seconds: float) -> None:
        """So much more was held for the namespace."""
        self._node_seconds[namespace] = self._node_seconds.get(namespace, 0.0) + node_seconds

    def drain(self) -> dict[str, float]:
        """The node-seconds by namespace that have come since the last call."""
        out, self._node_seconds = self._node_seconds, {}
        return out
