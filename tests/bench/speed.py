"""How long a plan takes, on a warm snapshot: p50, p99 and peak memory. Run it to see the numbers.

    python -m tests.bench.speed [--repeat 30] [--only NAME ...] [--no-memory] [--cpu]

Limits hold for a machine on which the calibration kernel (filter and score of one pod over 5,000 nodes) takes 14 µs;
they are scaled by the time that it takes here. Memory is the peak of what one plan allocates beside the snapshot, found
in a run of its own, since looking for it takes time. With ``--cpu`` the time is that of the processor, for machines
that others use at the same time.
"""

from __future__ import annotations

import argparse
import gc
import math
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from gangsched.runtime.memory import raise_thresholds
from tests.bench.publish.tables import table
from tests.bench.worlds import World, cluster, launcher_and_workers
from tests.oracle.case import Case

KERNEL_SECONDS = 14e-6
#: Plans of one scenario are repeated for about so long at most.
LONGEST_SECONDS = 20.0


class Scenario(msgspec.Struct):
    """A cluster and what a plan in it may cost: milliseconds, or a multiple of another scenario's p50."""

    name: str
    make: Callable[[], Case]
    limit_ms: float | None = None
    times: float | None = None
    of: str = ""


def full(**more: Any) -> Case:
    """5,000 nodes with 64,000 victims and a gang of 1000, if not told otherwise."""
    given: dict[str, Any] = {"nodes": 5000, "pods": 64_000, "members": 1000, "gang_size": 32, **more}
    return cluster(**given)


SCENARIOS = [
    Scenario("gangs", full, limit_ms=60),
    Scenario("singles", lambda: full(gang_size=1), limit_ms=60),
    Scenario("mixed5", lambda: full(shapes=5), limit_ms=180),
    Scenario("together", lambda: full(rule="together"), limit_ms=400),
    Scenario("apart", lambda: full(rule="apart"), limit_ms=400),
    Scenario("spread", lambda: full(rule="spread"), limit_ms=400),
    Scenario("budgets", lambda: full(budgets=10)),
    Scenario("launcher", lambda: launcher_and_workers(cpu_nodes=60, gpu_nodes=30, workers=8), limit_ms=50),
    Scenario(
        "no plan", lambda: full(member=(60, 32), blocked=4500), times=1.0, of="gangs"
    ),
    Scenario("no plan, mixed5", lambda: full(shapes=5, member=(64, 32), blocked=4500),
             times=1.0, of="mixed5"),
    Scenario("twice", lambda: full(nodes=10_000, pods=128_000), times=2.3, of="gangs"),
    Scenario("singles, twice", lambda: full(nodes=10_000, pods=128_000, gang_size=1), times=2.3,
             of="singles"),
    Scenario("huge", lambda: full(nodes=50_000, pods=160_000, member=(54, 32)),
             limit_ms=400),
]  # fmt: skip


def kernel_seconds() -> float:
    """The time of the calibration kernel: the median of many runs.

    Filter three requested rows of an ``(8, 5000)`` matrix, score the share of CPU and memory that stays free, choose.
    """
    chance = np.random.default_rng(1)
    free = chance.integers(0, 64_000, (8, 5000)).astype(np.float64)
    inverse = 1.0 / chance.integers(64_000, 65_000, (8, 5000)).astype(np.float64)
    wanted = (1.0, 4000.0, 8000.0)
    mask, other = np.empty(5000, dtype=np.bool_), np.empty(5000, dtype=np.bool_)
    score, part = np.empty(5000), np.empty(5000)
    times = []
    for _ in range(2000):
        start = time.perf_counter()
        np.greater_equal(free[0], wanted[0], out=mask)
        for row in (1, 2):
            np.greater_equal(free[row], wanted[row], out=other)
            np.logical_and(mask, other, out=mask)
        np.subtract(free[1], wanted[1], out=score)
        np.multiply(score, inverse[1], out=score)
        np.subtract(free[2], wanted[2], out=part)
        np.multiply(part, inverse[2], out=part)
        np.add(score, part, out=score)
        np.logical_not(mask, out=other)
        np.copyto(score, -np.inf, where=other)
        score.argmax()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


