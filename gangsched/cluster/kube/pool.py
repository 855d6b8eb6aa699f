"""Small requests over connections that are kept: HTTP/1.1 with no more than a write to an API server needs.

A general client spends several times as long on a small request as the request takes on the wire: it makes objects for
cookies, redirects and compression that a Binding does not have; and it takes as long to import as numpy. What goes
through a proxy is left to one (:mod:`gangsched.cluster.kube.proxied`).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol, cast
from urllib.parse import urlsplit

from gangsched.cluster.kube.http1 import MAX_OBJECT_BYTES, Answer, Reader, TooLargeError

#: A connection that was idle for longer may be closed by the server at any moment.
IDLE_SECONDS = 60.0
CONNECT_SECONDS = 10.0
_CLOSING_TURNS = 3  # of the event loop, until a connection that was cut has closed its socket
_DROPPED = "the connection was closed before the answer was complete"


class Stream(Protocol):
    """An answer whose body comes bit by bit; ``chunks`` ends where the body does, and raises what ``stream`` raises."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def chunks(self) -> AsyncIterator[bytes]: ...


class Http(Protocol):
    """What :class:`~gangsched.cluster.kube.client.Client` sends requests with; for its methods see :class:`Pool`."""

    async def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        end: float,
        *,
        fence: Callable[[], float] = ...,
        server_timeout: bool = ...,
        max_bytes: int = ...,
    ) -> Answer: ...

    def stream(
        self, target: str, headers: Mapping[str, str], silence_seconds: float
    ) -> contextlib.AbstractAsyncContextManager[Stream]: ...

    async def warm(self, count: int) -> None: ...

    async def aclose(self) -> None: ...


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
        # Without a word about encodings a proxy in between may ask for one, and pass on what we do not read.
        self._head = (
            f" HTTP/1.1\r\nHost: {parts.netloc.rpartition('@')[2]}\r\nUser-Agent: {agent}\r\n"
            "Accept-Encoding: identity\r\n"
        )
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()

    async def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        end: float,
        *,
        fence: Callable[[], float] = lambda: math.inf,
        server_timeout: bool = False,
        max_bytes: int = MAX_OBJECT_BYTES,
    ) -> Answer:
        """One request. It is given up at ``end`` (monotonic seconds) with :class:`TimeoutError`.

        When the connection is there and the bytes are about to be written ``fence`` is asked for the time after which
        they must not be; they are not written after ``end`` either. ``server_timeout`` tells the server to give up
        at the earlier of the two. Raises :class:`OSError` when there is no answer, or none that is HTTP, and its
        subclass :class:`TooLargeError` when the body is larger than ``max_bytes``; the request may have taken effect
        then.
        """
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        lines.append(f"Content-Length: {len(body or b'')}\r\n\r\n")
        rest = f"{self._head}{''.join(lines)}".encode() + (body or b"")
        connection = self._kept() or await self._connect(end)
        try:
            # A process that was stopped for a while goes on here, and somebody else may be the leader by now:
            # from this look at the clock to the handing over of the bytes nothing else is done.
            left = _left(min(end, fence()))
            timed = with_timeout(target, left) if server_timeout else target
            message = f"{method} {self._prefix}{timed}".encode() + rest
            return await connection.exchange(message, Reader(method, max_bytes), end)
        finally:
            self._put_back(connection)

    @contextlib.asynccontextmanager
    async def stream(self, target: str, headers: Mapping[str, str], silence_seconds: float) -> AsyncIterator[Stream]:
        """GET something whose answer may last; the connection is cut at the end.

        :class:`TimeoutError` when nothing comes for ``silence_seconds``, or no complete head; otherwise raises as
        :meth:`request` does. No more than one chunk is waited for, and that is limited in size.
        """
        connection = self._kept() or await self._connect()
        try:
            lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
            message = f"GET {self._prefix}{target}{self._head}{''.join(lines)}\r\n".encode()
            incoming = connection.follow(message, silence_seconds)
            await incoming.head()
            yield incoming
        finally:
            self._drop(connection)

    async def warm(self, count: int) -> None:
        """Open connections until ``count`` are kept, so that so many requests at once need not wait for them. What
        cannot be opened now is opened when it is needed.
        """
        missing = count - sum(map(_usable, self._idle))
        opened = await asyncio.gather(*(self._connect() for _ in range(missing)), return_exceptions=True)
        for each in opened:
            if isinstance(each, _Connection):
                self._put_back(each)

    async def aclose(self) -> None:
        """Cut all connections, and let their sockets close."""
        self.close()
        for _ in range(_CLOSING_TURNS):
            await asyncio.sleep(0)

    def close(self) -> None:
        """Cut all connections."""
        for connection in list(self._all):
            self._drop(connection)
        self._idle.clear()

    def _kept(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if _usable(connection):
                return connection
            self._drop(connection)
        return None

    def _put_back(self, connection: _Connection) -> None:
        """Keep a connection on which nothing is on its way: it was answered, or nothing was sent."""
        connection.unwind()
        if connection.reusable:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        else:
            self._drop(connection)

    async def _connect(self, end: float = math.inf) -> _Connection:
        async with asyncio.timeout(max(0.0, min(CONNECT_SECONDS, end - time.monotonic()))):
            _, connection = await asyncio.get_running_loop().create_connection(
                _Connection, self._host, self._port, ssl=self._tls, server_hostname=self._server_name
            )
        self._all.add(connection)
        return connection

    def _drop(self, connection: _Connection) -> None:
        self._all.discard(connection)
        connection.cut()


def _usable(connection: _Connection) -> bool:
    """Is it still open, and was it not idle for too long?"""
    return connection.open and connection.idle_since > time.monotonic() - IDLE_SECONDS


def _left(end: float) -> float:
    """Seconds until a monotonic time; raises :class:`TimeoutError` when it has come."""
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def with_timeout(target: str, seconds: float) -> str:
    """The target with a demand that the server gives up after ``seconds``."""
    return f"{target}{'&' if '?' in target else '?'}timeout={max(1, int(seconds * 1000))}ms"


class _Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.reusable = False
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._too_late: asyncio.TimerHandle | None = None
        self._reader: Reader | None = None

    def exchange(self, message: bytes, reader: Reader, end: float) -> asyncio.Future[Answer]:
        """Send a request; its answer, or :class:`TimeoutError` at ``end`` (monotonic seconds), comes later."""
        loop = asyncio.get_running_loop()
        self._answer = loop.create_future()
        if end < math.inf:  # a bare timer: asyncio.timeout() costs three times as much
            self._too_late = loop.call_later(max(0.0, end - time.monotonic()), self._give_up)
        self._reader = reader
        self.reusable = False
        if self._transport is None or self._transport.is_closing():
            self._answer.set_exception(ConnectionResetError(_DROPPED))
        else:
            self._transport.write(message)
        return self._answer

    def follow(self, message: bytes, silence_seconds: float) -> _Incoming:
        """Send a request whose answer may last; the connection is good for nothing else afterwards."""
        incoming = _Incoming(silence_seconds)
        self.reusable = False
        if self._transport is None or self._transport.is_closing():
            incoming.connection_lost(None)
        else:
            self._transport.set_protocol(incoming)
            self._transport.write(message)
        return incoming

    def _give_up(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(TimeoutError())

    @property
    def open(self) -> bool:
        """Can another request be sent? Not once the server has closed its side, even before we are told so."""
        return self.reusable and self._transport is not None and not self._transport.is_closing()

    def unwind(self) -> None:
        """There is an answer, or nobody waits for it any more; it is not kept here."""
        self._answer = None
        self._reader = None
        if self._too_late is not None:
            self._too_late.cancel()
            self._too_late = None

    def cut(self) -> None:
        """Close without a goodbye."""
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See :class:`asyncio.Protocol`."""
        self._transport = cast("asyncio.Transport", transport)
        self.reusable = True

    def data_received(self, data: bytes) -> None:
        """See :class:`asyncio.Protocol`."""
        if self._answer is None or self._reader is None or self._answer.done():
            self.cut()  # nobody has asked
            return
        try:
            answer = self._reader.take(data)
        except (ValueError, TooLargeError) as error:
            self._answer.set_exception(_broken(error))
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


class _Incoming(asyncio.Protocol):
    """What comes on a connection from now on: one answer, in pieces."""

    def __init__(self, silence_seconds: float) -> None:
        self._silence_seconds = silence_seconds
        self._reader = Reader("GET", MAX_OBJECT_BYTES)
        self._pieces: list[bytes] = []
        self._ended = False
        self._error: OSError | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def status(self) -> int:
        """0 before :meth:`head`."""
        return self._reader.status

    @property
    def headers(self) -> Mapping[str, str]:
        """Names are in lower case."""
        return self._reader.headers

    @property
    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        return self

    async def head(self) -> None:
        """Wait for status and headers."""
        async with asyncio.timeout(self._silence_seconds):
            while not self.status:
                await self._more()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._pieces:
            if self._ended:
                raise StopAsyncIteration
            await self._more()
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    async def _more(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(self._silence_seconds):
            await self._waiter

    def data_received(self, data: bytes) -> None:
        """See :class:`asyncio.Protocol`."""
        if not self._ended and self._error is None:
            try:
                answer = self._reader.take(data)
            except (ValueError, TooLargeError) as error:
                self._error = _broken(error)
            else:
                self._pieces += self._reader.taken()
                if answer is not None:
                    self._pieces.append(answer.body)
                    self._ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """See :class:`asyncio.Protocol`."""
        self._error = self._error or (exc if isinstance(exc, OSError) else ConnectionResetError(_DROPPED))
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _broken(error: ValueError | TooLargeError) -> OSError:
    """What a caller is told of what :meth:`Reader.take` has raised."""
    return error if isinstance(error, TooLargeError) else ConnectionError(f"the answer is not HTTP: {error}")
