"""What a PodGroup with the basic policy costs: pods that each have one, beside pods that have none.

    python -m tests.bench.basic_groups [--count 10000] [--pairs 5]

Newer clusters make such a group for nearly every pod, so it should cost next to nothing. The pods fit on a tenth as
many nodes. Counted is the processor's time of the core, from the first list to the last binding, and while the bindings
are watched. What a plain pod does not have is a status of its group: what it takes to find out whether that has
changed, and to make it, is measured and also left out, and nobody writes it. Both kinds take turns, each first as often
as the other; the ratios are the medians of those of the pairs, for what else the machine does changes slowly.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Sequence
from statistics import median
from unittest import mock

from gangsched.cluster.sim import SimCluster, World
from gangsched.cluster.sim.arrival import arrivals
from gangsched.core.actions import Action, GangStatus
from gangsched.core.events import Event
from gangsched.core.lifecycle.group import Group
from gangsched.core.lifecycle.group_statuses import GroupStatuses
from gangsched.core.scheduler import Scheduler
from gangsched.model.dialects import upstream
from gangsched.model.records import Gang, GangId
from gangsched.runtime.loop import run_loop
from gangsched.runtime.memory import raise_thresholds
from tests.bench.publish.tables import table
from tests.bench.scale import Timed
from tests.bench.worlds import GI
from tests.oracle.case import NOW, Case, Maker

PODS_PER_NODE = 10


class WithoutStatus(Timed):
    """The core, whose status of groups nobody writes: that is work of the controllers."""

    def handle(self, events: Sequence[Event], now: float) -> list[Action]:
        """See :class:`gangsched.runtime.loop.Core`."""
        return [action for action in super().handle(events, now) if not isinstance(action, GangStatus)]

    def decide(self, now: float) -> list[Action]:
        """See :class:`gangsched.runtime.loop.Core`."""
        return [action for action in super().decide(now) if not isinstance(action, GangStatus)]


def scene(count: int, *, grouped: bool) -> Case:
    """So many pending pods that fit; ``grouped`` gives each a group of its own."""
    make = Maker()
    shape = make.shape({"cpu": 500, "memory": GI})
    nodes = [make.node(f"n{i:05d}", {"cpu": 8000, "memory": 64 * GI}) for i in range(-(-count // PODS_PER_NODE))]
    names = [f"p{i:06d}" for i in range(count)]
    pods = [make.pod(n, shape, gang=(upstream.FAMILY, f"g-{n}") if grouped else None) for n in names]
    gangs = (
        [Gang(upstream.FAMILY, "default", f"g-{n}", min_member=1, match_policy="only-waiting") for n in names]
        if grouped
        else []
    )
    return Case(nodes, pods, gangs, [])


def measure(count: int, *, grouped: bool) -> tuple[float, float]:
    """Seconds of the processor: of all, and of that for statuses. Raises :class:`ValueError` if a pod was not bound."""
    case = scene(count, grouped=grouped)
    gc.collect()
    core = WithoutStatus(Scheduler(case.options))
    world = World(arrivals(case.events()), start=NOW)
    update, of_statuses = GroupStatuses.update, 0.0

    def timed(statuses: GroupStatuses, gang: GangId, group_of: Callable[[GangId], Group | None]) -> None:
        nonlocal of_statuses
        start = time.thread_time()
        update(statuses, gang, group_of)
        of_statuses += time.thread_time() - start

    with mock.patch.object(GroupStatuses, "update", timed):
        run_loop(core, SimCluster(world, until_seconds=600.0))
    unbound = [p.name for p in world.store.pods.values() if not p.node]
    if unbound:
        raise ValueError(f"{len(unbound)} of {count} pods were not bound, {unbound[0]} among them")
    return sum(core.handled) + core.deciding, of_statuses


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="what a basic PodGroup for each pod costs")
    parser.add_argument("--count", type=int, default=10_000, help="pods (default 10000)")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each kind (default 5)")
    asked = parser.parse_args()
    restore = raise_thresholds()
    found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for number in range(asked.pairs):
        for grouped in (False, True) if number % 2 else (True, False):
            total, statuses = measure(asked.count, grouped=grouped)
            found[grouped].append((total, total - statuses))
    restore()
    rows = []
    for grouped, runs in found.items():
        cells = []
        for of_plain, of_these in zip(zip(*found[False], strict=True), zip(*runs, strict=True), strict=True):
            ratios = [these / plain for plain, these in zip(of_plain, of_these, strict=True)]
            cells += [f"{median(of_these):.2f}", f"{median(ratios):.2f}"]
        rows.append(["with basic groups" if grouped else "plain", *cells])
    print(table([f"{asked.count} pods", "CPU s", "ratio", "without statuses", "ratio"], rows))


if __name__ == "__main__":
    main()
