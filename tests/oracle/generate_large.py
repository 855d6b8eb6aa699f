"""Random clusters of 50 to 200 nodes, filled by gangs and single pods, with a gang that needs a part of them."""

from __future__ import annotations

import random

from gangsched.core.options import Options
from gangsched.model.constraints import IN, LabelSelector, PodShape, Requirement
from gangsched.model.records import Budget, Gang, Node, Pod
from tests.oracle.case import NOW, Case, Maker
from tests.oracle.generate import PREEMPTOR_PRIORITY, SIGS, UPSTREAM

_GI = 1 << 30


def case(seed: int, *, mixed: bool) -> Case:
    """The case of a seed. ``mixed``: a launcher and workers of two shapes instead of identical members."""
    chance = random.Random(f"large/{seed}/{mixed}")
    make = Maker()
    nodes, free = _nodes(chance, make)
    shapes = [
        make.shape({"cpu": c * 1000, "memory": m * _GI}) for c, m in ((1, 2), (2, 4), (2, 8), (4, 8), (4, 16), (8, 32))
    ]
    pods: list[Pod] = []
    gangs: list[Gang] = []
    priorities = chance.choice(((0,), (0, 10), (0, 10, 50), (0, 10, 50, 200)))
    order = [n.name for n in nodes]
    misses = 0
    while misses < 12:
        number = len(gangs) + len(pods)
        shape, priority, app = chance.choice(shapes), chance.choice(priorities), f"app{chance.randrange(8)}"
        alone = chance.random() < 0.35
        count = 1 if alone else chance.choice((2, 4, 4, 8, 8, 16))
        places = _places(chance, order, free, shape, count)
        misses += len(places) < count
        started = NOW - chance.randint(1, 50_000)
        family = SIGS if chance.random() < 0.7 else UPSTREAM
        name = f"run{number:05d}"
        pods += [
            make.pod(
                name if alone else f"{name}-{i}",
                shape,
                gang=None if alone else (family, name),
                labels={"app": app},
                node=node,
                priority=priority,
                started=started,
                deleting_since=NOW + 5 if chance.random() < 0.01 else None,
            )
            for i, node in enumerate(places)
        ]
        if not alone and places:
            minimum = max(1, len(places) - chance.choice((0, 0, 1, len(places) // 2)))
            gangs.append(
                Gang(family, "default", name, min_member=minimum, disruption="gang" if family == UPSTREAM else None)
            )
    budgets = [
        Budget(
            "default", f"pdb{i}", LabelSelector((Requirement("app", IN, (f"app{i}",)),)), allowed=chance.randint(0, 20)
        )
        for i in range(chance.choice((0, 0, 2, 4)))
    ]
    _preemptor(chance, make, shapes, len(nodes), mixed, pods, gangs)
    title = f"{len(nodes)} nodes, {len(pods)} pods, {'mixed' if mixed else 'identical'} members"
    return Case(nodes, pods, gangs, budgets, Options(), title)


def _nodes(chance: random.Random, make: Maker) -> tuple[list[Node], dict[str, list[int]]]:
    kinds = chance.sample([(16, 64), (32, 128), (32, 96), (64, 256)], chance.choice((1, 2)))
    nodes = []
    for number in range(chance.randint(50, 200)):
        cpu, memory = chance.choice(kinds)
        nodes.append(make.node(f"n{number:03d}", {"cpu": cpu * 1000, "memory": memory * _GI}, zone=f"z{number % 3}"))
    return nodes, {n.name: [dict(n.allocatable)["cpu"], dict(n.allocatable)["memory"]] for n in nodes}


def _places(
    chance: random.Random, order: list[str], free: dict[str, list[int]], shape: PodShape, count: int
) -> list[str]:
    cpu, memory = dict(shape.requests)["cpu"], dict(shape.requests)["memory"]
    out: list[str] = []
    start = chance.randrange(len(order))
    for name in order[start:] + order[:start]:
        while len(out) < count and free[name][0] >= cpu and free[name][1] >= memory and chance.random() < 0.7:
            free[name][0] -= cpu
            free[name][1] -= memory
            out.append(name)
    return out


def _preemptor(
    chance: random.Random,
    make: Maker,
    shapes: list[PodShape],
    size: int,
    mixed: bool,
    pods: list[Pod],
    gangs: list[Gang],
) -> None:
    worker = chance.choice(shapes[3:])
    launcher = chance.choice(shapes[1:]) if mixed else worker
    count = max(4, int(size * chance.uniform(0.1, 0.6)))
    for number in range(count):
        shape = launcher if number < count // 4 else worker
        pods.append(
            make.pod(
                f"want-{number:04d}", shape, gang=(SIGS, "want"), labels={"job": "want"}, priority=PREEMPTOR_PRIORITY
            )
        )
    gangs.append(Gang(SIGS, "default", "want", min_member=count))
