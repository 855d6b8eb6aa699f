"""Which nodes of a plan are worth holding against other schedulers, and whether they are held for it at all.

To hold a node closes all of it to others, so it is held only where they could take what the members need. That is where
members ask for more of a countable resource than is free now: the freed amounts matter. It is also where they ask for
at least half of what is free, since another pod may take that before the rest of the plan has its room. Members that
only have to avoid the ports or the labels of a victim keep no other pod off the rest of its node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from gangsched.core.arrays import Floats
from gangsched.core.decision import Placement
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.world.kept_room import left_over
from gangsched.core.world.world import World
from gangsched.model.constraints import PodShape

#: When nodes are held (``preemption.holdRoom``).
AUTO, ALWAYS, NEVER = "auto", "always", "never"
#: Members that ask for less of what is free on a node than this part have no need to close it to others.
_PART = 0.5


def contested(world: World, mode: str, leaving: Iterable[str]) -> bool:
    """Return whether other schedulers may take the room that these pods (UIDs) give up, as far as ``mode`` asks."""
    if mode != AUTO:
        return mode == ALWAYS
    rivals, pods = world.rivals, (world.pods.get(uid) for uid in leaving)
    return rivals.wait() or any(pod is not None and rivals.bind(pod) for pod in pods)


def scarce_nodes(world: World, ledger: Ledger, key: str, places: Sequence[Placement]) -> frozenset[str]:
    """The nodes of these places on which the members ask for a part of what is free now that others could take; ``key``
    is that of their group.
    """
    rooms = _rooms(world, ledger, key, places)
    return frozenset(node for node, asked, free in rooms if np.any((asked > 0.0) & (asked >= _PART * free)))


def uses_free_room(world: World, ledger: Ledger, key: str, places: Sequence[Placement]) -> bool:
    """Return whether the members that these places put on some node have room there already."""
    return any(bool(np.all(asked <= free)) for _, asked, free in _rooms(world, ledger, key, places))


def _rooms(world: World, ledger: Ledger, key: str, places: Sequence[Placement]) -> Iterator[tuple[str, Floats, Floats]]:
    """Of each node how much of each resource the members on it ask for, and how much is free for them now."""
    asked: dict[str, list[PodShape]] = {}
    for place in places:
        shapes = asked.setdefault(place.node, [])
        if place.uid in world.members:
            shapes.append(world.members[place.uid].shape)
    vectors = {node: [*map(world.snapshot.vector, shapes)] for node, shapes in asked.items()}
    for node, free in left_over(world, ledger, asked, but=key).items():
        total = np.zeros(len(free))
        for index, amounts in vectors[node]:
            total[index] += amounts
        yield node, total, free
