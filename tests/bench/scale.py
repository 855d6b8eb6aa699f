"""How the costs of the scheduler grow with the cluster, up to 15,000 nodes and 300,000 pods, and what gives in first.

    python -m tests.bench.scale [--sizes 1000 2000 ...] [--json FILE] [--svg FILE]
    python -m tests.bench.scale --show FILE [--svg FILE]
    python -m tests.bench.scale --write FILE [--nodes N]

For each size a process of its own plays ``gangsched simulate``: the real core on a virtual clock. Nodes have 64 CPU of
which 20 pods in gangs of 8 use 60. Then come 20 gangs of 8 that fit, a gang of 100 that fits nowhere and may evict
nobody, and two gangs of 100 that have to evict. At last single changes are handed to the core, one by one. All times
are time of the processor. Exponents are those of a power law through the sizes, by least squares of the logarithms:
1 is linear in the cluster, 0 constant. ``--show`` makes tables and picture of earlier results. ``--write`` measures
nothing: it writes the cluster of one size for ``gangsched simulate -f FILE``.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median

import msgspec

from gangsched.cluster.sim import SimCluster, World
from gangsched.cluster.sim.arrival import ARRIVE_AFTER, arrivals
from gangsched.core.actions import Action
from gangsched.core.decision import BIND, PREEMPT, UNSCHEDULABLE, Decision
from gangsched.core.events import Changed, Event, Gone, SearchCancelled
from gangsched.core.planning.contained import Fault
from gangsched.core.scheduler import Scheduler
from gangsched.model.records import Gang, Node, Pod
from gangsched.runtime.loop import run_loop
from gangsched.runtime.memory import raise_thresholds
from tests.bench import cluster_file
from tests.bench.publish import growth, record
from tests.bench.publish.growth import Chart, Curve
from tests.bench.publish.machine import hardware
from tests.bench.publish.tables import table
from tests.bench.worlds import GI, cluster, pending
from tests.oracle.case import NOW, Case, Maker
from tests.oracle.generate import SIGS

SIZES = (1000, 2000, 4000, 8000, 15_000)
PODS_PER_NODE = 20
FITTING = 20
LARGE = 100
#: So many single changes of each kind are handed over.
CHANGES = 100
#: A pod changes about so often in its life (created, bound, running, gone), and lives for half an hour.
_CHANGES_OF_A_POD, _LIFE_SECONDS = 4, 1800.0


class Figures(msgspec.Struct, kw_only=True):
    """What one size costs. Milliseconds and microseconds are of the processor, MiB of resident memory.

    ``ingest_us`` is per pod of the first listing; ``core_mib`` are its records and what the core keeps of them.
    ``first_ms`` is the first decision of all, ``fits_ms`` and ``fits_late_ms`` the median and the latest of the others
    for a gang of 8 that fits, ``recabled_ms`` and ``enlarged_ms`` to take in a changed node (a new one) with such a
    gang and to decide it. ``refused_ms`` is for the gang of 100 that fits nowhere, ``evicts_ms`` for the first of 100
    that evicts, ``again_ms`` for the second. ``pod_us``, ``gone_us`` and ``node_us`` are to take in a changed pod, a
    pod that is gone, a changed node. ``simulate_s`` is the whole simulation, ``peak_mib`` its memory with the simulated
    cluster and its history.
    """

    nodes: int
    pods: int
    ingest_us: float
    core_mib: float
    first_ms: float
    fits_ms: float
    fits_late_ms: float
    recabled_ms: float
    enlarged_ms: float
    refused_ms: float
    evicts_ms: float
    again_ms: float
    pod_us: float
    gone_us: float
    node_us: float
    simulate_s: float
    peak_mib: float
    cut_short: bool

    @property
    def listing_seconds(self) -> float:
        """Of the core, for the first listing."""
        return self.ingest_us * self.pods / 1e6

    @property
    def events_percent(self) -> float:
        """Of one processor, to take in what pods that live for half an hour change."""
        return 100 * self.pods * _CHANGES_OF_A_POD / _LIFE_SECONDS * (self.pod_us + self.gone_us) / 2 / 1e6


class Growth(msgspec.Struct):
    """A run over all sizes: on which machine, on which day, how many others wanted its cores (load average), and what
    came out.
    """

    machine: str
    measured: str
    load: float
    sizes: list[Figures]


class Limit(msgspec.Struct, frozen=True):
    """From which value on something no longer works well, and why that one."""

    name: str
    value: Callable[[Figures], float]
    most: float
    why: str


LIMITS = (
    Limit("first listing, core", lambda f: f.listing_seconds, 15.0, "s: the duration of the Lease"),
    Limit("gang of 8 that fits", lambda f: f.fits_late_ms, 80.0, "ms: 100 pods/s"),
    Limit("gang of 100 that evicts", lambda f: f.evicts_ms, 500.0, "ms: the budget of a search"),
    Limit("taking in changes", lambda f: f.events_percent, 50.0, "% of a processor, pods living for half an hour"),
    Limit("memory of the core", lambda f: f.core_mib, 2048.0, "MiB: the limit in manifests/deployment.yaml"),
)


class Timed:
    """The core, with the processor's time of every call."""

    def __init__(self, core: Scheduler) -> None:
        self._core = core
        self.handled: list[float] = []
        self.decided: list[tuple[Decision, float]] = []
        self.listing_mib = 0.0
        self.deciding = 0.0
        self._last = 0.0

    def handle(self, events: Sequence[Event], now: float) -> list[Action]:
        """See :class:`gangsched.runtime.loop.Core`."""
        memory = resident_mib()
        start = time.thread_time()
        actions = self._core.handle(events, now)
        self.handled.append(time.thread_time() - start)
        if len(self.handled) == 1:
            self.listing_mib = resident_mib() - memory
        return actions

    def decide(self, now: float) -> list[Action]:
        """See :class:`gangsched.runtime.loop.Core`."""
        start = time.thread_time()
        actions = self._core.decide(now)
        self._last = time.thread_time() - start
        self.deciding += self._last
        return actions

    def next_gang(self) -> str:
        """See :class:`gangsched.runtime.loop.Core`."""
        return self._core.next_gang()

    def drain_faults(self) -> list[Fault]:
        """See :class:`gangsched.runtime.loop.Core`."""
        return self._core.drain_faults()

    def drain_decisions(self) -> list[Decision]:
        """See :class:`gangsched.runtime.loop.Core`."""
        decisions = self._core.drain_decisions()
        self.decided += [(decision, self._last) for decision in decisions]
        return decisions

    def has_work(self, now: float) -> bool:
        """See :class:`gangsched.runtime.loop.Core`."""
        return self._core.has_work(now)

    def wake_at(self) -> float | None:
        """See :class:`gangsched.runtime.loop.Core`."""
        return self._core.wake_at()

    @property
    def waits(self) -> bool:
        """See :class:`gangsched.runtime.loop.Core`."""
        return self._core.waits

    def cancelled(self) -> SearchCancelled | None:
        """See :class:`gangsched.runtime.loop.Core`."""
        return self._core.cancelled()

    def milliseconds(self, name: str, outcome: str) -> list[float]:
        """Of the decisions with this outcome about gangs whose name begins so."""
        return [1e3 * t for d, t in self.decided if d.gang.name.startswith(name) and d.outcome == outcome]


