"""Raw requests to the API server: bytes in, bytes out, and every way to fail as one of two exceptions.

Nothing here knows what the objects mean. Reads are retried in here; writes are retried by
:mod:`gangsched.cluster.kube.writer`, which knows when a leader must stop.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple
from urllib.parse import quote, urlencode

import aiohttp
import msgspec
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from gangsched.cluster.kube.connection import Connection, close_session
from gangsched.cluster.kube.hooks import Observe, ignore
from gangsched.cluster.kube.pool import Pool
from gangsched.cluster.kube.retry import TRANSIENT_STATUSES, Backoff, TokenBucket, retry_after_seconds

JSON = "application/json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"

#: 500 pods decode in about 8 ms, which is as long as the loop may be held.
PAGE_OBJECTS = 500
READ_ATTEMPT_SECONDS = 30.0
#: No further attempt at a read begins after this: then its caller shall know, and tell.
READ_RETRY_SECONDS = 5.0
CONNECT_SECONDS = 10.0
#: The server sends a bookmark about every minute: a watch that is silent for longer has lost its connection.
WATCH_SILENCE_SECONDS = 90.0
#: How long a watch is asked to last; drawn at random, so that many watches do not end together.
WATCH_SECONDS = (300, 600)
#: An etcd object is at most 1.5 MiB; its JSON is larger, but not by this much.
MAX_LINE_BYTES = 64 * 2**20


class ApiError(Exception):
    """The API server answered with an error.

    ``status`` is the HTTP status, ``reason`` and ``message`` are those of the Status object (or of the body),
    ``causes`` are the reasons in ``details.causes``, ``retry_after_seconds`` is its Retry-After header.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        causes: tuple[str, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes
        self.retry_after_seconds = retry_after

    @property
    def transient(self) -> bool:
        """True when the same request may succeed later."""
        return self.status in TRANSIENT_STATUSES


class UnreachableError(Exception):
    """There was no answer: no connection, a connection that broke, or a deadline that passed.

    A write may have taken effect nevertheless.
    """


class Cause(msgspec.Struct):
    """One entry of ``details.causes`` of a Status."""

    reason: str = ""
    message: str = ""


class Details(msgspec.Struct):
    """``details`` of a Status."""

    causes: list[Cause] | None = None


class Status(msgspec.Struct):
    """The body of an error, and the object of an ERROR frame of a watch."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: Details | None = None


class ListMeta(msgspec.Struct, rename={"continue_token": "continue", "resource_version": "resourceVersion"}):
    """``metadata`` of a list."""

    resource_version: str = ""
    continue_token: str = ""


class _ListHead(msgspec.Struct):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


class Page(NamedTuple):
    """One page of a list: its metadata, and the whole body to decode the items from."""

    meta: ListMeta
    body: bytes


_PLAIN = re.compile(r"[A-Za-z0-9._~-]*").fullmatch  # as nearly all names are
_status_decoder = msgspec.json.Decoder(Status)
_head_decoder = msgspec.json.Decoder(_ListHead)


def api_error(status: int, body: bytes, retry_after: float | None = None) -> ApiError:
    """The error that a response is, whether or not its body is a Status."""
    try:
        parsed = _status_decoder.decode(body)
    except msgspec.MsgspecError:
        return ApiError(status, "", body[:500].decode(errors="replace").strip(), (), retry_after)
    causes = tuple(c.reason for c in (parsed.details.causes if parsed.details else None) or ())
    return ApiError(status, parsed.reason, parsed.message, causes, retry_after)


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return name if _PLAIN(name) else quote(name, safe="")


class Client:
    """One API server for one event loop. Open it with :meth:`open`, and :meth:`close` it on the same loop.

    ``bucket`` limits lists and gets; watches and what is sent with ``limited=False`` do not count.
    """

    def __init__(self, connection: Connection, bucket: TokenBucket, observe: Observe = ignore) -> None:
        self.connection = connection
        self.bucket = bucket
        self._observe = observe
        self._session: aiohttp.ClientSession | None = None
        self._pool: Pool | None = None

    def open(self) -> None:
        """Make the session; the event loop must be running."""
        self._session = self.connection.session()
        self._pool = self.connection.pool()

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await close_session(self._session)
            self._session = None
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    # ----------------------------------------------------------------------------------------------- one request

    async def attempt(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        timeout_seconds: float = READ_ATTEMPT_SECONDS,
        server_timeout: bool = False,
    ) -> bytes:
        """One attempt at one request; the body of its answer.

        ``server_timeout`` asks the server to give up at the same time as we do, so that a write that we have
        given up cannot take effect much later. Raises :class:`ApiError` and :class:`UnreachableError`.
        """
        parameters = dict(query or {})
        if server_timeout:
            parameters["timeout"] = f"{max(1, round(timeout_seconds * 1000))}ms"
        started, code = time.monotonic(), 0
        try:
            async with asyncio.timeout(timeout_seconds):
                headers = dict(await self.connection.headers())
                if body is not None:
                    headers["Content-Type"] = content_type
                end = started + timeout_seconds
                # Lists are large; everything else is so small that the client would take longer than the request.
                if self._pool is not None and method != "GET":
                    found = await self._pool.request(method, _target(path, parameters), headers, body, end)
                    code, answer = found.status, found.body
                    retry_after = retry_after_seconds(found.headers.get("retry-after"))
                else:
                    async with self._open_session.request(
                        method,
                        self._url(path, parameters),
                        data=None if body is None else _Punctual(body, end),
                        headers=headers,
                        allow_redirects=False,
                        timeout=_NO_TIMEOUT,
                        **self.connection.options,
                    ) as response:
                        code = response.status
                        answer = await response.read()
                        retry_after = retry_after_seconds(response.headers.get("Retry-After"))
        except TimeoutError:
            raise UnreachableError(f"{method} {path}: no answer within {timeout_seconds:.1f} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise UnreachableError(f"{method} {path}: {_words(error)}") from error
        finally:
            self._observe("api_request_seconds", time.monotonic() - started, {"verb": method, "code": str(code)})
        if code == 401:
            await self.connection.rejected()
        if not 200 <= code < 300:
            raise api_error(code, answer, retry_after)
        return answer

    async def get(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        attempt_seconds: float = READ_ATTEMPT_SECONDS,
        retry_seconds: float | None = None,
    ) -> bytes:
        """GET; what fails for a transient reason is tried again for ``retry_seconds``. Raises as :meth:`attempt`."""
        backoff = Backoff(max_seconds=5.0)
        end = time.monotonic() + (READ_RETRY_SECONDS if retry_seconds is None else retry_seconds)
        renewed = False
        while True:
            await self.bucket.take()
            try:
                return await self.attempt("GET", path, query=query, timeout_seconds=attempt_seconds)
            except ApiError as error:
                if error.status == 401 and not renewed:
                    renewed = True
                elif not error.transient:
                    raise
                delay, failure = backoff.next_seconds(error.retry_after_seconds), error
            except UnreachableError as error:
                delay, failure = backoff.next_seconds(), error  # type: ignore[assignment]
            if time.monotonic() + delay >= end:
                raise failure
            await asyncio.sleep(delay)

    # ---------------------------------------------------------------------------------------------- list and watch

    async def list_pages(self, path: str, query: Mapping[str, str]) -> AsyncIterator[Page]:
        """All pages of one consistent list, read from the store (no ``resourceVersion`` is sent).

        Raises :class:`ApiError` with status 410 when the list took longer than the server remembers.
        """
        parameters = {**query, "limit": str(PAGE_OBJECTS)}
        while True:
            body = await self.get(path, parameters)
            meta = _head_decoder.decode(body).metadata
            yield Page(meta, body)
            if not meta.continue_token:
                return
            parameters["continue"] = meta.continue_token

    async def watch_lines(
        self, path: str, query: Mapping[str, str], version: str, silence_seconds: float = WATCH_SILENCE_SECONDS
    ) -> AsyncIterator[list[bytes]]:
        """The frames of one watch from ``version`` on, in batches as they arrive; ends when the server ends it.

        The first batch is empty and says that the server has accepted the watch.

        Raises :class:`ApiError` when the server refuses, :class:`UnreachableError` when the connection breaks or
        nothing, not even a bookmark, has come for ``silence_seconds``.
        """
        parameters = {
            **query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(random.randint(*WATCH_SECONDS)),  # noqa: S311
        }
        try:
            async with self._open_session.get(
                self._url(path, parameters),
                headers=dict(await self.connection.headers()),
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=silence_seconds),
                **self.connection.options,
            ) as response:
                if response.status != 200:
                    if response.status == 401:
                        await self.connection.rejected()
                    retry_after = retry_after_seconds(response.headers.get("Retry-After"))
                    raise api_error(response.status, await response.read(), retry_after)
                yield []
                async for lines in _lines(response.content.iter_any()):
                    yield lines
        except TimeoutError:
            raise UnreachableError(f"watch {path}: silent for {silence_seconds:.0f} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise UnreachableError(f"watch {path}: {_words(error)}") from error

    @property
    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise UnreachableError("the client is closed")
        return self._session

    def _url(self, path: str, parameters: Mapping[str, str]) -> URL:
        return URL(f"{self.connection.server}{_target(path, parameters)}", encoded=True)


_NO_TIMEOUT = aiohttp.ClientTimeout(total=None)


def _target(path: str, parameters: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(parameters)}" if parameters else path


class _Punctual(aiohttp.BytesPayload):
    """A body that is not sent after its deadline, in monotonic time.

    A process that was stopped for a while goes on where it was, which may be between its last look at the clock and
    the sending of a write: another process may be the leader by then.
    """

    def __init__(self, body: bytes, end: float) -> None:
        super().__init__(body)
        self._end = end

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if time.monotonic() >= self._end:
            raise TimeoutError
        await super().write_with_length(writer, content_length)


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Complete lines; what follows the last newline when the stream ends was cut off and is dropped."""
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            parts.append(chunk)
            size += len(chunk)
            if size > MAX_LINE_BYTES:
                raise aiohttp.ClientPayloadError(f"a frame of more than {MAX_LINE_BYTES} bytes")
            continue
        parts.append(head)
        yield [line for line in b"".join(parts).split(b"\n") if line]
        parts, size = [tail], len(tail)


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
