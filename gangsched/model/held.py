"""The taint by which room that is being freed on a node is held against all schedulers: what it is called and says.

Its value names the plan for which the room is held and, behind a dot, the scheduler whose plan that is. So an
installation beside this one knows its own holds from ours, and respects those.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from gangsched.model.constraints import Record, Taint

#: Key and effect. The kubelet minds only NoExecute, so pods that are bound need no toleration.
HELD, HELD_EFFECT = "gangsched.dev/held", "NoSchedule"
#: So long after its plan was made (seconds) the taint is of no use to any installation: any may take it off.
MOST_AGE_SECONDS = 3600.0
#: The value of a taint is that of a label.
_MOST_CHARACTERS = 63


class Held(Record, frozen=True):
    """The taint on a node: its ``value``, and its place (from 0) among all taints of the node."""

    value: str
    place: int


def value_of(plan: str, scheduler: str) -> str:
    """The value that names a plan of this scheduler."""
    return f"{plan}.{re.sub(r'[^A-Za-z0-9._-]', '-', scheduler)}"[:_MOST_CHARACTERS].rstrip("._-")


def is_of(value: str, schedulers: Iterable[str]) -> bool:
    """Return whether a value names a plan of one of these schedulers, or of none."""
    plan, _, scheduler = value.partition(".")
    return not scheduler or any(value == value_of(plan, name) for name in schedulers)


def made_at(value: str) -> float:
    """Return when the plan that a value names was made (seconds), infinity if that is not known."""
    milliseconds, _, _ = value.partition(".")[0].partition("-")
    try:
        return int(milliseconds, 16) / 1000.0
    except ValueError:
        return math.inf


def without_held(taints: tuple[Taint, ...]) -> tuple[tuple[Taint, ...], Held | None]:
    """The other taints of a node, and that by which room on it is held."""
    for place, taint in enumerate(taints):
        if taint.key == HELD and taint.effect == HELD_EFFECT:
            return (*taints[:place], *taints[place + 1 :]), Held(taint.value, place)
    return taints, None


def with_held(taints: tuple[Taint, ...], held: Held) -> tuple[Taint, ...]:
    """All taints of a node."""
    return (*taints[: held.place], Taint(HELD, held.value, HELD_EFFECT), *taints[held.place :])
