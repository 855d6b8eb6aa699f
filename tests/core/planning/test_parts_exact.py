"""Parts in small random clusters, beside every assignment of parts to domains and every choice of nodes and victims."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import NamedTuple

import pytest

from gangsched.core.decision import Decision
from gangsched.model.records import Part
from tests.builders import gang, node, pod
from tests.core.harness import Built, placed, plan

FAMILY = "scheduling.run.ai"
PRIORITIES = (1, 2, 3)


class Case(NamedTuple):
    """Nodes with a spine, a rack, free cores and the priorities of pods of one core; and the parts of the gang: the
    replica, the members and the cores of each. A replica is in one spine, a part in one rack, ``apart`` from others.
    At ``least`` so many replicas start. ``gangs`` have a priority, and the nodes on which their pods of one core run:
    they leave whole.
    """

    nodes: list[tuple[str, str, int, list[int]]]
    parts: list[tuple[int, int, int]]
    apart: bool
    least: int
    gangs: tuple[tuple[int, tuple[int, ...]], ...] = ()


def case(seed: int) -> Case:
    """A cluster of two or three spines with two racks each, that is full or nearly full."""
    chance = random.Random(seed)
    nodes = []
    for spine in range(chance.choice((2, 2, 3))):
        for rack in range(2):
            for _ in range(chance.randint(1, 2)):
                running = [chance.choice(PRIORITIES) for _ in range(chance.randint(0, 2))]
                nodes.append((f"s{spine}", f"s{spine}r{rack}", chance.choice((0, 0, 1)), running))
    equal = chance.random() < 0.5
    size = chance.randint(1, 2), chance.choice((1, 1, 2))
    parts = []
    for replica in range(chance.choice((1, 1, 2, 2, 3))):
        other = (chance.randint(1, 2), chance.choice((1, 1, 2)))
        parts += [(replica, *(size if equal or n else other)) for n in range(chance.randint(1, 2))]
    replicas = len({replica for replica, _, _ in parts})
    return Case(nodes, parts, chance.random() < 0.3, chance.choice((replicas, replicas, max(1, replicas - 1))))


def with_gangs(seed: int) -> Case:
    """The same with up to three gangs among what runs, some over several racks."""
    chance, found = random.Random(seed), case(seed)
    gangs = []
    for _ in range(chance.randint(1, 3)):
        at = tuple(sorted(chance.sample(range(len(found.nodes)), min(len(found.nodes), chance.randint(2, 4)))))
        gangs.append((chance.choice(PRIORITIES), at))
    return found._replace(gangs=tuple(gangs))


def objects(case: Case) -> list[Built]:
    """The cluster and the gang."""
    out: list[Built] = []
    for n, (spine, rack, free, running) in enumerate(case.nodes):
        cores = free + len(running) + sum(n in at for _, at in case.gangs)
        out.append(node(f"n{n}").cpu(cores).label(spine=spine, rack=rack))
        out += [pod(f"v{n}-{i}").cpu(1).on(f"n{n}").priority(p) for i, p in enumerate(running)]
    for number, (priority, at) in enumerate(case.gangs):
        out.append(gang(f"w{number}").min(len(at)))
        out += [pod(f"w{number}-{n}").cpu(1).on(f"n{n}").priority(priority).gang(f"w{number}") for n in at]
    distinct = "rack" if case.apart else ""
    replicas: dict[int, list[Part]] = {}
    for n, (replica, members, cores) in enumerate(case.parts):
        replicas.setdefault(replica, []).append(Part(f"p{n}", members, topology=(("rack", True),), distinct=distinct))
        label = {"kai.scheduler/subgroup-name": f"p{n}"}
        out += [pod(f"p{n}-{i}").cpu(cores).gang("g", FAMILY).labels(label).priority(10) for i in range(members)]
    parts = tuple(
        Part(f"replica-{n}", least=len(of), parts=tuple(of), topology=(("spine", True),)) for n, of in replicas.items()
    )
    whole = Part(least=case.least, parts=parts)
    return [*out, gang("g").family(FAMILY).min(1).field(parts=whole)]


def least_harm(case: Case) -> tuple[int, ...] | None:
    """How many pods of each priority have to leave at least, the highest first; None if the gang never fits."""
    replicas = sorted({replica for replica, _, _ in case.parts})
    ways = (
        _least(case, [part for part in case.parts if part[0] in some]) for some in combinations(replicas, case.least)
    )
    return min((each for each in ways if each is not None), default=None)


def _least(case: Case, parts: list[tuple[int, int, int]]) -> tuple[int, ...] | None:
    """The same of these parts, which all start."""
    racks: dict[str, list[tuple[int, list[int]]]] = {}
    for _, rack, free, running in case.nodes:
        racks.setdefault(rack, []).append((free, running))
    best: tuple[int, ...] | None = None
    known: dict[tuple[str, tuple[int, ...]], tuple[int, ...] | None] = {}
    for assignment in product(sorted(racks), repeat=len(parts)):
        if not _allowed(case, parts, assignment):
            continue
        total = [0] * len(PRIORITIES)
        for rack in {*assignment}:
            asked = tuple(
                sorted(
                    cores for (_, n, cores), at in zip(parts, assignment, strict=True) if at == rack for _ in range(n)
                )
            )
            if (rack, asked) not in known:
                known[rack, asked] = min(_ways(racks[rack], asked), default=None)
            cost = known[rack, asked]
            if cost is None:
                break
            total = [a + b for a, b in zip(total, cost, strict=True)]
        else:
            best = min(filter(None, (best, tuple(total))))
    return best


def _allowed(case: Case, parts: list[tuple[int, int, int]], assignment: Sequence[str]) -> bool:
    for replica in {replica for replica, _, _ in parts}:
        mine = [at for (of, _, _), at in zip(parts, assignment, strict=True) if of == replica]
        if len({at[:2] for at in mine}) > 1 or (case.apart and len({*mine}) < len(mine)):
            return False
    return True


def _ways(nodes: Sequence[tuple[int, list[int]]], asked: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """What leaves for each way to place members of so many cores on these nodes."""
    for at in product(range(len(nodes)), repeat=len(asked)):
        total = [0] * len(PRIORITIES)
        for n, (free, running) in enumerate(nodes):
            short = sum(cores for cores, on in zip(asked, at, strict=True) if on == n) - free
            if short > len(running):
                break
            for priority in sorted(running)[: max(0, short)]:
                total[PRIORITIES[-1] - priority] += 1
        else:
            yield tuple(total)


def harm(decision: Decision, case: Case) -> tuple[int, ...] | None:
    """How many pods of each priority leave; None if the gang does not start."""
    if decision.outcome not in ("bind", "preempt"):
        return None
    total = [0] * len(PRIORITIES)
    for victim in decision.victims:
        n, i = map(int, victim.name[1:].split("-"))
        total[PRIORITIES[-1] - case.nodes[n][3][i]] += 1
    return tuple(total)


@pytest.mark.parametrize("seed", range(120))
def test_no_assignment_does_less_harm(seed: int) -> None:
    """The choice is the best of all, every part is in one rack and every replica in one spine."""
    posed = case(seed)
    decision = plan(*objects(posed))["d/g"]
    assert harm(decision, posed) == least_harm(posed)
    if decision.outcome == "unschedulable":
        return
    rack_of = {f"n{n}": rack for n, (_, rack, _, _) in enumerate(posed.nodes)}
    found = placed(decision)
    started = [n for n in range(len(posed.parts)) if f"p{n}-0" in found]
    parts = [posed.parts[n] for n in started]
    assert len({replica for replica, _, _ in parts}) >= posed.least
    assert sum(replica == parts[0][0] for replica, _, _ in parts) == sum(r == parts[0][0] for r, _, _ in posed.parts)
    assignment = [{rack_of[found[f"p{n}-{i}"]] for i in range(posed.parts[n][1])} for n in started]
    assert all(len(racks) == 1 for racks in assignment)
    assert _allowed(posed, parts, [racks.pop() for racks in assignment])


def weighed(case: Case, taken: Sequence[int], alone: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The gangs interrupted and the pods evicted at each priority, the highest first."""
    out = [[0, pods] for pods in alone]
    for number in taken:
        priority, at = case.gangs[number]
        out[PRIORITIES[-1] - priority][0] += 1
        out[PRIORITIES[-1] - priority][1] += len(at)
    return tuple((gangs, pods) for gangs, pods in out)


