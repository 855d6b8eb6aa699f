"""What happens when a task of the controllers ends, and what kopf gets to read."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any, cast

import aiohttp
import pytest
from structlog.testing import capture_logs

from gangsched.controllers import operator
from gangsched.controllers.api import Served
from gangsched.controllers.responses import Response
from tests.cluster.kube.deep import deep


class Connection:
    """Of a server that is never asked for anything."""

    def http(self) -> Connection:
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


class Answer:
    """As much of a response as is read."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = chunks
        self.content = self
        self.status = 200

    async def read(self) -> bytes:
        return b"".join(self.chunks)

    async def iter_chunked(self, _size: int) -> AsyncIterator[bytes]:
        for each in self.chunks:
            yield each


def response(*chunks: bytes) -> Response:
    """With this body."""
    return Response(cast("aiohttp.ClientResponse", Answer(*chunks)))


async def test_kopf_reads_nothing_too_deep() -> None:
    """Lists and frames of a watch are read by the standard library, whatever a user has stored."""
    group = b'{"type":"ADDED","object":{"name":"a","f:\xff":%s}}' % deep()
    found = await response(b'{"items":[', group, b"]}").json()
    assert found["items"][0]["object"]["name"] == "a"
    stream = response(group[:50], group[50:] + b"\n" + group, b'\n{"cut')
    lines = b"".join([chunk async for chunk in stream.content.iter_chunked(1024)]).splitlines()
    assert [json.loads(line)["object"]["name"] for line in lines] == ["a", "a"]
    assert stream.status == 200


async def test_what_is_no_json_is_told_as_kopf_expects_it() -> None:
    """It asks for the text then, which may be any bytes."""
    with pytest.raises(json.JSONDecodeError):
        await response(b"caf\xe9").json()
    assert await response(b"caf\xe9").text() == "caf�"
