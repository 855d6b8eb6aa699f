"""Answers as bytes: what is taken for one, and everything that a server or a proxy may send instead.

The library parses them; what is required of it here is what a connection of many requests stands on: both sides agree
about where an answer ends, and no answer takes more memory than its reader can use.
"""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gangsched.cluster.kube.session import Answer, TooLargeError
from tests.cluster.kube.scripted import Script, Server, session_of

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WHOLE = b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: t\r\n\r\n"
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED + WHOLE


async def take(*script: bytes | None, max_bytes: int = 2**20, end: bool = True) -> Answer:
    """What a session makes of it; at its ``end`` the server closes the connection."""
    pieces: Script = [*script, None] if end else list(script)
    async with session_of(Server(pieces)) as session:
        return await session.request("GET", "/", {}, None, time.monotonic() + 30.0, max_bytes=max_bytes)


def with_length(*values: str) -> bytes:
    """A body of two bytes behind such lengths."""
    lines = "".join(f"Content-Length: {value}\r\n" for value in values)
    return f"HTTP/1.1 200 OK\r\n{lines}\r\nok".encode("latin-1")


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.sets(st.integers(min_value=1, max_value=len(CONTINUED) - 1), max_size=6))
async def test_where_an_answer_is_cut_into_pieces_does_not_matter(cuts: set[int]) -> None:
    """A 100 Continue and a chunked answer is one answer, wherever it is cut."""
    ends = [*sorted(cuts), len(CONTINUED)]
    pieces = [CONTINUED[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    found = await take(*pieces, end=False)
    assert (found.status, found.body) == (200, b"abcde")


@pytest.mark.parametrize("word", ["-6", "+6", "0x6", "1_0", "g", "1" * 17, "\xb2"])
async def test_what_is_no_size_of_a_chunk(word: str) -> None:
    """A size is hexadecimal digits and nothing else: with a negative one a reader would never come to an end."""
    with pytest.raises(ConnectionError):
        await take(CHUNKED + word.encode("latin-1") + b"\r\nhello\r\n0\r\n\r\n")


@pytest.mark.parametrize("word", ["-2", "+2", "0x2", "1_0", "2 2", "2, 2", "", "two", "1" * 21, "\xb2"])
async def test_what_is_no_length_of_an_answer(word: str) -> None:
    """A length is decimal digits and nothing else."""
    with pytest.raises(ConnectionError):
        await take(with_length(word))


async def test_several_lengths() -> None:
    """Two that differ are none, as nobody can say where the answer ends."""
    with pytest.raises(ConnectionError):
        await take(with_length("2", "1"))


@pytest.mark.parametrize(
    "line",
    ["SSH-2.0", "HTTP/1.1 20", "HTTP/1.1 2000", "HTTP/1.1 -20", "HTTP/1.1 +20", "HTTP/1.1 ²²²", "HTTP/1.x 200"],
)
async def test_what_is_no_status_line(line: str) -> None:
    """Anything but a version, three digits and perhaps words is not HTTP."""
    with pytest.raises(ConnectionError):
        await take(f"{line}\r\nContent-Length: 0\r\n\r\n".encode("latin-1"))


async def test_an_answer_of_unknown_length_may_have_been_cut_off() -> None:
    """The end of the connection is no end of an answer."""
    with pytest.raises(ConnectionError, match="length"):
        await take(b"HTTP/1.1 200 OK\r\n\r\n{}")


async def test_a_chunk_ends_where_it_says() -> None:
    """What follows a chunk is the end of a line, or else the sizes are not what they seem."""
    with pytest.raises(ConnectionError):
        await take(CHUNKED + b"2\r\nabcd\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    ("begin", "endless"),
    [(b"HTTP/1.1 200 OK\r\nA: ", b"x"), (CHUNKED, b"1"), (CHUNKED + b"0\r\nA: ", b"x")],
    ids=["header", "size", "trailer"],
)
async def test_what_does_not_end(begin: bytes, endless: bytes) -> None:
    """No line is waited for without end."""
    with pytest.raises(ConnectionError):
        await take(begin, *[endless * 2**14] * 8, end=False)


@pytest.mark.parametrize("size", [4, 5])
@pytest.mark.parametrize("shape", ["length", "one chunk", "chunks"])
async def test_answers_are_limited_in_size(shape: str, size: int) -> None:
    """One that has more than was to be expected is given up as soon as that is known."""
    body = b"x" * size
    if shape == "length":
        data = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (size, body)
    elif shape == "one chunk":
        data = CHUNKED + b"%d\r\n%s\r\n0\r\n\r\n" % (size, body)
    else:
        data = CHUNKED + b"1\r\nx\r\n" * size + b"0\r\n\r\n"
    if size <= 4:
        assert (await take(data, max_bytes=4)).body == body
    else:
        with pytest.raises(TooLargeError, match="larger than 4 bytes"):
            await take(data, max_bytes=4)


async def test_nothing_is_waited_for_of_what_promises_to_be_too_large() -> None:
    """Not a byte of the body need come."""
    with pytest.raises(TooLargeError):
        await take(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", max_bytes=4, end=False)
