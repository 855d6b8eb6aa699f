"""Pods that arrive while the scheduler runs: how long each takes, and what that costs over time.

A cell has nodes and running pods; the scheduler starts and is ready when its ``/readyz`` says so; then gangs are
created at a steady rate, and, in churn, deleted some seconds after they were bound. The ruler is the watch of pods.
kube-scheduler gets the same gangs at the same rate, in churn for a shorter time.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from tests.bench.live import cells
from tests.bench.live.api import PATHS, Api, Ruler
from tests.bench.live.backlog import SERVER_ARGS, STILL_SECONDS, load
from tests.bench.live.candidates import OURS, Process, kube_listening, ours_listening
from tests.bench.live.cells import Cell, Object
from tests.controlplane.plane import ControlPlane
from tests.e2e.scheduler import free_port

#: A scheduler that is not ready by then never will be.
READY_SECONDS = 120.0
#: Pods that have arrived are given so long to be bound.
LAST_SECONDS = 60.0
#: kube-scheduler is given less, lest one cell takes much of the time of all.
KUBE_SECONDS, KUBE_LAST_SECONDS = 60.0, 30.0
#: Latency and memory are told for each of these.
WINDOW_SECONDS = 30.0
#: As many calls at once as the scheduler makes.
IN_FLIGHT = 48
_BUCKET = re.compile(r'^gangsched_io_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """Gangs of ``cell`` arrive at ``rate`` pods per second; bound pods live ``life_seconds`` (0: for ever).

    With a ``share`` the rate is that part of the floor's, and as many gangs arrive as ``seconds`` have room for: the
    floor is a bare loop that creates, binds and deletes the same objects, and is measured just before.
    """

    cell: Cell
    rate: float = 0.0
    life_seconds: float = 0.0
    share: float = 0.0
    seconds: float = 0.0
    last_seconds: float = LAST_SECONDS
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
        return msgspec.structs.replace(
            self,
            cell=small,
            rate=min(self.rate, 50.0),
            seconds=self.seconds / self.smoke,
            life_seconds=min(self.life_seconds, 1.0),
        )

    def at(self, rate: float) -> Arrival:
        """The same at this rate, whatever the floor's is."""
        gangs = max(1, int(rate * self.seconds / self.cell.size)) if self.seconds else self.cell.gangs
        return msgspec.structs.replace(self, cell=msgspec.structs.replace(self.cell, gangs=gangs), rate=rate, share=0.0)

    def bounded(self) -> Arrival:
        """The same for kube-scheduler."""
        return msgspec.structs.replace(
            self, seconds=min(self.seconds, KUBE_SECONDS), last_seconds=min(self.last_seconds, KUBE_LAST_SECONDS)
        )


class Window(msgspec.Struct):
    """What was created in a part of the run: pods, and of those that were bound the latencies; the mean RSS in it."""

    pods: int
    p50: float
    p99: float
    rss_mb: float


class Sample(msgspec.Struct):
    """Resident MB of the process, so many seconds after its start."""

    seconds: float
    rss_mb: float


class Outcome(msgspec.Struct, kw_only=True):
    """Seconds, MB and counts of one run. Latencies are from the creation of a pod, of a gang from that of its last
    member, to the binding, as the watch brings them; -1 where nothing was bound. ``floor`` is the rate of the floor in
    pods per second, where the cell has one; ``arriving`` for how long gangs were created. The lag is -1 where the
    process does not tell it.
    """

    cell: str
    candidate: str = OURS
    rate: float
    floor: float = 0.0
    arriving: float = 0.0
    pods: int
    bound: int
    bare_list: float
    ready: float
    pod_p50: float
    pod_p99: float
    gang_p50: float
    gang_p99: float
    windows: list[Window] = []
    rss_ready_mb: float
    rss_end_mb: float
    peak_mb: float
    cpu_seconds: float
    loop_lag_p99: float
    calls_per_pod: float
    calls: dict[str, int]
    samples: list[Sample]
    finished: bool
    note: str = ""


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
#: Gangs of 4 come and go on 1,000 nodes for three minutes, at a quarter of the rate of the floor.
CHURN = Arrival(
    cell=Cell(name="churn on 1,000 nodes; gangs of 4", nodes=1000, size=4),
    life_seconds=10.0,
    share=0.25,
    seconds=180.0,
    smoke=60,
)
ALL = (LARGE, CHURN)


