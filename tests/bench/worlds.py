"""Large clusters for measuring time: a warm world and the gang to be decided in it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import msgspec

from gangsched.core.decision import Verdict
from gangsched.core.events import Synced
from gangsched.core.options import Options
from gangsched.core.planning.context import Question
from gangsched.core.planning.cycle import Decider
from gangsched.core.scheduler import Scheduler
from gangsched.model.constraints import (
    IN,
    LabelSelector,
    PodShape,
    PodTerm,
    Requirement,
    SpreadConstraint,
    Taint,
    Toleration,
)
from gangsched.model.records import Budget, Gang, GangId, Node, Pod
from tests.oracle.case import HOSTNAME, NOW, OURS, ZONE, Case, Maker
from tests.oracle.generate import PREEMPTOR_PRIORITY, SIGS

GI = 1 << 30


class World:
    """A scheduler core that knows the case, ready to be asked; nothing is executed."""

    def __init__(self, case: Case, *, gangs: Sequence[str] = ("want",)) -> None:
        scheduler = Scheduler(msgspec.structs.replace(case.options, wait_for_leadership=True))
        scheduler.handle([*case.events(), Synced()], NOW)
        self.world = scheduler.world
        self.decider: Decider = scheduler.decider
        self.gangs = [(GangId(SIGS, "default", name, OURS),) for name in gangs]

    def decide(self, index: int = 0) -> Verdict:
        """One decision; the world stays as it is."""
        gangs = self.gangs[index]
        return self.decider.decide(Question(gangs))


def member_shape(make: Maker, cpu: int, memory: int, rule: str = "") -> PodShape:
    """A member of the gang ``want``; ``rule`` is empty, ``apart`` (one per node), ``together`` (in one
    zone) or ``spread`` (even over zones).
    """
    selector = _labelled("job", "want")
    requests = {"cpu": cpu * 1000, "memory": memory * GI}
    if rule == "apart":
        return make.shape(requests, anti_affinity=[PodTerm(HOSTNAME, selector, ("default",))])
    if rule == "together":
        return make.shape(requests, affinity=(PodTerm(ZONE, selector, ("default",)),))
    if rule == "spread":
        return make.shape(requests, spread=(SpreadConstraint(ZONE, 1, selector, required=True),))
    return make.shape(requests)


def cluster(  # noqa: PLR0913
    *,
    nodes: int,
    pods: int,
    gang_size: int,
    members: int,
    shapes: int = 1,
    rule: str = "",
    member: tuple[int, int] = (24, 32),
    victim: tuple[int, int] = (4, 8),
    blocked: int = 0,
    budgets: int = 0,
    seed: int = 1,
) -> Case:
    """Nodes of 64 CPU / 256 Gi, each ``victim`` (CPU, GiB) of one of three priorities, in gangs of ``gang_size`` (1: no
    gangs).

    Victims are spread evenly, up to four of a gang on a node; no member of ``member`` (CPU, GiB) fits without
    evictions as long as it asks for more than the nodes have left. ``blocked`` nodes also hold a pod of 8 CPU that
    may not be evicted. ``shapes`` different members take turns. Every fourth victim is under one of ``budgets``
    PodDisruptionBudgets, which allow five disruptions each.
    """
    chance, make = random.Random(seed), Maker()
    records = [make.node(f"n{i:05d}", {"cpu": 64_000, "memory": 256 * GI}, zone=f"z{i % 3}") for i in range(nodes)]
    running = make.shape({"cpu": victim[0] * 1000, "memory": victim[1] * GI})
    guard = make.shape({"cpu": 8000, "memory": 8 * GI})
    out: list[Pod] = [
        make.pod(f"guard{i:05d}", guard, node=records[i].name, priority=1000, started=NOW - 9) for i in range(blocked)
    ]
    gangs = []
    chunks = [
        [i] * min(4, count - k)
        for i, count in enumerate(pods // nodes + (i < pods % nodes) for i in range(nodes))
        for k in range(0, count, 4)
    ]
    chance.shuffle(chunks)
    rows = [row for chunk in chunks for row in chunk]
    for first in range(0, pods, gang_size):
        name, priority = f"run{first:06d}", chance.choice((0, 10, 50))
        started = NOW - chance.randint(1, 50_000)
        places = rows[first : min(pods, first + gang_size)]
        for i, row in enumerate(places):
            out.append(
                make.pod(
                    f"{name}-{i}",
                    running,
                    gang=(SIGS, name) if gang_size > 1 else None,
                    labels={"app": f"a{len(out) // 4 % budgets}"} if budgets and len(out) % 4 == 0 else None,
                    node=records[row].name,
                    priority=priority,
                    started=started,
                )
            )
        if gang_size > 1 and places:
            gangs.append(Gang(SIGS, "default", name, min_member=len(places)))
    kinds = [member_shape(make, member[0] - i, member[1] + 2 * i, rule) for i in range(shapes)]
    out += pending(make, "want", [kinds[i % shapes] for i in range(members)])
    gangs.append(Gang(SIGS, "default", "want", min_member=members))
    limits = [Budget("default", f"b{i}", _labelled("app", f"a{i}"), allowed=5) for i in range(budgets)]
    return Case(records, out, gangs, limits, Options())


def launcher_and_workers(*, cpu_nodes: int, gpu_nodes: int, workers: int, steps: int = 5000) -> Case:
    """CPU nodes full of services, tainted GPU nodes with eight notebooks each; a launcher and workers that want nodes
    for themselves: two services and eight notebooks per worker have to leave.
    """
    make = Maker()
    taint = (Taint("gpu", "yes", "NoSchedule"),)
    tolerates = (Toleration("gpu", "Exists", "", ""),)
    nodes = [make.node(f"c{i:03d}", {"cpu": 32_000, "memory": 128 * GI}) for i in range(cpu_nodes)]
    nodes += [
        make.node(f"g{i:03d}", {"cpu": 64_000, "memory": 256 * GI, "gpu": 8}, taints=taint) for i in range(gpu_nodes)
    ]
    service = make.shape({"cpu": 4000, "memory": 16 * GI})
    notebook = make.shape({"cpu": 4000, "memory": 16 * GI, "gpu": 1}, tolerations=tolerates)
    pods = []
    for n, node in enumerate(nodes):
        shape = service if n < cpu_nodes else notebook
        for i in range(8):
            started = NOW - 100 - (17 * n + 5 * i) % 97
            pods.append(make.pod(f"run-{node.name}-{i}", shape, node=node.name, priority=0, started=started))
    launcher = make.shape({"cpu": 8000, "memory": 16 * GI})
    worker = make.shape({"cpu": 32_000, "memory": 128 * GI, "gpu": 8}, tolerations=tolerates)
    pods += pending(make, "want", [launcher, *[worker] * workers])
    gangs = [Gang(SIGS, "default", "want", min_member=1 + workers)]
    return Case(nodes, pods, gangs, [], Options(search_steps=steps))


def _labelled(key: str, value: str) -> LabelSelector:
    return LabelSelector((Requirement(key, IN, (value,)),))


def pending(make: Maker, name: str, shapes: Iterable[PodShape], priority: int = PREEMPTOR_PRIORITY) -> list[Pod]:
    """The pending members of a gang, with the label ``job``."""
    return [
        make.pod(f"{name}-{i:04d}", shape, gang=(SIGS, name), labels={"job": name}, priority=priority)
        for i, shape in enumerate(shapes)
    ]


def uniform(count: int, cpu_milli: int, make: Maker, zones: int = 3) -> list[Node]:
    """Equal nodes with plenty of memory."""
    return [make.node(f"n{i:05d}", {"cpu": cpu_milli, "memory": 512 * GI}, zone=f"z{i % zones}") for i in range(count)]
