"""Victims that are told when they will leave, some of which save their work or end until then."""

from __future__ import annotations

import random

import msgspec

from gangsched.cluster.sim import World
from gangsched.cluster.sim import history as log
from gangsched.core.actuation.records import read_owners
from gangsched.core.events import Event
from gangsched.model.records import Pod
from gangsched.model.times import parse_time
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


def left_too_early(world: World) -> list[str]:
    """Pods that the scheduler has removed or marked before the time that stood on them as the earliest."""
    start = world.clock.start
    out, times = [], dict[str, float]()
    for entry in world.history:
        if entry.actor != log.SCHEDULER or entry.outcome != log.OK:
            continue
        if entry.verb == log.MARK:
            found = read_owners(entry.detail.get("owners", "")) or ()
            times[entry.uid] = min((parse_time(o.not_before, "") for o in found), default=0.0)
        marked = entry.verb == log.MARK and entry.detail["message"]
        early = times.get(entry.uid, 0.0) - (start + entry.at_seconds)
        if early > 0 and entry.changed and (marked or entry.verb in (log.DELETE, log.EVICT)):
            out.append(f"at {entry.at_seconds:.3f} s: {entry.object} was told to have {early:.3f} s more")
    return out
