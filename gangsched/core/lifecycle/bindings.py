"""Bindings: asked for on nodes whose room the members take from then on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gangsched.core.actions import Bind, WithdrawNomination
from gangsched.core.decision import Placement
from gangsched.core.hints import Change, Hint
from gangsched.core.lifecycle import report, suspension

if TYPE_CHECKING:
    from gangsched.core.groups import Group, Plan
    from gangsched.core.lifecycle.steps import Steps


def begin(steps: Steps, group: Group) -> None:
    """Bind every placed member."""
    plan = group.plan
    if plan is None:
        return
    steps.actuator.begin(group.key)
    _assume(steps, group, plan)
    for place in plan.placements:
        steps.actuator.drop(WithdrawNomination, place.uid)
    bind(steps, group, plan.placements)


def bind(steps: Steps, group: Group, places: Iterable[Placement]) -> None:
    """Ask for the bindings of members that are assumed where they are placed."""
    for place in places:
        steps.actuator.ask(group.key, Bind(steps.new_id(), report.reference(place), place.node))


def _assume(steps: Steps, group: Group, plan: Plan) -> None:
    """From now on the members take room on their nodes as if they were bound."""
    priority = steps.world.membership.preemptor_priority(group.gangs)
    steps.give_back(group.key)
    for place in plan.placements:
        steps.world.assume(place.uid, place.node)
        suspension.take_room(steps, steps.world.pods[place.uid], place.node)
        steps.changes.append(Change(Hint.PODS, place.node, steps.world.pods[place.uid]))
    steps.may_have_taken(group.key, set(plan.node_of.values()), priority)


def still_takes(steps: Steps, uid: str, node: str) -> bool:
    """Has ``node`` still room for a member that is assumed there, as far as its profile looks?"""
    pod = steps.world.pods.get(uid)
    return pod is not None and steps.world.still_takes(uid, node, steps.options.plugins_of(pod.scheduler).ignores)
