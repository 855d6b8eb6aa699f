"""Where the members go so that the least has to leave.

The question is turned round: not which pods may stay, but which nodes take how many members. Given that, what has to
leave is a question to each node by itself (:mod:`.node_prices`). The number of members couples the nodes. Equal members
are a knapsack (:mod:`.knapsack`) over nodes, or over the domains of a rule between them. For a few kinds there is a
table over the number of each, for many one kind follows another.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import permutations, product

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints
from gangsched.core.preemption.candidates import NEVER, Candidates, Prices, rank
from gangsched.core.preemption.demand import Demand
from gangsched.core.preemption.knapsack import Taking, choose
from gangsched.core.preemption.node_prices import NodePrices, Offer
from gangsched.core.preemption.rules import APART, SPREAD, TOGETHER, Span

#: Entries of the table over numbers of each kind, nodes x ways to fill a node x numbers: 0.1 s of work. With a tenth
#: of it two of 6 gangs of three kinds are not proven.
_TABLE = 3_000_000
#: The most ways to fill one node with members of several kinds that are tried: with half of them, 33 clusters have the
#: same result.
_OPTIONS = 96
#: Nodes x pods after which no further order is started: with hundreds of kinds, one order takes as long as all orders
#: with few kinds.
_WORK = 3_000_000
#: The number of orders in which many members of several kinds are placed one kind after another, and how often they are
#: placed again: with one of either, one of 12 large clusters had 36 victims instead of 35.
_ORDERS, _ROUNDS = 6, 3


class SeveralKinds:
    """Searches places with the prices of these nodes."""

    def __init__(self, nodes: NodePrices) -> None:
        self._nodes = nodes
        self._demand = nodes.demand

    def best(self, offer: Offer) -> Taking | None:
        """The cheapest places found; ``counts`` are ``(K, N)``."""
        found = [self._table(offer, there) or self._in_turn(offer, there) for there in self._domains()]
        return min((one for one in found if one is not None), key=lambda one: rank(one.price), default=None)

    def bound(self, offer: Offer) -> complex | None:
        """No places cost less, if these are the prices of a lower bound; None where that is not known."""
        out: list[complex] = []
        for there in self._domains():
            found = self._table(offer, there)
            if found is None:
                return None
            out.append(found.price)
        return min(out, key=rank, default=None)

    def _domains(self) -> Iterator[Bools]:
        """``(N,)``: nodes among which all members have to find room."""
        span = self._demand.rules.span
        if span is None or span.kind in (SPREAD, APART):
            yield np.ones(self._demand.mask.shape[1], dtype=np.bool_)
            return
        for domain in range(span.size):
            yield span.code == domain

    def _options(self, free: Floats, there: Bools) -> tuple[list[tuple[int, ...]], list[Ints]] | None:
        """The numbers of each kind that some node can hold, and the nodes that can."""
        most = [np.where(there, self._nodes.capacity(free, k), 0) for k in range(self._nodes.kinds)]
        ranges = [range(int(m.max(initial=0)) + 1) for m in most]
        if np.prod([len(r) for r in ranges], dtype=np.float64) > 16 * _OPTIONS:  # int64 wraps from 63 kinds on
            return None
        options: list[tuple[int, ...]] = []
        nodes: list[Ints] = []
        for vector in product(*ranges):
            some = [k for k, x in enumerate(vector) if x]
            if not some or not self._demand.together(vector):
                continue
            asked = self._demand.request.T @ np.array(vector, dtype=np.float64)
            fine = (free >= asked[:, None]).all(axis=0)
            for k in some:
                fine &= most[k] >= vector[k]
            rows = np.flatnonzero(fine)
            if len(rows):
                options.append(vector)
                nodes.append(rows)
            if len(options) > _OPTIONS:
                return None
        return options, nodes

    def _table(self, offer: Offer, there: Bools) -> Taking | None:
        """Exact for few members: a table over the number of members placed of each kind, node by node. None where it
        would be too large, or nothing fits.
        """
        need = self._demand.need
        if np.prod([n + 1 for n in need], dtype=np.float64) * sum(need) > _TABLE:  # int64 wraps from 63 kinds on
            return None
        found = self._options(self._nodes.room(offer), there)
        if found is None:
            return None
        options, nodes = found
        states = math.prod(n + 1 for n in need)
        if not options or states * len(options) * sum(need) > _TABLE:
            return None
        size = len(there)
        costs: Prices = np.full((len(options), size), NEVER)
        kept = np.zeros(size, dtype=np.bool_)
        for some, conflict in self._by_conflict(options):
            rows = np.concatenate([nodes[n] for n in some])
            of = np.repeat(some, [len(nodes[n]) for n in some])
            demand = self._demand.request.T @ np.array(options, dtype=np.float64)[of].T
            costs[of, rows] = self._nodes.scan(offer, rows, demand, conflict)
        for n in range(len(options)):
            # Of the places for one filling no more can matter than there are members: the cheapest.
            kept[nodes[n][np.argsort(costs[n, nodes[n]], kind="stable")[: sum(need)]]] = True
        rows = np.flatnonzero(kept)
        if states * len(options) * len(rows) > _TABLE:
            return None
        self._nodes.work += states * len(options) * len(rows) // 4
        return self._filled(options, costs, rows)

    def _by_conflict(self, options: Sequence[tuple[int, ...]]) -> Iterator[tuple[list[int], Bools | None]]:
        """The options (numbers) that the same pods keep off, and those pods."""
        found: dict[tuple[int, ...], list[int]] = {}
        for n, vector in enumerate(options):
            kinds = tuple(k for k, x in enumerate(vector) if x and self._nodes.conflict[k] is not None)
            found.setdefault(kinds, []).append(n)
        for kinds, some in found.items():
            conflict: Bools | None = None
            for k in kinds:
                here = self._nodes.conflict[k]
                conflict = here if conflict is None or here is None else conflict | here
            yield some, conflict

    def _filled(self, options: Sequence[tuple[int, ...]], costs: Prices, rows: Ints) -> Taking | None:
        need = self._demand.need
        shape = tuple(n + 1 for n in need)
        table: Prices = np.full(shape, NEVER)
        table[(0,) * len(need)] = 0j
        picks: list[Ints] = []
        for row in rows.tolist():
            now = table.copy()
            pick = np.zeros(shape, dtype=np.int64)
            for n, vector in enumerate(options):
                cost = costs[n, row]
                if cost.real >= NEVER.real or any(x > m for x, m in zip(vector, need, strict=True)):
                    continue
                to = tuple(slice(x, None) for x in vector)
                origin = tuple(slice(None, m + 1 - x) for x, m in zip(vector, need, strict=True))
                moved = table[origin] + cost
                better = moved < now[to]
                now[to][better] = moved[better]
                pick[to][better] = n + 1
            picks.append(pick)
            table = now
        price = complex(table[need])
        if price.real >= NEVER.real:
            return None
        counts = np.zeros((len(need), costs.shape[1]), dtype=np.int64)
        left = list(need)
        for turn in range(len(rows) - 1, -1, -1):
            n = int(picks[turn][tuple(left)])
            if n:
                for k, x in enumerate(options[n - 1]):
                    counts[k, rows[turn]] = x
                    left[k] -= x
        return Taking(counts, price, price)

    def _in_turn(self, offer: Offer, there: Bools) -> Taking | None:
        """One kind after another in several orders, and each again beside the others as long as that helps."""
        best: Taking | None = None
        began = self._nodes.work
        for order in self._orders(self._nodes.room(offer)):
            if best is not None and self._nodes.work - began > _WORK:
                break
            counts: Ints = np.zeros(self._demand.mask.shape, dtype=np.int64)
            found: Taking | None = None
            for turn in range(_ROUNDS):
                if not all(self._place_anew(offer, counts, k, there) for k in order):
                    break
                price = offer.paid(self._nodes.leaving(offer, counts))
                if found is not None and rank(price) >= rank(found.price):
                    break
                found = Taking(counts.copy(), price, 0j)
                known = best is not None and np.array_equal(counts, best.counts)
                if turn == 0 and known:
                    break
            if found is not None and (best is None or rank(found.price) < rank(best.price)):
                best = found
        return best

    def _place_anew(self, offer: Offer, counts: Ints, k: int, there: Bools) -> bool:
        """Place the members of one kind anew, those of the others staying where they are."""
        counts[k] = 0
        base = self._demand.request.T @ counts.astype(np.float64)
        taken = counts[self._demand.rules.exclusive[k]].any(axis=0) | ~there
        found = choose(self._nodes.curves(offer, k, base, taken), self._demand.need[k])
        if found is None:
            return False
        counts[k] = found.counts
        return True

    def _orders(self, free: Floats) -> list[tuple[int, ...]]:
        """The kinds with the fewest places first, the largest first, and other orders."""
        share = (self._demand.request / np.maximum(free.max(axis=1, initial=1.0), 1.0)).max(axis=1)
        nodes = self._nodes.mask.sum(axis=1)
        kinds = range(self._nodes.kinds)
        wanted = [
            tuple(sorted(kinds, key=lambda k: (-share[k], nodes[k], k))),
            tuple(sorted(kinds, key=lambda k: (nodes[k], -share[k], k))),
            tuple(sorted(kinds, key=lambda k: (share[k], nodes[k], k))),
        ]
        if self._nodes.kinds <= 3:
            wanted += list(permutations(kinds))
        return list(dict.fromkeys(wanted))[:_ORDERS]


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
                look = self.nodes.fingerprint(row)
                ranked.append((least[row], alike[look], row))
                alike[look] += 1
            out[[row for _, _, row in sorted(ranked)[: 2 * need + _NEXT]]] = True
        return out

    def possible(self, offer: Offer) -> bool:
        """Return True if there is room for each kind by itself without all pods that may leave. It is never wrongly
        False.
        """
        free = self.nodes.room(offer)
        if not self.demand.amounts(free):
            return False
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
