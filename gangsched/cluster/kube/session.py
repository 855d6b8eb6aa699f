"""Requests to one API server over an aiohttp session: what the library leaves open about time, size and connections.

A write is sent only while its fence allows it. No answer is larger than its limit, nothing is sent twice, and unsent
bytes are lost with a closed connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client import ClientTimeout
from yarl import URL

from gangsched.messages import failures

#: An object in etcd is at most 1.5 MiB by default; its JSON is larger, but not by this much.
MAX_OBJECT_BYTES = 32 * 2**20
#: A connection that was idle for longer may be closed by the server at any moment.
IDLE_SECONDS = 60.0
CONNECT_SECONDS = 10.0
#: A peer that is gone without a word is found out after 30 + 3 * 5 seconds, as client-go finds out with its pings.
KEEPALIVE_IDLE_SECONDS, KEEPALIVE_INTERVAL_SECONDS, KEEPALIVE_PROBES = 30, 5, 3
#: The most bytes that are read ahead.
_READ_AHEAD_BYTES = 2**21
_CLOSING_TURNS = 3  # of the event loop, until connections that were cut have closed their sockets
#: Deadlines are kept here and not by aiohttp, which rounds them up to whole seconds.
_NO_TIMEOUT = ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_connect=None, sock_read=None, ceil_threshold=1e9)
#: Without a word about encodings a proxy in between may ask for one, and pass on what is not read here.
_IDENTITY = {"Accept-Encoding": "identity"}


class TooLargeError(OSError):
    """An answer is larger than its limit."""


class Answer(NamedTuple):
    """An answer of the server; the names of headers may be in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Incoming(NamedTuple):
    """An answer that may last. ``chunks`` are its body as it comes; they end where the body does, and raise what
    :meth:`Session.stream` raises.
    """

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


class Sending:
    """One request on its way: until when it may be sent and answered, and whether its bytes have left."""

    def __init__(self, end: float, fence: Callable[[], float], *, server_timeout: bool) -> None:
        self.end = end
        self.fence = fence
        self.server_timeout = server_timeout
        self.admitted = False
        self.limit: asyncio.Timeout | None = None

    def left(self) -> float:
        """Seconds in which the request may still leave and be answered. Raises :class:`TimeoutError` without any."""
        left = min(self.end, self.fence()) - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def admit(self, request: aiohttp.ClientRequest) -> None:
        """Let a request go on, now that its connection is there: from here on it has no more time than its fence.

        Raises :class:`TimeoutError` when there is none left.
        """
        if self.admitted:  # aiohttp would send it again, and the second answer would not tell what the first has done
            raise aiohttp.ServerDisconnectedError(failures.CONNECTION_CLOSED)
        left = self.left()
        self.admitted = True
        if self.limit is not None and math.isfinite(left):
            self.limit.reschedule(asyncio.get_running_loop().time() + left)
        if self.server_timeout:
            request.url = with_timeout(request.url, left)


_sending: ContextVar[Sending | None] = ContextVar("sending", default=None)


