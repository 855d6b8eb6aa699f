"""A thousand queues and fifty thousand workloads on a virtual clock: what quota costs, and how long workloads wait.

    python -m tests.bench.quota [--cohorts 10] [--queues 100] [--fair] [--growth] [--count N]

The mix is that of Kueue's large-scale performance test: per queue (nominal 20 CPU, borrowing limit 100) 35 small, 11
medium and 4 large workloads of one pod, created at fixed intervals, each running for a fixed time once admitted. It
goes through the whole scheduler core (:mod:`tests.bench.quota_replay`). Time is virtual: a decision takes none, a
displaced workload frees its quota at once and keeps its place in the queue. CPU time is real, and told twice: per
decision, and per workload, for which all decisions about it are added up (while it waits, when it is admitted, and
again after each time it was displaced). The limits hold for both. ``--count`` is how many workloads; there are queues
for them.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Iterator

import numpy as np

from tests.bench.publish.tables import table
from tests.bench.quota_replay import KINDS, KUEUE_SECONDS, KUEUE_USAGE, Cluster, Report, measure

#: Of decisions, and of workloads with all decisions about each: the median and the 99th percentile, milliseconds; and
#: what twice as many of everything may cost.
MEDIAN_MS, P99_MS, GROWTH = 0.5, 5.0, 2.3


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


def costs(found: Report) -> tuple[list[list[object]], bool]:
    """The table of CPU times (milliseconds), and whether all are within the limits."""
    out: list[list[object]] = []
    good = True
    for what, seconds in (("decision", found.cpu), ("workload", list(found.total.values()))):
        times = np.array(seconds) * 1000
        median, p99 = np.percentile(times, [50, 99]).tolist()
        good &= median <= MEDIAN_MS and p99 <= P99_MS
        out.append([what, len(times), round(median, 3), round(p99, 3), round(float(times.max()), 1)])
    return out, good


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
        cluster = Cluster(cohorts, queues, fair, times)
        gc.collect()
        start = time.process_time()
        cluster.run()
        return time.process_time() - start

    return statistics.median(once() for _ in range(3))


def main() -> int:
    """Print the tables; 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description="what quota costs, and how long workloads wait")
    parser.add_argument("--cohorts", type=int, default=10)
    parser.add_argument("--queues", type=int, default=100, help="queues per cohort")
    parser.add_argument("--fair", action="store_true", help="fair sharing")
    parser.add_argument("--growth", action="store_true", help="also with twice as many cohorts, queues and workloads")
    parser.add_argument("--count", type=int, help="so many workloads: 50 for each queue")
    args = parser.parse_args()
    if args.count is not None:
        args.queues = max(1, round(args.count / 50 / args.cohorts))
    found = measure(args.cohorts, args.queues, args.fair, progress=True)
    print(f"{args.cohorts * args.queues} queues in {args.cohorts} cohorts, {found.workloads} workloads")
    print(table(["class", "admissions", "mean wait s", "p50 s", "p90 s", "max s", "Kueue's mean s"], list(rows(found))))
    print(
        f"all have run after {found.virtual:.1f} virtual seconds, {found.used:.1f} % of nominal quota used (Kueue: "
        f"{KUEUE_SECONDS:.0f} s, {KUEUE_USAGE} %; its figures include an API server and the pacing of the test)"
    )
    spent, good = costs(found)
    print(table(["CPU per", "how many", "median ms", "p99 ms", "max ms"], spent))
    print(
        f"limits for both: median {MEDIAN_MS} ms, p99 {P99_MS} ms; {found.cpu_seconds:.1f} s for all decisions at "
        f"{found.moments} moments, {found.preempted} preempted"
    )
    print(f"taking in what happens: {found.handled:.1f} s, {1000 * found.handled / found.workloads:.3f} ms per pod")
    print("outcomes:", ", ".join(f"{n} {s}" for s, n in sorted(found.statuses.items())))
    if args.growth:
        for name, times in growth(args.cohorts, args.queues, args.fair):
            good &= times <= GROWTH
            print(f"twice the {name}: {times:.2f} times the CPU")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
