"""Ordinary traffic on a real control plane: pods and gangs come and go, nodes are cordoned and replaced.

A CRD is installed and the API server is restarted meanwhile. Afterwards the process still runs, it has written no line
about an error, its memory has not grown, and each plain pod that fits was bound in time.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import aiohttp

from tests.controlplane.client import ApiError, Client, wait_until
from tests.controlplane.objects import ready_node
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac
from tests.e2e.kinds import definition
from tests.e2e.scheduler import READY_SECONDS, RunningScheduler, start_process
from tests.everyday.pods import OURS, ZONE, Object, Style, template

ROOT = Path(__file__).resolve().parents[2]
NODES, PODS_A_SECOND, GANGS_AN_HOUR = 20, 10.0, 50
#: A plain pod that fits is bound within this time (seconds), and memory grows by no more from the second quarter on.
BOUND_WITHIN, GROWTH = 5.0, 1.05
#: So long pods live, and gangs (seconds).
_POD_LIVES, _GANG_LIVES = 12.0, 40.0
_FAILURES = (ApiError, aiohttp.ClientError, OSError, asyncio.TimeoutError)


@dataclass
class Traffic:
    """What was seen: seconds from creation to binding, bytes of memory every second, and what the API server did."""

    waits: list[float] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    unbound: list[str] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    ended: int | None = None
    gangs: int = 0
    gangs_bound: int = 0

    @property
    def growth(self) -> float:
        """The memory of the last quarter of the time over that of the second."""
        quarter = len(self.memory) // 4
        if not quarter:
            return 1.0
        return statistics.median(self.memory[-quarter:]) / statistics.median(self.memory[quarter : 2 * quarter])

    def wrong(self, *, measured: bool = True) -> list[str]:
        """What is not as it should be, in words."""
        late = [wait for wait in self.waits if wait > BOUND_WITHIN]
        found = [f"{len(late)} pods waited up to {max(late):.1f} s"] if late and measured else []
        found += self.late[:10] if measured else []
        found += [f"{len(self.unbound)} pods were never bound: {self.unbound[:3]}"] if self.unbound else []
        found += [f"the process has ended with {self.ended}"] if self.ended is not None else []
        found += [f"error in the log: {line}" for line in self.errors[:5]]
        if measured and self.growth > GROWTH:
            found.append(f"memory of the last quarter is {self.growth:.3f} times that of the second")
        return found


class _Play:
    def __init__(self, plane: ControlPlane, client: Client, scheduler: RunningScheduler, seconds: float) -> None:
        self.plane, self.client, self.scheduler, self.seconds = plane, client, scheduler, seconds
        self.seen = Traffic()
        self.rng = Random("everyday/traffic")
        self._created: dict[str, float] = {}
        self._numbers = itertools.count()
        self._down: list[tuple[float, float]] = []
        self._nodes = [f"node-{number:03d}" for number in range(NODES)]
        self._began = time.monotonic()
        self._end = self._began + seconds

    # -- what others do ------------------------------------------------------------------------------------

    async def run(self) -> Traffic:
        self._began = began = time.monotonic()
        self._end = began + self.seconds
        async with asyncio.TaskGroup() as work:
            watching = [work.create_task(self._watch()), work.create_task(self._measure())]
            every: tuple[tuple[float, Callable[[], Awaitable[None]]], ...] = (
                (1 / PODS_A_SECOND, self._pod),
                (min(3600 / GANGS_AN_HOUR, self.seconds / 6), self._gang),
                (min(120.0, self.seconds / 4), self._cordon),
                (min(300.0, self.seconds / 3), self._replace),
            )
            playing = [work.create_task(self._often(work, pause, action)) for pause, action in every]
            playing += [
                work.create_task(self._once(began + self.seconds * at, action)) for at, action in self._single()
            ]
            for each in playing:
                await asyncio.wait([each])
            await asyncio.sleep(BOUND_WITHIN)
            for each in watching:
                each.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
        now = time.monotonic()
        self.seen.unbound = [
            n for n, at in self._created.items() if not self._is_down(at, now) and not n.startswith("gang")
        ]
        self.seen.ended = self.scheduler.process.returncode
        self.seen.errors = [line for line in self._log() if json.loads(line).get("level") in ("error", "critical")]
        return self.seen

    def _single(self) -> list[tuple[float, Callable[[], Awaitable[None]]]]:
        return [(0.3, self._restart), (0.5, self._crd), *([(0.7, self._restart)] if self.seconds > 60 else [])]

    async def _often(self, work: asyncio.TaskGroup, pause: float, action: Callable[[], Awaitable[None]]) -> None:
        at = time.monotonic() + pause
        while at < self._end:
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            work.create_task(self._try(action))
            at += pause

    async def _once(self, at: float, action: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        await self._try(action)

    async def _try(self, action: Callable[[], Awaitable[None]]) -> None:
        with contextlib.suppress(*_FAILURES):  # the API server is restarted meanwhile
            await action()

    async def _make(self, name: str, meta: Object, spec: Object) -> None:
        self._created[name] = time.monotonic()
        made = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", **meta},
            "spec": spec,
        }
        try:
            await self.client.create(made)
        except _FAILURES:
            self._created.pop(name, None)
            raise

    async def _pod(self) -> None:
        """A pod that fits: what it asks of other pods are wishes."""
        made = template(self.rng, self.rng.choice(("web", "api")), Style(serves=True))
        number = next(self._numbers)
        spec = {key: made.spec[key] for key in ("initContainers",) if key in made.spec}
        spec["containers"] = [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "200m"}}}]
        for each in spec.get("initContainers", ()):
            each["resources"] = {"requests": {"cpu": "50m"}}
        spread = made.spec.get("topologySpreadConstraints", ())
        wishes = [{**rule, "whenUnsatisfiable": "ScheduleAnyway"} for rule in spread]
        for rule in wishes:
            rule.pop("minDomains", None)
        more: Object = {"schedulerName": OURS, "terminationGracePeriodSeconds": 1}
        if wishes:
            more["topologySpreadConstraints"] = wishes
        await self._make(f"pod-{number:06d}", {"labels": made.labels}, {**spec, **more})
        await asyncio.sleep(_POD_LIVES)
        await self._remove("Pod", f"pod-{number:06d}")

    async def _gang(self) -> None:
        name, size = f"gang-{next(self._numbers):06d}", self.rng.choice((2, 4, 8))
        self.seen.gangs += 1
        group = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup"}
        await self.client.create(
            {**group, "metadata": {"name": name, "namespace": "default"}, "spec": {"minMember": size}}
        )
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
        spec = {"schedulerName": OURS, "terminationGracePeriodSeconds": 1, "containers": [container]}
        names = [f"{name}-{index}" for index in range(size)]
        for each in names:
            await self._make(each, {"labels": {"pod-group.scheduling.sigs.k8s.io": name}}, spec)
        await asyncio.sleep(min(_GANG_LIVES, self.seconds / 4))
        self.seen.gangs_bound += not any(each in self._created for each in names)
        for each in names:
            await self._remove("Pod", each)
        await self._remove("PodGroup", name)

    async def _remove(self, kind: str, name: str) -> None:
        for _ in range(30):
            try:
                await self.client.delete(kind, name, "default")
            except ApiError as error:
                if error.status == 404:
                    return
            except _FAILURES:
                pass
            else:
                return
            await asyncio.sleep(1.0)

    async def _cordon(self) -> None:
        name = self.rng.choice(self._nodes)
        await self.client.patch("Node", name, {"spec": {"unschedulable": True}})
        await asyncio.sleep(5.0)
        await self.client.patch("Node", name, {"spec": {"unschedulable": None}})

    async def _replace(self) -> None:
        """A node is drained, removed, and another one comes."""
        name = self._nodes.pop(0)
        await self.client.patch("Node", name, {"spec": {"unschedulable": True}})
        for pod in await self.client.list("Pod", "default"):
            if pod["spec"].get("nodeName") == name:
                await self._remove("Pod", pod["metadata"]["name"])
        await self.client.delete("Node", name)
        fresh = f"node-{next(self._numbers):06d}"
        await self.client.create(node(fresh, 0))
        self._nodes.append(fresh)

    async def _crd(self) -> None:
        for _ in range(60):
            with contextlib.suppress(*_FAILURES):
                await self.client.apply([definition("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups")])
                return
            await asyncio.sleep(0.5)

    async def _restart(self) -> None:
        began = time.monotonic()
        await asyncio.to_thread(self.plane.restart, "kube-apiserver")
        self._down.append((began, time.monotonic() + BOUND_WITHIN))

    def _is_down(self, since: float, until: float) -> bool:
        """Was the API server restarted in this time?"""
        return any(since < end and begin < until for begin, end in self._down)

    # -- what is seen --------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            with contextlib.suppress(*_FAILURES):
                for pod in await self.client.list("Pod", "default"):
                    self._is(pod)
                async for _, pod in self.client.watch("Pod", "default"):
                    self._is(pod)
            await asyncio.sleep(0.5)

    def _is(self, pod: Object) -> None:
        name, now = pod["metadata"]["name"], time.monotonic()
        at = self._created.get(name) if pod["spec"].get("nodeName") else None
        if at is not None:
            del self._created[name]
            if name.startswith("pod-") and not self._is_down(at, now):
                self.seen.waits.append(now - at)
                if now - at > BOUND_WITHIN:
                    self.seen.late.append(_told(pod, now - self._began))

    async def _measure(self) -> None:
        while True:
            self.seen.memory += _resident_bytes(self.scheduler.process.pid)
            await asyncio.sleep(1.0)

    def _log(self) -> list[str]:
        lines = self.scheduler.log.read_text(errors="replace").splitlines()
        return [line for line in lines if line.startswith("{")]


def _told(pod: Object, at: float) -> str:
    """A late pod: when it was seen on its node, and the times that its object bears."""
    meta, status = pod["metadata"], pod.get("status", {})
    times = {each["type"]: each.get("lastTransitionTime") for each in status.get("conditions", ())}
    return f"{meta['name']}: created {meta['creationTimestamp']}, {times}, seen {at:.1f} s after the start"


def _resident_bytes(pid: int) -> list[int]:
    """The resident memory of a process; nothing where it has ended."""
    try:
        return [int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")]
    except OSError:
        return []


def node(name: str, zone: int) -> Object:
    """A node of 16 CPU."""
    made = ready_node(name, "16", "64Gi", "110")
    made["metadata"]["labels"][ZONE] = f"z{zone % 3 + 1}"
    return made


async def traffic(folder: Path, seconds: float) -> Traffic:
    """Play so many seconds of it on a control plane of its own."""
    plane = ControlPlane(folder / "plane")
    await asyncio.to_thread(plane.start)
    try:
        async with Client(plane.admin_kubeconfig) as client:
            await apply_manifests_crds(client)
            await apply_manifests_rbac(client, SCHEDULER_USER)
            for number in range(NODES):
                await client.create(node(f"node-{number:03d}", number))
            log = {"format": "json", "level": "info"}
            # A process of its own, whose memory is measured: not one that is forked from another.
            scheduler = await start_process(plane.scheduler_kubeconfig, folder, tree=ROOT, logging=log)
            try:
                await wait_until(scheduler.ready, READY_SECONDS, what="the scheduler is ready")
                return await _Play(plane, client, scheduler, seconds).run()
            finally:
                await scheduler.stop()
    finally:
        await asyncio.to_thread(plane.stop)
