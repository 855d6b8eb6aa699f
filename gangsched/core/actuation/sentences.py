"""What version 0.1 wrote on pods, in sentences: understood for those who upgrade while it runs. To be removed in 0.3.

Nothing else in the core takes a message apart; since 0.2 what a later process needs is written as data
(:mod:`gangsched.core.actuation.records`).
"""

from __future__ import annotations

import re

from gangsched.core.actions import MARK_REASON
from gangsched.core.ledger.condemned import Cause
from gangsched.core.quota.stop_policy import CLUSTER_QUEUE, LOCAL_QUEUE
from gangsched.model.records import Condition

_PREEMPTION = re.compile(
    r"(\S+): preempting to accommodate higher priority pods, preemptor: (\S+), triggerpod: ([^\s,]+)"
)
_ROLLBACK = re.compile(r"(\S+): rolling back a gang that is bound in part: (\S+), triggerpod: ([^\s,]+)")
_DRAIN = re.compile(rf"(\S+): draining ((?:{CLUSTER_QUEUE}|{LOCAL_QUEUE}) \S+), which is stopped: (\S+) leaves")
_INTENT = re.compile(r"plan (\S+): nominated to (\S+); waiting for ([0-9]+) victims")


def owner_in_words(mark: Condition) -> tuple[str, str, str, str] | None:
    """For whom a pod leaves that bears this DisruptionTarget condition: the cause, the scheduler, the gang or queue,
    and the pod that represents it. None if others wrote it.
    """
    if mark.status != "True":
        return None
    drain = _DRAIN.fullmatch(mark.message)
    if drain is not None:
        return Cause.DRAIN.value, drain[1], drain[2], ""
    for cause, pattern in ((Cause.PREEMPTION, _PREEMPTION), (Cause.ROLLBACK, _ROLLBACK)):
        found = pattern.fullmatch(mark.message) if mark.reason == MARK_REASON else None
        if found is not None:
            return cause.value, found[1], found[2], found[3]
    return None


def intent_in_words(message: str) -> tuple[str, int, str] | None:
    """The intent record of a nominated member: the id of the plan, how many victims it had, and the node."""
    found = _INTENT.match(message)
    return (found[1], int(found[3]), found[2]) if found else None
