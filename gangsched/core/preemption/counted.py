"""Fit of equal members that only count resources: so many per node, the sum must reach their number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gangsched.core.preemption.fewest import Room
from gangsched.core.preemption.slots import HINT, FreeRoom
from gangsched.core.state.podclass import PodClass
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import Bools, Floats, Ints


class CountedFit(FreeRoom):
    """For one class of members that only count resources: capacities per node, changed only where pods come and go."""

    steps = 0
    #: Taking more pods never makes the gang fit less.
    monotone = True

    def __init__(self, sim: Simulation, pod: PodClass, allowed: Bools, needed: int) -> None:
        index, amounts = sim.snapshot.vector(pod.shape)
        super().__init__(sim, index)
        self._amounts = amounts
        self._allowed = allowed
        self._needed = needed
        self._room = self._count(self._free, self._allowed)
        self._total = float(self._room.sum())
        self._whole = float(np.floor(self._room).sum())
        #: The pods given back last, and what that changed: most searches look and take them again.
        self._undo: tuple[Ints, Ints, Floats, Floats, float, float] | None = None

    def _count(self, free: Floats, allowed: Bools) -> Floats:
        """Pods that fit per node: whole ones, plus a thousandth of the fraction of the next one as a sense of
        direction for the search.
        """
        parts = (free / self._amounts[:, None]).min(axis=0)
        np.clip(parts, 0.0, float(self._needed), out=parts)
        whole = np.floor(parts)
        parts -= whole
        parts *= HINT
        parts += whole
        parts[~allowed] = 0.0
        return np.asarray(parts)

    def take(self, slots: Ints) -> None:
        undo, self._undo = self._undo, None
        if undo is not None and undo[0] is slots:
            _, rows, free, room, self._total, self._whole = undo
            self._free[:, rows] = free
            self._room[rows] = room
        elif len(slots):
            self._add(*self.held(slots))

    def give_back(self, slots: Ints) -> None:
        self._undo = None
        if len(slots):
            rows, amounts = self.held(slots)
            self._undo = slots, rows, self._free[:, rows], self._room[rows], self._total, self._whole
            self._add(rows, -amounts)

    def _add(self, rows: Ints, amounts: Floats) -> None:
        free = self._free[:, rows] + amounts
        after, before = self._count(free, self._allowed[rows]), self._room[rows]
        self._free[:, rows] = free
        self._room[rows] = after
        self._total += float(after.sum() - before.sum())
        self._whole += float(np.floor(after).sum() - np.floor(before).sum())

    def fits(self) -> bool:
        return self._whole >= self._needed

    def shortfall(self) -> float:
        return self._needed - self._total

    def lacking(self) -> Room | None:
        """The room that is missing, for :mod:`.fewest`."""
        return Room(self._free, self._amounts, self._allowed, int(self._needed - self._whole))

    def gains(self, options: Sequence[Ints], most_steps: int) -> Floats:
        if not options:
            return np.zeros(0)
        pairs = self.pairs(options)
        free = self._free[:, pairs.rows] + pairs.amounts
        gain = self._count(free, self._allowed[pairs.rows]) - self._room[pairs.rows]
        return np.asarray(np.bincount(pairs.owner, weights=gain, minlength=len(options)), dtype=np.float64)

    def gained(self, slots: Ints) -> tuple[Floats, float]:
        """``(N,)`` members that nodes would hold less if these pods, gone now, came back, and how many would then be
        missing.
        """
        rows, amounts = self.held(slots)
        after = np.floor(self._count(self._free[:, rows] - amounts, self._allowed[rows]))
        out: Floats = np.zeros(len(self._room))
        out[rows] = np.floor(self._room[rows]) - after
        return out, self._needed - self._whole + float(out.sum())

    def cheapest(self, slots: Ints) -> Ints:
        """Of these pods, none of them taken, those to take so that the gang fits with few pods.

        ``slots`` come in the order in which pods of one node are to be taken. Taking the first ``j`` pods of a node
        makes room for so many more members; the steps of its upper hull, most members per pod first, are drawn
        from all nodes together until there is room for enough. All of them are returned if that is never so.
        """
        nodes, where, order, starts, counts = self.by_node(slots)
        room = self.rooms(slots, nodes, order, starts, counts)
        steps = hull_steps(room, counts)
        ratio = np.round(steps[:, 2] / steps[:, 3], 9)
        ranked = steps[np.lexsort((steps[:, 0], steps[:, 3], -ratio))]
        missing = self._needed - self._whole
        enough = int(np.searchsorted(np.cumsum(ranked[:, 2]), missing)) + 1
        depth = np.zeros(len(nodes), dtype=np.int64)
        np.maximum.at(depth, ranked[:enough, 0].astype(np.int64), ranked[:enough, 1].astype(np.int64))
        place = np.empty(len(slots), dtype=np.int64)
        place[order] = np.arange(len(slots)) - np.repeat(starts, counts)
        return slots[place < depth[where]]

    def usefulness(self, slots: Ints) -> Floats:
        """``(slots,)`` how much of what its node lacks for one more member each pod holds: 1 per resource at most."""
        rows = self._table.row[slots]
        lacking = self._amounts[:, None] * (np.floor(self._room[rows]) + 1.0) - self._free[:, rows]
        held = self._matrix[self._table.shape[slots]].T
        part = np.minimum(held, np.maximum(lacking, 0.0)) / np.maximum(lacking, 1.0)
        return np.asarray(np.round(np.where(lacking > 0, part, 0.0).sum(axis=0), 9))

    def by_node(self, slots: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """``(nodes, where, order, starts, counts)``: slots grouped by node, in their order.

        ``slots[order]`` lists those of ``nodes[0]`` first; node n has ``counts[n]`` from ``starts[n]`` on.
        """
        nodes, where = np.unique(self._table.row[slots], return_inverse=True)
        counts = np.bincount(where)
        order = np.argsort(where, kind="stable")
        return nodes, where, order, np.concatenate([[0], np.cumsum(counts)[:-1]]), counts

    def rooms(self, slots: Ints, nodes: Ints, order: Ints, starts: Ints, counts: Ints) -> Floats:
        """``(most + 1, nodes)`` members that a node holds with the first 0, 1, ... of its slots gone."""
        most = int(counts.max())
        room = np.empty((most + 1, len(nodes)))
        free = self._free[:, nodes].copy()
        room[0] = np.floor(self._count(free, self._allowed[nodes]))
        for turn in range(most):
            at = np.flatnonzero(counts > turn)
            free[:, at] += self._matrix[self._table.shape[slots[order[starts[at] + turn]]]].T
            room[turn + 1] = np.floor(self._count(free, self._allowed[nodes]))
        return room

    def trim(self, slots: Ints, most_steps: int) -> Ints:
        """Give back as many of these taken pods as the gang allows, or as can be tried in so many steps; returns those
        that are back.

        ``slots`` come in the order in which they are to be given back where there is a choice. Nodes do not
        depend on each other once it is settled how many members each is to hold, so all nodes are worked on at
        once, one pod of each at a time. No further pod of ``slots`` could be given back afterwards.
        """
        if not len(slots) or not self.fits():
            return np.zeros(0, dtype=np.int64)
        self._undo = None
        rows = self._table.row[slots]
        nodes, where = np.unique(rows, return_inverse=True)
        counts = np.bincount(where)
        target = self._targets(nodes, where, slots, counts)
        floor = target * self._amounts[:, None]  # free room that each node must keep
        order = np.argsort(where, kind="stable")
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        back: list[Ints] = []
        for turn in range(int(counts.max())):
            at = np.flatnonzero(counts > turn)
            picked = slots[order[starts[at] + turn]]
            amounts = self._matrix[self._table.shape[picked]].T
            left = self._free[:, nodes[at]] - amounts
            fine = (left >= floor[:, at]).all(axis=0) | (target[at] <= 0)
            self._free[:, nodes[at[fine]]] = left[:, fine]
            back.append(picked[fine])
        self._room = self._count(self._free, self._allowed)
        self._total = float(self._room.sum())
        self._whole = float(np.floor(self._room).sum())
        return np.concatenate(back)

    def _targets(self, nodes: Ints, where: Ints, slots: Ints, counts: Ints) -> Floats:
        """Members that each of these nodes is to hold so that all together hold just enough: where a member costs
        most pods, it is given up first.
        """
        without = self._without(nodes, where, slots)
        return self._given_up(nodes, counts, np.floor(self._room[nodes]), without, self._whole - self._needed)

    def _without(self, nodes: Ints, where: Ints, slots: Ints) -> Floats:
        """Whole members that each of these nodes could take with all of these pods back, each on ``nodes[where]``."""
        amounts = self._matrix[self._table.shape[slots]].T
        held = np.array([np.bincount(where, weights=each, minlength=len(nodes)) for each in amounts])
        return np.floor(self._count(self._free[:, nodes] - held, self._allowed[nodes]))

    @staticmethod
    def _given_up(nodes: Ints, counts: Ints, target: Floats, without: Floats, spare: float) -> Floats:
        """``target`` with so many members less, where a node holds more of them than ``without`` any of ``counts`` pods
        gone.
        """
        gained = target - without
        for n in np.lexsort((nodes, -counts / np.maximum(gained, 1e-9))).tolist():
            if spare <= 0:
                break
            less = min(spare, float(gained[n]))
            target[n] -= less
            spare -= less
        return target

    def rows(self, taken: frozenset[int]) -> dict[str, int]:
        return {}

    def save(self) -> Any:
        return self._free.copy(), self._room.copy(), self._total, self._whole

    def restore(self, state: Any) -> None:
        free, room, self._total, self._whole = state
        self._undo = None
        self._free[:] = free
        self._room[:] = room


def hull_steps(room: Floats, counts: Ints) -> Floats:
    """Steps of the upper hulls of ``room[j, n]`` (members on node n with j pods gone), ``(steps, 4)``: node, pods
    gone after the step, members gained by it, pods it costs.
    """
    turns = np.arange(len(room))[:, None]
    at = np.zeros(room.shape[1], dtype=np.int64)
    columns = np.arange(room.shape[1])
    out = [np.zeros((0, 4))]
    for _ in range(len(room)):
        ahead = (turns > at) & (turns <= counts)
        gained = room - room[at, columns]
        ratio = np.where(ahead, gained / np.maximum(turns - at, 1), -1.0)
        best = ratio.argmax(axis=0)
        good = np.flatnonzero(ratio[best, columns] > 0)
        if not len(good):
            break
        out.append(np.stack([good, best[good], gained[best[good], good], best[good] - at[good]], axis=1).astype(float))
        at[good] = best[good]
    return np.concatenate(out)
