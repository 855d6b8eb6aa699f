"""Answers as bytes: what is taken for one, and everything that a server or a proxy may send instead."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.http.http1 import MAX_HEAD_BYTES, MAX_OBJECT_BYTES, Answer, Reader, TooLargeError

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WHOLE = b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: t\r\n\r\n"


def take(data: bytes, max_bytes: int = MAX_OBJECT_BYTES) -> Answer | None:
    """What a reader makes of it."""
    return Reader("GET", max_bytes).take(data)


def with_length(*values: str) -> bytes:
    """A body of two bytes behind such lengths."""
    lines = "".join(f"Content-Length: {value}\r\n" for value in values)
    return f"HTTP/1.1 200 OK\r\n{lines}\r\nok".encode("latin-1")


@given(st.lists(st.integers(min_value=1, max_value=len(CHUNKED + WHOLE)), max_size=6))
def test_where_an_answer_is_cut_into_pieces_does_not_matter(cuts: list[int]) -> None:
    """A 100 Continue and a chunked answer, cut anywhere, is the same answer."""
    whole = b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED + WHOLE
    reader, found, begin = Reader("POST", MAX_OBJECT_BYTES), [], 0
    for end in [*sorted(set(cuts)), len(whole)]:
        found.append(reader.take(whole[begin:end]))
        begin = end
    assert found[:-1] == [None] * (len(found) - 1)
    assert found[-1] == Answer(200, {"transfer-encoding": "chunked"}, b"abcde")
    assert reader.stays_open


@pytest.mark.parametrize("word", ["-6", "+6", "0x6", " 6", "6 ", "1_0", "", "g", "1" * 17, "\xb2"])
def test_what_is_no_size_of_a_chunk(word: str) -> None:
    """A size is hexadecimal digits and nothing else: with a negative one a reader would never come to an end."""
    with pytest.raises(ValueError, match="is no size of a chunk"):
        take(CHUNKED + word.encode("latin-1") + b"\r\nhello\r\n")


@pytest.mark.parametrize("word", ["-2", "+2", "0x2", "1_0", "2 2", "2, 2", "", "two", "1" * 17, "\xb2"])
def test_what_is_no_length_of_an_answer(word: str) -> None:
    """A length is decimal digits and nothing else."""
    with pytest.raises(ValueError, match="is no length of an answer"):
        take(with_length(word))


def test_several_lengths() -> None:
    """The same one twice is one; two are none, as nobody can say where the answer ends."""
    found = take(with_length("2", "2"))
    assert found is not None
    assert found.body == b"ok"
    with pytest.raises(ValueError, match="several lengths"):
        take(with_length("2", "1"))


@pytest.mark.parametrize(
    "line",
    [
        "SSH-2.0",
        "HTTP/2 200",
        "HTTP/1.1 20",
        "HTTP/1.1 2000",
        "HTTP/1.1 -20",
        "HTTP/1.1 +20",
        "HTTP/1.1 ²²²",
        "HTTP/1.1  200",
        "HTTP/1.1 099",
        "HTTP/1.x 200",
        " HTTP/1.1 200",
        "HTTP/1.1",
    ],
)
def test_what_is_no_status_line(line: str) -> None:
    """Anything but a version, three digits and perhaps words is not HTTP."""
    with pytest.raises(ValueError, match=re.escape(line)):
        take(f"{line}\r\nContent-Length: 0\r\n\r\n".encode("latin-1"))


def test_a_chunk_ends_where_it_says() -> None:
    """What follows a chunk is the end of a line, or else the sizes are not what they seem."""
    with pytest.raises(ValueError, match="longer than it says"):
        take(CHUNKED + b"2\r\nabcd\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    ("begin", "endless"),
    [(b"", b"x"), (CHUNKED, b"1"), (CHUNKED + b"1;", b"x"), (CHUNKED + b"0\r\n", b"x")],
    ids=["head", "size", "extension", "trailer"],
)
def test_what_does_not_end(begin: bytes, endless: bytes) -> None:
    """No line is waited for without end."""
    with pytest.raises(ValueError, match="endless"):
        take(begin + endless * (MAX_HEAD_BYTES + 1))


@pytest.mark.parametrize("size", [4, 5])
@pytest.mark.parametrize("shape", ["length", "one chunk", "chunks"])
def test_answers_are_limited_in_size(shape: str, size: int) -> None:
    """One that has more than was to be expected is given up as soon as that is known."""
    body = b"x" * size
    if shape == "length":
        data = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (size, body)
    elif shape == "one chunk":
        data = CHUNKED + b"%d\r\n%s\r\n0\r\n\r\n" % (size, body)
    else:
        data = CHUNKED + b"1\r\nx\r\n" * size + b"0\r\n\r\n"
    if size <= 4:
        found = take(data, max_bytes=4)
        assert found is not None
        assert found.body == body
    else:
        with pytest.raises(TooLargeError, match="larger than 4 bytes"):
            take(data, max_bytes=4)


@pytest.mark.parametrize("promise", [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", CHUNKED + b"5\r\n"])
def test_nothing_is_kept_of_what_promises_to_be_too_large(promise: bytes) -> None:
    """Not a byte of the body need come."""
    with pytest.raises(TooLargeError):
        take(promise, max_bytes=4)


def test_what_was_taken_away_does_not_count() -> None:
    """An answer that lasts may have any number of chunks."""
    reader = Reader("GET", 4)
    reader.take(CHUNKED)
    for _ in range(5):
        assert reader.take(b"3\r\nabc\r\n") is None
        assert reader.taken() == [b"abc"]
    with pytest.raises(TooLargeError):
        reader.take(b"5\r\n")
