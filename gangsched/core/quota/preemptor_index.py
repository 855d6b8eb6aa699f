"""Whom a workload that has just got its quota may help: those who could displace it, or others of its queue now.

A queue is asked back what it borrows, from the moment when it borrows. So it is when usage rises, and not only when it
falls, that somebody who waits may find victims.
"""

from __future__ import annotations

from gangsched.core.quota.admitted_workloads import Holder
from gangsched.core.quota.quota import Quota
from gangsched.model.queues import ANY, LOWER_OR_NEWER, NEVER


def may_find_victims(quota: Quota, queue: str, priority: float, newcomer: Holder) -> bool:
    """May workloads of this ClusterQueue and priority find victims because ``newcomer`` holds quota? Amounts are not
    looked at: whether the victims are enough, a decision says.
    """
    node, other = quota.tree.queues.get(queue), newcomer.node
    if node is None or node.root is not other.root:
        return False
    rules = quota.queues[queue].preemption
    if node is other:
        same = rules.within == LOWER_OR_NEWER and newcomer.priority == priority
        return rules.within != NEVER and (newcomer.priority < priority or same)
    if rules.reclaim == NEVER:
        return False
    if node.parent is not other.parent or node.root is not node.parent:  # cohorts in between may borrow, too
        return any(not n.within(newcomer.cells) for n in (other, *other.ancestors()))
    if other.within(newcomer.cells):
        return False
    if rules.reclaim != ANY:
        first = quota.holders.first(other, False)  # beside the newcomer all of its queue may be victims now
        if first is None or first[0] > priority:
            return False
    alone = rules.borrow == NEVER and not quota.fair_sharing
    return not alone or any(node.usage[cell] < node.subtree[cell] for cell in newcomer.cells)
