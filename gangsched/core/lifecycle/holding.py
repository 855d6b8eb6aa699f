"""The room that is kept for the members of a gang while pods are still in their way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangsched.core.queueing.queue import Change, Hint
from gangsched.core.state.simulation import Phantom

if TYPE_CHECKING:
    from gangsched.core.groups import Group, Plan
    from gangsched.core.lifecycle.steps import Steps


def hold(steps: Steps, group: Group, plan: Plan) -> None:
    """Keep the room for the members, for as long as the gang has, until the pods that are in the way are gone."""
    steps.wait_for(group, plan, tuple(plan.waiting))
    group.deadline = steps.now + time_of(steps, group)
    world = steps.world
    priority = world.membership.preemptor_priority(group.gangs)
    left = {p.node for p in world.held.get(group.key, ())} - set(plan.node_of.values())
    steps.changes += [Change(Hint.ROOM, name) for name in sorted(left)]  # members that it has lost ran there
    world.held[group.key] = [
        Phantom(world.snapshot.class_of(world.pods[place.uid]), place.uid, place.node, priority, group.key)
        for place in plan.placements
    ]
    if world.managed.active:
        steps.changes += [Change(Hint.PROMISED, pod=world.pods[place.uid]) for place in plan.placements[:1]]
    steps.may_have_taken(group, priority)


def time_of(steps: Steps, group: Group) -> float:
    """Seconds that the gang has from nomination to binding."""
    specs = [steps.world.membership.spec(g) for g in group.gangs]
    times = [s.timeout_seconds for s in specs if s is not None and s.timeout_seconds]
    return min(times, default=steps.options.timeout_seconds)
