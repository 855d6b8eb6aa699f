"""Gangs that have a queue here and that Kueue admits as well: nothing is done with them, and their owner is told.

Each object hears of it once: the Job or JobSet, the group object, or the pod. Members that could be placed bear the
same words as a condition; where a scheduling gate keeps them back, the API server says so itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gangsched.core.actions import pod_reference
from gangsched.core.lifecycle import admission, report, suspension
from gangsched.core.state.suspended import LENIENT, WITHOUT_PODS
from gangsched.model.records import GangId

if TYPE_CHECKING:
    from gangsched.core.lifecycle.steps import Steps

#: So many objects are remembered as told.
_MOST_TOLD = 10_000


def tell(steps: Steps, gangs: Sequence[GangId]) -> None:
    """If these gangs have two admitters, tell the objects that stand for them, each once."""
    text = steps.world.two_admitters(gangs)
    for gang in gangs if text else ():
        about = _object(steps, gang)
        if about is None or about[4] in steps.told_two_admitters:
            continue
        if len(steps.told_two_admitters) >= _MOST_TOLD:
            steps.told_two_admitters.clear()
        steps.told_two_admitters.add(about[4])
        steps.actions.append(report.event(about, "Warning", report.TWO_ADMITTERS, "Admitting", text))


def _object(steps: Steps, gang: GangId) -> report.Reference | None:
    """What stands for a gang that is not over; None if nothing does, or if it is up to another scheduler."""
    if any(pod.live for pod in steps.world.membership.pods(gang)):
        return admission.stands_for(steps, gang)
    owner = suspension.owner(steps, gang) if gang.family in WITHOUT_PODS else None
    if owner is None or not owner.suspended or owner.finished or owner.template is None:
        return None
    if owner.owner is not None and owner.owner.kind not in LENIENT:
        return None  # what is above it starts it
    ours = (owner.suspended_by or owner.template.scheduler) == gang.scheduler
    return pod_reference(suspension.reference(owner)) if ours else None
