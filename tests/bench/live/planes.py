"""The control planes of one run: a new one for each measurement, or the last one emptied."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.controlplane.cleanup import wipe
from tests.controlplane.client import Client
from tests.controlplane.plane import ControlPlane

#: Priority and fairness would share the server between the loader and the schedulers; nobody here is a tenant.
SERVER_ARGS = (
    "--enable-priority-and-fairness=false",
    "--max-requests-inflight=0",
    "--max-mutating-requests-inflight=0",
)


class Planes:
    """Lends control planes, each to one measurement at a time; use it with `async with`, which stops them.

    Args:
        again: a plane is emptied and lent again, which takes a tenth of a new one's processor time; only for runs whose
            figures say nothing.
    """

    def __init__(self, *, again: bool = False) -> None:
        self._again = again
        self._idle: list[ControlPlane] = []
        self._kept = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._kept.aclose()

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[ControlPlane]:
        """A plane with nothing in it. One whose measurement failed is not lent again."""
        if not self._again:
            async with _started() as plane:
                yield plane
            return
        plane = self._idle.pop() if self._idle else await self._kept.enter_async_context(_started())
        yield plane
        async with Client(plane.admin_kubeconfig) as client:
            await wipe(client, plane.stored)
        self._idle.append(plane)


@asynccontextmanager
async def _started() -> AsyncIterator[ControlPlane]:
    with tempfile.TemporaryDirectory(prefix="bench-plane-") as name:
        plane = ControlPlane(Path(name), controller_manager=False, kwok=False, apiserver_args=SERVER_ARGS)
        await asyncio.to_thread(plane.start)
        try:
            yield plane
        finally:
            await asyncio.to_thread(plane.stop)
