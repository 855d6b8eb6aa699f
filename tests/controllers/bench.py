"""The status controller on an API of which every request is known."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from gangsched.cluster.kube.bodies import Request
from gangsched.cluster.kube.discovery import Served
from gangsched.cluster.kube.statuses import RETRY_SECONDS, Seen, Statuses, Timer
from gangsched.core.actions import GangStatus, ObjectKey

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

    async def attempt(self, request: Request) -> bytes:
        """One request."""
        if request.method == "PATCH":
            body = json.loads(request.body)
            self.patches.append(body)
            self.patched.set()
            if self.fails:
                raise self.fails.pop(0)
            self.version += 1
            self.status |= {key: value for key, value in body["status"].items() if key not in self.drops}
        return json.dumps(self.object()).encode()

    def object(self) -> dict[str, Any]:
        return {"metadata": {"uid": "uid", "resourceVersion": str(self.version)}, "status": dict(self.status)}


class Never:
    """A call that is not made, or was made at once."""

    def cancel(self) -> None:
        """Nothing."""


class Bench:
    """Statuses over that API, whose pauses are noted and end at once; but for the shortest never if it ``rests``."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.pauses: list[float] = []
        self.rests = False
        self.now = NOW
        self.statuses = Statuses(now=lambda: self.now, call_later=self._later)
        self.statuses.serve(frozenset({SIGS_API}))
        self.key = ObjectKey(SIGS, "ns", "gang")

    def _later(self, seconds: float, call: Callable[[], None]) -> Timer:
        self.pauses.append(seconds)
        return Never() if self.rests and seconds > RETRY_SECONDS[0] else asyncio.get_running_loop().call_soon(call)

    def want(self, phase: str, uid: str = "uid", **fields: Any) -> None:
        self.statuses.want(GangStatus(SIGS, "ns", "gang", uid, desired(phase, **fields)))

    def see(self, status: dict[str, Any] | None = None, uid: str = "uid") -> None:
        self.statuses.saw(self.key, Seen(uid, str(self.api.version), 1, self.api.status if status is None else status))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Callable[[], Awaitable[int]]]:
        """Objects have their turns; yields what waits until all have had them, and counts the patches since the last
        time.
        """

        async def turns() -> None:
            while True:
                for action in self.statuses.asked():
                    await self.statuses.bring_about(action, self.api.attempt)
                await asyncio.sleep(0)

        task = asyncio.create_task(turns())
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
        """Let all objects have their turns; the patches since the last time."""
        async with self.running() as written:
            await written()
        patches, self.api.patches = self.api.patches, []
        return patches
