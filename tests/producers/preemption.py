"""The story of every kind of gang: one runs, another one of higher priority evicts it whole, and it comes back."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tests.controlplane.client import Client, Object, wait_until
from tests.controlplane.plane import ControlPlane
from tests.e2e.scheduler import running_scheduler
from tests.e2e.stories import events
from tests.producers.running import record


class Rivals(NamedTuple):
    """Gangs of one kind, each of ``members`` pods that bear its name in ``label``; there is room for one of them.

    Before any of its pods runs all of them are there, or only the ``first`` ones.
    """

    admin: Client
    label: str
    members: int
    first: int = 0

    async def pods(self, gang: str, *phases: str) -> list[Object]:
        """Pods of a gang that are not being deleted, in one of these phases if some are given."""
        found = [p for p in await self.admin.list("Pod") if p["metadata"].get("labels", {}).get(self.label) == gang]
        there = [p for p in found if "deletionTimestamp" not in p["metadata"]]
        return [p for p in there if not phases or p["status"]["phase"] in phases]

    async def all_in(self, gang: str, phase: str, count: int = 0) -> None:
        """Wait until all pods of a gang, or as many as are said, are there, in this phase."""
        wanted = count or self.members

        async def reached() -> bool:
            return len(await self.pods(gang, phase)) == wanted

        await wait_until(reached, what=f"the {wanted} pods of {gang} are {phase}", timeout=240)

    async def clear(self, gang: Object) -> None:
        """Delete a gang, and wait until none of its pods is left."""
        name = gang["metadata"]["name"]
        await self.admin.delete(f"{gang['apiVersion']}/{gang['kind']}", name)

        async def gone() -> bool:
            return not await self.pods(name)

        await wait_until(gone, what=f"the pods of {name} are gone", timeout=60)

    async def meet(
        self,
        plane: ControlPlane,
        folder: Path,
        low: list[Object],
        high: list[Object],
        recorded: tuple[Iterable[str], Path] | None = None,
        **settings: Any,
    ) -> None:
        """The low one runs; the high one is created, recorded with these kinds, and takes the other's room until it is
        deleted. The last object of each is the gang; the scheduler has these settings.
        """
        lower, higher = (each[-1]["metadata"]["name"] for each in (low, high))
        patient = {**settings, "preemption": {"delay": "1h"}}
        async with running_scheduler(plane.scheduler_kubeconfig, folder, **patient):
            await self.admin.apply(low)
            await self.all_in(lower, "Running")
            await self.admin.apply(high)
            await self.all_in(higher, "Pending", self.first)
        ran = {p["metadata"]["name"] for p in await self.pods(lower)}
        if recorded is not None:
            await record(self.admin, *recorded)
        async with running_scheduler(plane.scheduler_kubeconfig, folder, **settings):
            await self.all_in(higher, "Running")
            left = await self.pods(lower, "Running")
            assert not left, f"{lower} does not leave whole: {[p['metadata']['name'] for p in left]}"
            evicted = {e["regarding"]["name"] for e in await events(self.admin, "Preempted")}
            assert ran <= evicted, f"no Event says that these were evicted: {sorted(ran - evicted)}"
            await self.clear(high[-1])
            await self.all_in(lower, "Running")
        await self.clear(low[-1])
        print(f"{higher} ran with {self.members} pods in the room of {lower}, which left whole and ran again")
