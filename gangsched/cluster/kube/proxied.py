"""Requests through a proxy, with aiohttp: slower than :class:`~gangsched.cluster.kube.pool.Pool`, and knows proxies."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from gangsched.cluster.kube.http1 import MAX_OBJECT_BYTES, Answer, TooLargeError
from gangsched.cluster.kube.pool import CONNECT_SECONDS, Stream, with_timeout

if TYPE_CHECKING:
    from gangsched.cluster.kube.connection import Connection

_NO_TIMEOUT = aiohttp.ClientTimeout(total=None)


class Proxied:
    """The same as :class:`~gangsched.cluster.kube.pool.Pool`, for a connection that goes through a proxy."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._session = connection.session()

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
        """See :meth:`Pool.request <gangsched.cluster.kube.pool.Pool.request>`."""
        if server_timeout:
            target = with_timeout(target, end - time.monotonic())
        data = None if body is None else Punctual(body, lambda: min(end, fence()))
        async with asyncio.timeout(max(0.0, end - time.monotonic())):
            with _only_os_errors():
                async with self._session.request(
                    method,
                    self._url(target),
                    data=data,
                    headers=headers,
                    allow_redirects=False,
                    timeout=_NO_TIMEOUT,
                    **self._connection.options,
                ) as response:
                    return Answer(response.status, _headers(response), await _body(response, max_bytes))

    @contextlib.asynccontextmanager
    async def stream(self, target: str, headers: Mapping[str, str], silence_seconds: float) -> AsyncIterator[Stream]:
        """See :meth:`Pool.stream <gangsched.cluster.kube.pool.Pool.stream>`."""
        limit = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=silence_seconds)
        asked = self._session.get(
            self._url(target), headers=headers, allow_redirects=False, timeout=limit, **self._connection.options
        )
        with _only_os_errors():
            async with contextlib.AsyncExitStack() as stack:
                async with asyncio.timeout(CONNECT_SECONDS + silence_seconds):
                    response = await stack.enter_async_context(asked)
                yield _Response(response.status, _headers(response), response.content.iter_any())

    async def warm(self, count: int) -> None:
        """Nothing: a proxy is asked for a connection when there is a request."""

    async def aclose(self) -> None:
        """Cut all connections."""
        from gangsched.cluster.kube.connection import close_session  # noqa: PLC0415 - which imports this module

        await close_session(self._session)

    def _url(self, target: str) -> URL:
        return URL(f"{self._connection.server}{target}", encoded=True)


class _Response(NamedTuple):
    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


class Punctual(aiohttp.BytesPayload):
    """A body that is not sent after its deadline, which is asked for as it is about to be; in monotonic time.

    A process that was stopped for a while goes on where it was, which may be between its last look at the clock and
    the sending of a write: another process may be the leader by then.
    """

    def __init__(self, body: bytes, end: Callable[[], float]) -> None:
        super().__init__(body)
        self._end = end

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if time.monotonic() >= self._end():
            raise TimeoutError
        await super().write_with_length(writer, content_length)


async def _body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > max_bytes:
            raise TooLargeError(f"the answer is larger than {max_bytes} bytes")
    return b"".join(pieces)


def _headers(response: aiohttp.ClientResponse) -> Mapping[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


@contextlib.contextmanager
def _only_os_errors() -> Iterator[None]:
    """Whatever goes wrong on the way is an OSError, as it is without a proxy."""
    try:
        yield
    except aiohttp.ClientError as error:
        if isinstance(error, OSError):
            raise
        raise ConnectionError(str(error) or type(error).__name__) from error
