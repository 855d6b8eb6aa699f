"""A thousand queues and fifty thousand workloads on a virtual clock: what quota costs, and how long workloads wait.

    python -m tests.bench.quota [--cohorts 10] [--queues 100] [--fair] [--growth] [--joint] [--count N]

The mix is that of Kueue's large-scale performance test: per queue (nominal 20 CPU, borrowing limit 100) 35 small, 11
medium and 4 large workloads of one pod, created at fixed intervals, each running for a fixed time once admitted. Here
time is virtual: a cycle takes none, a displaced workload frees its quota at once and keeps its place in the queue. CPU
time is real: what flavors, victims and the cycle cost is measured for each decision.

With ``--joint`` the mix goes through the whole scheduler core instead (:mod:`tests.bench.quota_joint`): each workload
is a pod, decided for quota and nodes, bound, and evicted. ``--count`` is how many workloads; there are queues for them.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import statistics
import sys
import time
from collections.abc import Iterator

import msgspec
import numpy as np

from gangsched.core.quota.cycle import Cycle, Outcome, Status
from gangsched.core.quota.ordering import Pending
from gangsched.core.quota.quota import FairSharing, Quota
from gangsched.core.quota.workloads import Admission, PodSet, Workload
from gangsched.model.queues import (
    ANY,
    LOWER,
    ClusterQueue,
    FlavorQuota,
    Limits,
    QueuePreemption,
    ResourceFlavor,
    ResourceGroup,
)
from gangsched.model.records import LabelSelector, PodShape
from tests.bench.table import table

#: Per decision: the median and the 99th percentile, milliseconds; and what twice as many of everything may cost.
MEDIAN_MS, P99_MS, GROWTH = 0.5, 5.0, 2.3


class Kind(msgspec.Struct, frozen=True):
    """Workloads of one class: how many per queue, every how many seconds, how long they run, priority, CPU."""

    name: str
    count: int
    every: float
    runs: float
    priority: int
    cpu: int
    #: Mean time to admission of Kueue on its own test bed, seconds: with an API server and its pacing.
    kueue: float


KINDS = (
    Kind("large", 4, 0.7, 0.7, 200, 20, 105.6),
    Kind("medium", 11, 0.3, 0.35, 100, 5, 256.4),
    Kind("small", 35, 0.06, 0.15, 50, 1, 700.4),
)
#: Share of nominal quota that Kueue's queues use on the average, and the wall time of its whole run, seconds.
KUEUE_USAGE, KUEUE_SECONDS = 38.6, 1179.4
NOMINAL, LIMIT = 20_000, 100_000
ARRIVES, ENDS = 1, 0


class Report(msgspec.Struct):
    """What a replay came to. Times in seconds, ``cpu`` per decision; ``handled`` is the CPU of everything else."""

    workloads: int = 0
    virtual: float = 0.0
    cycles: int = 0
    preempted: int = 0
    used: float = 0.0
    handled: float = 0.0
    cpu: list[float] = []
    total: dict[str, float] = {}
    waits: dict[str, list[float]] = {}
    statuses: dict[str, int] = {}

    @property
    def cpu_seconds(self) -> float:
        """CPU of all decisions."""
        return sum(self.cpu)


def cluster_queue(name: str, cohort: str) -> ClusterQueue:
    """A queue as in Kueue's test: it may take back what it lent, and displaces lower priority in itself."""
    quotas = (FlavorQuota("default", (("cpu", Limits(NOMINAL, LIMIT)),)),)
    return ClusterQueue(
        name=name,
        cohort=cohort,
        groups=(ResourceGroup(("cpu",), quotas),),
        namespaces=LabelSelector(),
        preemption=QueuePreemption(within=LOWER, reclaim=ANY),
    )


