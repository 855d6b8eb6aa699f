"""The room that is kept for the members of a gang while pods are still in their way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gangsched.core.hints import Change, Hint
from gangsched.core.ledger.reservations import Kind, Reservation
from gangsched.core.state.simulation import Phantom
from gangsched.model.records import GangId, Pod

if TYPE_CHECKING:
    from gangsched.core.groups import Group, Plan
    from gangsched.core.lifecycle.steps import Steps


def hold(steps: Steps, group: Group, plan: Plan) -> None:
    """Keep the room for the members, for as long as the gang has, until the pods that are in the way are gone."""
    steps.wait_for(group, plan, tuple(plan.waiting))
    group.deadline = steps.now + time_of(steps, group)
    keep(steps, group.key, group.gangs, [(steps.world.pods[place.uid], place.node) for place in plan.placements])


def keep(
    steps: Steps, key: str, gangs: Sequence[GangId], places: Sequence[tuple[Pod, str]], kind: Kind = Kind.NOMINATED
) -> None:
    """From now on exactly this room is held under a key: for such pods on these nodes, with the gangs' priority."""
    world = steps.world
    priority = world.membership.preemptor_priority(gangs)
    nodes = {node for _, node in places}
    left = {p.node for p in world.ledger.pods_of(key)} - nodes
    steps.changes += [Change(Hint.ROOM, name) for name in sorted(left)]
    pods = tuple(Phantom(world.snapshot.class_of(pod), pod.uid, node) for pod, node in places)
    world.ledger.hold(Reservation(key, kind, pods, priority))
    if world.managed.active:
        steps.changes += [Change(Hint.PROMISED, pod=pod) for pod, _ in places[:1]]
    steps.may_have_taken(key, nodes, priority)


def time_of(steps: Steps, group: Group) -> float:
    """Seconds that the gang has from nomination to binding."""
    specs = [steps.world.membership.spec(g) for g in group.gangs]
    times = [s.timeout_seconds for s in specs if s is not None and s.timeout_seconds]
    return min(times, default=steps.options.timeout_seconds)
