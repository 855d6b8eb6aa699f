"""Pods without a group that want nothing special, as thousands may come one after another: the short way to a decision.

It comes to what :class:`gangsched.core.planning.cycle.GangCycle` would decide, without what only gangs need.
"""

from __future__ import annotations

from collections.abc import Sequence

from gangsched.core.decision import BIND, Fits, Placement, Verdict
from gangsched.core.placement.placer import Placer
from gangsched.core.preemption import explain
from gangsched.core.queue.scheduling_queue import queue_order
from gangsched.core.quota.gate import Gate, NoQuota
from gangsched.core.state.world import World
from gangsched.model.records import SINGLE, GangId


def one_of_many(world: World, placer: Placer, gangs: Sequence[GangId], gate: Gate | NoQuota) -> Verdict | None:
    """The decision to bind one such pod now; None when it has to be looked at more closely. By ``gate`` it has its
    quota, if it needs any, and nobody has to leave for that.
    """
    gang, member = gangs[0], world.membership
    if gang.family != SINGLE or len(gangs) != 1 or world.ledger.holders() or world.foreign_nominations:
        return None
    census, spec = member.census(gang), member.spec(gang)
    if spec is None or len(census.pending) != 1 or member.required(gang, census) != 1:
        return None
    (pod,) = census.pending
    if pod.nominated_node or (world.turns.keep_something and world.turns.ahead(queue_order(member, gangs))):
        return None
    row = placer.streak.next(world.snapshot.class_of(gate.member(pod)), pod.uid, world.snapshot)
    if row is None:
        return None
    places = (Placement(pod.namespace, pod.name, pod.uid, world.snapshot.nodes[row].name),)
    message = explain.summary(BIND, 1, (), ())
    quota = gate.use((pod.uid,))
    priority = member.preemptor_priority(gangs)
    return Verdict((Fits(gang, spec.kind, (), priority, 1, message=message, placements=places, quota=quota),))
