"""Small requests over connections that are kept: HTTP/1.1 with no more than a write to an API server needs.

A general client spends several times as long on a small request as the request takes on the wire: it makes objects for
cookies, redirects and compression that a Binding does not have; and it takes as long to import as numpy.

A proxy is asked for a tunnel (CONNECT), through which the same connection then uses TLS with the server; what goes to
a server without TLS is sent to the proxy with its whole URL (RFC 9112, 3.2).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import math
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import NamedTuple, cast
from urllib.parse import unquote, urlsplit

from gangsched.http.http1 import MAX_OBJECT_BYTES, Answer, Reader, TooLargeError
from gangsched.messages import failures

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Proxy(NamedTuple):
    """An HTTP proxy: its URL, where to connect to, whether it uses TLS itself, and the headers it needs."""

    url: str
    host: str
    port: int
    secure: bool
    headers: Mapping[str, str]


def proxy_of(server: str, given: str | None) -> Proxy | None:
    """The proxy for requests to the URL ``server``: the one that is ``given``, else that of the environment
    (``HTTPS_PROXY``, ``HTTP_PROXY``, ``NO_PROXY``, or in lower case), read as Go's net/http reads them: servers on this
    machine need none, and ``NO_PROXY`` knows blocks of addresses.

    Raises ValueError for what is not the address of an HTTP proxy.
    """
    url = given or _from_environment(server)
    if not url:
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(
            f"the proxy {parts._replace(netloc=parts.hostname or '').geturl()!r} is not an http:// or https:// URL"
        )
    secure = parts.scheme == "https"
    headers = {}
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
    return Proxy(parts.geturl(), parts.hostname, parts.port or (443 if secure else 80), secure, headers)


def _from_environment(server: str) -> str | None:
    parts = urlsplit(server)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    url = _variable(f"{parts.scheme}_proxy")
    if (
        not url
        or host in _LOOPBACK
        or any(_excludes(each.strip(), host, port) for each in _variable("no_proxy").split(","))
    ):
        return None
    return url


def _variable(name: str) -> str:
    return os.environ.get(name.upper()) or os.environ.get(name) or ""


def _excludes(word: str, host: str, port: int) -> bool:
    """Does an entry of ``NO_PROXY`` mean this host: an address, a block of them, a domain, with or without a port?"""
    with contextlib.suppress(ValueError):
        network = ipaddress.ip_network(word, strict=False)
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(host) in network
        return False
    name, _, number = word.lower().partition(":")
    if number and number != str(port):
        return False
    return name == "*" or (bool(name) and f".{host.lower()}".endswith(f".{name.removeprefix('*').removeprefix('.')}"))


#: A connection that was idle for longer may be closed by the server at any moment.
IDLE_SECONDS = 60.0
CONNECT_SECONDS = 10.0
_CLOSING_TURNS = 3  # of the event loop, until a connection that was cut has closed its socket
_DROPPED = failures.CONNECTION_CLOSED


class Pool:
    """As many connections to one server as there are requests at once; belongs to one event loop.

    ``server`` is a URL without a path, or with one that all requests begin with. ``tls`` is used if that is https, and
    for a ``proxy`` with TLS; ``server_name`` is the name that the certificate must have instead of the host's,
    ``agent`` our own.
    """

    def __init__(
        self, server: str, tls: ssl.SSLContext | None, server_name: str | None, agent: str, proxy: Proxy | None = None
    ) -> None:
        parts = urlsplit(server)
        secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if secure else 80)
        self._tls = tls
        self._server_tls = tls if secure else None
        self._server_name = server_name or self._host
        self._proxy = proxy
        host = parts.netloc.rpartition("@")[2]
        self._prefix = parts.path.rstrip("/")
        # Without a word about encodings a proxy in between may ask for one, and pass on what we do not read.
        head = {"Host": host, "User-Agent": agent, "Accept-Encoding": "identity"}
        if proxy is not None and not secure:
            self._prefix = f"http://{host}{self._prefix}"
            head |= proxy.headers
        self._head = f" HTTP/1.1\r\n{_lines(head)}"
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
        rest = f"{self._head}{_lines(headers)}Content-Length: {len(body or b'')}\r\n\r\n".encode() + (body or b"")
        connection = self._kept() or await self._connect(end)
        try:
            # A process that was stopped for a while goes on here, and another replica may lead by now:
            # from this look at the clock to the handing over of the bytes nothing else is done.
            left = _left(min(end, fence()))
            timed = with_timeout(target, left) if server_timeout else target
            message = f"{method} {self._prefix}{timed}".encode() + rest
            connection.send(message, Reader(method, max_bytes))
            return await connection.answered(end)
        finally:
            self._put_back(connection)

    @contextlib.asynccontextmanager
    async def stream(self, target: str, headers: Mapping[str, str], silence_seconds: float) -> AsyncIterator[Incoming]:
        """GET something whose answer may last; the connection is cut at the end.

        :class:`TimeoutError` when nothing comes for ``silence_seconds``, or no complete head; otherwise raises as
        :meth:`request` does. No more than one chunk is waited for, and that is limited in size.
        """
        connection = self._kept() or await self._connect()
        try:
            message = f"GET {self._prefix}{target}{self._head}{_lines(headers)}\r\n".encode()
            reader = Reader("GET", MAX_OBJECT_BYTES)
            connection.send(message, reader)
            end = time.monotonic() + silence_seconds
            while not reader.status:
                await connection.more(end)
            yield Incoming(reader.status, reader.headers, _chunks(connection, reader, silence_seconds))
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
        loop = asyncio.get_running_loop()
        proxy = self._proxy
        async with asyncio.timeout(max(0.0, min(CONNECT_SECONDS, end - time.monotonic()))):
            if proxy is None:
                name = self._server_name if self._server_tls else None
                _, connection = await loop.create_connection(
                    _Connection, self._host, self._port, ssl=self._server_tls, server_hostname=name
                )
            else:
                tls = self._tls if proxy.secure else None
                _, connection = await loop.create_connection(_Connection, proxy.host, proxy.port, ssl=tls)
                if self._server_tls is not None:
                    try:
                        await self._tunnel(connection, proxy, self._server_tls)
                    except BaseException:
                        connection.cut()
                        raise
        self._all.add(connection)
        return connection

    async def _tunnel(self, connection: _Connection, proxy: Proxy, tls: ssl.SSLContext) -> None:
        """Have the proxy connect us to the server, and use TLS with that from now on."""
        address = f"{f'[{self._host}]' if ':' in self._host else self._host}:{self._port}"
        message = f"CONNECT {address} HTTP/1.1\r\n{_lines({'Host': address, **proxy.headers})}\r\n"
        connection.send(message.encode(), Reader("CONNECT", MAX_OBJECT_BYTES))
        answer = await connection.answered(math.inf)
        connection.unwind()
        if not 200 <= answer.status < 300:
            raise ConnectionError(f"the proxy {proxy.host}:{proxy.port} answers {answer.status} to CONNECT {address}")
        await connection.secure(tls, self._server_name)

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


def _lines(headers: Mapping[str, str]) -> str:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())


def with_timeout(target: str, seconds: float) -> str:
    """The target with a demand that the server gives up after ``seconds``."""
    return f"{target}{'&' if '?' in target else '?'}timeout={max(1, int(seconds * 1000))}ms"


class Incoming(NamedTuple):
    """An answer that may last. ``chunks`` are its body as it comes; they end where the body does, and raise what
    :meth:`Pool.stream` raises.
    """

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


async def _chunks(connection: _Connection, reader: Reader, silence_seconds: float) -> AsyncIterator[bytes]:
    while (answer := connection.answer) is None:
        if pieces := reader.taken():
            yield b"".join(pieces)
        else:
            await connection.more(time.monotonic() + silence_seconds)
    if answer.body:  # what has not been taken before
        yield answer.body


class _Connection(asyncio.Protocol):
    """One connection, one request at a time; ``answer`` is that to the last one, once it is complete."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.reusable = False
        self.answer: Answer | None = None
        self._transport: asyncio.Transport | None = None
        self._reader: Reader | None = None
        self._error: OSError | None = None
        self._waiter: asyncio.Future[None] | None = None

    def send(self, message: bytes, reader: Reader) -> None:
        """Send a request, whose answer the reader puts together."""
        self._reader, self.answer, self._error = reader, None, None
        self.reusable = False
        if self._transport is None or self._transport.is_closing():
            self._error = ConnectionResetError(_DROPPED)
        else:
            self._transport.write(message)

    async def answered(self, end: float) -> Answer:
        """The complete answer. Raises as :meth:`more`."""
        while self.answer is None:
            await self.more(end)
        return self.answer

    async def more(self, end: float) -> None:
        """Wait until more of the answer has come, or none can. Raises :class:`OSError` if that is known already;
        :class:`TimeoutError` at ``end`` (monotonic seconds).
        """
        if self._error is not None:
            raise self._error
        left = _left(end)  # also where bytes come all the time
        loop = asyncio.get_running_loop()
        self._waiter = waiter = loop.create_future()
        too_late = None
        if end < math.inf:  # a bare timer: asyncio.timeout() costs three times as much
            too_late = loop.call_later(left, _give_up, waiter)
        try:
            await waiter
        finally:
            self._waiter = None
            if too_late is not None:
                too_late.cancel()

    async def secure(self, tls: ssl.SSLContext, server_name: str) -> None:
        """Use TLS from now on. Raises :class:`OSError`."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError(_DROPPED)
        loop = asyncio.get_running_loop()
        transport = await loop.start_tls(self._transport, self, tls, server_hostname=server_name)
        if transport is None:
            raise ConnectionResetError(_DROPPED)
        self.connection_made(transport)

    @property
    def open(self) -> bool:
        """Can another request be sent? Not once the server has closed its side, even before that is reported."""
        return self.reusable and self._transport is not None and not self._transport.is_closing()

    def unwind(self) -> None:
        """There is an answer, or its caller has given up; it is not kept here."""
        self._reader = self.answer = None

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
        if self._reader is None or self.answer is not None or self._error is not None:
            self.cut()  # not requested
            return
        try:
            self.answer = self._reader.take(data)
        except (ValueError, TooLargeError) as error:
            self._error = _broken(error)
            self.cut()
        else:
            self.reusable = self.answer is not None and self._reader.stays_open
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """See :class:`asyncio.Protocol`."""
        self.reusable = False
        self._error = self._error or (exc if isinstance(exc, OSError) else ConnectionResetError(_DROPPED))
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _give_up(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())


def _broken(error: ValueError | TooLargeError) -> OSError:
    """The error for callers when :meth:`Reader.take` has raised one."""
    return error if isinstance(error, TooLargeError) else ConnectionError(f"the answer is not HTTP: {error}")
