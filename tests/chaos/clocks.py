"""An API server whose clock is an hour ahead of the scheduler's, or behind it, and may be set while gangs preempt.

What decides about further victims must count the time that has passed, not compare stamps of two clocks. So some pods
take longer to stop than a gang waits, and some never do: whether they are stuck is asked before and after they are.
"""

from __future__ import annotations

import random

import msgspec

from gangsched.cluster.sim import World
from gangsched.core.events import Changed, Event
from gangsched.model.records import Pod
from tests.chaos.trouble import CHANGED, FIRST_TROUBLE, LAST_TROUBLE, Part, Trouble, at_random, some_of

HOUR = 3600.0


def part(seed: int, events: list[Event]) -> Part:
    """No other objects; the grace period of a third of the pods is longer than gangs wait."""
    chance = random.Random(f"{seed}/clocks")
    later = [round(chance.uniform(FIRST_TROUBLE, 2 * LAST_TROUBLE), 3) for _ in range(chance.choice((0, 1, 2)))]
    clocks = [Trouble(m, "set_clock", at_random(set_clock, f"{seed}/clocks/{n}")) for n, m in enumerate([0.0, *later])]
    return Part([_patient(e, chance) for e in events], [*clocks, *some_of((lose_kubelet,), f"{seed}/kubelets", most=2)])


def set_clock(world: World, chance: random.Random) -> None:
    """The clock that stamps objects is wrong by an hour from now on; the time that passes stays the same."""
    world.clock.server_ahead_seconds = chance.choice((-HOUR, HOUR))


def lose_kubelet(world: World, chance: random.Random) -> None:
    """A node with terminating pods, or any, is lost from sight: its pods do not stop while that lasts."""
    nodes = [world.store.nodes[name] for name in sorted(world.store.nodes)]
    leaving = {p.node for p in world.store.pods.values() if p.deleting_since is not None}
    nodes = [node for node in nodes if node.name in leaving] or nodes
    if not nodes:
        return
    lost = chance.choice(nodes)
    world.store.apply(Changed(msgspec.structs.replace(lost, ready=False)), CHANGED)

    def come_back() -> None:
        now = world.store.nodes.get(lost.name)
        if now is not None:
            world.store.apply(Changed(msgspec.structs.replace(now, ready=True)), CHANGED)

    world.after(chance.choice((50.0, 120.0, 200.0)), come_back)


def _patient(event: Event, chance: random.Random) -> Event:
    if (
        not (isinstance(event, Changed) and isinstance(event.record, Pod))
        or event.record.deleting_since is not None
        or chance.random() >= 1 / 3
    ):
        return event
    return Changed(msgspec.structs.replace(event.record, grace_seconds=chance.choice((60.0, 150.0))))
