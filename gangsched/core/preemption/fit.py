"""Would the gang run if these pods left? Counted where that is exact, placed for real by all filters where it is not.

Members that are alike are counted: a node holds so many, rules between them say how many count (:mod:`.rules`), and the
sum must reach their number. Everything else is placed in the simulation, as it will be when the gang is bound; counting
each kind of members by itself then says at once that some pod cannot come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints, isin
from gangsched.core.planning.arrangement import MAX_MEMBERS
from gangsched.core.planning.placement import Placer, Want
from gangsched.core.preemption.demand import Demand
from gangsched.core.preemption.free import FreeRoom
from gangsched.core.preemption.rules import Span
from gangsched.core.state.simulation import Simulation

#: Pods that are lifted from a simulation one by one, because a filter follows each, in about one search step.
_LIFTED_PER_STEP = 20
#: Weight of a part of a member among whole ones.
_HINT = 1e-3


class Fit(Protocol):
    """A simulated cluster from which pods (slots) are taken and to which they are given back."""

    steps: int  # search steps spent in here beside one per question
    exact: bool  # an answer is the same however it was come by
    monotone: bool  # taking more pods never makes the gang fit less

    def take(self, slots: Ints) -> None:
        """These pods leave."""

    def give_back(self, slots: Ints) -> None:
        """These pods come back."""

    def fits(self) -> bool:
        """Does the gang fit now?"""

    def may_return(self, options: Sequence[Ints]) -> Bools:
        """``(options,)``: False where the gang, which fits now, would certainly not fit with this option back."""

    def hint(self, rows: Mapping[str, int]) -> None:
        """Rows to try first for members (UIDs)."""

    def rows(self) -> dict[str, int]:
        """Rows on which members (by UID) fit now; empty where placing them is no search."""

    def save(self) -> Any:
        """The present state, for :meth:`restore`."""

    def restore(self, state: Any) -> None:
        """Back to a saved state."""


class CountedFit(FreeRoom):
    """For a demand of one kind. Unless it is ``alone``, what binds all kinds together is left aside."""

    def __init__(self, sim: Simulation, demand: Demand, *, alone: bool = True) -> None:
        super().__init__(sim, demand.index)
        self.steps = 0
        self.exact = True
        self._demand = demand
        self._amounts = demand.request[0]
        self._allowed = demand.mask[0]
        self._needed = demand.need[0]
        rules = demand.rules
        bars = [bar for bar in rules.bars if alone or not bar.company]
        self._bars = [msgspec.structs.replace(bar, counts=bar.counts.copy()) for bar in bars]
        self._span: Span | None = None
        if alone and rules.span is not None:
            self._span = msgspec.structs.replace(rules.span, counts=rules.span.counts.copy())
        self.monotone = rules.monotone
        self._room = demand.whole(0, self.free, self._allowed)
        self._closed()

    def _closed(self) -> None:
        """What holds when bars have opened or closed."""
        self._open = np.ones(len(self._room), dtype=np.bool_)
        for bar in self._bars:
            self._open &= bar.open()

    def take(self, slots: Ints) -> None:
        self._move(slots, +1)

    def give_back(self, slots: Ints) -> None:
        self._move(slots, -1)

    def _move(self, slots: Ints, sign: int) -> None:
        if not len(slots):
            return
        rows, amounts = self.held(slots)
        self.free[:, rows] += sign * amounts
        self._room[rows] = self._demand.whole(0, self.free[:, rows], self._allowed[rows])
        row = self._table.row
        there = slots[row[slots] >= 0]
        moved = [bar.shift(there, row[there], -sign) for bar in self._bars]
        if any(moved):
            self._closed()
        if self._span is not None:
            hit = there[self._span.hits[there]]
            codes = self._span.code[row[hit]]
            np.add.at(self._span.counts, codes[codes >= 0], -sign)

    def room(self) -> Floats:
        """``(N,)`` members that each node holds by itself."""
        return np.where(self._open, self._room, 0.0)

    def _held(self, room: Floats) -> float:
        return self._span.held(room) if self._span is not None else float(room.sum())

    def fits(self) -> bool:
        return self._held(self.room()) >= self._needed

    def missing(self) -> float:
        """How many members do not fit now; less than 0 where more than enough do."""
        return self._needed - self._held(self.room())

    def gains(self, options: Sequence[Ints]) -> Floats:
        """``(options,)`` how many more members nodes hold by themselves with each option gone; a part of the next one
        counts a thousandth, as a sense of direction.
        """
        if not options:
            return np.zeros(0)
        pairs = self.pairs(options)
        free = self.free[:, pairs.rows]
        used = self._amounts > 0
        asked = self._amounts[used, None]
        most = 1.0 if self._demand.rules.exclusive[0, 0] else float(self._needed)
        now, then = ((f[used] / asked).min(axis=0).clip(0.0, most) for f in (free, free + pairs.amounts))
        gain = np.floor(then) - np.floor(now) + _HINT * ((then % 1.0) - (now % 1.0))
        gain[~self._allowed[pairs.rows]] = 0.0
        return np.asarray(np.bincount(pairs.owner, weights=gain, minlength=len(options)), dtype=np.float64)

    def may_return(self, options: Sequence[Ints]) -> Bools:
        if not options:
            return np.zeros(0, dtype=np.bool_)
        pairs = self.pairs(options)
        after = self._demand.whole(0, self.free[:, pairs.rows] - pairs.amounts, self._allowed[pairs.rows])
        lost = np.where(self._open[pairs.rows], self._room[pairs.rows] - after, 0.0)
        span = self._span
        if span is None:
            spare = float(self.room().sum()) - self._needed
            return np.asarray(np.bincount(pairs.owner, weights=lost, minlength=len(options)) <= spare)
        return self._by_domain(pairs.owner, pairs.rows, lost, len(options))

    def _by_domain(self, owner: Ints, rows: Ints, lost: Floats, options: int) -> Bools:
        """The same where a rule spans domains: options that lose the same in the same domains are asked about once.

        Pods that the rule counts itself change more than room, and stay candidates.
        """
        span = self._span
        assert span is not None
        out = np.ones(options, dtype=np.bool_)
        room = self.room()
        inside = span.code >= 0
        by_domain: Floats = np.bincount(span.code[inside], weights=room[inside], minlength=span.size).astype(np.float64)
        outside = float(room[~inside].sum())
        some = np.flatnonzero(lost > 0)
        losses: dict[int, list[tuple[int, float]]] = {}
        for n in some.tolist():
            losses.setdefault(int(owner[n]), []).append((int(span.code[rows[n]]), float(lost[n])))
        known: dict[tuple[tuple[int, float], ...], bool] = {}
        for option, found in losses.items():
            sums: dict[int, float] = {}
            for code, amount in found:
                sums[code] = sums.get(code, 0.0) + amount
            key = tuple(sorted(sums.items()))
            if key not in known:
                left = by_domain.copy()
                for code, amount in key:
                    if code >= 0:
                        left[code] -= amount
                held = span.held_by_domain(left, outside - sums.get(-1, 0.0))
                known[key] = held >= self._needed
            out[option] = known[key]
        return out

    def hint(self, rows: Mapping[str, int]) -> None:
        return

    def rows(self) -> dict[str, int]:
        return {}

    def save(self) -> Any:
        counts = [bar.counts.copy() for bar in self._bars]
        return self.free.copy(), self._room.copy(), counts, None if self._span is None else self._span.counts.copy()

    def restore(self, state: Any) -> None:
        free, room, counts, span = state
        self.free[:], self._room[:] = free, room
        for bar, count in zip(self._bars, counts, strict=True):
            bar.counts[:] = count
        if self._span is not None:
            self._span.counts[:] = span
        self._closed()


class PlacedFit:
    """For gangs of several kinds, or with rules that cannot be counted: the members are placed, every time."""

    def __init__(self, sim: Simulation, placer: Placer, wants: Sequence[Want], demand: Demand) -> None:
        self._sim = sim
        self._placer = placer
        self._wants = wants
        self._taken: Bools = np.zeros(sim.snapshot.table.size, dtype=np.bool_)
        self._rows: dict[str, int] = {}
        self._answer: bool | None = None
        self._demand = demand
        self._beside: tuple[list[Ints], Floats] | None = None  # see _members
        #: Large enough that moving members is looked at one by one.
        self._large = sum(demand.need) > MAX_MEMBERS and demand.common is None
        #: What each kind, or several together at their least, would need: necessary, and quick to count.
        self._needs = [CountedFit(sim, part, alone=False) for part in demand.parts()]
        self._follows = any(placer.pipeline.watching(c, sim) for c in demand.classes)
        self.monotone = demand.rules.monotone
        self.exact = False  # members that differ are placed in several orders, the first of which is where they were
        self.steps = 0

    def take(self, slots: Ints) -> None:
        self._taken[slots] = True
        self._answer = self._beside = None
        for need in self._needs:
            need.take(slots)

    def give_back(self, slots: Ints) -> None:
        self._taken[slots] = False
        self._answer = self._beside = None
        for need in self._needs:
            need.give_back(slots)

    def fits(self) -> bool:
        if self._answer is None:
            self._answer = all(need.fits() for need in self._needs) and self._place()
        return self._answer

    def _place(self) -> bool:
        sim = self._sim
        slots = np.flatnonzero(self._taken)
        if self._follows:
            self.steps += len(slots) // _LIFTED_PER_STEP
        looks = self._placer.looks
        mark = sim.mark()
        sim.lift_all(slots)
        placed = self._placer.required(self._wants, sim, self._rows)
        sim.rollback(mark)
        self.steps += self._placer.looks - looks
        if placed.complete:
            self._rows = dict(placed.rows)
            self._beside = None
        return placed.complete

    def may_return(self, options: Sequence[Ints]) -> Bools:
        out = np.ones(len(options), dtype=np.bool_)
        for need in self._needs:
            out &= need.may_return(options)
        if self._large:
            for n in np.flatnonzero(out).tolist():
                out[n] = self._may_move(options[n])
        return out

    def _may_move(self, option: Ints) -> bool:
        """Could members that this option displaces go elsewhere, each by itself? Asked of large gangs only: placing
        all of them anew takes long, and finds next to nothing that moving single members does not.
        """
        if self._beside is None:
            self._beside = self._members()
        placed, slack = self._beside
        rows, held = self._needs[0].held(option)
        short = rows[(slack[:, rows] < held).any(axis=0)]
        if not len(short):
            return True
        for k, there in enumerate(placed):
            if isin(there, short).any():
                fine = (slack >= self._demand.request[k][:, None]).all(axis=0) & self._demand.mask[k]
                fine[short] = False
                if fine.any():
                    return True
        return False

    def _members(self) -> tuple[list[Ints], Floats]:
        """The rows that members of each kind are on, and ``(R, N)`` the room beside all of them."""
        known = self._rows
        rows = [np.array([known[p.uid] for p in m if p.uid in known], dtype=np.int64) for m in self._demand.members]
        slack = self._needs[0].free.copy()
        for request, there in zip(self._demand.request, rows, strict=True):
            slack -= request[:, None] * np.bincount(there, minlength=slack.shape[1])
        return rows, slack

    def hint(self, rows: Mapping[str, int]) -> None:
        self._rows = dict(rows)
        self._answer = self._beside = None

    def rows(self) -> dict[str, int]:
        return dict(self._rows) if self.fits() else {}

    def save(self) -> Any:
        return self._taken.copy(), dict(self._rows)

    def restore(self, state: Any) -> None:
        taken, rows = state
        self.give_back(np.flatnonzero(self._taken & ~taken))
        self.take(np.flatnonzero(taken & ~self._taken))
        self._rows = dict(rows)


def fit_for(sim: Simulation, placer: Placer, wants: Sequence[Want], demand: Demand) -> Fit:
    """The cheapest exact way to answer for this gang. The simulation is the base to take pods from."""
    if len(demand.need) == 1 and demand.common is None and demand.rules.complete:
        return CountedFit(sim, demand)
    return PlacedFit(sim, placer, wants, demand)
