"""Which of the terminating pods have to be gone before the members of a gang fit on their nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gangsched.core.decision import Awaited
from gangsched.core.pipeline import Pipeline
from gangsched.core.simulation import Simulation
from gangsched.model.records import Pod


def awaited(sim: Simulation, pipeline: Pipeline, members: Mapping[int, Sequence[Pod]]) -> tuple[Awaited, ...]:
    """A smallest set by name, node by node; ``members`` are those to be placed, by row. The simulation holds them
    afterwards.
    """
    slot_of = sim.snapshot.table.slot_of
    out: list[Awaited] = []
    for row in sorted(members):
        node = sim.snapshot.nodes[row].name
        leaving = [p for p in sim.snapshot.pods_on(node) if p.deleting_since is not None]
        if not leaving:
            continue
        leaving.sort(key=lambda p: p.key)
        for pod in leaving:
            sim.lift(slot_of[pod.uid])
        for pod in leaving:
            sim.drop(slot_of[pod.uid])
            if not _holds(sim, pipeline, row, members[row]):
                sim.lift(slot_of[pod.uid])
                out.append(Awaited(pod.key, node, pod.uid))
        for member in members[row]:
            sim.place(sim.snapshot.class_of(member), row)
    return tuple(out)


def _holds(sim: Simulation, pipeline: Pipeline, row: int, members: Sequence[Pod]) -> bool:
    """Do these members fit on this node now?"""
    mark = sim.mark()
    fits = True
    for pod in members:
        pod_class = sim.snapshot.class_of(pod)
        if not pipeline.mask(pod_class, sim)[row]:
            fits = False
            break
        sim.place(pod_class, row)
    sim.rollback(mark)
    return fits
