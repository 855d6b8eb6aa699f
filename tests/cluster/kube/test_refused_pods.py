"""What the Events of controllers say about pods that could not be created."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from gangsched.cluster.kube.client import ApiError, Client
from gangsched.cluster.kube.refused_pods import Controller, refused

JOB = Controller("Job", "d", "train", "u-1")


class Server:
    """Answers with these Events, or with an error, and keeps what it was asked."""

    def __init__(self, *events: Mapping[str, Any], error: ApiError | None = None) -> None:
        self.body = msgspec.json.encode({"items": events})
        self.error = error
        self.asked: list[tuple[str, Mapping[str, str]]] = []

    async def get(self, path: str, query: Mapping[str, str], **_: object) -> bytes:
        """What the client does."""
        self.asked.append((path, query))
        if self.error is not None:
            raise self.error
        return self.body

    @property
    def client(self) -> Client:
        """As a client."""
        return cast("Client", self)


def event(reason: str, message: str, **fields: Any) -> Mapping[str, Any]:
    """An Event as the API server sends it, with nulls."""
    return {"reason": reason, "message": message, "count": None, "lastTimestamp": None, "eventTime": None, **fields}


async def test_the_last_of_each_reason() -> None:
    """Of many Events of one reason the newest is told, with how often there was one."""
    server = Server(
        event("FailedCreate", "old", count=3, lastTimestamp="2026-01-01T00:00:00Z"),
        event("FailedCreate", "new", lastTimestamp="2026-01-01T00:01:00Z"),
        event("BackoffLimitExceeded", "another matter", lastTimestamp="2026-01-01T00:02:00Z"),
    )
    (found,) = await refused(server.client, [JOB, JOB])
    assert (found.note, found.times, found.at > 0, found.unread) == ("new", 4, True, False)
    ((path, query),) = server.asked
    assert path == "/api/v1/namespaces/d/events"
    assert (
        query["fieldSelector"]
        == "involvedObject.name=train,involvedObject.kind=Job,involvedObject.uid=u-1,type=Warning"
    )


async def test_reasons_of_other_controllers() -> None:
    """Operators have words of their own for it, and newer Events count in a series."""
    server = Server(
        event("FailedToCreateWorkerPod", "ray"),
        event("FailedCreatePod", "kubeflow", series={"count": 7, "lastObservedTime": "2026-01-01T00:00:00.5Z"}),
        event("JobCreationFailed", "jobset"),
        event("Unhealthy", "no"),
    )
    found = await refused(server.client, [JOB])
    assert {(each.note, each.times) for each in found} == {("ray", 1), ("kubeflow", 7), ("jobset", 1)}
    assert found[0].note == "kubeflow"


async def test_events_that_cannot_be_read() -> None:
    """Whose rights do not reach so far learns that, and all else is answered."""
    server = Server(error=ApiError(403, "Forbidden", "events is forbidden"))
    (found,) = await refused(server.client, [JOB])
    assert found.unread
    assert "its Events cannot be read" in found.note
