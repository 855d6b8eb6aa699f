"""Marks that are taken back by others than the scheduler, while victims are marked and while they leave."""

from __future__ import annotations

import random

import msgspec

from gangsched.cluster.sim import World
from gangsched.cluster.sim.history import DELETE, EVICT, MARK, UNMARK, Cause
from gangsched.core.events import Event
from gangsched.model.records import Condition
from tests.chaos.priorities import as_soon_as, victims
from tests.chaos.trouble import Part, Trouble, at_random

#: A list is marked again so often; whose marks are taken back more often is let off.
MOST = 3
OTHERS = "another-controller"


def part(seed: int, events: list[Event]) -> Part:
    """One to three times marks are taken back: as soon as somebody is marked, or removed."""
    chance = random.Random(f"{seed}/marks")
    troubles = []
    for number in range(chance.randint(1, MOST)):
        kind = chance.choice((take_back_one, take_back_all))
        moment = chance.choice((0.0, 0.0, round(chance.uniform(0.0, 25.0), 3)))
        act = as_soon_as(chance.choice((MARK, DELETE, DELETE, EVICT)), kind)
        troubles.append(Trouble(moment, kind.__name__, at_random(act, f"{seed}/mark trouble/{number}")))
    return Part(events, troubles)


def take_back_one(world: World, chance: random.Random) -> None:
    """The mark of one victim that has not left is taken back."""
    marked = victims(world)
    if marked:
        _take_back(world, chance.choice(marked).key)


def take_back_all(world: World, chance: random.Random) -> None:
    """All of them are."""
    for pod in victims(world):
        _take_back(world, pod.key)


def _take_back(world: World, key: str) -> None:
    """As the disruption controller does with marks that nothing has followed for two minutes; but that one is to find
    none.
    """
    namespace, _, name = key.partition("/")
    pod = world.store.pods[namespace, name]
    condition = Condition("False", "PreemptionByScheduler", "", world.clock.stamp)
    world.store.put_pod(msgspec.structs.replace(pod, disruption=condition), Cause(OTHERS, UNMARK))
