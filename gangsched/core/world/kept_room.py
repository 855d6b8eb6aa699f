"""Room that is kept for gangs, for their members and those that they announce, and for which others it is taken.

Of what is announced no more of each resource is kept for one namespace than its share. Members that do not exist count
against no ResourceQuota. So a user who may write a group in one namespace could block a whole cluster with it,
repeatedly.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from functools import partial

import msgspec
import numpy as np

from gangsched.core.arrays import Floats
from gangsched.core.decision import group_key
from gangsched.core.events import Change, Hint
from gangsched.core.ledger.ledger import Ledger
from gangsched.core.ledger.reservation import PlanReservation, Turn, announced_by
from gangsched.core.state.simulation import Phantom
from gangsched.core.world.world import World
from gangsched.model.records import GangId, Pod


def keep_room(
    world: World,
    ledger: Ledger,
    key: str,
    gangs: Sequence[GangId],
    places: Sequence[tuple[Pod, str]],
) -> None:
    """From now on exactly this room is kept under a key: for such pods on these nodes, with the gangs' priority."""
    priority = world.membership.preemptor_priority(gangs)
    nodes = {node for _, node in places}
    left = {p.node for p in ledger.pods_of(key)} - nodes
    ledger.work.changes += [Change(Hint.ROOM, name) for name in sorted(left)]
    pods = tuple(Phantom(world.snapshot.class_of(pod), pod.uid, node) for pod, node in places)
    ledger.hold(PlanReservation(key, pods, priority))
    if world.managed.active:
        ledger.work.changes += [Change(Hint.PROMISED, pod=pod) for pod, _ in places[:1]]
    ledger.may_have_taken(key, nodes, priority)


def taken_room(
    world: World, ledger: Ledger, priority: int, turn: Turn | None, own: Container[str]
) -> Iterator[Phantom]:
    """Return the pods whose room is taken for a gang of this ``priority`` and place in the queue. The room of the
    holders ``own``, which are its group and those that keep room for it, is not.

    ============================================ =====================================================
    Room is kept for                             It is taken for gangs
    ============================================ =====================================================
    members of a plan, and expected members      of the same or a lower priority
    the turn of a gang in the queue              behind it; those without a ``turn`` may use it
    pods that another scheduler has nominated    of a lower priority
    ============================================ =====================================================
    """
    for plan in ledger.plans():
        if plan.priority >= priority and plan.holder not in own:
            yield from as_now(world, plan.pods)
    if turn is not None:
        for reserved in ledger.turns.reserved():
            if reserved.turn < turn and reserved.holder not in own:
                yield from as_now(world, reserved.pods)
    for pod in world.foreign_nominations.above(priority):
        yield Phantom(world.snapshot.class_of(pod), pod.uid, pod.nominated_node)


def as_now(world: World, kept: Iterable[Phantom]) -> Iterator[Phantom]:
    """Yield pods for which room is kept as they are now: their claims may have got devices since, or be assumed to."""
    for each in kept:
        pod = world.members[each.uid] if each.pod.devices is not None and each.uid in world.members else None
        yield each if pod is None else Phantom(world.snapshot.class_of(pod), each.uid, each.node)


def left_over(world: World, ledger: Ledger, nodes: Iterable[str], but: str = "") -> dict[str, Floats]:
    """Return what each of these nodes has beyond the pods on it and the room that is kept there, ``(R,)`` by name. What
    is kept for turns, or for the holder ``but``, does not count.
    """
    snapshot = world.snapshot
    snapshot.align_rows()
    rows = {node: snapshot.row_of[node] for node in nodes if node in snapshot.row_of}
    free: dict[str, Floats] = {n: snapshot.allocatable[:, row] - snapshot.used[:, row] for n, row in rows.items()}
    for kept in ledger.kept_on(rows, but):
        index, amounts = snapshot.vector(kept.pod.shape)
        np.subtract.at(free[kept.node], index, amounts)
    return free


def renew_classes(world: World, ledger: Ledger, priority: int, members: Iterable[Pod]) -> None:
    """Give kept room the classes that its pods are of for a gang of this ``priority`` and with these ``members``: by
    the labels that terms have asked for since, pods that were alike may differ now.
    """
    foreign = world.foreign_nominations.above(priority)
    if ledger.empty and not foreign:
        return
    for pod in (*foreign, *members):
        world.snapshot.class_of(pod)  # its own terms may tell the others apart
    while ledger.told_apart != world.snapshot.told_apart:
        ledger.told_apart = world.snapshot.told_apart
        ledger.reclass(partial(_of_its_class, world))


def _of_its_class(world: World, kept: Phantom) -> Phantom:
    pod = world.members.get(kept.uid)
    return kept if pod is None else msgspec.structs.replace(kept, pod=world.snapshot.class_of(pod))


def keep_announced(
    world: World, ledger: Ledger, gangs: Sequence[GangId], places: Sequence[tuple[Pod, str]], share: float
) -> None:
    """From now on exactly this is kept for what these gangs announce, as far as the share of their namespace goes."""
    key, snapshot = announced_by(group_key(tuple(gangs))), world.snapshot
    classes = [snapshot.class_of(pod) for pod, _ in places]
    left = _left(world, ledger, key, gangs[0].namespace, share)
    kept = []
    for place, pod in zip(places, classes, strict=True):
        index, amounts = snapshot.vector(pod.shape)
        if (left[index] >= amounts).all():
            np.subtract.at(left, index, amounts)
            kept.append(place)
    keep_room(world, ledger, key, gangs, kept)


def _left(world: World, ledger: Ledger, key: str, namespace: str, share: float) -> Floats:
    """``(R,)``: what may still be kept for this namespace, beside what its other gangs have."""
    snapshot = world.snapshot
    snapshot.align_rows()
    left: Floats = snapshot.allocatable.sum(axis=1) * share
    for made in ledger.plans():
        if made.holder not in (key, made.group) and made.group.startswith(f"{namespace}/"):
            for index, amounts in (snapshot.vector(phantom.pod.shape) for phantom in made.pods):
                np.subtract.at(left, index, amounts)
    return left
