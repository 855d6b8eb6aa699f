"""Pods that arrive while the scheduler runs: how long each takes, and what that costs over time.

A cell has nodes and running pods; the scheduler starts and is ready when its ``/readyz`` says so; then gangs are
created at a steady rate, and, in churn, deleted some seconds after they were bound. The ruler is the watch of pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from tests.bench.live import cells
from tests.bench.live.api import PATHS, Api, Ruler
from tests.bench.live.backlog import SERVER_ARGS, load
from tests.bench.live.candidates import OURS, Process, ours_listening
from tests.bench.live.cells import Cell
from tests.controlplane.plane import ControlPlane
from tests.e2e.scheduler import free_port

#: A scheduler that is not ready by then never will be.
READY_SECONDS = 120.0
_BUCKET = re.compile(r'^gangsched_io_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """Gangs of ``cell`` arrive at ``rate`` pods per second; bound pods live ``life_seconds`` (0: for ever)."""

    cell: Cell
    rate: float
    life_seconds: float = 0.0
    smoke: int = 20

    @property
    def name(self) -> str:
        return self.cell.name

    def smaller(self) -> Arrival:
        """The same, for a run that only shows that everything works."""
        cell = self.cell
        small = msgspec.structs.replace(
            cell, nodes=max(10, cell.nodes // self.smoke), gangs=max(3, cell.gangs // self.smoke)
        )
        return msgspec.structs.replace(self, cell=small, rate=min(self.rate, 50.0))


class Sample(msgspec.Struct):
    """Resident MB of the process, so many seconds after its start."""

    seconds: float
    rss_mb: float


class Outcome(msgspec.Struct):
    """Seconds, MB and counts of one run. Latencies are from the creation of a pod, of a gang from that of its last
    member, to the binding, as the watch brings them; ``halves`` are the p99 of pods in each half of the run.
    """

    cell: str
    rate: float
    pods: int
    bound: int
    bare_list: float
    ready: float
    pod_p50: float
    pod_p99: float
    gang_p50: float
    gang_p99: float
    halves: tuple[float, float]
    rss_ready_mb: float
    rss_middle_mb: float
    rss_end_mb: float
    peak_mb: float
    cpu_seconds: float
    loop_lag_p99: float
    calls_per_pod: float
    calls: dict[str, int]
    samples: list[Sample]
    finished: bool


#: 5,000 nodes with ten pods each; 2,000 pods in gangs of 8.
LARGE = Arrival(
    cell=Cell(
        name="5,000 nodes, 50,000 pods; gangs of 8 arrive",
        nodes=5000,
        gangs=250,
        size=8,
        victims_per_node=10,
        victim_milli_cpu=1000,
    ),
    rate=100.0,
    smoke=50,
)
#: Gangs of 4 come and go on 1,000 nodes, for three minutes at this rate.
CHURN_SECONDS, CHURN_PODS_PER_SECOND = 180.0, 100.0
#: Of the rate at which the floor binds, so much is the churn where the floor was measured in the same run.
CHURN_SHARE = 0.25


def churn(rate: float = CHURN_PODS_PER_SECOND) -> Arrival:
    """The cell in which pods come and go at this rate."""
    gangs = int(rate * CHURN_SECONDS / 4)
    cell = Cell(name="churn on 1,000 nodes; gangs of 4", nodes=1000, gangs=gangs, size=4)
    return Arrival(cell=cell, rate=rate, life_seconds=10.0, smoke=300)


async def measure(arrival: Arrival) -> Outcome:
    """Run it."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        plane = ControlPlane(folder / "plane", controller_manager=False, kwok=False, apiserver_args=SERVER_ARGS)
        await asyncio.to_thread(plane.start)
        try:
            return await _measure(arrival, plane, folder)
        finally:
            await asyncio.to_thread(plane.stop)


async def _measure(arrival: Arrival, plane: ControlPlane, folder: Path) -> Outcome:
    cell = arrival.cell
    async with Api(plane) as api:
        await load(api, plane, cell, OURS, pending=False)
        bare = await bare_list(api)
        before = await api.calls()
        async with Ruler(api) as ruler:
            port = free_port()
            began = time.monotonic()
            process = Process(ours_listening(plane, folder, port), folder / "ours.log")
            samples: list[Sample] = []
            sampling = asyncio.create_task(_sample(process, began, samples))
            try:
                ready = await _until_ready(port, process, began)
                _note(process, began, samples)
                rss_ready = samples[-1].rss_mb
                started = time.monotonic()
                await _arrive(api, arrival, ruler)
                finished = await ruler.until(lambda: len(ruler.bound) >= cell.pods, time.monotonic() + 30.0)
                middle = (started + time.monotonic()) / 2.0
                _note(process, began, samples)
                lag = await _loop_lag(port)
            finally:
                sampling.cancel()
                await asyncio.to_thread(process.stop)
        after = await api.calls()
    calls = {k: n for k, v in after.items() if (n := v - before.get(k, 0)) > 0}
    ours = {k: n for k, n in calls.items() if k not in _LOADING}
    pods, gangs = _latencies(ruler, cell)
    halves = [[w for name, w in pods.items() if (ruler.created[name] < middle) == first] for first in (True, False)]
    return Outcome(
        cell=cell.name,
        rate=arrival.rate,
        pods=cell.pods,
        bound=len(ruler.bound),
        bare_list=round(bare, 2),
        ready=round(ready, 2),
        pod_p50=_quantile(list(pods.values()), 0.5),
        pod_p99=_quantile(list(pods.values()), 0.99),
        gang_p50=_quantile(gangs, 0.5),
        gang_p99=_quantile(gangs, 0.99),
        halves=(_quantile(halves[0], 0.99), _quantile(halves[1], 0.99)),
        rss_ready_mb=rss_ready,
        rss_middle_mb=min(samples, key=lambda s: abs(began + s.seconds - middle)).rss_mb,
        rss_end_mb=samples[-1].rss_mb,
        peak_mb=round(process.peak_bytes / 1e6, 1),
        cpu_seconds=round(process.cpu_seconds, 1),
        loop_lag_p99=lag,
        calls_per_pod=round(sum(ours.values()) / max(1, len(ruler.bound)), 2),
        calls=dict(sorted(ours.items(), key=lambda item: -item[1])),
        samples=samples,
        finished=finished,
    )


