"""Evictions in one namespace, for people who may read no more: by Events, and by the conditions of Jobs, which last."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gangsched.cluster.kube.client import ApiError, Client, answer_of, segment
from gangsched.cluster.kube.history import ON_NODE, Line, is_on_record
from gangsched.model import wire
from gangsched.model.dialects.dialect import EVICTED
from gangsched.model.errors import FieldError
from gangsched.model.times import parse_time, render_time

#: The most Events that are read.
_MOST = 2_000
_FORBIDDEN = 403


class _Object(wire.Wire):
    kind: str = ""
    name: str = ""
    namespace: str = ""


class _Series(wire.Wire):
    last_observed_time: str | None = None


class _Event(wire.Wire):
    reason: str = ""
    message: str = ""
    involved_object: _Object = msgspec.field(default_factory=_Object)
    related: _Object | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None

    @property
    def at(self) -> float:
        """When it was seen last (seconds; 0: not known)."""
        of_series = self.series.last_observed_time if self.series is not None else None
        return max(map(_seconds, (of_series, self.last_timestamp, self.event_time)))


class _Events(wire.Wire):
    items: list[_Event] = msgspec.field(default_factory=list)


class _Condition(wire.Wire):
    type: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class _Status(wire.Wire):
    conditions: list[_Condition] | None = None


class _Job(wire.Wire):
    metadata: wire.ObjectMeta
    status: _Status = msgspec.field(default_factory=_Status)


class _Jobs(wire.Wire):
    items: list[_Job] = msgspec.field(default_factory=list)


_events, _jobs = msgspec.json.Decoder(_Events), msgspec.json.Decoder(_Jobs)


async def evictions_in(client: Client, namespace: str) -> list[Line]:
    """What is known of evictions in a namespace, the oldest first.

    Raises :class:`~gangsched.cluster.kube.client.ApiError` where neither Events nor Jobs may be read, and
    :class:`~gangsched.cluster.kube.client.UnreachableError`.
    """
    space = segment(namespace)
    refused: list[ApiError] = []
    found: list[tuple[float, Line]] = []
    events, jobs = f"/api/v1/namespaces/{space}/events", f"/apis/batch/v1/namespaces/{space}/jobs"
    try:
        answer = await client.get(events, {"limit": str(_MOST)})
        found += _of_events(answer_of(_events, answer, events).items)
    except ApiError as error:
        refused.append(error)
    try:
        found += _of_jobs(answer_of(_jobs, await client.get(jobs, {}), jobs).items)
    except ApiError as error:
        refused.append(error)
    if len(refused) > 1 or any(error.status != _FORBIDDEN for error in refused):
        raise refused[0]
    return [line for _, line in sorted(found, key=lambda each: each[0])]


def _of_events(events: list[_Event]) -> Iterator[tuple[float, Line]]:
    for event in events:
        if not is_on_record(event.reason, related=event.related is not None):
            continue
        about, node = event.involved_object, ON_NODE.search(event.message)
        note = event.message if node is None else event.message.replace(node[0], "", 1)
        objects = [(about.namespace, about.name, node[1] if node else "")]
        yield event.at, Line(render_time(event.at), event.reason, about.kind, note, objects)


def _of_jobs(jobs: list[_Job]) -> Iterator[tuple[float, Line]]:
    for job in jobs:
        for each in job.status.conditions or ():
            if each.type == EVICTED:
                at = _seconds(each.last_transition_time)
                objects = [(job.metadata.namespace, job.metadata.name, "")]
                yield at, Line(render_time(at), each.reason, "Job", each.message, objects)


def _seconds(time: str | None) -> float:
    try:
        return parse_time(time, "") if time else 0.0
    except FieldError:
        return 0.0
