"""How clusters are put together: kinds of nodes, what runs on them, and what they cost a gang."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from gangsched.core.events import Event
from gangsched.model.constraints import IN, LabelSelector, PodShape, PodVolumes, Requirement, Taint, Toleration
from gangsched.model.records import Budget, Gang, Node, Pod
from tests.bench.families.known import Cluster, Curve, Kind, Least, Scale, price, requests_of, times
from tests.oracle.case import NOW, OURS, Case, Maker
from tests.oracle.generate import PREEMPTOR_PRIORITY, SIGS

GI = 1 << 30
GPU = "nvidia.com/gpu"
#: What every node of a GPU pool is tainted with, and what its pods tolerate.
GPU_TAINT = Taint(GPU, "present")
GPU_TOLERATION = Toleration(GPU, "Exists")
_OTHERS = "default-scheduler"
#: Seconds for which pods that are not young have run at least.
RUN_TIME = 600
_WORDS = ("api", "web", "cache", "etl", "index", "mail", "queue", "report", "search", "shop")


class Size(msgspec.Struct, frozen=True):
    """Ranges, both ends included: nodes, evictable pods on a full node, members of the gang."""

    nodes: tuple[int, int]
    per_node: tuple[int, int]
    members: tuple[int, int]


FULL = Size((20, 5000), (3, 20), (2, 200))
QUICK = Size((20, 250), (3, 12), (2, 24))
SMALL = Size((20, 40), (3, 6), (2, 6))
#: Small enough for the exact oracle.
TINY = Size((5, 8), (2, 3), (2, 3))
#: So is this, though not for trying everything.
MIDDLE = Size((12, 19), (3, 6), (2, 8))


class Stock(msgspec.Struct):
    """Equal pods that run on a node of some kind.

    ``takes`` is what one takes beside its requests (volumes to attach); ``beyond`` says that its budget lets none go,
    ``young`` that it has not run for :data:`RUN_TIME` seconds and thus stays,
    ``all_go`` that it holds what a member wants for itself; ``stays`` that it may not be evicted at any priority.
    """

    shape: PodShape
    priority: int
    count: int
    labels: Mapping[str, str] = {}
    takes: Mapping[str, int] = {}
    beyond: bool = False
    young: bool = False
    all_go: bool = False
    stays: bool = False

    @property
    def evictable(self) -> bool:
        """May be a victim."""
        return self.priority < PREEMPTOR_PRIORITY and not self.stays and not self.young


class NodeKind(msgspec.Struct):
    """A kind of node and what runs on each. ``open`` is False where no member may go."""

    allocatable: Mapping[str, int]
    holds: list[Stock]
    taints: tuple[Taint, ...] = ()
    labels: Mapping[str, str] = {}
    open: bool = True
    unschedulable: bool = False
    ready: bool = True

    def free(self) -> dict[str, int]:
        """What is left, slots included."""
        left = {"pods": 110, **self.allocatable}
        for stock in self.holds:
            for resource, amount in (*requests_of(stock.shape).items(), *stock.takes.items()):
                left[resource] = left.get(resource, 0) - amount * stock.count
        return left

    def cost(self, scale: Scale, wanted: Iterable[tuple[Mapping[str, int], int]]) -> int | None:
        """The least cost of room for so many members of each of these requests, together."""
        total: dict[str, int] = {}
        for requests, count in wanted:
            for resource, amount in times(requests, count):
                total[resource] = total.get(resource, 0) + amount
        if not self.open:
            return None
        kinds = tuple(
            Kind(
                tuple(sorted({**requests_of(s.shape), **s.takes}.items())),
                scale.pod(s.priority) + (scale.beyond() if s.beyond else 0),
                s.count,
                s.all_go,
            )
            for s in self.holds
            if s.evictable and s.count
        )
        if any(s.all_go and not s.evictable for s in self.holds):
            return None
        return price(kinds, tuple(sorted(self.free().items())), tuple(sorted(total.items())))

    def curve(self, scale: Scale, requests: Mapping[str, int], most: int) -> tuple[int | None, ...]:
        """Costs of 1, 2, ... members, up to ``most`` and as far as they fit."""
        out: list[int | None] = []
        for count in range(1, most + 1):
            cost = self.cost(scale, [(requests, count)])
            if cost is None:
                break
            out.append(cost)
        return tuple(out) or (None,)


class Site:
    """A cluster in the making: nodes of kinds, with names and times of no meaning."""

    def __init__(self, chance: random.Random, size: Size) -> None:
        self.chance = chance
        self.size = size
        self.make = Maker()
        self.nodes: list[Node] = []
        self.pods: list[Pod] = []
        self.gangs: list[Gang] = []
        self.budgets: list[Budget] = []
        self.more: list[Event] = []
        #: How likely equal pods of a pool are under a budget that lets none go.
        self.closed = 0.25 if chance.random() < 1 / 3 else 0.0
        self._labels = [{"app": w, "tier": t} for w in _WORDS for t in ("front", "back")]
        self._count = 0

    # -- chance --------------------------------------------------------------------------------------------

    def between(self, low: float, high: float) -> int:
        """A whole number; every order of magnitude is as likely."""
        if high <= low:
            return round(low)
        return round(math.exp(self.chance.uniform(math.log(low), math.log(high))))

    def shares(self, total: int, parts: int, least: int = 0) -> list[int]:
        """``total`` in so many parts, uneven, none of them below ``least``."""
        weights = [self.chance.expovariate(1.0) + 0.05 for _ in range(parts)]
        free = total - parts * least
        out = [least + int(free * w / sum(weights)) for w in weights]
        out[self.chance.randrange(parts)] += total - sum(out)
        return out

    def levels(self, most: int = 3) -> list[int]:
        """One to so many priorities of victims."""
        return sorted(self.chance.sample((-10, 0, 1, 10, 50, 99), self.chance.randint(1, most)))

    # -- the cluster ---------------------------------------------------------------------------------------

    def add(self, kind: NodeKind, copies: int, *, zone: str = "", labels: Mapping[str, str] = {}) -> list[str]:
        """Nodes of a kind, with their pods; their names."""
        names = []
        for _ in range(copies):
            name = self.name("n")
            made = self.make.node(
                name,
                {r: n for r, n in kind.allocatable.items() if not r.startswith("attach/")},
                zone=zone or f"z{self.chance.randrange(3)}",
                taints=kind.taints,
                unschedulable=kind.unschedulable,
                ready=kind.ready,
            )
            if labels or kind.labels:
                own = self.make.labels({**made.labels, **kind.labels, **labels})
                made = msgspec.structs.replace(made, labels=own)
            self.nodes.append(made)
            for stock in kind.holds:
                self.run(stock, name, stock.count)
            names.append(name)
        return names

    def run(self, stock: Stock, node: str, count: int, gang: tuple[str, str] | None = None) -> list[Pod]:
        """Running pods on a node. ``gang`` is (family, name)."""
        chance = self.chance
        out = []
        for _ in range(count):
            name = self.name(chance.choice(_WORDS))
            labels = stock.labels or chance.choice(self._labels)
            out.append(
                self.make.pod(
                    name,
                    stock.shape,
                    gang=gang,
                    labels=dict(labels),
                    scheduler=OURS if gang or chance.random() < 0.3 else _OTHERS,
                    node=node,
                    priority=stock.priority,
                    started=NOW
                    - (chance.randint(1, RUN_TIME // 2) if stock.young else chance.randint(RUN_TIME, 500_000)),
                    static=stock.stays,
                    volumes=self._volumes(stock, name),
                )
            )
        self.pods += out
        return out

    def _volumes(self, stock: Stock, name: str) -> PodVolumes | None:
        return PodVolumes(claims=(f"{name}-data",)) if any(r.startswith("attach/") for r in stock.takes) else None

    def name(self, word: str) -> str:
        """A name that says nothing about the order in which things were made."""
        self._count += 1
        return f"{word}-{self.chance.getrandbits(28):07x}{self._count:x}"

    def want(self, shapes: Iterable[tuple[PodShape, int]], *, labels: Mapping[str, str] = {}, **gang: Any) -> int:
        """The pending gang ``want``: so many members of each shape, in an order of no meaning. Their number."""
        members = [shape for shape, count in shapes for _ in range(count)]
        self.chance.shuffle(members)
        for i, shape in enumerate(members):
            self.pods.append(
                self.make.pod(
                    f"want-{i:04d}",
                    shape,
                    gang=(SIGS, "want"),
                    labels={"job": "want", **labels},
                    priority=PREEMPTOR_PRIORITY,
                )
            )
        self.gangs.append(Gang(SIGS, "default", "want", min_member=len(members), **gang))
        return len(members)

    def budget(self, app: str, allowed: int) -> None:
        """A PodDisruptionBudget over the pods with the label ``guarded: <app>``, once."""
        if all(b.name != f"pdb-{app}" for b in self.budgets):
            self.budgets.append(Budget("default", f"pdb-{app}", selects(guarded=app), allowed=allowed))

    def gang(
        self, stock: Stock, nodes: Sequence[str], each: int = 1, spare: int = 0, *, name: str = "", **gang: Any
    ) -> None:
        """A running gang with ``each`` members on each of these nodes, ``spare`` more than it needs."""
        name = name or self.name("run")
        for node in nodes:
            self.run(stock, node, each, gang=(SIGS, name))
        self.gangs.append(Gang(SIGS, "default", name, min_member=len(nodes) * each - spare, **gang))

    def rigid_gangs(self, stock: Stock, nodes: Sequence[str]) -> None:
        """Running gangs of one to eight members, one on each of these nodes."""
        left = self.chance.sample(nodes, len(nodes))
        while left:
            size = min(len(left), self.chance.randint(1, 8))
            self.gang(stock, left[:size])
            left = left[size:]

    def done(self, least: Least, title: str, *, same: Iterable[Case] = (), **more: Any) -> Cluster:
        """The cluster, in an order of no meaning."""
        self.chance.shuffle(self.nodes)
        self.chance.shuffle(self.pods)
        self.chance.shuffle(self.gangs)
        evictable = sum(p.priority < PREEMPTOR_PRIORITY and bool(p.node) and not p.static for p in self.pods)
        members = sum(not p.node for p in self.pods)
        told = f"{len(self.nodes)} nodes, {evictable} evictable, {members} members, {title}"
        out = Cluster(
            self.nodes, self.pods, self.gangs, self.budgets, title=told, least=least, more=tuple(self.more), **more
        )
        if not least.pods:
            raise ValueError(f"nothing has to leave: {told}")
        out.same = tuple(same) or (Case(out.nodes, out.pods, out.gangs, out.budgets),)
        return out


def selects(**labels: str) -> LabelSelector:
    """A selector of these labels."""
    return LabelSelector(tuple(Requirement(k, IN, (v,)) for k, v in labels.items()))


def curves(kinds: Sequence[tuple[NodeKind, int]], scale: Scale, requests: Mapping[str, int], most: int) -> list[Curve]:
    """What each kind of node costs, and how many there are of it."""
    return [(kind.curve(scale, requests, most), copies) for kind, copies in kinds]