#: What this benchmark itself asks for while the scheduler runs.
_LOADING = frozenset({"POST pods", "POST podgroups", "POST workloads", "DELETE pods", "DELETE podgroups"})


async def bare_list(api: Api) -> float:
    """Seconds for reading all nodes and pods in pages, as a scheduler has to, and doing nothing with them."""
    began = time.monotonic()
    for path in (PATHS["Node"], "/api/v1/pods"):
        token = ""
        while True:
            body = await api.request("GET", path, params={"limit": "500", **({"continue": token} if token else {})})
            token = msgspec.json.decode(body, type=_Page).metadata.get("continue", "") or ""
            if not token:
                break
    return time.monotonic() - began


class _Page(msgspec.Struct):
    metadata: dict[str, Any]


async def _arrive(api: Api, arrival: Arrival, ruler: Ruler) -> None:
    """Create the gangs on time, whatever each takes to be created; delete them when they have lived."""
    cell, started = arrival.cell, time.monotonic()
    objects = cells.groups(msgspec.structs.replace(cell, victim_gang=1))
    groups = dict(zip(range(cell.gangs), zip(objects[: cell.gangs], objects[cell.gangs :], strict=True), strict=True))
    pods = iter(cells.pending(cell, OURS))
    async with asyncio.TaskGroup() as work:
        for number in range(cell.gangs):
            members = [next(pods) for _ in range(cell.size)]
            await asyncio.sleep(max(0.0, started + number * cell.size / arrival.rate - time.monotonic()))
            work.create_task(_gang(api, arrival, ruler, groups[number], members))


async def _gang(api: Api, arrival: Arrival, ruler: Ruler, group: tuple[Any, Any], members: list[Any]) -> None:
    for each in (*group, *members):
        await api.request("POST", PATHS[each["kind"]], each)
    if not arrival.life_seconds:
        return
    names = [m["metadata"]["name"] for m in members]
    await ruler.until(lambda: all(name in ruler.bound for name in names), time.monotonic() + 60.0)
    await asyncio.sleep(arrival.life_seconds)
    with contextlib.suppress(RuntimeError):  # what an overloaded server does not delete does no harm
        for name in names:
            await api.request("DELETE", f"{PATHS['Pod']}/{name}")
        await api.request("DELETE", f"{PATHS['PodGroup']}/{group[1]['metadata']['name']}")


async def _until_ready(port: int, process: Process, began: float) -> float:
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < began + READY_SECONDS and process.ended is None:
            try:
                async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                    if answer.status == 200:
                        return time.monotonic() - began
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.02)
    raise RuntimeError("the scheduler did not become ready")


async def _loop_lag(port: int) -> float:
    """The p99 of the lag of the I/O loop: the upper end of its bucket, as the process counts it."""
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        buckets = [(float(le), float(count)) for le, count in _BUCKET.findall(await answer.text())]
    total = buckets[-1][1] if buckets else 0.0
    return next((le for le, count in buckets if count >= 0.99 * total), float("inf"))


async def _sample(process: Process, began: float, samples: list[Sample]) -> None:
    while True:
        _note(process, began, samples)
        await asyncio.sleep(2.0)


def _note(process: Process, began: float, samples: list[Sample]) -> None:
    samples.append(Sample(round(time.monotonic() - began, 1), round(process.resident_bytes() / 1e6, 1)))


def _latencies(ruler: Ruler, cell: Cell) -> tuple[dict[str, float], list[float]]:
    """Of pods by name, and of gangs that are bound as a whole."""
    pods = {n: ruler.bound[n] - at for n, at in ruler.created.items() if n in ruler.bound}
    gangs: dict[str, list[str]] = {}
    for name in ruler.created:
        gangs.setdefault(name.rpartition("-")[0], []).append(name)
    whole = [
        max(ruler.bound[n] for n in names) - max(ruler.created[n] for n in names)
        for names in gangs.values()
        if len(names) == cell.size and all(n in ruler.bound for n in names)
    ]
    return pods, whole


def _quantile(values: list[float], part: float) -> float:
    """The value below which this part of all lies; NaN is no JSON, so -1 without values."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 4) if ordered else -1.0
