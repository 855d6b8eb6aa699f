"""Why controllers cannot create what they want to: what their Events say.

A webhook, a ResourceQuota or a LimitRange refuses pods when they are created, and nothing of them is left but an Event
on their owner. Events are many, and are not watched: they are read for the owners of one gang, on demand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from gangsched.cluster.kube.client import ApiError, Client, UnreachableError, answer_of, segment
from gangsched.messages import causes
from gangsched.model import wire
from gangsched.model.errors import FieldError
from gangsched.model.records import UID_FROM_MANIFEST
from gangsched.model.times import parse_time

#: Reasons of such Events: FailedCreate of Jobs, ReplicaSets and LeaderWorkerSets, FailedCreatePod of Kubeflow's jobs,
#: FailedToCreateWorkerPod of KubeRay, JobCreationFailed of JobSets, and the like.
_CANNOT_CREATE = re.compile("fail.*creat|creat.*fail", re.IGNORECASE)
#: The most Events of one owner that are read.
_MOST = 500


class Controller(NamedTuple):
    """An owner of pods, or an owner of that: a Job, a JobSet."""

    kind: str
    namespace: str
    name: str
    uid: str


class Refused(NamedTuple):
    """The last reason of a controller why it cannot create something, ``at`` which time (seconds; 0: not known), and
    how often there was such an Event. ``unread``: its Events could not be read, ``note`` says why.
    """

    owner: Controller
    reason: str
    note: str
    times: int = 1
    at: float = 0.0
    unread: bool = False


class _Series(wire.Wire):
    count: int = 0
    last_observed_time: str | None = None


class _Event(wire.Wire):
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None

    @property
    def times(self) -> int:
        """How often it has been seen."""
        return max(1, self.count or 0, self.series.count if self.series is not None else 0)

    @property
    def at(self) -> float:
        """When it was seen last (seconds)."""
        of_series = self.series.last_observed_time if self.series is not None else None
        return max(map(_seconds, (of_series, self.last_timestamp, self.event_time)))


class _List(wire.Wire):
    items: list[_Event] = msgspec.field(default_factory=list)


_decoder = msgspec.json.Decoder(_List)


async def refused(client: Client, owners: Iterable[Controller]) -> list[Refused]:
    """Return the pods that these controllers could not create, one entry for each reason, the newest first; and owners
    whose Events cannot be read.
    """
    out: list[Refused] = []
    for owner in dict.fromkeys(owners):
        query = {"fieldSelector": ",".join(_selected(owner)), "limit": str(_MOST)}
        path = f"/api/v1/namespaces/{segment(owner.namespace)}/events"
        try:
            events = answer_of(_decoder, await client.get(path, query, retry_seconds=2.0), path).items
        except (ApiError, UnreachableError) as error:
            out.append(Refused(owner, "", causes.events_unreadable(error=error), unread=True))
            continue
        out += _refused_by(owner, events)
    return sorted(out, key=lambda each: (-each.at, each.owner, each.reason))


class _Annotated(wire.Wire):
    metadata: wire.ObjectMeta


class _AnnotatedList(wire.Wire):
    items: list[_Annotated] = msgspec.field(default_factory=list)


_annotated = msgspec.json.Decoder(_AnnotatedList)


async def annotations_of(client: Client, namespace: str, job: str) -> dict[str, str]:
    """The annotations of a Job; none where there is no such Job, or it may not be read."""
    path = f"/apis/batch/v1/namespaces/{segment(namespace)}/jobs"
    try:
        found = answer_of(_annotated, await client.get(path, {"fieldSelector": f"metadata.name={job}"}), path).items
    except (ApiError, UnreachableError):
        return {}
    return dict(found[0].metadata.annotations or {}) if found else {}


def _selected(owner: Controller) -> Iterator[str]:
    yield f"involvedObject.name={owner.name}"
    yield f"involvedObject.kind={owner.kind}"
    if owner.uid and not owner.uid.startswith(UID_FROM_MANIFEST):
        yield f"involvedObject.uid={owner.uid}"
    yield "type=Warning"


def _refused_by(owner: Controller, events: Iterable[_Event]) -> Iterator[Refused]:
    by_reason: dict[str, list[_Event]] = {}
    for event in events:
        if _CANNOT_CREATE.search(event.reason):
            by_reason.setdefault(event.reason, []).append(event)
    for reason, found in by_reason.items():
        last = max(found, key=lambda e: (e.at, e.message))
        yield Refused(owner, reason, last.message, sum(e.times for e in found), last.at)


def _seconds(time: str | None) -> float:
    try:
        return parse_time(time, "") if time else 0.0
    except FieldError:
        return 0.0
