"""Responses as kopf reads them, in which nothing lies too deep for Python.

kopf parses with the standard library and copies what it has parsed, and both recurse: a single object with many levels
would end it again and again.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self

import aiohttp

from gangsched.cluster.kube.client import lines_of
from gangsched.cluster.kube.depth import bounded


class Response:
    """A response of aiohttp. ``json``, ``text`` and ``content.iter_chunked`` bring :func:`bounded` JSON."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    def __getattr__(self, name: str) -> Any:
        return getattr(self._response, name)

    async def __aenter__(self) -> Self:
        await self._response.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._response.__aexit__(kind, error, trace)

    @property
    def content(self) -> Self:
        """What has :meth:`iter_chunked`."""
        return self

    async def json(self) -> Any:
        """The whole body. Raises :class:`json.JSONDecodeError`."""
        return json.loads(bounded(await self._response.read()))

    async def text(self) -> str:
        """The whole body as it is."""
        return (await self._response.read()).decode(errors="replace")

    async def iter_chunked(self, size: int) -> AsyncGenerator[bytes, None]:
        """Lines of the stream, each with its end; what follows the last one was cut off."""
        async with aclosing(lines_of(self._response.content.iter_chunked(size))) as batches:
            async for lines in batches:
                for line in lines:
                    yield bounded(line) + b"\n"
