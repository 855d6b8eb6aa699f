"""One cell with one candidate: a fresh control plane, everything loaded, then the scheduler starts."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import msgspec

from tests.bench.live import cells
from tests.bench.live.api import Api, Ruler
from tests.bench.live.candidates import KUBE, OURS, Candidate, Process
from tests.bench.live.cells import Cell
from tests.controlplane.client import Client
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac

#: Who is not done by then counts as having taken this long.
LIMIT_SECONDS = 180.0


class Result(msgspec.Struct):
    """Seconds from the start of the process; None for what did not happen. ``calls`` of all pods, by kind; ``runs`` are
    the seconds to the last bind of all runs, of which this was the median one.
    """

    cell: str
    candidate: str
    pods: int
    bound: int
    removed: int
    first_bind: float | None
    last_bind: float | None
    first_removal: float | None
    last_removal: float | None
    cpu_seconds: float
    peak_mb: float
    calls_per_pod: float
    calls: dict[str, int]
    finished: bool
    note: str = ""
    runs: list[float] = []

    @property
    def seconds(self) -> float:
        """To the last bind; the limit when it was not reached."""
        return self.last_bind if self.finished and self.last_bind is not None else LIMIT_SECONDS


async def measure(cell: Cell, candidate: Candidate, limit_seconds: float = LIMIT_SECONDS) -> Result:
    """Run it."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        plane = ControlPlane(folder / "plane", controller_manager=False, kwok=False, apiserver_args=SERVER_ARGS)
        await asyncio.to_thread(plane.start)
        try:
            return await _measure(cell, candidate, plane, folder, limit_seconds)
        finally:
            await asyncio.to_thread(plane.stop)


#: Priority and fairness would share the server between the loader and the schedulers; nobody here is a tenant.
SERVER_ARGS = (
    "--enable-priority-and-fairness=false",
    "--max-requests-inflight=0",
    "--max-mutating-requests-inflight=0",
)


async def load(api: Api, plane: ControlPlane, cell: Cell, scheduler: str, *, pending: bool = True) -> None:
    """Everything that exists before the scheduler starts."""
    async with Client(plane.admin_kubeconfig) as client:
        await apply_manifests_crds(client)
        await apply_manifests_rbac(client, SCHEDULER_USER)
    await api.create(cells.classes())
    await api.create(cells.nodes(cell))
    groups = cells.groups(cell if pending else msgspec.structs.replace(cell, size=1))
    await api.create(groups[: len(groups) // 2])  # Workloads, then the PodGroups that name them
    await api.create(groups[len(groups) // 2 :])
    await api.create(cells.victims(cell))
    if pending:
        await api.create(cells.pending(cell, scheduler))


async def _measure(cell: Cell, candidate: Candidate, plane: ControlPlane, folder: Path, limit_seconds: float) -> Result:
    scheduler = candidate.name if candidate.name in (OURS, KUBE) else "nobody"
    async with Api(plane) as api:
        await load(api, plane, cell, scheduler)
        before = await api.calls()
        async with Ruler(api) as ruler:
            log = folder / f"{candidate.name}.log"
            command = candidate.command(plane, cell, folder)
            began = time.monotonic()
            process = Process(command, log)
            try:
                finished = await ruler.until(
                    lambda: len(ruler.bound) >= cell.pods or process.ended not in (None, 0), began + limit_seconds
                )
            finally:
                await asyncio.to_thread(process.stop)
        finished = finished and len(ruler.bound) >= cell.pods
        after = await api.calls()
        calls = {k: n for k, v in after.items() if (n := v - before.get(k, 0)) > 0}
        note = "" if finished else f"ends with: {log.read_text(errors='replace')[-300:]}"
        return Result(
            cell=cell.name,
            candidate=candidate.name,
            pods=cell.pods,
            bound=len(ruler.bound),
            removed=len(ruler.removed),
            first_bind=_since(began, min(ruler.bound.values(), default=None)),
            last_bind=_since(began, max(ruler.bound.values(), default=None)),
            first_removal=_since(began, min(ruler.removed.values(), default=None)),
            last_removal=_since(began, max(ruler.removed.values(), default=None)),
            cpu_seconds=round(process.cpu_seconds, 2),
            peak_mb=round(process.peak_bytes / 1e6, 1),
            calls_per_pod=round(sum(calls.values()) / max(1, len(ruler.bound)), 2),
            calls=dict(sorted(calls.items(), key=lambda item: -item[1])),
            finished=finished,
            note=note,
        )


def _since(began: float, moment: float | None) -> float | None:
    return None if moment is None else round(moment - began, 3)
