"""Equal gangs that do not fit, and room that is freed bit by bit: how many decisions that takes, and how much CPU.

    python -m tests.bench.equal_gangs [--count 1000]

Twenty nodes are full. The gangs are all alike; then the pods that run leave one after another, and each time one of the
gangs gets the room. The kinds: single pods, gangs of two equal members, gangs of two different members, and pods that
have room on nodes and lack quota.
"""

from __future__ import annotations

import argparse
import gc
import time
from unittest import mock

from gangsched.core.decision import Verdict
from gangsched.core.planning.context import Question
from gangsched.core.planning.cycle import Decider
from tests.bench.publish.tables import table
from tests.builders import gang, node, pod
from tests.core.harness import Built, Cluster
from tests.core.queues import big, objects, queued
from tests.core.quota.world import queue

#: Nodes, each with one pod that leaves, and the seconds between two that do.
LEAVING, PAUSE = 20, 11.0
KINDS = {"pods": (2.0,), "gangs": (1.0, 1.0), "mixed gangs": (1.0, 0.5), "pods with a queue": (2.0,)}


def world(kind: str, count: int) -> Cluster:
    """The cluster, in which nothing has been decided yet."""
    managed = kind == "pods with a queue"
    there: list[Built] = [*objects(queue("a", cpu=2.0 * LEAVING)), big()] if managed else []
    for i in range(LEAVING):
        running = queued(f"old{i}", "a", 2).on("n1") if managed else pod(f"old{i}").cpu(2).on(f"n{i}")
        there += [running] if managed else [node(f"n{i}").cpu(2), running]
    for i in range(count):
        name, sizes = f"g{i:05}", KINDS[kind]
        made = [queued(name, "a", 2)] if managed else [pod(f"{name}-{j}").cpu(cpu) for j, cpu in enumerate(sizes)]
        if len(made) > 1:
            there.append(gang(name).min(len(made)).created(float(i)))
            made = [each.gang(name) for each in made]
        there += [each.created(float(i)) for each in made]
    return Cluster(*there)


def measure(kind: str, count: int) -> list[object]:
    """A row: decisions and CPU (milliseconds) until all wait, and while the pods leave."""
    decide, asked = Decider.decide, list[str]()

    def noted(decider: Decider, question: Question) -> Verdict:
        asked.append(question.gangs[0].name)
        return decide(decider, question)

    row: list[object] = [kind, count]
    with mock.patch.object(Decider, "decide", noted):
        cluster = world(kind, count)
        for leaving in ((), range(LEAVING)):
            gc.collect()
            asked.clear()
            start = time.process_time()
            cluster.run(10 * count)
            for i in leaving:
                cluster.delete(f"old{i}")
                cluster.run(10 * count)
                cluster.pass_time(PAUSE)
            row += [len(asked), round((time.process_time() - start) * 1000)]
            cluster.pass_time(2 * PAUSE)
    return row


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="how many decisions equal gangs take")
    parser.add_argument("--count", type=int, default=1000)
    count = parser.parse_args().count
    columns = ["kind", "gangs", "decisions at first", "CPU ms", f"decisions while {LEAVING} leave", "CPU ms"]
    print(table(columns, [measure(kind, count) for kind in KINDS]))


if __name__ == "__main__":
    main()
