"""Runs the controllers: kopf watches groups and queues in a thread of its own, and another writes their status.

kopf cancels every task of its event loop when it stops, so it gets a loop that nothing else uses. Its handlers only
observe: a handler that returned something, or that stored progress, would write to the users' objects.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any

import kopf
import structlog

from gangsched.cluster.kube.client import ApiError, Client, UnreachableError
from gangsched.cluster.kube.connection import Connection, ConnectionConfigError, load_connection
from gangsched.cluster.kube.retry import Backoff, TokenBucket
from gangsched.cluster.kube.tasks import end
from gangsched.controllers.api import KopfSession, Served, discover, patch_status, read_object
from gangsched.controllers.writer import Key, StatusWriter, seen_object
from gangsched.core.actions import GangStatus

_log = structlog.get_logger("gangsched.controllers")

#: A CRD that is installed or removed is noticed within this time.
DISCOVERY_SECONDS = 30.0
#: Pause before controllers that have failed are started again.
RESTART_SECONDS = 30.0
_PAGE_OBJECTS = 500


class GroupControllers:
    """Start it, post statuses from any thread, stop it.

    It has its own connection to the API server and its own rate limit (``qps`` requests per second on average,
    ``burst`` at once; watches do not count), so that no amount of objects slows down scheduling. Without any of their
    APIs it waits for one.
    """

    def __init__(
        self,
        kubeconfig: str | None = None,
        context: str | None = None,
        *,
        qps: float,
        burst: int,
        discovery_seconds: float = DISCOVERY_SECONDS,
    ) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._qps = qps
        self._burst = burst
        self._discovery_seconds = discovery_seconds
        self._thread = threading.Thread(target=self._main, name="controllers", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._stopping = threading.Event()
        self._client: Client | None = None
        self.writer = StatusWriter(self._send, self._read)

    def start(self) -> None:
        """Return at once; everything else happens in threads."""
        self._thread.start()

    def post(self, action: GangStatus) -> None:
        """The status that an object should have from now on. From any thread; never blocks."""
        self.writer.want(action)

    def set_leading(self, *, leading: bool) -> None:
        """Whether this process may write; when not, all wanted statuses are dropped."""
        self.writer.set_leading(leading=leading)

    def stop(self) -> None:
        """End all threads. May be called again."""
        self._stopping.set()
        loop, stop = self._loop, self._stop
        if loop is not None and stop is not None:
            try:
                loop.call_soon_threadsafe(stop.set)
            except RuntimeError:  # it has just ended by itself
                _log.debug("the controllers had ended")
        if self._thread.is_alive():
            self._thread.join()

    # ------------------------------------------------------------------------------------- the controllers' thread

    def _main(self) -> None:
        while not self._stopping.is_set():
            try:
                asyncio.run(self._supervise())
            except ConnectionConfigError as error:
                _log.error("the controllers cannot reach the API server", error=str(error))
            except Exception:  # noqa: BLE001 - a status that is late must not end the scheduler
                _log.exception("the controllers have failed, they will be started again")
            self._stopping.wait(RESTART_SECONDS)

    async def _supervise(self) -> None:
        self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if self._stopping.is_set():
            return
        connection = await load_connection(self._kubeconfig, self._context)
        self._client = Client(connection, TokenBucket(self._qps, self._burst))
        self._client.open()
        writing = asyncio.create_task(self.writer.run(), name="writing statuses")
        following = asyncio.create_task(self._follow(self._client), name="following objects")
        try:
            done, _ = await asyncio.wait((writing, following), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # raises what ended it
            if writing in done and not self._stopping.is_set():
                raise RuntimeError(f"{writing.get_name()} has ended")
        finally:
            await end([following, writing])
            await self._client.close()

    async def _follow(self, client: Client) -> None:
        """Keep one kopf running for exactly the APIs that exist."""
        assert self._stop is not None
        backoff = Backoff(initial_seconds=1.0, max_seconds=60.0)
        watcher: GroupWatcher | None = None
        served: frozenset[Served] = frozenset()
        try:
            while not self._stop.is_set():
                pause = self._discovery_seconds
                try:
                    found = await discover(client)
                except (ApiError, UnreachableError) as error:
                    _log.warning("the APIs of groups and queues could not be discovered", error=str(error))
                    pause = backoff.next_seconds()
                else:
                    dead = watcher is not None and not watcher.alive
                    if dead:
                        pause = min(pause, backoff.next_seconds())
                    if found != served or dead:
                        await _end(watcher)
                        served = found
                        self.writer.serve(served)
                        watcher = GroupWatcher(self.writer, served, self._kubeconfig, self._context) if served else None
                        if watcher is not None:
                            watcher.start()
                        _log.info("APIs", served=[f"{s.plural}.{s.family}/{s.version}" for s in sorted(served)])
                    elif not dead:
                        backoff.reset()
                try:
                    async with asyncio.timeout(pause):
                        await self._stop.wait()
                except TimeoutError:
                    continue
        finally:
            await _end(watcher)

    async def _read(self, served: Served, namespace: str, name: str) -> dict[str, Any]:
        assert self._client is not None
        return await read_object(self._client, served, namespace, name)

    async def _send(self, served: Served, namespace: str, name: str, patch: Any) -> dict[str, Any]:
        assert self._client is not None
        return await patch_status(self._client, served, namespace, name, patch)


async def _end(watcher: GroupWatcher | None) -> None:
    if watcher is not None:
        await asyncio.to_thread(watcher.stop)


class GroupWatcher:
    """One kopf operator in its own thread, for the APIs that were given; it ends when kopf gives up."""

    def __init__(
        self, writer: StatusWriter, served: frozenset[Served], kubeconfig: str | None, context: str | None
    ) -> None:
        self._writer = writer
        self._served = served
        self._kubeconfig = kubeconfig
        self._context = context
        self._sessions: list[KopfSession] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._main, name="kopf", daemon=True)

    @property
    def alive(self) -> bool:
        """False once kopf has ended."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Watch in the background."""
        self._thread.start()

    def stop(self) -> None:
        """Return when kopf has ended."""
        self._stop.set()
        self._thread.join()

    def _main(self) -> None:
        try:
            with asyncio.Runner() as runner:
                try:
                    runner.run(self._operate())
                finally:
                    runner.run(self._close())
        except Exception as error:  # noqa: BLE001 - whatever ends kopf, the supervisor starts it again
            _log.warning(
                "watching groups and queues ended, it will be started again", error=str(error) or type(error).__name__
            )

    async def _operate(self) -> None:
        connection = await load_connection(self._kubeconfig, self._context)

        def open_session() -> KopfSession:
            session = KopfSession(connection)
            self._sessions.append(session)
            return session

        try:
            await kopf.operator(
                registry=_registry(self._served, connection, open_session, self._writer),
                settings=_settings(),
                clusterwide=True,
                standalone=True,
                stop_flag=self._stop,
            )
        finally:
            self._stop.set()  # kopf waits for the flag in a worker thread, which would keep this one from ending

    async def _close(self) -> None:
        """Close what kopf leaves open: it abandons its watches as suspended generators when it is cancelled."""
        await asyncio.get_running_loop().shutdown_asyncgens()
        for session in self._sessions:
            await session.close()


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    # Discovery is ours: watching CRDs and namespaces would need rights that the scheduler does not have.
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.process.ultimate_exiting_timeout = None
    settings.watching.chunk_size = _PAGE_OBJECTS
    settings.networking.request_timeout = 30.0
    return settings


def _registry(
    served: frozenset[Served], connection: Connection, open_session: Callable[[], KopfSession], writer: StatusWriter
) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    logins = 0

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        nonlocal logins
        logins += 1
        if logins > 1:  # kopf asks again when the server has answered 401
            await connection.rejected()
        return kopf.AiohttpSession(server=connection.server, aiohttp_session=open_session())  # type: ignore[arg-type]

    for each in sorted(served):
        _observe(registry, each, writer)
    return registry


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
