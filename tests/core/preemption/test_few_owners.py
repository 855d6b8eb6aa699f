"""Where choices of victims are equal in what counts more, those of fewer owners leave."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from gangsched.core.preemption.harm import Budgets, Loss, harm
from gangsched.model.records import Stakes
from tests.builders import PodBuilder, gang, node, pod
from tests.core.harness import Built, plan


def of_job(job: str, number: int, on: str, started: float = 0.0) -> PodBuilder:
    """A running pod of a Job that is no gang."""
    made = pod(f"{job}-{number}").cpu(1).owner("Job", job).scheduler("default-scheduler")
    return made.on(on, started=started).priority(1)


def asking(size: int) -> list[Built]:
    """A gang of so many pods that takes a node each."""
    return [gang("g").min(size), *(pod(f"g-{i}").cpu(1).gang("g").priority(10) for i in range(size))]


def owners(cluster: list[Built], size: int, **options: int) -> Counter[str]:
    """How many victims each owner has, once the gang fits."""
    found = plan(*cluster, *asking(size), now=1000.0, **options)["d/g"]
    assert found.outcome == "preempt"
    assert len(found.victims) == size
    return Counter(v.name.rpartition("-")[0] for v in found.victims)


def test_two_pods_of_one_job_before_one_of_each():
    """The younger pod of each Job would lose less work, and both Jobs would stand still."""
    nodes = [node(f"n{i}").cpu(1) for i in range(4)]
    young = {"a-1", "b-1"}
    pods = [
        of_job(j, i, f"n{2 * n + i}", 900.0 if f"{j}-{i}" in young else 0.0) for n, j in enumerate("ab") for i in (0, 1)
    ]
    assert set(owners([*nodes, *pods], 2).values()) == {2}


def test_surplus_of_one_gang_before_that_of_two():
    """Two gangs can do without two members each: one of them gives both."""
    nodes = [node(f"n{i}").cpu(1) for i in range(6)]
    running = [
        pod(f"{name}-{i}").cpu(1).gang(name).priority(1).on(f"n{3 * n + i}", started=100.0 * i)
        for n, name in enumerate("ab")
        for i in range(3)
    ]
    assert set(owners([*nodes, gang("a").min(1), gang("b").min(1), *running], 2).values()) == {2}


def test_priority_and_the_number_of_pods_count_before_owners():
    """A pod of a higher priority stays, however many owners that costs."""
    nodes = [node(f"n{i}").cpu(1) for i in range(4)]
    high = [of_job("high", i, f"n{i}").priority(2) for i in range(2)]
    found = owners([*nodes, *high, of_job("a", 0, "n2"), of_job("b", 0, "n3")], 2)
    assert found == {"a": 1, "b": 1}


def test_costs_count_before_owners():
    """What owners say of their pods decides before how many owners lose some."""
    nodes = [node(f"n{i}").cpu(1) for i in range(4)]
    dear = [of_job("dear", i, f"n{i}").field(stakes=Stakes(cost=5)) for i in range(2)]
    found = owners([*nodes, *dear, of_job("a", 0, "n2"), of_job("b", 0, "n3")], 2)
    assert found == {"a": 1, "b": 1}


@pytest.mark.parametrize("seed", range(6))
def test_many_jobs(seed: int):
    """Of hundreds of pods in Jobs of two, as many leave in pairs as there can be, whatever their ages are."""
    chance = Random(seed)
    nodes = [node(f"n{i}").cpu(1) for i in range(200)]
    places = [f"n{i}" for i in range(200)]
    chance.shuffle(places)
    pods = [of_job(f"j{i // 2}", i % 2, places[i], float(chance.randint(0, 900))) for i in range(200)]
    assert len(owners([*nodes, *pods], 20)) == 10


def test_jobs_of_several_sizes():
    """A large Job gives all that is needed where it can, rather than many small ones."""
    nodes = [node(f"n{i}").cpu(1) for i in range(90)]
    small = [of_job(f"s{i}", 0, f"n{i}", 900.0) for i in range(60)]
    large = [of_job("large", i, f"n{60 + i}") for i in range(30)]
    assert owners([*nodes, *small, *large], 12) == {"large": 12}


def test_whose_pods_are():
    """Owners are gangs, controllers, and pods without either."""
    budgets = Budgets(())
    pods = [
        pod("a").gang("g").owner("Job", "x").obj(),
        pod("b").gang("g").owner("Job", "y").obj(),
        pod("c").owner("Job", "x").obj(),
        pod("d").owner("Job", "x").obj(),
        pod("e").obj(),
    ]
    found = [harm([Loss(p, 0) for p in pods[:n]], (), budgets, {}, 0.0).owners for n in range(6)]
    assert found == [0, 1, 1, 2, 2, 3]
