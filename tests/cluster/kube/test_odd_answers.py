"""Answers with status 200 that are not what was asked for, or too deep: nothing ends, and nothing is forgotten."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from gangsched.cluster.kinds import CORE_KINDS
from gangsched.cluster.kube.bodies import Request
from gangsched.cluster.kube.client import ApiError, Client, UnreachableError
from gangsched.cluster.kube.discovery import served_resources
from gangsched.cluster.kube.job_writes import look_at_job, read_job
from gangsched.cluster.kube.lease import Elector, LeaseSettings
from gangsched.cluster.kube.reflector import Reflector
from gangsched.core.actions import JobRef, SuspendJob
from gangsched.core.events import Event, Gone, KindRead, records
from gangsched.model.convert import Converter
from gangsched.model.records import Pod
from tests.builders import OURS
from tests.cluster.kube.deep import with_deep

GARBAGE = [b"<html>", b"[]", b"\xff", b'{"metadata":5,"spec":5,"items":5}']


class Answers(Client):
    """Every request is answered by the same body; a watch by silence."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def attempt(self, *_: Any, **__: Any) -> bytes:
        return self.body

    async def get(self, *_: Any, **__: Any) -> bytes:
        return self.body

    async def watch_lines(self, *_: Any, **__: Any) -> AsyncGenerator[list[bytes], None]:
        yield []
        await asyncio.sleep(3600)


async def turns_until(condition: Callable[[], object]) -> None:
    """Let other tasks go on until something is so."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("never")


def a_list(*names: str, kind: str = "PodList", version: str = "10") -> bytes:
    """A page with pods of these names."""
    items = [{"metadata": {"namespace": "ns", "name": n, "uid": f"u-{n}", "resourceVersion": "5"}} for n in names]
    return json.dumps({"kind": kind, "metadata": {"resourceVersion": version}, "items": items}).encode()


@pytest.mark.parametrize(
    "answer",
    [
        b"{}",
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}',
        b'{"kind":"NodeList","metadata":{"resourceVersion":"11"},"items":null}',
        b'{"kind":"PodList","metadata":{"resourceVersion":"11"}}',
        a_list("b", version=""),
        b"<html>",
        b'{"kind":"PodList\xff"}',
    ],
    ids=["empty object", "status", "other kind", "no items", "no version", "no JSON", "no text"],
)
async def test_what_is_no_list_of_pods_takes_no_pod_away(answer: bytes) -> None:
    """All that was known stays, the trouble is shown, and the next good list brings exactly what has changed."""
    server, events = Answers(a_list("a", "b")), list[Event]()
    pods = next(each for each in CORE_KINDS if each.plural == "pods")
    reflector = Reflector(pods, server, Converter(), events.extend)
    running = asyncio.create_task(reflector.run())
    try:
        await reflector.listed.wait()
        server.body = answer
        asked = asyncio.create_task(reflector.refresh())
        await turns_until(lambda: reflector.problem)
        assert [e.name for e in records(events, Pod)] == ["a", "b"]
        assert [e for e in events if not isinstance(e, KindRead)] == events[:2]
        server.body = a_list("b")
        await reflector.refresh()
        await asked
        assert [e for e in events[2:] if not isinstance(e, KindRead)] == [Gone("Pod", "ns", "a", "u-a")]
        assert reflector.problem == ""
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_an_empty_list_is_one() -> None:
    """A server in Go writes null for a list without items: then there is nothing."""
    server, events = Answers(a_list("a")), list[Event]()
    reflector = Reflector(
        next(each for each in CORE_KINDS if each.plural == "pods"), server, Converter(), events.extend
    )
    await reflector._list()
    server.body = b'{"kind":"PodList","metadata":{"resourceVersion":"11"},"items":null}'
    await reflector._list()
    assert [e for e in events[1:] if not isinstance(e, KindRead)] == [Gone("Pod", "ns", "a", "u-a")]


@pytest.mark.parametrize("garbage", [*GARBAGE, b'{"kind":"APIGroupList","groups":[]}', b'{"items":[]}'])
async def test_discovery_without_an_answer(garbage: bytes) -> None:
    """What is served is not known then, rather than nothing."""
    with pytest.raises(UnreachableError, match="not what was asked for"):
        await served_resources(Answers(garbage))


JOB = JobRef("ns", "j", "u-j")
SUSPEND = SuspendJob(1, JOB, "1", OURS, "ns/other", "plan")
REQUEST = Request("PATCH", "/", b"{}")


@pytest.mark.parametrize("garbage", GARBAGE)
async def test_a_job_that_does_not_answer(garbage: bytes) -> None:
    """The write is tried again as it was; nothing is concluded from an answer that nobody understands."""
    conflict = ApiError(409, "Conflict", "changed")
    assert await look_at_job(Answers(garbage), 1.0, SUSPEND, REQUEST, conflict) == (None, REQUEST)


async def test_a_job_that_is_too_deep() -> None:
    """It is looked at and read like any other."""
    body = {"metadata": {"name": "j", "uid": "u-j", "resourceVersion": "7"}, "spec": {"suspend": True}}
    server = Answers(with_deep(body))
    verdict, _ = await look_at_job(server, 1.0, SUSPEND, REQUEST, ApiError(409, "Conflict", "changed"))
    assert verdict is not None
    assert (await read_job(server, 1.0, JOB))["spec"] == {"suspend": True}


async def test_a_lease_that_is_too_deep() -> None:
    """Whoever may write the lease cannot end those who stand for election: it is read, and can be written again."""
    server = Answers(with_deep({"metadata": {"name": "l"}, "spec": {"holderIdentity": "b"}}))

    async def started() -> None:
        """Nothing to do."""

    elector = Elector(
        server, LeaseSettings(namespace="ns", name="l", identity="a"), on_started=started, on_stopped=lambda: None
    )
    lease = await elector._get()
    assert lease is not None
    assert lease.spec.holder_identity == "b"
    assert b'"holderIdentity":"a"' in lease.with_spec(holderIdentity="a")
