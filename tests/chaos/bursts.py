"""Many gangs that come in one moment, so that their plans share victims, budgets and gangs; some go again at once."""

from __future__ import annotations

import random

import msgspec

from gangsched.cluster.sim import World
from gangsched.cluster.sim.history import MARK, NOMINATE
from gangsched.core.events import Changed, Event, Gone
from gangsched.model.records import SINGLE, Gang, GangId, Pod
from tests import generators
from tests.chaos.priorities import as_soon_as
from tests.chaos.trouble import GONE_BY_USER, Part, Trouble, at_random, small_shapes

_ARRIVAL = "sim.gangsched.dev/arrive-after"


def part(seed: int, events: list[Event]) -> Part:
    """All that waits is there from the start, with two to six gangs more. Up to three times one of them goes as soon
    as members are nominated, or victims marked.
    """
    chance = random.Random(f"{seed}/burst")
    out = [_at_once(event) for event in events]
    shapes = small_shapes(out)
    for number in range(chance.randint(2, 6)):
        size, priority = chance.choice((1, 1, 2, 3)), chance.randint(1, 6) * 1000
        name, shape = f"burst-{number}", chance.choice(shapes)
        ident = GangId(generators.FAMILY if size > 1 else SINGLE, generators.NAMESPACE, name, generators.SCHEDULER)
        for member in range(size):
            made = Pod(
                namespace=generators.NAMESPACE,
                name=name if size == 1 else f"{name}-{member}",
                uid=f"uid-{name}-{member}",
                shape=shape,
                gang=ident,
                scheduler=generators.SCHEDULER,
                priority=priority,
                created=float(number),
            )
            out.append(Changed(made))
        if size > 1:
            uid = f"gang-{name}"
            out.append(Changed(Gang(generators.FAMILY, generators.NAMESPACE, name, uid=uid, min_member=size)))
    troubles = []
    for number in range(chance.randint(0, 3)):
        act = as_soon_as(chance.choice((NOMINATE, MARK)), give_up)
        moment = round(chance.choice((0.0, chance.uniform(0.0, 5.0))), 3)
        troubles.append(Trouble(moment, "give_up", at_random(act, f"{seed}/burst trouble/{number}")))
    return Part(out, troubles)


def _at_once(event: Event) -> Event:
    if isinstance(event, Changed) and isinstance(event.record, Pod) and _ARRIVAL in event.record.hints:
        hints = {name: text for name, text in event.record.hints.items() if name != _ARRIVAL}
        return Changed(msgspec.structs.replace(event.record, hints=hints))
    return event


def give_up(world: World, chance: random.Random) -> None:
    """A pod that has been nominated is deleted: its gang needs no room any more."""
    found = sorted((p for p in world.store.pods.values() if p.nominated_node and not p.node), key=lambda p: p.key)
    if found:
        gone = chance.choice(found)
        world.store.apply(Gone("Pod", gone.namespace, gone.name, gone.uid), GONE_BY_USER)
