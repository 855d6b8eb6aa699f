"""Answers of HTTP/1.1, put together from the bytes that arrive; RFC 9112, as much of it as API servers use.

A server, or what stands in between, may send anything: what is not exactly of the promised form is refused, since a
connection on which two sides disagree about where an answer ends gives the next request the rest of this one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from gangsched.messages import failures

MAX_HEAD_BYTES = 2**16
#: An object in etcd is at most 1.5 MiB by default; its JSON is larger, but not by this much.
MAX_OBJECT_BYTES = 32 * 2**20

_STATUS = re.compile(r"HTTP/1\.([01]) ([1-9][0-9]{2})(?: .*)?", re.DOTALL).fullmatch
_LENGTH = re.compile(r"[0-9]{1,16}").fullmatch
_SIZE = re.compile(rb"[0-9a-fA-F]{1,16}").fullmatch


class Answer(NamedTuple):
    """An answer of the server; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class TooLargeError(OSError):
    """An answer is larger than whoever asked can use."""


class Reader:
    """Puts the answer to one request together.

    ``max_bytes`` limits what is kept of its body: all of it, or a chunk where :meth:`taken` takes those before away.
    """

    def __init__(self, method: str, max_bytes: int) -> None:
        self.stays_open = False
        self._bodiless = method in {"HEAD", "CONNECT"}
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self.status = 0
        self.headers: dict[str, str] = {}
        self._length: int | None = None
        self._chunks: list[bytes] = []
        self._kept = 0

    def take(self, data: bytes) -> Answer | None:
        """The answer, once it is complete.

        Raises ValueError for what is not HTTP/1.1, and :class:`TooLargeError`, as soon as that is known.
        """
        self._buffer += data
        while not self.status:
            if not self._take_head():
                return None
        if self._length is None:
            return self._take_chunks()
        if len(self._buffer) < self._length:
            return None
        return self._complete(bytes(self._buffer[: self._length]), self._length)

    def taken(self) -> list[bytes]:
        """Pieces of the body that came in chunks so far; they are no part of the answer afterwards."""
        out, self._chunks, self._kept = self._chunks, [], 0
        return out

    def _take_head(self) -> bool:
        """Status line and headers; those of 1xx answers are passed over."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MAX_HEAD_BYTES:
                raise ValueError("endless headers")
            return False
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        if (found := _STATUS(first)) is None:
            raise ValueError(first[:100])
        status = int(found[2])
        if status < 200:
            return True
        self.status = status
        fields = [(name.strip().lower(), value.strip()) for name, _, value in (x.partition(":") for x in lines)]
        self.headers = dict(fields)
        self.stays_open = found[1] == "1" and self.headers.get("connection", "").lower() != "close"
        if self._bodiless or status in (204, 304):
            self._length = 0
        elif self.headers.get("transfer-encoding", "").lower() == "chunked":
            self._length = None
        else:
            self._length = _length({value for name, value in fields if name == "content-length"})
            self._keep(self._length)
        return True

    def _take_chunks(self) -> Answer | None:
        while (end := self._buffer.find(b"\r\n")) >= 0:
            word = bytes(self._buffer[:end]).partition(b";")[0]
            if not _SIZE(word):
                raise ValueError(f"{word[:100]!r} is no size of a chunk")
            size, begin = int(word, 16), end + 2
            if size == 0:
                return self._take_trailers(begin)
            rest = begin + size
            if len(self._buffer) < rest + 2:
                self._fits(size)
                return None
            if self._buffer[rest : rest + 2] != b"\r\n":
                raise ValueError("a chunk is longer than it says")
            self._keep(size)
            self._chunks.append(bytes(self._buffer[begin:rest]))
            del self._buffer[: rest + 2]
        if len(self._buffer) > MAX_HEAD_BYTES:
            raise ValueError("an endless size of a chunk")
        return None

    def _take_trailers(self, begin: int) -> Answer | None:
        """After the last chunk come headers, nearly always none, and an empty line."""
        if self._buffer[begin : begin + 2] == b"\r\n":
            return self._complete(b"".join(self._chunks), begin + 2)
        last = self._buffer.find(b"\r\n\r\n", begin)
        if last >= 0:
            return self._complete(b"".join(self._chunks), last + 4)
        if len(self._buffer) > MAX_HEAD_BYTES:
            raise ValueError("endless trailers")
        return None

    def _keep(self, size: int) -> None:
        self._fits(size)
        self._kept += size

    def _fits(self, size: int) -> None:
        if self._kept + size > self._max_bytes:
            raise TooLargeError(failures.answer_too_large(most=self._max_bytes))

    def _complete(self, body: bytes, used: int) -> Answer:
        if len(self._buffer) > used:
            self.stays_open = False  # more than was asked for
        return Answer(self.status, self.headers, body)


def _length(values: set[str]) -> int:
    """What Content-Length says, however often; ValueError when that is nothing, or not the same everywhere."""
    if not values:
        raise ValueError("the length of the answer is missing")
    if len(values) > 1:
        raise ValueError("several lengths of the answer")
    (value,) = values
    if not _LENGTH(value):
        raise ValueError(f"{value[:100]!r} is no length of an answer")
    return int(value)
