"""How long pods take that arrive while the scheduler runs, and what that costs over time.

The scheduler starts, and is ready when its ``/readyz`` says so; then gangs arrive. The ruler is the watch of pods.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from pathlib import Path

import aiohttp

from tests.bench.live.api import Api, Ruler
from tests.bench.live.arrival import Arrival
from tests.bench.live.backlog import load
from tests.bench.live.candidates import KUBE, OURS, Process, listening
from tests.bench.live.outcome import Outcome, Sample, latencies, quantile, windows
from tests.bench.live.planes import Planes
from tests.bench.live.traffic import arrive, bare_churn, bare_list
from tests.controlplane.plane import ControlPlane
from tests.e2e.scheduler import free_port

#: A scheduler that is not ready by then never will be.
READY_SECONDS = 120.0
_BUCKET = re.compile(r'^gangsched_io_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)


async def measure(arrival: Arrival, candidate: str, planes: Planes) -> Outcome:
    """Run it, with ours, kube-scheduler, or the floor."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        async with planes.lend() as plane:
            return await _measure(arrival, candidate, plane, Path(name))


async def _measure(arrival: Arrival, candidate: str, plane: ControlPlane, folder: Path) -> Outcome:
    async with Api(plane) as api:
        await load(api, plane, arrival.cell, candidate, pending=False)
        floor = 0.0
        if arrival.share:
            floor = await bare_churn(api, arrival)
            arrival = arrival.at(arrival.share * floor)
        cell = arrival.cell
        bare = min([await bare_list(api) for _ in range(2)])
        async with Ruler(api) as ruler:
            before = await api.calls()
            port = free_port()
            command = listening(candidate, plane, arrival.cell, folder, port)
            began = time.monotonic()
            process = Process(command, folder / "scheduler.log")
            samples: list[Sample] = []
            sampling = asyncio.create_task(_sample(process, began, samples))
            try:
                scheme = "https" if candidate == KUBE else "http"
                ready = await _until_ready(f"{scheme}://127.0.0.1:{port}", process, began)
                _note(process, began, samples)
                rss_ready = samples[-1].rss_mb
                started = time.monotonic()
                failed = await arrive(api, arrival, candidate, ruler)
                last = time.monotonic() + arrival.last_seconds
                finished = await ruler.until(lambda: len(ruler.bound) >= cell.pods or process.ended is not None, last)
                _note(process, began, samples)
                lag = await _loop_lag(port) if candidate == OURS else -1.0
                await asyncio.sleep(arrival.still_seconds)  # the last Events and statuses
                after = await api.calls()
            finally:
                sampling.cancel()
                await asyncio.to_thread(process.stop)
    calls = {k: n for k, n in after.since(before).items() if k not in _LOADING}
    pods, gangs = latencies(ruler, cell)
    return Outcome(
        cell=cell.name,
        candidate=candidate,
        rate=round(arrival.rate, 1),
        floor=round(floor, 1),
        arriving=round(cell.pods / arrival.rate, 1),
        pods=cell.pods,
        bound=len(ruler.bound),
        bare_list=round(bare, 2),
        ready=round(ready, 2),
        pod_p50=quantile(list(pods.values()), 0.5),
        pod_p99=quantile(list(pods.values()), 0.99),
        gang_p50=quantile(gangs, 0.5),
        gang_p99=quantile(gangs, 0.99),
        windows=windows(ruler, pods, samples, began, started),
        rss_ready_mb=rss_ready,
        rss_end_mb=samples[-1].rss_mb,
        peak_mb=round(process.peak_bytes / 1e6, 1),
        cpu_seconds=round(process.cpu_seconds, 1),
        loop_lag_p99=lag,
        calls_per_pod=round(sum(calls.values()) / max(1, len(ruler.bound)), 2),
        calls=calls,
        samples=samples,
        finished=finished and len(ruler.bound) >= cell.pods,
        note=f"{failed} gangs could not be created" if failed else "",
    )


#: What this benchmark itself asks for while the scheduler runs.
_LOADING = frozenset(
    {
        "POST pods",
        "POST podgroups",
        "POST workloads",
        "DELETE pods",
        "DELETE podgroups",
        "DELETE workloads",
        "PATCH podgroups",
    }
)


async def _until_ready(server: str, process: Process, began: float) -> float:
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < began + READY_SECONDS and process.ended is None:
            try:
                async with session.get(f"{server}/readyz", ssl=False) as answer:  # kube-scheduler signs for itself
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
