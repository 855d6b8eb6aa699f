"""Whose turn it is: what the gangs that do not fit keep from those behind them in the queue.

Under the policy ``strict`` a blocked gang keeps every node that one of its members could use: nothing behind it goes
there. Work may still pass it on nodes that it cannot use, and a gang with a member that no node could ever take keeps
nothing. Kueue's StrictFIFO is the same rule for the quota of a ClusterQueue; here it is for nodes.

Under ``backfill`` work passes a blocked gang where there is room, until the gang has waited so long that room is
*reserved* for it: then others may have all but that (the reservation of EASY backfilling: Lifka, "The ANL/IBM SP
scheduling system", 1995). See :mod:`gangsched.core.queue.blocked_gang`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from gangsched.core.decision import Headline, Order, Verdict
from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.ledger.reservation import Turn, TurnReservation
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Phantom, Restriction, Simulation
from gangsched.core.state.snapshot import Bools
from gangsched.messages import answers, causes
from gangsched.messages.text import join_names

STRICT, BACKFILL = "strict", "backfill"


class Blocked(msgspec.Struct, frozen=True, eq=False):
    """A gang that does not fit. ``classes`` are its pending members' classes, ``pipeline`` has the filters of its
    scheduler name. ``forms`` are the classes of each of the members in the
    combinations of flavors in which its queue may admit it.
    """

    key: str
    name: str
    order: Order
    classes: tuple[PodClass, ...]
    pipeline: Pipeline
    forms: tuple[tuple[PodClass, ...], ...] = ()

    @property
    def members(self) -> tuple[tuple[PodClass, ...], ...]:
        """For each of its members, those that are alike aside, the classes of which one is enough."""
        return self.forms or tuple((pod,) for pod in self.classes)

    def usable(self, sim: Simulation) -> Bools:
        """``(N,)``: nodes that one of its members could use."""
        return usable(self.members, self.pipeline, sim)


class Turns:
    """The blocked gangs, and the room that is reserved for their turns, by key. ``strict`` is the policy."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self._blocked: dict[str, Blocked] = {}
        self._reserved: dict[str, TurnReservation] = {}

    def put(self, gang: Blocked) -> None:
        """A gang does not fit."""
        self._blocked[gang.key] = gang

    def get(self, key: str) -> Blocked | None:
        """The blocked gang of that key."""
        return self._blocked.get(key)

    def unblock(self, key: str) -> tuple[Phantom, ...] | None:
        """Record that the gang is not blocked any more. Return its reservation, or None if it was not blocked."""
        return self.end(key) if self._blocked.pop(key, None) is not None else None

    def reserve(self, made: TurnReservation) -> None:
        """From now on exactly this is reserved for the turn of a blocked gang."""
        self._reserved[made.holder] = made

    def end(self, key: str) -> tuple[Phantom, ...]:
        """Nothing is reserved for the turn of this gang any more; returns what was."""
        made = self._reserved.pop(key, None)
        return made.pods if made is not None else ()

    def move(self, key: str, turn: Turn) -> None:
        """The place of this gang in the queue is another now."""
        made = self._reserved.get(key)
        if made is not None:
            self._reserved[key] = msgspec.structs.replace(made, turn=turn)

    def reclass(self, of_its_class: Callable[[Phantom], Phantom]) -> None:
        """Pods that were alike are distinguished from now on."""
        for key, made in self._reserved.items():
            self._reserved[key] = made.of_classes(of_its_class)

    @property
    def keep_something(self) -> bool:
        """Return True if any gang keeps anything from those behind it."""
        return bool(self._blocked if self.strict else self._reserved)

    def ahead(self, order: Order) -> list[Blocked]:
        """Return the gangs that keep something from a gang with this place in the queue, first first."""
        keeping = self._blocked.values() if self.strict else self.reserving()
        return sorted((b for b in keeping if b.order < order), key=lambda b: b.order)

    def reserving(self) -> list[Blocked]:
        """Return the gangs for which room is reserved."""
        return [self._blocked[key] for key in self._reserved]

    def reserved(self) -> list[TurnReservation]:
        """What is reserved, in the order of the queue."""
        return sorted(self._reserved.values(), key=lambda made: made.turn)

    def room_of(self, key: str) -> tuple[Phantom, ...]:
        """What is reserved for the turn of this gang."""
        made = self._reserved.get(key)
        return made.pods if made is not None else ()

    def since(self, key: str) -> float | None:
        """Since when something is reserved for the turn of this gang (seconds); None while nothing is."""
        made = self._reserved.get(key)
        return made.since if made is not None else None

    def known_end(self, key: str) -> bool:
        """Return whether it is known when what is reserved for the turn of this gang can be used."""
        made = self._reserved.get(key)
        return made is not None and made.known_end


def usable(members: Iterable[Sequence[PodClass]], pipeline: Pipeline, sim: Simulation) -> Bools:
    """``(N,)``: nodes that some of these members could use if it were alone there, in any of its classes; none when a
    member could use none.
    """
    out = np.zeros(sim.snapshot.size, dtype=np.bool_)
    for classes in members:
        mask = np.zeros(sim.snapshot.size, dtype=np.bool_)
        for pod in classes:
            mask |= _usable(pod, pipeline, sim)
        if not mask.any():
            return mask
        out |= mask
    return out


def _usable(pod: PodClass, pipeline: Pipeline, sim: Simulation) -> Bools:
    index, amounts = sim.snapshot.vector(pod.shape)
    if pipeline.unlimited is not None:
        counted = [not pipeline.unlimited(sim.snapshot.resources[i]) for i in index.tolist()]
        index, amounts = index[counted], amounts[counted]
    found: Bools = pipeline.static_mask(pod, sim) & (sim.snapshot.allocatable[index] >= amounts[:, None]).all(axis=0)
    return found


def kept_nodes(ahead: Iterable[Blocked], sim: Simulation) -> Restriction | None:
    """Return the nodes that strict order leaves to a gang behind these. None when they keep no node."""
    kept = np.zeros(sim.snapshot.size, dtype=np.bool_)
    names = []
    known: dict[tuple[int, tuple[tuple[int, ...], ...]], Bools] = {}
    for gang in ahead:
        alike = id(gang.pipeline), tuple(tuple(c.ident for c in classes) for classes in gang.members)
        if alike not in known:
            known[alike] = gang.usable(sim)
        if known[alike].any():
            kept |= known[alike]
            names.append(gang.name)
    if not names:
        return None
    return Restriction(~kept, ((causes.kept_for_others(names=join_names(names, 1)), kept),))


def both(one: Restriction | None, other: Restriction | None) -> Restriction | None:
    """Two restrictions as one."""
    if one is None or other is None:
        return one or other
    return Restriction(one.allowed & other.allowed, (*one.refused, *other.refused))


def waits_behind(found: Verdict, names: Sequence[str], strict: bool) -> Verdict:
    """The verdict on a gang that would fit but for what is kept for the gangs of these names."""
    why = causes.UNDER_STRICT_POLICY if strict else causes.FOR_RESERVED_ROOM
    ahead = f"behind {join_names(names, 1)} {why}"
    return found.but(headline=Headline(answers.NOT_NOW, ahead))
