"""The life of twelve gangs on the simulator: they wait, are bound, evict, are evicted, need quota and volumes of room.

Everything whose name begins with ``evil`` may be made to fail. All else ends bound or gone, with evil or without.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from gangsched.cluster.sim import SimCluster, World
from gangsched.cluster.sim.arrival import Arrival
from gangsched.core.actions import Action
from gangsched.core.decision import Verdict
from gangsched.core.events import Changed, Event, Gone
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from gangsched.model.constraints import PodTerm, SpreadConstraint
from gangsched.model.queues import ANY
from gangsched.model.records import GangId, Job
from gangsched.runtime.boundary import Boundary
from gangsched.runtime.loop import CoreFaults, Observer, Observers, run_loop
from tests.builders import BudgetBuilder, NodeBuilder, PodBuilder, gang, node, pod, selects
from tests.core.harness import Built, event
from tests.core.queues import job, objects
from tests.core.quota.world import queue

EVIL = "evil"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
UNTIL_SECONDS = 1200.0


def suspended(made: Job) -> Event:
    """A Job that waits for quota."""
    return Changed(msgspec.structs.replace(made, suspended=True))


def members(name: str, count: int, cpu: float, **fields: int) -> list[PodBuilder]:
    """The members of a gang with a group object."""
    built = [pod(f"{name}-{i}").gang(name).cpu(cpu).label(app=name) for i in range(count)]
    return [each.priority(fields["priority"]) if "priority" in fields else each for each in built]


def ready(name: str, number: int) -> NodeBuilder:
    """A node with eight cores, in one of three zones."""
    return node(name).cpu(8).memory(64).label(**{ZONE: f"z{number % 3}", HOST: name})


def first_objects() -> list[Built]:
    """What is there at the start: eight nodes, pods that run, and gangs that wait."""
    out: list[Built] = [ready(f"n{i}", i) for i in range(8)]
    out += objects(queue("a", "co", cpu=8, reclaim=ANY), queue("b", "co", cpu=4, reclaim=ANY))
    out += [pod(f"low-{i}").cpu(2).on(f"n{i % 6}").label(app="low").priority(-5) for i in range(6)]
    out += [pod("evil-bound").cpu(1).on("n0").label(app="evil").priority(-5)]
    out += [
        BudgetBuilder("low").selects(app="low").allows(6),
        BudgetBuilder("evil-budget").selects(app="evil").allows(1),
    ]
    for name, minimum in (("g0", 2), ("g1", 3), ("evil", 2), ("g2", 2)):
        out += [gang(name).min(minimum), *members(name, minimum, 1)]
    spread = SpreadConstraint(topology_key=ZONE, max_skew=1, selector=selects(app="g3"), required=True)
    apart = PodTerm(topology_key=HOST, selector=selects(app="g4"), namespaces=("d",))
    out += [gang("g3").min(3), *(each.shape(spread=(spread,)) for each in members("g3", 3, 1))]
    out += [gang("g4").min(2), *(each.shape(anti_affinity=(apart,)) for each in members("g4", 2, 1))]
    out += [
        pod("plain-0").cpu(1),
        pod("evil-plain").cpu(1),
        *map(suspended, (job("j0", "a", 1), job("evil-job", "b", 1))),
    ]
    return out


def later_objects() -> list[tuple[float, Event]]:
    """What comes later: gangs that evict, changes of nodes, pods that go, and gangs of annotations."""
    out: list[tuple[float, Built]] = []
    for at, name in ((20.0, "h0"), (22.0, "evil-high"), (40.0, "h1")):
        out += [(at, gang(name).min(2)), *((at, each) for each in members(name, 2, 5, priority=100))]
    out += [(60.0, each.light_gang("light", 2)) for each in (pod("light-0").cpu(1), pod("light-1").cpu(1))]
    out += [(70.0, ready("n5", 5).cordoned())]
    out += [(75.0, Gone("Pod", "d", "g0-0", "uid-d-g0-0")), (80.0, Gone("Pod", "d", "evil-0", "uid-d-evil-0"))]
    out += [(90.0, pod("plain-1").cpu(1)), (95.0, ready("n5", 5))]
    out += [
        (100.0, node("evil-node").cpu(1)),
        (120.0, Gone("Node", "", "evil-node", "")),
        (130.0, pod("plain-2").cpu(1)),
    ]
    out += [(140.0, gang("g5").min(2)), *((140.0, each) for each in members("g5", 2, 1))]
    return [(at, event(each)) for at, each in out]


class Inside(Scheduler):
    """A scheduler of which is known whether it is at work: functions of the core are called by others, too."""

    depth = 0

    def handle(self, events: Sequence[Event], now: float) -> list[Action]:
        with inside():
            return super().handle(events, now)

    def has_work(self, now: float) -> bool:
        with inside():
            return super().has_work(now)

    def decide(self, now: float) -> list[Action]:
        with inside():
            return super().decide(now)

    def wake_at(self) -> float | None:
        with inside():
            return super().wake_at()

    def would_decide(self, gangs: Sequence[GangId]) -> Verdict:
        with inside():
            return super().would_decide(gangs)

    def next_gang(self) -> str:
        with inside():
            return super().next_gang()


@contextlib.contextmanager
def inside() -> Iterator[None]:
    """The core is at work."""
    Inside.depth += 1
    try:
        yield
    finally:
        Inside.depth -= 1


class Life:
    """One run of it. ``observer`` watches; ``contained`` is False for a core whose errors are raised."""

    def __init__(self, observer: Observer | None = None, *, contained: bool = True) -> None:
        arrivals = [Arrival(0.0, event(each)) for each in first_objects()]
        arrivals += [Arrival(at, each) for at, each in later_objects()]
        self.world = World(arrivals)
        options = Options(quota=True, contain_errors=contained, starvation_seconds=30.0)
        self.faults = CoreFaults()
        self.observer = observer if observer is not None else Observers(self.faults)
        make: Callable[..., Scheduler] = partial(Inside, options)
        self.core = Boundary(make, leads_by_itself=True, on_rebuild=self.observer.rebuilt) if contained else make()

    def run(self, until_seconds: float = UNTIL_SECONDS) -> Life:
        """Play to the end."""
        cluster = SimCluster(self.world, until_seconds=until_seconds)
        run_loop(self.core, cluster, self.observer)
        return self

    # -- how it ends ---------------------------------------------------------------------------------------

    def pending(self) -> list[str]:
        """Pods that wait, but for evil ones."""
        return sorted(p.name for p in self.world.store.pods.values() if not p.node and not p.name.startswith(EVIL))

    def left_behind(self) -> list[str]:
        """Marks, nominations, taints and room that stand for nothing."""
        store, out = self.world.store, list[str]()
        for found in sorted(store.pods.values(), key=lambda p: p.key):
            if found.on_record and not found.node:
                out.append(f"{found.name} is nominated")
            if found.live and found.evicted_for is not None and found.evicted_for.status == "True":
                out.append(f"{found.name} is marked")
        out += [f"{found.name} is held" for found in store.nodes.values() if found.held is not None]
        core = self.core.core if isinstance(self.core, Boundary) else self.core
        out += [f"room is kept for {key}" for key in sorted(core.ledger.holders())]
        out += [f"{uid} is assumed" for uid in sorted(core.world.assumed)]
        return out