class Body(aiohttp.BytesPayload):
    """The body of a write. The process may have been stopped before this line, and another replica may lead now. So
    between this read of the clock and the sending of the bytes, nothing else is done.
    """

    def __init__(self, value: bytes, sending: Sending) -> None:
        super().__init__(value)
        self._sending = sending

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Hand over the bytes. Raises :class:`TimeoutError` behind the fence."""
        self._sending.left()
        await super().write_with_length(writer, content_length)


class Connector(aiohttp.TCPConnector):
    """As many connections to one server as there are requests at once; ``server_name`` is the name that the server's
    certificate must have instead of the host's.
    """

    def __init__(self, tls: ssl.SSLContext | None, server_name: str | None) -> None:
        super().__init__(
            ssl=tls if tls is not None else True, limit=0, keepalive_timeout=IDLE_SECONDS, socket_factory=_socket
        )
        self._name = server_name

    async def connect(self, req: aiohttp.ClientRequest, traces: list[Any], timeout: ClientTimeout) -> Any:
        """A connection on which a request may be sent now."""
        req.server_hostname = req.server_hostname or self._name
        sending = _sending.get()
        while True:
            connection = await super().connect(req, traces, timeout)
            if connection.protocol is None or not connection.protocol.should_close:
                break
            connection.close()  # what came unasked would be taken for the answer to what is sent next
        if sending is not None:
            try:
                sending.admit(req)
            except BaseException:
                connection.release()  # nothing was sent on it
                raise
        return connection


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket that finds out when its peer is gone, and on which nothing leaves any more once it is closed."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_SECONDS),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
    ):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    # Without this the kernel sends what it holds, a Binding perhaps, minutes after the request was given up.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return made


class Response(aiohttp.ClientResponse):
    """A response that, once it is given up, takes its connection with it, and what was to be sent on that."""

    def close(self) -> None:
        """Cut the connection, if it is still ours: aiohttp would have TLS say goodbye, after all that is to be sent."""
        connection = self.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        super().close()


class Session:
    """Requests to the URL ``server``, which may have a path that all of them begin with; belongs to one event loop.

    ``proxy`` is the URL of an HTTP proxy, ``agent`` what we call ourselves.
    """

    def __init__(
        self, server: str, tls: ssl.SSLContext | None, server_name: str | None, agent: str, proxy: str | None
    ) -> None:
        self._server = server.rstrip("/")
        self._agent = agent
        self._proxy = proxy
        self.connector = Connector(tls, server_name)
        self.http = self.http_session()

    def http_session(
        self, response_class: type[Response] = Response, middlewares: Sequence[aiohttp.ClientMiddlewareType] = ()
    ) -> aiohttp.ClientSession:
        """A session over our connections, of which closing it closes none. Environment variables with proxies, cookies
        and compressed bodies are not for an API server.
        """
        return aiohttp.ClientSession(
            connector=self.connector,
            connector_owner=False,
            response_class=response_class,
            middlewares=middlewares,
            headers={"User-Agent": self._agent, **_IDENTITY},
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            proxy=self._proxy,
            read_bufsize=_READ_AHEAD_BYTES,
            timeout=_NO_TIMEOUT,
        )

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

        When the connection is open, ``fence`` returns the time after which nothing may be written. If that is before
        ``end``, the request ends there. It is called again just before the bytes of a body are written.
        ``server_timeout`` tells the server to give up at the earlier of the two. Raises :class:`OSError` if there is no
        HTTP answer, and its subclass :class:`TooLargeError` if the body is larger than ``max_bytes``. The request may
        have taken effect.
        """
        sending = Sending(end, fence, server_timeout=server_timeout)
        data = None if body is None else Body(body, sending)
        loop = asyncio.get_running_loop()
        left = end - time.monotonic()
        with _errors(), _as_current_request(sending):
            async with asyncio.timeout_at(loop.time() + left if math.isfinite(left) else None) as sending.limit:
                response = await self._send(method, target, headers, data)
                try:
                    return Answer(response.status, response.headers, await whole(response, max_bytes))
                except BaseException:
                    response.close()
                    raise

    @contextlib.asynccontextmanager
    async def stream(self, target: str, headers: Mapping[str, str], silence_seconds: float) -> AsyncIterator[Incoming]:
        """GET something whose answer may last; the connection is cut at the end.

        :class:`TimeoutError` when nothing comes for ``silence_seconds``, or no complete head; otherwise raises as
        :meth:`request` does. What is read ahead is limited in size.
        """
        with _errors():
            async with asyncio.timeout(silence_seconds):
                response = await self._send("GET", target, headers, None)
            try:
                _length_known(response)
                yield Incoming(response.status, response.headers, _chunks(response, silence_seconds))
            finally:
                response.close()

    async def warm(self, count: int) -> None:
        """Open connections for ``count`` requests at once, so that they need not wait for them. Connections that cannot
        be opened now are opened when they are needed.
        """
        never = time.monotonic() + CONNECT_SECONDS
        requests = (self.request("GET", "/", {}, None, never, fence=lambda: -math.inf) for _ in range(count))
        await asyncio.gather(*requests, return_exceptions=True)

    async def aclose(self) -> None:
        """Cut all connections, and let their sockets close."""
        await self.http.close()
        await self.connector.close()
        for _ in range(_CLOSING_TURNS):
            await asyncio.sleep(0)

    def _send(self, method: str, target: str, headers: Mapping[str, str], body: Body | None) -> Any:
        url = URL(self._server + target, encoded=True)
        return self.http.request(method, url, headers=headers, data=body, allow_redirects=False)


def with_timeout(url: URL, seconds: float) -> URL:
    """The URL with a demand that the server gives up after ``seconds``."""
    text = str(url)
    return URL(f"{text}{'&' if '?' in text else '?'}timeout={max(1, int(seconds * 1000))}ms", encoded=True)


async def whole(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """The body, unless it is, or says that it is, too large."""
    _length_known(response)
    promised = response.content_length
    if promised is not None and promised > max_bytes and response.method != "HEAD":
        raise TooLargeError(failures.answer_too_large(most=max_bytes))
    pieces: list[bytes] = []
    kept = 0
    while piece := await response.content.readany():
        kept += len(piece)
        if kept > max_bytes:
            raise TooLargeError(failures.answer_too_large(most=max_bytes))
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def _chunks(response: aiohttp.ClientResponse, silence_seconds: float) -> AsyncIterator[bytes]:
    with _errors():
        while True:
            async with asyncio.timeout(silence_seconds):
                piece = await response.content.readany()
            if not piece:
                return
            yield piece


def _length_known(response: aiohttp.ClientResponse) -> None:
    """An answer of which the end is the end of the connection may have been cut off."""
    if response.status in (204, 304) or "Content-Length" in response.headers:
        return
    if response.headers.get("Transfer-Encoding", "").lower() != "chunked":
        raise ConnectionError(failures.LENGTH_MISSING)


@contextlib.contextmanager
def _as_current_request(sending: Sending | None) -> Iterator[None]:
    """Put this request into the context of the task, where the connector finds it."""
    token = _sending.set(sending)
    try:
        yield
    finally:
        _sending.reset(token)


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """Return the exception of aiohttp for a missing answer as :class:`OSError`. :class:`TimeoutError` has no other
    facts.
    """
    try:
        yield
    except TimeoutError:
        raise TimeoutError from None
    except aiohttp.ServerDisconnectedError:
        raise ConnectionError(failures.CONNECTION_CLOSED) from None
    except aiohttp.ClientPayloadError as error:
        raise ConnectionError(f"{failures.CONNECTION_CLOSED} ({error})") from error
    except aiohttp.ClientHttpProxyError as error:
        text = failures.proxy_refuses(status=error.status, url=error.request_info.url)
        raise ConnectionError(text) from error
    except aiohttp.ClientResponseError as error:
        raise ConnectionError(failures.not_http(why=" ".join(error.message.split()))) from error
    except aiohttp.ClientError as error:
        if isinstance(error, OSError):
            raise
        raise ConnectionError(str(error) or type(error).__name__) from error
