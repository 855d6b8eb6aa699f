"""KAI's ``kai.scheduler/preemption-delay``: how long a workload that does not fit waits before it evicts others.

KAI reads the annotation on a workload and on its pods, and ignores what is no Go duration. Here it counts on group
objects and on members.
"""

from __future__ import annotations

from gangsched.model.errors import FieldError
from gangsched.model.records import Labels
from gangsched.model.times import parse_duration

PREEMPTION_DELAY = "kai.scheduler/preemption-delay"


def preemption_delay(notes: Labels) -> float | None:
    """Seconds; None when absent or no duration."""
    raw = notes.get(PREEMPTION_DELAY)
    if not raw:
        return None
    try:
        return parse_duration(raw, PREEMPTION_DELAY)
    except FieldError:
        return None
