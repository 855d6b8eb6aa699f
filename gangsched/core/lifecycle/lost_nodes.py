"""Nodes that a plan has lost while its pods left: which, how and when."""

from __future__ import annotations

from gangsched.core.lifecycle.group import Plan
from gangsched.core.world.world import World
from gangsched.messages import notes
from gangsched.model.records import Node
from gangsched.model.times import clock_time


def lost_node(world: World, plan: Plan) -> str:
    """Return which node of a plan takes no pods any more since now, in words; empty: all of them do."""
    for name in sorted(set(plan.node_of.values())):
        how = _how(world.snapshot.node(name))
        if how:
            return notes.node_lost(node=name, how=how, time=clock_time(world.now, world.now))
    return ""


def _how(node: Node | None) -> str:
    if node is None or node.deleting:
        return notes.NODE_DELETED
    if node.unschedulable:
        return notes.NODE_CORDONED
    return notes.NODE_NOT_READY if not node.ready else ""
