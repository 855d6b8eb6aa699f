"""Victims that are told when they will leave, some of which save their work or end until then."""

from __future__ import annotations

import random

import msgspec

from gangsched.cluster.sim import World
from gangsched.core.events import Event
from gangsched.model.records import Pod
from tests.chaos.trouble import CHANGED, Part, some_of


def part(seed: int, events: list[Event]) -> Part:
    """No other objects; each victim has some notice."""
    chance = random.Random(f"{seed}/notice")
    troubles = some_of((save, save, end), f"{seed}/notice troubles", most=6)
    return Part(events, troubles, options={"notice": (("", chance.choice((2.0, 5.0, 20.0))),)})


def save(world: World, chance: random.Random) -> None:
    """A pod saves its work and says so."""
    pod = _told(world, chance)
    if pod is not None:
        stakes = msgspec.structs.replace(pod.stakes, checkpoint=world.clock.stamp)
        world.store.put_pod(msgspec.structs.replace(pod, stakes=stakes), CHANGED)


def end(world: World, chance: random.Random) -> None:
    """A pod ends."""
    pod = _told(world, chance)
    if pod is not None:
        world.store.put_pod(msgspec.structs.replace(pod, phase="Succeeded", ended=world.clock.stamp), CHANGED)


def _told(world: World, chance: random.Random) -> Pod | None:
    """One of those who have been told that they will leave, or else of all that run."""
    running = sorted((p for p in world.store.pods.values() if p.node and p.live), key=lambda p: p.key)
    told = [p for p in running if p.evicted_for is not None and p.evicted_for.reason == "Announced"]
    return chance.choice(told or running) if running else None
