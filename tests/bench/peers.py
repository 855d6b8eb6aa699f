"""The shapes by which other schedulers measure gang preemption: time to plan, and victims. Run it to see the numbers.

    python -m tests.bench.peers [--repeat 5] [--only NAME ...] [--cpu]

kube-scheduler's ``workload_preemption`` suite (100 nodes of 4 CPU), Kueue and KAI sized clusters of 1000 and 500
nodes. All gangs of a shape are decided in queue order on a snapshot that the earlier decisions leave, as one run; the
time is the sum, and *first* is the time until the first plan is known. Victims that any plan must take are in the
column *at least*. With ``--cpu`` the time is that of the processor, for machines that others use at the same time.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence

import msgspec

from gangsched.core.decision import Verdict
from gangsched.core.forecast import _leave, _queue_order
from gangsched.core.options import Options
from gangsched.core.planning.context import Question
from gangsched.model.constraints import IN, LabelSelector, PodTerm, Requirement, SpreadConstraint
from gangsched.model.records import Gang, Node, Pod
from tests.bench.publish.tables import table
from tests.bench.speed import kernel_seconds
from tests.bench.worlds import GI, World, pending, uniform
from tests.oracle.case import HOSTNAME, NOW, ZONE, Case, Maker
from tests.oracle.generate import SIGS


class Shape(msgspec.Struct):
    """A named case; ``gangs`` are to be decided and ``least`` pods must leave for them."""

    name: str
    make: Callable[[], Case]
    least: int


def _selector(key: str, value: str) -> LabelSelector:
    return LabelSelector((Requirement(key, IN, (value,)),))


def _victims(
    make: Maker, nodes: Sequence[Node], per_node: int, cpu_milli: int, gang_size: int
) -> tuple[list[Pod], list[Gang]]:
    """So many low-priority pods on every node; in gangs that lie side by side, or single."""
    shape = make.shape({"cpu": cpu_milli, "memory": GI // 8})
    names = [n.name for n in nodes for _ in range(per_node)]
    pods, gangs = [], []
    for first in range(0, len(names), gang_size):
        name = f"low{first:05d}"
        places = names[first : first + gang_size]
        pods += [
            make.pod(
                f"{name}-{i}",
                shape,
                gang=(SIGS, name) if gang_size > 1 else None,
                labels={"job": name},
                node=node,
                priority=1,
                started=NOW - 600 - first % 97,
            )
            for i, node in enumerate(places)
        ]
        if gang_size > 1:
            gangs.append(Gang(SIGS, "default", name, min_member=len(places)))
    return pods, gangs


def _evict(
    *,
    count: int,
    size: int,
    victim_gang: int,
    nodes: int = 100,
    per_node: int = 10,
    victim_milli: int = 390,
    member_milli: int = 3970,
    node_milli: int = 4000,
) -> Case:
    """``count`` gangs of ``size`` members, nodes full of victims in gangs of ``victim_gang`` (1: single pods)."""
    make = Maker()
    records = uniform(nodes, node_milli, make)
    pods, gangs = _victims(make, records, per_node, victim_milli, victim_gang)
    shape = make.shape({"cpu": member_milli, "memory": GI})
    for number in range(count):
        name = f"want{number:02d}"
        pods += pending(make, name, [shape] * size)
        gangs.append(Gang(SIGS, "default", name, min_member=size))
    return Case(records, pods, gangs, [], Options())


def _anchors() -> Case:
    """A gang of 100 that must run beside anchors, which stay: pods that cannot be evicted, one on every second node."""
    make = Maker()
    records = uniform(200, 4000, make)
    pods, gangs = _victims(make, records, 10, 390, 1)
    anchor = make.shape({"cpu": 10})
    pods += [
        make.pod(f"anchor{i:03d}", anchor, labels={"role": "anchor"}, node=n.name, priority=1000, started=NOW - 9)
        for i, n in enumerate(records)
        if i % 2 == 0
    ]
    term = PodTerm(HOSTNAME, _selector("role", "anchor"), ("default",))
    shape = make.shape({"cpu": 3970, "memory": GI}, affinity=(term,))
    pods += pending(make, "want00", [shape] * 100)
    gangs.append(Gang(SIGS, "default", "want00", min_member=100))
    return Case(records, pods, gangs, [], Options())


def _zones() -> Case:
    """Six gangs of 16, each spread evenly over three zones, on 96 nodes full of single pods."""
    make = Maker()
    records = uniform(99, 4000, make)
    pods, gangs = _victims(make, records, 10, 390, 1)
    for number in range(6):
        name = f"want{number:02d}"
        spread = SpreadConstraint(ZONE, 1, _selector("job", name), required=True)
        shape = make.shape({"cpu": 3970, "memory": GI}, spread=(spread,))
        pods += pending(make, name, [shape] * 16)
        gangs.append(Gang(SIGS, "default", name, min_member=16))
    return Case(records, pods, gangs, [], Options())


SHAPES = [
    Shape("100 nodes: 1 x 100 evicts 1000 pods", lambda: _evict(count=1, size=100, victim_gang=1), 1000),
    Shape("100 nodes: 10 x 10 evict 1000 pods", lambda: _evict(count=10, size=10, victim_gang=1), 1000),
    Shape("100 nodes: 1 x 100 evicts 5 gangs of 100",
          lambda: _evict(count=1, size=100, victim_gang=100, per_node=5, victim_milli=790), 500),
    Shape("100 nodes: 10 x 10 evict 50 gangs of 10",
          lambda: _evict(count=10, size=10, victim_gang=10, per_node=5, victim_milli=790), 500),
    Shape("200 nodes: 1 x 100 beside anchors", _anchors, 1000),
    Shape("99 nodes: 6 x 16 over three zones", _zones, 960),
    Shape("1000 nodes x 4 CPU: 10 x 100 (one pod of 4 CPU each)",
          lambda: _evict(count=10, size=100, victim_gang=1, nodes=1000, per_node=4, victim_milli=1000,
                         member_milli=4000), 4000),
    Shape("500 nodes, 2000 pods: 1 x 200",
          lambda: _evict(count=1, size=200, victim_gang=1, nodes=500, per_node=4, victim_milli=900,
                         member_milli=3000), 600),
]  # fmt: skip


class Run(msgspec.Struct):
    """One run through the queue: seconds of all decisions and of the first, counts."""

    total: float
    first: float
    victims: int
    placed: int
    outcomes: str
    stopped: bool


def run(case: Case, clock: Callable[[], float] = time.perf_counter) -> Run:
    """Decide every pending gang in queue order. The snapshot is built before the clock starts."""
    warm = World(case)
    start = clock()
    first = math.nan
    verdicts: list[Verdict] = []
    for _, gangs in _queue_order(warm.world):
        verdicts.append(warm.decider.decide(Question(gangs)))
        _leave(gangs, verdicts[-1], warm.decider)
        if len(verdicts) == 1:
            first = clock() - start
    total = clock() - start
    kinds = sorted({v.outcome for v in verdicts})
    return Run(
        total,
        first,
        sum(len(v.victims) for v in verdicts),
        sum(len(v.placements) for v in verdicts),
        ", ".join(f"{sum(v.outcome == k for v in verdicts)} {k}" for k in kinds),
        any(d.stopped for v in verdicts for d in v.decisions),
    )


def main(arguments: list[str] | None = None) -> int:
    """Run it; 1 when a gang found no plan or more was evicted than necessary."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=5, help="runs per shape; the median is printed (default 5)")
    parser.add_argument("--only", nargs="*", default=[], help="numbers of shapes, from 1")
    parser.add_argument("--cpu", action="store_true", help="time of the processor instead of time that passes")
    given = parser.parse_args(arguments)
    clock = time.thread_time if given.cpu else time.perf_counter
    rows: list[list[object]] = []
    wrong = []
    for number, shape in enumerate(SHAPES, 1):
        if given.only and str(number) not in given.only:
            continue
        runs = sorted((run(shape.make(), clock) for _ in range(given.repeat)), key=lambda r: r.total)
        middle = runs[len(runs) // 2]
        rows.append([number, shape.name, middle.outcomes, f"{1e3 * middle.first:.1f}", f"{1e3 * middle.total:.1f}",
                     middle.placed, middle.victims, shape.least, "yes" if middle.stopped else ""])  # fmt: skip
        if middle.victims != shape.least:
            wrong.append(f"{shape.name}: {middle.victims} victims, {shape.least} are enough ({middle.outcomes})")
    print(f"calibration kernel {1e6 * kernel_seconds():.1f} µs")
    print(table(["#", "shape", "decisions", "first ms", "all ms", "members", "victims", "at least", "cut short"], rows))
    for text in wrong:
        print(f"NOT MET: {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
