"""Which pods, of those that terminate or of others, have to be gone before the members of a gang fit on their nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence

from gangsched.core.decision import Awaited
from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.state.simulation import Simulation
from gangsched.model.records import Pod


def awaited(
    sim: Simulation, pipeline: Pipeline, members: Sequence[tuple[int, Pod]], leaving: Container[int]
) -> tuple[Awaited, ...]:
    """Those that have to be gone of the pods that leave anyway (slots); members and simulation as :func:`needed` has
    them.
    """
    table, nodes = sim.snapshot.table, sim.snapshot.nodes
    found = needed(sim, pipeline, members, lambda pod: table.slot_of[pod.uid] in leaving)
    return tuple(Awaited(p.key, nodes[int(table.row[table.slot_of[p.uid]])].name, p.uid) for p in found)


def needed(
    sim: Simulation,
    pipeline: Pipeline,
    members: Sequence[tuple[int, Pod]],
    might_go: Callable[[Pod], bool],
    most: float = math.inf,
) -> list[Pod]:
    """Of the pods that ``might_go``, those that have to: a smallest set by name, node by node, then of pods elsewhere
    whose terms (or those of the members) reach so far; a part of it when those of a node make it ``most`` or more.

    ``members`` are those to be placed, ``(row, pod)`` in the order in which they were. The simulation is left with
    these pods lifted.
    """
    by_row: dict[int, list[Pod]] = {}
    for row, pod in members:
        by_row.setdefault(row, []).append(pod)
    out = _on_their_nodes(sim, pipeline, by_row, might_go, most)
    if len(out) >= most:
        return out
    classes = {c.ident: c for c in (sim.snapshot.class_of(pod) for _, pod in members)}
    if not all(pipeline.only_counts(c, sim) for c in classes.values()) and not _all_hold(sim, pipeline, members):
        out += _elsewhere(sim, pipeline, members, might_go)
    return out


def _on_their_nodes(
    sim: Simulation, pipeline: Pipeline, by_row: dict[int, list[Pod]], might_go: Callable[[Pod], bool], most: float
) -> list[Pod]:
    slot_of = sim.snapshot.table.slot_of
    start = sim.mark()
    out: list[Pod] = []
    for row in sorted(by_row):
        if len(out) >= most:
            break
        leaving = [p for p in sim.snapshot.pods_on(sim.snapshot.nodes[row].name) if might_go(p)]
        if not leaving:
            continue
        places = [(row, member) for member in by_row[row]]
        if _all_hold(sim, pipeline, places):
            leaving = []
        leaving.sort(key=lambda p: (p.deleting_since is not None, p.key))  # rather for those that leave for certain
        for pod in leaving:
            sim.lift(slot_of[pod.uid])
        for pod in leaving:
            sim.drop(slot_of[pod.uid])
            if not _all_hold(sim, pipeline, places):
                sim.lift(slot_of[pod.uid])
                out.append(pod)
        for member in by_row[row]:
            sim.place(sim.snapshot.class_of(member), row)
    sim.rollback(start)
    for one in out:
        sim.lift(slot_of[one.uid])
    return out


def _elsewhere(
    sim: Simulation, pipeline: Pipeline, members: Sequence[tuple[int, Pod]], might_go: Callable[[Pod], bool]
) -> list[Pod]:
    """Of those that are still there, those without whose leaving the members do not fit: halves that need not leave are
    put back together.
    """
    table = sim.snapshot.table
    lifted = set(sim.lifted().tolist())
    slots = [
        slot
        for slot in table.occupied().tolist()
        if slot not in lifted and (pod := table.pods[slot]) is not None and might_go(pod)
    ]
    for slot in slots:
        sim.lift(slot)
    if not _all_hold(sim, pipeline, members):
        # Not one after another in this order: what is in the way cannot be told apart from what is not.
        for slot in slots:
            sim.drop(slot)
        return []

    def must_go(part: list[Pod]) -> list[Pod]:
        for pod in part:
            sim.drop(table.slot_of[pod.uid])
        if _all_hold(sim, pipeline, members):
            return []
        for pod in part:
            sim.lift(table.slot_of[pod.uid])
        if len(part) == 1:
            return part
        middle = len(part) // 2
        return [*must_go(part[:middle]), *must_go(part[middle:])]

    pods = sorted((pod for slot in slots if (pod := table.pods[slot]) is not None), key=lambda p: p.key)
    return must_go(pods) if pods else []


def _all_hold(sim: Simulation, pipeline: Pipeline, members: Sequence[tuple[int, Pod]]) -> bool:
    """Do these members fit where they are to go, one after another, as things are now?"""
    mark = sim.mark()
    fits = True
    for row, pod in members:
        pod_class = sim.snapshot.class_of(pod)
        if not pipeline.mask(pod_class, sim)[row]:
            fits = False
            break
        sim.place(pod_class, row)
    sim.rollback(mark)
    return fits
