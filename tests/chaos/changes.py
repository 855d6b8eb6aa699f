"""Group objects that are deleted and made again, minimums and budgets that change in the middle of everything."""

from __future__ import annotations

import random

import msgspec

from gangsched.cluster.sim import World
from gangsched.core.events import Changed, Event, Gone
from gangsched.model.constraints import LabelSelector, Requirement
from gangsched.model.records import Budget, Gang
from tests import generators
from tests.chaos.trouble import CHANGED, CREATED, GONE_BY_USER, Part, some_of


def part(seed: int, events: list[Event]) -> Part:
    """No other objects than there are."""
    kinds = (recreate_group, recreate_group, move_minimum, forbid_disruptions, forbid_disruptions)
    return Part(events, some_of(kinds, f"{seed}/change", most=4))


def _pick_gang(world: World, chance: random.Random) -> Gang | None:
    gangs = sorted(world.store.gangs.values(), key=lambda g: g.key)
    return chance.choice(gangs) if gangs else None


def recreate_group(world: World, chance: random.Random) -> None:
    """Another group of the same name, a moment later, which may need fewer members or more."""
    gang = _pick_gang(world, chance)
    if gang is None:
        return
    world.store.apply(Gone("PodGroup", gang.namespace, gang.name, group=gang.family), GONE_BY_USER)
    minimum = max(1, gang.min_member + chance.choice((-1, 0, 0, 1)))
    fresh = msgspec.structs.replace(gang, uid=f"{gang.uid}-again", min_member=minimum, status=None)

    def create() -> None:
        if (fresh.family, fresh.namespace, fresh.name) not in world.store.gangs:
            made = msgspec.structs.replace(fresh, created=world.clock.stamp)
            world.store.apply(Changed(made), CREATED)

    world.after(chance.choice((0.0, 0.003, 0.5, 5.0)), create)


def move_minimum(world: World, chance: random.Random) -> None:
    """A group needs more members for a while, and then as many as before, or fewer."""
    gang = _pick_gang(world, chance)
    if gang is None:
        return
    key = gang.family, gang.namespace, gang.name

    def set_to(minimum: int) -> None:
        now = world.store.gangs.get(key)
        if now is not None:
            world.store.apply(Changed(msgspec.structs.replace(now, min_member=minimum)), CHANGED)

    set_to(gang.min_member + 1)
    then = max(1, gang.min_member - chance.choice((0, 1)))
    world.after(chance.choice((0.02, 0.3, 3.0)), lambda: set_to(then))


def forbid_disruptions(world: World, chance: random.Random) -> None:
    """No pod of an app may be disrupted any more: by its budget, or by a new one; mostly not for ever."""
    budgets = sorted(world.store.budgets.values(), key=lambda b: b.key)
    app = chance.choice(("red", "green", "blue"))
    fresh = Budget(generators.NAMESPACE, f"none-{app}", LabelSelector((Requirement("app", "In", (app,)),)))
    old = chance.choice(budgets) if budgets and chance.random() < 0.7 else None
    strict = msgspec.structs.replace(old or fresh, min_available=None, max_unavailable=0, allowed=0)
    world.store.apply(Changed(strict), CHANGED if old is not None else CREATED)
    if chance.random() < 0.7:

        def relent() -> None:
            """The status stays as it is until the controller has seen that."""
            now = world.store.budgets.get((strict.namespace, strict.name))
            if old is None:
                world.store.apply(Gone("PodDisruptionBudget", strict.namespace, strict.name), CHANGED)
            elif now is not None:
                back = {"min_available": old.min_available, "max_unavailable": old.max_unavailable}
                world.store.apply(Changed(msgspec.structs.replace(now, **back)), CHANGED)

        world.after(chance.choice((0.1, 3.0, 30.0)), relent)
