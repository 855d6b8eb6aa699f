"""What happens when a task of the controllers ends, and what kopf gets to read."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator
from typing import Any, cast

import aiohttp
import pytest
from structlog.testing import capture_logs

from gangsched.cluster.kube import client as client_module
from gangsched.cluster.kube.client import Client
from gangsched.cluster.kube.discovery import Served
from gangsched.cluster.kube.retry import TokenBucket
from gangsched.cluster.kube.session import Session as RequestSession
from gangsched.cluster.kube.statuses import Statuses
from gangsched.controllers import handlers, operator
from gangsched.controllers.handlers import session_of
from tests.cluster.kube.deep import deep
from tests.cluster.kube.scripted import Server, listening


class Connection:
    """Of a server that is never asked for anything."""

    def session(self) -> Connection:
        return self

    async def aclose(self) -> None:
        """There is nothing to close."""


@pytest.mark.parametrize("error", [ValueError("not JSON"), None], ids=["error", "return"])
def test_a_watch_that_ends_is_told_of_and_starts_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    """Statuses do not stop for ever, unseen, whatever ends the task that sees their objects."""

    async def connection(*_: Any) -> Connection:
        return Connection()

    async def served(*_: Any) -> frozenset[Served]:
        return frozenset({Served("batch", "v1", True, "jobs")})

    runs, again = 0, threading.Event()

    async def observe(*_: Any) -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            if error is not None:
                raise error
            return
        again.set()
        await asyncio.sleep(3600)

    monkeypatch.setattr(operator, "load_connection", connection)
    monkeypatch.setattr(operator, "discover", served)
    monkeypatch.setattr(operator, "RESTART_SECONDS", 0.0)
    monkeypatch.setattr(handlers, "observe", observe)
    controllers = operator.GroupControllers(Statuses())
    with capture_logs() as log:
        controllers.start()
        try:
            assert again.wait(30.0)
        finally:
            controllers.stop()
    assert [each["log_level"] for each in log if "started again" in each["event"]] == ["warning"]


def test_the_end_waits_for_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter that ends while a thread of it imports compiled code may crash, and the exit code says so."""
    begun, go_on = threading.Event(), threading.Event()

    async def serve() -> None:
        begun.set()
        go_on.wait()

    controllers = operator.GroupControllers(Statuses())
    monkeypatch.setattr(controllers, "_serve", serve)
    controllers.start()
    assert begun.wait(30.0)
    ending = threading.Thread(target=controllers.stop)
    ending.start()
    ending.join(0.1)
    assert ending.is_alive()
    go_on.set()
    ending.join(30.0)
    assert not ending.is_alive()
    assert not controllers._thread.is_alive()


class Api:
    """A connection to a server, as much of it as a session needs."""

    at_hand = True

    def __init__(self, port: int) -> None:
        self.server = f"http://127.0.0.1:{port}"
        self.rejections = 0

    def session(self) -> RequestSession:
        return RequestSession(self.server, None, None, "test/1", None)

    async def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.rejections}"}

    async def rejected(self) -> None:
        self.rejections += 1


@contextlib.asynccontextmanager
async def kopfs(server: Server) -> AsyncIterator[tuple[Api, aiohttp.ClientSession]]:
    """What kopf is given to reach a server."""
    async with listening(server) as port:
        api = Api(port)
        client = Client(cast("Any", api), TokenBucket(100.0, 100))
        client.open()
        async with session_of(client) as session:
            yield api, session
        await client.close()


def whole(body: bytes, status: str = "200 OK", more: str = "") -> bytes:
    """An answer of JSON."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def test_kopf_reads_nothing_too_deep() -> None:
    """Lists and frames of a watch are read by the standard library, whatever a user has stored."""
    group = b'{"type":"ADDED","object":{"name":"a","f:\xff":%s}}' % deep()
    frame = b"%x\r\n%s\n\r\n" % (len(group) + 1, group)
    begin = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    server = Server([whole(b'{"items":[%s]}' % group)], [begin, frame, frame[:1000], frame[1000:], None])
    async with kopfs(server) as (api, session):
        async with session.get(f"{api.server}/apis/x") as answer:
            found = await answer.json()
        assert found["items"][0]["object"]["name"] == "a"
        async with session.get(f"{api.server}/apis/x?watch=true") as stream:
            lines = stream.content.iter_chunked(1024)
            assert [json.loads(await anext(lines))["object"]["name"] for _ in range(2)] == ["a", "a"]
            with pytest.raises(aiohttp.ClientError):
                await anext(lines)


async def test_kopf_reads_nothing_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list and a frame of a watch are limited in size."""
    monkeypatch.setattr(handlers, "MAX_PAGE_BYTES", 10)
    monkeypatch.setattr(client_module, "MAX_OBJECT_BYTES", 10)
    endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    server = Server([whole(b'{"items": []}')], [endless, *[b"5\r\nabcde\r\n"] * 3])
    async with kopfs(server) as (api, session):
        async with session.get(f"{api.server}/apis/x") as answer:
            with pytest.raises(aiohttp.ClientPayloadError, match="larger than 10 bytes"):
                await answer.json()
        async with session.get(f"{api.server}/apis/x?watch=true") as stream:
            with pytest.raises(aiohttp.ClientConnectionError, match="more than 10 bytes"):
                [_ async for _ in stream.content.iter_chunked(1024)]


async def test_kopf_has_our_credentials_and_no_others_see_them() -> None:
    """They are those of the moment, read again after a 401; a server that sends elsewhere is not followed."""
    elsewhere = whole(b"", "307 Temporary Redirect", "Location: /x\r\n")
    server = Server([whole(b"{}", "401 Unauthorized")], [whole(b"{}")], [elsewhere])
    async with kopfs(server) as (api, session):
        for status in (401, 200):
            async with session.get(f"{api.server}/apis/x") as answer:
                assert answer.status == status
        with pytest.raises(aiohttp.ClientConnectionError, match="does not redirect"):
            await session.get(f"{api.server}/apis/x")
    assert [b"Authorization: Bearer %d" % n in seen for n, seen in zip((0, 1, 1), server.seen, strict=True)] == [
        True
    ] * 3
    assert all(b"User-Agent: test/1" in seen for seen in server.seen)
