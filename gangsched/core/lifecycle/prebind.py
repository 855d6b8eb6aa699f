"""PreBind: the volumes of all members are bound before the first member is.

The members' room is held like that of nominated ones, so a gang of higher priority may have it; their volumes are
assumed from the decision on. Claims that the cluster already knows about (after a restart, or when the gang had to give
way) are not asked for again, only waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangsched.core.actions import BindVolume, PodRef, SelectNode
from gangsched.core.actuation.actuator import Failure
from gangsched.core.events import Outcome
from gangsched.core.hints import Change, Hint
from gangsched.core.lifecycle import suspension
from gangsched.core.lifecycle.holding import hold
from gangsched.core.volumes.binding import ClaimBinding, assign, progress

if TYPE_CHECKING:
    from gangsched.core.groups import Group, Plan
    from gangsched.core.lifecycle.steps import Steps


def begin(steps: Steps, group: Group) -> None:
    """Hold the members' room, assume their volumes, and ask for those that nobody has asked for yet."""
    plan = group.plan
    if plan is None:
        return
    world, index = steps.world, steps.world.snapshot.volumes
    steps.actuator.begin(group.key)
    found = assign(world, plan.placements)
    for place in plan.placements:
        suspension.take_room(steps, world.pods[place.uid], place.node)
    steps.give_back(group.key)
    hold(steps, group, plan)
    group.deadline = steps.now + steps.options.bind_timeout_seconds
    if isinstance(found, str):
        # What the decision counted on is gone: the phase fails before it has written anything.
        steps.actuator.fail(group.key, Failure(plan.placements[0].uid, Outcome.CONFLICT, found))
        return
    plan.claims = found
    group.message = _waiting(found)
    for binding in found:
        if binding.ours:
            index.assume(binding.key, binding.target)
        if not binding.asked:
            _ask(steps, group, binding)


def _ask(steps: Steps, group: Group, binding: ClaimBinding) -> None:
    claim = binding.claim
    pod = steps.world.pods[binding.pod]
    ref = PodRef(pod.namespace, pod.name, pod.uid)
    if binding.target.volume:
        volume = steps.world.snapshot.volumes.volumes[binding.target.volume]
        action: BindVolume | SelectNode = BindVolume(
            steps.new_id(),
            ref,
            volume.name,
            volume.uid,
            volume.version,
            claim.name,
            claim.uid,
            reserved=volume.claim is not None,
        )
    else:
        action = SelectNode(steps.new_id(), ref, claim.name, claim.uid, binding.target.node)
    steps.actuator.ask(group.key, action)


def done(steps: Steps, plan: Plan) -> tuple[bool, str]:
    """Are all claims bound, and is there a reason why one will not be?"""
    everything = True
    for binding in plan.claims:
        bound, problem = progress(steps.world, binding)
        if problem:
            return False, f"binding volumes: {problem}"
        everything = everything and bound
    return everything, ""


def whole(steps: Steps, group: Group, plan: Plan) -> bool:
    """Are the plan's members as many as the gangs need? While volumes were bound, members that ran may have gone."""
    membership = steps.world.membership
    for gang in group.gangs:
        census = membership.census(gang)
        if sum(p.uid in plan.node_of for p in census.pending) < membership.required(gang, census):
            return False
    return True


def forget_claims(steps: Steps, plan: Plan) -> None:
    """What the cluster shows of the plan's claims is what counts again."""
    for binding in plan.claims:
        if binding.ours:
            steps.world.snapshot.volumes.forget(binding.key)
            steps.changes.append(Change(Hint.VOLUMES))
    plan.claims = []


def _waiting(bindings: list[ClaimBinding]) -> str:
    names = sorted("/".join(b.key) for b in bindings)
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"waiting for volumes of {shown}"
