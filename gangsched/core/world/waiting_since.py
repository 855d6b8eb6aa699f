"""Since when a gang waits, for people: Events, pages and durations."""

from __future__ import annotations

from collections.abc import Sequence

from gangsched.core.state.jobs import WITHOUT_PODS
from gangsched.core.world.world import World
from gangsched.model.records import GangId


def waits_since(world: World, gangs: Sequence[GangId]) -> float:
    """Return since when the group waits (seconds): since it has its pods, or since it is suspended.

    This is not its age, which gives it its place in the queue: a preempted Job may be old.
    """
    first = gangs[0]
    owner = world.jobs.find(first.family, first.namespace, first.name) if first.family in WITHOUT_PODS else None
    if owner is not None:
        return owner.suspended_since or owner.created
    pods = (p.created for gang in gangs for p in world.membership.census(gang).kinds)
    return max(world.membership.created(gangs), min(pods, default=0.0))
