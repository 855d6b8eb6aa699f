"""The amounts of devices that nodes have, that pods use, and that are kept for gangs: GPUs, and whatever else is no
resource of every node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gangsched.core.ledger.ledger import Ledger
from gangsched.core.world.world import World

#: The most resources that are counted; a node may offer any name.
MOST = 20


class Amounts(NamedTuple):
    """Of one resource. ``held`` is free and kept for gangs, ``free`` is what is left."""

    used: float
    held: float
    free: float


def devices(world: World, ledger: Ledger) -> Mapping[str, Amounts]:
    """Return the amounts of each extended resource that nodes offer, such as nvidia.com/gpu, by name."""
    snapshot = world.snapshot
    snapshot.align_rows()
    size = snapshot.size
    rows = [
        row for row, name in enumerate(snapshot.resources) if "/" in name and snapshot.allocatable[row, :size].any()
    ]
    if not rows:
        return {}
    kept = np.zeros_like(snapshot.allocatable)
    for plan in ledger.plans():
        for phantom in plan.pods:
            if (node := snapshot.row_of.get(phantom.node)) is not None:
                index, amounts = snapshot.vector(phantom.pod.shape)
                np.add.at(kept[:, node], index, amounts)
    out = {}
    for row in rows[:MOST]:
        has, used = snapshot.allocatable[row, :size], snapshot.used[row, :size]
        room = np.maximum(has - used, 0)
        held = np.minimum(kept[row, :size], room)  # victims that have not left use the rest of it
        out[snapshot.resources[row]] = Amounts(float(used.sum()), float(held.sum()), float((room - held).sum()))
    return out
