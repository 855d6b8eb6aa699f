"""A thousand queues and fifty thousand workloads on a virtual clock: what quota costs, and how long workloads wait.

    python -m tests.bench.quota [--cohorts 10] [--queues 100] [--fair] [--growth]

The mix is that of Kueue's large-scale performance test: per queue (nominal 20 CPU, borrowing limit 100) 35 small, 11
medium and 4 large workloads of one pod, created at fixed intervals, each running for a fixed time once admitted. Here
time is virtual: a cycle takes none, a displaced workload frees its quota at once and keeps its place in the queue. CPU
time is real: what flavors, victims and the cycle cost is measured for each decision.
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
    """What a replay came to. Times in seconds, ``cpu`` per decision."""

    workloads: int = 0
    virtual: float = 0.0
    cycles: int = 0
    preempted: int = 0
    used: float = 0.0
    cpu: list[float] = []
    total: dict[str, float] = {}
    waits: dict[str, list[float]] = {}
    statuses: dict[str, int] = {}

    @property
    def cpu_seconds(self) -> float:
        """CPU of all decisions."""
        return sum(self.cpu)


class Replay:
    """The virtual cluster: quota, queues, and what happens when."""

    def __init__(self, cohorts: int, queues: int, fair: bool = False) -> None:
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
        quotas = (FlavorQuota("default", (("cpu", Limits(NOMINAL, LIMIT)),)),)
        self.quota.put(
            ClusterQueue(
                name=name,
                cohort=cohort,
                groups=(ResourceGroup(("cpu",), quotas),),
                namespaces=LabelSelector(),
                preemption=QueuePreemption(within=LOWER, reclaim=ANY),
            )
        )
        for kind in KINDS:
            pods = (PodSet("main", 1, PodShape(requests=(("cpu", kind.cpu * 1000),))),)
            for i in range(kind.count):
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
        roots = {self.quota.tree.queues[name].root for name in freed}
        for root in sorted(roots, key=lambda n: n.name):
            self.pending.wake(self.below[root])

    def _leave(self, uid: str) -> str:
        """A workload's quota is free again; its queue."""
        self.quota.release(uid)
        del self.ends[uid]
        self.in_use -= self.kind_of[uid].cpu * 1000
        return self.workloads[uid].queue

    def _wake(self, queue: str) -> None:
        self.pending.wake(self.below[self.quota.tree.queues[queue].root])

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
            self._wake(self._leave(victim.uid))
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
        yield [
            kind.name,
            len(waits),
            round(statistics.fmean(waits), 2),
            round(float(np.percentile(waits, 99)), 2),
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


def main() -> int:
    """Print the tables; 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description="what quota costs, and how long workloads wait")
    parser.add_argument("--cohorts", type=int, default=10)
    parser.add_argument("--queues", type=int, default=100, help="queues per cohort")
    parser.add_argument("--fair", action="store_true", help="fair sharing")
    parser.add_argument("--growth", action="store_true", help="also with twice as many cohorts, and queues per cohort")
    args = parser.parse_args()
    found = measure(args.cohorts, args.queues, args.fair)
    print(f"{args.cohorts * args.queues} queues in {args.cohorts} cohorts, {found.workloads} workloads")
    print(table(["class", "workloads", "mean wait s", "p99 s", "Kueue's mean s"], list(rows(found))))
    print(
        f"all have run after {found.virtual:.1f} virtual seconds, {found.used:.1f} % of nominal quota used (Kueue: "
        f"{KUEUE_SECONDS:.0f} s, {KUEUE_USAGE} %; its figures include an API server and the pacing of the test)"
    )
    line, good = verdict(found)
    print(line)
    print("outcomes:", ", ".join(f"{n} {s}" for s, n in sorted(found.statuses.items())))
    if args.growth:
        for cohorts, queues in ((2 * args.cohorts, args.queues), (args.cohorts, 2 * args.queues)):
            twice = measure(cohorts, queues, args.fair)
            times = twice.cpu_seconds / found.cpu_seconds
            good &= times <= GROWTH
            print(f"{cohorts} cohorts of {queues} queues: {twice.cpu_seconds:.1f} s of CPU, {times:.2f} times as much")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
