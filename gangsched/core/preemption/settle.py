"""The places for one choice of gangs to interrupt, within what surpluses and disruption budgets allow.

Of a limited set (:class:`~.candidates.Limited`) the places may want too many. Then the nodes that would lose most keep
theirs. The other pods of the set are barred, or priced as beyond a budget that may be broken, and the places are
searched again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Ints
from gangsched.core.preemption.candidates import NEVER, Candidates, Prices, Tariff, rank
from gangsched.core.preemption.harm import Harm
from gangsched.core.preemption.node_prices import GONE, MAY, STAYS, Offer
from gangsched.core.preemption.places import Places, Placing

#: How often the places are searched again. Each round settles the sets that were overdrawn in it for good. With 4 of
#: them one of 10 clusters full of gangs had 6 pods more beyond budgets, and another 12 victims fewer.
_ROUNDS, _TRIAL_ROUNDS = 12, 4
#: How often pods of overdrawn sets become dearer, and by which part of their price for each excess pod: without it, 3
#: of 24 large clusters had one more victim.
_RAISES, _RAISE = 12, 0.35


class Settled(msgspec.Struct, frozen=True, eq=False):
    """Places and victims for these interrupted units, and what all of that costs."""

    units: frozenset[int]
    placing: Placing
    price: complex
    harm: Harm | None  # without work and names; None where the price does not tell

    @property
    def key(self) -> tuple[float, float]:
        """To compare by."""
        return rank(self.price)


class Settler:
    """Settles choices of units for one set of candidates. ``allowed`` ``(V,)`` are those that may leave by themselves;
    with ``hard`` no budget is exceeded.
    """

    def __init__(self, candidates: Candidates, places: Places, tariff: Tariff, allowed: Bools, *, hard: bool) -> None:
        self.c = candidates
        self.places = places
        self.tariff = tariff
        self.allowed = allowed
        self.hard = hard
        self._known: dict[frozenset[int], Settled | None] = {}
        #: The lower bound for places for these units.
        self._floors: dict[frozenset[int], complex] = {}
        self._within = [int((allowed[s.pods]).sum()) > s.limit or bool(s.budget) for s in candidates.limited]

    def settle(self, units: Collection[int], below: complex = NEVER) -> Settled | None:
        """The least harmful places found when exactly these units are interrupted; None if there are none, or none that
        cost less than ``below``.
        """
        key = frozenset(units)
        if key in self._known:
            return self._known[key]
        if key in self._floors and rank(self._floors[key]) >= rank(below):
            return None
        found = self._settle(key, below)
        if key not in self._floors or rank(self._floors[key]) < rank(below):
            self._known[key] = found
        return found

    def refined(self, found: Settled, late: Callable[[], bool]) -> Iterator[Settled]:
        """Yield better choices of the same units, with the places searched again at other prices. On nodes where one
        order of pods may not be the best, all sets of them are compared. Then pods of overdrawn sets become dearer
        until the places use fewer of them. The latter takes a pod less in one large cluster of 30.
        """
        offered = self.offer(found.units)
        if offered is None:
            return
        offer, binding = offered
        unsure = self.places.unsure(offer)
        if unsure.any() and not late():
            self.places.nodes.thorough = unsure
            again = self._settle(found.units, NEVER)
            self.places.nodes.thorough = None
            if again is not None and again.key < found.key:
                yield (found := again)
        rate = dict.fromkeys(binding, 0.0)
        placing = self.places.best(offer) if binding else None
        for turn in range(_RAISES):
            if placing is None or late() or not self._raised(rate, placing, offer, turn):
                break
            priced = self._at_rates(offer, rate)
            placing = self.places.best(priced)
            if placing is not None and (turn % 2 or not self._overdrawn(placing, offer, binding)):
                again = self._mended(found.units, priced, placing, binding, _ROUNDS, close=True)
                if again is not None and again.key < found.key:
                    yield (found := again)

    def _raised(self, rate: dict[int, float], placing: Placing, offer: Offer, turn: int) -> bool:
        """Make sets dearer that are overdrawn, and others cheaper again (a subgradient step); False if none changes."""
        changed = False
        for n, before in rate.items():
            excess = self._excess(n, placing, offer)
            rate[n] = max(0.0, before + _RAISE / (1.0 + turn / 4.0) * max(-2, min(2, excess)))
            changed |= rate[n] != before
        return changed

    def _at_rates(self, offer: Offer, rate: Mapping[int, float]) -> Offer:
        price = offer.price.copy()
        dear = np.zeros(self.c.size, dtype=np.bool_) if offer.dear is None else offer.dear.copy()
        for n, more in rate.items():
            if more:
                pods = self.c.limited[n].pods
                price[pods] += more * self.tariff.pods[pods].real
                dear[pods] = True
        return Offer(offer.status, price, dear)

    def offer(self, units: Collection[int]) -> tuple[Offer, list[int]] | None:
        """The candidates when these units are interrupted, and the numbers of binding limited sets; None when they
        exceed a budget that may not be exceeded.
        """
        c = self.c
        status = np.where(self.allowed & c.single, MAY, STAYS)
        freed: set[int] = set()
        for number in sorted(units):
            unit = c.units_of[number]
            freed.update(unit.limited)
            if unit.whole:
                status[unit.pods] = GONE
        price, binding = self.tariff.pods, []
        dear: Bools | None = None
        for number, limited in enumerate(c.limited):
            if number in freed or not self._within[number]:
                continue
            left = limited.limit - int((status[limited.pods] == GONE).sum())
            if left < 0 and self.hard:
                return None
            if left > 0:
                binding.append(number)
                continue
            open_ = limited.pods[status[limited.pods] == MAY]
            if not limited.budget or self.hard:
                status[open_] = STAYS
            elif len(open_):
                price, dear = self._beyond(price, dear, open_)
        return Offer(status, price, dear), binding

    def _beyond(self, price: Prices, dear: Bools | None, pods: Ints) -> tuple[Prices, Bools]:
        """These pods cost what one beyond its budget does: once, however many budgets it is under."""
        price = price.copy()
        dear = np.zeros(len(price), dtype=np.bool_) if dear is None else dear.copy()
        fresh = pods[~dear[pods]]
        price[fresh] += self.tariff.beyond
        dear[fresh] = True
        return price, dear

    def _settle(self, units: frozenset[int], below: complex) -> Settled | None:
        found = self.offer(units)
        if found is None:
            return None
        offer, binding = found
        first = self.places.best(offer)
        if first is None:
            return None
        self._floors[units] = self.own(units) + first.price
        if rank(self._floors[units]) >= rank(below):
            return None
        if not self._overdrawn(first, offer, binding):
            return self._judged(units, first, offer)
        # A trial is made legal in the quickest way; a first choice is worth more.
        trial = below.real < NEVER.real
        within = self.places.best(self._within_limits(offer, binding))
        best = None if within is None else self._judged(units, within, offer)
        rounds = _TRIAL_ROUNDS if trial else _ROUNDS
        return self._better(best, self._mended(units, offer, first, binding, rounds, close=trial))

    def most(self) -> Bools:
        """``(V,)`` as many pods as may leave by themselves: of each limited set those that hold most, together."""
        found = self.offer(())
        return np.zeros(self.c.size, np.bool_) if found is None else self._within_limits(*found).status == MAY

    def _within_limits(self, offer: Offer, binding: Sequence[int]) -> Offer:
        """The offer with no more of each limited set than may leave: then none can be overdrawn."""
        status = offer.status.copy()
        for number in binding:
            limited = self.c.limited[number]
            if limited.budget and not self.hard:
                continue
            left = limited.limit - int((status[limited.pods] == GONE).sum())
            pods = limited.pods[status[limited.pods] == MAY]
            status[self._fullest(pods)[max(0, left) :]] = STAYS
        return Offer(status, offer.price, offer.dear, offer.settled)

    def _fullest(self, pods: Ints) -> Ints:
        """These pods, those first of which most are on one node, and that hold most."""
        c = self.c
        crowd = np.bincount(c.row[pods], minlength=len(c.count))[c.row[pods]]
        return pods[np.lexsort((pods, -c.useful[pods], c.row[pods], -crowd))]

    def _mended(
        self,
        units: frozenset[int],
        offer: Offer,
        placing: Placing,
        binding: Sequence[int],
        rounds: int,
        *,
        close: bool,
    ) -> Settled | None:
        """These places with what is overdrawn settled, set by set, until nothing is. Unless sets ``close`` at once,
        other pods may leave in place of those used, for some rounds.
        """
        again: Placing | None = placing
        best: Settled | None = None
        for turn in range(rounds):
            if again is None:
                break
            over = self._overdrawn(again, offer, binding)
            best = self._better(best, self._judged(units, again, offer))
            if not over:
                break
            everything = turn >= rounds // 2
            offer = self._bar(offer, again, over, everything=everything, close=close)
            again = self.places.best(offer)
        return best

    def _judged(self, units: frozenset[int], placing: Placing, offer: Offer) -> Settled | None:
        """These places as a choice, with what they exceed budgets by; None if they exceed what may not be exceeded."""
        freed = {n for u in units for n in self.c.units_of[u].limited}
        for number, limited in enumerate(self.c.limited):
            hard = self.hard or not limited.budget
            if hard and number not in freed and int(placing.gone[limited.pods].sum()) > limited.limit:
                return None
        price = self._base(units) + complex(self.tariff.pods[placing.gone & (offer.status != GONE)].sum())
        price += self.tariff.beyond * self._exceeded(placing.gone)
        return Settled(units, placing, price, self.tariff.harm(price))

    @staticmethod
    def _better(one: Settled | None, other: Settled | None) -> Settled | None:
        if one is None or other is None:
            return one or other
        return other if other.key < one.key else one

    def own(self, units: Collection[int]) -> complex:
        """The price of interrupting these units, without other pods."""
        gone = np.zeros(self.c.size, dtype=np.bool_)
        for number in units:
            unit = self.c.units_of[number]
            gone[unit.pods] |= unit.whole
        return self._base(units) + self.tariff.beyond * self._exceeded(gone)

    def _base(self, units: Collection[int]) -> complex:
        whole = self.c.units_of
        return sum((complex((self.tariff.whole if whole[u].whole else self.tariff.units)[u]) for u in units), 0j)

    def _exceeded(self, gone: Bools) -> int:
        """By how many pods these exceed their budgets, about."""
        if self.hard or not gone.any():
            return 0
        return sum(max(0, int(gone[s.pods].sum()) - s.limit) for s in self.c.limited if s.budget)

    def _overdrawn(self, placing: Placing, offer: Offer, binding: Sequence[int]) -> list[int]:
        return [n for n in binding if self._excess(n, placing, offer) > 0]

    def _excess(self, number: int, placing: Placing, offer: Offer) -> int:
        """By how many pods the limited set is overdrawn, those priced as beyond it aside."""
        limited = self.c.limited[number]
        status = offer.status[limited.pods]
        left = limited.limit - int((status == GONE).sum())
        used = placing.gone[limited.pods] & (status == MAY)
        if limited.budget and not self.hard and number in offer.settled:
            return 0
        return int(used.sum()) - max(0, left)

    def _bar(self, offer: Offer, placing: Placing, over: Sequence[int], *, everything: bool, close: bool) -> Offer:
        """The offer in which overdrawn sets offer no more than they can: where doing without would cost most. With
        ``everything`` they offer nothing any more; unless they ``close``, pods not used may leave in place of others.
        """
        c = self.c
        status, price, dear = offer.status.copy(), offer.price, offer.dear
        settled = set(offer.settled)
        for number in over:
            limited = c.limited[number]
            left = limited.limit - int((status[limited.pods] == GONE).sum())
            used = limited.pods[placing.gone[limited.pods] & (status[limited.pods] == MAY)]
            keep: list[int] = []
            hard = self.hard or not limited.budget
            if not (everything and hard):
                for row in self._by_regret(offer, placing, used, limited.pods):
                    here = used[c.row[used] == row].tolist()
                    if len(here) <= left - len(keep) or not hard:
                        keep += here[: left - len(keep)]
            kept = np.zeros(c.size, dtype=np.bool_)
            kept[keep] = True
            rest = limited.pods[(status[limited.pods] == MAY) & ~kept[limited.pods]]
            if len(keep) < left and not everything and not close and not limited.budget:
                rest = used[~kept[used]]
            if hard:
                status[rest] = STAYS
            else:
                price, dear = self._beyond(price, dear, rest)
                settled.add(number)
        return Offer(status, price, dear, settled=frozenset(settled))

    def _by_regret(self, offer: Offer, placing: Placing, used: Ints, pods: Ints) -> list[int]:
        """The nodes that use pods of a set, those first that would have to pay most per pod without them."""
        c = self.c
        counts = np.bincount(c.row[used], minlength=len(c.count))
        rows = np.flatnonzero(counts)
        barred = offer.status.copy()
        barred[pods[barred[pods] == MAY]] = STAYS
        without = Offer(barred, offer.price, offer.dear)
        demand = self.places.demand.request.T @ placing.counts[:, rows].astype(np.float64)
        now = self.places.nodes.scan(offer, rows, demand, None)
        then = self.places.nodes.scan(without, rows, demand, None)
        regret = np.where(then.real < NEVER.real, (then - now) / counts[rows], NEVER)
        found: list[int] = rows[np.argsort(-regret, kind="stable")].tolist()
        return found