async def measure(arrival: Arrival, candidate: str = OURS) -> Outcome:
    """Run it, with ours or with kube-scheduler."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        plane = ControlPlane(folder / "plane", controller_manager=False, kwok=False, apiserver_args=SERVER_ARGS)
        await asyncio.to_thread(plane.start)
        try:
            return await _measure(arrival, candidate, plane, folder)
        finally:
            await asyncio.to_thread(plane.stop)


async def _measure(arrival: Arrival, candidate: str, plane: ControlPlane, folder: Path) -> Outcome:
    ours = candidate == OURS
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
            command = (ours_listening if ours else kube_listening)(plane, folder, port)
            began = time.monotonic()
            process = Process(command, folder / "scheduler.log")
            samples: list[Sample] = []
            sampling = asyncio.create_task(_sample(process, began, samples))
            try:
                ready = await _until_ready(f"{'http' if ours else 'https'}://127.0.0.1:{port}", process, began)
                _note(process, began, samples)
                rss_ready = samples[-1].rss_mb
                started = time.monotonic()
                failed = await _arrive(api, arrival, candidate, ruler)
                last = time.monotonic() + arrival.last_seconds
                finished = await ruler.until(lambda: len(ruler.bound) >= cell.pods or process.ended is not None, last)
                _note(process, began, samples)
                lag = await _loop_lag(port) if ours else -1.0
                await asyncio.sleep(STILL_SECONDS)  # the last Events and statuses
                after = await api.calls()
            finally:
                sampling.cancel()
                await asyncio.to_thread(process.stop)
    calls = {k: n for k, n in after.since(before).items() if k not in _LOADING}
    pods, gangs = _latencies(ruler, cell)
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
        pod_p50=_quantile(list(pods.values()), 0.5),
        pod_p99=_quantile(list(pods.values()), 0.99),
        gang_p50=_quantile(gangs, 0.5),
        gang_p99=_quantile(gangs, 0.99),
        windows=_windows(ruler, pods, samples, began, started),
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


async def bare_churn(api: Api, arrival: Arrival) -> float:
    """Pods per second at which gangs can be created, bound and deleted by somebody who does nothing else."""
    cell = msgspec.structs.replace(arrival.cell, gangs=max(IN_FLIGHT, int(_FLOOR_GANGS * arrival.seconds)))
    gangs = iter(list(_gangs(cell, "nobody")))
    began = time.monotonic()

    async def work() -> None:
        for number, (group, members) in enumerate(gangs):
            for each in (*group, *members):
                await api.write("POST", PATHS[each["kind"]], each)
            for member in members:
                name = member["metadata"]["name"]
                target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{number % cell.nodes:05d}"}
                body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
                await api.write("POST", f"{PATHS['Pod']}/{name}/binding", body)
            for each in (*members, *reversed(group)):
                await api.remove(each)

    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
    return cell.pods / (time.monotonic() - began)


#: The floor is measured with this many gangs for each second of the cell.
_FLOOR_GANGS = 6


def _gangs(cell: Cell, scheduler: str) -> Iterator[tuple[tuple[Object, Object], list[Object]]]:
    """The two group objects and the members of each gang."""
    objects = cells.groups(msgspec.structs.replace(cell, victim_gang=1))
    pods = cells.pending(cell, scheduler)
    for group in zip(objects[: cell.gangs], objects[cell.gangs :], strict=True):
        yield group, [next(pods) for _ in range(cell.size)]


async def _arrive(api: Api, arrival: Arrival, candidate: str, ruler: Ruler) -> int:
    """Create the gangs on time, whatever each takes to be created; delete them when they have lived.

    Returns how many could not be created.
    """
    failed = 0
    started = time.monotonic()

    async def live(group: tuple[Object, Object], members: list[Object]) -> None:
        nonlocal failed
        try:
            await _gang(api, arrival, ruler, group, members)
        except (RuntimeError, OSError):  # an overloaded server; the pods that are missing tell it
            failed += 1

    async with asyncio.TaskGroup() as work:
        for number, (group, members) in enumerate(_gangs(arrival.cell, candidate)):
            await asyncio.sleep(max(0.0, started + number * arrival.cell.size / arrival.rate - time.monotonic()))
            work.create_task(live(group, members))
    return failed


async def _gang(api: Api, arrival: Arrival, ruler: Ruler, group: tuple[Object, Object], members: list[Object]) -> None:
    for each in (*group, *members):
        await api.write("POST", PATHS[each["kind"]], each)
    if not arrival.life_seconds:
        return
    await ruler.until_bound((m["metadata"]["name"] for m in members), arrival.last_seconds)
    await asyncio.sleep(arrival.life_seconds)
    with contextlib.suppress(RuntimeError, OSError):  # what an overloaded server does not delete does no harm
        for each in (*members, *reversed(group)):
            await api.remove(each)


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


def _windows(ruler: Ruler, pods: dict[str, float], samples: list[Sample], began: float, started: float) -> list[Window]:
    """Whole windows only, but at least one."""
    end = max(ruler.created.values(), default=started)
    out = []
    for number in range(max(1, int((end - started + 1.0) / WINDOW_SECONDS))):
        first = started + number * WINDOW_SECONDS
        waits = [wait for name, wait in pods.items() if first <= ruler.created[name] < first + WINDOW_SECONDS]
        rss = [s.rss_mb for s in samples if first <= began + s.seconds < first + WINDOW_SECONDS]
        out.append(
            Window(len(waits), _quantile(waits, 0.5), _quantile(waits, 0.99), round(statistics.fmean(rss or [0.0]), 1))
        )
    return out


def _quantile(values: list[float], part: float) -> float:
    """The value below which this part of all lies; NaN is no JSON, so -1 without values."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 4) if ordered else -1.0
