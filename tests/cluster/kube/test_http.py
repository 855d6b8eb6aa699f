"""Answers that last, with a proxy in between and without: the same comes out of both ways to send requests."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import pytest

from gangsched.cluster.kube.connection import load_connection
from gangsched.cluster.kube.http1 import TooLargeError
from gangsched.cluster.kube.pool import Http
from gangsched.cluster.kube.proxied import Proxied

#: The answer in pieces, sent one after another; None closes the connection, and at its end it stays open.
Script: TypeAlias = Iterable[bytes | None]
Open: TypeAlias = Callable[[Script], contextlib.AbstractAsyncContextManager[Http]]

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Word: here\r\n\r\n"
LASTING = [HEAD, b"3\r\nabc\r\n", b"2\r\n", b"de\r\n"]
REFUSED = [b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\n", b"no"]


@contextlib.asynccontextmanager
async def _server(script: Script) -> AsyncIterator[str]:
    """Answers every request with the script; its address."""
    writers = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                for piece in script:
                    if piece is None:
                        writer.close()
                        return
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        for writer in writers:
            writer.close()
        listening.close()


@pytest.fixture(params=["direct", "proxy"])
def reach(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """What sends requests to a server with this script: directly, or through a proxy (which the server then plays)."""

    @contextlib.asynccontextmanager
    async def open_to(script: Script) -> AsyncIterator[Http]:
        async with _server(script) as address:
            server, more = f"http://{address}", ""
            if request.param == "proxy":
                server, more = "http://cluster.example:80", f", proxy-url: 'http://{address}'"
            file = tmp_path / "config"
            file.write_text(
                "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
                "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
                f"clusters: [{{name: k, cluster: {{server: '{server}'{more}}}}}]\n"
                "users: [{name: u, user: {token: t}}]\n"
            )
            http = (await load_connection(file)).http()
            assert isinstance(http, Proxied) == (request.param == "proxy")
            try:
                yield http
            finally:
                await http.aclose()

    return open_to


async def _follow(http: Http, silence_seconds: float = 60.0) -> tuple[int, str | None, bytes]:
    async with http.stream("/watch?a=b", {"X-Token": "t"}, silence_seconds) as answer:
        body = b"".join([chunk async for chunk in answer.chunks])
        return answer.status, answer.headers.get("x-word"), body


async def test_a_lasting_answer_to_its_end(reach: Open) -> None:
    """The body comes without the marks between its chunks, and ends where the server says so."""
    async with reach([*LASTING, b"0\r\n\r\n"]) as http:
        assert await _follow(http) == (200, "here", b"abcde")


async def test_an_answer_that_is_no_stream(reach: Open) -> None:
    """A refusal comes with its text."""
    async with reach(REFUSED) as http:
        assert await _follow(http) == (403, None, b"no")


async def test_pieces_come_as_they_arrive(reach: Open) -> None:
    """Nothing waits for the end of the answer."""
    async with reach(LASTING) as http, http.stream("/watch", {}, 60.0) as answer:
        got = b""
        async for chunk in answer.chunks:
            got += chunk
            if got == b"abcde":
                break
        assert answer.status == 200


@pytest.mark.parametrize("script", [[None], [HEAD, None], [*LASTING, None]], ids=["at once", "after head", "within"])
async def test_a_connection_that_breaks(reach: Open, script: Script) -> None:
    """It is an error, and not the end of the answer."""
    async with reach(script) as http:
        with pytest.raises(ConnectionError):
            await _follow(http)


@pytest.mark.parametrize("script", [[], [HEAD], LASTING], ids=["before head", "after head", "within"])
async def test_silence(reach: Open, script: Script) -> None:
    """Who hears nothing for too long gives up, whatever came before."""
    async with reach(script) as http:
        with pytest.raises(TimeoutError):
            await _follow(http, silence_seconds=0.05)


async def test_a_head_that_goes_on_and_on_is_silence(reach: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that come all the time do not keep anybody waiting for an answer that does not begin."""
    monkeypatch.setattr("gangsched.cluster.kube.proxied.CONNECT_SECONDS", 0.0)
    async with reach(itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n")) as http:
        async with asyncio.timeout(20.0) as test:
            with contextlib.suppress(TimeoutError):
                await _follow(http, silence_seconds=0.05)
        assert not test.expired()


@pytest.mark.parametrize(
    "script",
    [[*LASTING, b"0\r\n\r\n"], [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", b"abcde"]],
    ids=["in chunks", "with a length"],
)
async def test_an_answer_that_is_too_large(reach: Open, script: Script) -> None:
    """It is not read to its end, and the next request gets its own answer."""
    async with reach(script) as http:
        for most in (4, 5):
            answer = http.request("GET", "/things", {}, None, time.monotonic() + 60.0, max_bytes=most)
            if most == 5:
                assert (await answer).body == b"abcde"
                continue
            with pytest.raises(TooLargeError):
                await answer


async def test_what_is_no_http(reach: Open) -> None:
    """An answer in another protocol is an error of the connection."""
    async with reach([b"SSH-2.0-OpenSSH_9.9\r\n\r\n"]) as http:
        with pytest.raises(ConnectionError):
            await _follow(http)


async def test_one_request(reach: Open) -> None:
    """Status, headers in lower case, and body, of a write and of a read."""
    async with reach([*LASTING, b"0\r\n\r\n"]) as http:
        for method, body in (("POST", b"{}"), ("GET", None)):
            answer = await http.request(method, "/things", {}, body, time.monotonic() + 60.0)
            assert (answer.status, answer.headers["x-word"], answer.body) == (200, "here", b"abcde")


async def test_a_write_after_its_fence(reach: Open) -> None:
    """It is not sent, and its caller is told that time is up."""
    async with reach(REFUSED) as http:
        with pytest.raises(TimeoutError):
            await http.request("POST", "/things", {}, b"{}", math.inf, fence=lambda: time.monotonic() - 1.0)
