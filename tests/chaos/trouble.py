"""Something that others do to the cluster, at a moment; and what else a share of the seeds has beside the rest."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from gangsched.cluster.sim import World
from gangsched.cluster.sim.history import CHANGE, CREATE, GONE, USER, Cause
from gangsched.core.actions import Action, Mark, Remove, SuspendJob
from gangsched.core.events import Event, records
from gangsched.model.constraints import PodShape
from gangsched.model.records import SINGLE, GangId, Pod
from tests import generators

#: Troubles come between these moments, in seconds from the start: gangs arrive until 20 s.
FIRST_TROUBLE, LAST_TROUBLE = 0.05, 30.0

CHANGED, GONE_BY_USER, CREATED = Cause(USER, CHANGE), Cause(USER, GONE), Cause(USER, CREATE)

#: What somebody does: to which world, and where its chances come from.
Act = Callable[[World, random.Random], None]


class Trouble(msgspec.Struct, frozen=True):
    """Something that others do to the cluster, at a moment."""

    at_seconds: float
    name: str
    act: Callable[[World], None]


class Crash(msgspec.Struct, frozen=True):
    """The process dies after so many of its actions (``of`` these kinds); with ``lose_writes`` what is on its way is
    lost. The next one starts ``down_seconds`` after the last write of the dead one may have arrived.
    """

    after_actions: int
    lose_writes: bool
    down_seconds: float
    of: tuple[type[Action], ...] = ()

    def counts(self, action: Action) -> bool:
        """Is it one of these actions?"""
        return not self.of or isinstance(action, self.of)


class Part(msgspec.Struct):
    """What one part of a scenario makes of the cluster: ``events`` stand for those that it was given, ``options`` are
    the settings that it changes. Its ``crashes`` come beside the others: a process dies of whichever is first. A
    ``quiet`` one leaves out what all others do.
    """

    events: list[Event]
    troubles: list[Trouble] = []
    crashes: list[Crash] = []
    options: Mapping[str, Any] = {}
    quiet: bool = False


def new_pod(name: str, shape: PodShape, group: str = "", scheduler: str = generators.SCHEDULER, **fields: Any) -> Pod:
    """A pod of this scheduler, and of this group if it has one."""
    return Pod(
        namespace=generators.NAMESPACE,
        name=name,
        uid=fields.pop("uid", f"uid-{name}"),
        shape=shape,
        gang=GangId(generators.FAMILY if group else SINGLE, generators.NAMESPACE, group or name, scheduler),
        scheduler=scheduler,
        **fields,
    )


def at_random(kind: Act, seed: str) -> Callable[[World], None]:
    """The act with a generator of its own."""
    return lambda world: kind(world, random.Random(seed))


def some_of(kinds: Sequence[Act], seed: str, *, most: int, last_seconds: float = LAST_TROUBLE) -> list[Trouble]:
    """One to ``most`` of these, half of them in the first 3 seconds."""
    chance = random.Random(seed)
    out = []
    for n in range(chance.randint(1, most)):
        kind = chance.choice(kinds)
        moment = round(chance.uniform(FIRST_TROUBLE, last_seconds if chance.random() < 0.5 else 3.0), 3)
        out.append(Trouble(moment, kind.__name__.strip("_"), at_random(kind, f"{seed}/{n}")))
    return out


def dies_in_the_middle(seed: str) -> list[Crash]:
    """In half of the cases: the process dies while it marks or removes pods."""
    chance = random.Random(seed)
    of = chance.choice(((Mark,), (Remove, SuspendJob)))
    crash = Crash(chance.randint(1, 3), chance.random() < 0.5, chance.choice((0.0, 0.5, 5.0)), of)
    return [crash] if chance.random() < 0.5 else []


def small_shapes(events: Sequence[Event]) -> list[PodShape]:
    """Of the shapes of the pods among these events the half that asks for the least CPU: it fits more often."""
    shapes = {e.shape.requests: e.shape for e in records(events, Pod)}
    order = sorted(shapes, key=lambda requests: (dict(requests).get("cpu", 0), requests))
    return [shapes[requests] for requests in order[: (len(order) + 1) // 2]]
