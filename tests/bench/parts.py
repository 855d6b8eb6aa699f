"""Gangs made of parts in a cluster of racks that is nearly full: how long a decision takes, and its victims.

    python -m tests.bench.parts [--count 20] [--racks 64] [--nodes 18]

Every rack has equal nodes of 8 GPUs. Pods of 1, 2, 4 or 8 GPUs and of 5 priorities run on them, and some racks are
emptier than others. The gang has four parts of sixteen members. A member takes a node, and a part is in one rack. The
kinds: parts of 16 members, parts in pairs that are in one of 8 spines, parts of 17, 16, 15 and 14 members, and parts of
16 members with gangs of four pods among the victims.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time

from gangsched.core.decision import Decision
from gangsched.core.planning.context import Question
from gangsched.core.scheduler import Scheduler
from gangsched.model.records import GangId, Part
from tests.bench.publish.tables import table
from tests.builders import OURS, gang, node, pod
from tests.core.harness import Built, world

FAMILY, SUBGROUP = "scheduling.run.ai", "kai.scheduler/subgroup-name"
KINDS = ("equal", "nested", "unequal", "gangs as victims")
SPINES = 8


def cluster(kind: str, seed: int, racks: int, nodes: int) -> list[Built]:
    """The nodes and what runs on them."""
    chance, out, alone = random.Random(seed), list[Built](), kind != "gangs as victims"
    for rack in range(racks):
        load = chance.uniform(0.5, 1.0)
        for n in range(nodes):
            name = f"r{rack:02}-{n:02}"
            out.append(node(name).cpu(64).gpu(8).label(rack=f"r{rack:02}", spine=f"s{rack % SPINES}"))
            if chance.random() < load:
                size, priority = chance.choice((1, 2, 4, 8)), chance.randrange(5)
                for i in range(8 // size if chance.random() < 0.3 else 1):
                    made = pod(f"v-{name}-{i}").cpu(1).gpu(size).on(name).priority(priority)
                    out.append(made if alone or n % 2 else made.gang(f"of-{rack:02}-{n // 8}"))
        out += [] if alone else [gang(f"of-{rack:02}-{n}").min(4) for n in range(1 + nodes // 8)]
    return out


def wanted(kind: str) -> list[Built]:
    """The gang of four parts."""
    sizes = (17, 16, 15, 14) if kind == "unequal" else (16, 16, 16, 16)
    parts = tuple(Part(f"p{n}", size, topology=(("rack", True),)) for n, size in enumerate(sizes))
    if kind == "nested":
        pairs = parts[:2], parts[2:]
        parts = tuple(Part(f"x{n}", least=2, parts=pair, topology=(("spine", True),)) for n, pair in enumerate(pairs))
    members = [
        pod(f"p{n}-{i}").cpu(1).gpu(8).gang("want", FAMILY).labels({SUBGROUP: f"p{n}"}).priority(100)
        for n, size in enumerate(sizes)
        for i in range(size)
    ]
    return [gang("want").family(FAMILY).min(1).field(parts=Part(least=len(parts), parts=parts)), *members]


def decided(core: Scheduler) -> Decision:
    """The decision for the gang, from scratch."""
    core.decider.begin()
    return core.decider.decide(Question((GangId(FAMILY, "d", "want", OURS),))).first


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="how long decisions about parts take")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--racks", type=int, default=64)
    parser.add_argument("--nodes", type=int, default=18)
    asked = parser.parse_args()
    rows = []
    for kind in KINDS:
        times, victims, proven = list[float](), list[int](), 0
        for seed in range(asked.count):
            core = world(*cluster(kind, seed, asked.racks, asked.nodes), *wanted(kind), wait_for_leadership=True)
            decided(core)
            gc.collect()
            began = time.process_time()
            found = decided(core)
            times.append((time.process_time() - began) * 1000)
            victims.append(len(found.victims))
            proven += bool(found.optimal)
        median, worst = statistics.median(times), max(times)
        rows.append(
            [kind, f"{median:.0f}", f"{worst:.0f}", statistics.median(victims), max(victims), proven, asked.count]
        )
    print(table(["parts", "median ms", "worst ms", "victims", "at most", "proven", "of"], rows))


if __name__ == "__main__":
    main()
