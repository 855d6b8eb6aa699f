"""Bindings, judged by what the process that asks for them had been told: room is given out once, and to whole gangs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from operator import itemgetter

import msgspec

from gangsched.core.actions import Action, Bind, Nominate, WithdrawNomination
from gangsched.core.actuation.records import intent_of
from gangsched.core.events import Event, WriteDone
from gangsched.model.records import GangId, Pod
from tests.chaos.told import Life, Told
from tests.judge.invariants import short_of

#: Within this time a plan that is over withdraws its nominations.
JUST_NOW_SECONDS = 0.1


class _Kept(msgspec.Struct):
    """Room on a node for a pod, with the priority of its gang when that was asked for, and the number of the plan."""

    pod: Pod
    node: str
    priority: int
    number: int


class Room(Life):
    """No node is given out twice: a pod is bound where there is room for it beside all pods that are there or about to
    be, and beside nominated members of other gangs of at least its priority. Plans of its own priority that were made
    after its plan were made with its room taken.

    Nothing is said about the room of a gang of which a write has no answer, or had none until just now: its plan may be
    over with that, and its nominations are withdrawn next. Nor about that of queued gangs among each other, in which
    other things than priority count.
    """

    def __init__(self, told: Told) -> None:
        super().__init__(told)
        self._kept: dict[str, _Kept] = {}
        self._numbers = itertools.count()
        self._answered: dict[str, float] = {}
        self._began = 0.0

    def hears(self, event: Event) -> None:
        """A write has its answer."""
        if isinstance(event, WriteDone):
            self._answered.update(dict.fromkeys(self.told.open.get(event.action_id, ()), self.now))

    def begins(self) -> None:
        """Nominations of an earlier process hold room; its plans were made before any of this one. Those that cannot be
        carried out any more are withdrawn next.
        """
        self._began = self.now
        found = [(_age(intent.plan), pod) for pod in self.told.pods.values() if (intent := intent_of(pod)) is not None]
        for number, (_, pod) in enumerate(sorted(found, key=itemgetter(0)), -len(found)):
            self._keep(pod, pod.nominated_node, number)

    def _keep(self, pod: Pod, node: str, number: int) -> None:
        self._kept[pod.uid] = _Kept(pod, node, self.told.priority(pod.gang), number)

    def asks(self, action: Action) -> Iterator[str]:
        """What is wrong with a binding."""
        match action:
            case Nominate(_, ref, node) if ref.uid in self.told.pods:
                self._keep(self.told.pods[ref.uid], node, next(self._numbers))
            case WithdrawNomination():
                self._kept.pop(action.pod.uid, None)
            case Bind(_, ref, node) if ref.uid in self.told.pods:
                own = self._kept.pop(ref.uid, None)
                if self.told.tried.get(ref.uid) != node:  # else it is asked for again: it may have taken effect
                    planned = own.number if own is not None and own.node == node else math.inf
                    yield from self._gives(self.told.pods[ref.uid], node, planned)

    def _gives(self, pod: Pod, name: str, planned: float) -> Iterator[str]:
        told, node = self.told, self.told.nodes.get(name)
        there = [p for p in told.on(name) if p.uid != pod.uid]
        about = f"{pod.key} of {pod.gang.key} is bound to {name}"
        if lacks := short_of(node, [*there, pod], pod):
            yield f"{about}, which has {', '.join(lacks)} asked for"
            return
        priority, queued = told.priority(pod.gang), told.queue_of(pod)
        busy = told.busy | {gang for gang, at in self._answered.items() if self.now - at < JUST_NOW_SECONDS}
        kept = [
            each
            for uid, each in self._kept.items()
            if (known := told.pods.get(uid)) is not None
            and known.live
            and not known.node
            and each.node == name
            and (each.number >= 0 or self.now - self._began >= JUST_NOW_SECONDS)
            and known.gang != pod.gang
            and known.gang.key not in busy
            and not (queued and told.queue_of(known))
            and min(each.priority, told.priority(known.gang)) >= priority + (each.number > planned)
        ]
        if kept and short_of(node, [*there, *(each.pod for each in kept), pod], pod):
            names = ", ".join(f"{each.pod.key} of {each.pod.gang.key} (priority {each.priority})" for each in kept)
            yield f"{about} (priority {priority}), into the room of {names}"


def _age(plan: str) -> tuple[int, int]:
    """What orders plans by their ids: the time, and the number of the decision."""
    moment, _, number = plan.partition("-")
    return (int(moment, 16), int(number)) if number.isdigit() else (-1, -1)


class Whole(Life):
    """All members that a gang lacks are asked for together, or none; none while its queue is stopped, unless the gang
    runs already. A binding that is asked for again begins nothing: it may have taken effect.
    """

    def __init__(self, told: Told) -> None:
        super().__init__(told)
        self._begun: dict[GangId, Pod] = {}

    def asks(self, action: Action) -> Iterator[str]:
        """What is wrong with a binding by itself."""
        pod = self.told.pods.get(action.pod.uid) if isinstance(action, Bind) else None
        if pod is None or not isinstance(action, Bind) or self.told.tried.get(pod.uid) == action.node:
            return
        if pod.gang not in self._begun and not self.told.placed(pod.gang) and self.told.stopped(pod):
            yield f"{pod.gang.key} starts, though {self.told.queue_of(pod)} is stopped"
        self._begun[pod.gang] = pod

    def rests(self) -> Iterator[str]:
        """The gangs that lack members still."""
        for gang in self._begun:
            if lacks := self.told.lacking(gang):
                yield f"{gang.key} lacks {lacks} more"
        self._begun.clear()
