"""Which gangs to interrupt, when single pods are not enough or cost more.

A set of units is grown by what each adds for its price (*cover*) until the gang fits, then improved by leaving one out,
exchanging one for another, or adding one that makes dearer victims needless. The harm of a longer search is never
worse: the best set is kept, and the order of trials does not depend on the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import chain, combinations, islice

import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints, distinct
from gangsched.core.preemption.candidates import Candidates
from gangsched.core.preemption.fit import CountedFit
from gangsched.core.preemption.free import Pairs
from gangsched.core.preemption.node_prices import GONE, MAY, STAYS, Offer
from gangsched.core.preemption.places import Placing
from gangsched.core.preemption.prices import NEVER, Prices
from gangsched.core.preemption.settle import Settled, Settler

#: Units tried in exchange for another, or in addition: the most promising.
_TRIED = 12
#: Parts of a unit's price that it pulls along on each node: all of it overrates units that several nodes share.
_SHARES = (1.0, 0.5)
#: Starts that pull units along if none before has led to a choice; and how many are enough if one has.
_STARTS, _ENOUGH = 24, 3
#: So many changes of the best choice in a row that make it no better end the search.
_PATIENCE = 60
#: Up to so many units, places may pull units along.
_FEW = 400
#: With more units than that in all, a choice of more than so many is left as it is: each exchange is a look at all.
_EXCHANGED = 32
#: What a few array operations take, in pods looked at.
_CALL = 2000


class Interruptions:
    """Searches sets of units for one settler. ``count`` counts members with nothing taken; ``late`` says that the
    budget is spent, ``proven`` that a choice is known to be the least harmful.
    """

    def __init__(
        self,
        settler: Settler,
        count: CountedFit,
        late: Callable[[], bool],
        proven: Callable[[Settled], bool],
    ) -> None:
        self._settler = settler
        self._count = count
        self._late = late
        self._proven = proven
        self._c = settler.c
        self.work = 0  # pods looked at
        self.first: Settled | None = None  # the choice that was improved
        self._usable: list[int] = []
        self._price: Prices = settler.tariff.whole
        #: Slots that may leave by themselves, of limited sets no more than may: gone in the counts from the start.
        self._base: Bools = np.zeros(len(self._c.place), dtype=np.bool_)
        self._base[self._c.slot[settler.most()]] = True
        count.take(np.flatnonzero(self._base))
        self._draws, self._allowed = self._budgets()
        self._shown: frozenset[int] = frozenset()
        self._extras: dict[int, Ints] = {}
        self._held: dict[int, tuple[Ints, Floats]] = {}
        c = self._c
        #: Pods of the same unit on the node of each pod, and how many of each unit may go singly.
        self._beside = _beside(c)
        limits = [sum(c.limited[n].limit for n in u.limited) for u in c.units_of]
        self._spared: Ints = np.array(limits, dtype=np.int64)
        self._local = len(c.units_of) <= _FEW

    def search(self, usable: Sequence[int], *, improve: bool) -> Settled | None:
        """The least harmful choice of these units (numbers) that was found, the first unless told to ``improve`` it."""
        self._usable = list(usable)
        best = self._settler.settle(())
        if not self._usable:
            return best
        # With limited sets other members may leave than counting assumes; without, all units are the most that can.
        if best is None and not self._c.limited and self._missing(frozenset(self._usable)) > 0:
            return None
        for turn, start in enumerate(() if best is not None else islice(self._starts(), None if improve else _ENOUGH)):
            found = start()
            if found is not None and (best is None or found.key < best.key):
                best = found
            if best is not None and (turn >= _ENOUGH or self._late() or self._proven(best)):
                break
        self.first = best
        return None if best is None else self._improved(best) if improve else best

    def improved(self, starts: Sequence[frozenset[int]], usable: Sequence[int]) -> Settled | None:
        """The least harmful choice found from the first of these on that can be settled; None if none can."""
        self._usable = list(usable)
        settled = (self._settler.settle(units) for units in starts)
        start = next((found for found in settled if found is not None), None)
        return None if start is None else self._improved(start)

    def _starts(self) -> Iterator[Callable[[], Settled | None]]:
        """Ways to a first choice, each from nothing."""
        yield lambda: self._cover(1.0)
        if not self._local:
            return
        yield lambda: self._cover(2.0)
        nothing: frozenset[int] = frozenset()
        for turn in range(_STARTS):
            yield lambda turn=turn: self._pulled(nothing, nothing, _SHARES[turn % 2], turn // 2)  # type: ignore[misc]

    def _budgets(self) -> tuple[Ints, Ints]:
        """``(units, budgets)`` pods of units that leave whole by budget, and ``(budgets,)`` what these allow."""
        c = self._c
        limits = [limited for limited in c.limited if limited.budget]
        draws = np.zeros((len(c.units_of), len(limits)), dtype=np.int64)
        leaves = np.array([unit.whole for unit in c.units_of], dtype=np.bool_)
        for n, limited in enumerate(limits):
            units = c.unit[limited.pods]
            units = units[units >= 0]
            draws[:, n] = np.bincount(units[leaves[units]], minlength=len(c.units_of))
        return draws, np.array([limited.limit for limited in limits], dtype=np.int64)

    # -- cover ---------------------------------------------------------------------------------------------

    def _cover(self, power: float) -> Settled | None:
        """Units are added by price per member gained until the gang fits; then those that turned out needless go."""
        chosen: frozenset[int] = frozenset()
        more = 1  # units added at once when counting says that there is room, and places that there is not
        while True:
            missing = self._missing(chosen)
            if missing <= 0:
                found = self._settler.settle(chosen)
                if found is not None:
                    return self._fewer(found)
            left, price = self._affordable(chosen)
            if not left:
                return None
            gains = self._gains(chosen, left)
            useful = np.flatnonzero(gains > 0)
            if not len(useful) and missing > 0:
                return None
            if not len(useful):
                useful = np.arange(len(left))
                gains = np.ones(len(left))
            rate = price[useful] / np.minimum(gains[useful], max(missing, 1.0)) ** power
            order = useful[np.lexsort((useful, rate.imag, rate.real))]
            ranked = [left[n] for n in order.tolist()]
            if missing > 0:
                chosen = chosen.union(self._independent(ranked, gains[order], missing))
            else:
                chosen = chosen.union(ranked[:more])
                more *= 2

    def _affordable(self, chosen: frozenset[int]) -> tuple[list[int], Prices]:
        """The units that may go beside those chosen, and the price of each: where budgets may not be exceeded, those
        that do not; else with what they exceed them by.
        """
        left: Ints = np.array([u for u in self._usable if u not in chosen], dtype=np.int64)
        price = self._price[left]
        if not self._draws.shape[1] or not len(left):
            return left.tolist(), price
        over = np.maximum(self._draws[left] - np.maximum(self._allowed - self._draws[sorted(chosen)].sum(axis=0), 0), 0)
        if self._settler.hard:
            fine = ~over.any(axis=1)
            return left[fine].tolist(), price[fine]
        return left.tolist(), price + self._settler.tariff.beyond * over.sum(axis=1)

    def _independent(self, ranked: Sequence[int], gains: Floats, missing: float) -> list[int]:
        """The first of these units, and more of those after it that share no node with them: half of what is missing,
        so that the last ones are chosen with care.
        """
        out = [ranked[0]]
        most = missing / 2 - float(gains[0])
        used: Bools = np.zeros(len(self._c.count), dtype=np.bool_)
        used[self._rows(ranked[0])] = True
        for unit, gain in zip(ranked[1:], gains[1:].tolist(), strict=True):
            if gain < gains[0] or gain > most:
                break
            rows = self._rows(unit)
            if not used[rows].any():
                used[rows] = True
                out.append(unit)
                most -= gain
        return out

    def _rows(self, unit: int) -> Ints:
        rows: Ints = self._c.row[self._c.units_of[unit].pods]
        return rows

    def _fewer(self, found: Settled) -> Settled:
        """Leave out units, the dearest first, as long as counting says that the gang fits without them; and only the
        first of these where the places say otherwise.
        """
        out: list[int] = []
        for unit in self._needless(found.units):
            if self._missing(found.units.difference(out, (unit,))) <= 0:
                out.append(unit)
        while out:
            without = self._settler.settle(found.units.difference(out))
            if without is not None and without.key <= found.key:
                return without
            out = out[: len(out) // 2]
        return found

    # -- counting ------------------------------------------------------------------------------------------

    def _go_to(self, units: frozenset[int]) -> None:
        """Have the counts show these units gone, beside all single pods."""
        for some, take in ((units - self._shown, True), (self._shown - units, False)):
            if some:
                slots = np.concatenate([self._extra(u) for u in sorted(some)])
                (self._count.take if take else self._count.give_back)(slots)
        self._shown = units

    def _extra(self, unit: int) -> Ints:
        """The slots that leave with a unit and could not leave by themselves."""
        if unit not in self._extras:
            slots: Ints = self._c.units_of[unit].slots
            self._extras[unit] = slots[~self._base[slots]] if self._c.units_of[unit].whole else slots[:0]
        return self._extras[unit]

    def _missing(self, units: frozenset[int]) -> float:
        """How many members would still be without room, with these units and all single pods gone; by the part of the
        demand that misses most.
        """
        self._go_to(units)
        self.work += _CALL // 4
        return self._count.missing()

    def _gains(self, units: frozenset[int], others: Sequence[int]) -> Floats:
        """``(others,)`` how many more members there is room for with each in addition, summed over parts that miss."""
        self._go_to(units)
        number: Ints = np.full(len(self._c.units_of), -1, dtype=np.int64)
        number[list(others)] = np.arange(len(others))
        pairs = self._by_node
        owner = number[pairs.owner]
        some = owner >= 0
        self.work += int(some.sum()) + _CALL
        return self._count.gains(Pairs(owner[some], pairs.rows[some], pairs.amounts[:, some]), len(others))

    @cached_property
    def _by_node(self) -> Pairs:
        """What leaves with each unit, by node."""
        return self._count.pairs([self._extra(u) for u in range(len(self._c.units_of))])

    def _needless(self, units: frozenset[int]) -> list[int]:
        """Those of the units without which there is still room as far as counting tells, the dearest first."""
        inside = sorted(units, key=lambda u: (-self._price[u].real, -self._price[u].imag, u))
        self._go_to(units)
        fine = self._count.may_return([self._extra(u) for u in inside])
        return [u for u, may in zip(inside, fine.tolist(), strict=True) if may]

    # -- improvement ---------------------------------------------------------------------------------------

    def _improved(self, best: Settled) -> Settled:
        if not self._local and len(best.units) > _EXCHANGED:
            return best  # each change is a look at all; what is not needed comes back in the end anyway
        failures = 0
        while failures < _PATIENCE and not self._late() and not self._proven(best):
            if failures == 1:
                better = self._thinned(best)
            else:
                better = self._changed(best, failures) if failures else self._better(best)
            if better is not None and better.key < best.key:
                best, failures = better, 0
            else:
                failures += 1
                if not self._local or not best.units:
                    break
        return best

    def _thinned(self, best: Settled) -> Settled | None:
        """The choice with one unit less, looked for with more effort than other changes get."""
        if len(best.units) > _TRIED:
            return None
        for unit in sorted(best.units, key=lambda u: (-self._price[u].real, -self._price[u].imag, u)):
            found = None if self._late() else self._settler.thoroughly(best.units - {unit}, best.price)
            if found is not None and found.key < best.key:
                return found
        return None

    def _changed(self, best: Settled, turn: int) -> Settled | None:
        """The choice with a part of its units barred and others pulled along, at prices that differ with every turn."""
        noise = _noise(len(self._c.units_of), turn)
        inside = sorted(best.units)
        out = frozenset(u for u in inside if noise[u] < 0.35) or frozenset(inside[turn % len(inside) :][:1])
        barred = out if turn % 3 else frozenset()
        return self._pulled(best.units - out, barred, _SHARES[turn % 2], turn, best.price)

    def _better(self, best: Settled) -> Settled | None:
        """The first neighbour that is less harmful."""
        for neighbour in self._neighbours(best):
            if self._late():
                return None
            found = neighbour()
            if found is not None and found.key < best.key:
                return found
        return None

    def _neighbours(self, best: Settled) -> Iterator[Callable[[], Settled | None]]:
        needless = self._needless(best.units)
        if self._local:  # surplus and budgets may go round in other ways than counting assumes
            needless += [u for u in sorted(best.units) if u not in needless]
        for unit in needless:
            yield lambda unit=unit: self._settler.settle(best.units - {unit}, best.price)  # type: ignore[misc]
        inside = sorted(best.units, key=lambda u: (-self._price[u].real, -self._price[u].imag, u))
        if self._local:
            for share in _SHARES:
                for unit in inside:
                    out = frozenset((unit,))
                    yield lambda out=out, share=share: self._pulled(best.units - out, out, share, below=best.price)  # type: ignore[misc]
                yield lambda share=share: self._pulled(best.units, frozenset(), share, below=best.price)  # type: ignore[misc]
        for units in chain(self._exchanges(best, inside), self._additions(best, inside)):
            yield lambda units=units: self._settler.settle(units, best.price)  # type: ignore[misc]
        for units in self._pairs(best, inside):
            yield lambda units=units: self._settler.settle(units, best.price)  # type: ignore[misc]

    def _others(self, rest: frozenset[int], most: complex) -> tuple[list[int], Prices]:
        """Units that may be interrupted beside these without costing more than ``most`` in all, and their prices."""
        others, price = self._affordable(rest)
        own = self._settler.own(rest)
        fine = price < most - own
        return [u for u, may in zip(others, fine.tolist(), strict=True) if may], price[fine]

    def _pairs(self, best: Settled, inside: Sequence[int]) -> Iterator[frozenset[int]]:
        """Two units for one or two others that cost no more together and make up for them as far as counting tells."""
        for first, second in combinations(inside[:_TRIED], 2):
            rest = best.units - {first, second}
            others, price = self._others(rest, best.price)
            if not others:
                continue
            gains = self._gains(rest, others)
            missing = self._missing(rest)
            useful = np.flatnonzero((gains > 0) | (missing <= 0))
            ranked = useful[np.lexsort((useful, price[useful].imag, price[useful].real, -gains[useful]))][: 2 * _TRIED]
            for n in ranked.tolist():
                if gains[n] >= missing:
                    yield rest | {others[n]}
            own = self._settler.own(rest)
            for n, k in combinations(ranked.tolist(), 2):
                cost = own + price[n] + price[k]
                if cost.real <= best.price.real and gains[n] + gains[k] >= missing - 1:
                    units = rest | {others[n], others[k]}
                    if self._missing(units) <= 0:
                        yield units

    def _exchanges(self, best: Settled, inside: Sequence[int]) -> Iterator[frozenset[int]]:
        """One unit for another that makes up for it by itself."""
        for turn, out in enumerate(inside):
            rest = best.units - {out}
            # Worth a look where victims may get fewer; where only work could be saved, for the dearest few.
            most = best.price if turn < _TRIED else complex(best.price.real, 0.0)
            others, price = self._others(rest, most)
            if not others:
                continue
            gains = self._gains(rest, others)
            # Where counting misses nothing it is surplus or budgets that do not go round, which it does not see.
            missing = self._missing(rest)
            fine = np.flatnonzero((gains >= missing) & ((gains > 0) | (missing <= 0)))
            most_room = fine[np.lexsort((fine, price[fine].imag, price[fine].real, -gains[fine]))]
            cheap = fine[np.lexsort((fine, -gains[fine], price[fine].imag, price[fine].real))]
            for n in dict.fromkeys([*cheap[:_TRIED].tolist(), *most_room[: _TRIED // 2].tolist()]):
                yield rest | {others[n]}

    # -- places that pull units along ----------------------------------------------------------------------

    def _pulled(
        self,
        kept: frozenset[int],
        barred: frozenset[int],
        share: float,
        turn: int = 0,
        below: complex = NEVER,
    ) -> Settled | None:
        """Places among all nodes when these units are gone already, those barred stay, and every other goes at a
        ``share`` of its price on each node where one of its pods is in the way. The units that went along and are not
        needed beside those places come back.
        """
        found = self._settler.offer(kept)
        if found is None:
            return None
        offer = found[0]
        left, price = self._affordable(kept)
        full = self._price.copy()
        full[left] = price
        if turn:
            full *= 0.6 + 0.8 * _noise(len(full), turn)
        may = np.zeros(len(self._c.units_of), dtype=np.bool_)
        may[left] = True
        may[sorted(barred)] = False
        unit = self._c.unit
        mine = (unit >= 0) & (offer.status != GONE)
        mine[mine] = may[unit[mine]]
        status, prices = offer.status.copy(), offer.price.copy()
        status[mine] = MAY
        prices[mine] = share * full[unit[mine]] / self._beside[mine]
        barring = (unit >= 0) & (offer.status != GONE) & ~mine & ~self._settler.allowed
        status[barring] = STAYS
        dear = mine if offer.dear is None else mine | offer.dear
        placing = self._settler.places.best(Offer(status, prices, dear))
        if placing is None:
            return None
        hit = placing.gone & mine
        counts = np.bincount(unit[hit], minlength=len(self._c.units_of))
        units = kept | set(np.flatnonzero(counts > self._spared).tolist())
        return self._settler.settle(self._pruned(units, placing), below) or self._settler.settle(units, below)

    def _pruned(self, units: frozenset[int], placing: Placing) -> frozenset[int]:
        """Without the units for which there is room beside these places, the dearest first."""
        found = self._settler.offer(units)
        if found is None:
            return units
        places = self._settler.places
        slack = places.nodes.room(found[0]) - places.demand.request.T @ placing.counts.astype(np.float64)
        out = units
        for unit in sorted(units, key=lambda u: (-self._price[u].real, -self._price[u].imag, u)):
            if not self._c.units_of[unit].whole:
                continue
            rows, held = self._holdings(unit)
            if (held <= slack[:, rows]).all():
                slack[:, rows] -= held
                out = out - {unit}
        return out

    def _holdings(self, unit: int) -> tuple[Ints, Floats]:
        """The nodes of a unit, and ``(R, nodes)`` what its pods that could not leave by themselves hold there."""
        if unit not in self._held:
            pods = self._c.units_of[unit].pods
            pods = pods[~(self._settler.allowed & self._c.single)[pods]]
            rows = distinct(self._c.row[pods])
            at = np.searchsorted(rows, self._c.row[pods])
            held = np.array([np.bincount(at, weights=r[pods], minlength=len(rows)) for r in self._c.req])
            self._held[unit] = rows, held
        return self._held[unit]

    def _additions(self, best: Settled, inside: Sequence[int]) -> Iterator[frozenset[int]]:
        """One more unit that might make dearer victims needless, alone or in exchange."""
        worth, _ = self._others(best.units, best.price)
        if not worth:
            return
        value = self._worth(best, worth)
        order = np.lexsort((np.arange(len(worth)), -self._gains(best.units, worth), -value))
        for n in order[:_TRIED].tolist():
            yield best.units | {worth[n]}
        for n in order[: _TRIED // 2].tolist():
            for out in inside[: _TRIED // 2]:
                yield (best.units - {out}) | {worth[n]}

    def _worth(self, best: Settled, units: Sequence[int]) -> Floats:
        """``(units,)`` the price of victims now on the nodes that each has pods on: what it may save at most there."""
        gone = best.placing.gone
        prices = self._settler.tariff.pods[gone].real
        by_row = np.bincount(self._c.row[gone], weights=prices, minlength=len(self._c.count))
        return np.array([float(by_row[distinct(self._rows(u))].sum()) for u in units])


def _noise(size: int, turn: int) -> Floats:
    """``(size,)`` numbers from 0 to 1 without a pattern, others with every turn, the same in every process."""
    return np.asarray((np.arange(1, size + 1) * (0.6180339887 + turn * 0.7548776662)) % 1.0)


def _beside(c: Candidates) -> Floats:
    """``(V,)`` pods of the same unit on the node of each pod, itself included."""
    keys = (c.unit + 1) * len(c.count) + c.row
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1])) if len(keys) else order
    counts = np.diff(np.append(starts, len(keys)))
    out = np.ones(len(keys))
    out[order] = np.repeat(counts, counts)
    return out
