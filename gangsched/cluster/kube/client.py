"""Raw requests to the API server: bytes in, bytes out, and every way to fail as one of two exceptions.

Nothing here knows what the objects mean. Reads are retried in here; writes are retried by
:mod:`gangsched.cluster.kube.writer`, which knows when a leader must stop.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from email.utils import parsedate_to_datetime
from typing import NamedTuple, Protocol, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
import msgspec

from gangsched.cluster.kube.connection import Connection
from gangsched.cluster.kube.json_limits import decode
from gangsched.cluster.kube.retry import TRANSIENT_STATUSES, Backoff, TokenBucket, end, retry_after_seconds
from gangsched.cluster.kube.session import MAX_OBJECT_BYTES, Response, Session, TooLargeError


class Observe(Protocol):
    """Takes one measurement. Called from the I/O thread and the decision thread; must be quick and must not raise.

    The names are explained in :mod:`gangsched.runtime.metrics`.
    """

    def __call__(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """``value`` in the unit that the name says."""


def ignore(name: str, value: float, labels: Mapping[str, str]) -> None:
    """An :class:`Observe` that drops everything."""


JSON = "application/json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
#: An object, or a list of objects, without anything but the metadata.
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

#: 500 pods decode in about 8 ms, which is as long as the loop may be held.
PAGE_OBJECTS = 500
READ_ATTEMPT_SECONDS = 30.0
#: No further attempt at a read begins after this: then its caller shall know, and tell.
READ_RETRY_SECONDS = 5.0
#: The server sends a bookmark about every minute where anything happens. A watch that is silent for longer may have
#: lost its connection, or be one of objects of which none ever changes: the next one tells.
WATCH_SILENCE_SECONDS = 90.0
#: The requested duration of a watch. It is random, so that many watches do not end together.
WATCH_SECONDS = (300, 600)
#: The most bytes of a page. Larger objects are requested in smaller pages.
MAX_PAGE_BYTES = 2 * MAX_OBJECT_BYTES
_SMALLER_PAGE = 4
#: The text of a refused watch is cut to this length.
_MAX_REFUSAL_BYTES = 2**16


class ApiError(Exception):
    """The API server answered with an error.

    ``status`` is the HTTP status. ``reason`` and ``message`` come from the Status object (or from the body), ``causes``
    from ``details.causes``, ``retry_after_seconds`` from the Retry-After header.
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


class SilentError(UnreachableError):
    """A watch has brought nothing for a time, which may be because nothing has happened."""


class TooMuchError(UnreachableError):
    """The answer is larger than was to be expected: to ask for the same again is of no use."""


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
    kind: str = ""
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


class Page(NamedTuple):
    """One page of a list: its metadata, and the whole body to decode the items from."""

    meta: ListMeta
    body: bytes


_PLAIN = re.compile(r"[A-Za-z0-9._~-]*").fullmatch  # as nearly all names are
_status_decoder = msgspec.json.Decoder(Status)
_head_decoder = msgspec.json.Decoder(_ListHead)
T = TypeVar("T")


def api_error(status: int, body: bytes, retry_after: float | None = None) -> ApiError:
    """The error that a response is, whether or not its body is a Status."""
    try:
        parsed = decode(_status_decoder, body)
    except msgspec.DecodeError:
        return ApiError(status, "", body[:500].decode(errors="replace").strip(), (), retry_after)
    causes = tuple(c.reason for c in (parsed.details.causes if parsed.details else None) or ())
    return ApiError(status, parsed.reason, parsed.message, causes, retry_after)


