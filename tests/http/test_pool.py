"""Small requests over kept connections: every shape of an answer, and every way not to get one."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gangsched.http.http1 import Answer
from gangsched.http.pool import Pool
from tests.controlplane.client import wait_until

#: The answer in pieces, sent one after another; None closes the connection.
Script = list[bytes | None]

PLAIN = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: t\r\n\r\n"


class Server:
    """Answers each request with the next script; ``seen`` has the requests, ``connections`` counts."""

    def __init__(self, *scripts: Script) -> None:
        self.scripts = list(scripts)
        self.seen: list[bytes] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                self.seen.append(head + await reader.readexactly(length))
                for piece in self.scripts.pop(0):
                    if piece is None:
                        return
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def pool_of(server: Server) -> AsyncIterator[Pool]:
    """A pool for a running server."""
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    pool = Pool(f"http://127.0.0.1:{port}/base", None, None, "test/1")
    try:
        yield pool
    finally:
        pool.close()
        listening.close()
        await asyncio.sleep(0.01)


async def ask(pool: Pool, seconds: float = 5.0, body: bytes | None = b"{}") -> Answer:
    """One request."""
    return await pool.request("POST", "/path?x=y", {"Authorization": "Bearer t"}, body, time.monotonic() + seconds)


async def test_requests_are_complete_and_share_a_connection() -> None:
    """What is sent is HTTP with the given headers; the next request uses the same connection."""
    server = Server([PLAIN], [CHUNKED])
    async with pool_of(server) as pool:
        assert (await ask(pool)).body == b"{}"
        assert (await ask(pool, body=None)).body == b"abcde"
    head, _, body = server.seen[0].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /base/path?x=y HTTP/1.1"
    assert {b"Authorization: Bearer t", b"Content-Length: 2", b"User-Agent: test/1"} <= set(lines)
    assert b"Accept-Encoding: identity" in lines  # what else comes back is not read
    assert body == b"{}"
    assert server.connections == 1


async def test_connections_that_were_opened_ahead_are_used() -> None:
    """Requests at once find the connections that were opened for them, and the one that was kept."""
    scripts: list[Script] = [[PLAIN]] * 4
    server = Server(*scripts)
    async with pool_of(server) as pool:
        await ask(pool)
        await pool.warm(3)
        await asyncio.gather(*(ask(pool) for _ in range(3)))
    assert server.connections == 3


async def test_connections_that_the_server_has_closed_are_not_counted() -> None:
    """What is kept and dead is no connection for the next request."""
    server = Server([PLAIN, None])
    async with pool_of(server) as pool:
        await ask(pool)
        await wait_until(lambda: not any(each.open for each in pool._idle))
        await pool.warm(1)
        assert sum(each.open for each in pool._idle) == 1


async def test_connections_that_cannot_be_opened_ahead_are_no_failure() -> None:
    """The request that needs one says what is wrong."""
    pool = Pool("http://127.0.0.1:1", None, None, "test/1")
    await pool.warm(2)
    with pytest.raises(ConnectionRefusedError):
        await ask(pool)


@pytest.mark.parametrize(
    "script",
    [[b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"], [PLAIN + b"surplus"], [PLAIN, None]],
    ids=["close is announced", "more than was asked for", "closed afterwards"],
)
async def test_a_connection_that_is_no_good_is_not_used_again(script: Script) -> None:
    """The answer counts, and the next request opens another connection."""
    server = Server(script, [PLAIN])
    async with pool_of(server) as pool:
        assert (await ask(pool)).status in (200, 201)
        await asyncio.sleep(0.02)
        assert (await ask(pool)).status == 201
    assert server.connections == 2


@pytest.mark.parametrize(
    "script",
    [[None], [PLAIN[:30], None], [CHUNKED[:60], None], [b"SSH-2.0\r\n\r\n"], [b"HTTP/1.1 200 OK\r\n\r\n"]],
    ids=["nothing", "half a head", "half a body", "not HTTP", "no length"],
)
async def test_no_answer_is_an_os_error(script: Script) -> None:
    """Whoever asked learns that there was none; it may have taken effect nevertheless."""
    server = Server(script, [PLAIN])
    async with pool_of(server) as pool:
        with pytest.raises(OSError, match=r"closed before|not HTTP"):
            await ask(pool)
        assert (await ask(pool)).status == 201


async def test_an_answer_that_comes_too_late_is_not_taken_for_that_of_the_next_request() -> None:
    """After a deadline the connection is cut."""
    server = Server([], [PLAIN])
    async with pool_of(server) as pool:
        with pytest.raises(TimeoutError):
            await ask(pool, seconds=0.05)
        assert (await ask(pool)).status == 201
    assert server.connections == 2


async def test_nothing_is_sent_after_the_deadline() -> None:
    """A deadline that has passed before the request is written keeps it from being written."""
    server = Server([PLAIN])
    async with pool_of(server) as pool:
        with pytest.raises(TimeoutError):
            await ask(pool, seconds=-1.0)
        await asyncio.sleep(0.02)
    assert server.seen == []


@pytest.mark.parametrize("kept", [False, True], ids=["on a new connection", "on a kept one"])
async def test_nothing_is_sent_behind_the_fence(kept: bool) -> None:
    """The fence is asked when the connection is there: what it says then decides, not what it said before."""
    server = Server([PLAIN], [PLAIN])
    asked: list[int] = []

    def fence() -> float:
        asked.append(server.connections)
        return time.monotonic() - 0.001

    async with pool_of(server) as pool:
        if kept:
            await ask(pool)
        with pytest.raises(TimeoutError):
            await pool.request("POST", "/path", {}, b"{}", time.monotonic() + 5.0, fence=fence)
        await asyncio.sleep(0.02)
    assert len(asked) == 1
    assert len(server.seen) == int(kept)


async def test_a_connection_on_which_nothing_was_sent_is_kept() -> None:
    """The fence has kept a request back: the next one needs no connection of its own."""
    server = Server([PLAIN], [PLAIN])
    times = iter((-math.inf, math.inf, -math.inf, math.inf))
    async with pool_of(server) as pool:
        for _ in range(4):
            with contextlib.suppress(TimeoutError):
                await pool.request("POST", "/path", {}, b"{}", time.monotonic() + 5.0, fence=lambda: next(times))
    assert (len(server.seen), server.connections) == (2, 1)


@pytest.mark.parametrize(
    ("end_seconds", "fence_seconds", "least_ms", "most_ms"), [(60.0, 5.0, 2000, 5000), (5.0, math.inf, 2000, 5000)]
)
async def test_the_server_is_told_what_is_left(
    end_seconds: float, fence_seconds: float, least_ms: int, most_ms: int
) -> None:
    """Its deadline is counted from the sending, and is the fence if that comes before our own."""
    server = Server([PLAIN])
    now = time.monotonic()
    async with pool_of(server) as pool:
        await pool.request(
            "POST", "/path?x=y", {}, b"{}", now + end_seconds, fence=lambda: now + fence_seconds, server_timeout=True
        )
    target = server.seen[0].split(b" ", 2)[1].decode()
    assert target.startswith("/base/path?x=y&timeout=")
    assert least_ms <= int(target.removesuffix("ms").rpartition("=")[2]) <= most_ms
