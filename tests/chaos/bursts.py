"""Many gangs that come in one moment, so that their plans share victims, budgets and gangs; some go again at once, and
some come just when victims have begun to leave.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec

from gangsched.cluster.sim import World
from gangsched.cluster.sim.history import DELETE, EVICT, MARK, NOMINATE
from gangsched.core.events import Changed, Event, Gone, records
from gangsched.model.constraints import LabelSelector, Requirement
from gangsched.model.records import Budget, Gang, Pod
from gangsched.model.selectors import selector_matches
from tests import generators
from tests.chaos.priorities import as_soon_as
from tests.chaos.trouble import CHANGED, CREATED, GONE_BY_USER, Part, Trouble, at_random, new_pod, small_shapes

_NUMBERS: tuple[dict[str, Any], ...] = ({"max_unavailable": 1}, {"max_unavailable": 2}, {"min_available": 1})
_ARRIVAL = "sim.gangsched.dev/arrive-after"


def part(seed: int, events: list[Event]) -> Part:
    """All that waits is there from the start, with two to six gangs more. Up to three times one of them goes as soon
    as members are nominated, or victims marked. In half of the cases all apps have budgets, and one to three times pods
    come as soon as another one was removed.
    """
    chance = random.Random(f"{seed}/burst")
    out = [_at_once(event) for event in events]
    shapes = small_shapes(out)
    for number in range(chance.randint(2, 6)):
        size, priority = chance.choice((1, 1, 2, 3)), chance.randint(1, 6) * 1000
        name, shape = f"burst-{number}", chance.choice(shapes)
        for member in range(size):
            more: dict[str, Any] = {"uid": f"uid-{name}-{member}", "priority": priority, "created": float(number)}
            made = new_pod(f"{name}-{member}", shape, name, **more) if size > 1 else new_pod(name, shape, **more)
            out.append(Changed(made))
        if size > 1:
            uid = f"gang-{name}"
            out.append(Changed(Gang(generators.FAMILY, generators.NAMESPACE, name, uid=uid, min_member=size)))
    troubles = []
    for number in range(chance.randint(0, 3)):
        act = as_soon_as(chance.choice((NOMINATE, MARK)), give_up)
        moment = round(chance.choice((0.0, chance.uniform(0.0, 5.0))), 3)
        troubles.append(Trouble(moment, "give_up", at_random(act, f"{seed}/burst trouble/{number}")))
    budgets, latecomers = _latecomers(seed, out)
    return Part([*out, *budgets], [*troubles, *latecomers])


def _latecomers(seed: int, events: list[Event]) -> tuple[list[Event], list[Trouble]]:
    chance = random.Random(f"{seed}/latecomers")
    if chance.random() < 0.5:
        return [], []
    there = {budget.selector for budget in records(events, Budget)}
    budgets: list[Event] = []
    for app in ("red", "green", "blue"):
        numbers, selector = chance.choice(_NUMBERS), LabelSelector((Requirement("app", "In", (app,)),))
        if selector not in there:
            budgets.append(Changed(Budget(generators.NAMESPACE, f"burst-{app}", selector, **numbers)))
    troubles = []
    for number in range(chance.randint(1, 3)):
        act = as_soon_as(chance.choice((DELETE, DELETE, EVICT)), come_late)
        moment = round(chance.choice((0.0, chance.uniform(0.0, 5.0))), 3)
        troubles.append(Trouble(moment, "come_late", at_random(act, f"{seed}/latecomers/{number}")))
    return budgets, troubles


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
    """One pod or two, each of which needs as much as one that runs and is worth more than that, if there is one beside
    those that leave under the same budget. Just then somebody changes the budgets in a way that means nothing: each is
    shown with the status that it had before.
    """
    for budget in list(world.store.budgets.values()):
        world.store.apply(Changed(msgspec.structs.replace(budget, selector=_reworded(budget.selector))), CHANGED)
    pods = sorted((p for p in world.store.pods.values() if p.bound and p.priority < 9000), key=lambda p: p.key)
    stay = [pod for pod in pods if pod.live]
    spent = [b.selector for b in world.store.budgets.values() if any(_of(b.selector, p) for p in pods if not p.live)]
    some = [pod for pod in stay if any(_of(selector, pod) for selector in spent)] or stay
    for like in chance.sample(some, min(len(some), chance.randint(1, 2))):
        name, priority = f"late-{chance.randint(0, 10**6)}", like.priority + chance.choice((1000, 3000))
        world.store.put_pod(new_pod(name, like.shape, priority=priority, created=world.clock.stamp), CREATED)


def _of(selector: LabelSelector | None, pod: Pod) -> bool:
    return selector_matches(selector, pod.labels)


def _reworded(selector: LabelSelector | None) -> LabelSelector | None:
    """The same selector, which says something twice, or no longer does."""
    if selector is None:
        return None
    once = tuple(dict.fromkeys(selector.requirements))
    return LabelSelector(once if len(once) < len(selector.requirements) else 2 * once)
