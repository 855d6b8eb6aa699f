"""One sentence for a decision."""

from __future__ import annotations

from gangsched.core.decision import Decision, Fits, FitsWhenFreed, Gathering, Preempt, Unschedulable
from gangsched.messages.text import are, counted

#: The section of an explanation that is shown last: what can be done.
WOULD_HELP = "would help"
#: That of when it will start.
STARTS = "starts"


def can_start(decision: Decision) -> str:
    """When placed members can start; empty if none of them can."""
    match decision:
        case Fits():
            return "can start now"
        case FitsWhenFreed():
            leaving = len(decision.awaiting)
            pods = counted(leaving, "pod" if any(a.plan for a in decision.awaiting) else "terminating pod")
            return f"can start when {pods} {are(leaving)} gone"
        case Preempt():
            victims = len(decision.victims)
            return f"can start after {counted(victims, 'pod')} {are(victims)} evicted"
    return ""


def sentence(decision: Decision) -> str:
    """What is decided."""
    when = can_start(decision)
    if when:
        left = len(decision.unplaced)
        more = f"; {counted(left, 'more member')} cannot be placed" if left else ""
        return f"{counted(len(decision.placements), 'member')} {when}{more}"
    if isinstance(decision, Gathering):
        found = len(decision.unplaced)
        missing = f": {found} of {counted(decision.required, 'pod')} exist" if found < decision.required else ""
        return f"the gang is not complete yet{missing}"
    if isinstance(decision, Unschedulable) and decision.failed_plugin:
        return f"nothing can be decided while the plug-in {decision.failed_plugin} fails"
    if decision.quota is not None and not decision.quota.flavors:
        return f"there is no quota for {_together(decision.required)}"
    if not decision.required:
        return "the gang has its minimum; further members do not fit"
    return f"does not fit: {_together(decision.required)}"


def _together(members: int) -> str:
    """So many pods of one gang."""
    return f"{counted(members, 'pod')}{' that must start together' if members > 1 else ''}"
