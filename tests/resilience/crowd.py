"""Very many pods: memory stays in proportion, what is on its way bounded, the probes are answered and the lease kept.

The scheduler runs while they come. Then all its watches are cut and pods have to be listed anew (410), then gangs come
of which some fit and some never will. Beside it, in the same run, an event loop that does nothing says how late a
callback is on this machine anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path

import msgspec

from tests.bench.live.api import PATHS, Api
from tests.bench.live.cells import GROUP_API, NAMESPACE, Object
from tests.controlplane.client import Client, wait_until
from tests.controlplane.objects import ready_node
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.controlplane.rbac import apply_manifests_crds, apply_manifests_rbac
from tests.faulty_proxy import Fault, FaultyProxy
from tests.resilience.findings import Findings
from tests.resilience.load import OURS
from tests.resilience.overload import MOST_AT_ONCE, lag_ms
from tests.resilience.proxyload import LIMITS, SETTINGS
from tests.resilience.replicas import Replica

#: The administrator's own requests shall not be held back.
SERVER_ARGS = ("--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000")
PODS_PER_NODE = 100
#: Of a hundred pods so many are ours and pending: half of them in gangs that fit, half in gangs that never will.
OURS_PERCENT = 2
GANG = 10
#: What the process may take before it has seen a pod, and for each of them (see docs/internals/resilience.md).
BASE_MB, POD_KB = 200.0, 6.0
CUTS = 2
_LEASE = "/apis/coordination.k8s.io/v1/namespaces/gangsched-system/leases/py-gang-scheduler"
_LISTED = re.compile(r'^gangsched_list_seconds_count\{resource="pods"\} (\S+)$', re.MULTILINE)
_KB = re.compile(r"^(VmRSS|VmHWM):\s+(\d+) kB$", re.MULTILINE)


class Outcome(Findings):
    """What one run came to. ``idle_lag_ms`` is of the loop that does nothing, ``lag_ms`` an upper bound for ours."""

    pods: int = 0
    loaded_per_second: float = 0.0
    bound: int = 0
    seconds: float = 0.0
    rss_mb: dict[str, float] = msgspec.field(default_factory=dict)
    peak_mb: float = 0.0
    at_once: int = 0
    lease_gap_seconds: float = 0.0
    leaders: int = 0
    probes: int = 0
    slowest_probe_ms: float = 0.0
    lag_ms: float = 0.0
    idle_lag_ms: float = 0.0


async def crowd(pods: int, folder: Path) -> Outcome:
    """So many pods on a control plane of its own."""
    outcome = Outcome(pods)
    plane = ControlPlane(folder / "plane", controller_manager=False, kwok=False, apiserver_args=SERVER_ARGS)
    await asyncio.to_thread(plane.start)
    try:
        async with Client(plane.admin_kubeconfig) as admin:
            await apply_manifests_crds(admin)
            await apply_manifests_rbac(admin, SCHEDULER_USER)
        with FaultyProxy(plane.server, plane.ca_file) as proxy:
            replica = Replica("crowd", plane.kubeconfig(SCHEDULER_USER, proxy.url), folder, SETTINGS)
            await replica.prepare()
            replica.go()
            try:
                async with Api(plane) as api:
                    await replica.until_leads()
                    # It may lead before its pages are there.
                    await wait_until(partial(_serves, replica), what="its health server answers")
                    await _all(outcome, api, proxy, replica)
                replica.check()
            except AssertionError as error:
                outcome.problems.append(str(error))
            finally:
                await replica.kill()
            outcome.at_once = proxy.most_at_once
    finally:
        await asyncio.to_thread(plane.stop)
    _judge(outcome)
    return outcome


async def _all(outcome: Outcome, api: Api, proxy: FaultyProxy, replica: Replica) -> None:
    began = time.monotonic()
    fitting = outcome.pods * OURS_PERCENT // 200 // GANG * GANG
    others = outcome.pods - 2 * fitting
    outcome.rss_mb["empty"], _ = _memory(replica)
    async with _idle_loop(outcome), _probing(outcome, replica), _lease_followed(outcome, api):
        await api.create(_nodes(-(-others // PODS_PER_NODE)))
        loading = time.monotonic()
        await api.create(_residents(others))
        outcome.loaded_per_second = others / (time.monotonic() - loading)
        await wait_until(lambda: _taken_in(replica), 120.0, "everything has been taken in", 0.5)
        outcome.rss_mb["loaded"], _ = _memory(replica)
        for number in range(CUTS):
            lists = await _lists(replica)
            proxy.fail(Fault(watch=True, path="/api/v1/pods$", status=410, body=b"{}"))
            proxy.cut(r"/api/v1/pods$")
            await wait_until(partial(_listed_since, replica, lists), 120.0, "pods are listed anew", 0.5)
            await wait_until(lambda: _taken_in(replica), 120.0, "everything has been taken in", 0.5)
            outcome.rss_mb[f"list {number + 2}"], _ = _memory(replica)
        await api.create(_gangs("fits", fitting, "1"))
        await api.create(_gangs("never", fitting, "1000"))

        async def all_bound() -> bool:
            outcome.bound = await _bound(api)
            return outcome.bound >= fitting

        await wait_until(all_bound, 300.0, f"{fitting} pods are bound", 1.0)
        await wait_until(lambda: _taken_in(replica), 120.0, "everything has been taken in", 0.5)
        outcome.rss_mb["bound"], outcome.peak_mb = _memory(replica)
        outcome.lag_ms = lag_ms(await replica.answers("/metrics"))
    outcome.seconds = time.monotonic() - began


def _judge(outcome: Outcome) -> None:
    limit = BASE_MB + outcome.pods * POD_KB / 1024.0
    if outcome.peak_mb > limit:
        outcome.problems.append(f"{outcome.peak_mb:.0f} MB of memory, more than {limit:.0f} MB")
    if outcome.at_once > MOST_AT_ONCE:
        outcome.problems.append(f"{outcome.at_once} requests at once, more than {MOST_AT_ONCE}")
    if outcome.leaders != 1:
        outcome.problems.append(f"the lease had {outcome.leaders} holders")
    if outcome.lease_gap_seconds > LIMITS["renew_deadline_seconds"]:
        outcome.slow.append(f"the lease was not renewed for {outcome.lease_gap_seconds:.1f} s")


# ------------------------------------------------------------------------------------------------------ what is watched


def _memory(replica: Replica) -> tuple[float, float]:
    """Resident memory of the process in MB: now, and at its highest."""
    found = dict(_KB.findall(Path(f"/proc/{replica.pid}/status").read_text()))
    return int(found["VmRSS"]) / 1024.0, int(found["VmHWM"]) / 1024.0


async def _lists(replica: Replica) -> int:
    found = _LISTED.search((await replica.answers("/metrics"))[1])
    return int(float(found[1])) if found else 0


async def _listed_since(replica: Replica, before: int) -> bool:
    return await _lists(replica) > before


async def _serves(replica: Replica) -> bool:
    replica.check()
    return (await replica.answers("/healthz"))[0] != 0


async def _taken_in(replica: Replica) -> bool:
    """Is nothing left that the decision thread has not taken?"""
    replica.check()
    return "\ngangsched_inbox_events 0.0" in (await replica.answers("/metrics"))[1]


async def _bound(api: Api) -> int:
    """How many of our pods have a node."""
    body = await api.request("GET", PATHS["Pod"], params={"labelSelector": "crowd=fits", "resourceVersion": "0"})
    items = msgspec.json.decode(body)["items"]
    return sum(bool(item["spec"].get("nodeName")) for item in items)


@asynccontextmanager
async def _background(work: AsyncIterator[None]) -> AsyncIterator[None]:
    """Go on with ``work`` while the block runs; an error in it is one of the block's."""

    async def run() -> None:
        async for _ in work:
            pass

    task = asyncio.create_task(run())
    try:
        yield
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _probing(outcome: Outcome, replica: Replica) -> contextlib.AbstractAsyncContextManager[None]:
    """Ask /healthz and /readyz all the time."""

    async def work() -> AsyncIterator[None]:
        ready = False
        while True:
            for path in ("/healthz", "/readyz"):
                asked = time.monotonic()
                code, text = await replica.answers(path)
                outcome.probes += 1
                outcome.slowest_probe_ms = max(outcome.slowest_probe_ms, (time.monotonic() - asked) * 1000.0)
                ready = ready or (path == "/readyz" and code == 200)
                if code != 200 and (path == "/healthz" or ready):
                    outcome.problems.append(f"{path} answered {code} {text[:200]}")
            yield
            await asyncio.sleep(0.2)

    return _background(work())


