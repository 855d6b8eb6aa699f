"""Find out whether the gang would run without some pods: by counting where that is exact, otherwise by placing it.

Members that are alike are counted: a node holds so many, rules between them say how many count (:mod:`.rules`), and the
sum must reach their number. Members of several kinds have places, which are valid while there is room for them. If that
is not known, or filters read other pods, they are placed in the simulation as they will be when the gang is bound.
Counting each kind of members by itself says at once that some pod cannot come back.

The *reprieve* asks that of every victim, whatever the search has found and however it ended. As many as possible are
put back at once: half as many are tried after a no, twice as many after a yes. So a unit that must go costs one
question and the others few. A unit of which the gang is certain to need the room (by counting, all units at once) costs
none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints, distinct, isin
from gangsched.core.placement.arrangement import MAX_MEMBERS, packed
from gangsched.core.placement.placer import Placer, Want
from gangsched.core.preemption.demand import Demand, FreeRoom, Pairs
from gangsched.core.preemption.rules import Bar, Span
from gangsched.core.state.simulation import Simulation

#: Pods that are lifted from a simulation one by one, because a filter follows each, in about one search step.
_LIFTED_PER_STEP = 20
#: Kinds of members whose filters follow the pods cost as much more as the first one.
_FOLLOWED = 5
#: Weight of a part of a member among whole ones.
_HINT = 1e-3


class Fit(Protocol):
    """A simulated cluster from which pods (slots) are taken and to which they are given back."""

    steps: int  # search steps spent in here beside one per question
    exact: bool  # an answer is the same however it was come by
    monotone: bool  # taking more pods never makes the gang fit less

    def remove(self, slots: Ints) -> None:
        """Remove these pods."""

    def give_back(self, slots: Ints) -> None:
        """These pods come back."""

    def fits(self) -> bool:
        """Return True if the gang fits now."""

    def returns(self, slots: Ints) -> bool:
        """Put these pods back if the gang, which fits now, also fits with them. Return True if so."""

    def may_return(self, options: Sequence[Ints]) -> Bools:
        """``(options,)``: False where the gang, which fits now, would certainly not fit with this option back."""

    def hint(self, rows: Mapping[str, int], *, least: bool = False) -> None:
        """Rows to try first for members (UIDs); ``least`` says that with fewer victims the gang is known not to fit, so
        that asking whether they return is worth no more than a look.
        """

    def rows(self) -> dict[str, int]:
        """Rows on which members (by UID) fit now; empty where placing them is no search."""

    def save(self) -> Any:
        """The present state, for :meth:`restore`."""

    def restore(self, state: Any) -> None:
        """Back to a saved state."""


class _Kind:
    """Members that are alike, counted in ``(R, N)`` room that others keep: ``needed`` of them. Unless they are
    ``alone``, what binds all members of the gang together is left aside.
    """

    def __init__(self, demand: Demand, free: Floats, *, alone: bool) -> None:
        self._demand = demand
        self._allowed = demand.mask[0]
        self.needed = demand.need[0]
        bars = [bar for bar in demand.rules.bars if alone or not bar.company]
        self._bars = [msgspec.structs.replace(bar, counts=bar.counts.copy()) for bar in bars]
        self.span: Span | None = None
        if alone and demand.rules.span is not None:
            self.span = msgspec.structs.replace(demand.rules.span, counts=demand.rules.span.counts.copy())
        self._room = demand.whole(0, free, self._allowed)
        #: All of the room, where nothing but room counts: else None.
        self._total = None if self._bars or self.span is not None else float(self._room.sum())
        self._open: Bools = np.ones(len(self._room), dtype=np.bool_)
        self._read_bars()

    def _read_bars(self) -> None:
        """Facts that stay valid when bars have opened or closed."""
        self._open = np.logical_and.reduce([np.ones(len(self._room), dtype=np.bool_), *(b.open() for b in self._bars)])

    def changed(self, free: Floats, rows: Ints) -> None:
        """There is other room on these rows."""
        room = self._demand.whole(0, np.take(free, rows, axis=1), self._allowed[rows])
        if self._total is not None:
            self._total += float((room - self._room[rows]).sum())
        self._room[rows] = room

    def count(self, there: Ints, at: Ints, sign: int) -> None:
        """Pods ``there`` came (+1) to the rows ``at`` or left (-1)."""
        moved = [bar.shift(there, at, sign) for bar in self._bars]
        if any(moved):
            self._read_bars()
        if self.span is not None:
            codes = self.span.code[at[self.span.hits[there]]]
            np.add.at(self.span.counts, codes[codes >= 0], sign)

    def room(self) -> Floats:
        """``(N,)`` members that each node holds by itself."""
        return np.where(self._open, self._room, 0.0)

    def missing(self) -> float:
        """How many do not fit now; less than 0 where more than enough do."""
        if self._total is not None:
            return self.needed - self._total
        return self.needed - (self.span.held(self.room()) if self.span is not None else float(self.room().sum()))

    def gains(self, free: Floats, pairs: Pairs, options: int) -> Floats:
        """``(options,)``: see :meth:`CountedFit.gains`. ``free`` ``(R, pairs)`` is the room there."""
        request = self._demand.request[0]
        used = request > 0
        asked = request[used, None]
        most = 1.0 if self._demand.rules.exclusive[0, 0] else float(self.needed)
        now, then = ((f[used] / asked).min(axis=0, initial=most).clip(0.0) for f in (free, free + pairs.amounts))
        gain = np.floor(then) - np.floor(now) + _HINT * ((then % 1.0) - (now % 1.0))
        gain[~self._allowed[pairs.rows]] = 0.0
        return np.asarray(np.bincount(pairs.owner, weights=gain, minlength=options), dtype=np.float64)

    def may_return(self, free: Floats, pairs: Pairs, options: int) -> Bools:
        """``(options,)``: see :meth:`Fit.may_return`."""
        after = self._demand.whole(0, free - pairs.amounts, self._allowed[pairs.rows])
        lost = np.where(self._open[pairs.rows], self._room[pairs.rows] - after, 0.0)
        if self.span is not None:
            return self._by_domain(self.span, pairs.owner, pairs.rows, lost, options)
        return np.asarray(np.bincount(pairs.owner, weights=lost, minlength=options) <= -self.missing())

    def _by_domain(self, span: Span, owner: Ints, rows: Ints, lost: Floats, options: int) -> Bools:
        """As above, if a rule spans domains: options with equal losses in equal domains are tried once.

        Pods that the rule counts itself change more than room, and stay candidates.
        """
        out = np.ones(options, dtype=np.bool_)
        room = self.room()
        inside = span.code >= 0
        by_domain: Floats = np.bincount(span.code[inside], weights=room[inside], minlength=span.size).astype(np.float64)
        outside = float(room[~inside].sum())
        losses: dict[int, dict[int, float]] = {}
        for n in np.flatnonzero(lost > 0).tolist():
            sums = losses.setdefault(int(owner[n]), {})
            code = int(span.code[rows[n]])
            sums[code] = sums.get(code, 0.0) + float(lost[n])
        known: dict[tuple[tuple[int, float], ...], bool] = {}
        for option, sums in losses.items():
            key = tuple(sorted(sums.items()))
            if key not in known:
                left = by_domain.copy()
                for code, amount in key:
                    if code >= 0:
                        left[code] -= amount
                known[key] = span.held_by_domain(left, outside - sums.get(-1, 0.0)) >= self.needed
            out[option] = known[key]
        return out

    def save(self) -> list[Ints]:
        return [of.counts.copy() for of in self._counted()]

    def restore(self, counts: list[Ints]) -> None:
        for of, saved in zip(self._counted(), counts, strict=True):
            of.counts[:] = saved
        self._read_bars()

    def _counted(self) -> list[Bar | Span]:
        return [*self._bars, *([] if self.span is None else [self.span])]


class CountedFit(FreeRoom):
    """For members that are alike; for others a necessary condition: each part of the demand is counted by itself."""

    def __init__(self, demand: Demand, *, alone: bool = True) -> None:
        super().__init__(demand.resources)
        self.steps = 0
        self.exact = True
        self.monotone = demand.rules.monotone
        self._parts = [_Kind(part, self.free, alone=alone) for part in demand.parts()]
        self.alike = len(self._parts) == 1
        self._stale: list[Ints] = []  # rows whose room has changed since the parts have read it

    @property
    def _kinds(self) -> list[_Kind]:
        """The parts of the demand, as counted now."""
        if self._stale:
            rows = distinct(np.concatenate(self._stale))
            self._stale = []
            for part in self._parts:
                part.changed(self.free, rows)
        return self._parts

    def remove(self, slots: Ints) -> None:
        self._move(slots, -1)

    def give_back(self, slots: Ints) -> None:
        self._move(slots, +1)

    def _move(self, slots: Ints, sign: int) -> None:
        if not len(slots):
            return
        rows, amounts = self.held(slots)
        self.free[:, rows] -= sign * amounts
        self._stale.append(rows)
        at = self._table.row[slots]
        there, at = slots[at >= 0], at[at >= 0]
        for part in self._parts:
            part.count(there, at, sign)

    def fits(self) -> bool:
        return self.missing() <= 0

    def missing(self) -> float:
        """How many members do not fit now, by the part that misses most; less than 0 where more than enough do."""
        return max(kind.missing() for kind in self._kinds)

    def gains(self, pairs: Pairs, options: int) -> Floats:
        """Return ``(options,)``: how many more members nodes hold without each option, summed over parts that lack
        members. A fraction of the next member counts a thousandth, as a direction.
        """
        free = np.take(self.free, pairs.rows, axis=1)
        short = [kind for kind in self._kinds if kind.missing() > 0] or self._kinds[-1:]
        return np.asarray(np.sum([kind.gains(free, pairs, options) for kind in short], axis=0))

    def returns(self, slots: Ints) -> bool:
        self.give_back(slots)
        if self.fits():
            return True
        self.remove(slots)
        return False

    def may_return(self, options: Sequence[Ints]) -> Bools:
        if not options:
            return np.zeros(0, dtype=np.bool_)
        return self.may_all(self.pairs(options), len(options))

    def may_all(self, pairs: Pairs, options: int) -> Bools:
        """The same for options by node."""
        free = np.take(self.free, pairs.rows, axis=1)
        return np.asarray(np.all([kind.may_return(free, pairs, options) for kind in self._kinds], axis=0))

    def hint(self, rows: Mapping[str, int], *, least: bool = False) -> None:
        return

    def rows(self) -> dict[str, int]:
        return {}

    def save(self) -> Any:
        return self.free.copy(), [part.save() for part in self._parts]

    def restore(self, state: Any) -> None:
        self._stale.append(np.flatnonzero((self.free != state[0]).any(axis=0)))
        self.free[:] = state[0]
        for part, known in zip(self._parts, state[1], strict=True):
            part.restore(known)


class PlacedFit:
    """For gangs of several kinds, or with rules that cannot be counted: members have places."""

    def __init__(self, sim: Simulation, placer: Placer, wants: Sequence[Want], demand: Demand) -> None:
        self._sim = sim
        self._placer = placer
        self._wants = wants
        self._demand = demand
        self._taken: Bools = np.zeros(sim.snapshot.table.size, dtype=np.bool_)
        self._rows: dict[str, int] = {}
        self._there: Ints | None = None  # (K, N) members of each kind by these rows, where places hold
        self._answer: bool | None = None
        #: Places hold where there is room for them: no filter looks at other pods, and it is known who is required.
        self._only_room = demand.common is None and demand.only_room
        #: How often the filters may still place all members anew to know whether pods can come back.
        self._anew = math.inf
        #: The necessary demands of each kind, or of several together at their smallest, which are quick to count.
        self._counts = CountedFit(demand, alone=False)
        followed = placer.pipeline.followed(demand.classes, sim)
        self._follows = followed > 0
        #: So many times as dear as with one kind is a pod that moves when filters follow it for each kind.
        self._dear = 1 + followed // _FOLLOWED
        self.monotone = demand.rules.monotone
        self.exact = False  # members that differ are placed in several orders, the first of which is where they were
        self.steps = 0

    def remove(self, slots: Ints) -> None:
        self._taken[slots] = True
        self._answer = None
        self._counts.remove(slots)

    def give_back(self, slots: Ints) -> None:
        self._taken[slots] = False
        self._answer = None
        self._counts.give_back(slots)

    def fits(self) -> bool:
        if self._answer is None:
            self._answer = self._holds() or (self._counts.fits() and self._somewhere())
        return self._answer

    def returns(self, slots: Ints) -> bool:
        self.give_back(slots)
        fits = self._holds() or (self._counts.fits() and self._somewhere(often=False))
        if not fits:
            self.remove(slots)
        self._answer = True
        return fits

    def _somewhere(self, *, often: bool = True) -> bool:
        """Return True if there are other places. Without ``often``, the filters are called as seldom as possible."""
        if self._only_room:
            found = packed(self._demand.request, self._demand.mask, self._demand.need, self._counts.free)
            self.steps += 1
            if found.counts is not None:
                self._put(rows_of(self._demand, found.counts))
            if found.known:
                return found.counts is not None
        if not often and self._anew <= 0:
            return False
        self._anew -= not often
        return self._place()

    def _place(self) -> bool:
        sim = self._sim
        slots = np.flatnonzero(self._taken)
        if self._follows:
            self.steps += len(slots) * self._dear // _LIFTED_PER_STEP
        looks = self._placer.looks
        mark = sim.mark()
        sim.lift_all(slots)
        placed = self._placer.required(self._wants, sim, self._rows)
        sim.rollback(mark)
        self.steps += (self._placer.looks - looks) * self._dear
        if placed.complete:
            self._put(placed.rows)
        return placed.complete

    def _put(self, rows: Mapping[str, int]) -> None:
        """Members have places on these rows."""
        self._rows, self._there = dict(rows), None
        members = self._demand.members
        if self._only_room and all(p.uid in rows for m in members for p in m):
            nodes = self._counts.free.shape[1]
            self._there = np.array([np.bincount([rows[p.uid] for p in m], minlength=nodes) for m in members])

    def _holds(self) -> bool:
        """Return True if there is room for all where they were. It is used only where room is all that matters."""
        return self._there is not None and not (self._slack(self._there) < 0)[:, self._there.any(axis=0)].any()

    def _slack(self, there: Ints) -> Floats:
        """``(R, N)`` room beside these members."""
        return np.asarray(self._counts.free - self._demand.request.T @ there.astype(np.float64))

    def may_return(self, options: Sequence[Ints]) -> Bools:
        out = self._counts.may_return(options)
        if self._anew <= 0 and self._there is not None and options:
            # Members for which there is room elsewhere have to make up for what an option takes of their node.
            pairs, slack, asked = self._counts.pairs(options), self._slack(self._there), self._demand.request
            fine = self._demand.mask & [(slack >= one[:, None]).all(axis=0) for one in asked]
            leaves = self._there * (fine.sum(axis=1, keepdims=True) > fine)
            freed = np.take(slack + asked.T @ leaves.astype(np.float64), pairs.rows, axis=1)
            out[pairs.owner[(pairs.amounts > freed).any(axis=0) & self._there[:, pairs.rows].any(axis=0)]] = False
        return out

    def hint(self, rows: Mapping[str, int], *, least: bool = False) -> None:
        self._put(rows)
        self._answer = None
        # Placing all anew takes long (1.5 s for 0.1 in one gang of many kinds); of 230 plans none was better for it.
        large = sum(self._demand.need) > MAX_MEMBERS
        self._anew = 1 if self._only_room and (large or least) else math.inf

    def rows(self) -> dict[str, int]:
        return dict(self._rows) if self.fits() else {}

    def save(self) -> Any:
        return self._taken.copy(), self._rows

    def restore(self, state: Any) -> None:
        taken, rows = state
        self.give_back(np.flatnonzero(self._taken & ~taken))
        self.remove(np.flatnonzero(taken & ~self._taken))
        self._put(rows)


def rows_of(demand: Demand, counts: Ints) -> dict[str, int]:
    """A row for each member (UID) where ``(K, N)`` are on each node: those of a kind by name, nodes in order."""
    out: dict[str, int] = {}
    for members, here in zip(demand.members, counts, strict=True):
        rows = np.repeat(np.arange(len(here)), here).tolist()
        out.update(zip((p.uid for p in members), rows, strict=False))
    return out


def fit_for(sim: Simulation, placer: Placer, wants: Sequence[Want], demand: Demand) -> Fit:
    """The cheapest exact way to answer for this gang. The simulation is the base to take pods from."""
    if len(demand.need) == 1 and demand.common is None and demand.rules.complete:
        return CountedFit(demand)
    return PlacedFit(sim, placer, wants, demand)


class Returnable(msgspec.Struct, frozen=True, eq=False):
    """Victims that come back together. ``core`` are the members of a gang without its surplus. They are put back if the
    whole gang cannot be, then each of the others; empty if there is no surplus.
    """

    slots: Ints
    core: Ints
    order: tuple[object, ...]


def _never() -> bool:
    return False


def reprieve(fit: Fit, units: Sequence[Returnable], late: Callable[[], bool] = _never) -> list[Ints]:
    """Give back to the fit, which holds a plan that works, whatever is not needed, the most harmful first (``order``);
    returns what came back. Before each question, ``late`` is checked.
    """
    back: list[Ints] = []
    left = sorted(units, key=lambda u: u.order)
    while True:
        before = len(left)
        left = _pass(fit, left, back, late)
        if late() or (fit.monotone and fit.exact) or len(left) == before:
            break  # where fewer victims may help, those refused are asked again once something has changed
    spared: list[Returnable] = []
    for unit in left:
        if 0 < len(unit.core) < len(unit.slots) and not late() and fit.returns(unit.core):
            back.append(unit.core)
            rest = unit.slots[~isin(unit.slots, unit.core.tolist())]
            spared += [Returnable(slot, unit.core[:0], (*unit.order, n)) for n, slot in enumerate(rest[:, None])]
    _pass(fit, spared, back, late)
    return back


def _pass(fit: Fit, units: Sequence[Returnable], back: list[Ints], late: Callable[[], bool]) -> list[Returnable]:
    """One pass over all units; returns those that stay away."""
    needed: list[Returnable] = []
    left = list(units)
    size = len(left)  # how many are asked about at once: half as many after a no, twice as many after a yes
    refused = 0  # the first of those left that cannot all come back
    changed = True
    while left and not late():
        if changed:
            possible = fit.may_return([u.slots for u in left]).tolist()
            refused = refused if all(possible[:refused]) else 0
            needed += [u for u, may in zip(left, possible, strict=True) if not may]
            left = [u for u, may in zip(left, possible, strict=True) if may]
            changed = False
            continue
        size = max(1, refused // 2) if refused else min(size, len(left))
        if fit.returns(np.concatenate([u.slots for u in left[:size]])):
            back.extend(u.slots for u in left[:size])
            left, refused, size, changed = left[size:], max(0, refused - size), 2 * size, True
        elif size > 1:
            refused = size
        else:
            needed.append(left.pop(0))
            refused = 0
    return needed + left
