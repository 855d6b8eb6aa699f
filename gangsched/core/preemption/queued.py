"""Workloads as victim units: a workload that quota lets go leaves as a whole, whatever its pods' priority is."""

from __future__ import annotations

import numpy as np

from gangsched.core.decision import UnitRef
from gangsched.core.preemption.blocks import Block, Part, ref_of
from gangsched.core.preemption.patience import Patience, member_too_young
from gangsched.core.preemption.units import Units
from gangsched.core.state.podtable import ASSUMED, PROTECTED
from gangsched.core.state.snapshot import Ints
from gangsched.model.records import GangId


def add_workload(units: Units, gangs: tuple[GangId, ...], reason: str) -> Block | None:
    """The block of a workload that may go for this reason: all of it. None if some of it may not be evicted.

    Pods that terminate are no part of it; of a workload that has only such the block is empty, and no unit.
    """
    table = units.snapshot.table
    number = max(table.gang_number(g) for g in gangs)
    if number in units.added:
        return units.added[number]
    by_gang = {gang: units.live(gang) for gang in gangs}
    whole = np.concatenate(list(by_gang.values()))
    parts = []
    for gang, slots in by_gang.items():
        spec = units.membership.spec(gang)
        ref = UnitRef(spec.kind if spec is not None else "PodGroup", gang.key)
        parts.append(Part(gang, ref, slots.tolist(), [], 0, spec.min_member if spec is not None else len(slots)))
    ref = ref_of(parts)
    if not units.binding.isdisjoint(gangs):
        units.spared.append((ref, "it is being bound"))
        return None
    kept = units.inviolable.intersection(whole.tolist())
    if kept or (table.flags[whole] & (PROTECTED | ASSUMED)).any():
        units.spared.append((ref, "it has a member that may not be evicted"))
        return None
    if units.patience is not None and _keeps_young(units, units.patience, ref, whole):
        return None
    block = Block(number, ref, parts, whole.tolist(), units.unit_priority(gangs, by_gang), whole)
    if len(whole):
        units.add(block, reason)
    return block


def _keeps_young(units: Units, patience: Patience, ref: UnitRef, whole: Ints) -> bool:
    """Has some member of a workload not run long enough?"""
    pods = [units.pod(s) for s in whole.tolist()]
    until = {p.key: patience.spared_until(p, units.membership.spec(p.gang)) for p in pods}
    youngest = max(pods, key=lambda p: (until[p.key], p.key), default=None)
    if youngest is None or until[youngest.key] <= units.now:
        return False
    minimum = patience.minimum(youngest, units.membership.spec(youngest.gang))
    units.spared.append((ref, member_too_young(youngest, minimum, until[youngest.key])))
    units.wait_for(until[youngest.key])
    return True
