"""The units of a cluster, by name."""

from __future__ import annotations

from typing import Any

from gangsched.core.preemption.units import Units
from gangsched.core.scheduler import Scheduler
from gangsched.model.records import GangId
from tests.builders import OURS, SIGS, node
from tests.core.harness import Built, world

PREEMPTOR = 10


def found(*objects: Built, unusable: tuple[str, ...] = (), own: str = "own", **options: Any) -> Units:
    """The units that a gang of priority 10 may take from, on nodes n1 to n3."""
    return units_of(world(node("n1"), node("n2"), node("n3"), *objects, **options), unusable, own)


def units_of(core: Scheduler, unusable: tuple[str, ...] = (), own: str = "own") -> Units:
    """The same for a scheduler that knows its cluster."""
    core.world.snapshot.align_rows()
    usable = ~core.world.snapshot.columns.flag("unschedulable")
    for name in unusable:
        usable[core.world.snapshot.row_of[name]] = False
    mine = frozenset((GangId(SIGS, "d", own, OURS),))
    return Units(
        core.world.snapshot,
        core.world.membership,
        core.options,
        mine,
        PREEMPTOR,
        usable,
    )


def told(units: Units) -> dict[str, tuple[list[str], list[str], int]]:
    """Per unit, pods without a group included: pods of the whole, pods that may go singly, and how many of those."""
    alone = (units.pod(s) for s in units.loose.tolist())
    return {p.key: ([], [p.name], 1) for p in alone} | {
        b.ref.name: (
            sorted(units.pod(s).name for s in b.whole),
            sorted(units.pod(s).name for s in b.singles),
            sum(p.limit for p in b.parts),
        )
        for b in units.blocks
    }
