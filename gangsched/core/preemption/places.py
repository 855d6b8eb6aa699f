"""Where the members go so that the least has to leave.

The question is turned round: not which pods may stay, but which nodes take how many members. Given that, what has to
leave is a question to each node by itself (:mod:`.node_prices`). What couples nodes is the number of members: a
knapsack (:mod:`.knapsack`) for members that are alike, over nodes or over the domains that a rule between them spans;
members of several kinds are for :mod:`.several_kinds`.
"""

from __future__ import annotations

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints
from gangsched.core.preemption.candidates import Candidates
from gangsched.core.preemption.demand import Demand
from gangsched.core.preemption.knapsack import choose
from gangsched.core.preemption.node_prices import MAY, NodePrices, Offer
from gangsched.core.preemption.prices import NEVER, Prices
from gangsched.core.preemption.rules import APART, TOGETHER, Span
from gangsched.core.preemption.several_kinds import SeveralKinds

#: Nodes beyond those used on which prices are looked at once more, thoroughly: 40 more are some milliseconds.
_NEXT = 40


class Placing(msgspec.Struct, eq=False):
    """``counts`` ``(K, N)`` members of each kind on each node; ``gone`` ``(V,)`` the pods that leave for them, those
    gone already included; ``price`` of those that were not; ``bound``: no other places cost less.
    """

    counts: Ints
    gone: Bools
    price: complex
    bound: complex


