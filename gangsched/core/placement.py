"""Where the members of a gang go: every filter, each member's own request, all or nothing by the gang's minimum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from gangsched.core.filters.resources import capacity
from gangsched.core.pipeline import Pipeline, Ranking
from gangsched.core.podclass import PodClass, class_of
from gangsched.core.simulation import Simulation
from gangsched.model.records import Pod


class Want(msgspec.Struct, frozen=True):
    """The pending members of one gang, in name order, of which ``required`` must be placed."""

    members: tuple[Pod, ...]
    required: int


class Placed(msgspec.Struct):
    """The result of a placement attempt; the simulation holds the pods that were placed."""

    rows: dict[str, int]
    failed: list[Pod]

    @property
    def complete(self) -> bool:
        """All required members have a node."""
        return not self.failed


class Placer:
    """Places members in a simulation."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline

    def required(self, wants: Sequence[Want], sim: Simulation, prefer: Mapping[str, int]) -> Placed:
        """Place the required members of all gangs together.

        ``prefer`` gives, by UID, the row to try first (a nomination). Several orders are tried, since members may
        differ and the first order can block itself: by name, the largest first, the most restricted first. When a
        gang has more members than it needs, those that are easiest to place are chosen in the later attempts.
        On failure the simulation is left as it was and ``failed`` are the members without a node of the first
        attempt, which is the order people expect to read about.
        """
        if not wants:
            return Placed({}, [])
        first: Placed | None = None
        tried: set[tuple[str, ...]] = set()
        for chosen in self._orders(wants, sim):
            order = tuple(p.uid for p in chosen)
            if order in tried:
                continue
            tried.add(order)
            mark = sim.mark()
            result = self._in_order(chosen, sim, prefer, stop=True)
            if result.complete:
                return result
            sim.rollback(mark)
            first = first or result
        return first or Placed({}, [])

    def extras(self, members: Sequence[Pod], sim: Simulation, prefer: Mapping[str, int]) -> Placed:
        """Place as many further members as fit, each on its own."""
        return self._in_order(list(members), sim, prefer, stop=False)

    def _orders(self, wants: Sequence[Want], sim: Simulation) -> list[list[Pod]]:
        by_name = [p for want in wants for p in want.members[: want.required]]
        if len({class_of(p).ident for want in wants for p in want.members}) == 1:
            return [by_name]
        ease = {p.uid: self._size(p, sim) for want in wants for p in want.members}
        easiest = [p for want in wants for p in sorted(want.members, key=lambda p: ease[p.uid])[: want.required]]
        out = [by_name]
        for chosen in (by_name, easiest):
            out.append(sorted(chosen, key=lambda p: ease[p.uid], reverse=True))
            out.append(sorted(chosen, key=lambda p: (self._choices(p, sim), -ease[p.uid][0])))
        return out

    def _size(self, pod: Pod, sim: Simulation) -> tuple[float, str]:
        """The largest share of a mean node that the pod asks for."""
        index, amounts = sim.snapshot.vector(pod.shape)
        room = sim.snapshot.allocatable[index].mean(axis=1) if sim.snapshot.size else np.ones(len(index))
        return float((amounts / np.maximum(room, 1.0)).max()), pod.name

    def _choices(self, pod: Pod, sim: Simulation) -> int:
        return int(self.pipeline.static_mask(class_of(pod), sim).sum())

    def _in_order(self, members: list[Pod], sim: Simulation, prefer: Mapping[str, int], stop: bool) -> Placed:
        """Place members one after another, equal neighbours with one ranking. With ``stop``, the first failure of
        a class ends the attempt for it: its other pods cannot fit either.
        """
        rows: dict[str, int] = {}
        failed: list[Pod] = []
        i = 0
        while i < len(members):
            pod_class = class_of(members[i])
            run = [members[i]]
            while i + len(run) < len(members) and class_of(members[i + len(run)]).ident == pod_class.ident:
                run.append(members[i + len(run)])
            self._run(pod_class, run, sim, prefer, rows, failed)
            i += len(run)
            if failed and stop:
                failed.extend(members[i:])
                break
        return Placed(rows, failed)

    def _run(
        self,
        pod: PodClass,
        members: list[Pod],
        sim: Simulation,
        prefer: Mapping[str, int],
        rows: dict[str, int],
        failed: list[Pod],
    ) -> None:
        mask = self.pipeline.mask(pod, sim)
        ranking = Ranking(self.pipeline, pod, sim, mask)
        counted = self.pipeline.only_counts(pod, sim) and ranking.local
        index, amounts = sim.snapshot.vector(pod.shape)
        for n, member in enumerate(members):
            wish = prefer.get(member.uid, -1)
            row = wish if wish >= 0 and ranking.totals[wish] != -np.inf else ranking.best()
            if row < 0:
                failed.extend(members[n:])
                return
            sim.place(pod, row)
            rows[member.uid] = row
            if counted:
                ranking.rescore(row, bool((sim.free[index, row] >= amounts).all()))
            elif n + 1 < len(members):
                ranking = Ranking(self.pipeline, pod, sim, self.pipeline.mask(pod, sim))

    def capacities(self, pod: PodClass, sim: Simulation, limit: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """``(N,)`` how many pods of the class each node could take, for classes limited by resources alone."""
        index, amounts = sim.snapshot.vector(pod.shape)
        room = capacity(sim.free, index, amounts, limit)
        room[~self.pipeline.static_mask(pod, sim)] = 0
        return room
