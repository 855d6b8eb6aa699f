"""Gangs that run and lose members, and weaker pods that come before these are made again."""

from __future__ import annotations

import random

import msgspec

from gangsched.cluster.sim import World
from gangsched.core.events import Event, Gone
from gangsched.model.records import SINGLE, GangId, Pod
from tests import generators
from tests.chaos.trouble import CHANGED, CREATED, GONE_BY_USER, Part, Trouble, at_random


def part(seed: int, events: list[Event]) -> Part:
    """Two to four members are deleted or fail, most of them as soon as their gangs have come to rest."""
    chance = random.Random(f"{seed}/losses")
    troubles = []
    for number in range(chance.randint(2, 4)):
        moment = round(chance.uniform(3.0, 60.0), 3)
        troubles.append(Trouble(moment, lose.__name__, at_random(lose, f"{seed}/loss/{number}")))
    return Part(events, troubles)


def lose(world: World, chance: random.Random) -> None:
    """A member that runs is gone or terminates. A pod like it comes, of its priority or less, which would fit in its
    room; and mostly its successor, later.
    """
    pods = [p for p in world.store.pods.values() if p.gang.family != SINGLE and p.node and p.live and p.owner is None]
    if not pods:
        return
    pod = min(pods, key=lambda p: (p.node, p.key)) if chance.random() < 0.3 else chance.choice(pods)
    stays = chance.choice((0.0, 0.0, 0.5, 4.0))
    world.store.put_pod(msgspec.structs.replace(pod, deleting_since=world.clock.stamp + stays), CHANGED)

    def end() -> None:
        world.store.apply(Gone("Pod", pod.namespace, pod.name, pod.uid), GONE_BY_USER)

    world.after(stays, end)
    for number in range(chance.randint(1, 2)):
        name = f"chancer-{chance.randint(0, 10**6)}-{number}"
        single = GangId(SINGLE, generators.NAMESPACE, name, generators.SCHEDULER)
        rival = _like(pod, name, single, max(0, pod.priority - chance.choice((0, 0, 1000))))
        _later(world, rival, stays + chance.choice((0.01, 0.5, 5.0, 25.0)))
    if chance.random() < 0.7:
        heir = _like(pod, f"{pod.name}-{chance.randint(0, 10**6)}", pod.gang, pod.priority)
        _later(world, heir, stays + chance.choice((0.5, 3.0, 20.0)))


def _like(pod: Pod, name: str, gang: GangId, priority: int) -> Pod:
    return Pod(
        namespace=pod.namespace,
        name=name,
        uid=f"uid-{name}",
        shape=pod.shape,
        gang=gang,
        scheduler=generators.SCHEDULER,
        labels=pod.labels,
        priority=priority,
        grace_seconds=pod.grace_seconds,
    )


def _later(world: World, pod: Pod, seconds: float) -> None:
    def create() -> None:
        if (pod.namespace, pod.name) not in world.store.pods:
            world.store.put_pod(msgspec.structs.replace(pod, created=world.clock.stamp), CREATED)

    world.after(seconds, create)
