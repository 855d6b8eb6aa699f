"""How long pods of a PriorityClass tolerate preemption by priorities that are only a little higher.

Annotations of a PriorityClass, of the plug-in PreemptionToleration of kubernetes-sigs/scheduler-plugins
(``pkg/preemptiontoleration``), whose older versions have the second prefix.
"""

from __future__ import annotations

import math
import re

from gangsched.messages import invalid
from gangsched.model.errors import FieldError
from gangsched.model.records import Labels
from gangsched.model.stakes import int32
from gangsched.model.times import LONGEST_SECONDS

PREFIXES = ("preemption-toleration.scheduling.x-k8s.io/", "preemption-toleration.scheduling.sigs.k8s.io/")
SECONDS, PRIORITY = "toleration-seconds", "minimum-preemptable-priority"
#: The annotation that may say for ever.
TOLERATION_SECONDS = PREFIXES[0] + SECONDS


def preemption_toleration(notes: Labels, priority: int) -> tuple[int, float]:
    """From which priority on pods of a class of this ``priority`` do not tolerate preemption any more, and for how many
    seconds they tolerate it by lower ones: infinite for a number below 0. Raises :class:`FieldError`.
    """
    least, seconds = priority + 1, 0.0
    for prefix in reversed(PREFIXES):
        if prefix + PRIORITY in notes:
            least = int32(notes[prefix + PRIORITY], prefix + PRIORITY)
        if prefix + SECONDS in notes:
            seconds = _seconds(notes[prefix + SECONDS], prefix + SECONDS)
    return least, seconds


def _seconds(raw: str, key: str) -> float:
    if not re.fullmatch(r"-?[0-9]{1,18}", raw):
        raise FieldError(f"metadata.annotations[{key}]", invalid.not_whole_seconds(raw[:40]))
    return math.inf if int(raw) < 0 else min(float(raw), LONGEST_SECONDS)
