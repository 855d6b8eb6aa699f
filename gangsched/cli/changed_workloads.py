"""A workload with another priority or queue, for questions about what would be if."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from gangsched.cli.decisions import State
from gangsched.cli.owners import above
from gangsched.core.events import Changed, Event, record_of
from gangsched.model.jobsets import JobSet
from gangsched.model.queues import QUEUE_LABEL
from gangsched.model.records import PREEMPT_LOWER, Gang, Job, Pod

#: What may say the priority or the queue of a workload.
Workload: TypeAlias = Pod | Gang | Job | JobSet


def with_priority(state: State, namespace: str, kind: str, name: str, priority: int) -> list[Event] | None:
    """Return the objects with this priority of a gang, of a pod or of what owns pods; None if there is none of it."""

    def changed(record: Workload) -> Workload:
        if isinstance(record, Pod):
            return replace(record, priority=priority, priority_class="", preemption_policy=PREEMPT_LOWER)
        if isinstance(record, Gang):
            own = None if record.priority is None else priority
            return replace(record, priority=own, priority_class="", preemption_policy=None)
        return record

    return _with(state, (namespace, kind, name), changed)


def with_queue(state: State, namespace: str, kind: str, name: str, queue: str) -> list[Event] | None:
    """Return the objects with this LocalQueue of a gang, of a pod or of what owns pods; None if there is none of it."""

    def changed(record: Workload) -> Workload:
        if isinstance(record, Pod):
            return replace(record, labels={**record.labels, QUEUE_LABEL: queue})
        return replace(record, queue=record.queue._replace(local_queue=queue))

    return _with(state, (namespace, kind, name), changed)


def _with(state: State, named: tuple[str, str, str], change: Callable[[Workload], Workload]) -> list[Event] | None:
    """The objects, of which those of the named workload are changed."""
    space, kind, name = named
    pods = {p.uid for p in state.world.pods.values() if p.namespace == space and _is_of(state, kind, name, p)}
    out, found = list[Event](), bool(pods)
    for event in state.events:
        record = record_of(event)
        if not isinstance(record, Pod | Gang | Job | JobSet) or record.namespace != space:
            out.append(event)
            continue
        mine = record.uid in pods if isinstance(record, Pod) else record.name == name
        found |= mine
        out.append(Changed(change(record)) if mine else event)
    return out if found else None


def _is_of(state: State, kind: str, name: str, pod: Pod) -> bool:
    if pod.name == name and kind in ("", "Pod"):
        return True
    if pod.gang.name == name and kind != "Pod":
        return True
    return any(called == name and kind in ("", of) for of, called in above(state.world, pod))
