"""How much a server may say, and for how long it may say nothing whole, before it counts as no answer."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qs

import pytest

from gangsched.cluster.kube import client as client_module
from gangsched.cluster.kube.client import ApiError, Client, TooMuchError, UnreachableError, lines_of
from gangsched.cluster.kube.connection import Connection
from gangsched.cluster.kube.retry import TokenBucket
from gangsched.cluster.kube.session import MAX_OBJECT_BYTES, Answer, TooLargeError


class Response(NamedTuple):
    """An answer that lasts."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes] | None


class Server:
    """A connection, and the server at its end: it lists ``items``, and answers a watch with these chunks."""

    at_hand = True

    def __init__(self, items: list[str] | None = None, status: int = 200, chunks: AsyncIterator[bytes] | None = None):
        self.items = items or []
        self.status = status
        self.chunks = chunks
        self.limits: list[int] = []
        self.most: list[int] = []

    async def headers(self) -> dict[str, str]:
        """No credentials."""
        return {}

    def session(self) -> Server:
        """What requests are sent with."""
        return self

    async def request(self, method: str, target: str, *_: Any, max_bytes: int, **__: Any) -> Answer:
        """A page of the list."""
        self.most.append(max_bytes)
        query = parse_qs(target.partition("?")[2])
        limit, begin = int(query.get("limit", ["1"])[0]), int(query.get("continue", ["0"])[0])
        self.limits.append(limit)
        end = begin + limit
        meta = {"resourceVersion": "1", "continue": str(end) if end < len(self.items) else ""}
        body = json.dumps({"kind": "PodList", "metadata": meta, "items": self.items[begin:end]}).encode()
        if len(body) > max_bytes:
            raise TooLargeError(f"the answer is larger than {max_bytes} bytes")
        return Answer(200, {}, body)

    @contextlib.asynccontextmanager
    async def stream(self, *_: Any) -> AsyncIterator[Any]:
        """The watch."""
        yield Response(self.status, {}, self.chunks)


async def listed(server: Server) -> list[str]:
    """All items of its list."""
    client = connected(server)
    pages = client.list_pages("/api/v1/pods", {}, "PodList")
    return [item for page in [p async for p in pages] for item in json.loads(page.body)["items"]]


def connected(server: Server) -> Client:
    """A client of it."""
    client = Client(cast("Connection", server), TokenBucket(1e6, 10**6))
    client.open()
    return client


async def of(*pieces: bytes) -> AsyncIterator[bytes]:
    """A stream."""
    for piece in pieces:
        yield piece


async def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Giant objects are read all the same, the following pages at once in the size that could be read."""
    monkeypatch.setattr(client_module, "MAX_PAGE_BYTES", 50_000)
    items = [f"{number:01000}" for number in range(100)]
    server = Server(items)
    assert await listed(server) == items
    assert server.limits == [500, 125, 31, 31, 31, 31]
    assert set(server.most) == {50_000}


async def test_an_object_that_is_too_large_for_any_page_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then its caller is told, and asks again as for any other failure; not at once, and not for a smaller page."""
    monkeypatch.setattr(client_module, "MAX_PAGE_BYTES", 50_000)
    server = Server(["x" * 60_000])
    with pytest.raises(UnreachableError, match=r"GET /api/v1/pods: the answer is larger than 50000 bytes"):
        await listed(server)
    assert server.limits == [500, 125, 31, 7, 1]


async def test_answers_to_all_else_may_be_as_large_as_an_object() -> None:
    """A renewal of the lease, a write, a read of one thing."""
    server = Server(["x" * MAX_OBJECT_BYTES])
    client = connected(server)
    with pytest.raises(TooMuchError):
        await client.attempt("PUT", "/lease", body=b"{}")
    with pytest.raises(TooMuchError):
        await client.get("/thing")
    assert server.most == [MAX_OBJECT_BYTES] * 2


async def test_of_a_refused_watch_no_more_is_read_than_anybody_would() -> None:
    """A proxy may have very much to say about why."""

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"no" * 1000

    client = connected(Server(status=403, chunks=endless()))
    with pytest.raises(ApiError) as refused:
        [_ async for _ in client.watch_lines("/api/v1/pods", {}, "1")]
    assert refused.value.status == 403
    assert refused.value.message.startswith("nono")


async def test_a_watch_that_trickles_is_silent() -> None:
    """Bytes that never make a line are no sign of life."""

    async def trickle() -> AsyncIterator[bytes]:
        while True:
            yield b"{"

    client = connected(Server(chunks=trickle()))
    with pytest.raises(UnreachableError, match="silent"):
        [_ async for _ in client.watch_lines("/api/v1/pods", {}, "1", silence_seconds=0.01)]


class Clock:
    """A clock that the stream moves."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time

    async def every(self, seconds: float, *pieces: bytes) -> AsyncIterator[bytes]:
        """Such pieces so far apart."""
        for piece in pieces:
            self.time += seconds
            yield piece


@pytest.mark.parametrize("pieces", [[b"{"] * 4, [b"\n"] * 4, [b"{}\n", *[b"{"] * 3], [b"x" * 2**20] * 4])
async def test_silence_is_counted_from_line_to_line(pieces: list[bytes]) -> None:
    """Not from byte to byte; an empty line is none, and a huge one that comes steadily must come to its end."""
    clock = Clock()
    with pytest.raises(TimeoutError):
        [_ async for _ in lines_of(clock.every(5.0, *pieces), 15.0, clock)]


async def test_lines_that_come_in_time_may_come_for_ever() -> None:
    """Each one begins the count anew, also when it came in pieces."""
    clock = Clock()
    batches = [each async for each in lines_of(clock.every(5.0, *[b"{", b"}\n"] * 10), 15.0, clock)]
    assert batches == [[b"{}"]] * 10


async def test_who_takes_lines_slowly_does_not_make_the_server_silent() -> None:
    """The time that goes by while a line is worked on is ours."""
    clock = Clock()
    taken = 0
    async for _ in lines_of(clock.every(5.0, *[b"{}\n", b"{", b"}\n"]), 15.0, clock):
        clock.time += 600.0
        taken += 1
    assert taken == 2


async def test_a_line_is_limited_in_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """No object is as large."""
    monkeypatch.setattr(client_module, "MAX_OBJECT_BYTES", 3)
    assert [each async for each in lines_of(of(b"ab", b"c\nde", b"f\n"))] == [[b"abc"], [b"def"]]
    with pytest.raises(ConnectionError, match="a frame of more than 3 bytes"):
        [_ async for _ in lines_of(of(b"\nab", b"cd"))]
