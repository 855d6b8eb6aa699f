"""Annotations for simulations: when objects arrive, how long they run, how fast they stop.

``sim.gangsched.dev/arrive-after``, ``/run-for`` and ``/grace-used`` hold durations such as ``90s``, ``2m`` or
``1m30s``. A group object may carry ``arrive-after`` for all of its members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from gangsched.core.events import Changed, Event, record_of
from gangsched.model.constraints import Labels
from gangsched.model.errors import FieldError
from gangsched.model.jobsets import JOBSET, JobSet
from gangsched.model.records import JOB, Gang, Job, Pod
from gangsched.model.times import duration_seconds

PREFIX = "sim.gangsched.dev/"
ARRIVE_AFTER, RUN_FOR, GRACE_USED = PREFIX + "arrive-after", PREFIX + "run-for", PREFIX + "grace-used"
DURATION_HINTS = (ARRIVE_AFTER, RUN_FOR, GRACE_USED)

#: Pending gangs arrive this far apart when they arrive in the order of the input.
FILE_ORDER_SECONDS = 1.0

#: ``(family, namespace, name)`` of a group object, or (kind, namespace, name) of what owns pods or Jobs.
GroupKey: TypeAlias = tuple[str, str, str]


def hint_seconds(hints: Labels, name: str) -> float | None:
    """The duration in an annotation, None when it is not there. Raises :class:`FieldError`."""
    raw = hints.get(name)
    if raw is None:
        return None
    seconds = duration_seconds(raw)
    if seconds is None:
        raise FieldError(f"metadata.annotations[{name}]", f"{raw!r} is not a duration such as 90s, 2m or 1m30s")
    return seconds


class InvalidHintError(ValueError):
    """An annotation of the simulation that cannot be understood. ``position`` is that of the object's event."""

    def __init__(self, position: int, subject: str, error: FieldError) -> None:
        super().__init__(f"{subject}: {error}")
        self.position = position
        self.subject = subject
        self.field = error.field
        self.message = error.message


class Arrival(NamedTuple):
    """An object that is created ``after_seconds`` from the start; 0 = it is there from the start."""

    after_seconds: float
    event: Event


def arrivals(
    events: Iterable[Event], group_hints: Mapping[GroupKey, Labels] | None = None, *, file_order: bool = False
) -> list[Arrival]:
    """When each object of the input appears, in the order of appearance (ties in the order of the input).

    A pending pod arrives after its own ``arrive-after``, else after that of its group's object. Otherwise, with
    ``file_order``, it arrives :data:`FILE_ORDER_SECONDS` after the gang before it, else at the start. A group object
    without an annotation arrives with its first member, a Job with its first pod, and a JobSet with its first Job.
    Everything else, bound pods included, is there from the start. Raises :class:`InvalidHintError`.
    """
    known = list(events)
    groups = _group_times(known, group_hints or {})
    pods = _pod_times(known, groups, file_order)
    first: dict[GroupKey, float] = {}  # of what comes with others: groups, Jobs and JobSets
    for position, after in pods.items():
        _bring(first, record_of(known[position]), after)
    for record in map(record_of, known):
        if isinstance(record, Job):
            _bring(first, record, first.get((JOB, record.namespace, record.name), 0.0))
    out = []
    for position, event in enumerate(known):
        key = _key_of(record_of(event))
        out.append(Arrival(pods.get(position, groups.get(key, first.get(key, 0.0))), event))
    return sorted(out, key=lambda a: (a.after_seconds, isinstance(record_of(a.event), Pod)))


def created_at(event: Event, now: float) -> Event:
    """The object with ``now`` (seconds since the epoch) as its creation, for one that arrives then."""
    match event:
        case Changed(Pod() as pod):
            return Changed(msgspec.structs.replace(pod, created=now, started=now))
        case Changed(Gang() | Job() | JobSet() as record):
            return Changed(msgspec.structs.replace(record, created=now))
    return event


def _group_times(events: list[Event], group_hints: Mapping[GroupKey, Labels]) -> dict[GroupKey, float]:
    out = {}
    for position, event in enumerate(events):
        gang = record_of(event)
        if isinstance(gang, Gang):
            key = _key_of(gang)
            try:
                seconds = hint_seconds(group_hints.get(key, {}), ARRIVE_AFTER)
            except FieldError as error:
                raise InvalidHintError(position, f"{gang.kind} {gang.key}", error) from None
            if seconds is not None:
                out[key] = seconds
    return out


def _pod_times(events: list[Event], groups: Mapping[GroupKey, float], file_order: bool) -> dict[int, float]:
    """When the pods arrive, by the position of their events."""
    out: dict[int, float] = {}
    turns: dict[GroupKey, float] = {}
    for position, event in enumerate(events):
        pod = record_of(event)
        if not isinstance(pod, Pod):
            continue
        group = pod.gang[:3]
        own = _own_time(position, pod)
        if pod.node or pod.phase != "Pending":
            out[position] = 0.0
        elif own is not None:
            out[position] = own
        elif group in groups:
            out[position] = groups[group]
        else:
            out[position] = turns.setdefault(group, FILE_ORDER_SECONDS * len(turns)) if file_order else 0.0
    return out


def _own_time(position: int, pod: Pod) -> float | None:
    """The pod's own arrival; its other annotations are checked on the way, before anything runs."""
    try:
        seconds = {name: hint_seconds(pod.hints, name) for name in DURATION_HINTS}
    except FieldError as error:
        raise InvalidHintError(position, f"Pod {pod.key}", error) from None
    return seconds[ARRIVE_AFTER]


def _bring(first: dict[GroupKey, float], record: object, after: float) -> None:
    """The group and the owner of a pod or a Job come with it, if nothing of them comes before."""
    if not isinstance(record, Pod | Job):
        return
    keys = [(record.owner.kind, record.namespace, record.owner.name)] if record.owner is not None else []
    for key in [*keys, record.gang[:3]] if isinstance(record, Pod) else keys:
        first[key] = min(after, first.get(key, after))


def _key_of(record: object) -> GroupKey:
    match record:
        case Gang():
            return (record.family, record.namespace, record.name)
        case Job():
            return (JOB, record.namespace, record.name)
        case JobSet():
            return (JOBSET, record.namespace, record.name)
    return ("", "", "")
