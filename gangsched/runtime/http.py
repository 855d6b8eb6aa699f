"""HTTP requests and answers: what they are, how the head of a request is read, and how an answer is written."""

from __future__ import annotations

import http.client
import io
import ipaddress
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import NamedTuple

from gangsched.messages import failures
from gangsched.runtime.config import is_loopback

TEXT = "text/plain; charset=utf-8"
_VERBS = frozenset({"GET", "HEAD", "POST"})


class Answer(NamedTuple):
    """What is sent back."""

    status: HTTPStatus
    content_type: str
    body: bytes
    headers: Mapping[str, str] = {}


class RefusedError(Exception):
    """The request gets this status and text, and may be sent again ``after`` so many seconds (0: it need not be)."""

    def __init__(self, status: HTTPStatus, text: str = "", after: int = 0) -> None:
        super().__init__(text or f"{status.value}: {status.phrase}")
        self.status = status
        self.after = after

    @property
    def answer(self) -> Answer:
        """What is sent."""
        again = {"Retry-After": str(self.after)} if self.after else {}
        return Answer(self.status, TEXT, f"{self}\n".encode(), again)


class Request(NamedTuple):
    """What is asked: ``verb`` is in lower case, ``query`` what stands behind the question mark. ``body(most)`` reads
    what was sent, and raises :class:`RefusedError` where that is more than so many bytes.
    """

    verb: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: Callable[[int], bytes]


class Head(NamedTuple):
    """The first line and the headers of a request."""

    verb: str
    path: str
    query: str
    headers: Mapping[str, str]

    def length(self, most: int) -> int:
        """Return the number of bytes that follow. Raises :class:`RefusedError` without it or above ``most``."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal()):
            raise RefusedError(HTTPStatus.LENGTH_REQUIRED, failures.UNKNOWN_LENGTH)
        if len(length) > 18 or int(length) > most:
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, failures.too_much_sent(most=most // 1024))
        return int(length)


def parse_head(head: bytes) -> Head:
    """Read the head of a request, which ends with an empty line. Raises :class:`RefusedError`."""
    line, _, lines = head.partition(b"\r\n")
    words = line.decode("iso-8859-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise RefusedError(HTTPStatus.BAD_REQUEST)
    if words[0] not in _VERBS:
        raise RefusedError(HTTPStatus.NOT_IMPLEMENTED)
    try:
        headers = http.client.parse_headers(io.BytesIO(lines))
    except http.client.HTTPException:
        raise RefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE) from None
    path, _, query = words[1].partition("?")
    return Head(words[0].lower(), path, query, headers)  # type: ignore[arg-type] # its get() is what is used


def written(answer: Answer, *, with_body: bool = True) -> bytes:
    """Return an answer as it is sent. Each connection carries one request."""
    fields = {
        **answer.headers,
        "Content-Type": answer.content_type,
        "Content-Length": str(len(answer.body)),
        "Connection": "close",
    }
    lines = [f"HTTP/1.1 {answer.status.value} {answer.status.phrase}", *(f"{key}: {fields[key]}" for key in fields)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("iso-8859-1") + (answer.body if with_body else b"")


class Hosts:
    """The names in a Host header that pages are served under. ``host`` is the address that is listened on, None for
    all addresses; ``more`` are further names. Any other name may have come to mean this address (DNS rebinding).
    """

    def __init__(self, host: str | None, more: Iterable[str] = ()) -> None:
        self._only_here = is_loopback(host or "")
        self._names = frozenset({"localhost", (host or "").lower(), *map(str.lower, more)}) - {""}

    def serves(self, header: str) -> bool:
        """Return whether a request with this Host header gets an answer."""
        name, _, port = header.rpartition(":")
        name = (name if port.isdecimal() else header).lower().removesuffix(".")
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:  # these names cannot be registered
            return bool(name) and not self._only_here and ("." not in name or name.endswith((".svc", ".cluster.local")))
        return address.is_loopback or not self._only_here
