"""Gangs whose members differ in priority, and what makes victims needless, or no victims any more, just when they are
chosen and before they leave.
"""

from __future__ import annotations

import random

import msgspec

from gangsched.cluster.sim import World
from gangsched.cluster.sim.history import CHANGE, KUBELET, MARK, NOMINATE, OK, SCHEDULER, Cause, Entry
from gangsched.core.events import Changed, Event, Gone
from gangsched.model.constraints import LabelSelector, Requirement
from gangsched.model.records import PREEMPT_NEVER, SINGLE, Budget, Gang, GangId, Pod
from tests import generators
from tests.chaos.trouble import CHANGED, CREATED, GONE_BY_USER, Act, Part, Trouble, at_random

_LOWER = (0, 500, 1500, 3000)


def part(seed: int, events: list[Event]) -> Part:
    """In half of the gangs one member in two has a priority below that of the others. One to four times somebody
    interferes as soon as members are nominated, or victims marked.
    """
    chance = random.Random(f"{seed}/priorities")
    mixed: dict[GangId, bool] = {}
    out: list[Event] = []
    for event in events:
        out.append(event)
        if not (isinstance(event, Changed) and isinstance(event.record, Pod)) or event.record.gang.family == SINGLE:
            continue
        if mixed.setdefault(event.record.gang, chance.random() < 0.5) and chance.random() < 0.5:
            lower = max(0, event.record.priority - chance.choice(_LOWER))
            out[-1] = Changed(msgspec.structs.replace(event.record, priority=lower))
    kinds = (
        join,
        lower_priority,
        lower_priority,
        end_victim,
        end_victim,
        need_fewer,
        forbid,
        forbid,
        make_room,
        make_room,
    )
    troubles = []
    for number in range(chance.randint(1, 4)):
        kind = chance.choice(kinds)
        moment = chance.choice((0.0, 0.0, round(chance.uniform(0.0, 20.0), 3)))
        act = as_soon_as(chance.choice((NOMINATE, MARK, MARK)), kind)
        troubles.append(Trouble(moment, kind.__name__, at_random(act, f"{seed}/priority trouble/{number}")))
    return Part(out, troubles)


def as_soon_as(verb: str, act: Act) -> Act:
    """The act a moment after the next write of this kind has taken effect."""

    def arm(world: World, chance: random.Random) -> None:
        armed = [chance.choice((0.0, 0.0, 0.02, 0.1, 0.4))]

        def see(entry: Entry) -> None:
            if armed and entry.verb == verb and entry.actor == SCHEDULER and entry.outcome == OK:
                world.after(armed.pop(), lambda: act(world, chance))

        world.history.subscribe(see)

    return arm


def _preemptor(world: World, chance: random.Random) -> Gang | None:
    """A group of which members are nominated."""
    pods = [p for p in world.store.pods.values() if p.live and not p.node and p.nominated_node]
    keys = {(p.gang.family, p.gang.namespace, p.gang.name) for p in pods}
    groups = [gang for key, gang in sorted(world.store.gangs.items()) if key in keys]
    return chance.choice(groups) if groups else None


def victims(world: World) -> list[Pod]:
    """The pods that are marked and still live."""
    pods = world.store.pods.values()
    return sorted((p for p in pods if p.node and p.live and p.disruption_target), key=lambda p: p.key)


def join(world: World, chance: random.Random) -> None:
    """Another member comes, of less priority than the others, or one that does not preempt."""
    gang = _preemptor(world, chance)
    if gang is None:
        return
    key = gang.family, gang.namespace, gang.name
    pods = world.store.pods.values()
    like = min((p for p in pods if key == (p.gang.family, p.gang.namespace, p.gang.name)), key=lambda p: p.key)
    name = f"{gang.name}-late-{chance.randint(0, 10**6)}"
    pod = Pod(
        namespace=like.namespace,
        name=name,
        uid=f"uid-{name}",
        shape=like.shape,
        gang=like.gang,
        scheduler=like.scheduler,
        priority=max(0, like.priority - chance.choice(_LOWER)),
        preemption_policy=PREEMPT_NEVER if chance.random() < 0.2 else like.preemption_policy,
        created=world.clock.stamp,
        grace_seconds=like.grace_seconds,
    )
    world.store.put_pod(pod, CREATED)


def _change(world: World, gang: Gang | None, **fields: object) -> None:
    if gang is not None:
        world.store.apply(Changed(msgspec.structs.replace(gang, **fields)), CHANGED)


def lower_priority(world: World, chance: random.Random) -> None:
    """A group gets a priority of its own, which may be below that of its victims."""
    _change(world, _preemptor(world, chance), priority=chance.choice((0, 0, 1000, 2000, 5000)))


def need_fewer(world: World, chance: random.Random) -> None:
    """A group runs with fewer members from now on."""
    gang = _preemptor(world, chance)
    if gang is not None and gang.min_member > 1:
        _change(world, gang, min_member=gang.min_member - 1)


def end_victim(world: World, chance: random.Random) -> None:
    """A victim ends by itself."""
    if some := victims(world):
        pod, phase = chance.choice(some), chance.choice(("Succeeded", "Failed"))
        ended = msgspec.structs.replace(pod, phase=phase, ended=world.clock.stamp)
        world.store.put_pod(ended, Cause(KUBELET, CHANGE))


def forbid(world: World, chance: random.Random) -> None:
    """The app of a victim may not be disrupted any more."""
    some = [pod for pod in victims(world) if "app" in pod.labels]
    if some:
        app = chance.choice(some).labels["app"]
        selector = LabelSelector((Requirement("app", "In", (app,)),))
        fresh = Budget(generators.NAMESPACE, f"late-{app}", selector, allowed=0, max_unavailable=0)
        world.store.apply(Changed(fresh), CREATED)


def make_room(world: World, chance: random.Random) -> None:
    """All other pods leave a node that somebody is nominated to, at once."""
    nodes = sorted({p.nominated_node for p in world.store.pods.values() if p.nominated_node and not p.node})
    if not nodes:
        return
    staying = {pod.uid for pod in victims(world)} if chance.random() < 0.7 else ()
    for pod in list(world.store.pods_on(chance.choice(nodes))):
        if pod.uid not in staying:
            world.store.apply(Gone("Pod", pod.namespace, pod.name, pod.uid), GONE_BY_USER)
