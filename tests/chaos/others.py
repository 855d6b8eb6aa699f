"""Another scheduler beside, whose pods are victims and are created again at once, and clients that edit taints."""

from __future__ import annotations

import random

import msgspec

from gangsched.cluster.sim import World
from gangsched.core.actions import HoldNode, ReleaseNode
from gangsched.core.events import Changed, Event
from gangsched.model.constraints import Taint
from gangsched.model.records import SINGLE, GangId, Node, Owner, Pod
from tests.chaos.trouble import CHANGED, CREATED, Crash, Part, Trouble, at_random, new_pod
from tests.cluster.sim.others import OtherScheduler, ReplicaController

NAME = "default-scheduler"
#: What somebody else keeps on every node.

KEPT = Taint("example.com/kept", "yes", "PreferNoSchedule")


def part(seed: int, events: list[Event]) -> Part:
    """Pods that run alone are mostly another scheduler's, of ReplicaSets. Every node has a taint that must stay, and
    others come and go beside it.
    """
    chance = random.Random(f"{seed}/others")
    made = [_changed(each, chance) for each in events]
    troubles = [Trouble(0.0, begin.__name__, at_random(begin, f"{seed}/begin"))]
    for number in range(chance.randint(4, 10)):
        moment = round(chance.uniform(0.5, 40.0), 3)
        kind = chance.choice((edit, edit, take_off, more, wants))
        troubles.append(Trouble(moment, kind.__name__, at_random(kind, f"{seed}/other/{number}")))
    of = chance.choice(((HoldNode,), (ReleaseNode,)))
    crash = Crash(chance.randint(1, 3), chance.random() < 0.5, chance.choice((0.0, 0.5, 5.0)), of)
    options = {"hold_room": chance.choice(("auto", "auto", "auto", "always"))}
    return Part(made, troubles, [crash] if chance.random() < 0.5 else [], options)


def _changed(event: Event, chance: random.Random) -> Event:
    match event:
        case Changed(Node() as node):
            return Changed(msgspec.structs.replace(node, taints=(*node.taints, KEPT)))
        case Changed(Pod() as pod) if pod.gang.family == SINGLE and pod.node and pod.owner is None:
            if chance.random() < 0.7:
                gang = GangId(SINGLE, pod.namespace, pod.name, NAME)
                owner = Owner("ReplicaSet", f"web-{pod.name}", f"uid-web-{pod.name}")
                return Changed(msgspec.structs.replace(pod, gang=gang, scheduler=NAME, owner=owner))
    return event


def begin(world: World, chance: random.Random) -> None:
    """The other scheduler and the controller begin to work."""
    lag = chance.choice((0.0, 0.0, 0.005))
    OtherScheduler(world.clock, world.store, world.timing, NAME, lag)
    ReplicaController(world.clock, world.store, world.timing)


def edit(world: World, chance: random.Random) -> None:
    """A client changes taints of its own on some nodes, and knows nothing of ours, which stays."""
    for node in _some_nodes(world, chance):
        taints = tuple(t for t in node.taints if t.key != "example.com/edited")
        edited = Taint("example.com/edited", str(chance.randint(0, 99)), "PreferNoSchedule")
        _apply(world, node, taints=(*taints, edited) if chance.random() < 0.7 else taints)


def take_off(world: World, chance: random.Random) -> None:
    """A client writes a list of taints that is out of date: ours is lost."""
    for node in _some_nodes(world, chance):
        _apply(world, node, held=None)


def more(world: World, chance: random.Random) -> None:
    """A ReplicaSet is scaled up: one or two more pods like one of those that run."""
    running = sorted((p for p in world.store.pods.values() if p.owner is not None and _of_others(p)), key=_key)
    if running:
        like = chance.choice(running)
        for number in range(chance.randint(1, 2)):
            _create(world, like, f"{like.name}-more-{chance.randint(0, 10**6)}-{number}", like.owner)


def wants(world: World, chance: random.Random) -> None:
    """A pod of the other scheduler comes that would fit where one of ours, or of its own, runs."""
    running = sorted((p for p in world.store.pods.values() if p.bound), key=_key)
    if running:
        _create(world, chance.choice(running), f"wants-{chance.randint(0, 10**6)}", None)


def _create(world: World, like: Pod, name: str, owner: Owner | None) -> None:
    more = {"priority": like.priority, "owner": owner, "grace_seconds": like.grace_seconds}
    world.store.put_pod(new_pod(name, like.shape, "", NAME, created=world.clock.stamp, **more), CREATED)


def _key(pod: Pod) -> str:
    return pod.key


def _of_others(pod: Pod) -> bool:
    return pod.scheduler == NAME and pod.live


def _some_nodes(world: World, chance: random.Random) -> list[Node]:
    nodes = [node for _, node in sorted(world.store.nodes.items())]
    return [node for node in nodes if chance.random() < 0.6]


def _apply(world: World, node: Node, **fields: object) -> None:
    world.store.apply(Changed(msgspec.structs.replace(node, **fields)), CHANGED)
