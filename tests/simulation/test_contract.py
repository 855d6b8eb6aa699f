"""What is promised about evictions holds in clusters that nobody has thought of."""

from __future__ import annotations

import random
import re
from collections import defaultdict

import pytest

from gangsched.core.options import Options
from gangsched.model.queues import ANY, QUEUE_LABEL
from tests.builders import OTHERS, gang, node, pod
from tests.core.harness import Built
from tests.core.queues import objects
from tests.core.quota.world import queue
from tests.simulation.loops import HOUR, Loop

SEEDS = range(60)
#: Rounds of evictions in an hour that do not lead to a binding, with pauses of 30 s, 1, 2, 4, 8, 16 and 30 minutes.
ROUNDS = 7
#: Evictions of a unit in an hour by those that are not stronger in both orders: after three it is protected for 30 min.
EVICTIONS = Options().protect_after_evictions + 1

_EVICTED = re.compile(r"Preempted by gang (\S+) \(priority (-?\d+),")
_PLAN = re.compile(r"for gang (\S+) \(plan (\S+)\)")


def a_cluster(seed: int) -> tuple[Loop, dict[str, tuple[int, int]]]:
    """Too few nodes for workloads of one or two pods that come one after another and are always brought back; some are
    in queues that may take quota back, some another scheduler's, which takes room sooner or later. Also the priority
    and the size of each.
    """
    rng = random.Random(seed)
    nodes = [node(f"n{i}").cpu(4) for i in range(rng.choice([1, 1, 2]))]
    quota = objects(*(queue(name, "co", cpu=rng.choice([0, 4 * len(nodes)]), reclaim=ANY) for name in "ab"))
    found: list[Built] = [*nodes, *quota]
    later: list[tuple[float, Built]] = []
    priorities = [10, 500, 5000]
    rng.shuffle(priorities)
    workloads = {}
    for number, local in enumerate(rng.choice([["q-a", "q-b", ""], ["q-a", "q-b", ""], ["", ""]])):
        size, at = rng.randint(1, len(nodes)), rng.uniform(0, 300)
        workloads[f"w{number}"] = priorities[number], size
        theirs = not local and rng.random() < 0.5
        if size > 1:
            found.append(gang(f"w{number}").min(size))
        for index in range(size):
            made = pod(f"w{number}-m{index}").cpu(4).priority(priorities[number]).owner("ReplicaSet", f"w{number}")
            made = made.field(grace_seconds=rng.choice([1.0, 3.0, 10.0, 30.0]))
            made = made.labels({QUEUE_LABEL: local} if local else {})
            made = made.gang(f"w{number}") if size > 1 else made
            later.append((at, made.scheduler(OTHERS) if theirs else made))
    return Loop(*found, later=later, steals_after=rng.choice([0.0, 0.02, 1.0])), workloads


def in_an_hour(times: list[float]) -> int:
    """The most of them in any hour."""
    return max((sum(start <= at < start + HOUR for at in times) for start in times), default=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_evictions_come_to_rest(seed: int) -> None:
    """No gang makes more than seven rounds in an hour without being bound; nobody is evicted more than four times in
    an hour by those that are not stronger in both orders.
    """
    loop, workloads = a_cluster(seed)
    loop.run(3 * HOUR)
    rounds: dict[str, dict[str, float]] = defaultdict(dict)
    evicted: dict[str, list[float]] = defaultdict(list)
    for at, event in loop.core.events:
        name = event.regarding[3]
        if event.reason == "Scheduled":
            rounds.pop(f"d/{name.partition('-')[0]}", None)
            rounds.pop(f"d/{name}", None)
        elif (plan := _PLAN.search(event.note)) is not None and event.reason == "Preempted":
            rounds[plan[1]].setdefault(plan[2], at)
            assert in_an_hour(list(rounds[plan[1]].values())) <= ROUNDS
        elif (by := _EVICTED.match(event.note)) is not None:
            unit = name.partition("-")[0]
            if int(by[2]) <= workloads[unit][0]:
                evicted[unit].append(at)
    for unit, times in evicted.items():
        assert in_an_hour(times) <= EVICTIONS * workloads[unit][1], unit