class Replay:
    """The virtual cluster: quota, queues, and what happens when."""

    def __init__(self, cohorts: int, queues: int, fair: bool = False, times: int = 1) -> None:
        self.times = times
        self.quota = Quota(FairSharing() if fair else None)
        self.pending = Pending()
        self.events: list[tuple[float, int, str]] = []
        self.workloads: dict[str, Workload] = {}
        self.kind_of: dict[str, Kind] = {}
        self.ends: dict[str, float] = {}
        self.now = 0.0
        self.report = Report(cpu=[], total={}, waits={k.name: [] for k in KINDS}, statuses={})
        self.quota.put(ResourceFlavor("default"))
        self.capacity = cohorts * queues * NOMINAL
        self.in_use = 0
        for c in range(cohorts):
            for q in range(queues):
                self._queue(f"queue-{q:03}-{c}", f"cohort-{c}")
        self.quota.tree  # noqa: B018 - built before the clock starts
        self.below = {
            root: [n.name for n in self.quota.tree.queues.values() if n.root is root] for root in self.quota.tree.roots
        }
        self.report.workloads = len(self.workloads)

    def _queue(self, name: str, cohort: str) -> None:
        self.quota.put(cluster_queue(name, cohort))
        for kind in KINDS:
            pods = (PodSet("main", 1, PodShape(requests=(("cpu", kind.cpu * 1000),))),)
            for i in range(kind.count * self.times):
                created = (i + 1) * kind.every
                uid = f"{name}/{kind.name}-{i:02}"
                self.workloads[uid] = Workload(name, f"{kind.name}-{i:02}", uid, name, pods, kind.priority, created)
                self.kind_of[uid] = kind
                heapq.heappush(self.events, (created, ARRIVES, uid))

    def run(self) -> Report:
        """Until every workload has run."""
        report = self.report
        while self.events or self.pending.heads():
            if not self.events:
                raise RuntimeError("workloads wait and nothing will happen any more")
            moment = self.events[0][0]
            report.used += self.in_use * (moment - self.now)
            self.now = moment
            self._happen(moment)
            while self._cycle():
                pass
        report.virtual = self.now
        report.used *= 100 / (self.capacity * self.now)
        return report

    def _happen(self, moment: float) -> None:
        """All events of this moment."""
        freed = set()
        while self.events and self.events[0][0] == moment:
            _, what, uid = heapq.heappop(self.events)
            if what == ARRIVES:
                self.pending.add(self.workloads[uid])
            elif self.ends.get(uid) == moment:
                freed.add(self._leave(uid))
        self._wake(freed)

    def _leave(self, uid: str) -> str:
        """A workload's quota is free again; its queue."""
        self.quota.release(uid)
        del self.ends[uid]
        self.in_use -= self.kind_of[uid].cpu * 1000
        return self.workloads[uid].queue

    def _wake(self, queues: set[str]) -> None:
        """Something was given back in these queues."""
        roots = {self.quota.tree.queues[name].root for name in queues}
        for root in sorted(roots, key=lambda n: n.name):
            self.pending.wake(self.below[root])

    def _cycle(self) -> bool:
        """One admission cycle; did anything happen in it that makes another worth while?"""
        heads = self.pending.heads()
        if not heads:
            return False
        clock = time.thread_time
        cycle = Cycle(self.quota, self.pending.resume)
        spent: dict[str, float] = {}
        nominated = {}
        for head in heads:
            start = clock()
            nominated[head.uid] = cycle.nominate(head)
            spent[head.uid] = clock() - start
        outcomes: list[Outcome] = []
        start = clock()
        for candidate in cycle.ordered([c for c, _ in nominated.values()]):
            outcomes.append(cycle.process(candidate, nominated[candidate.workload.uid][1]))
            spent[candidate.workload.uid] += clock() - start
            start = clock()
        cycle.close()
        self.report.cycles += 1
        for uid, seconds in spent.items():
            self.report.cpu.append(seconds)
            self.report.total[uid] = self.report.total.get(uid, 0.0) + seconds
        changed = [self._act(outcome) for outcome in outcomes]
        self._wake({victim.workload.queue for outcome in outcomes for victim in outcome.victims})
        return any(changed)

    def _act(self, outcome: Outcome) -> bool:
        status, workload = outcome.status, outcome.workload
        self.report.statuses[status.value] = self.report.statuses.get(status.value, 0) + 1
        if status is Status.ADMITTED:
            kind = self.kind_of[workload.uid]
            self.pending.remove(workload.uid)
            self.quota.admit(Admission(workload, outcome.assignment.usage, self.now))
            self.in_use += kind.cpu * 1000
            self.report.waits[kind.name].append(self.now - workload.queued)
            self.ends[workload.uid] = self.now + kind.runs
            heapq.heappush(self.events, (self.now + kind.runs, ENDS, workload.uid))
            return True
        self.pending.failed(
            workload,
            outcome.again,
            waits_for_victims=status is Status.PREEMPTING,
            resume=outcome.assignment.resume,
        )
        for victim in outcome.victims:
            self.report.preempted += 1
            self._leave(victim.uid)
            self.pending.add(victim.workload)
        return bool(outcome.victims)


