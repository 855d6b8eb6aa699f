"""Random small clusters, the same for the same seed: nodes, single pods, gangs, budgets, arrivals."""

from __future__ import annotations

import random

import msgspec

from gangsched.core.events import Changed, Event
from gangsched.core.options import Options
from gangsched.model.constraints import LabelSelector, PodShape, Requirement
from gangsched.model.records import SINGLE, Budget, Gang, GangId, Node, Pod

SCHEDULER = "py-gang-scheduler"
FAMILY = "scheduling.k8s.io"
NAMESPACE = "ns"
RESOURCES = ("cpu", "memory", "example.com/gpu")
_UNIT = {"cpu": 1000, "memory": 2**30, "example.com/gpu": 1}


class Cluster(msgspec.Struct):
    """The input of one run."""

    events: list[Event]
    options: Options


def cluster(seed: int) -> Cluster:
    """The cluster of this seed."""
    return _Generator(seed).cluster()


class _Generator:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._shapes: dict[tuple[tuple[str, int], ...], PodShape] = {}
        self._free: dict[str, dict[str, int]] = {}
        self._pods: list[Pod] = []
        self._gangs: list[Gang] = []

    def cluster(self) -> Cluster:
        chance = self._random
        nodes = [self._node(f"n{i}") for i in range(chance.randint(2, 4))]
        for i in range(chance.randint(0, 5)):
            self._group(f"old-{i}", running=True)
        for i in range(chance.randint(1, 4)):
            self._group(f"new-{i}", running=False)
        events: list[Event] = [Changed(n) for n in nodes]
        events += [Changed(b) for b in self._budgets()]
        events += [Changed(g) for g in self._gangs]
        events += [Changed(p) for p in self._pods]
        chance.shuffle(events)
        options = Options(
            scheduler_names=(SCHEDULER,),
            gang_mode=chance.choice(("elastic", "elastic", "atomic", "minimal", "off")),
            strict_budgets=chance.random() < 0.25,
        )
        return Cluster(events, options)

    def _node(self, name: str) -> Node:
        chance = self._random
        room = {"cpu": chance.randint(2, 8), "memory": chance.randint(4, 16)}
        if chance.random() < 0.3:
            room["example.com/gpu"] = chance.randint(1, 4)
        allocatable = {r: units * _UNIT[r] for r, units in room.items()} | {"pods": chance.choice((3, 110, 110))}
        self._free[name] = dict(allocatable)
        return Node(
            name=name,
            uid=f"node-{name}",
            allocatable=tuple(sorted(allocatable.items())),
            unschedulable=chance.random() < 0.08,
        )

    def _group(self, name: str, running: bool) -> None:
        """A gang or a single pod: all of it running or, as far as there is room for it, all of it pending."""
        chance = self._random
        size = chance.choice((1, 1, 2, 3, 4))
        low, high = (0, 3) if running else (1, 5)
        priority = chance.randint(low, high) * 1000
        shapes = [self._shape() for _ in range(chance.choice((1, 1, 2)))]
        ident = GangId(FAMILY if size > 1 else SINGLE, NAMESPACE, name if size > 1 else f"{name}-0", SCHEDULER)
        arrives = {} if running else self._arrival()
        placed = 0
        for i in range(size):
            shape = chance.choice(shapes)
            node = self._place(shape) if running else ""
            if running and not node:
                continue
            placed += 1
            self._pods.append(self._pod(f"{name}-{i}", ident, shape, node, priority, arrives))
        if size > 1:
            minimum = chance.randint(max(1, placed - 1), max(1, placed)) if running else chance.randint(1, size)
            self._gangs.append(
                Gang(
                    family=FAMILY,
                    namespace=NAMESPACE,
                    name=name,
                    uid=f"gang-{name}",
                    min_member=minimum,
                    created=0.0,
                    disruption=chance.choice((None, None, "pod", "gang")),
                )
            )

    def _pod(self, name: str, ident: GangId, shape: PodShape, node: str, priority: int, hints: dict[str, str]) -> Pod:
        chance = self._random
        grace = float(chance.choice((0, 1, 3, 10)))
        own = dict(hints)
        if chance.random() < 0.3:
            own["sim.gangsched.dev/grace-used"] = f"{chance.randint(0, 5)}s"
        if chance.random() < 0.2:
            own["sim.gangsched.dev/run-for"] = f"{chance.randint(1, 60)}s"
        terminating = bool(node) and chance.random() < 0.08
        return Pod(
            namespace=NAMESPACE,
            name=name,
            uid=f"uid-{name}",
            shape=shape,
            gang=ident,
            scheduler=SCHEDULER if not node or chance.random() < 0.5 else "default-scheduler",
            labels={"app": chance.choice(("red", "green", "blue"))},
            hints=own,
            priority=priority,
            node=node,
            phase="Running" if node else "Pending",
            deleting_since=grace if terminating else None,
            grace_seconds=grace,
        )

    def _arrival(self) -> dict[str, str]:
        if self._random.random() < 0.5:
            return {}
        return {"sim.gangsched.dev/arrive-after": f"{self._random.randint(1, 20)}s"}

    def _shape(self) -> PodShape:
        chance = self._random
        requests = {"cpu": chance.randint(1, 4) * 1000}
        if chance.random() < 0.5:
            requests["memory"] = chance.randint(1, 6) * 2**30
        if chance.random() < 0.1:
            requests["example.com/gpu"] = 1
        key = tuple(sorted(requests.items()))
        return self._shapes.setdefault(key, PodShape(requests=key, scored=key))

    def _place(self, shape: PodShape) -> str:
        """A node with room for a running pod, which is taken; empty if there is none."""
        names = list(self._free)
        self._random.shuffle(names)
        wanted = dict(shape.requests) | {"pods": 1}
        for name in names:
            free = self._free[name]
            if all(units <= free.get(resource, 0) for resource, units in wanted.items()):
                for resource, units in wanted.items():
                    free[resource] -= units
                return name
        return ""

    def _budgets(self) -> list[Budget]:
        chance = self._random
        out = []
        for app in ("red", "green"):
            if chance.random() < 0.3:
                numbers = chance.choice(({"min_available": 1}, {"max_unavailable": 1}, {"max_unavailable": "50%"}))
                selector = LabelSelector((Requirement("app", "In", (app,)),))
                out.append(Budget(NAMESPACE, f"pdb-{app}", selector, **numbers))
        return out
