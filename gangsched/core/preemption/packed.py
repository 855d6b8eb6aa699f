"""Fit of a large gang of several shapes: an assignment of members to nodes that is repaired as pods come and go.

Members are packed class by class, the largest first, on the nodes that they leave fullest. When pods come back to a
node and its members no longer fit there, those members move to wherever there is room. What was possible before a
step is restored exactly when the step is undone, so the search never loses an assignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.planning.placement import Want
from gangsched.core.preemption.fewest import Room
from gangsched.core.preemption.slots import FreeRoom, hinted
from gangsched.core.state.simulation import Simulation
from gangsched.core.state.snapshot import Floats, Ints

#: In larger clusters members are not assigned anew: it would take too long.
_REPACK_NODES = 1000
#: Nodes that are looked at in about one step when members are assigned anew.
_NODES_PER_STEP = 400


class PackedFit(FreeRoom):
    """For classes that only count resources. ``assigned`` is ``(classes, N)`` members per node."""

    monotone = True

    def __init__(self, sim: Simulation, pipeline: Pipeline, wants: Sequence[Want]) -> None:
        self.steps = 0
        self._members = _easiest(sim, wants)
        classes = {sim.snapshot.class_of(p).ident: sim.snapshot.class_of(p) for p in self._members}
        vectors = [sim.snapshot.vector(c.shape) for c in classes.values()]
        index = np.unique(np.concatenate([i for i, _ in vectors]))
        super().__init__(sim, index)
        amounts = np.zeros((len(vectors), len(index)))
        for n, (rows, asked) in enumerate(vectors):
            amounts[n, np.searchsorted(index, rows)] = asked
        masks = np.array([pipeline.static_mask(c, sim) for c in classes.values()])
        mean = np.maximum(sim.snapshot.allocatable[index].mean(axis=1), 1.0)
        order = np.argsort(-(amounts / mean).max(axis=1), kind="stable")
        idents = np.array(list(classes))[order]
        self._asked, self._masks, self._mean = amounts[order], masks[order], mean
        number = {int(ident): n for n, ident in enumerate(idents)}
        self._class_of = {p.uid: number[sim.snapshot.class_of(p).ident] for p in self._members}
        self._missing: Ints = np.bincount(list(self._class_of.values()), minlength=len(order)).astype(np.int64)
        self._assigned: Ints = np.zeros((len(order), self._free.shape[1]), dtype=np.int64)
        self._undo: tuple[Ints, Any] | None = None
        self._looked = 0  # nodes, in assigning members anew, that no step has been counted for yet
        self._packed = False  # the members have been assigned anew since pods moved
        self._base = self._free.copy()
        self._place()

    # -- the assignment ------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Assign what is missing to nodes with room, the tightest first."""
        for n in range(len(self._missing)):
            need = int(self._missing[n])
            if not need:
                continue
            asked = self._asked[n]
            used = asked > 0
            room = np.floor(self._free[used] / asked[used, None]).min(axis=0)
            room[~self._masks[n]] = 0.0
            at = np.flatnonzero(room > 0)
            if not len(at):
                continue
            left = (self._free[:, at] - room[at] * asked[:, None]) / self._mean[:, None]
            at = at[np.lexsort((at, np.round(left.sum(axis=0), 9)))]
            fill = np.minimum(room[at], np.maximum(0.0, need - (np.cumsum(room[at]) - room[at]))).astype(np.int64)
            self._assigned[n, at] += fill
            self._free[:, at] -= asked[:, None] * fill
            self._missing[n] -= int(fill.sum())

    def take(self, slots: Ints) -> None:
        if not len(slots):
            return
        undo, self._undo = self._undo, None
        if undo is not None and np.array_equal(undo[0], slots):
            self.restore(undo[1])
            return
        self.shift(slots, +1.0)
        self._packed = False
        if self._missing.any():
            self._place()

    def give_back(self, slots: Ints) -> None:
        if not len(slots):
            return
        before = self.save()
        rows = self.shift(slots, -1.0)
        self._packed = False
        short = rows[(self._free[:, rows] < 0).any(axis=0)]
        held = short[self._assigned[:, short].any(axis=0)]
        if len(held):
            moved = self._assigned[:, held]
            self._free[:, held] += self._asked.T @ moved
            self._missing += moved.sum(axis=1)
            self._assigned[:, held] = 0
            self._place()
        self._undo = (slots, before)

    # -- questions -----------------------------------------------------------------------------------------

    def fits(self) -> bool:
        if self._missing.any() and not self._packed and self._free.shape[1] <= _REPACK_NODES:
            self._repack()
        return not self._missing.any()

    def shortfall(self) -> float:
        self.fits()
        return float(self._missing.sum())

    def _repack(self) -> None:
        """Assign all members anew: each class where it costs least to the *main* class, which needs most room. Kept
        if more members have a place then.
        """
        self._packed = True
        self.steps += 1 + self._looked // _NODES_PER_STEP
        self._looked %= _NODES_PER_STEP
        needed = self._missing + self._assigned.sum(axis=1)
        main = self._main()
        free = self._free + self._asked.T @ self._assigned
        assigned = np.zeros_like(self._assigned)
        for n in range(len(needed)):
            if n != main:
                assigned[n] = self._beside(n, main, int(needed[n]), free)
                free -= self._asked[n][:, None] * assigned[n]
        room = _room(free, self._asked[main], self._masks[main])
        assigned[main] = np.minimum(room, np.maximum(0.0, needed[main] - (np.cumsum(room) - room)))
        free -= self._asked[main][:, None] * assigned[main]
        missing = needed - assigned.sum(axis=1)
        if missing.sum() < self._missing.sum():
            self._free[:], self._assigned[:], self._missing[:] = free, assigned, missing

    def _beside(self, n: int, main: int, need: int, free: Floats) -> Ints:
        """``(N,)`` where to put so many members of class n so that few members of the main class lose their room.

        With k of those given up on a node, it takes ``j_k`` of class n; first come the places that cost nothing, then
        the largest steps. Exact where the steps of each node do not grow.
        """
        asked, other = self._asked[n], self._asked[main]
        most = np.minimum(_room(free, asked, self._masks[n]), need)
        kept = _room(free, other, self._masks[main])
        used = asked > 0

        def takes(given_up: Floats) -> Floats:
            left = free - np.maximum(kept - given_up, 0.0) * other[:, None]
            return np.asarray(np.minimum(most, np.floor(left[used] / asked[used, None]).min(axis=0).clip(0.0)))

        lost = np.zeros_like(kept)
        steps = takes(lost)
        out = np.minimum(steps, np.maximum(0.0, need - (np.cumsum(steps) - steps)))
        missing = need - float(out.sum())
        while missing > 0:
            self._looked += len(kept)
            gains = np.array([(takes(lost + more) - out) / more for more in (1.0, 2.0)])
            if gains.max() <= 0:
                break
            # Where one step is enough, the smallest that is, so that large ones stay for others.
            enough = (gains[0] >= missing).any()
            more, row = (
                (0, int(np.where(gains[0] >= missing, gains[0], np.inf).argmin()))
                if enough
                else np.unravel_index(int(gains.argmax()), gains.shape)
            )
            lost[row] += more + 1.0
            step = min(missing, float(takes(lost)[row] - out[row]))
            out[row] += step
            missing -= step
        return out.astype(np.int64)

    def lacking(self) -> Room | None:
        """Room for the first class that lacks some, the members of other classes staying where they are."""
        n = int(np.flatnonzero(self._missing)[0])
        return self._room_for(n, self._free + self._asked[n][:, None] * self._assigned[n])

    def lacking_alone(self) -> Room | None:
        """Room for the main class if no member of others had a place; None when there is enough."""
        room = self._room_for(self._main(), self._free + self._asked.T @ self._assigned)
        return room if room.missing > 0 else None

    def _room_for(self, n: int, free: Floats) -> Room:
        missing = int(self._missing[n] + self._assigned[n].sum() - _room(free, self._asked[n], self._masks[n]).sum())
        return Room(free, np.where(self._asked[n] > 0, self._asked[n], 1e-9), self._masks[n], missing)

    def _main(self) -> int:
        """The class that needs most room."""
        needed = self._missing + self._assigned.sum(axis=1)
        return int(np.argmax(needed * (self._asked / self._mean).max(axis=1)))

    def gains(self, options: Sequence[Ints], most_steps: int) -> Floats:
        if not options:
            return np.zeros(0)
        pairs = self.pairs(options)
        out = np.zeros(len(options))
        for n in np.flatnonzero(self._missing).tolist():
            asked = self._asked[n]
            used = asked > 0
            before = (self._free[used][:, pairs.rows] / asked[used, None]).min(axis=0)
            after = ((self._free[:, pairs.rows] + pairs.amounts)[used] / asked[used, None]).min(axis=0)
            gain = np.where(self._masks[n][pairs.rows], hinted(after) - hinted(before), 0.0)
            out += np.minimum(np.bincount(pairs.owner, weights=gain, minlength=len(options)), float(self._missing[n]))
        return out

    def rows(self, taken: frozenset[int]) -> dict[str, int]:
        """Rows of the members when exactly these slots are taken; empty when that does not fit."""
        state = self.save()
        here = np.array(sorted(taken), dtype=np.int64)
        present = self._free + self._asked.T @ self._assigned
        self.restore(
            (self._base.copy(), np.zeros_like(self._assigned), self._missing + self._assigned.sum(axis=1), False)
        )
        self.shift(here, +1.0)
        if np.array_equal(present, self._free):  # these pods are gone now: the members have places already
            self.restore(state)
        self._place()
        out: dict[str, int] = {}
        if self.fits():
            left = [np.repeat(np.arange(self._assigned.shape[1]), counts).tolist() for counts in self._assigned]
            for pod in self._members:
                out[pod.uid] = left[self._class_of[pod.uid]].pop(0)
        self.restore(state)
        return out

    def save(self) -> Any:
        return self._free.copy(), self._assigned.copy(), self._missing.copy(), self._packed

    def restore(self, state: Any) -> None:
        free, assigned, missing, self._packed = state
        self._free[:], self._assigned[:], self._missing[:] = free, assigned, missing
        self._undo = None


def _room(free: Floats, asked: Floats, mask: Any) -> Floats:
    """``(N,)`` members that each node could take."""
    used = asked > 0
    room = np.floor(free[used] / asked[used, None]).min(axis=0).clip(0.0)
    return np.where(mask, room, 0.0)


def _easiest(sim: Simulation, wants: Sequence[Want]) -> list[Any]:
    """The required members: where a gang has more than it needs, the smallest."""
    out = []
    for want in wants:
        members = list(want.members)
        if len(members) > want.required:
            members.sort(key=lambda p: (float(sim.snapshot.vector(p.shape)[1].max()), p.name))
        out += sorted(members[: want.required], key=lambda p: p.name)
    return out
