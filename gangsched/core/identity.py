"""What a group of gangs is called: its key, the names that people read, and its place in the queue."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from gangsched.model.records import GangId

#: The place of a group in the queue, smaller is earlier: priority descending, then creation (seconds), then its key.
Order: TypeAlias = tuple[int, float, str]

#: Longest name of a GangGroup: it stands in the marks of its victims, whose length is bounded.
_MAX_NAMES = 2048


def group_key(gangs: Sequence[GangId]) -> str:
    """The key of a group: unique, since names are DNS names, and sorted like ``namespace/name``."""
    return ",".join([f"{g.namespace}/{g.name}#{g.family}#{g.scheduler}" for g in gangs])


def names_of(gangs: Iterable[GangId]) -> str:
    """``namespace/name`` of these gangs, joined by commas: what people read for a group, and marks name.

    One that would be longer than :data:`_MAX_NAMES` ends with how many more there are and what tells it from others.
    """
    keys = [gang.key for gang in gangs]
    whole = ",".join(keys)
    if len(whole) <= _MAX_NAMES:
        return whole
    shown = [keys.pop(0)]
    ending = hashlib.sha256(whole.encode()).hexdigest()[:32]
    while sum(map(len, shown)) + len(shown) + len(keys[0]) < _MAX_NAMES - 64:
        shown.append(keys.pop(0))
    return f"{','.join(shown)},and-{len(keys)}-more-{ending}"
