"""KAI's ``kai.scheduler/preemption-delay``: how long a workload that does not fit waits before it evicts others.

KAI reads the annotation on a workload and on its pods, and ignores what is no Go duration. Here it counts on group
objects and on members; what is no duration is ignored with a warning.
"""

from __future__ import annotations

from gangsched.model.errors import FieldError, Mistake
from gangsched.model.records import Labels
from gangsched.model.times import parse_duration

PREEMPTION_DELAY = "kai.scheduler/preemption-delay"


def preemption_delay(notes: Labels) -> float | None:
    """Seconds; None when absent or no duration."""
    return _read(notes)[0]


def remark(notes: Labels) -> Mistake | None:
    """What is wrong with it."""
    return _read(notes)[1]


def _read(notes: Labels) -> tuple[float | None, Mistake | None]:
    raw = notes.get(PREEMPTION_DELAY)
    if not raw:
        return None, None
    try:
        return parse_duration(raw, f"metadata.annotations[{PREEMPTION_DELAY}]"), None
    except FieldError as error:
        return None, error.remark
