"""Gangs that announce members, in random clusters in which everything happens at any moment."""

from __future__ import annotations

import random

import pytest

from gangsched.model.constraints import PodShape
from gangsched.model.dialects import volcano
from gangsched.model.records import Announced
from tests.amounts import amount
from tests.builders import GangBuilder, gang, node, pod
from tests.core.harness import Cluster, kept

FAMILY = volcano.FAMILY


def group(name: str, chance: random.Random) -> GangBuilder:
    """One member announces a sum, or workers of one shape."""
    made = gang(name).family(FAMILY).min(1)
    if chance.random() < 0.5:
        return made.field(min_resources=(("cpu", chance.choice([2000, 5000, 7000])),))
    cpu = chance.choice([1000, 3000])
    shape = PodShape(requests=(("cpu", cpu),), scored=(("cpu", cpu), ("memory", 0)))
    return made.field(announced=(Announced("worker", chance.randint(1, 4), shape),))


def something(cluster: Cluster, step: int, chance: random.Random) -> None:
    """A group comes, or a worker of one, or a single pod; a pod goes; the process restarts; time passes."""
    first = [p for p in cluster.pods.values() if p.name.endswith("-m")]
    there = sorted(p.name for p in cluster.pods.values() if p.node)
    what = chance.random()
    if what < 0.35:
        name = f"g{step}"
        leader = pod(f"{name}-m").cpu(chance.choice([0.5, 1])).priority(chance.choice([2, 5, 9])).gang(name, FAMILY)
        cluster.show(group(name, chance), leader)
    elif what < 0.6 and first:
        of = chance.choice(first)
        worker = pod(f"w{step}").cpu(chance.choice([1, 3])).priority(of.priority).gang(of.gang.name, FAMILY)
        cluster.show(worker.hint(volcano.TASK, "worker"))
    elif what < 0.7:
        cluster.show(pod(f"s{step}").cpu(chance.choice([1, 2])).priority(chance.choice([1, 5, 9])))
    elif what < 0.8 and there:
        cluster.delete(chance.choice(there))
    elif what < 0.88:
        cluster.restart()
    elif what < 0.95:
        cluster.pass_time(chance.choice([10, 100, 650]))


@pytest.mark.parametrize("seed", range(amount(16, 6)))
def test_no_node_is_filled_beyond_its_room_and_nothing_is_held_for_ever(seed: int) -> None:
    """Whatever happens; once nothing more does, room is held only for gangs that are still being started."""
    chance = random.Random(seed)
    nodes = {f"n{i}": chance.choice([2, 4, 8]) for i in range(chance.randint(2, 5))}
    cluster = Cluster(*(node(name).cpu(cores) for name, cores in nodes.items()))
    for i in range(chance.randint(0, 6)):
        victim = pod(f"v{i}").cpu(chance.choice([1, 2])).priority(chance.choice([0, 1, 7]))
        cluster.show(victim.on(chance.choice(sorted(nodes))))
    for step in range(chance.randint(5, 14)):
        something(cluster, step, chance)
        if chance.random() < 0.7:
            cluster.run()
        if chance.random() < 0.5:
            cluster.leave()
    for _ in range(12):
        cluster.pass_time(700)
        cluster.leave()
        cluster.run()
    cluster.pass_time(700)
    for name, cores in nodes.items():
        pods = [p for p in cluster.pods.values() if p.node == name]
        used = {p.name: dict(p.shape.requests)["cpu"] for p in pods}
        placed_by_hand = sum(units for of, units in used.items() if of.startswith("v"))
        assert sum(used.values()) <= max(cores * 1000, placed_by_hand)
    held = {holder.partition("#")[0] for holder in kept(cluster) if holder.endswith(" announced")}
    assert held <= cluster.core.states().keys()
