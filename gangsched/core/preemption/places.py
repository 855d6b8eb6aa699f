"""Where the members go so that the least has to leave.

The question is turned round: not which pods may stay, but which nodes take how many members. Given that, what has to
leave is a question to each node by itself (:mod:`.node_prices`). What couples nodes is the number of members: a
knapsack (:mod:`.knapsack`) for members that are alike, over nodes or over the domains that a rule between them spans;
members of several kinds are for :mod:`.several_kinds`.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Ints
from gangsched.core.preemption.candidates import Candidates
from gangsched.core.preemption.demand import Demand
from gangsched.core.preemption.knapsack import Taking, choose
from gangsched.core.preemption.node_prices import NodePrices, Offer
from gangsched.core.preemption.prices import NEVER, Prices, rank
from gangsched.core.preemption.rules import APART, TOGETHER, Span
from gangsched.core.preemption.several_kinds import SeveralKinds

#: Nodes beyond those that members can use on which all sets of pods are compared: 40 more are some milliseconds,
#: and with 10 one of 32 plans loses more work.
_NEXT = 40


class Placing(msgspec.Struct, eq=False):
    """``counts`` ``(K, N)`` members of each kind on each node; ``gone`` ``(V,)`` the pods that leave for them, those
    gone already included; ``price`` of those that were not.
    """

    counts: Ints
    gone: Bools
    price: complex


class Places:
    """Searches places for a demand among the candidates; with ``lower`` only a lower bound of their price. ``nodes``
    has the prices of single nodes.
    """

    def __init__(self, candidates: Candidates, demand: Demand, *, lower: bool = False) -> None:
        self.demand = demand
        self.nodes = NodePrices(candidates, demand, lower=lower)
        self._mixed = SeveralKinds(self.nodes)

    # -- all nodes -----------------------------------------------------------------------------------------

    def best(self, offer: Offer) -> Placing | None:
        """The places with the least price; None when none were found."""
        found = self._alike(offer) if self.nodes.kinds == 1 else self._mixed.best(offer)
        if found is None:
            return None
        gone = self.nodes.leaving(offer, found.counts)
        return Placing(found.counts, gone, offer.paid(gone))

    def bound(self, offer: Offer) -> complex | None:
        """No places cost less than this; None where that is not known. For a search with ``lower``."""
        if self.nodes.kinds > 1:
            return self._mixed.bound(offer)
        found = self._alike(offer)
        return NEVER if found is None else found.bound

    def unsure(self, offer: Offer) -> Bools:
        """``(N,)``: nodes of which a better price is possible, those where members could cost least, first some of each
        look: some more than there are members.
        """
        out: Bools = np.zeros(self.demand.mask.shape[1], dtype=np.bool_)
        for k, need in enumerate(self.demand.need):
            least = self.nodes.unsure(offer, k)
            alike = Counter[bytes]()
            ranked = []
            for row in np.flatnonzero(least < NEVER.real).tolist():
                look = self.nodes.look(row)
                ranked.append((least[row], alike[look], row))
                alike[look] += 1
            out[[row for _, _, row in sorted(ranked)[: 2 * need + _NEXT]]] = True
        return out

    def possible(self, offer: Offer) -> bool:
        """Is there room for each kind by itself when everything that may leave has left? Never wrongly False."""
        free = self.nodes.room(offer)
        span = self.demand.rules.span if self.nodes.kinds == 1 else None
        for k, need in enumerate(self.demand.need):
            room = self.demand.whole(k, free, self.nodes.mask[k])
            if (span.held(room) if span is not None else float(room.sum())) < need:
                return False
        return True

    def price_by_domain(self, offer: Offer, codes: Ints, domains: int) -> Prices:
        """``(domains,)`` the price of all members, which are alike, in each domain; NEVER if they do not fit."""
        curves = self.nodes.curves(offer, 0)
        found = (choose(curves[:, codes == domain], self.demand.need[0]) for domain in range(domains))
        return np.array([NEVER if one is None else one.price for one in found], dtype=np.complex128)

    # -- members that are alike ----------------------------------------------------------------------------

    def _alike(self, offer: Offer) -> Taking | None:
        """As :func:`~.knapsack.choose`, with ``(1, N)`` counts."""
        need, span = self.demand.need[0], self.demand.rules.span
        curves = self.nodes.with_tolls(offer, self.nodes.curves(offer, 0))
        if span is None:
            found = choose(curves, need)
        elif span.kind == TOGETHER:
            found = self._together(curves, span, need)
        elif span.kind == APART:
            found = self._apart(curves, span, need)
        else:
            found = self._spread(curves, span, need)
        return None if found is None else found._replace(counts=found.counts[None])

    @staticmethod
    def _together(curves: Prices, span: Span, need: int) -> Taking | None:
        found: list[Taking] = []
        for domain in range(span.size):
            rows = np.flatnonzero(span.code == domain)
            one = choose(curves[:, rows], need)
            if one is not None:
                found.append(one._replace(counts=_spread_out(one.counts, rows, curves.shape[1])))
        if not found:
            return None
        bound = min((one.bound for one in found), key=rank)
        return min(found, key=lambda one: rank(one.price))._replace(bound=bound)

    @staticmethod
    def _apart(curves: Prices, span: Span, need: int) -> Taking | None:
        if not len(curves):
            return None
        first = curves[0]
        order = np.lexsort((first.imag, first.real, span.code))
        heads = order[np.append(True, np.diff(span.code[order]) != 0)]
        nodes = np.concatenate([heads[span.code[heads] >= 0], np.flatnonzero(span.code < 0)])
        found = choose(first[None, nodes], need)
        return None if found is None else found._replace(counts=_spread_out(found.counts, nodes, len(first)))

    def _spread(self, curves: Prices, span: Span, need: int) -> Taking | None:
        """Every level that the emptiest domain may end at is tried; the domains are the places of the knapsack."""
        domains = np.flatnonzero(span.present)
        have = span.counts[domains].astype(np.int64)
        rows = [np.flatnonzero(span.code == d) for d in domains.tolist()]
        room = [int((curves[:, r].real < NEVER.real).sum()) for r in rows]
        enough = len(domains) >= span.min_domains

        @cache
        def cost(d: int, t: int) -> tuple[complex, Ints] | None:
            found = choose(curves[:, rows[d]], t)
            return None if found is None else (found.bound if self.nodes.lower else found.price, found.counts)

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
            if found is not None and (best is None or rank(base + found.price) < rank(best[0])):
                best = base + found.price, (low + found.counts).tolist()
        if best is None:
            return None
        counts = np.zeros(curves.shape[1], dtype=np.int64)
        for d, t in enumerate(best[1]):
            part = cost(d, int(t))
            if part is not None:
                counts[rows[d]] = part[1]
        return Taking(counts, best[0], best[0])


def _spread_out(counts: Ints, rows: Ints, size: int) -> Ints:
    """``(size,)``: these counts at these rows."""
    out = np.zeros(size, dtype=np.int64)
    out[rows] = counts
    return out
