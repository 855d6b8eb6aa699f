"""Queues that are stopped and opened in the middle: ``stopPolicy: Hold`` and ``HoldAndDrain``. In half of them quota
is for two flavors: tainted nodes, which only the flavor tolerates, and the others.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from gangsched.cluster.sim import World
from gangsched.core.events import Changed, Event, record_of
from gangsched.model.constraints import PodShape, Taint, Toleration
from gangsched.model.queues import (
    QUEUE_LABEL,
    STOP_DRAIN,
    STOP_HOLD,
    STOP_NONE,
    ClusterQueue,
    FlavorQuota,
    Limits,
    LocalQueue,
    QueueObject,
    ResourceFlavor,
)
from gangsched.model.records import Gang, Job, Namespace, Node, Owner, Pod, QueueLabels
from tests import generators
from tests.chaos.trouble import CHANGED, Part, dies_in_the_middle, new_pod, small_shapes, some_of
from tests.core.quota.world import group, queue

#: The LocalQueues of the one ClusterQueue.
_LOCAL = ("team-a", "team-b")
_PLENTY = 2**50
_SPOT = ResourceFlavor("spot", {"pool": "spot"}, (Taint("spot", "", "NoSchedule"),), (Toleration("spot", "Exists"),))
_STEADY = ResourceFlavor("steady", {"pool": "steady"})


def part(seed: int, events: list[Event]) -> Part:
    """A ClusterQueue with two LocalQueues, up to three workloads in them, and somebody who stops them."""
    chance = random.Random(f"{seed}/queues")
    shapes = small_shapes(events)
    limits = {"cpu": chance.randint(4, 16) * 1000}
    quota = tuple((r, Limits(limits.get(r, _PLENTY))) for r in (*generators.RESOURCES, "pods"))
    within = chance.choice(("Never", "LowerPriority"))
    flavors = [ResourceFlavor("any")]
    if random.Random(f"{seed}/flavors").random() < 0.5:
        flavors, events = [_SPOT, _STEADY], _in_pools(seed, events)
    objects: list[QueueObject] = [
        *flavors,
        queue("all", "", group(*(FlavorQuota(f.name, quota) for f in flavors)), within=within),
        *(LocalQueue(generators.NAMESPACE, name, "all") for name in _LOCAL),
    ]
    made: list[Event] = [Changed(Namespace(generators.NAMESPACE)), *map(Changed, objects)]
    for number in range(chance.randint(1, 3)):
        make: Callable[..., list[Event]] = chance.choice((_job, _job, _gang, _pod))
        made += make(f"queued-{number}", chance, shapes)
    troubles = some_of((stop_queue,), f"{seed}/queue trouble", most=3)
    return Part([*events, *made], troubles, dies_in_the_middle(f"{seed}/drained"))


def _in_pools(seed: int, events: list[Event]) -> list[Event]:
    """The same with every node in one of the pools for which there are flavors."""
    chance, out = random.Random(f"{seed}/pools"), list[Event]()
    for event in events:
        node = record_of(event)
        if isinstance(node, Node):
            flavor = chance.choice((_SPOT, _STEADY))
            labels, taints = {**node.labels, **flavor.labels}, (*node.taints, *flavor.taints)
            event = Changed(msgspec.structs.replace(node, labels=labels, taints=taints))
        out.append(event)
    return out


def stop_queue(world: World, chance: random.Random) -> None:
    """One of the queues admits nobody any more, or makes those leave that it has admitted; mostly not for ever."""
    name = chance.choice(("all", *_LOCAL))
    policy = chance.choice((STOP_HOLD, STOP_DRAIN, STOP_DRAIN))
    _set_stop(world, name, policy)
    if chance.random() < 0.3:
        world.after(chance.choice((0.02, 5.0)), lambda: _set_stop(world, name, STOP_DRAIN))
    if chance.random() < 0.8:
        seconds = chance.choice((0.01, 0.05, 0.5, 2.0, 5.0, 20.0, 100.0))
        world.after(seconds, lambda: _set_stop(world, name, STOP_NONE))


def _set_stop(world: World, name: str, policy: str) -> None:
    for event in world.store.listing():
        record = record_of(event)
        if isinstance(record, ClusterQueue | LocalQueue) and record.name == name:
            world.store.apply(Changed(msgspec.structs.replace(record, stop=policy)), CHANGED)


def _member(name: str, group: str, chance: random.Random, shapes: list[PodShape], arrives: int) -> Pod:
    hints = {"sim.gangsched.dev/arrive-after": f"{arrives}s"}
    if chance.random() < 0.5:
        hints["sim.gangsched.dev/run-for"] = f"{chance.randint(5, 120)}s"
    return new_pod(
        name,
        chance.choice(shapes),
        group,
        hints=hints,
        priority=chance.choice((500, 1500, 3500)),
        grace_seconds=float(chance.choice((0, 1, 10))),
    )


def _job(name: str, chance: random.Random, shapes: list[PodShape]) -> list[Event]:
    """A Job, as often created suspended as not."""
    size, suspended, uid = chance.randint(1, 4), chance.random() < 0.5, f"uid-{name}"
    model = _member(name, "", chance, shapes, 0)
    template = msgspec.structs.replace(model, uid="", owner=Owner("Job", name, uid))
    job = Job(
        generators.NAMESPACE,
        name,
        uid,
        parallelism=size,
        completions=chance.choice((size, size + 2)),
        backoff_limit=chance.choice((0, 2, 6)),
        suspended=suspended,
        queue=QueueLabels(chance.choice(_LOCAL)),
        template=template,
    )
    names = () if suspended else tuple(f"{name}-{n}" for n in range(size))
    return [
        Changed(job),
        *(
            Changed(msgspec.structs.replace(template, name=n, uid=f"uid-{n}", gang=template.gang._replace(name=n)))
            for n in names
        ),
    ]


def _gang(name: str, chance: random.Random, shapes: list[PodShape]) -> list[Event]:
    """A gang whose group object names the queue."""
    size = chance.randint(2, 4)
    model = _member(name, name, chance, shapes, chance.choice((0, 0, 3)))
    spec = Gang(
        generators.FAMILY,
        generators.NAMESPACE,
        name,
        uid=f"gang-{name}",
        min_member=chance.randint(1, size),
        queue=QueueLabels(chance.choice(_LOCAL)),
    )
    members = (msgspec.structs.replace(model, name=f"{name}-{n}", uid=f"uid-{name}-{n}") for n in range(size))
    return [Changed(spec), *map(Changed, members)]


def _pod(name: str, chance: random.Random, shapes: list[PodShape]) -> list[Event]:
    """A pod with the label of a queue."""
    model = _member(name, "", chance, shapes, chance.choice((0, 0, 3)))
    return [Changed(msgspec.structs.replace(model, labels={QUEUE_LABEL: chance.choice(_LOCAL)}))]