def answer_of(decoder: msgspec.json.Decoder[T], body: bytes, request: str) -> T:
    """Return the decoded body of a successful answer. Any other answer counts as none: raises
    :class:`UnreachableError`.
    """
    try:
        return decode(decoder, body)
    except msgspec.DecodeError as error:
        raise UnreachableError(f"{request}: the answer is not what was asked for ({error})") from None


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
        self._http: Session | None = None
        self._dated = "", 0.0

    def open(self) -> None:
        """Get ready; the event loop must be running."""
        self._http = self.connection.session()

    def http_session(
        self, response_class: type[Response] = Response, middlewares: Sequence[aiohttp.ClientMiddlewareType] = ()
    ) -> aiohttp.ClientSession:
        """A session over our connections, for a library that brings requests of its own."""
        return self._open.http_session(response_class, middlewares)

    async def warm(self, count: int) -> None:
        """Open connections for ``count`` requests at once."""
        await self._open.warm(count)

    async def close(self) -> None:
        """Close all connections."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    # ----------------------------------------------------------------------------------------------- one request

    async def attempt(  # noqa: PLR0913
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout_seconds: float = READ_ATTEMPT_SECONDS,
        server_timeout: bool = False,
        fence: Callable[[], float] = lambda: math.inf,
        max_bytes: int = MAX_OBJECT_BYTES,
    ) -> bytes:
        """One attempt at one request; the body of its answer.

        ``server_timeout`` asks the server to give up at the same time as we do, so that a write that we have
        given up cannot take effect much later. A write is not sent after the monotonic time that ``fence`` says in
        the moment of its sending. An answer of more than ``max_bytes`` is not read.

        Raises :class:`ApiError` and :class:`UnreachableError`, of which :class:`TooMuchError` is one.
        """
        started, code = time.monotonic(), 0
        try:
            headers = {"Accept": accept, **await self._credentials(timeout_seconds)}
            if body is not None:
                headers["Content-Type"] = content_type
            answer = await self._open.request(
                method,
                _target(path, query or {}),
                headers,
                body,
                started + timeout_seconds,
                fence=fence,
                server_timeout=server_timeout,
                max_bytes=max_bytes,
            )
            code = answer.status
            if date := answer.headers.get("date"):
                self._dated = date, time.monotonic()
        except TimeoutError:
            raise UnreachableError(f"{method} {path}: no answer within {timeout_seconds:.1f} s") from None
        except TooLargeError as error:
            raise TooMuchError(f"{method} {path}: {error}") from None
        except OSError as error:
            raise UnreachableError(f"{method} {path}: {_words(error)}") from error
        finally:
            self._observe("api_request_seconds", time.monotonic() - started, {"verb": method, "code": str(code)})
        if code == 401:
            await self.connection.rejected()
        if not 200 <= code < 300:
            raise api_error(code, answer.body, retry_after_seconds(answer.headers.get("retry-after")))
        return answer.body

    def seconds_ahead(self, now: float) -> float | None:
        """By how much the server's clock is ahead of another that says ``now``, at most about a second too little: as
        its last answer gave. None before the first, or if it gave none.
        """
        text, at = self._dated
        try:
            return parsedate_to_datetime(text).timestamp() + time.monotonic() - at - now
        except (TypeError, ValueError):
            return None

    async def _credentials(self, seconds: float) -> Mapping[str, str]:
        """To get new ones may take as long as the whole request may; usually they are at hand."""
        if self.connection.at_hand:
            return await self.connection.headers()
        async with asyncio.timeout(seconds):
            return await self.connection.headers()

    async def get(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        accept: str = JSON,
        attempt_seconds: float = READ_ATTEMPT_SECONDS,
        retry_seconds: float | None = None,
        max_bytes: int = MAX_OBJECT_BYTES,
    ) -> bytes:
        """GET; what fails for a transient reason is tried again for ``retry_seconds``. Raises as :meth:`attempt`."""
        backoff = Backoff(max_seconds=5.0)
        end = time.monotonic() + (READ_RETRY_SECONDS if retry_seconds is None else retry_seconds)
        renewed = False
        while True:
            await self.bucket.acquire()
            try:
                return await self.attempt(
                    "GET", path, query=query, accept=accept, timeout_seconds=attempt_seconds, max_bytes=max_bytes
                )
            except ApiError as error:
                if error.status == 401 and not renewed:
                    renewed = True
                elif not error.transient:
                    raise
                delay, failure = backoff.next_seconds(error.retry_after_seconds), error
            except TooMuchError:
                raise
            except UnreachableError as error:
                delay, failure = backoff.next_seconds(), error  # type: ignore[assignment]
            if time.monotonic() + delay >= end:
                raise failure
            await asyncio.sleep(delay)

    # ---------------------------------------------------------------------------------------------- list and watch

    async def list_pages(
        self, path: str, query: Mapping[str, str], kind: str, accept: str = JSON
    ) -> AsyncGenerator[Page, None]:
        """All pages of one consistent list of this ``kind``, read from the store (no ``resourceVersion`` is sent).
        ``accept`` is the media type, here and in :meth:`watch_lines`.

        Raises :class:`ApiError` with status 410 when the list took longer than the server remembers.
        """
        parameters = {**query, "limit": str(PAGE_OBJECTS)}
        body = await self._page(path, parameters, accept)
        while (meta := _head(body, path, kind)).continue_token:
            parameters = {**parameters, "continue": meta.continue_token}
            # The server prepares the next page while this one is taken in.
            following = asyncio.create_task(self._page(path, parameters, accept))
            try:
                await asyncio.sleep(0)  # it is sent before this task goes on
                yield Page(meta, body)
                body = await following
            finally:
                await end([following])
        yield Page(meta, body)

    async def _page(self, path: str, parameters: dict[str, str], accept: str) -> bytes:
        """One page. ``limit`` in ``parameters`` becomes what could be read: the next page will be no larger."""
        while True:
            try:
                return await self.get(path, parameters, accept=accept, max_bytes=MAX_PAGE_BYTES)
            except TooMuchError:
                objects = int(parameters["limit"])
                if objects == 1:
                    raise
                parameters["limit"] = str(max(1, objects // _SMALLER_PAGE))

    async def watch_lines(
        self,
        path: str,
        query: Mapping[str, str],
        version: str,
        silence_seconds: float = WATCH_SILENCE_SECONDS,
        accept: str = JSON,
    ) -> AsyncGenerator[list[bytes], None]:
        """The frames of one watch from ``version`` on, in batches as they arrive; ends when the server ends it.

        The first batch is empty and says that the server has accepted the watch.

        Raises :class:`ApiError` when the server refuses, :class:`UnreachableError` when the connection breaks, and
        :class:`SilentError` when no whole frame, not even a bookmark, has come for ``silence_seconds``.
        """
        parameters = {
            **query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(random.randint(*WATCH_SECONDS)),  # noqa: S311
        }
        try:
            headers = {"Accept": accept, **await self.connection.headers()}
            async with self._open.stream(_target(path, parameters), headers, silence_seconds) as answer:
                if answer.status != 200:
                    if answer.status == 401:
                        await self.connection.rejected()
                    body = await _refusal(answer.chunks)
                    raise api_error(answer.status, body, retry_after_seconds(answer.headers.get("retry-after")))
                yield []
                async with aclosing(lines_of(answer.chunks, silence_seconds)) as batches:
                    async for lines in batches:
                        yield lines
        except TimeoutError:
            raise SilentError(f"watch {path}: silent for {silence_seconds:.0f} s") from None
        except OSError as error:
            raise UnreachableError(f"watch {path}: {_words(error)}") from error

    @property
    def _open(self) -> Session:
        if self._http is None:
            raise UnreachableError("the client is closed")
        return self._http


def _target(path: str, parameters: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(parameters)}" if parameters else path


def _head(body: bytes, path: str, kind: str) -> ListMeta:
    """The metadata of a page of a list. What is no page of such a list does not say what there is, nor what there is
    not.

    Raises :class:`UnreachableError`.
    """
    head = answer_of(_head_decoder, body, f"GET {path}")
    if head.kind != kind or not head.metadata.resource_version:
        found = f"{head.kind} without a resourceVersion" if head.kind == kind else head.kind or "no kind"
        raise UnreachableError(f"GET {path}: the answer is not a {kind} ({found})")
    return head.metadata


async def _refusal(chunks: AsyncIterator[bytes]) -> bytes:
    """The beginning of the text, or what of it has come in the time of a read."""
    text = b""
    with suppress(TimeoutError):
        async with asyncio.timeout(READ_ATTEMPT_SECONDS):
            async for chunk in chunks:
                text += chunk
                if len(text) >= _MAX_REFUSAL_BYTES:
                    break
    return text[:_MAX_REFUSAL_BYTES]


async def lines_of(
    chunks: AsyncIterator[bytes], silence_seconds: float = math.inf, clock: Callable[[], float] = time.monotonic
) -> AsyncGenerator[list[bytes], None]:
    """Complete lines; what follows the last newline when the stream ends was cut off and is dropped.

    Raises :class:`TimeoutError` when bytes have come for ``silence_seconds`` and no line, :class:`ConnectionError`
    when a line is too long.
    """
    parts: list[bytes] = []
    size, heard_at = 0, clock()
    async for chunk in chunks:
        head, newline, tail = chunk.rpartition(b"\n")
        if newline:
            parts.append(head)
            lines = [line for line in b"".join(parts).split(b"\n") if line]
            parts, size = [tail], len(tail)
            if lines:
                yield lines
                heard_at = clock()  # and not before: it is not the server that is slow when lines are not taken
                continue
        else:
            parts.append(chunk)
            size += len(chunk)
        if size > MAX_OBJECT_BYTES:
            raise ConnectionError(f"a frame of more than {MAX_OBJECT_BYTES} bytes")
        if clock() - heard_at >= silence_seconds:
            raise TimeoutError


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
