"""Gangs by what they have in common, each bucket in queue order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from gangsched.core.queue.scheduling_queue import Order

K = TypeVar("K", bound=Hashable)


class Buckets(Generic[K]):
    """Keys of gangs, each in at most one bucket. Buckets are iterated in the order in which they were begun."""

    def __init__(self) -> None:
        self._buckets: dict[K, list[Order]] = {}
        self._of: dict[str, tuple[K, Order]] = {}

    def __iter__(self) -> Iterator[K]:
        return iter(self._buckets)

    def __contains__(self, bucket: K) -> bool:
        return bucket in self._buckets

    def __len__(self) -> int:
        return len(self._buckets)

    def put(self, bucket: K, order: Order) -> None:
        """The gang of this place is in this bucket from now on, and in no other."""
        key = order[2]
        if self._of.get(key) == (bucket, order):
            return
        self.drop(key)
        self._of[key] = bucket, order
        insort(self._buckets.setdefault(bucket, []), order)

    def drop(self, key: str) -> K | None:
        """Take a gang out; returns the bucket in which it was."""
        known = self._of.pop(key, None)
        if known is None:
            return None
        bucket, order = known
        members = self._buckets[bucket]
        del members[bisect_left(members, order)]
        if not members:
            del self._buckets[bucket]
        return bucket

    def members(self, bucket: K, after: Order | None = None) -> list[Order]:
        """The places of its gangs, first in the queue first; only those behind ``after``."""
        found = self._buckets.get(bucket, [])
        return found[bisect_right(found, after) :] if after is not None else list(found)
