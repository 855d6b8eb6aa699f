"""Runs kopf in a thread of its own: it watches the groups and queues whose status this scheduler keeps."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping

from gangsched import logs
from gangsched.cluster.kube.client import ApiError, Client, UnreachableError
from gangsched.cluster.kube.connection import ConnectionConfigError, load_connection
from gangsched.cluster.kube.discovery import Served, allowed, survey
from gangsched.cluster.kube.retry import AGAIN_SECONDS, Backoff, TokenBucket, end
from gangsched.cluster.kube.statuses import Statuses
from gangsched.model.dialects import DIALECTS
from gangsched.model.queues import GROUP

_log = logs.get("gangsched.controllers")

#: Objects that have a status that we keep. Where others wait for a phase the scheduler writes it by itself.
KEPT = (
    *(f"{each.plural}.{each.family}" for each in DIALECTS if each.status is not None and not each.awaited_from),
    *(f"{plural}.{GROUP}" for plural in ("clusterqueues", "cohorts", "localqueues")),
)

#: A CRD that is installed or removed is noticed within this time.
DISCOVERY_SECONDS = 30.0
#: Pause before controllers that have failed are started again.
RESTART_SECONDS = 30.0
#: Lists per second, and at once. They are few.
QPS, BURST = 5.0, 20


async def discover(client: Client) -> frozenset[Served]:
    """The kinds that the server has now, each in the version that is preferred here.

    Where Kueue runs, the statuses of queue objects are Kueue's. Raises :class:`~gangsched.cluster.kube.client.ApiError`
    and UnreachableError when the server does not say.
    """
    found = (await allowed(client, await survey(client))).served
    return frozenset(found[name] for name in KEPT if name in found)


class GroupControllers:
    """Tells ``statuses`` of all objects whose status is kept. Start it, stop it.

    It has its own connection to the API server and its own thread, so that no amount of objects slows down scheduling.
    Without any of their APIs it waits for one.
    """

    def __init__(
        self,
        statuses: Statuses,
        kubeconfig: str | None = None,
        context: str | None = None,
        *,
        discovery_seconds: float = DISCOVERY_SECONDS,
    ) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._statuses = statuses
        self._discovery_seconds = discovery_seconds
        self._thread = threading.Thread(target=self._main, name="controllers", daemon=True)
        self._begun = False
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None
        self._stopping = threading.Event()

    def start(self) -> None:
        """Return at once; everything else happens in the thread. Again: nothing."""
        if not self._begun and not self._stopping.is_set():
            self._begun = True
            self._thread.start()

    def stop(self) -> None:
        """End the thread. May be called again."""
        self._stopping.set()
        while self._begun and self._thread.is_alive():
            if (running := self._running) is not None:
                try:
                    running[0].call_soon_threadsafe(self._cancel)
                except RuntimeError:  # it has just ended by itself
                    _log.debug("the controllers had ended")
            # Also while it imports kopf: an interpreter that ends under an import may crash. Once more, since a library
            # may have lost the cancellation.
            self._thread.join(AGAIN_SECONDS)

    # ------------------------------------------------------------------------------------- the controllers' thread

    def _cancel(self) -> None:
        if self._running is not None:
            self._running[1].cancel()

    def _main(self) -> None:
        pauses = Backoff(initial_seconds=1.0, max_seconds=RESTART_SECONDS)
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                asyncio.run(self._serve())
            except asyncio.CancelledError:
                return
            except ConnectionConfigError as error:
                _log.error("the controllers cannot reach the API server", error=str(error))
            except Exception:  # noqa: BLE001 - a status that is late must not end the scheduler
                _log.exception("the controllers have failed, they will be started again")
            if time.monotonic() - began > RESTART_SECONDS:
                pauses.reset()
            self._stopping.wait(pauses.next_seconds())

    async def _serve(self) -> None:
        """Watch until the APIs of the server are others, or something ends; raises why."""
        # Here, since kopf takes a second to import: by now there is time for that.
        from gangsched.controllers.handlers import observe  # noqa: PLC0415

        task = asyncio.current_task()
        assert task is not None
        self._running = asyncio.get_running_loop(), task
        if self._stopping.is_set():
            return
        connection = await load_connection(self._kubeconfig, self._context)
        client = Client(connection, TokenBucket(QPS, BURST))
        client.open()
        tasks: list[asyncio.Task[None]] = []
        try:
            served = await self._discover(client)
            _log.info("APIs", served=[f"{s.plural}.{s.family}/{s.version}" for s in sorted(served)])
            self._statuses.serve(served)
            looking = asyncio.create_task(self._until_others(client, served), name="looking for APIs")
            tasks.append(looking)
            if served:
                tasks.append(asyncio.create_task(observe(client, served, self._statuses), name="watching objects"))
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for ended in done - {looking}:
                error = ended.exception()
                _log.warning("watching groups and queues ended, it will be started again", error=repr(error))
        finally:
            self._running = None  # a cancellation that comes now would leave connections open
            await end(tasks)
            await client.close()
            await _close_the_rest()

    async def _discover(self, client: Client) -> frozenset[Served]:
        """The kinds that there are, as soon as the server says so."""
        backoff = Backoff(initial_seconds=1.0, max_seconds=60.0)
        while True:
            try:
                return await discover(client)
            except (ApiError, UnreachableError) as error:
                _log.warning("the APIs of groups and queues could not be discovered", error=str(error))
                await asyncio.sleep(backoff.next_seconds())

    async def _until_others(self, client: Client, served: frozenset[Served]) -> None:
        while True:
            await asyncio.sleep(self._discovery_seconds)
            if await self._discover(client) != served:
                return


async def _close_the_rest() -> None:
    """Close the connections of this event loop which no client knows: one that was being opened when the request was
    cancelled belongs to nothing any more.
    """
    left: Mapping[int, asyncio.Transport] = getattr(asyncio.get_running_loop(), "_transports", {})
    for transport in [*left.values()]:
        transport.abort()
    await asyncio.sleep(0)