def resident_mib() -> float:
    """Memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def peak_mib() -> float:
    """The most that it was."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def scene(nodes: int, large: int) -> Case:
    """The cluster, and gangs that arrive: of 8 ``fits``, of ``large`` ``never``, and two that evict."""
    case = cluster(nodes=nodes, pods=nodes * PODS_PER_NODE, gang_size=8, members=large, member=(24, 32), victim=(3, 8))
    make = Maker()
    small, whole = make.shape({"cpu": 2000, "memory": GI}), make.shape({"cpu": 63_000, "memory": GI})
    evicting = make.shape({"cpu": 24_000, "memory": 32 * GI})
    pods = [arriving(p, 90.0) if not p.node else p for p in case.pods]
    gangs = list(case.gangs)
    for number in range(FITTING):
        name = f"fits{number:02d}"
        pods += [arriving(p, 10.0 + number) for p in pending(make, name, [small] * 8, priority=5)]
        gangs.append(Gang(SIGS, "default", name, min_member=8))
    pods += [arriving(p, 60.0) for p in pending(make, "never", [whole] * large, priority=0)]
    pods += [arriving(p, 150.0) for p in pending(make, "more", [evicting] * large)]
    gangs += [Gang(SIGS, "default", name, min_member=large) for name in ("never", "more")]
    return msgspec.structs.replace(case, pods=pods, gangs=gangs)


def arriving(pod: Pod, after_seconds: float) -> Pod:
    """The pod, created so long after the start."""
    return msgspec.structs.replace(pod, hints={**pod.hints, ARRIVE_AFTER: f"{after_seconds}s"})


