"""A gang that does not fit: what it is like, and its place among those that others may have to leave something to."""

from __future__ import annotations

from collections.abc import Sequence

from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.identity import group_key, names_of
from gangsched.core.queue.backfill import Blocked
from gangsched.core.queue.scheduling_queue import queue_order
from gangsched.core.queue.signature import Likeness
from gangsched.core.quota.flavored_pods import forms
from gangsched.core.state.podclass import PodClass
from gangsched.core.state.world import World
from gangsched.model.records import PREEMPT_NEVER, GangId


def likeness(world: World, gangs: Sequence[GangId]) -> Likeness:
    """What decides which events may help these gangs."""
    membership = world.membership
    census = [membership.census(g) for g in gangs]
    found = {c.ident: c for each in census for c in map(world.snapshot.class_of, each.pending)}
    specs = [membership.spec(g) for g in gangs]
    return Likeness(
        tuple(found[ident] for ident in sorted(found)),
        tuple(map(membership.required, gangs, census)),
        gangs[0].scheduler,
        membership.preemptor_priority(gangs),
        membership.policy(gangs) != PREEMPT_NEVER,
        tuple(spec.topology for spec in specs if spec is not None),
        world.managed.likeness(gangs),
    )


def block(world: World, gangs: Sequence[GangId], like: Likeness, pipeline: Pipeline) -> bool:
    """Note in ``world.turns`` that these gangs, whose filters are those of ``pipeline``, do not fit; what is reserved
    for them stays so as long as their members are the same.

    False when none of them lacks a required member: such a gang keeps nothing from others.
    """
    if not any(like.needs):
        return False
    key = group_key(gangs)
    known = world.turns.get(key)
    order = queue_order(world.membership, gangs)
    if known is not None and known.classes != like.classes:
        world.ledger.end_turn(key)
    world.ledger.move_turn(key, order)
    world.turns.put(Blocked(key, names_of(gangs), order, like.classes, pipeline, _forms(world, gangs)))
    return True


def _forms(world: World, gangs: Sequence[GangId]) -> tuple[tuple[PodClass, ...], ...]:
    """The classes of pending members in the flavors of their queue, a row for each that are alike; none without one."""
    managed, class_of = world.managed, world.snapshot.class_of
    queue = managed.queue_of(gangs)
    if queue is None:
        return ()
    out: dict[int, tuple[PodClass, ...]] = {}
    for pod in (p for gang in gangs for p in world.membership.census(gang).pending):
        ident = class_of(pod).ident
        if ident not in out:
            out[ident] = tuple(class_of(form) for form in forms(managed, queue, pod))
    return tuple(out.values())
