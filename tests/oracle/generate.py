"""Random clusters with a pending gang, the same for the same seed.

Nodes are filled without over-committing them; everything that the rules of victims distinguish occurs: gangs and
single pods, gangs above, at and below their minimum, GangGroups, budgets, protected, terminating and finished pods,
pods of other schedulers, higher priorities, tainted and unready nodes.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec

from gangsched.core.options import Options
from gangsched.model.constraints import IN, LabelSelector, PodShape, PodTerm, Requirement, Taint
from gangsched.model.records import Budget, Gang, Node, Owner, Pod
from tests.oracle.case import HOSTNAME, NOW, OURS, ZONE, Case, Maker

SIGS, UPSTREAM = "scheduling.sigs.k8s.io", "scheduling.k8s.io"
PREEMPTOR_PRIORITY = 100
RESOURCES = ("cpu", "memory", "nvidia.com/gpu", "example.com/disk")
_UNIT = {"cpu": 500, "memory": 1 << 30, "nvidia.com/gpu": 1, "example.com/disk": 10 << 30}
_PRIORITIES = (0, 0, 0, 5, 10, 10, 10, 50, 50, 99, 100, 200)


class Size(msgspec.Struct, frozen=True):
    """How large the clusters are: inclusive ranges."""

    nodes: tuple[int, int] = (3, 8)
    resources: tuple[int, int] = (2, 4)
    gang: tuple[int, int] = (1, 6)
    fill: tuple[float, float] = (0.85, 1.0)
    max_victims: int = 60


SMALL = Size()
TINY = Size(nodes=(2, 4), resources=(2, 2), gang=(1, 3), max_victims=8)


def case(seed: int, *, mixed: bool, anti_affinity: bool = False, size: Size = SMALL) -> Case:
    """The case of a seed. ``mixed``: the members differ in shape. ``anti_affinity``: members or victims keep apart."""
    return _Generator(seed, mixed, anti_affinity, size).case()


class _Generator:
    def __init__(self, seed: int, mixed: bool, anti_affinity: bool, size: Size) -> None:
        self.chance = random.Random(f"{seed}/{mixed}/{anti_affinity}")
        self.mixed = mixed
        self.apart = anti_affinity
        self.size = size
        self.make = Maker()
        self.resources = RESOURCES[: self.chance.randint(*size.resources)]
        self.nodes: list[Node] = []
        self.pods: list[Pod] = []
        self.gangs: list[Gang] = []
        self.free: dict[str, dict[str, int]] = {}

    def case(self) -> Case:
        chance = self.chance
        self._nodes()
        goal = chance.uniform(*self.size.fill)
        for number in range(self.size.max_victims):
            if self._filled() >= goal or len(self.pods) >= self.size.max_victims:
                break
            self._victims(number)
        self._preemptor()
        mode = chance.choice(("elastic", "elastic", "elastic", "minimal", "atomic", "off"))
        return Case(
            self.nodes,
            self.pods,
            self.gangs,
            self._budgets(),
            Options(gang_mode=mode),
            f"mode {mode}, {len(self.nodes)} nodes, {'mixed' if self.mixed else 'identical'} members"
            f"{', anti-affinity' if self.apart else ''}",
        )

    # -- nodes ---------------------------------------------------------------------------------------------

    def _nodes(self) -> None:
        chance = self.chance
        for number in range(chance.randint(*self.size.nodes)):
            units = {r: chance.choice((4, 6, 8, 8, 12) if r != RESOURCES[2] else (0, 2, 4)) for r in self.resources}
            allocatable = {r: n * _UNIT[r] for r, n in units.items()}
            allocatable["pods"] = chance.choice((110, 110, 110, 4, 6))
            state = chance.random()
            more: dict[str, Any] = {}
            if state < 0.04:
                more = {"ready": False, "taints": (Taint("node.kubernetes.io/not-ready"),)}
            elif state < 0.08:
                more = {"taints": (Taint("dedicated", "batch"),)}
            elif state < 0.10:
                more = {"unschedulable": True}
            node = self.make.node(f"n{number}", allocatable, zone=f"z{number % 3}", **more)
            self.nodes.append(node)
            self.free[node.name] = dict(node.allocatable)

    def _filled(self) -> float:
        total = sum(dict(n.allocatable).get("cpu", 0) for n in self.nodes)
        return 1.0 - sum(f["cpu"] for f in self.free.values()) / total

    # -- what runs -----------------------------------------------------------------------------------------

    def _victims(self, number: int) -> None:
        if self.chance.random() < 0.45:
            self._run(f"single{number}", None, self._shape(), self._priority(), self._app())
        elif self.chance.random() < 0.15:
            self._gang_group(number)
        else:
            self._gang(f"gang{number}")

    def _gang(self, name: str, group: tuple[str, ...] = ()) -> None:
        chance = self.chance
        family = SIGS if group or chance.random() < 0.6 else UPSTREAM
        shape, app, priority = self._shape(), self._app(), self._priority()
        count = 0
        for member in range(chance.randint(1, 5)):
            if chance.random() < 0.2:
                shape = self._shape()
            count += self._run(f"{name}-{member}", (family, name), shape, priority, app, chance.random() < 0.1)
        if not count and not group:
            return
        first = len(self.pods) - count
        self.pods[first:] = [self._as(p, self.pods[first].scheduler) for p in self.pods[first:]]
        own = chance.choice((None, priority, priority + 3)) if family == UPSTREAM else None
        self.gangs.append(
            Gang(
                family,
                "default",
                name,
                min_member=max(1, count - chance.choice((0, 0, 1, 1, 2, -1))),
                priority=own,
                disruption=chance.choice(("pod", "gang", None)) if family == UPSTREAM else None,
                group=group,
            )
        )

    @staticmethod
    def _as(pod: Pod, scheduler: str) -> Pod:
        fields = {f: getattr(pod, f) for f in pod.__struct_fields__}
        return Pod(**{**fields, "scheduler": scheduler, "gang": pod.gang._replace(scheduler=scheduler)})

    def _gang_group(self, number: int) -> None:
        names = (f"gang{number}a", f"gang{number}b")
        group = tuple(f"default/{n}" for n in names)
        before = len(self.pods)
        for name in names:
            self._gang(name, group)
        self.pods[before:] = [self._as(p, OURS) for p in self.pods[before:]]
        if len(self.pods) == before:
            del self.gangs[-2:]

    def _run(
        self,
        name: str,
        gang: tuple[str, str] | None,
        shape: PodShape,
        priority: int,
        app: str,
        other_priority: bool = False,
    ) -> int:
        """Put a pod on a node with room; returns how many bound pods came of it."""
        chance = self.chance
        room = [n for n in self.nodes if self._holds(n.name, shape)]
        if not room:
            return 0
        node = chance.choice(room).name
        self._use(node, shape)
        kind = chance.random()
        more: dict[str, Any] = {}
        labels = {"app": app}
        if kind < 0.06:
            more["deleting_since"] = NOW + 10
        elif kind < 0.09:
            labels["scheduling.koordinator.sh/disable-preemptible"] = "true"
        elif kind < 0.11:
            more["owner"] = Owner("DaemonSet", "agent", "uid-agent")
        elif kind < 0.13:
            more["phase"] = chance.choice(("Succeeded", "Failed"))
            self._use(node, shape, -1)
        self.pods.append(
            self.make.pod(
                name,
                shape,
                gang=gang,
                labels=labels,
                node=node,
                scheduler=chance.choice((OURS, OURS, "default-scheduler")),
                priority=self._priority() if other_priority else priority,
                started=NOW - chance.randint(1, 5000),
                **more,
            )
        )
        return 1

    def _shape(self, largest: int = 3) -> PodShape:
        chance = self.chance
        units = {r: chance.randint(0 if n else 1, largest) for n, r in enumerate(self.resources)}
        if "nvidia.com/gpu" in units:
            units["nvidia.com/gpu"] = chance.choice((0, 0, 1, 2))
        terms = [self._term("app", self._app())] if self.apart and chance.random() < 0.2 else []
        return self.make.shape({r: n * _UNIT[r] for r, n in units.items()}, anti_affinity=terms)

    def _term(self, key: str, value: str) -> PodTerm:
        topology = self.chance.choice((HOSTNAME, HOSTNAME, ZONE))
        return PodTerm(topology, LabelSelector((Requirement(key, IN, (value,)),)), ("default",))

    def _holds(self, node: str, shape: PodShape) -> bool:
        wanted = {**dict(shape.requests), "pods": 1}
        return all(self.free[node].get(r, 0) >= n for r, n in wanted.items())

    def _use(self, node: str, shape: PodShape, sign: int = 1) -> None:
        for resource, amount in {**dict(shape.requests), "pods": 1}.items():
            self.free[node][resource] -= sign * amount

    def _priority(self) -> int:
        return self.chance.choice(_PRIORITIES)

    def _app(self) -> str:
        return self.chance.choice("abcd")

    def _budgets(self) -> list[Budget]:
        chance = self.chance
        out = []
        for number in range(chance.choice((0, 0, 1, 2, 3))):
            apps = tuple(sorted(chance.sample("abcd", chance.choice((1, 1, 2)))))
            selector = LabelSelector((Requirement("app", IN, apps),))
            if chance.random() < 0.7:
                out.append(Budget("default", f"pdb{number}", selector, allowed=chance.randint(0, 2)))
            else:
                out.append(Budget("default", f"pdb{number}", selector, max_unavailable=chance.choice((1, "30%"))))
        return out

    # -- the preemptor -------------------------------------------------------------------------------------

    def _preemptor(self) -> None:
        chance = self.chance
        if chance.random() < 0.1:
            names = ("want-a", "want-b")
            group = tuple(f"default/{n}" for n in names)
            for name in names:
                self._pending(name, chance.randint(1, 3), group)
        elif chance.random() < 0.15 and not self.mixed:
            shape = self._member(4)
            self.pods.append(self.make.pod("want", shape, labels={"job": "want"}, priority=PREEMPTOR_PRIORITY))
        else:
            self._pending("want", chance.randint(2 if self.mixed else 1, max(2, self.size.gang[1])), ())

    def _pending(self, name: str, count: int, group: tuple[str, ...]) -> None:
        chance = self.chance
        shapes = [self._member(chance.choice((3, 4, 5)))]
        if self.mixed:
            shapes += [self._member(chance.choice((2, 4, 5))) for _ in range(chance.randint(1, 2))]
        bound = 0
        for member in range(count):
            shape = shapes[member % len(shapes)] if self.mixed else shapes[0]
            node = ""
            more: dict[str, Any] = {}
            if count > 1 and chance.random() < 0.08:
                room = [n.name for n in self.nodes if self._holds(n.name, shape)]
                if room:
                    node, more = chance.choice(room), {"started": NOW - 50}
                    self._use(node, shape)
                    bound += 1
            self.pods.append(
                self.make.pod(
                    f"{name}-{member}",
                    shape,
                    gang=(SIGS, name),
                    labels={"job": name},
                    node=node,
                    priority=chance.choice((PREEMPTOR_PRIORITY, PREEMPTOR_PRIORITY, 150)),
                    **more,
                )
            )
        if bound == count:
            self.pods.append(
                self.make.pod(f"{name}-x", shapes[0], gang=(SIGS, name), labels={"job": name}, priority=100)
            )
            count += 1
        minimum = min(count, max(bound + 1, count - chance.choice((0, 0, 0, 1))))
        self.gangs.append(Gang(SIGS, "default", name, min_member=minimum, group=group))

    def _member(self, largest: int) -> PodShape:
        chance = self.chance
        units = {r: chance.randint(0 if n else 1, largest) for n, r in enumerate(self.resources)}
        if "nvidia.com/gpu" in units:
            units["nvidia.com/gpu"] = chance.choice((0, 0, 0, 1))
        selector = {ZONE: f"z{chance.randint(0, 2)}"} if chance.random() < (0.2 if self.mixed else 0.1) else None
        terms: list[PodTerm] = []
        if self.apart:
            if chance.random() < 0.6:
                terms.append(self._term("job", "want"))
            if chance.random() < 0.4:
                terms.append(self._term("app", self._app()))
        return self.make.shape({r: n * _UNIT[r] for r, n in units.items()}, node_selector=selector, anti_affinity=terms)