def measure(nodes: int, large: int = LARGE) -> Figures:
    """Play it and hand over single changes. To be called in a process of its own."""
    before_mib = resident_mib()
    case = scene(nodes, large)
    records_mib = resident_mib() - before_mib
    restore = raise_thresholds()
    core = Timed(Scheduler(case.options))
    began = time.process_time()
    world = World(arrivals(case.events()), start=NOW)
    cluster_ = SimCluster(world, until_seconds=240.0)
    run_loop(core, cluster_)
    simulate_s = time.process_time() - began
    first, *fits = core.milliseconds("fits", BIND)
    evicts = core.milliseconds("want", PREEMPT)[:1] + core.milliseconds("more", PREEMPT)[:1]
    if len(fits) != FITTING - 1 or len(evicts) != 2:
        raise ValueError(f"{nodes} nodes: not what was to be measured was decided")
    refused = core.milliseconds("never", UNSCHEDULABLE)
    now = world.clock.now
    running = [p for p in world.store.pods.values() if p.node and p.deleting_since is None and p.name[:3] == "run"]
    running = running[:: max(1, len(running) // (2 * CHANGES))][: 2 * CHANGES]
    changed = [Changed(msgspec.structs.replace(p, started=now)) for p in running[:CHANGES]]
    gone = [Gone("Pod", p.namespace, p.name, p.uid) for p in running[CHANGES:]]
    labelled = [
        msgspec.structs.replace(node, labels={**node.labels, "rack": "r1"})
        for node in list(world.store.nodes.values())[:CHANGES]
    ]
    pod_us, gone_us, node_us = (one_by_one(core, events, now) for events in (changed, gone, [*map(Changed, labelled)]))
    recabled = after_changes(core, "late", labelled, now)
    nodes_like = [msgspec.structs.replace(node, name=f"new-{node.name}") for node in labelled]
    enlarged = after_changes(core, "new", nodes_like, now)
    restore()
    return Figures(
        nodes=nodes,
        pods=nodes * PODS_PER_NODE,
        ingest_us=1e6 * core.handled[0] / (nodes * PODS_PER_NODE),
        core_mib=records_mib + core.listing_mib,
        first_ms=first,
        fits_ms=median(fits),
        fits_late_ms=max(fits),
        recabled_ms=recabled,
        enlarged_ms=enlarged,
        refused_ms=median(refused),
        evicts_ms=evicts[0],
        again_ms=evicts[1],
        pod_us=pod_us,
        gone_us=gone_us,
        node_us=node_us,
        simulate_s=simulate_s,
        peak_mib=peak_mib(),
        cut_short=any(d.stopped for d, _ in core.decided),
    )


def one_by_one(core: Timed, events: Iterable[Event], now: float) -> float:
    """Median microseconds to take in one of these."""
    before = len(core.handled)
    for event in events:
        core.handle([event], now)
    return 1e6 * median(core.handled[before:])


def after_changes(core: Timed, prefix: str, changes: Sequence[Node], now: float) -> float:
    """Median milliseconds to take in one of these changes and a new gang of 8 and to decide it."""
    make = Maker()
    shape = make.shape({"cpu": 500, "memory": GI})
    times = []
    for number, change in enumerate(changes[:9]):
        name = f"{prefix}{number}"
        node = msgspec.structs.replace(change, labels={**change.labels, "rack": f"r{number}"})
        gang = Changed(Gang(SIGS, "default", name, min_member=8))
        events: list[Event] = [Changed(node), gang, *(Changed(p) for p in pending(make, name, [shape] * 8))]
        start = time.thread_time()
        core.handle(events, now)
        while core.has_work(now) and not core.milliseconds(name, BIND):
            core.decide(now)
            core.drain_decisions()
        times.append(1e3 * (time.thread_time() - start))
    return median(times)


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Of the power law through these points, by least squares of the logarithms."""
    xs, ys = [math.log(s) for s in sizes], [math.log(max(v, 1e-9)) for v in values]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum((x - mean_x) ** 2 for x in xs)


def breaking_points(found: Sequence[Figures]) -> list[list[object]]:
    """For each limit: what it is at the largest size, and at how many pods it is reached if it goes on like this."""
    last = found[-1]
    rows: list[tuple[float, list[object]]] = []
    for limit in LIMITS:
        values = [limit.value(f) for f in found]
        power = exponent([f.pods for f in found], values)
        # What hardly grows is told as never: a small exponent magnifies every error.
        pods = last.pods * (limit.most / values[-1]) ** (1 / power) if power > 0.2 else math.inf
        text = "never" if math.isinf(pods) else f"{float(f'{pods:.2g}'):,.0f}"
        rows.append((pods, [limit.name, f"{values[-1]:.3g}", f"{power:.2f}", f"{limit.most:g} {limit.why}", text]))
    return [row for _, row in sorted(rows, key=lambda each: each[0])]


_COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("first listing, core, per pod", "µs", "ingest_us"),
    ("memory of the core", "MiB", "core_mib"),
    ("first decision", "ms", "first_ms"),
    ("gang of 8 that fits, p50", "ms", "fits_ms"),
    ("the same, latest of 19", "ms", "fits_late_ms"),
    ("a node changes, gang of 8 fits", "ms", "recabled_ms"),
    ("a node is added, gang of 8 fits", "ms", "enlarged_ms"),
    ("gang of 100, refused", "ms", "refused_ms"),
    ("gang of 100 evicts, first", "ms", "evicts_ms"),
    ("gang of 100 evicts, second", "ms", "again_ms"),
    ("a pod changed", "µs", "pod_us"),
    ("a pod is gone", "µs", "gone_us"),
    ("a node changed", "µs", "node_us"),
    ("the whole simulation", "s", "simulate_s"),
    ("its memory, cluster included", "MiB", "peak_mib"),
)


def show(found: Sequence[Figures]) -> str:
    """The tables."""
    sizes = [f"{f.nodes:,} / {f.pods:,}" for f in found]
    rows = []
    for name, unit, field in _COLUMNS:
        values = [float(getattr(f, field)) for f in found]
        power = f"{exponent([f.pods for f in found], values):.2f}" if len(found) > 1 else "-"
        rows.append([name, unit, *(f"{v:.2f}" if v < 10 else f"{v:.0f}" for v in values), power])
    out = table(["nodes / pods", "", *sizes, "exponent"], rows)
    if any(f.cut_short for f in found):
        out += "searches for victims were cut short\n"
    if len(found) > 1:
        header = ["what gives in", f"at {found[-1].pods:,} pods", "exponent", "limit", "reached at so many pods"]
        out += "\n" + table(header, breaking_points(found))
    return out


def in_a_process(nodes: int) -> Figures:
    """The figures of one size, from a fresh process."""
    command = [sys.executable, "-m", "tests.bench.scale", "--one", str(nodes)]
    done = subprocess.run(command, capture_output=True, check=True)
    return msgspec.json.decode(done.stdout, type=Figures)


_CURVES = (
    ("a decision, ms", ("first_ms", "evicts_ms", "fits_ms", "refused_ms", "enlarged_ms")),
    ("a change, µs", ("ingest_us", "pod_us", "gone_us", "node_us")),
)


def picture(found: Growth) -> str:
    """Decisions and changes over the number of pods."""
    sizes = [f.pods for f in found.sizes]
    names = {field: name.removesuffix(", p50").removesuffix(", core, per pod") for name, _, field in _COLUMNS}
    charts = []
    for title, fields in _CURVES:
        curves = []
        for field in fields:
            values = [float(getattr(f, field)) for f in found.sizes]
            curves.append(Curve(names[field], values, exponent(sizes, values) if len(sizes) > 1 else None))
        charts.append(Chart(title, curves))
    return growth.picture(sizes, charts, f"Time of the processor. {found.machine}; measured {found.measured}.")


def main(arguments: list[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="nodes, 20 pods on each")
    parser.add_argument("--one", type=int, help="measure one size here and print it as JSON")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw them there")
    parser.add_argument("--show", type=Path, metavar="FILE", help="measure nothing: show the figures in this file")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the cluster for gangsched simulate")
    parser.add_argument("--nodes", type=int, default=SIZES[-1], help="of that cluster (default: %(default)s)")
    given = parser.parse_args(arguments)
    if given.one:
        sys.stdout.buffer.write(msgspec.json.encode(measure(given.one)))
        return 0
    if given.write:
        count = cluster_file.write(scene(given.nodes, LARGE), given.write)
        print(f"{given.write}: {count:,} objects, {given.write.stat().st_size / 2**20:.0f} MiB")
        return 0
    found = record.read(given.show, Growth) if given.show else grow(sorted(given.sizes))
    if given.json:
        record.write(found, given.json)
    if given.svg:
        given.svg.write_text(picture(found), encoding="utf-8")
    print(f"{found.machine}; {found.measured}; load average {found.load:.1f}")
    print(show(found.sizes))
    return 0


def grow(sizes: Sequence[int]) -> Growth:
    """Each size in a process of its own."""
    found = Growth(hardware(), record.today(), record.load(), [])
    for nodes in sizes:
        found.sizes.append(in_a_process(nodes))
        print(f"  {nodes} nodes: {found.sizes[-1].simulate_s:.0f} s", file=sys.stderr)
    return found


if __name__ == "__main__":
    sys.exit(main())
