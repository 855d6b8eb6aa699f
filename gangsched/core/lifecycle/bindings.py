"""Bindings: asked for on nodes whose room the members take from then on, and asked for again while the outcome is
unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gangsched.core.actions import Bind, WithdrawNomination
from gangsched.core.decision import Placement
from gangsched.core.events import Outcome
from gangsched.core.hints import Change, Hint
from gangsched.core.lifecycle import report, suspension
from gangsched.core.lifecycle.permit import Barrier

if TYPE_CHECKING:
    from gangsched.core.groups import Group, Plan
    from gangsched.core.lifecycle.steps import Steps


def begin(steps: Steps, group: Group) -> None:
    """Bind every placed member."""
    plan = group.plan
    if plan is None:
        return
    group.barrier = Barrier()
    _assume(steps, group, plan)
    for place in plan.placements:
        steps.repeats.drop(WithdrawNomination, place.uid)
    bind(steps, group, plan.placements)


def bind(steps: Steps, group: Group, places: Iterable[Placement]) -> None:
    """Ask for the bindings of members that are assumed where they are placed."""
    for place in places:
        action_id = steps.new_id()
        steps.write(group, Bind(action_id, report.reference(place), place.node), action_id, place.uid)


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


def bind_again(steps: Steps, group: Group) -> bool:
    """Repeat, on the same nodes, the bindings whose outcome is unknown. False when one of these nodes no longer
    takes its member, which is then no longer assumed there: nothing is written, the others go on apart.
    """
    unsure = [p for p in group.plan.placements if p.uid in group.unsure] if group.plan is not None else []
    unsure = [p for p in unsure if p.uid in steps.world.pods and not steps.world.pods[p.uid].node]
    lost = [p for p in unsure if not still_takes(steps, p.uid, p.node)]
    if lost:
        for place in lost:
            steps.world.forget(place.uid)
            steps.changes.append(Change(Hint.ROOM, place.node))
        group.message = f"{lost[0].node} no longer takes {lost[0].key}"
        return False
    group.retry_at = None
    bind(steps, group, unsure)
    steps.check.add(group.key)
    return True


def keep_unsure(steps: Steps, group: Group, plan: Plan) -> None:
    """The gang stops following bindings that may have taken effect: they are repeated without it."""
    unsure = {f.uid for f in group.barrier.failed if f.outcome is Outcome.TRANSIENT}
    if group.retry_at is not None:
        unsure.update(group.unsure)
    for place in plan.placements:
        if place.uid in unsure and steps.world.assumed(place.uid):
            action = Bind(steps.new_id(), report.reference(place), place.node)
            steps.repeats.sent(action)
            steps.repeats.again(action, group.retry_at or steps.now + steps.pause(1))
