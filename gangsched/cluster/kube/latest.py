"""What is kept of the latest only, lest it grows with everything that ever was."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

#: So many objects are remembered at most where nothing else bounds them.
MOST = 50_000


def put_latest(into: dict[K, V], key: K, value: V, most: int) -> None:
    """Make this the last entry of a dictionary that has room for so many; the first one goes if there is none."""
    into.pop(key, None)
    if len(into) >= most:
        del into[next(iter(into))]
    into[key] = value