class Measured(msgspec.Struct):
    """Milliseconds and mebibytes of one scenario, and what the plan was."""

    p50: float
    p99: float
    peak: float
    outcome: str
    victims: int
    stopped: bool


def measure(case: Case, repeat: int, memory: bool, clock: Callable[[], float] = time.perf_counter) -> Measured:
    """Plan again and again in the same world; the first time only warms it, unless it takes very long."""
    world = World(case)
    start = clock()
    verdict = world.decide()
    first = clock() - start
    repeat = max(1, min(repeat, int(LONGEST_SECONDS / first)))
    # As a running scheduler does once its caches are filled, so that what is timed is the plan.
    restore = raise_thresholds()
    gc.collect()
    gc.freeze()
    times = []
    for _ in range(repeat):
        start = clock()
        world.decide()
        times.append(1e3 * (clock() - start))
    gc.unfreeze()
    restore()
    peak = math.nan
    if memory:
        tracemalloc.start()
        world.decide()
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
    times.sort()
    stopped = any(d.stopped for d in verdict.decisions)
    late = times[max(0, math.ceil(0.99 * len(times)) - 1)]
    return Measured(times[len(times) // 2], late, peak, verdict.outcome, len(verdict.victims), stopped)


def limit(scenario: Scenario, done: dict[str, Measured], scale: float) -> float | None:
    """Milliseconds allowed here; None when what it is compared with was not measured."""
    if scenario.limit_ms is not None:
        return scenario.limit_ms * scale
    if scenario.times is not None and scenario.of in done:
        return scenario.times * done[scenario.of].p50
    return None


def main(arguments: list[str] | None = None) -> int:
    """Run it; 1 when a limit is exceeded by the median."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=30, help="plans per scenario (default 30)")
    parser.add_argument(
        "--only", nargs="*", default=[], help="names of scenarios: " + ", ".join(s.name for s in SCENARIOS)
    )
    parser.add_argument("--cpu", action="store_true", help="time of the processor instead of time that passes")
    parser.add_argument("--memory", action=argparse.BooleanOptionalAction, default=True)
    given = parser.parse_args(arguments)
    scale = kernel_seconds() / KERNEL_SECONDS
    done: dict[str, Measured] = {}
    rows: list[list[object]] = []
    over = []
    for scenario in SCENARIOS:
        if given.only and scenario.name not in given.only:
            continue
        clock = time.thread_time if given.cpu else time.perf_counter
        found = done[scenario.name] = measure(scenario.make(), given.repeat, given.memory, clock)
        allowed = limit(scenario, done, scale)
        late = allowed is not None and found.p50 > allowed
        if late:
            over.append(f"{scenario.name}: {found.p50:.1f} ms, allowed {allowed or 0.0:.1f} ms")
        rows.append([scenario.name, found.outcome, found.victims, f"{found.p50:.1f}", f"{found.p99:.1f}",
                     "-" if allowed is None else f"{allowed:.1f}", "-" if allowed is None else "NOT" if late else "ok",
                     f"{found.peak:.1f}", "yes" if found.stopped else ""])  # fmt: skip
        print(f"  {scenario.name}: {found.p50:.1f} ms", file=sys.stderr)
    scale_again = kernel_seconds() / KERNEL_SECONDS
    header = ["scenario", "outcome", "victims", "p50 ms", "p99 ms", "limit ms", "met", "peak MiB", "cut short"]
    print(table(header, rows))
    before, after = (1e6 * KERNEL_SECONDS * s for s in (scale, scale_again))
    print(f"calibration kernel {before:.1f} µs before, {after:.1f} µs after (limits: x {scale:.2f})")
    for text in over:
        print(f"NOT MET: {text}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
