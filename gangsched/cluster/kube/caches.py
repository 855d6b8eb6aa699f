"""All reflectors together: the fixed resources, and the groups and queues of whatever APIs the cluster serves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from gangsched import logs
from gangsched.cluster.kube import discovery
from gangsched.cluster.kube.client import ApiError, Client, UnreachableError
from gangsched.cluster.kube.measuring import Observe, ignore
from gangsched.cluster.kube.reflector import Reflector
from gangsched.cluster.kube.resources import CORE_RESOURCES, SERVED_RESOURCES, Resource
from gangsched.cluster.kube.retry import Backoff
from gangsched.cluster.kube.tasks import end
from gangsched.core.events import Event
from gangsched.model.convert import Converter

_log = logs.get(__name__)

#: What the first decision waits for longest is asked for first.
_LARGE = ("nodes", "pods")


class CacheHealth(NamedTuple):
    """State of one resource. ``silent_seconds`` is how long nothing has been heard, bookmarks included."""

    resource: str
    listed: bool
    silent_seconds: float
    problem: str


class Caches:
    """Runs the reflectors as children of :meth:`run`; everything they find goes to ``deliver``."""

    def __init__(
        self,
        client: Client,
        deliver: Callable[[list[Event]], None],
        *,
        observe: Observe = ignore,
        discovery_seconds: float = discovery.PERIOD_SECONDS,
        quota_mode: str = discovery.AUTO,
    ) -> None:
        self._client = client
        self._deliver = deliver
        self._observe = observe
        self._discovery_seconds = discovery_seconds
        self._quota_mode = quota_mode
        self._converter = Converter()
        self._reflectors: dict[str, Reflector] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._known = asyncio.Event()

    async def run(self) -> None:
        """Mirror until cancelled; raises when a reflector ends, which none ever should."""
        try:
            for resource in sorted(CORE_RESOURCES, key=lambda each: each.name not in _LARGE):
                self._mirror(resource)
            discover = asyncio.create_task(self._discover(), name="discovery")
            self._tasks["discovery"] = discover
            while True:
                done, _ = await asyncio.wait(self._tasks.values(), timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if task in self._tasks.values() and not task.cancelled():
                        task.result()
                        raise RuntimeError(f"{task.get_name()} has ended")
        finally:
            await end(self._tasks.values())

    async def synced(self) -> None:
        """Return once it is known which gang APIs are served and every resource has been listed."""
        await self._known.wait()
        while waiting := [each for each in self._reflectors.values() if not each.listed.is_set()]:
            await waiting[0].listed.wait()  # or until another has taken its place

    async def refresh(self) -> None:
        """Bring every cache up to what the store holds now, by lists that begin after this call."""
        await asyncio.gather(*(reflector.refresh() for reflector in list(self._reflectors.values())))

    def health(self) -> list[CacheHealth]:
        """State of every resource, by name."""
        now = time.monotonic()
        return [
            CacheHealth(name, reflector.listed.is_set(), now - reflector.heard_at, reflector.problem)
            for name, reflector in sorted(self._reflectors.items())
        ]

    # --------------------------------------------------------------------------------------------------- gang APIs

    async def _discover(self) -> None:
        """Find out which gang APIs are served, now and then again: a CRD may be installed while we run."""
        backoff = Backoff(max_seconds=10.0)
        while True:
            try:
                served = await discovery.served_resources(self._client, self._quota_mode)
            except (ApiError, UnreachableError) as error:
                _log.warning("cannot find out which gang and queue APIs are served", error=str(error))
                await asyncio.sleep(backoff.next_seconds())
                continue
            backoff.reset()
            for resource in SERVED_RESOURCES:
                found = served.get(resource.name)
                await self._serve(resource, found.version if found else None)
            self._known.set()
            await asyncio.sleep(self._discovery_seconds)

    async def _serve(self, resource: Resource, version: str | None) -> None:
        """Watch this version of an API (None: it is not served) and no other."""
        name = resource.name
        known = self._reflectors.get(name)
        if (known.resource.version if known else None) == version:
            return
        if name in self._tasks:
            await end([self._tasks.pop(name)])
        if version is not None:
            _log.info("API found", api=f"{name}/{version}")
            self._mirror(resource.at(version))
        elif known is not None:
            del self._reflectors[name]
            known.drop()
            _log.info("API is no longer served", api=name)

    def _mirror(self, resource: Resource) -> None:
        reflector = self._reflectors.get(resource.name)
        if reflector is None:
            reflector = Reflector(resource, self._client, self._converter, self._deliver, observe=self._observe)
            self._reflectors[resource.name] = reflector
        reflector.follow(resource)
        self._tasks[resource.name] = asyncio.create_task(reflector.run(), name=f"reflector {resource.name}")
