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
from gangsched.core.world.world import World

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
    by_node: dict[str, list[str]] = {}
    for place in places:
        by_node.setdefault(place.node, []).append(place.uid)
    snapshot = world.snapshot
    snapshot.align_rows()
    for node, uids in by_node.items():
        row = snapshot.row_of.get(node)
        if row is None:
            continue
        shapes = [world.members[uid].shape for uid in uids if uid in world.members]
        kept = [each.pod.shape for each in ledger.kept_on([node], but=key)]
        vectors, taken = [*map(snapshot.vector, shapes)], [*map(snapshot.vector, kept)]
        asked, free = np.zeros(len(snapshot.resources)), snapshot.allocatable[:, row] - snapshot.used[:, row]
        for index, amounts in vectors:
            asked[index] += amounts
        for index, amounts in taken:
            free[index] -= amounts
        yield node, asked, free
