"""What kopf does here: it lists and watches groups and queues, and its handlers hand on what they see.

They only observe: a handler that returned something, or that stored progress, would write to the users' objects. kopf
takes longer to import than everything else, so this module is imported where the controllers begin to serve.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import kopf
import msgspec

from gangsched.cluster.kube.client import MAX_PAGE_BYTES, READ_ATTEMPT_SECONDS, ApiError, Client, UnreachableError
from gangsched.cluster.kube.discovery import Served
from gangsched.cluster.kube.json_limits import bounded
from gangsched.controllers.status import Key, StatusWriter, seen_object

_PAGE_OBJECTS = 500


async def observe(client: Client, served: Collection[Served], writer: StatusWriter) -> None:
    """Tell ``writer`` of all objects of these kinds until cancelled; when this ends otherwise, kopf has given up.

    kopf ends all tasks of the running event loop that began after its own.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        # Also after a 401, when the client has read its credentials again; the same session would count as refused.
        session: Any = Session(client)
        return kopf.AiohttpSession(server=client.connection.server, aiohttp_session=session)

    for each in sorted(served):
        _observe(registry, each, writer)
    await kopf.operator(registry=registry, settings=_settings(), clusterwide=True, standalone=True)


def _observe(registry: kopf.OperatorRegistry, served: Served, writer: StatusWriter) -> None:
    @kopf.on.event(served.family, served.version, served.plural, registry=registry)
    async def seen(event: Mapping[str, Any], **_: Any) -> None:
        body = event["object"]
        meta = body.get("metadata") or {}
        key = Key(served.family, str(meta.get("namespace", "")), str(meta.get("name", "")), served.plural)
        if event.get("type") == "DELETED":
            writer.lost(key, str(meta.get("uid", "")))
        else:
            writer.saw(key, seen_object(body))


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    # Discovery is ours: watching CRDs and namespaces would need rights that the scheduler does not have.
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.process.ultimate_exiting_timeout = None
    settings.watching.chunk_size = _PAGE_OBJECTS
    settings.networking.request_timeout = READ_ATTEMPT_SECONDS
    return settings


class Session:
    """What kopf needs of aiohttp's session, with the requests of our client: its connections, credentials and proxy,
    and its limits to what a server may answer.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self.headers = {"User-Agent": "gangsched"}  # kopf would set one; the client has its own
        self.closed = False

    async def request(self, *, method: str, url: str, timeout: aiohttp.ClientTimeout, **_: Any) -> Response:
        """GET: handlers that only observe send nothing else. Raises what aiohttp raises without an answer."""
        assert method == "get"
        parts = urlsplit(url.removeprefix(self._client.connection.server))
        query = dict(parse_qsl(parts.query))
        try:
            if query.pop("watch", ""):
                query.pop("allowWatchBookmarks", "")
                batches = self._client.watch_lines(parts.path, query, query.pop("resourceVersion", ""))
                await anext(batches)
                return Response(200, {}, batches)
            await self._client.bucket.take()
            seconds = timeout.total or READ_ATTEMPT_SECONDS
            body = await self._client.attempt(
                "GET", parts.path, query=query, timeout_seconds=seconds, max_bytes=MAX_PAGE_BYTES
            )
            return Response(200, {}, _one(body))
        except ApiError as error:
            status = {"kind": "Status", "code": error.status, "reason": error.reason, "message": error.message}
            later = error.retry_after_seconds
            headers = {} if later is None else {"Retry-After": str(later)}
            return Response(error.status, headers, _one(msgspec.json.encode(status)))
        except UnreachableError as error:
            raise aiohttp.ClientConnectionError(str(error)) from error

    async def close(self) -> None:
        """Note it; the connections are the client's."""
        self.closed = True


class Response:
    """A response as kopf reads it, in which nothing lies too deep for Python: kopf parses with the standard library and
    copies what it has parsed, and both recurse; a single object with many levels would end it again and again.
    """

    def __init__(self, status: int, headers: Mapping[str, str], batches: AsyncGenerator[list[bytes], None]) -> None:
        self.status = status
        self.headers = headers
        self.content = self
        self.closed = False
        self._batches = batches

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        await self._batches.aclose()

    def close(self) -> None:
        """Nothing more is read."""
        self.closed = True

    def raise_for_status(self) -> None:
        """As aiohttp's."""
        if self.status >= 400:
            asked: Any = SimpleNamespace(real_url="")
            raise aiohttp.ClientResponseError(asked, (), status=self.status)

    async def json(self) -> Any:
        """The whole body. Raises :class:`json.JSONDecodeError`."""
        return json.loads(b"".join([chunk async for chunk in self.iter_chunked(0)]))

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        """Lines, each with its end; raises what aiohttp raises when the connection breaks."""
        try:
            async with aclosing(self._batches) as batches:
                async for lines in batches:
                    for line in lines:
                        yield bounded(line) + b"\n"
        except UnreachableError as error:
            raise aiohttp.ClientConnectionError(str(error)) from error


async def _one(body: bytes) -> AsyncGenerator[list[bytes], None]:
    yield [body]
