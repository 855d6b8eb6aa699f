"""What is kept for members that gangs announce: of each resource no more for one namespace than its share.

Members that do not exist count against no ResourceQuota. So whoever may write a group in one namespace could keep a
whole cluster from all others with it, and again and again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gangsched.core.arrays import Floats
from gangsched.core.decision import group_key
from gangsched.core.ledger.ledger import Kind, announced_by, group_of
from gangsched.core.state.podtable import PodClass
from gangsched.core.world.world import World, keep_room
from gangsched.model.records import GangId, Pod


def keep_announced(world: World, gangs: Sequence[GangId], places: Sequence[tuple[Pod, str]], share: float) -> None:
    """From now on exactly this is kept for what these gangs announce, as far as the share of their namespace goes."""
    key, snapshot = announced_by(group_key(tuple(gangs))), world.snapshot
    classes = [snapshot.class_of(pod) for pod, _ in places]
    left = _left(world, key, gangs[0].namespace, share)
    kept = []
    for place, pod in zip(places, classes, strict=True):
        index, amounts = snapshot.vector(pod.shape)
        if (left[index] >= amounts).all():
            np.subtract.at(left, index, amounts)
            kept.append(place)
    keep_room(world, key, gangs, kept, Kind.ANNOUNCED)


def _left(world: World, key: str, namespace: str, share: float) -> Floats:
    """``(R,)``: what may still be kept for this namespace, beside what its other gangs have."""
    snapshot, ledger = world.snapshot, world.ledger
    snapshot.settle()
    left: Floats = snapshot.allocatable.sum(axis=1) * share
    for holder in ledger.holders():
        made = ledger.of(holder)
        if made is None or made.kind is not Kind.ANNOUNCED or holder == key:
            continue
        if group_of(holder).startswith(f"{namespace}/"):
            for phantom in made.pods:
                _charge(left, world, phantom.pod)
    return left


def _charge(left: Floats, world: World, pod: PodClass) -> None:
    index, amounts = world.snapshot.vector(pod.shape)
    np.subtract.at(left, index, amounts)
