"""Whether small pods are bound in time beside thousands that never fit, on a real API server. Run it to see.

    python -m tests.bench.live.soak [--minutes 60] [--pending 3000] [--rate 20] [--nodes 200] [--each 4]

A control plane of its own, without kubelets; `gangsched run` with the default configuration and the rights of
manifests/. The cluster is nearly full of work of the same priority, and 3,000 pods of as many shapes wait: too large
for every node, or for what is free of one; with selectors, anti-affinity and spread constraints. Every second 20 small
pods of the same namespace are created, and the 20 oldest that are bound are deleted.

A line a minute: how long small pods of that minute waited for their binding, as the watch of another client tells it,
the memory and the processor time of the process, and the load of the machine. Exit code 1: small pods wait for longer
than 2 s at the 99th percentile, the memory grows after the first tenth by more than a tenth, or the process has ended.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.live.api import PATHS, Api, Ruler
from tests.bench.live.candidates import OURS, Process, ours_listening
from tests.bench.live.cells import FREE_LEASE, NAMESPACE, Object
from tests.bench.live.outcome import quantile
from tests.controlplane.client import Client
from tests.controlplane.objects import ready_node
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac
from tests.e2e.scheduler import free_port

ZONE = "topology.kubernetes.io/zone"
LIMIT_SECONDS, GROWTH = 2.0, 1.1
#: So many small pods are bound before the first is deleted.
_ALIVE = 40
_START_SECONDS = 300.0


def nodes(count: int) -> Iterator[Object]:
    """Nodes of 16 CPU in three zones."""
    for n in range(count):
        made = ready_node(f"node-{n:05d}", "16", "64Gi", "110")
        made["metadata"]["labels"][ZONE] = f"z{n % 3}"
        yield made


def _pod(name: str, milli_cpu: int, label: str, **spec: Any) -> Object:
    meta = {"name": name, "namespace": NAMESPACE, "labels": {"bench": label}}
    container = {"name": "main", "image": "example/none", "resources": {"requests": {"cpu": f"{milli_cpu}m"}}}
    body = {"schedulerName": OURS, "terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body}


def old(count: int, each: int) -> Iterator[Object]:
    """What runs on each node: so many pods, which take 14 of its 16 CPUs."""
    for n in range(each * count):
        yield _pod(f"old-{n:05d}", 14_000 // each, "old", nodeName=f"node-{n // each:05d}")


def large(number: int) -> Object:
    """A pod that never fits, of a shape that no other has."""
    name, milli_cpu = f"large-{number:05d}", 8001 + number
    alike = {"labelSelector": {"matchLabels": {"bench": "large"}}}
    match number % 5:
        case 0:
            return _pod(name, 17_000 + number, "large")  # no node is as large
        case 1:
            return _pod(name, milli_cpu, "large", nodeSelector={ZONE: f"z{number % 3}"})
        case 2:
            term = {"topologyKey": "kubernetes.io/hostname", **alike}
            apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
            return _pod(name, milli_cpu, "large", affinity=apart)
        case 3:
            spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **alike}
            return _pod(name, milli_cpu, "large", topologySpreadConstraints=[spread])
    return _pod(name, milli_cpu, "large")


class Minute(NamedTuple):
    """What was seen in one minute."""

    waits: list[float]
    unbound: int
    resident: int
    cpu_seconds: float
    load: float


class Soak:
    """Small pods come and go; ``minutes`` is what was seen."""

    def __init__(self, api: Api, ruler: Ruler, process: Process, rate: float) -> None:
        self._api, self._ruler, self._process, self._rate = api, ruler, process, rate
        self._bound: deque[str] = deque()
        self._told: set[str] = set()
        self.minutes: list[Minute] = []
        self.failed = 0

    async def run(self, minutes: float) -> None:
        """Until so many minutes are over, or the process has ended."""
        began = time.monotonic()
        note, number = began + 60.0, 0
        async with asyncio.TaskGroup() as work:
            while (now := time.monotonic()) < began + 60 * minutes and self._process.ended is None:
                if now >= note:
                    self._note()
                    note += 60.0
                await asyncio.sleep(max(0.0, began + number / self._rate - now))
                self._look()
                work.create_task(self._create(f"small-{number:07d}"))
                if len(self._bound) > _ALIVE:
                    work.create_task(self._delete(self._bound.popleft()))
                number += 1
        self._note()

    def _look(self) -> None:
        """Those that were bound since may be deleted, the one that was bound first as the first."""
        for name in self._ruler.created.keys() & self._ruler.bound.keys() - self._told:
            self._told.add(name)
            self._bound.append(name)

    def _note(self) -> None:
        """Write down, and forget, those that are bound; count those that are not."""
        self._look()
        ruler = self._ruler
        waits = [ruler.bound[name] - ruler.created[name] for name in self._told if name in ruler.created]
        for name in [name for name in ruler.removed if name in self._told]:
            self._told.discard(name)
            for kept in (ruler.bound, ruler.created, ruler.removed):
                kept.pop(name, None)
        for name in self._told:
            ruler.created.pop(name, None)
        self._process.look()
        resident, cpu, load = self._process.resident_bytes(), self._process.cpu_seconds, os.getloadavg()[0]
        minute = Minute(waits, len(ruler.created), resident, cpu, load)
        before = self.minutes[-1].cpu_seconds if self.minutes else 0.0
        self.minutes.append(minute)
        at = f"{time.strftime('%H:%M:%S')} {len(waits):5d} bound, {minute.unbound} not"
        told = [f"p{q * 100:.0f} {quantile(waits, q):.3f}" for q in (0.5, 0.99, 1.0)] if waits else ["nothing bound"]
        machine = f"{resident / 2**20:.0f} MiB, {cpu - before:.1f} s of processor, load {load:.1f}"
        print(f"{at}, {', '.join(told)} s, {machine}", flush=True)

    async def _create(self, name: str) -> None:
        try:
            await self._api.write("POST", PATHS["Pod"], _pod(name, 250, "pending"))
        except (RuntimeError, OSError):  # an overloaded server; the number is told at the end
            self.failed += 1

    async def _delete(self, name: str) -> None:
        with contextlib.suppress(RuntimeError, OSError):  # what an overloaded server keeps does no harm
            await self._api.write("DELETE", f"{PATHS['Pod']}/{name}")


async def soak(options: argparse.Namespace, folder: Path) -> int:
    """Run it; 1 when something is not as it should be."""
    plane = ControlPlane(folder / "plane", controller_manager=False, kwok=False)
    await asyncio.to_thread(plane.start)
    try:
        async with Client(plane.admin_kubeconfig) as client:
            await apply_manifests_crds(client)
            await apply_manifests_rbac(client, SCHEDULER_USER)
            await client.apply(FREE_LEASE)
        async with Api(plane) as api, Ruler(api) as ruler:
            await api.create(nodes(options.nodes))
            await api.create(old(options.nodes, options.each))
            await api.create(large(n) for n in range(options.pending))
            command = ours_listening(plane, folder, free_port(), clientConnection={})
            process = Process(command, folder / "scheduler.log")
            try:
                await api.write("POST", PATHS["Pod"], _pod("first", 250, "pending"))
                if not await ruler.until_bound(["first"], _START_SECONDS):
                    raise RuntimeError("the scheduler has not begun to bind")
                ruler.created.clear()  # it has waited for the start
                found = Soak(api, ruler, process, options.rate)
                await found.run(options.minutes)
                ended = process.ended
            finally:
                await asyncio.to_thread(process.stop)
    finally:
        await asyncio.to_thread(plane.stop)
    waits = [wait for minute in found.minutes for wait in minute.waits]
    late = quantile(waits, 0.99) if waits else float("inf")
    start = found.minutes[len(found.minutes) // 10].resident
    grown = found.minutes[-1].resident / start if start else float("inf")
    print(
        f"\n{len(waits)} small pods bound, {found.minutes[-1].unbound} not, {found.failed} could not be created: "
        f"p50 {quantile(waits, 0.5):.3f} s, p99 {late:.3f} s, longest {max(waits, default=0):.3f} s; "
        f"memory {grown:.2f} times that after a tenth; {process.cpu_seconds:.0f} s of processor"
    )
    if ended is not None:
        print(f"the scheduler ended with {ended}: {(folder / 'scheduler.log').read_text(errors='replace')[-2000:]}")
    return int(late > LIMIT_SECONDS or grown > GROWTH or ended is not None)


def main() -> int:
    """Parse the command line and run it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="how long small pods come and go (default 60)")
    parser.add_argument("--pending", type=int, default=3000, help="pods that never fit (default 3000)")
    parser.add_argument("--rate", type=float, default=20.0, help="creations, and deletions, a second (default 20)")
    parser.add_argument("--nodes", type=int, default=200, help="nodes (default 200)")
    parser.add_argument("--each", type=int, default=4, help="pods that run on each node (default 4)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        return asyncio.run(soak(options, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