def _lease_followed(outcome: Outcome, api: Api) -> contextlib.AbstractAsyncContextManager[None]:
    """Read the lease all the time: the longest time between two renewals, by what its holder has written."""

    async def work() -> AsyncIterator[None]:
        holders: set[str] = set()
        before = 0.0
        while True:
            spec = msgspec.json.decode(await api.request("GET", _LEASE))["spec"]
            holders.add(spec["holderIdentity"])
            at = datetime.fromisoformat(spec["renewTime"]).timestamp()
            outcome.leaders = len(holders)
            outcome.lease_gap_seconds = max(outcome.lease_gap_seconds, at - (before or at))
            before = at
            yield
            await asyncio.sleep(0.5)

    return _background(work())


@asynccontextmanager
async def _idle_loop(outcome: Outcome) -> AsyncIterator[None]:
    """A process with nothing but an event loop, asked in the same way as the scheduler asks its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.resilience.idle", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield
    finally:
        out, _ = await process.communicate(b"\n")
    outcome.idle_lag_ms = float(out)


# ------------------------------------------------------------------------------------------------------------- objects


def _nodes(count: int) -> Iterator[Object]:
    for n in range(count):
        yield ready_node(f"node-{n:05d}", str(PODS_PER_NODE + 16), "512Gi", str(2 * PODS_PER_NODE))


def _residents(count: int) -> Iterator[Object]:
    """Pods of others, bound from the start, evenly over the nodes."""
    for n in range(count):
        pod = _pod(f"resident-{n:06d}", "resident", "1", "other-scheduler")
        pod["spec"]["nodeName"] = f"node-{n // PODS_PER_NODE:05d}"
        yield pod


def _gangs(kind: str, pods: int, cpu: str) -> Iterator[Object]:
    """Our pods: gangs of ten."""
    for n in range(pods // GANG):
        name = f"{kind}-{n:05d}"
        policy = {"gang": {"minCount": GANG}}
        yield {
            "apiVersion": GROUP_API,
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"schedulingPolicy": policy},
        }
        for m in range(GANG):
            pod = _pod(f"{name}-{m}", kind, cpu, OURS)
            pod["spec"]["schedulingGroup"] = {"podGroupName": name}
            yield pod


def _pod(name: str, kind: str, cpu: str, scheduler: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"crowd": kind}},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "image": "example/none", "resources": {"requests": {"cpu": cpu}}}],
        },
    }
