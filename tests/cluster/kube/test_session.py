"""Requests over kept connections: when they leave, what is kept, and every way not to get an answer."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import struct
import time
from functools import partial

import pytest

from gangsched.cluster.kube.session import KEEPALIVE_IDLE_SECONDS, Answer, Session, _socket
from tests.cluster.kube.scripted import Script, Server, session_of
from tests.controlplane.client import wait_until

PLAIN = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
EVIL = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: t\r\n\r\n"


async def ask(session: Session, seconds: float = 5.0, body: bytes | None = b"{}") -> Answer:
    """One request."""
    return await session.request("POST", "/path?x=y", {"Authorization": "Bearer t"}, body, time.monotonic() + seconds)


async def test_requests_are_complete_and_share_a_connection() -> None:
    """What is sent is HTTP with the given headers; the next request uses the same connection."""
    server = Server([PLAIN], [CHUNKED])
    async with session_of(server) as session:
        assert (await ask(session)).body == b"{}"
        assert (await ask(session, body=None)).body == b"abcde"
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
    async with session_of(server) as session:
        await ask(session)
        await session.warm(3)
        await asyncio.gather(*(ask(session) for _ in range(3)))
    assert server.connections == 3


async def test_connections_that_the_server_has_closed_are_not_used() -> None:
    """What is kept and dead is no connection for the next request."""
    server = Server([PLAIN, None], [PLAIN])
    async with session_of(server) as session:
        await ask(session)
        await wait_until(lambda: server.closed == 1)
        await asyncio.sleep(0.01)
        assert (await ask(session)).status == 201
    assert server.connections == 2


async def test_connections_that_cannot_be_opened_ahead_are_no_failure() -> None:
    """The request that needs one says what is wrong."""
    session = Session("http://127.0.0.1:1", None, None, "test/1", None)
    await session.warm(2)
    with pytest.raises(OSError, match="Cannot connect"):
        await ask(session)
    await session.aclose()


@pytest.mark.parametrize(
    "script",
    [[b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"], [PLAIN + EVIL], [PLAIN, None]],
    ids=["close is announced", "more than was asked for", "closed afterwards"],
)
async def test_a_connection_that_is_no_good_is_not_used_again(script: Script) -> None:
    """The answer counts, and the next request opens another connection."""
    server = Server(script, [PLAIN])
    async with session_of(server) as session:
        assert (await ask(session)).status in (200, 201)
        await asyncio.sleep(0.02)
        assert (await ask(session)).status == 201
    assert server.connections == 2


async def test_an_answer_that_nobody_asked_for_is_not_taken_for_the_next() -> None:
    """Bytes that come while a connection is idle end it: they would be read as the answer to what is sent next."""
    server = Server([PLAIN], [PLAIN])
    async with session_of(server) as session:
        await ask(session)
        server.writers[0].write(EVIL)
        await asyncio.sleep(0.02)
        assert (await ask(session)).body == b"{}"
    assert server.connections == 2


@pytest.mark.parametrize("method", ["PUT", "DELETE", "GET"])
async def test_nothing_is_sent_twice(method: str) -> None:
    """What got no answer on a kept connection may have taken effect: whoever asked decides about a second time."""
    server = Server([PLAIN], [None], [PLAIN])
    async with session_of(server) as session:
        await ask(session)
        with pytest.raises(ConnectionError, match="closed before"):
            await session.request(method, "/path", {}, b"{}", time.monotonic() + 5.0)
    assert len(server.seen) == 2


async def test_credentials_go_nowhere_else() -> None:
    """An API server does not send its clients to others: who says so gets no second request."""
    server = Server([b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"])
    async with session_of(server) as session:
        assert (await ask(session)).status == 302
    assert len(server.seen) == 1


async def test_a_header_is_one_line() -> None:
    """A line break in a value would make two headers of one; nothing is sent then."""
    server = Server([PLAIN])
    async with session_of(server) as session:
        with pytest.raises(ValueError, match="header"):
            await session.request("GET", "/", {"A": "b\r\nImpersonate-User: c"}, None, time.monotonic() + 5.0)
    assert server.seen == []


async def test_a_peer_that_is_gone_is_found_out() -> None:
    """TCP asks a silent peer for signs of life, and a connection that was given up sends nothing any more."""
    made = _socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 0)))
    with made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == KEEPALIVE_IDLE_SECONDS
        assert struct.unpack("ii", made.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)) == (1, 0)


@pytest.mark.parametrize(
    "script",
    [[None], [PLAIN[:30], None], [CHUNKED[:60], None], [b"SSH-2.0\r\n\r\n"], [b"HTTP/1.1 200 OK\r\n\r\n"]],
    ids=["nothing", "half a head", "half a body", "not HTTP", "no length"],
)
async def test_no_answer_is_an_os_error(script: Script) -> None:
    """Whoever asked learns that there was none; it may have taken effect nevertheless."""
    server = Server(script, [PLAIN])
    async with session_of(server) as session:
        with pytest.raises(OSError, match=r"closed before|not HTTP|length"):
            await ask(session)
        assert (await ask(session)).status == 201


async def test_an_answer_that_comes_too_late_is_not_taken_for_that_of_the_next_request() -> None:
    """After a deadline the connection is cut."""
    server = Server([], [PLAIN])
    async with session_of(server) as session:
        with pytest.raises(TimeoutError):
            await ask(session, seconds=0.05)
        assert (await ask(session)).status == 201
    assert server.connections == 2


async def test_nothing_is_sent_after_the_deadline() -> None:
    """A deadline that has passed before the request is written keeps it from being written."""
    server = Server([PLAIN])
    async with session_of(server) as session:
        with pytest.raises(TimeoutError):
            await ask(session, seconds=-1.0)
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

    async with session_of(server) as session:
        if kept:
            await ask(session)
        with pytest.raises(TimeoutError):
            await session.request("POST", "/path", {}, b"{}", time.monotonic() + 5.0, fence=fence)
        await asyncio.sleep(0.02)
    assert asked[-1] == 1  # when there was a connection
    assert len(server.seen) == int(kept)


async def test_the_fence_is_asked_when_the_bytes_are_about_to_leave() -> None:
    """A process that was stopped with its connection at hand sends neither head nor body when it goes on."""
    server = Server([PLAIN])
    answers = iter((math.inf,))
    async with session_of(server) as session:
        with pytest.raises(TimeoutError):
            await session.request(
                "POST", "/path", {}, b"{}", time.monotonic() + 5.0, fence=lambda: next(answers, -math.inf)
            )
        await asyncio.sleep(0.02)
    assert (server.seen, server.connections) == ([], 1)


async def test_no_request_outlives_its_fence() -> None:
    """An answer is waited for until the fence, if that is before the deadline."""
    server = Server([])
    async with session_of(server) as session:
        until = time.monotonic() + 0.2
        with pytest.raises(TimeoutError):
            await session.request("POST", "/path", {}, b"{}", math.inf, fence=lambda: until)
    assert len(server.seen) == 1


async def test_a_connection_on_which_nothing_was_sent_is_kept() -> None:
    """The fence has kept a request back: the next one needs no connection of its own."""
    server = Server([PLAIN], [PLAIN])
    async with session_of(server) as session:
        for until in (-math.inf, math.inf, -math.inf, math.inf):
            fence = partial(float, until)
            with contextlib.suppress(TimeoutError):
                await session.request("POST", "/path", {}, b"{}", time.monotonic() + 5.0, fence=fence)
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
    async with session_of(server) as session:
        await session.request(
            "POST", "/path?x=y", {}, b"{}", now + end_seconds, fence=lambda: now + fence_seconds, server_timeout=True
        )
    target = server.seen[0].split(b" ", 2)[1].decode()
    assert target.startswith("/base/path?x=y&timeout=")
    assert least_ms <= int(target.removesuffix("ms").rpartition("=")[2]) <= most_ms