def measure(cohorts: int, queues: int, fair: bool = False) -> Report:
    """Replay without the garbage collector's pauses of a process that holds many objects."""
    replay = Replay(cohorts, queues, fair)
    gc.collect()
    gc.freeze()
    try:
        return replay.run()
    finally:
        gc.unfreeze()


def rows(found: Report) -> Iterator[list[object]]:
    """The table of waiting times."""
    for kind in KINDS:
        waits = found.waits[kind.name]
        p50, p90 = np.percentile(waits, [50, 90])
        yield [
            kind.name,
            len(waits),
            round(statistics.fmean(waits), 2),
            round(float(p50), 2),
            round(float(p90), 2),
            round(max(waits), 2),
            kind.kueue,
        ]


def verdict(found: Report) -> tuple[str, bool]:
    """One line about CPU, and whether it is within the limits."""
    cpu = np.array(found.cpu) * 1000
    each = np.array(list(found.total.values())) * 1000
    good = float(np.median(cpu)) <= MEDIAN_MS and float(np.percentile(cpu, 99)) <= P99_MS
    line = (
        f"{len(cpu)} decisions in {found.cycles} cycles, {found.preempted} preempted; CPU per decision: median "
        f"{np.median(cpu):.3f} ms, p99 {np.percentile(cpu, 99):.3f} ms, max {cpu.max():.1f} ms; a workload's "
        f"decisions together: median {np.median(each):.3f} ms, p99 {np.percentile(each, 99):.3f} ms; in all "
        f"{cpu.sum() / 1000:.1f} s"
    )
    return line, good


def growth(cohorts: int, queues: int, fair: bool) -> Iterator[tuple[str, float]]:
    """How many times as much CPU the whole replay takes with twice as many cohorts, queues per cohort, or workloads per
    queue: medians of three each.
    """
    base = _median_seconds(cohorts, queues, fair, 1)
    for name, args in (
        ("cohorts", (2 * cohorts, queues, fair, 1)),
        ("queues per cohort", (cohorts, 2 * queues, fair, 1)),
        ("workloads per queue", (cohorts, queues, fair, 2)),
    ):
        yield name, _median_seconds(*args) / base


def _median_seconds(cohorts: int, queues: int, fair: bool, times: int) -> float:
    def once() -> float:
        replay = Replay(cohorts, queues, fair, times)
        gc.collect()
        start = time.process_time()
        replay.run()
        return time.process_time() - start

    return statistics.median(once() for _ in range(3))


def main() -> int:
    """Print the tables; 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description="what quota costs, and how long workloads wait")
    parser.add_argument("--cohorts", type=int, default=10)
    parser.add_argument("--queues", type=int, default=100, help="queues per cohort")
    parser.add_argument("--fair", action="store_true", help="fair sharing")
    parser.add_argument("--growth", action="store_true", help="also with twice as many cohorts, queues and workloads")
    parser.add_argument("--joint", action="store_true", help="through the whole core, with nodes")
    parser.add_argument("--count", type=int, help="so many workloads: 50 for each queue")
    args = parser.parse_args()
    if args.count is not None:
        args.queues = max(1, round(args.count / 50 / args.cohorts))
    if args.joint:
        from tests.bench import quota_joint

        found = quota_joint.measure(args.cohorts, args.queues, args.fair, progress=True)
    else:
        found = measure(args.cohorts, args.queues, args.fair)
    print(f"{args.cohorts * args.queues} queues in {args.cohorts} cohorts, {found.workloads} workloads")
    print(table(["class", "admissions", "mean wait s", "p50 s", "p90 s", "max s", "Kueue's mean s"], list(rows(found))))
    print(
        f"all have run after {found.virtual:.1f} virtual seconds, {found.used:.1f} % of nominal quota used (Kueue: "
        f"{KUEUE_SECONDS:.0f} s, {KUEUE_USAGE} %; its figures include an API server and the pacing of the test)"
    )
    line, good = verdict(found)
    print(line)
    if args.joint:
        print(f"taking in what happens: {found.handled:.1f} s, {1000 * found.handled / found.workloads:.3f} ms per pod")
    print("outcomes:", ", ".join(f"{n} {s}" for s, n in sorted(found.statuses.items())))
    if args.growth and not args.joint:
        for name, times in growth(args.cohorts, args.queues, args.fair):
            good &= times <= GROWTH
            print(f"twice the {name}: {times:.2f} times the CPU")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
