"""The status controller on an API of which every request is known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from gangsched.cluster.kube.discovery import Served
from gangsched.controllers.status import PERIOD_SECONDS, Key, Seen, StatusWriter
from gangsched.core.actions import GangStatus

SIGS, UPSTREAM = "scheduling.sigs.k8s.io", "scheduling.k8s.io"

SIGS_API = Served(SIGS, "v1alpha1", True)

NOW = 1_800_000_000.0

NOW_TEXT = "2027-01-15T08:00:00Z"


def desired(phase: str, **fields: Any) -> dict[str, Any]:
    """What the core says of a gang of two."""
    counts = {"members": 2, "scheduled": 0, "running": 0, "succeeded": 0, "failed": 0, "reason": "", "message": ""}
    return {"phase": phase, **counts, **fields}


class Api:
    """An API server with one group: merges patches, or fails as it was told."""

    def __init__(self, *, fails: list[Exception] | None = None, drops: tuple[str, ...] = ()) -> None:
        self.status: dict[str, Any] = {}
        self.patches: list[dict[str, Any]] = []
        self.fails = fails or []
        self.drops = drops
        self.version = 1
        self.patched = asyncio.Event()

    async def patch(self, served: Served, namespace: str, name: str, body: Any) -> dict[str, Any]:
        self.patches.append(body)
        self.patched.set()
        if self.fails:
            raise self.fails.pop(0)
        self.version += 1
        self.status |= {key: value for key, value in body["status"].items() if key not in self.drops}
        return self.object()

    async def read(self, served: Served, namespace: str, name: str) -> dict[str, Any]:
        return self.object()

    def object(self) -> dict[str, Any]:
        return {"metadata": {"uid": "uid", "resourceVersion": str(self.version)}, "status": dict(self.status)}


class Bench:
    """A writer over that API, whose pauses end at once and are noted; those beyond the period never end if it
    ``rests``.
    """

    def __init__(self, api: Api) -> None:
        self.api = api
        self.pauses: list[float] = []
        self.rests = False
        self.now = NOW
        self.writer = StatusWriter(api.patch, api.read, now=lambda: self.now, sleep=self._sleep)
        self.writer.serve(frozenset({SIGS_API}))
        self.key = Key(SIGS, "ns", "gang")

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await (asyncio.Event().wait() if self.rests and seconds > PERIOD_SECONDS else asyncio.sleep(0))

    def want(self, phase: str, uid: str = "uid", **fields: Any) -> None:
        self.writer.want(GangStatus(SIGS, "ns", "gang", uid, desired(phase, **fields)))

    def see(self, status: dict[str, Any] | None = None, uid: str = "uid") -> None:
        self.writer.saw(self.key, Seen(uid, str(self.api.version), 1, self.api.status if status is None else status))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Callable[[], Awaitable[int]]]:
        """The writer runs; yields what lets it do all that it has to do now, and counts the patches since the last
        time.
        """
        task = asyncio.create_task(self.writer.run())
        seen = len(self.api.patches)

        async def written() -> int:
            nonlocal seen
            for _ in range(50):
                await asyncio.sleep(0)
            before, seen = seen, len(self.api.patches)
            return seen - before

        yield written
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def settle(self) -> list[dict[str, Any]]:
        """Let the writer do all that it has to do; the patches since the last time."""
        async with self.running() as written:
            await written()
        patches, self.api.patches = self.api.patches, []
        return patches
