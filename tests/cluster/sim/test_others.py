"""Another scheduler and a controller beside: they respect the taint of held nodes, and nothing else of a plan."""

from __future__ import annotations

import msgspec

from gangsched.cluster.sim import SimCluster, World
from gangsched.cluster.sim import history as log
from gangsched.core.events import Changed, Event
from gangsched.core.options import Options
from gangsched.core.scheduler import Scheduler
from gangsched.model.constraints import Taint
from gangsched.model.held import Held
from gangsched.model.records import Owner
from gangsched.runtime.loop import run_loop
from tests.builders import OTHERS, gang, node, pod
from tests.cluster.sim.others import OTHER_SCHEDULER, OtherScheduler, ReplicaController

NODES = 4


def web(number: int, grace: float) -> Event:
    """A pod of a ReplicaSet that fills a node, and stops a little later than the one before."""
    made = pod(f"web-{number}").cpu(4).scheduler(OTHERS).on(f"n{number}")
    made = made.field(grace_seconds=grace, owner=Owner("ReplicaSet", "web", "uid-web"))
    used = {"sim.gangsched.dev/grace-used": f"{min(grace, number)}s"}
    return Changed(msgspec.structs.replace(made.obj(), hints=used))


def story(grace: float, **options: str) -> World:
    """A gang that needs all nodes comes, where a ReplicaSet of another scheduler has them; after five minutes."""
    world = World.of(
        [
            *(Changed(node(f"n{n}").obj()) for n in range(NODES)),
            Changed(pod("dns", "kube-system").scheduler(OTHERS).on("n0").obj()),
            *(web(n, grace) for n in range(NODES)),
            Changed(gang("g").min(NODES).obj()),
            *(Changed(pod(f"m{n}").cpu(4).priority(5).gang("g").obj()) for n in range(NODES)),
        ]
    )
    OtherScheduler(world.clock, world.store, world.timing)
    ReplicaController(world.clock, world.store, world.timing)
    run_loop(Scheduler(Options(**options)), SimCluster(world, until_seconds=300.0))  # type: ignore[arg-type]
    return world


def members_bound(world: World) -> int:
    """How many members are on nodes."""
    return sum(bool(p.node) for p in world.store.pods.values() if p.name.startswith("m"))


def test_a_gang_gets_the_room_of_pods_that_are_created_again() -> None:
    """Whatever their grace period: nodes are held, four pods leave, and the replacements wait."""
    for grace in (0.0, 5.0, 30.0):
        world = story(grace)
        assert members_bound(world) == NODES
        removed = {e.object for e in world.history.with_verbs(log.DELETE, actor=log.SCHEDULER)}
        assert removed == {f"d/web-{n}" for n in range(NODES)}
        assert not [n for n in world.store.nodes.values() if n.held is not None]
        assert not [e for e in world.history.with_verbs(log.BIND, actor=OTHER_SCHEDULER) if e.changed]


def test_without_the_taint_the_replacements_take_the_room() -> None:
    """The other scheduler binds them as soon as one victim is gone, so more pods leave, and in vain."""
    world = story(30.0, hold_room="never")
    removed = {e.uid for e in world.history.with_verbs(log.DELETE, actor=log.SCHEDULER)}
    assert members_bound(world) < NODES or len(removed) > NODES


def test_the_other_scheduler_respects_taints_and_room() -> None:
    """Pods go to the first node by name that has room and no taint that they do not tolerate, the strongest first."""
    held = msgspec.structs.replace(node("n0").obj(), held=Held("1-1.py-gang-scheduler", 0))
    tainted = msgspec.structs.replace(node("n1").obj(), taints=(Taint("x", "", "NoSchedule"),))
    world = World.of(
        [
            *(Changed(each) for each in (held, tainted, node("n2").obj())),
            Changed(pod("weak").cpu(3).scheduler(OTHERS).obj()),
            Changed(pod("strong").cpu(3).priority(9).scheduler(OTHERS).obj()),
            Changed(pod("ours").cpu(1).obj()),
        ]
    )
    OtherScheduler(world.clock, world.store, world.timing)
    world.clock.advance_to(world.clock.now + 5.0)
    assert {p.name: p.node for p in world.store.pods.values()} == {"weak": "", "strong": "n2", "ours": ""}
