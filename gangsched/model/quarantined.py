"""What is shown to the scheduler of an object over which it has failed: first less of it, then something in its place.

Where the object takes room or protects others, it goes on doing so. Everything else of it is left out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gangsched.model.constraints import LabelSelector, PodShape
from gangsched.model.errors import Mistake
from gangsched.model.jobsets import JobSet
from gangsched.model.records import PREEMPT_NEVER, SINGLE, Budget, Gang, GangId, Job, Node, Pod

#: How much is left out: what may be unusual about an object, or all of it.
REDUCED, REPLACED = 1, 2
#: Fields that say how an object stands. They change without an edit.
_STATUS = frozenset(
    {
        *("version", "phase", "node", "started", "ended", "deleting_since", "nominated_node", "scheduled_condition"),
        *("disruption", "intent", "evicted_for", "tracked", "index_failures", "ready", "images", "held", "allowed"),
        *("disrupted", "failed", "succeeded", "finished", "counted", "suspended", "suspended_by", "suspended_since"),
        *("stage", "status", "generation", "evicted", "active"),
    }
)


def is_edited(before: Any, after: Any) -> bool:
    """Return whether an object was edited: more of its record differs than how it stands."""
    if type(before) is not type(after) or getattr(before, "uid", "") != getattr(after, "uid", ""):
        return True
    fields = (name for name in before.__struct_fields__ if name not in _STATUS)
    return any(getattr(before, name) != getattr(after, name) for name in fields)


def shown_of(record: Any, level: int, why: str) -> Any:
    """What stands for a record at this level; None if nothing does."""
    match record:
        case Pod():
            return _pod(record, level) if record.bound else None
        case Node() if level == REDUCED:
            return msgspec.structs.replace(record, taints=(), images=(), features=(), outdated=True)
        case Gang() if level == REDUCED:
            mistake = Mistake("", why)
            left_out = {"topology": (), "roles": (), "parts": None, "announced": (), "min_resources": (), "fragile": ()}
            return msgspec.structs.replace(record, mistake=mistake, **left_out)
        case Job() if level == REDUCED:
            return msgspec.structs.replace(record, template=None, scheduling=None, failure_rules=())
        case JobSet() if level == REDUCED:
            parts = (
                msgspec.structs.replace(each, job=msgspec.structs.replace(each.job, template=None))
                for each in record.replicated
            )
            return msgspec.structs.replace(record, replicated=tuple(parts))
        case Budget() if level == REDUCED:
            return Budget(record.namespace, record.name, record.selector, allowed=0)
        case Budget():
            return Budget(record.namespace, f"quarantined-{record.name}", LabelSelector(), allowed=0)
    return None


def _pod(pod: Pod, level: int) -> Pod:
    """A pod on a node holds its room and is never a victim. If it is replaced, it is in no gang any more."""
    room = PodShape(requests=pod.shape.requests, host_ports=pod.shape.host_ports)
    if level == REDUCED:
        return msgspec.structs.replace(pod, shape=room, volumes=None, kept=True, preemption_policy=PREEMPT_NEVER)
    name = f"quarantined-{pod.uid}"
    return Pod(
        pod.namespace,
        name,
        f"quarantined:{pod.uid}",
        room,
        GangId(SINGLE, pod.namespace, name, ""),
        scheduler="",
        priority=pod.priority,
        node=pod.node,
        phase=pod.phase,
        created=pod.created,
        started=pod.started,
        deleting_since=pod.deleting_since,
        grace_seconds=pod.grace_seconds,
        kept=True,
    )
