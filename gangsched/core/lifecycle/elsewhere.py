"""Members whose binding was refused for good go to other nodes.

Why it was refused is not known here: an admission plug-in may mind the node, the pod, or both. So another node is tried
where there is room; nobody is evicted to find out. When no other is left, all of them are tried again: whatever minded
may have changed its mind.

Members are kept off as if they had asked for that, and a spread constraint leaves out nodes that its pod does not ask
for. They count all the same: the place has to do for the members as they are.
"""

from __future__ import annotations

from gangsched.core.actions import Bind
from gangsched.core.decision import BIND, WAIT, Verdict
from gangsched.core.groups import Group
from gangsched.core.planning.decider import Decider


def refused(group: Group, action: Bind) -> None:
    """This binding of a member has been refused."""
    group.refused_on.setdefault(action.pod.uid, set()).add(action.node)


def elsewhere(decider: Decider, group: Group, now: float) -> Verdict | None:
    """The decision to go where no binding of the same member has been refused; None when there is no such room."""
    if not group.refused_on:
        return None
    verdict = decider.decide(group.gangs, group.key, now, may_preempt=False, keep_off=group.refused_on)
    given = {uid: found for d in verdict.decisions if d.quota is not None for uid, found in d.quota.by_pod.items()}
    if verdict.outcome in (BIND, WAIT) and decider.still_holds(
        group.gangs, group.key, now, verdict.placements, (), terminating_leave=verdict.outcome == WAIT, flavors=given
    ):
        return verdict
    group.refused_on.clear()
    return None
