"""The HTTP server for probes, scrapes and the curious, and what it judges by.

It has a thread and an event loop of its own, so that it answers while the decision thread plans; the interpreter
switches threads every few milliseconds.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from gangsched.core.actions import Action
from gangsched.core.decision import Decision
from gangsched.core.events import Event, Synced
from gangsched.runtime.loop import Observer

#: A check returns None when all is well, else what is wrong.
Check = Callable[[], str | None]


class LoopPulse:
    """Asks an event loop of another thread for a sign of life, once a second, and knows how late it came.

    ``lag`` receives the seconds from asking to answer.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        lag: Callable[[float], None],
        *,
        dead_after_seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loop = loop
        self._lag = lag
        self._dead_after_seconds = dead_after_seconds
        self._clock = clock
        self._asked: float | None = None

    def beat(self) -> None:
        """Ask, unless the last question is still open."""
        if self._asked is None:
            self._asked = self._clock()
            try:
                self._loop.call_soon_threadsafe(self._answer)
            except RuntimeError:  # the loop is closed: the open question makes check() fail in time
                return

    def _answer(self) -> None:
        if self._asked is not None:
            self._lag(self._clock() - self._asked)
        self._asked = None

    def check(self) -> str | None:
        """None, or since when the loop has not answered."""
        asked = self._asked
        if asked is None or (late := self._clock() - asked) < self._dead_after_seconds:
            return None
        return f"the I/O loop has not answered for {late:.0f} s"


class DecisionPulse(Observer):
    """Knows whether the decision loop moves, and whether the caches have been synced."""

    def __init__(self, *, stuck_after_seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._stuck_after_seconds = stuck_after_seconds
        self._clock = clock
        self._busy_since: float | None = None
        self._failure: str | None = None
        self.synced = False

    def handled(self, events: Sequence[Event], actions: Sequence[Action], seconds: float, now: float) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        if not self.synced and any(isinstance(event, Synced) for event in events):
            self.synced = True
        self.busy()

    def decided(self, decisions: Sequence[Decision], actions: Sequence[Action], seconds: float, now: float) -> None:
        """See :class:`~gangsched.runtime.loop.Observer`."""
        self.busy()

    def busy(self) -> None:
        """The loop has begun its next step."""
        self._busy_since = self._clock()

    def idle(self) -> None:
        """The loop waits for something to happen, which may take for ever."""
        self._busy_since = None

    def failed(self, reason: str) -> None:
        """The loop has ended although nobody stopped it."""
        self._failure = reason

    def check(self) -> str | None:
        """None, or why no decisions are made."""
        if self._failure is not None:
            return f"the decision thread has ended: {self._failure}"
        since = self._busy_since
        if since is not None and (seconds := self._clock() - since) > self._stuck_after_seconds:
            return f"the decision thread has been in one step for {seconds:.0f} s"
        return None

    def check_synced(self) -> str | None:
        """None, or that caches are not complete."""
        return None if self.synced else "the caches are not synced yet"


class HealthServer:
    """Serves /healthz, /readyz, /metrics and /configz in a thread of its own.

    ``alive`` and ``ready`` map names of checks to checks; a readiness probe runs both. ``beat`` is called once a
    second. ``configuration`` is sent as it is (JSON). Port 0 takes a free one; ``port`` tells which.
    """

    def __init__(
        self,
        *,
        host: str | None,
        port: int,
        alive: Mapping[str, Check],
        ready: Mapping[str, Check],
        registry: CollectorRegistry,
        configuration: bytes,
        beat: Callable[[], None] | None = None,
    ) -> None:
        self.port = port
        self._host = host
        self._alive = dict(alive)
        self._ready = {**self._alive, **ready}
        self._registry = registry
        self._configuration = configuration
        self._beat = beat
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)
        self._started = threading.Event()
        self._stop = asyncio.Event()
        self._error: OSError | None = None

    def start(self) -> None:
        """Return when the port is open. Raises OSError when it cannot be opened."""
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error

    def stop(self) -> None:
        """Close the port and end the thread. May be called again."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._started.set()
            self._loop.close()

    async def _serve(self) -> None:
        application = web.Application()
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/configz", self._configz)
        runner = web.AppRunner(application, access_log=None, handle_signals=False)
        await runner.setup()
        try:
            site = web.TCPSite(runner, self._host, self.port)
            try:
                await site.start()
            except OSError as error:
                self._error = error
                return
            self.port = runner.addresses[0][1]
            self._started.set()
            while not self._stop.is_set():
                if self._beat is not None:
                    self._beat()
                try:
                    await asyncio.wait_for(self._stop.wait(), 1.0)
                except TimeoutError:
                    continue
        finally:
            await runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return _answer(self._alive)

    async def _readyz(self, _: web.Request) -> web.Response:
        return _answer(self._ready)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _configz(self, _: web.Request) -> web.Response:
        return web.Response(body=self._configuration, content_type="application/json")


def _answer(checks: Mapping[str, Check]) -> web.Response:
    problems = {name: problem for name, check in checks.items() if (problem := check()) is not None}
    if not problems:
        return web.Response(text="ok\n")
    return web.Response(status=503, text="".join(f"{name}: {problem}\n" for name, problem in problems.items()))
