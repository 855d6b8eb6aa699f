"""What the scheduler of a cluster leaves out because it has failed over it, as commands show it."""

from __future__ import annotations

from typing import Any

from gangsched.core.events import Quarantined
from gangsched.core.world.cut_decisions import pause_seconds
from gangsched.messages import standing
from gangsched.model.times import render_time


def fields_of(each: Quarantined) -> dict[str, Any]:
    """The object or gang, why, how often, and when it is tried again."""
    name = f"{each.namespace}/{each.name}" if each.namespace else each.name
    return {
        "object": f"{each.kind.partition('.')[0]} {name}" if each.kind else standing.gang(name=name),
        "why": each.why or standing.PROCESS_ENDED,
        "times": each.times,
        "until": render_time(each.at + pause_seconds(each.times)),
    }


def line_of(each: Quarantined) -> str:
    """The same in a line."""
    found = fields_of(each)
    return standing.left_out(what=found["object"], why=found["why"], until=found["until"])