def least_with_gangs(case: Case) -> tuple[tuple[int, int], ...] | None:
    """The least harm with any of the gangs gone."""
    found = []
    for count in range(len(case.gangs) + 1):
        for taken in combinations(range(len(case.gangs)), count):
            nodes = [
                (spine, rack, free + sum(n in case.gangs[t][1] for t in taken), running)
                for n, (spine, rack, free, running) in enumerate(case.nodes)
            ]
            alone = least_harm(case._replace(nodes=nodes))
            found += [weighed(case, taken, alone)] if alone is not None else []
    return min(found, default=None)


def harm_with_gangs(decision: Decision, case: Case) -> tuple[tuple[int, int], ...] | None:
    """The harm of a decision; None if the gang does not start."""
    if decision.outcome not in ("bind", "preempt"):
        return None
    alone = [0] * len(PRIORITIES)
    for victim in decision.victims:
        if victim.name.startswith("v"):
            n, i = map(int, victim.name[1:].split("-"))
            alone[PRIORITIES[-1] - case.nodes[n][3][i]] += 1
    taken = sorted({int(victim.name[1:].split("-")[0]) for victim in decision.victims if victim.name.startswith("w")})
    return weighed(case, taken, alone)


@pytest.mark.parametrize("seed", range(60))
def test_gangs_that_leave_whole_are_weighed_with_the_domains(seed: int) -> None:
    """A gang over several racks is taken where that is the least harm for all parts together."""
    posed = with_gangs(seed)
    assert harm_with_gangs(plan(*objects(posed))["d/g"], posed) == least_with_gangs(posed)
