"""A gang that does not fit, and what others may have to leave to it: its place among those before them, and room.

Room is reserved for a gang that keeps losing to work behind it, where it can start first once others have ended. It is
the free room, and the room of the fewest pods that end by themselves after which the gang fits. Pods whose end is known
come first. Others count as if the longest running ended first, and room that counts on them is kept for a short time
only. Pods that a controller keeps running, and static ones, are not counted on. Waiting for them might have no end, and
the room would lie idle all the while. From then on nothing behind the gang is placed into that room, so every pod that
ends there is one fewer to wait for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from gangsched.core.arrays import Ints, isin
from gangsched.core.decision import group_key, names_of
from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.framework.registry import PluginError
from gangsched.core.ledger.backfill import Blocked, Turns
from gangsched.core.ledger.reservation import TurnReservation
from gangsched.core.planning.context import SchedulingContext
from gangsched.core.planning.cycle import Decider
from gangsched.core.queue.known_ends import KnownEnds
from gangsched.core.quota.assignment import forms
from gangsched.core.state.podtable import TERMINATING, PodClass
from gangsched.core.state.simulation import Phantom
from gangsched.core.world.world import World, queue_order
from gangsched.model.records import GangId, Pod

#: Controllers that replace a pod that has ended.
_KEPT_RUNNING = ("ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController")


def block(world: World, turns: Turns, gangs: Sequence[GangId], pipeline: Pipeline) -> bool:
    """Note in ``turns`` that these gangs, whose filters are those of ``pipeline``, do not fit. Their reservation stays
    as long as their members are the same.

    False when none of them lacks a required member: such a gang keeps nothing from others.
    """
    membership, class_of = world.membership, world.snapshot.class_of
    if not any(membership.lacking(gangs)):
        return False
    key = group_key(gangs)
    found = {c.ident: c for gang in gangs for c in map(class_of, membership.census(gang).pending)}
    classes = tuple(found[ident] for ident in sorted(found))
    known = turns.get(key)
    order = queue_order(world, gangs)
    if known is not None and known.classes != classes:
        turns.end(key)
    turns.move(key, order)
    turns.put(Blocked(key, names_of(gangs), order, classes, pipeline, _forms(world, gangs)))
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


def reserve(decider: Decider, gangs: Sequence[GangId], key: str) -> None:
    """Reserve room for the blocked gangs of this key in the first flavor of quota that has some.

    Nothing is reserved if they have room in a flavor already or could not be given any. Nor is it if a gang ahead of
    them has a reservation and could use the same nodes: there is one turn at a time. If a plug-in of others fails,
    nothing is done, and the decision names it.
    """
    with suppress(PluginError), decider.contained.about(gangs):
        _reserve(list(decider.contexts(gangs)), key, decider.world, decider.ledger.turns)


def _reserve(jobs: Sequence[SchedulingContext], key: str, world: World, turns: Turns) -> None:
    blocked, kept = turns.get(key), turns.room_of(key)
    if blocked is None or (kept and any(_stands(job, kept) for job in jobs)):
        return
    since = turns.since(key)
    turns.end(key)
    rivals = turns.reserving()
    if rivals and jobs:
        sim = jobs[0].simulation()
        mine = blocked.usable(sim)
        rivals = [b for b in rivals if (b.usable(sim) & mine).any()]
        if any(b.order < blocked.order for b in rivals):
            return
    room, known = next((found for job in jobs if (found := _first_room(job, world))[0]), ((), False))
    if room:
        for behind in rivals:
            turns.end(behind.key)
        began = world.now if since is None else since
        turns.reserve(TurnReservation(key, room, blocked.order, known_end=known, since=began))


def _first_room(job: SchedulingContext, world: World) -> tuple[tuple[Phantom, ...], bool]:
    """The gang's members where they fit when as few pods as possible have ended; empty when not even all are enough.
    With whether it is known of all of these when they end.
    """
    leaving, ending, known = _leaving(job, world)
    if _rows(job, leaving, ending) is None:
        return (), False
    low, high = 0, len(ending)
    while low < high:
        middle = (low + high) // 2
        if _rows(job, leaving, ending[:middle]) is None:
            low = middle + 1
        else:
            high = middle
    rows = _rows(job, leaving, ending[:high]) or {}
    pods = {p.uid: p for census in job.census.values() for p in census.pending}
    nodes, class_of = world.snapshot.nodes, world.snapshot.class_of
    return tuple(Phantom(class_of(pods[uid]), uid, nodes[row].name) for uid, row in sorted(rows.items())), high <= known


def _rows(job: SchedulingContext, leaving: Ints, ending: Ints) -> dict[str, int] | None:
    found = job.fit(np.concatenate([leaving, ending]))
    return found[1].rows if found is not None else None


def _leaving(job: SchedulingContext, world: World) -> tuple[Ints, Ints, int]:
    """Slots of the pods that terminate, and of those that end by themselves. Pods with a known end come first, in this
    order, then the longest running. The last is how many the first are.
    """
    table = world.snapshot.table
    slots, leaving = table.occupied(), job.terminating()
    staying = slots[((table.flags[slots] & TERMINATING) == 0) & ~isin(slots, leaving)]
    others = [s for s in staying.tolist() if _ends(table.pods[s], job)]
    ends = KnownEnds(world)
    at = {s: ends.end_of(pod) for s in others if (pod := table.pods[s]) is not None}
    others.sort(key=lambda s: (at[s], float(table.started[s]), _key(table.pods[s])))
    return leaving, np.array(others, dtype=np.int64), sum(end < math.inf for end in at.values())


def _ends(pod: Pod | None, job: SchedulingContext) -> bool:
    if pod is None or pod.static or pod.gang in job.census:
        return False
    return pod.owner is None or pod.owner.kind not in _KEPT_RUNNING


def _key(pod: Pod | None) -> str:
    return pod.key if pod is not None else ""


def _stands(job: SchedulingContext, kept: Sequence[Phantom]) -> bool:
    """Return True if the reservation is for the members that the gang has now, on nodes that may still take them."""
    pending = {p.uid: p for census in job.census.values() for p in census.pending}
    sim = job.simulation()
    needed = sum(job.needs.values())
    good = [p for p in kept if p.uid in pending and p.node in sim.snapshot.row_of]
    good = [p for p in good if job.placer.pipeline.static_mask(p.pod, sim)[sim.snapshot.row_of[p.node]]]
    return len(good) == len(kept) == needed
