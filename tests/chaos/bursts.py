"""Many gangs that come in one moment, so that their plans share victims, budgets and gangs; some go again at once, and
some come just when victims have begun to leave.
"""

from __future__ import annotations

import random

import msgspec

from gangsched.cluster.sim import World
from gangsched.cluster.sim.history import DELETE, EVICT, MARK, NOMINATE
from gangsched.core.events import Changed, Event, Gone
from gangsched.model.constraints import LabelSelector
from gangsched.model.records import SINGLE, Gang, GangId, Pod
from tests import generators
from tests.chaos.priorities import as_soon_as
from tests.chaos.trouble import CHANGED, CREATED, GONE_BY_USER, Part, Trouble, at_random, small_shapes

_ARRIVAL = "sim.gangsched.dev/arrive-after"


def part(seed: int, events: list[Event]) -> Part:
    """All that waits is there from the start, with two to six gangs more. Up to three times one of them goes as soon
    as members are nominated, or victims marked; and up to three times one comes as soon as a pod was removed, when
    all budgets are shown once more.
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
    return Part(out, troubles + _latecomers(seed))


def _latecomers(seed: int) -> list[Trouble]:
    chance = random.Random(f"{seed}/latecomers")
    out = []
    for number in range(chance.randint(0, 3)):
        act = as_soon_as(chance.choice((DELETE, DELETE, EVICT)), come_late)
        moment = round(chance.choice((0.0, chance.uniform(0.0, 5.0))), 3)
        out.append(Trouble(moment, "come_late", at_random(act, f"{seed}/latecomer/{number}")))
    return out


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


def come_late(world: World, chance: random.Random) -> None:
    """A pod that needs as much as one that runs, and is worth more than that. Just then somebody changes the budgets
    in a way that means nothing: each is shown with the status that it had before.
    """
    for budget in list(world.store.budgets.values()):
        world.store.apply(Changed(msgspec.structs.replace(budget, selector=_reworded(budget.selector))), CHANGED)
    some = sorted((p for p in world.store.pods.values() if p.bound and p.priority < 9000), key=lambda p: p.key)
    if some:
        like, name = chance.choice(some), f"late-{chance.randint(0, 10**6)}"
        pod = Pod(
            namespace=generators.NAMESPACE,
            name=name,
            uid=f"uid-{name}",
            shape=like.shape,
            gang=GangId(SINGLE, generators.NAMESPACE, name, generators.SCHEDULER),
            scheduler=generators.SCHEDULER,
            priority=like.priority + chance.choice((1000, 3000)),
            created=world.clock.stamp,
        )
        world.store.put_pod(pod, CREATED)


def _reworded(selector: LabelSelector | None) -> LabelSelector | None:
    """The same selector, which says something twice, or no longer does."""
    if selector is None:
        return None
    once = tuple(dict.fromkeys(selector.requirements))
    return LabelSelector(once if len(once) < len(selector.requirements) else 2 * once)
