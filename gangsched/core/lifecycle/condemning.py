"""What the ledger hears of plans: which pods they make leave, and which not any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gangsched.core.hints import Change, Hint

if TYPE_CHECKING:
    from gangsched.core.groups import Plan
    from gangsched.core.lifecycle.steps import Steps


def condemn(steps: Steps, key: str, uids: Iterable[str]) -> None:
    """The plan with this key makes these pods leave. Their room may help others."""
    world = steps.world
    for uid in uids:
        pod = world.pods.get(uid)
        if pod is not None and pod.bound and world.ledger.condemned.add(pod, key):
            steps.pod_touched(uid)
            world.managed.touch(pod.gang)
            steps.changes.append(Change(Hint.ROOM, pod.node, pod))


def spare(steps: Steps, uid: str, key: str) -> None:
    """The plan with this key does not need the pod to leave. If none does, it may be a victim again, and plans that
    have counted on it are made anew.
    """
    world = steps.world
    if world.ledger.condemned.spare(uid, key):
        pod = world.pods.get(uid)
        if pod is not None:
            steps.pod_touched(uid)
            world.managed.touch(pod.gang)
            steps.changes.append(Change(Hint.VICTIMS, pod.node, pod))
    steps.spared.add(uid)


def depends(steps: Steps, plan: Plan) -> bool:
    """Does the plan count on pods that others make leave, and that do not terminate yet? It removes no pod before."""
    pods = steps.world.pods
    return any(uid not in plan.victims and (pod := pods.get(uid)) is not None and pod.live for uid in plan.waiting)
