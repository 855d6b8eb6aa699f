"""Small requests over connections that are kept: HTTP/1.1 with no more than a write to an API server needs.

A general client spends several times as long on a small request as the request takes on the wire: it makes objects for
cookies, redirects, compression and streams that a Binding does not have. Lists and watches, which need streams, and
everything that goes through a proxy, stay with aiohttp.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from typing import NamedTuple, cast
from urllib.parse import urlsplit

#: A connection that was idle for longer may be closed by the server at any moment.
IDLE_SECONDS = 60.0
CONNECT_SECONDS = 10.0
MAX_HEAD_BYTES = 2**16
_DROPPED = "the connection was closed before the answer was complete"


class Answer(NamedTuple):
    """What the server said; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Pool:
    """As many connections to one server as there are requests at once; belongs to one event loop.

    ``server`` is a URL without a path, or with one that all requests begin with. ``tls`` None speaks plain HTTP;
    ``server_name`` is the name that the certificate must have instead of the host's, ``agent`` our own.
    """

    def __init__(self, server: str, tls: ssl.SSLContext | None, server_name: str | None, agent: str) -> None:
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if tls else 80)
        self._prefix = parts.path.rstrip("/")
        self._tls = tls
        self._server_name = (server_name or self._host) if tls else None
        self._head = f" HTTP/1.1\r\nHost: {parts.netloc.rpartition('@')[2]}\r\nUser-Agent: {agent}\r\n"
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()

    async def request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None, end: float
    ) -> Answer:
        """One request. It is not sent after ``end`` (monotonic seconds), and given up then with :class:`TimeoutError`.

        Raises :class:`OSError` when there is no answer, or none that is HTTP; the request may have taken effect then.
        """
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        lines.append(f"Content-Length: {len(body or b'')}\r\n\r\n")
        message = f"{method} {self._prefix}{target}{self._head}{''.join(lines)}".encode() + (body or b"")
        async with asyncio.timeout(max(0.0, end - time.monotonic())):
            connection = self._kept() or await self._connect()
            try:
                # A process that was stopped for a while goes on here, and somebody else may be the leader by now.
                _in_time(end)
                answer = await connection.exchange(message, method)
            except BaseException:
                self._drop(connection)
                raise
        if connection.reusable:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        else:
            self._drop(connection)
        return answer

    def close(self) -> None:
        """Cut all connections."""
        for connection in list(self._all):
            self._drop(connection)
        self._idle.clear()

    def _kept(self) -> _Connection | None:
        oldest = time.monotonic() - IDLE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and connection.idle_since > oldest:
                return connection
            self._drop(connection)
        return None

    async def _connect(self) -> _Connection:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, connection = await asyncio.get_running_loop().create_connection(
                _Connection, self._host, self._port, ssl=self._tls, server_hostname=self._server_name
            )
        self._all.add(connection)
        return connection

    def _drop(self, connection: _Connection) -> None:
        self._all.discard(connection)
        connection.cut()


def _in_time(end: float) -> None:
    if time.monotonic() >= end:
        raise TimeoutError


class _Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.reusable = False
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._reader = _Reader("")

    def exchange(self, message: bytes, method: str) -> asyncio.Future[Answer]:
        """Send a request; the answer comes later."""
        self._answer = asyncio.get_running_loop().create_future()
        self._reader = _Reader(method)
        if self._transport is None or self._transport.is_closing():
            self._answer.set_exception(ConnectionResetError(_DROPPED))
        else:
            self.reusable = False
            self._transport.write(message)
        return self._answer

    def cut(self) -> None:
        """Close without a goodbye."""
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See :class:`asyncio.Protocol`."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """See :class:`asyncio.Protocol`."""
        if self._answer is None or self._answer.done():
            self.cut()  # nobody has asked
            return
        try:
            answer = self._reader.take(data)
        except ValueError as error:
            self._answer.set_exception(ConnectionError(f"the answer is not HTTP: {error}"))
            self.cut()
            return
        if answer is not None:
            self.reusable = self._reader.stays_open
            self._answer.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """See :class:`asyncio.Protocol`."""
        self.reusable = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc if isinstance(exc, OSError) else ConnectionResetError(_DROPPED))


class _Reader:
    """Puts one answer together from what arrives. :meth:`take` raises ValueError for what is not HTTP/1.1."""

    def __init__(self, method: str) -> None:
        self.stays_open = False
        self._bodiless = method == "HEAD"
        self._buffer = bytearray()
        self._status = 0
        self._headers: dict[str, str] = {}
        self._length: int | None = None
        self._chunks: list[bytes] = []

    def take(self, data: bytes) -> Answer | None:
        """The answer, once it is complete."""
        self._buffer += data
        while not self._status:
            if not self._take_head():
                return None
        if self._length is None:
            return self._take_chunks()
        if len(self._buffer) < self._length:
            return None
        return self._complete(bytes(self._buffer[: self._length]), self._length)

    def _take_head(self) -> bool:
        """Status line and headers; those of 1xx answers are passed over."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MAX_HEAD_BYTES:
                raise ValueError("endless headers")
            return False
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        version, _, rest = first.partition(" ")
        if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
            raise ValueError(first[:100])
        status = int(rest[:3])
        if status < 200:
            return True
        self._status = status
        self._headers = {name.strip().lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
        self.stays_open = version == "HTTP/1.1" and self._headers.get("connection", "").lower() != "close"
        if self._bodiless or status in (204, 304):
            self._length = 0
        elif self._headers.get("transfer-encoding", "").lower() == "chunked":
            self._length = None
        elif (length := self._headers.get("content-length", "")).isdigit():
            self._length = int(length)
        else:
            raise ValueError("the length of the answer is missing")
        return True

    def _take_chunks(self) -> Answer | None:
        while (end := self._buffer.find(b"\r\n")) >= 0:
            size = int(bytes(self._buffer[:end]).partition(b";")[0], 16)
            begin = end + 2
            if size == 0:
                # After the last chunk come headers, nearly always none, and an empty line.
                if self._buffer[begin : begin + 2] == b"\r\n":
                    return self._complete(b"".join(self._chunks), begin + 2)
                last = self._buffer.find(b"\r\n\r\n", begin)
                return self._complete(b"".join(self._chunks), last + 4) if last >= 0 else None
            if len(self._buffer) < begin + size + 2:
                return None
            self._chunks.append(bytes(self._buffer[begin : begin + size]))
            del self._buffer[: begin + size + 2]
        return None

    def _complete(self, body: bytes, used: int) -> Answer:
        if len(self._buffer) > used:
            self.stays_open = False  # more than was asked for
        return Answer(self._status, self._headers, body)
