"""What happens when a task of the controllers ends, and what kopf gets to read."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator
from typing import Any, cast

import aiohttp
import pytest
from structlog.testing import capture_logs

from gangsched.cluster.kube.client import ApiError, Client, UnreachableError
from gangsched.cluster.kube.discovery import Served
from gangsched.controllers import operator
from gangsched.controllers.handlers import Response, Session
from tests.cluster.kube.deep import deep


class Connection:
    """Of a server that is never asked for anything."""

    def pool(self) -> Connection:
        return self

    async def aclose(self) -> None:
        """There is nothing to close."""


@pytest.mark.parametrize("error", [ValueError("not JSON"), None], ids=["error", "return"])
def test_a_writer_that_ends_is_told_of_and_starts_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    """Statuses do not stop for ever, unseen, whatever ends the task that writes them."""

    async def connection(*_: Any) -> Connection:
        return Connection()

    async def nothing(*_: Any) -> frozenset[Served]:
        return frozenset()

    runs, again = 0, threading.Event()

    async def run() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            if error is not None:
                raise error
            return
        again.set()
        await asyncio.sleep(3600)

    monkeypatch.setattr(operator, "load_connection", connection)
    monkeypatch.setattr(operator, "discover", nothing)
    monkeypatch.setattr(operator, "RESTART_SECONDS", 0.0)
    controllers = operator.GroupControllers(qps=5.0, burst=5)
    monkeypatch.setattr(controllers.writer, "run", run)
    with capture_logs() as log:
        controllers.start()
        try:
            assert again.wait(30.0)
        finally:
            controllers.stop()
    assert [each["log_level"] for each in log if "started again" in each["event"]] == ["error"]


def test_the_end_waits_for_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter that ends while a thread of it imports compiled code may crash, and the exit code says so."""
    begun, go_on = threading.Event(), threading.Event()

    async def serve() -> None:
        begun.set()
        go_on.wait()

    controllers = operator.GroupControllers(qps=5.0, burst=5)
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


BASE = "https://cluster.example/base"


class Server:
    """As much of a client as a session needs: it answers everything with these lines, or an error."""

    def __init__(self, *lines: bytes, error: Exception | None = None) -> None:
        self.connection = self.bucket = self
        self.server = BASE
        self.lines = lines
        self.error = error
        self.asked: list[tuple[str, dict[str, str]]] = []

    async def take(self) -> None:
        """A token is always there."""

    async def attempt(self, _method: str, path: str, *, query: dict[str, str], **_: Any) -> bytes:
        self.asked.append((path, query))
        if self.error is not None:
            raise self.error
        return b"".join(self.lines)

    async def watch_lines(self, path: str, query: dict[str, str], version: str) -> AsyncGenerator[list[bytes], None]:
        yield [await self.attempt("GET", path, query={**query, "version": version})][:0]
        yield list(self.lines)
        raise UnreachableError("it broke")


async def answer(server: Server, url: str = f"{BASE}/apis/x") -> Response:
    """Of the session to a request of kopf."""
    return await Session(cast("Client", server)).request(
        method="get", url=url, timeout=aiohttp.ClientTimeout(total=9.0)
    )


async def test_kopf_reads_nothing_too_deep() -> None:
    """Lists and frames of a watch are read by the standard library, whatever a user has stored."""
    group = b'{"type":"ADDED","object":{"name":"a","f:\xff":%s}}' % deep()
    found = await (await answer(Server(b'{"items":[', group, b"]}"))).json()
    assert found["items"][0]["object"]["name"] == "a"
    server = Server(group, group)
    stream = await answer(server, "/apis/x?watch=true&resourceVersion=7&allowWatchBookmarks=true")
    lines = stream.content.iter_chunked(1024)
    assert [json.loads(await anext(lines))["object"]["name"] for _ in range(2)] == ["a", "a"]
    with pytest.raises(aiohttp.ClientConnectionError, match="it broke"):
        await anext(lines)
    assert server.asked == [("/apis/x", {"version": "7"})]


@pytest.mark.parametrize("query", ["", "?watch=true&resourceVersion=7"])
async def test_refusals_are_told_as_kopf_expects_them(query: str) -> None:
    """By status and Status object, and no answer as an error of the connection."""
    server = Server(error=ApiError(429, "TooManyRequests", "later", (), 3.0))
    refused = await answer(server, f"/apis/x{query}")
    assert (refused.status, refused.headers) == (429, {"Retry-After": "3.0"})
    assert (await refused.json())["message"] == "later"
    with pytest.raises(aiohttp.ClientResponseError):
        refused.raise_for_status()
    server.error = UnreachableError("gone")
    with pytest.raises(aiohttp.ClientConnectionError, match="gone"):
        await answer(server, f"/apis/x{query}")
