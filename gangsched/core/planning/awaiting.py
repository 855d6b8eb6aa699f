"""Which of the terminating pods have to be gone before the members of a gang fit on their nodes."""

from __future__ import annotations

from collections.abc import Sequence

from gangsched.core.decision import Awaited
from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.state.simulation import Simulation
from gangsched.model.records import Pod


def awaited(sim: Simulation, pipeline: Pipeline, members: Sequence[tuple[int, Pod]]) -> tuple[Awaited, ...]:
    """A smallest set by name: node by node, then pods elsewhere whose terms (or those of the members) reach so far.

    ``members`` are those to be placed, ``(row, pod)`` in the order in which they were. The simulation is left with the
    awaited pods lifted.
    """
    by_row: dict[int, list[Pod]] = {}
    for row, pod in members:
        by_row.setdefault(row, []).append(pod)
    out = _on_their_nodes(sim, pipeline, by_row)
    classes = {c.ident: c for c in (sim.snapshot.class_of(pod) for _, pod in members)}
    if not all(pipeline.only_counts(c, sim) for c in classes.values()) and not _all_hold(sim, pipeline, members):
        out += _elsewhere(sim, pipeline, members, {a.uid for a in out})
    return tuple(out)


def _on_their_nodes(sim: Simulation, pipeline: Pipeline, by_row: dict[int, list[Pod]]) -> list[Awaited]:
    slot_of = sim.snapshot.table.slot_of
    start = sim.mark()
    out: list[Awaited] = []
    for row in sorted(by_row):
        node = sim.snapshot.nodes[row].name
        leaving = [p for p in sim.snapshot.pods_on(node) if p.deleting_since is not None]
        if not leaving:
            continue
        leaving.sort(key=lambda p: p.key)
        for pod in leaving:
            sim.lift(slot_of[pod.uid])
        for pod in leaving:
            sim.drop(slot_of[pod.uid])
            if not _all_hold(sim, pipeline, [(row, member) for member in by_row[row]]):
                sim.lift(slot_of[pod.uid])
                out.append(Awaited(pod.key, node, pod.uid))
        for member in by_row[row]:
            sim.place(sim.snapshot.class_of(member), row)
    sim.rollback(start)
    for one in out:
        sim.lift(slot_of[one.uid])
    return out


def _elsewhere(
    sim: Simulation, pipeline: Pipeline, members: Sequence[tuple[int, Pod]], known: set[str]
) -> list[Awaited]:
    """Of the other terminating pods, those without whose leaving the members do not fit: halves that need not leave are
    put back together.
    """
    table, names = sim.snapshot.table, sim.snapshot.nodes
    lifted = set(sim.lifted().tolist())
    slots = [
        slot
        for slot in table.occupied().tolist()
        if (pod := table.pods[slot]) is not None
        and pod.deleting_since is not None
        and slot not in lifted
        and pod.uid not in known
    ]
    for slot in slots:
        sim.lift(slot)
    if not _all_hold(sim, pipeline, members):
        # Not one after another in this order: what is in the way cannot be told apart from what is not.
        for slot in slots:
            sim.drop(slot)
        return []

    def needed(part: list[Pod]) -> list[Pod]:
        for pod in part:
            sim.drop(table.slot_of[pod.uid])
        if _all_hold(sim, pipeline, members):
            return []
        for pod in part:
            sim.lift(table.slot_of[pod.uid])
        if len(part) == 1:
            return part
        middle = len(part) // 2
        return [*needed(part[:middle]), *needed(part[middle:])]

    pods = sorted((pod for slot in slots if (pod := table.pods[slot]) is not None), key=lambda p: p.key)
    found = needed(pods) if pods else []
    return [Awaited(pod.key, names[int(table.row[table.slot_of[pod.uid]])].name, pod.uid) for pod in found]


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
