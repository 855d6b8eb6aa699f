"""How long it takes to place what fits, one decision after another. Run it to see the numbers.

    python -m tests.bench.placement [--count 300] [--cpu]

5,000 nodes with 50,000 pods, and a backlog of single pods, of gangs of 8, and of gangs of 1000; each is decided on the
state that the earlier ones leave. The same once more while 2,000 nominated members of others hold room. Only decisions
are timed, not what the world does with them. With ``--cpu`` the time is that of the processor, for machines that others
use at the same time.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable

from gangsched.core.decision import BIND
from gangsched.core.forecast import _leave
from gangsched.core.ledger.reservation import PlanReservation
from gangsched.core.options import Options
from gangsched.core.planning.context import Question
from gangsched.core.state.simulation import Phantom
from gangsched.model.records import Gang, GangId
from gangsched.runtime.memory import raise_thresholds
from tests.bench.publish.tables import table
from tests.bench.speed import KERNEL_SECONDS, kernel_seconds
from tests.bench.worlds import GI, World, cluster, pending
from tests.oracle.case import Case, Maker
from tests.oracle.generate import SIGS

#: Members of a gang, and the milliseconds that a decision may take where the kernel takes its normal time.
SIZES = ((1, 1.0), (8, 3.0), (1000, 60.0))
HELD = 2000


def backlog(count: int, size: int) -> tuple[Case, list[GangId]]:
    """So many gangs of this size on a cluster that has room for them."""
    full = cluster(nodes=5000, pods=50_000, members=1, gang_size=32, member=(2, 4))
    make = Maker()
    shape = make.shape({"cpu": 500, "memory": GI})
    pods, gangs, wanted = list(full.pods), list(full.gangs), []
    for number in range(count):
        name = f"job{number:05d}"
        if size == 1:
            pods.append(make.pod(name, shape, priority=5))
        else:
            pods += pending(make, name, [shape] * size, priority=5)
            gangs.append(Gang(SIGS, "default", name, min_member=size))
        wanted.append(pods[-1].gang)
    return Case(full.nodes, pods, gangs, [], Options()), wanted


def hold(world: World, gang: GangId, count: int) -> None:
    """Room for so many members like those of this gang is held for others, eight to a gang."""
    core, ledger = world.world, world.decider.ledger
    pod = next(iter(core.membership.members[gang].values()))
    kind = core.snapshot.class_of(pod)
    for n in range(count):
        group = f"held{n // 8:05d}"
        room = (*ledger.pods_of(group), Phantom(kind, f"held{n}", f"n{n % 5000:05d}"))
        ledger.hold(PlanReservation(group, room, 10**6))


def measure(count: int, size: int, held: int, clock: Callable[[], float]) -> list[float]:
    """Milliseconds of each decision, sorted."""
    case, gangs = backlog(count, size)
    world = World(case)
    if held:
        hold(world, gangs[0], held)
    world.decider.decide(Question(gangs[:1]))
    restore = raise_thresholds()
    gc.collect()
    gc.freeze()
    times = []
    for gang in gangs:
        start = clock()
        verdict = world.decider.decide(Question((gang,)))
        times.append(1e3 * (clock() - start))
        if verdict.outcome != BIND:
            raise ValueError(f"{gang.key}: {verdict.message}")
        _leave((gang,), verdict, world.decider)
    gc.unfreeze()
    restore()
    return sorted(times)


def main(arguments: list[str] | None = None) -> int:
    """Run it; 1 when a median is over its limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=300, help="decisions per row (default 300)")
    parser.add_argument("--cpu", action="store_true", help="time of the processor instead of time that passes")
    given = parser.parse_args(arguments)
    clock = time.thread_time if given.cpu else time.perf_counter
    scale = kernel_seconds() / KERNEL_SECONDS
    rows: list[list[object]] = []
    over = 0
    for held in (0, HELD):
        for size, limit in SIZES:
            count = max(1, min(given.count, 20_000 // size))
            times = measure(count, size, held, clock)
            middle, late = times[len(times) // 2], times[int(0.99 * (len(times) - 1))]
            # Room that is held is not in the promise: it is shown for what it adds.
            slow = not held and middle > limit * scale
            over += slow
            met = "-" if held else "NOT" if slow else "ok"
            rows.append([size, held, count, f"{middle:.2f}", f"{late:.2f}", f"{1e3 * size / middle:.0f}",
                         "-" if held else f"{limit * scale:.2f}", met])  # fmt: skip
    header = ["members", "held by others", "decisions", "p50 ms", "p99 ms", "pods/s", "limit ms", "met"]
    print(table(header, rows))
    print(f"calibration kernel {1e6 * KERNEL_SECONDS * scale:.1f} µs (limits: x {scale:.2f})")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
