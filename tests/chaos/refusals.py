"""Writes that the server refuses for good, as admission plug-ins and missing rights make it: not for all, and not for
ever.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from gangsched.cluster.sim import World
from gangsched.cluster.sim.faults import BEFORE, NEVER, Faults, WriteFault
from gangsched.core.actions import (
    Action,
    AllocateClaim,
    AskRemoval,
    Bind,
    BindVolume,
    Mark,
    Nominate,
    ReleaseClaim,
    Remove,
    ReserveClaim,
    SelectNode,
)
from gangsched.core.events import Event, Outcome

#: An outcome that no repetition changes.
REFUSED = Outcome.REFUSED


class Rule(msgspec.Struct, frozen=True):
    """While it stands, it refuses writes of these kinds: a binding by its pod and node (``anywhere``: by its pod), one
    of a volume by its claim, others by their pod. Which of them is drawn from ``seed``, and the same every time;
    ``share`` is how many.
    """

    seed: str
    kinds: tuple[type[Action], ...]
    share: float
    anywhere: bool = False

    def refuses(self, action: Action) -> bool:
        """Does it refuse this write?"""
        if not isinstance(action, self.kinds):
            return False
        match action:
            case Bind(node=node):
                about = action.pod.uid if self.anywhere else f"{action.pod.uid}/{node}"
            case BindVolume() | SelectNode():
                about = action.claim_uid
            case AllocateClaim() | ReserveClaim() | ReleaseClaim():
                about = action.claim.uid
            case Mark() | Nominate() | Remove() | AskRemoval():
                about = action.pod.uid
            case _:
                return False
        return random.Random(f"{self.seed}/{about}").random() < self.share


class Refusing:
    """Other faults, and besides them the refusals of all ``rules`` that stand."""

    def __init__(self, others: Faults) -> None:
        self.rules: list[Rule] = []
        self._others = others

    def write(self, action: Action) -> WriteFault:
        """What is refused changes nothing, whether the answer arrives or not."""
        fault = self._others.write(action)
        if not any(rule.refuses(action) for rule in self.rules):
            return fault
        if fault.fails != NEVER:
            return msgspec.structs.replace(fault, fails=BEFORE)
        return msgspec.structs.replace(fault, fails=BEFORE, outcome=REFUSED, message="injected refusal")

    def watch_delay_seconds(self, event: Event) -> float:
        """As the others have it."""
        return self._others.watch_delay_seconds(event)


def refuse_bindings(world: World, chance: random.Random) -> None:
    """Some pods on some nodes, or all of them, for a while."""
    _refuse(world, chance, (Bind,))


def refuse_others(world: World, chance: random.Random) -> None:
    """Records on some pods, or their removal, for a while."""
    removal = (Remove, AskRemoval)
    _refuse(world, chance, chance.choice(((Nominate,), (Mark,), removal, (Nominate, Mark, *removal))))


def refuse_members(world: World, chance: random.Random) -> None:
    """Some pods on all nodes, for a while: a gang is bound in part, and nothing that it does by itself helps."""
    _refuse(world, chance, (Bind,), (0.25, 0.5), (20.0, 60.0), anywhere=True)


def refuse_volumes(world: World, chance: random.Random) -> None:
    """What binds claims, or asks for new volumes, for a while."""
    _refuse(world, chance, (BindVolume, SelectNode))


def refuse_claims(world: World, chance: random.Random) -> None:
    """What gives devices to claims, or takes them back, for a while."""
    _refuse(world, chance, chance.choice(((AllocateClaim, ReserveClaim), (ReleaseClaim,))))


KINDS: tuple[Callable[[World, random.Random], None], ...] = (refuse_bindings, refuse_bindings, refuse_others)


def _refuse(
    world: World,
    chance: random.Random,
    kinds: tuple[type[Action], ...],
    shares: tuple[float, ...] = (0.3, 0.6, 1.0),
    seconds: tuple[float, ...] = (0.5, 5.0, 30.0, 120.0),
    *,
    anywhere: bool = False,
) -> None:
    faults = world.faults
    if not isinstance(faults, Refusing):
        return
    rule = Rule(str(chance.random()), kinds, chance.choice(shares), anywhere)
    faults.rules.append(rule)
    world.after(chance.choice(seconds), lambda: faults.rules.remove(rule))
