"""Mixes on up to 50 nodes, full of gangs and single pods, for a gang of several kinds that needs much of them.

Nothing is known of the optimum but what HiGHS proves: each part of harm is minimised in turn, under the least values of
the parts before it. Where it has not proven a part in time, ``doubt`` names that part: from there on nothing is known
but that harm need not be more than what it has found.
"""

from __future__ import annotations

import math

from gangsched.model.constraints import PodShape
from gangsched.model.records import Budget, Gang
from tests.bench.families.known import Cluster, Least, Part
from tests.bench.families.plain import Unsuitable
from tests.bench.families.site import GI, GPU, NodeKind, Site, Stock, selects
from tests.oracle.case import Case
from tests.oracle.exact import Program, value
from tests.oracle.generate import SIGS
from tests.oracle.model import Infeasible, Solved, TimedOut
from tests.oracle.problem import read

#: Seconds that HiGHS has for each part of harm.
SECONDS = 10.0


def tight(site: Site) -> Cluster:
    """Whole and elastic gangs, single pods of several sizes and priorities, budgets; members of one to three kinds."""
    chance = site.chance
    count = chance.randint(max(4, min(10, site.size.nodes[0])), max(6, min(50, site.size.nodes[1])))
    cores, ram = chance.choice((8, 16, 32)), chance.choice((32, 64, 128))
    gpus = chance.choice((0, 0, 4, 8))
    room = {"cpu": cores * 1000, "memory": ram * GI, **({GPU: gpus} if gpus else {})}
    names = site.add(NodeKind(room, []), count)
    free = {n: dict(room) for n in names}
    levels = site.levels(3)
    shapes = [_shape(site, cores, ram, gpus, chance.choice((8, 4, 2))) for _ in range(4)]
    gang_share = chance.choice((0.3, 0.6, 0.95))
    misses = 0
    while misses < 6:
        shape, level = chance.choice(shapes), chance.choice(levels)
        size = chance.choice((2, 3, 4, 8)) if chance.random() < gang_share else 1
        app = f"app{chance.randrange(6)}"
        places = _places(site, free, shape, size)
        misses += len(places) < size
        _run(site, Stock(shape, level, 1, labels={"app": app}), places)
    for n in range(chance.choice((0, 0, 2, 3))):
        allowed = chance.choice((0, 0, 1, 3))
        site.budgets.append(Budget("default", f"pdb{n}", selects(app=f"app{n}"), allowed=allowed))
    kinds = [_shape(site, cores, ram, gpus, 1) for _ in range(chance.choice((1, 2, 2, 3)))]
    low, high = site.size.members
    total = max(low, len(kinds), min(high, round(count * chance.uniform(1 / 6, 1 / 2))))
    site.want(list(zip(kinds, site.shares(total, len(kinds), 1), strict=True)))
    case = Case(site.nodes, site.pods, site.gangs, site.budgets)
    least = _least(case)
    if not least.beyond and not least.levels:
        raise Unsuitable  # there is room for the gang
    return site.done(least, f"{len(kinds)} kinds, {len(site.gangs) - 1} gangs, {len(site.budgets)} budgets")


def _shape(site: Site, cores: int, ram: int, gpus: int, parts: int) -> PodShape:
    """A pod of about one part of a node."""
    chance = site.chance
    requests = {
        "cpu": 500 * max(1, round(2 * cores / parts * chance.uniform(0.4, 1.0))),
        "memory": GI * max(1, round(ram / parts * chance.uniform(0.2, 0.9))),
    }
    if gpus and chance.random() < 0.6:
        requests[GPU] = max(1, gpus // parts)
    return site.make.shape(requests)


def _places(site: Site, free: dict[str, dict[str, int]], shape: PodShape, count: int) -> list[str]:
    """Nodes with room for so many of these pods, or for as many as there is room for; the room is taken."""
    out: list[str] = []
    for name in site.chance.sample(list(free), len(free)):
        while len(out) < count and all(free[name].get(r, 0) >= n for r, n in shape.requests):
            for resource, amount in shape.requests:
                free[name][resource] -= amount
            out.append(name)
            if site.chance.random() < 0.5:
                break
    return out


def _run(site: Site, stock: Stock, places: list[str]) -> None:
    if len(places) < 2:
        for node in places:
            site.run(stock, node, 1)
        return
    name = site.name("run")
    for node in places:
        site.run(stock, node, 1, gang=(SIGS, name))
    spare = site.chance.choice((0, 0, 0, 1, len(places) // 2))
    site.gangs.append(Gang(SIGS, "default", name, min_member=len(places) - spare))


def _least(case: Case) -> Least:
    program = Program(read(case), time_limit_seconds=SECONDS, greedy_budgets=False)
    beyond, doubt = _minimum(program, program.beyond, ("pdb", 0), None)
    levels = []
    for level in sorted({*program.gangs_at, *program.pods_at}, reverse=True):
        gangs, doubt = _minimum(program, program.gangs_at.get(level, {}), ("gangs", level), doubt)
        pods, doubt = _minimum(program, program.pods_at.get(level, {}), ("pods", level), doubt)
        if gangs or pods:
            levels.append((level, gangs, pods))
    return Least(beyond, tuple(levels), doubt=doubt)


def _minimum(program: Program, terms: dict[int, float], part: Part, doubt: Part | None) -> tuple[int, Part | None]:
    """The least value of a part, which is held from then on, and the first part that is not proven."""
    if not terms:
        return 0, doubt
    try:
        solved: Solved = program.model.minimise(terms)
    except (Infeasible, TimedOut) as error:
        raise Unsuitable from error
    found = value(terms, solved)
    program.model.row(terms, upper=float(found))
    if doubt is None and math.ceil(solved.bound - 1e-6) < found:
        doubt = part
    return found, doubt
