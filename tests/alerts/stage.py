"""A small cluster on a real control plane, and a scheduler whose metrics are scraped every second."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.controlplane.cleanup import wipe
from tests.controlplane.client import ApiError, Client, Object, wait_until
from tests.controlplane.objects import ready_node
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.e2e.scheduler import RunningScheduler, start_process
from tests.e2e.stories import nodes_ready
from tests.faulty_proxy import FaultyProxy

OURS = "py-gang-scheduler"
GROUP = "pod-group.scheduling.sigs.k8s.io"
HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
WAIT_SECONDS = 120.0
_names = itertools.count(1)


def pod(name: str, *, cpu: str = "8", gang: str = "", grace: int = 1, **spec: Any) -> Object:
    """A pod of this scheduler that takes a whole node unless told otherwise."""
    meta: Object = {"name": name, "namespace": "default", "labels": {GROUP: gang} if gang else {}, "annotations": {}}
    requests = {"cpu": cpu, "memory": "1Mi"}
    container = {"name": "main", "image": "example/none", "resources": {"requests": requests}}
    body = {"schedulerName": OURS, "terminationGracePeriodSeconds": grace, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body}


def group(name: str, minimum: int) -> Object:
    """A gang of so many members."""
    meta = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": meta,
        "spec": {"minMember": minimum},
    }


class Stage:
    """What a play has; ``scrapes`` is what /metrics said in each second since the scheduler was ready."""

    def __init__(self, admin: Client, plane: ControlPlane, proxy: FaultyProxy, folder: Path) -> None:
        self.admin, self.proxy = admin, proxy
        self._plane, self._folder = plane, folder
        self.scrapes: dict[int, str | None] = {}

    async def clear(self) -> None:
        """Remove what an earlier play has left, and its series."""
        self.proxy.heal()
        self.proxy.clock_ahead_seconds = 0.0
        self.scrapes = {}
        await wipe(self.admin, self._plane.stored)
        await self.admin.apply([HIGH])

    async def nodes(self, count: int, cpu: str = "8") -> list[str]:
        """New nodes that are ready."""
        names = [f"node-{next(_names)}" for _ in range(count)]
        for name in names:
            await self.admin.create(ready_node(name, cpu, "64Gi", "110"))
        await nodes_ready(self.admin)
        return names

    @asynccontextmanager
    async def scheduler(self, **settings: Any) -> AsyncIterator[RunningScheduler]:
        """One that runs with the rights of manifests/, behind the proxy, while it is scraped."""
        folder = self._folder / f"run-{next(_names)}"
        folder.mkdir()
        kubeconfig = self._plane.kubeconfig(SCHEDULER_USER, self.proxy.url)
        scheduler = await start_process(kubeconfig, folder, **settings)
        try:
            await wait_until(scheduler.ready, WAIT_SECONDS, what="the scheduler is ready")
            scraping = asyncio.create_task(self._scrape(scheduler))
            try:
                yield scheduler
            finally:
                scraping.cancel()
                await asyncio.gather(scraping, return_exceptions=True)
        except BaseException as error:
            error.add_note(scheduler.log.read_text()[-3000:])
            raise
        finally:
            await scheduler.stop()

    async def _scrape(self, scheduler: RunningScheduler) -> None:
        began, leads = time.monotonic(), False
        while True:
            text: str | None = None
            with contextlib.suppress(aiohttp.ClientError):
                text = await scheduler.metrics()
            if not leads:  # before that there is nothing to see but its start
                leads = text is not None and "gangsched_leader 1.0" in text
                began = time.monotonic()
            if leads:
                self.scrapes[int(time.monotonic() - began)] = text
            await asyncio.sleep(1.0 - (time.monotonic() - began) % 1.0)

    async def runs(self, *names: str) -> None:
        """These pods run."""
        for name in names:
            await self.admin.wait_for(
                "Pod", name, lambda found: found["status"].get("phase") == "Running", timeout=WAIT_SECONDS
            )

    async def remove(self, *names: str) -> None:
        """These pods are gone at once."""
        for name in names:
            with contextlib.suppress(ApiError):
                await self.admin.delete("Pod", name, grace_seconds=0)
            await self.admin.wait_gone("Pod", name, timeout=WAIT_SECONDS)
