"""A server that is too busy or too slow: the lease stays, the probes answer, and what is on its way stays bounded."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.controlplane.client import ApiError, Client
from tests.controlplane.plane import SCHEDULER_USER, ControlPlane
from tests.faulty_proxy import Fault, FaultyProxy, Seen
from tests.resilience import audit
from tests.resilience.findings import Findings
from tests.resilience.load import Load, fillers, furnish, stream
from tests.resilience.proxyload import SETTINGS
from tests.resilience.replicas import Replica
from tests.resilience.weather import busy, slow

NODES, CPU = 8, 4
#: Writes in flight (48), Events and conditions among them; the lease, a look at a pod after a conflict, discovery.
MOST_AT_ONCE = 48 + 16
#: The server's own limits while its fairness is tried: few requests at once, and a crowd that wants more.
FAIR = ("--max-requests-inflight=20", "--max-mutating-requests-inflight=10")
CROWD = 32
_LAG = re.compile(r'^gangsched_io_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)


class Outcome(Findings):
    """What one kind of overload came to. ``lag_ms``: 99 of 100 probes of the I/O loop were below it."""

    name: str
    seconds: float = 0.0
    gangs_during: int = 0
    gangs: int = 0
    refused: int = 0
    at_once: int = 0
    probes: int = 0
    slowest_probe_ms: float = 0.0
    lag_ms: float = 0.0
    leaders: int = 0


async def overload(name: str, seconds: float, folder: Path, weather: Callable[[Seen], Fault | None] | None) -> Outcome:
    """Gangs preempt; then for a while the server is as ``weather`` says (None: crowded); then all is well again."""
    outcome = Outcome(name)
    plane = ControlPlane(folder / "plane", audit=True, apiserver_args=() if weather else FAIR)
    await asyncio.to_thread(plane.start)
    try:
        async with Client(plane.admin_kubeconfig) as admin:
            await furnish(admin, NODES, CPU)
            work = Load(
                admin,
                fillers=fillers(NODES, CPU, grace_seconds=1),
                gangs=stream(1, sizes=(2, 4), milli=(1000, 2000), seconds=(0.3, 1.0)),
                at_once=4,
                when_full=(NODES * CPU - 2) * 1000,
            )
            with FaultyProxy(plane.server, plane.ca_file) as proxy:
                replica = Replica("overload", plane.kubeconfig(SCHEDULER_USER, proxy.url), folder, SETTINGS)
                await replica.prepare()
                replica.go()
                try:
                    async with work.running():
                        await replica.until_leads()
                        await _endure(outcome, seconds, plane, proxy, replica, work, weather)
                        outcome.lag_ms = lag_ms(await replica.answers("/metrics"))
                except AssertionError as error:
                    outcome.problems.append(str(error))
                finally:
                    await replica.kill()
                outcome.at_once = proxy.most_at_once
        await asyncio.sleep(0.5)  # the log is written behind the answers
        log = plane.audit_events(SCHEDULER_USER)
        outcome.refused += sum(1 for e in log if (e.get("responseStatus") or {}).get("code") == 429)
        leases = [w for w in audit.writes(log) if w.kind == audit.LEASE and w.done]
        outcome.leaders = len({w.holder for w in leases if w.holder})
    finally:
        await asyncio.to_thread(plane.stop)
    if outcome.leaders != 1 or '"no longer leading"' in replica.log.read_text(errors="replace"):
        outcome.problems.append("the lease was lost")
    if outcome.at_once > MOST_AT_ONCE:
        outcome.problems.append(f"{outcome.at_once} requests at once")
    return outcome


async def _endure(
    outcome: Outcome,
    seconds: float,
    plane: ControlPlane,
    proxy: FaultyProxy,
    replica: Replica,
    work: Load,
    weather: Callable[[Seen], Fault | None] | None,
) -> None:
    """The quiet before, the storm, and the calm after it."""
    await asyncio.sleep(3.0)
    before = work.finished
    hits = 0

    def counting(request: Seen) -> Fault | None:
        nonlocal hits
        fault = weather(request) if weather is not None else None
        hits += fault is not None and fault.status == 429
        return fault

    began = time.monotonic()
    async with _crowd(plane) if weather is None else contextlib.nullcontext():
        proxy.weather = counting
        while time.monotonic() - began < seconds:
            for path in ("/healthz", "/readyz"):
                asked = time.monotonic()
                code, _ = await replica.answers(path)
                outcome.probes += 1
                outcome.slowest_probe_ms = max(outcome.slowest_probe_ms, (time.monotonic() - asked) * 1000.0)
                if code != 200:
                    outcome.problems.append(f"{path} answered {code}")
            await asyncio.sleep(0.2)
    proxy.weather = lambda _: None
    outcome.seconds = time.monotonic() - began
    outcome.gangs_during = work.finished - before
    outcome.refused = hits
    work.no_more()
    await work.settled(90.0)
    outcome.gangs = work.finished
    replica.check()


@asynccontextmanager
async def _crowd(plane: ControlPlane) -> AsyncIterator[None]:
    """Many others who list pods under the same name as the scheduler, so that it has to share with them."""

    async def shout() -> None:
        async with Client(plane.scheduler_kubeconfig) as client:
            while True:
                try:
                    await client.list("Pod")
                except (ApiError, OSError):
                    await asyncio.sleep(0.01)

    tasks = [asyncio.create_task(shout()) for _ in range(CROWD)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def lag_ms(page: tuple[int, str]) -> float:
    """The bound of the bucket in which the 99th of 100 probes lies, in milliseconds."""
    buckets = [(float(bound), float(count)) for bound, count in _LAG.findall(page[1])]
    total = buckets[-1][1] if buckets else 0.0
    return next((bound * 1000.0 for bound, count in buckets if count >= 0.99 * total), 0.0)


KINDS: dict[str, Callable[[Seen], Fault | None] | None] = {
    "429 to every write": busy,
    "300 ms for every answer": slow,
    "crowded server (priority and fairness)": None,
}
