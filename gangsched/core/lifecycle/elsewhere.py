"""Members whose binding was refused for good go to other nodes.

Why it was refused is not known here: an admission plug-in may mind the node, the pod, or both. So another node is tried
where there is room; nobody is evicted to find out. When no other is left, all of them are tried again: whatever minded
may have changed its mind.

Nor is anybody evicted when weaker work has got the room meanwhile, for the member would be refused again, and whoever
has left would come back: not before a pause is over, which doubles when the member is refused once more after it.

Members are kept off as if they had asked for that, and a spread constraint leaves out nodes that its pod does not ask
for. They count all the same: the place has to do for the members as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gangsched.core.actions import Bind
from gangsched.core.decision import BIND, WAIT, Verdict
from gangsched.core.groups import Group
from gangsched.core.lifecycle.failures import Refusal
from gangsched.core.planning.decider import Decider
from gangsched.model.records import Pod

if TYPE_CHECKING:
    from gangsched.core.lifecycle.steps import Steps
    from gangsched.core.state.world import World

#: Seconds in which a gang evicts nobody after a member was refused; twice as long each time it is refused after that.
FIRST_PAUSE_SECONDS = 120.0
LONGEST_PAUSE_SECONDS = 1800.0


def refused(steps: Steps, group: Group, action: Bind) -> None:
    """This binding of a member has been refused."""
    uid = action.pod.uid
    group.failures.refused_on.setdefault(uid, set()).add(action.node)
    pod = steps.world.pods.get(uid)
    if pod is None:
        return
    known = group.failures.refusals.get(uid)
    pauses = known.pauses if known is not None and known.asked == _asked(pod) else 0
    first = not pauses or known is None or known.until <= steps.now
    if first:
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(pauses, 30), LONGEST_PAUSE_SECONDS)
        group.failures.refusals[uid] = Refusal(pauses + 1, steps.now + pause, _asked(pod))
    steps.losses.refused(pod, action.node, steps.now, first=first)


def bound(group: Group, action: Bind) -> None:
    """This binding of a member has succeeded."""
    group.failures.refusals.pop(action.pod.uid, None)


def evicts_from(world: World, group: Group) -> float:
    """When the group may evict others (again) as far as refused bindings of its members go (seconds)."""
    for uid, refusal in list(group.failures.refusals.items()):
        pod = world.pods.get(uid)
        if pod is None or pod.node or not pod.live or _asked(pod) != refusal.asked:
            del group.failures.refusals[uid]
    return max((refusal.until for refusal in group.failures.refusals.values()), default=0.0)


def _asked(pod: Pod) -> object:
    return pod.shape, pod.labels, pod.hints, pod.priority


def elsewhere(decider: Decider, group: Group, now: float) -> Verdict | None:
    """The decision to go where no binding of the same member has been refused; None when there is no such room."""
    if not group.failures.refused_on:
        return None
    verdict = decider.decide(group.gangs, group.key, now, may_preempt=False, keep_off=group.failures.refused_on)
    given = {uid: found for d in verdict.decisions if d.quota is not None for uid, found in d.quota.by_pod.items()}
    if verdict.outcome in (BIND, WAIT) and decider.still_holds(
        group.gangs, group.key, now, verdict.placements, (), terminating_leave=verdict.outcome == WAIT, flavors=given
    ):
        return verdict
    group.failures.refused_on.clear()
    return None
