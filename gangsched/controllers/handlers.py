"""kopf lists and watches groups and queues, and its handlers pass on the objects.

They only observe. A handler that returned a value or stored progress would write to the users' objects. kopf takes
longer to import than all other modules, so this module is imported when the controllers start.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import aclosing
from typing import Any, Self, cast

import aiohttp
import kopf

from gangsched.cluster.kube import session
from gangsched.cluster.kube.client import MAX_PAGE_BYTES, READ_ATTEMPT_SECONDS, Client, lines_of
from gangsched.cluster.kube.discovery import Served
from gangsched.cluster.kube.json_limits import bounded
from gangsched.cluster.kube.session import TooLargeError, whole
from gangsched.cluster.kube.statuses import Statuses, seen_object
from gangsched.core.actions import ObjectKey
from gangsched.messages import failures

_PAGE_OBJECTS = 500


async def observe(client: Client, served: Collection[Served], statuses: Statuses) -> None:
    """Tell ``statuses`` of all objects of these kinds until cancelled; when this ends otherwise, kopf has given up.

    kopf ends all tasks of the running event loop that began after its own.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        # Also after a 401, when the client has read its credentials again; the same session would count as refused.
        return kopf.AiohttpSession(server=client.connection.server, aiohttp_session=session_of(client))

    for each in sorted(served):
        _observe(registry, each, statuses)
    await kopf.operator(registry=registry, settings=_settings(), clusterwide=True, standalone=True)


def _observe(registry: kopf.OperatorRegistry, served: Served, statuses: Statuses) -> None:
    @kopf.on.event(served.family, served.version, served.plural, registry=registry)
    async def seen(event: Mapping[str, Any], **_: Any) -> None:
        body = event["object"]
        meta = body.get("metadata") or {}
        key = ObjectKey(served.family, str(meta.get("namespace", "")), str(meta.get("name", "")), served.plural)
        if event.get("type") == "DELETED":
            statuses.lost(key, str(meta.get("uid", "")))
        else:
            statuses.saw(key, seen_object(body))


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    # Discovery is ours: watching CRDs and namespaces would need rights that the scheduler does not have.
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.process.ultimate_exiting_timeout = None
    settings.watching.chunk_size = _PAGE_OBJECTS
    settings.networking.request_timeout = READ_ATTEMPT_SECONDS
    return settings


def session_of(client: Client) -> aiohttp.ClientSession:
    """A session for kopf over the client's connections, with its credentials, its proxy, its rate limit, and its limits
    to what a server may answer.
    """

    async def let(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        if not request.url.query.get("watch"):
            await client.bucket.acquire()
        request.headers.update(await client.connection.headers())
        response = await handler(request)
        if response.status == 401:
            await client.connection.rejected()
        if 300 <= response.status < 400:
            response.close()
            raise aiohttp.ClientConnectionError(failures.redirected(url=request.url))
        return response

    return client.http_session(middlewares=[let], response_class=Response)


class Response(session.Response):
    """A response as kopf reads it, in which nothing is too large, or lies too deep for Python.

    kopf parses with the standard library and copies what it has parsed, and both recurse: a single object with many
    levels would end it again and again.
    """

    async def start(self, connection: Any) -> Self:
        """Wait for the head."""
        await super().start(connection)
        self.content = cast("aiohttp.StreamReader", _Lines(self.content))
        return self

    async def read(self) -> bytes:
        """The whole body. Raises :class:`aiohttp.ClientPayloadError` when that is too large."""
        if self._body is None:
            try:
                self._body = bounded(await whole(self, MAX_PAGE_BYTES))
            except TooLargeError as error:
                self.close()
                raise aiohttp.ClientPayloadError(str(error)) from error
        return self._body


class _Lines:
    """The body of a watch."""

    def __init__(self, stream: aiohttp.StreamReader) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        """Lines, each with its end. Raises :class:`aiohttp.ClientConnectionError` when one is too long."""
        try:
            async with aclosing(lines_of(self._stream.iter_any())) as batches:
                async for lines in batches:
                    for line in lines:
                        yield bounded(line) + b"\n"
        except ConnectionError as error:
            raise aiohttp.ClientConnectionError(str(error)) from error
