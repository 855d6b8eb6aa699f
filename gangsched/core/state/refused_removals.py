"""Pods of which the API server has refused the removal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

#: So many pods, and namespaces, are remembered, those of the latest refusals.
_MOST = 10_000
#: A pod whose removal the API server has refused is no victim for so long.
REFUSED_SECONDS = 3600.0


class RefusedRemoval(NamedTuple):
    """Until when a pod is no victim, and the reason that the API server gave."""

    until: float
    why: str


class RefusedRemovals:
    """The pods of which the API server has refused the removal, as an admission policy does: others that would leave
    with them would leave for nothing, again and again. They are remembered by the process that has tried. Others of
    their namespaces are likely to be refused, too.
    """

    def __init__(self) -> None:
        self._by_uid: dict[str, RefusedRemoval] = {}
        self._namespaces: dict[str, float] = {}

    def note(self, uid: str, namespace: str, why: str, now: float) -> None:
        """The removal of the pod with this UID was refused."""
        until = now + REFUSED_SECONDS
        for known, key in ((self._by_uid, uid), (self._namespaces, namespace)):
            known.pop(key, None)
            while len(known) >= _MOST:
                del known[next(iter(known))]
        self._by_uid[uid], self._namespaces[namespace] = RefusedRemoval(until, why), until

    def likely(self, namespace: str, now: float) -> bool:
        """Return whether a removal was refused in this namespace lately, be that pod there or not."""
        return self._namespaces.get(namespace, now) > now

    def forget_pod(self, uid: str) -> None:
        """Forget a pod that no longer exists."""
        self._by_uid.pop(uid, None)

    def at(self, now: float) -> Mapping[str, RefusedRemoval]:
        """By UID, those that count now."""
        return {uid: each for uid, each in self._by_uid.items() if each.until > now} if self._by_uid else {}
