"""Members whose binding was refused for good go to other nodes.

The reason of the refusal is not known here: an admission plug-in may refuse the node, the pod, or both. So another node
is tried where there is room. No pod is evicted to find out. When no other node is left, all of them are tried again,
because the plug-in may accept them by then. Nor is any pod evicted when weaker work has got the room meanwhile. The
member would be refused again, and the evicted pods would come back. So evictions wait until a pause is over, which
doubles when the member is refused once more after it. Members are kept off as if they had requested that, and a spread
constraint leaves out nodes that its pod does not select. They count all the same: the place has to do for the members
as they are.
"""

from __future__ import annotations

from gangsched.core.decision import BIND, WAIT, Verdict
from gangsched.core.lifecycle.group import Failed, Group
from gangsched.core.planning.context import KnownPlan, Pause, Question
from gangsched.core.planning.cycle import Decider
from gangsched.core.world.world import World
from gangsched.messages import notes
from gangsched.model.records import Pod


def pause_of(world: World, group: Group) -> Pause:
    """When the group may evict others (again), and why not before."""
    for uid, refusal in list(group.failures.refusals.items()):
        pod = world.pods.get(uid)
        if pod is None or pod.node or not pod.live or asked_by(pod) != refusal.asked:
            del group.failures.refusals[uid]
    refused = (Pause(refusal.until, refusal.why) for refusal in group.failures.refusals.values())
    rounds = group.failures.count(Failed.ROUND)
    many = notes.rounds(rounds=rounds) if rounds > 1 else notes.ONE_ROUND
    taken = notes.because(why=group.failures.lost) if group.failures.lost else ""
    why = notes.rounds_without_binding(many=many, taken=notes.TAKEN if group.failures.taken else taken)
    paused = Pause(group.failures.paused_until, why)
    return max([*refused, paused])


def asked_by(pod: Pod) -> object:
    """The fields of a pod that an admission plug-in may have refused: if they change, it may be bound."""
    return pod.shape, pod.labels, pod.hints, pod.priority


def other_nodes(decider: Decider, group: Group) -> Verdict | None:
    """The decision to go where no binding of the same member has been refused; None when there is no such room."""
    if not group.failures.refused_on:
        return None
    pause, keep_off = pause_of(decider.world, group), group.failures.refused_on
    verdict = decider.decide(Question(group.gangs, may_preempt=False, pause=pause, keep_off=keep_off))
    given = {uid: found for d in verdict.decisions if d.quota is not None for uid, found in d.quota.by_pod.items()}
    waits = verdict.outcome == WAIT
    known = KnownPlan(group.gangs, verdict.placements, terminating_leave=waits, flavors=given)
    if verdict.outcome in (BIND, WAIT) and decider.still_holds(known).holds:
        return verdict
    group.failures.refused_on.clear()
    return None