class Places:
    """Searches places for a demand in ``free`` ``(R, N)`` room, in which all candidates are still there; with ``lower``
    only a lower bound of their price. ``nodes`` has the prices of single nodes.
    """

    def __init__(self, candidates: Candidates, demand: Demand, free: Floats, *, lower: bool = False) -> None:
        self.demand = demand
        self.nodes = NodePrices(candidates, demand, free, lower=lower)
        self._mixed = SeveralKinds(self.nodes)

    # -- all nodes -----------------------------------------------------------------------------------------

    def best(self, offer: Offer, within: Bools | None = None) -> Placing | None:
        """The places with the least price, of nodes ``within`` if given; None when none were found."""
        free = self.nodes.free_with(offer)
        if self.nodes.kinds == 1:
            counts, price, bound = self._alike(offer, free, within) or (None, 0j, 0j)
        else:
            counts, price, bound = self._mixed.best(offer, free, within) or (None, 0j, 0j)
        if counts is None:
            return None
        if self.nodes.lower:
            return Placing(counts, np.zeros(0, dtype=np.bool_), price, bound)
        gone = self.nodes.leaving(offer, free, counts)
        paid = complex(offer.price[gone & (offer.status == MAY)].sum())
        return Placing(counts, gone, paid, bound)

    def promising(self, offer: Offer, used: Bools) -> Bools:
        """``(N,)``: the nodes used, and as many and some more of those that are the next cheapest for one member."""
        free = self.nodes.free_with(offer)
        out = used.copy()
        for k in range(self.nodes.kinds):
            curves = self.nodes.curves(offer, free, k, None, None, None)
            if len(curves):
                out[np.argsort(curves[0], kind="stable")[: 2 * int(used.sum()) + _NEXT]] = True
        return out

    def possible(self, offer: Offer) -> bool:
        """Is there room for each kind by itself when everything that may leave has left? Never wrongly False."""
        free = self.nodes.free_with(offer)
        span = self.demand.rules.span if self.nodes.kinds == 1 else None
        for k, need in enumerate(self.demand.need):
            room = self.nodes.capacity(free, k).astype(np.float64)
            if (span.held(room) if span is not None else float(room.sum())) < need:
                return False
        return True

    def price_by_domain(self, offer: Offer, codes: Ints, domains: int) -> Prices:
        """``(domains,)`` the price of all members, which are alike, in each domain; NEVER if they do not fit."""
        curves = self.nodes.curves(offer, self.nodes.free_with(offer), 0, None, None, None)
        out: Prices = np.full(domains, NEVER)
        for domain in range(domains):
            found = choose(curves[:, codes == domain], self.demand.need[0])
            if found is not None:
                out[domain] = found.price
        return out

    def bound(self, offer: Offer) -> complex | None:
        """No places cost less than this; None where that is not known. For a search with ``lower``."""
        free = self.nodes.free_with(offer)
        if self.nodes.kinds == 1:
            found = self._alike(offer, free, None)
            return NEVER if found is None else found[2]
        best: complex | None = None
        for domain in self._mixed.domains(None):
            table = self._mixed.table(offer, free, domain)
            if table is None:
                return None
            if best is None or _key(table[2]) < _key(best):
                best = table[2]
        return best

    def _alike(self, offer: Offer, free: Floats, within: Bools | None) -> tuple[Ints, complex, complex] | None:
        need = self.demand.need[0]
        curves = self.nodes.curves(offer, free, 0, None, None, within)
        span = self.demand.rules.span
        curves = self.nodes.with_tolls(offer, curves)
        if span is None:
            found = choose(curves, need)
            return None if found is None else (found.counts[None], found.price, found.bound)
        if span.kind == TOGETHER:
            return self._together(curves, span, need)
        if span.kind == APART:
            return self._apart(curves, span, need)
        return self._spread(curves, span, need)

    @staticmethod
    def _together(curves: Prices, span: Span, need: int) -> tuple[Ints, complex, complex] | None:
        best: tuple[Ints, complex, complex] | None = None
        bound: complex | None = None
        for domain in range(span.size):
            rows = np.flatnonzero(span.code == domain)
            found = choose(curves[:, rows], need) if len(rows) else None
            if found is None:
                continue
            if bound is None or _key(found.bound) < _key(bound):
                bound = found.bound
            if best is None or _key(found.price) < _key(best[1]):
                counts = np.zeros((1, curves.shape[1]), dtype=np.int64)
                counts[0, rows] = found.counts
                best = counts, found.price, found.price
        return None if best is None or bound is None else (best[0], best[1], bound)

    @staticmethod
    def _apart(curves: Prices, span: Span, need: int) -> tuple[Ints, complex, complex] | None:
        if not len(curves):
            return None
        first = curves[0]
        order = np.lexsort((np.arange(len(first)), first.imag, first.real, span.code))
        heads = order[np.append(True, np.diff(span.code[order]) != 0)]
        nodes = np.concatenate([heads[span.code[heads] >= 0], np.flatnonzero(span.code < 0)])
        found = choose(first[None, nodes], need)
        if found is None:
            return None
        counts = np.zeros((1, len(first)), dtype=np.int64)
        counts[0, nodes] = found.counts
        return counts, found.price, found.bound

    def _spread(self, curves: Prices, span: Span, need: int) -> tuple[Ints, complex, complex] | None:
        """Every level that the emptiest domain may end at is tried; the domains are the places of the knapsack."""
        domains = np.flatnonzero(span.present)
        have = span.counts[domains].astype(np.int64)
        rows = [np.flatnonzero(span.code == d) for d in domains.tolist()]
        room = [int((curves[:, r].real < NEVER.real).sum()) for r in rows]
        enough = len(domains) >= span.min_domains
        tables: dict[tuple[int, int], tuple[complex, Ints] | None] = {}

        def cost(d: int, t: int) -> tuple[complex, Ints] | None:
            if (d, t) not in tables:
                found = choose(curves[:, rows[d]], t)
                tables[d, t] = (
                    None if found is None else (found.bound if self.nodes.lower else found.price, found.counts)
                )
            return tables[d, t]

        best: tuple[complex, list[int]] | None = None
        top = int((have.sum() + need) // max(1, len(domains))) if enough else 0
        lowest = int(have.min(initial=0)) if enough else 0
        for level in range(top, max(lowest, top - span.skew - 1) - 1, -1) if enough else [0]:
            low = np.maximum(0, level - have) if enough else np.zeros_like(have)
            high = np.minimum(np.maximum(level + span.skew - have, 0), np.array(room))
            rest = need - int(low.sum())
            if rest < 0 or (low > high).any() or rest > int((high - low).sum()):
                continue
            wide = int(min(rest, int((high - low).max(initial=0))))
            table: Prices = np.full((max(1, wide), len(domains)), NEVER)
            base = 0j
            possible = True
            for d in range(len(domains)):
                start = cost(d, int(low[d]))
                if start is None:
                    possible = False
                    break
                base += start[0]
                for x in range(1, int(min(wide, high[d] - low[d])) + 1):
                    more = cost(d, int(low[d]) + x)
                    if more is not None:
                        table[x - 1, d] = more[0] - start[0]
            found = choose(table, rest) if possible else None
            if found is not None and (best is None or _key(base + found.price) < _key(best[0])):
                best = base + found.price, (low + found.counts).tolist()
        if best is None:
            return None
        counts = np.zeros((1, curves.shape[1]), dtype=np.int64)
        for d, t in enumerate(best[1]):
            part = cost(d, int(t))
            if part is not None:
                counts[0, rows[d]] = part[1]
        return counts, best[0], best[0]


def _key(price: complex) -> tuple[float, float]:
    return price.real, price.imag
