"""An index from a key to a set of values, in which no repetition is an error."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Hashable)


class KeyedSets(Generic[K, V]):
    """Sets of values by key. A key without values is not kept, so memory is bounded by what is in use.

    One object may give the same key twice: a pod with two terms that select the same pods, or two volumes with one
    claim. So adding twice equals adding once, and discarding what is absent changes nothing.
    """

    def __init__(self) -> None:
        self._sets: dict[K, set[V]] = {}

    def add(self, key: K, value: V) -> None:
        """Put ``value`` under ``key``."""
        self._sets.setdefault(key, set()).add(value)

    def discard(self, key: K, value: V) -> None:
        """Remove ``value`` from under ``key``, if it is there."""
        values = self._sets.get(key)
        if values is None:
            return
        values.discard(value)
        if not values:
            del self._sets[key]

    def items(self) -> Iterator[tuple[K, set[V]]]:
        """Yield each key with its values, which must not be changed."""
        yield from self._sets.items()

    def values(self) -> Iterator[set[V]]:
        """Yield the values of each key, which must not be changed."""
        yield from self._sets.values()

    def __getitem__(self, key: K) -> frozenset[V] | set[V]:
        """Return the values under ``key``; none if it is unknown. The set must not be changed."""
        return self._sets.get(key, frozenset())

    def __contains__(self, key: object) -> bool:
        return key in self._sets

    def __iter__(self) -> Iterator[K]:
        return iter(self._sets)

    def __len__(self) -> int:
        return len(self._sets)
