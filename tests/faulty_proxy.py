"""A proxy in front of a real API server that fails as networks and overloaded servers do, when told to.

It speaks plain HTTP on loopback to the client and TLS to the server, and runs on a thread of its own, so that it
goes on while a test or the thing under test is busy. Which requests fail, how, and how often is said by
:class:`Fault`; everything else passes through unchanged, watches chunk by chunk.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

#: Headers that belong to one connection and are not passed on.
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer", "host", "content-length"}


@dataclass(frozen=True)
class Seen:
    """One request as it came in, before any fault."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes

    @property
    def watch(self) -> bool:
        """Whether this is a watch."""
        return self.query.get("watch") in {"true", "1"}


@dataclass
class Fault:
    """What goes wrong with the requests that match; each of `times` requests once, then never again.

    Args:
        method: of the requests; None for all.
        path: a regular expression that must match somewhere in the URL's path.
        watch: only watches (True), no watches (False), both (None).
        times: how many requests it hits; None for all.
        status: answer this in the place of the server, with `body` and `headers`.
        delay_seconds: wait before anything else.
        cut_before: close the connection without having asked the server.
        cut_after: ask the server, then close the connection: a write has taken effect, its answer is lost.
        cut_after_lines: of a stream, pass this many lines and close the connection.
        stall_after_lines: of a stream, pass this many lines and then nothing, with the connection open.
    """

    path: str = ""
    method: str | None = None
    watch: bool | None = None
    times: int | None = 1
    status: int | None = None
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay_seconds: float = 0.0
    cut_before: bool = False
    cut_after: bool = False
    cut_after_lines: int | None = None
    stall_after_lines: int | None = None
    hits: int = 0

    def matches(self, request: Seen) -> bool:
        """Whether this fault is for this request, if it has not been used up."""
        return (
            (self.times is None or self.hits < self.times)
            and (self.method is None or self.method == request.method)
            and (self.watch is None or self.watch == request.watch)
            and re.search(self.path, request.path) is not None
        )


async def _turns() -> None:
    """Let the event loop come round some times."""
    for _ in range(10):
        await asyncio.sleep(0)


class FaultyProxy:
    """The proxy; use it with `with`. `url` is where clients connect, `requests` is all that came in.

    `weather` says what goes wrong with a request for which no single fault was ordered; it is called on the proxy's
    thread. `most_at_once` is the largest number of requests that were under way at a time, watches left out.
    """

    def __init__(
        self, server: str, ca_file: Path | None, weather: Callable[[Seen], Fault | None] = lambda _: None
    ) -> None:
        self.server = server
        self.url = ""
        self.requests: list[Seen] = []
        self.weather = weather
        self.most_at_once = 0
        #: How far the clock of the server behind it seems to be ahead, by the `Date` of its answers.
        self.clock_ahead_seconds = 0.0
        self._at_once = 0
        self._ca_file = ca_file
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._open: list[web.Request] = []  # requests cannot be hashed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="faulty-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(10.0), "the proxy did not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10.0)

    # ------------------------------------------------------------------------------------------------ what tests say

    def fail(self, fault: Fault) -> Fault:
        """Add a fault; the first one added that matches a request is the one that it gets."""
        with self._lock:
            self._faults.append(fault)
        return fault

    def heal(self) -> None:
        """Forget all faults."""
        with self._lock:
            self._faults.clear()

    def cut(self, path: str = "") -> int:
        """Close the connections of all requests under way whose path matches; how many those were."""
        assert self._loop is not None

        async def abort() -> int:
            victims = [each for each in self._open if re.search(path, each.path)]
            for each in victims:
                _abort(each)
            return len(victims)

        return asyncio.run_coroutine_threadsafe(abort(), self._loop).result(10.0)

    def seen(self, method: str, path: str) -> list[Seen]:
        """The requests so far with this method whose path matches."""
        return [each for each in tuple(self.requests) if each.method == method and re.search(path, each.path)]

    def select(self, condition: Callable[[Seen], bool]) -> list[Seen]:
        """The requests so far that fulfil a condition."""
        return [each for each in tuple(self.requests) if condition(each)]

    # ----------------------------------------------------------------------------------------------------- the proxy

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        tls = ssl.create_default_context(cafile=str(self._ca_file)) if self._ca_file else False
        connector = aiohttp.TCPConnector(limit=0, ssl=tls)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
            self._session = session
            application = web.Application(client_max_size=64 * 2**20)
            application.router.add_route("*", "/{rest:.*}", self._handle)
            runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            assert runner.addresses
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self._started.set()
            await self._stop.wait()
            await _turns()  # the runner does not know of connections that are just being accepted
            for each in list(self._open):
                _abort(each)
            await runner.cleanup()
            await _turns()  # a transport that was told to close has its socket until the loop comes round

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        seen = Seen(request.method, request.path, dict(request.query), await request.read())
        self.requests.append(seen)
        with self._lock:
            fault = next((each for each in self._faults if each.matches(seen)), None) or self.weather(seen) or Fault()
            fault.hits += 1
        self._open.append(request)
        self._at_once += not seen.watch
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            return await self._answer(request, seen, fault)
        except (aiohttp.ClientError, OSError):
            return _abort(request)
        finally:
            self._open.remove(request)
            self._at_once -= not seen.watch

    async def _answer(self, request: web.Request, seen: Seen, fault: Fault) -> web.StreamResponse:
        if fault.delay_seconds:
            await asyncio.sleep(fault.delay_seconds)
        if fault.cut_before:
            return _abort(request)
        if fault.status is not None:
            return web.Response(status=fault.status, body=fault.body, headers=fault.headers)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        async with self._session.request(
            seen.method,
            self.server + seen.path,
            params=seen.query,
            data=seen.body or None,
            headers=headers,
        ) as upstream:
            if fault.cut_after:
                await upstream.read()
                return _abort(request)
            passed = _passed_on(upstream.headers.items())
            if self.clock_ahead_seconds:
                passed["Date"] = formatdate(time.time() + self.clock_ahead_seconds, usegmt=True)
            if not seen.watch:
                return web.Response(status=upstream.status, body=await upstream.read(), headers=passed)
            try:
                return await self._stream(request, upstream, passed, fault)
            finally:
                # A farewell by TLS takes longer than this loop may live; a watch's connection is never used again.
                if upstream.connection is not None and upstream.connection.transport is not None:
                    upstream.connection.transport.abort()

    async def _stream(
        self, request: web.Request, upstream: aiohttp.ClientResponse, headers: dict[str, str], fault: Fault
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=upstream.status, headers=headers)
        await response.prepare(request)
        limits = [limit for limit in (fault.cut_after_lines, fault.stall_after_lines) if limit is not None]
        left = min(limits, default=None)
        if left is None:
            async for chunk in upstream.content.iter_any():
                await response.write(chunk)
            return response
        while left > 0 and (line := await upstream.content.readuntil(b"\n")):
            await response.write(line)
            left -= 1
        if fault.cut_after_lines is not None:
            return _abort(request)
        assert self._stop is not None
        await self._stop.wait()  # or until this handler is cancelled
        return response


def _passed_on(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: value for name, value in headers if name.lower() not in HOP_BY_HOP}


def _abort(request: web.Request) -> web.Response:
    """Close the connection under a request, without an answer."""
    if request.transport is not None:
        with contextlib.suppress(OSError):
            request.transport.abort()
    return web.Response()
