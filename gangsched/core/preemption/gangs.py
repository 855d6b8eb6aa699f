"""Which gangs to interrupt, when single pods are not enough or cost more.

A set of units grows by the best gain for its price until the gang fits. Then it is improved by leaving one out, and by
exchanging one or two for others. The harm of a longer search is never worse: the best set is kept, and the order of
trials does not depend on the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import combinations, islice

import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints
from gangsched.core.preemption.candidates import Prices
from gangsched.core.preemption.demand import Pairs
from gangsched.core.preemption.fit import CountedFit
from gangsched.core.preemption.knapsack import cover
from gangsched.core.preemption.node_prices import MAY, Offer
from gangsched.core.preemption.settle import Settled, Settler

#: Units tried in exchange for another, or in addition: the most promising. Of 15 large clusters, 6 of them full of
#: gangs, all come out the same with 4; without pairs one of 10 has 58 victims for 53.
_TRIED = 12
#: A choice of more units is left as it is: each exchange is a look at all. With 8 all 6 come out the same.
_EXCHANGED = 32
#: Places that include whole units are searched so often, and half as often for a better choice. If no program proves
#: the plan, 5 of 12 clusters full of gangs need them. With 24 all 12 have the same result as with 4. Among more units
#: they take too long: a third of the time of a plan with 2,000.
_PULLED, _FEW = 4, 400
#: The cost of a few array operations, in pods read.
_CALL = 2000


class Interruptions:
    """Searches sets of ``usable`` units (numbers) for one settler. ``count`` counts members with nothing taken;
    ``late`` says that the budget is spent, ``proven`` that a choice is known to be the least harmful.
    """

    def __init__(
        self,
        settler: Settler,
        count: CountedFit,
        usable: Sequence[int],
        late: Callable[[], bool],
        proven: Callable[[Settled], bool],
    ) -> None:
        self._settler = settler
        self._count = count
        self._late = late
        self._proven = proven
        self._c = settler.c
        self.work = 0  # pods looked at
        self._usable = usable
        self._price: Prices = settler.tariff.whole
        #: Slots that may leave by themselves, of limited sets no more than may: gone in the counts from the start.
        self._base: Bools = np.zeros(len(self._c.place), dtype=np.bool_)
        self._base[self._c.slot[settler.most()]] = True
        count.remove(np.flatnonzero(self._base))
        self._draws, self._allowed = self._budgets()
        self._shown: frozenset[int] = frozenset()
        #: Pods that leave with their units and could not leave by themselves, and what those hold.
        self._along: Bools = self._c.leaves_whole & ~self._base[self._c.slot] & self._among(usable)[self._c.unit]
        self._by_node = self._c.by_unit(self._along)
        #: How many pods of each unit may go singly.
        limits = [sum(self._c.limited[n].limit for n in u.limited) for u in self._c.units_of]
        self._spared: Ints = np.array(limits, dtype=np.int64)

    def first(self) -> Settled | None:
        """The choice that even the shortest search finds: none of the units, or what one of the ways leads to."""
        best = self._settler.settle(())
        # With limited sets other members may leave than counting assumes; without, all units are the most that can.
        if best is not None or not self._usable:
            return best
        if not self._c.limited and self._missing(frozenset(self._usable)) > 0:
            return None
        return next((found for start in self._starts() if (found := start()) is not None), None)

    def improved(self, best: Settled) -> Iterator[Settled]:
        """Ever less harmful choices, beginning with this one and with others."""
        for start in islice(self._starts(), 1, 2 + _PULLED // 2) if best.units else ():
            if self._late():
                return
            found = start()
            if found is not None and found.key < best.key:
                yield (best := found)
        while len(best.units) <= _EXCHANGED and not self._proven(best):
            better = self._better(best)
            if better is None:
                break
            yield (best := better)

    def _starts(self) -> Iterator[Callable[[], Settled | None]]:
        """Ways to a first choice, each from nothing."""
        exact = partial(self._cover, exact=True)
        # Where no set is limited what each unit gains adds up, and the other one would take a fifth more of the time.
        covers: list[Callable[[], Settled | None]] = [self._cover, exact] if self._c.limited else [exact]
        yield from covers if self._count.alike else [self._cover]
        for turn in range(_PULLED if len(self._c.units_of) <= _FEW else 0):
            yield partial(self._pulled, turn)

    def _budgets(self) -> tuple[Ints, Ints]:
        """``(units, budgets)`` pods of units that leave whole by budget, and ``(budgets,)`` what these allow."""
        c = self._c
        limits = [limited for limited in c.limited if limited.budget]
        draws = np.zeros((len(c.units_of), len(limits)), dtype=np.int64)
        for n, limited in enumerate(limits):
            draws[:, n] = c.drawn_whole(limited.pods)
        return draws, np.array([limited.limit for limited in limits], dtype=np.int64)

    # -- cover ---------------------------------------------------------------------------------------------

    def _cover(self, *, exact: bool = False) -> Settled | None:
        """Units are added until the gang fits, those by price per member gained that share no nodes; then those that
        turned out needless go. If ``exact``, of the cheapest that make up for what is missing if gains add up.
        """
        chosen: frozenset[int] = frozenset()
        more = 1  # units added at once where they do not add up
        while True:
            missing = math.ceil(self._missing(chosen))
            if missing <= 0:
                found = self._settler.settle(chosen)
                if found is not None:
                    return self._fewer(found)
            left, price = self._affordable(chosen)
            gains = self._gains(chosen, left) if left else np.zeros(0)
            some = None
            if missing > 0 and exact:
                some = cover(np.rint(gains).astype(np.int64), price, missing)
                self.work += len(left) * missing
            if some is None:
                # By price per gained member, half of the missing ones at once, so that the last are chosen with care;
                # or if counting finds room and places do not.
                useful = np.flatnonzero(gains > 0) if missing > 0 else np.arange(len(left))
                rate = price[useful] / np.clip(gains[useful], 1e-9, max(missing, 1.0))
                some = useful[np.lexsort((useful, rate.imag, rate.real))]
                half = int(np.searchsorted(np.cumsum(gains[some]), missing / 2, side="right"))
                some = some[: max(1, half)] if missing > 0 else some[:more]
                more *= 1 + (missing <= 0)
            if not len(some):
                return None
            chosen = chosen.union(self._apart([left[n] for n in some.tolist()]))

    def _pulled(self, turn: int) -> Settled | None:
        """Return places among all nodes if every unit has a part of its price on each node with one of its pods. The
        parts change with every turn. The units that went along and are not needed come back.
        """
        found = self._settler.offer(())
        if found is None:
            return None
        offer, c = found[0], self._c
        left, price = self._affordable(frozenset())
        full: Prices = np.zeros(len(c.units_of), dtype=np.complex128)
        full[left] = (price if turn % 2 else price / 2) * (0.6 + 0.8 * _noise(len(left), turn))
        mine = self._among(left)[c.unit]
        at = (c.unit * len(c.count) + c.row)[mine]
        status = np.where(mine, MAY, offer.status)
        prices = offer.price.copy()
        prices[mine] = full[c.unit[mine]] / np.bincount(at, minlength=1)[at]  # several of one unit on a node
        placing = self._settler.places.best(Offer(status, prices, mine if offer.dear is None else mine | offer.dear))
        if placing is None:
            return None
        counts = np.bincount(c.unit[placing.gone & mine], minlength=len(c.units_of))
        settled = self._settler.settle(np.flatnonzero(counts > self._spared).tolist())
        return None if settled is None else self._fewer(settled)

    def _affordable(self, chosen: frozenset[int]) -> tuple[list[int], Prices]:
        """Return the units that may be evicted beside those chosen, with their prices. If budgets may not be exceeded,
        only units within them, else with the excess in the price.
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

    def _apart(self, units: Sequence[int]) -> list[int]:
        """Return those of these units that share no node with one before them, so that their gains add up."""
        pairs = self._pairs_of(units)
        first: Ints = np.full(len(self._c.count), len(units))
        np.minimum.at(first, pairs.rows, pairs.owner)
        shares = np.bincount(pairs.owner[first[pairs.rows] < pairs.owner], minlength=len(units))
        return [unit for unit, shared in zip(units, shares.tolist(), strict=True) if not shared]

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
                pods = np.concatenate([self._c.units_of[u].pods for u in sorted(some)])
                slots = self._c.slot[pods[self._along[pods]]]
                (self._count.remove if take else self._count.give_back)(slots)
        self._shown = units

    def _among(self, units: Collection[int]) -> Bools:
        """``(units + 1,)``: these; False for none (-1)."""
        out = np.zeros(len(self._c.units_of) + 1, dtype=np.bool_)
        out[list(units)] = True
        return out

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
        pairs = self._pairs_of(others)
        self.work += len(pairs.owner) + _CALL
        return self._count.gains(pairs, len(others))

    def _pairs_of(self, units: Sequence[int]) -> Pairs:
        """Return the evicted pods of these units by node. Their indexes here are the owners."""
        number: Ints = np.full(len(self._c.units_of), -1, dtype=np.int64)
        number[list(units)] = np.arange(len(units))
        owner = number[self._by_node.owner]
        some = np.flatnonzero(owner >= 0)
        return Pairs(owner[some], self._by_node.rows[some], np.take(self._by_node.amounts, some, axis=1))

    def _dearest(self, units: frozenset[int]) -> list[int]:
        """These units, the dearest first."""
        return sorted(units, key=lambda u: (-self._price[u].real, -self._price[u].imag, u))

    def _needless(self, units: frozenset[int]) -> list[int]:
        """Return the units without which counting still finds room, the dearest first."""
        inside = self._dearest(units)
        self._go_to(units)
        fine = self._count.may_all(self._pairs_of(inside), len(inside))
        return [u for u, may in zip(inside, fine.tolist(), strict=True) if may]

    # -- improvement ---------------------------------------------------------------------------------------

    def _better(self, best: Settled) -> Settled | None:
        """The first neighbour that is less harmful."""
        for units in self._neighbours(best):
            if self._late():
                return None
            found = self._settler.settle(units, best.price)
            if found is not None and found.key < best.key:
                return found
        return None

    def _neighbours(self, best: Settled) -> Iterator[frozenset[int]]:
        """One unit less; one, or two, exchanged for others."""
        inside = self._dearest(best.units)
        for unit in self._needless(best.units):
            yield best.units - {unit}
        for turn, unit in enumerate(inside):
            # Worth a look where victims may get fewer; where only work could be saved, for the dearest few.
            most = best.price if turn < _TRIED else complex(best.price.real, 0.0)
            yield from self._instead(best.units - {unit}, most, several=False)
        for pair in combinations(inside[:_TRIED], 2):
            yield from self._instead(best.units.difference(pair), best.price, several=True)

    def _instead(self, rest: frozenset[int], most: complex, *, several: bool) -> Iterator[frozenset[int]]:
        """Return these units with one more, or with two if ``several`` were removed, that fill the gap by counting, at
        a total price of at most ``most``.
        """
        others, price = self._affordable(rest)
        own = self._settler.own(rest)
        fine = np.flatnonzero(price < most - own)
        if not len(fine):
            return
        others, price = [others[n] for n in fine.tolist()], price[fine]
        gains, missing = self._gains(rest, others), self._missing(rest)
        # Where counting misses nothing it is surplus or budgets that do not go round, which it does not see.
        useful = np.flatnonzero((gains > 0) | (missing <= 0))
        most_room = useful[np.lexsort((useful, price[useful].imag, price[useful].real, -gains[useful]))]
        cheap = useful[np.lexsort((useful, -gains[useful], price[useful].imag, price[useful].real))]
        enough = [[n for n in some.tolist() if gains[n] >= missing] for some in (cheap, most_room)]
        for n in dict.fromkeys([*enough[0][:_TRIED], *enough[1][: _TRIED // 2]]):
            yield rest | {others[n]}
        for n, k in combinations(most_room[: 2 * _TRIED].tolist(), 2) if several else ():
            # Two that share nodes make more room than each by itself.
            if (own + price[n] + price[k]).real <= most.real and gains[n] + gains[k] >= missing - 1:
                units = rest | {others[n], others[k]}
                if self._missing(units) <= 0:
                    yield units


def _noise(size: int, turn: int) -> Floats:
    """``(size,)`` numbers from 0 to 1 without a pattern, others with every turn, the same in every process."""
    return np.asarray((np.arange(1, size + 1) * (0.6180339887 + turn * 0.7548776662)) % 1.0)
