"""One cell with one candidate: an empty control plane, everything loaded, then the scheduler starts."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.bench.live import cells
from tests.bench.live.api import Api, Calls, Ruler
from tests.bench.live.candidates import FLOOR, Candidate, Process
from tests.bench.live.cells import Cell
from tests.bench.live.planes import Planes
from tests.controlplane.client import Client
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac

#: Who is not done by then counts as having taken this long.
LIMIT_SECONDS = 180.0
#: Everything is told when no Event and no status has been written for so long; where the limit is short, as in a smoke
#: run, this part of it is enough. Nobody is waited for longer than ``TOLD_SECONDS``.
STILL_SECONDS, STILL_PART, TOLD_SECONDS = 3.0, 1 / 60, 60.0
_LOOK_SECONDS = 0.5
_TOLD = ("events", "pods/status", "podgroups/status")


class Result(msgspec.Struct):
    """Seconds from the start of the process; None for what did not happen.

    ``told`` is when the last Event and the last status had been written, half a second at most too late; the floor
    tells nothing. ``told_cpu_seconds``, ``peak_mb`` and ``calls`` (of all pods, by kind) are of then, or of the end of
    the run; ``cpu_seconds`` are those until the last bind. ``runs`` are the seconds to the last bind of all runs, of
    which this was the median one; ``removals`` those to the first removal in each, with the median in
    ``first_removal``. ``broken`` are the gangs of victims that lost some of their pods and not all.
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
    removals: list[float] = []
    told: float | None = None
    told_cpu_seconds: float | None = None
    limit: float = LIMIT_SECONDS
    broken: int = 0

    @property
    def seconds(self) -> float:
        """To the last bind; the limit when it was not reached."""
        return self.last_bind if self.finished and self.last_bind is not None else self.limit


def combined(results: Sequence[Result]) -> Result:
    """Of several runs the one with the median last bind, with all their times and the median first removal."""
    found = sorted(results, key=lambda r: r.seconds)[len(results) // 2]
    found = msgspec.structs.replace(found, runs=[r.seconds for r in results])
    if any(r.first_removal is not None for r in results):
        found.removals = [r.limit if r.first_removal is None else r.first_removal for r in results]
        found.first_removal = statistics.median_high(found.removals)
    return found


async def measure(cell: Cell, candidate: Candidate, limit_seconds: float, planes: Planes) -> Result:
    """Run it."""
    limit_seconds = min(limit_seconds, cell.limit)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        async with planes.lend() as plane:
            return await _measure(cell, candidate, plane, Path(name), limit_seconds)


async def load(api: Api, plane: ControlPlane, cell: Cell, scheduler: str, *, pending: bool = True) -> None:
    """Everything that exists before the scheduler starts."""
    async with Client(plane.admin_kubeconfig) as client:
        await apply_manifests_crds(client)
        await apply_manifests_rbac(client, SCHEDULER_USER)
        await client.apply(cells.FREE_LEASE)
    await api.create(cells.classes())
    await api.create(cells.nodes(cell))
    groups = cells.groups(cell if pending else msgspec.structs.replace(cell, size=1))
    await api.create(groups[: len(groups) // 2])  # Workloads, then the PodGroups that name them
    await api.create(groups[len(groups) // 2 :])
    await api.create(cells.victims(cell))
    if pending:
        await api.create(cells.pending(cell, scheduler))


async def _measure(cell: Cell, candidate: Candidate, plane: ControlPlane, folder: Path, limit_seconds: float) -> Result:
    async with Api(plane) as api:
        await load(api, plane, cell, candidate.serves)
        async with Ruler(api) as ruler:
            before = await api.calls()
            log = folder / f"{candidate.name}.log"
            command = candidate.command(plane, cell, folder)
            began = time.monotonic()
            process = Process(command, log)
            try:
                finished = await ruler.until(
                    lambda: len(ruler.bound) >= cell.pods or process.ended not in (None, 0), began + limit_seconds
                )
                process.look()
                cpu_seconds = process.cpu_seconds
                finished = finished and len(ruler.bound) >= cell.pods
                patience = min(began + limit_seconds, time.monotonic() + TOLD_SECONDS) if finished else 0.0
                end = await _until_told(api, process, min(STILL_SECONDS, STILL_PART * limit_seconds), patience)
                after = await api.calls()  # the server counts a request when it has been answered
            finally:
                await asyncio.to_thread(process.stop)
        calls = after.since(before)
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
            cpu_seconds=round(cpu_seconds, 2),
            peak_mb=round(end.peak_bytes / 1e6, 1),
            calls_per_pod=round(sum(calls.values()) / max(1, len(ruler.bound)), 2),
            calls=calls,
            finished=finished,
            note=note or ("" if end.still else "still telling at the end"),
            told=_since(began, end.at) if finished and end.still and candidate.name != FLOOR else None,
            told_cpu_seconds=round(end.cpu_seconds, 2),
            limit=limit_seconds,
            broken=cells.broken(cell, ruler.removed),
        )


class _End(NamedTuple):
    """The figures at the moment when the last Event or status was seen; ``still``: nothing has come after it."""

    at: float
    cpu_seconds: float
    peak_bytes: int
    still: bool


async def _until_told(api: Api, process: Process, still: float, deadline: float) -> _End:
    """Wait until no Events and statuses have come for so long, until the process ends, or the deadline (monotonic)."""
    calls = await api.calls()
    end, told = _figures(calls, process), _told(calls)
    while process.ended is None and calls.at - end.at < still:
        if calls.at >= deadline:
            return end._replace(still=False)
        await asyncio.sleep(_LOOK_SECONDS)
        calls = await api.calls()
        if _told(calls) != told:
            end, told = _figures(calls, process), _told(calls)
    return end


def _figures(calls: Calls, process: Process) -> _End:
    process.look()
    return _End(calls.at, process.cpu_seconds, process.peak_bytes, still=True)


def _told(calls: Calls) -> int:
    return sum(n for kind, n in calls.by_kind.items() if kind.partition(" ")[2] in _TOLD)


def _since(began: float, moment: float | None) -> float | None:
    return None if moment is None else round(moment - began, 3)
