"""Where the members go so that the least has to leave.

The question is turned round: not which pods may stay, but which nodes take how many members. Given that, what has to
leave is a question to each node by itself: all that may leave leaves, and comes back in order as far as there is room
(:meth:`Places.scan`, all nodes at once). With one resource that is short, putting back the most harmful first and of
those the least useful is exact. What couples nodes is the number of members: a knapsack (:mod:`.knapsack`) for members
that are alike, a table over numbers of each kind for few of several kinds, one kind after another for many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import permutations, product

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints, distinct
from gangsched.core.preemption.candidates import Candidates
from gangsched.core.preemption.demand import Demand
from gangsched.core.preemption.knapsack import choose
from gangsched.core.preemption.prices import NEVER, Prices
from gangsched.core.preemption.rules import APART, SPREAD, TOGETHER, Span

STAYS, MAY, GONE = 0, 1, 2
#: Entries of the table over numbers of each kind, nodes x ways to fill a node x numbers: 0.1 s of work.
_TABLE = 3_000_000
#: Ways to fill one node with members of several kinds that are looked at.
_OPTIONS = 96
#: Orders in which many members of several kinds are placed one kind after another, and how often they are placed anew.
_ORDERS, _ROUNDS = 6, 3
#: Up to so many pods of a node, all sets of them are looked at where that is asked for.
_THOROUGH = 10
#: What one round over the pods of all nodes takes beside them, in pods looked at.
_ROUND = 300


class Offer(msgspec.Struct, eq=False):
    """What may leave: ``status`` ``(V,)`` is STAYS, MAY at its price, or GONE already; ``price`` ``(V,)`` is that of
    each pod; ``dear`` ``(V,)`` are pods priced above their order on the node: they are put back before all others.
    """

    status: Ints
    price: Prices
    dear: Bools | None = None
    settled: frozenset[int] = frozenset()  # limited sets of which more may leave, at what the price says
    orders: Ints | None = None  # made by Places, as is the next
    by_resource: dict[int, Ints | None] | None = None


class Placing(msgspec.Struct, eq=False):
    """``counts`` ``(K, N)`` members of each kind on each node; ``gone`` ``(V,)`` the pods that leave for them, those
    gone already included; ``price`` of those that were not; ``bound``: no other places cost less.
    """

    counts: Ints
    gone: Bools
    price: complex
    bound: complex


class Places:
    """Searches places for a demand in ``free`` ``(R, N)`` room, in which all candidates are still there. With ``lower``
    the price of a node is a lower bound of what leaving there costs, whatever the shapes of pods.

    ``work`` counts nodes x pods looked at.
    """

    def __init__(self, candidates: Candidates, demand: Demand, free: Floats, *, lower: bool = False) -> None:
        self._c = candidates
        self.demand = demand
        self._free = free
        self._lower = lower
        self.work = 0
        #: Look at all sets of pods that may come back to a node, where these are few: exact, and slower.
        self.thorough = False
        self._kinds = len(demand.need)
        self._orders_on_node = self._orders_of_return(several=not lower)
        self._conflict: list[Bools | None] = [None] * self._kinds
        self._mask = demand.mask.copy()
        self._toll: list[tuple[int, Ints, Ints]] = []
        #: ``(V,)`` pods near which members have to be: as victims they help only where others like them stay.
        self.company: Bools = np.zeros(len(candidates), dtype=np.bool_)
        self._read_bars()

    def _orders_of_return(self, *, several: bool) -> Ints:
        """``(orders, V)`` orders in which pods of a node may come back: that of the candidates, and of one priority
        those first that hold least of a certain resource. With several short resources none is exact; the best is
        taken.
        """
        c = self._c
        out: list[Ints] = [np.arange(len(c))]
        asked = np.flatnonzero(self.demand.request.any(axis=0))
        for r in asked.tolist() if several and len(asked) > 1 and len(c) else ():
            if (c.req[r] == c.req[r, 0]).all():
                continue
            order = np.lexsort((out[0], c.req[r], -c.level, c.row))
            if not any(np.array_equal(c.req[:, order], c.req[:, o]) for o in out):
                out.append(order)
        return np.array(out)

    @property
    def ambiguous(self) -> bool:
        """Are there several orders in which pods of a node may come back, none of them exact?"""
        return len(self._orders_on_node) > 1

    # -- rules ---------------------------------------------------------------------------------------------

    def _read_bars(self) -> None:
        """Pods that keep a kind off: candidates have to leave where it goes, others close the place for good."""
        c = self._c
        for bar in self.demand.rules.bars:
            if bar.company:
                self._mask[bar.of] &= bar.open()
                self.company |= bar.hits[c.slot]
                continue
            mine = bar.hits[c.slot]
            codes = bar.code[c.row]
            movable = np.bincount(codes[mine & (codes >= 0)], minlength=len(bar.counts))
            closed = bar.counts > movable
            self._mask[bar.of] &= (bar.code < 0) | ~closed[bar.code]
            if not mine.any():
                continue
            found = self._conflict[bar.of]
            self._conflict[bar.of] = mine if found is None else found | mine
            if not bar.by_node:
                self._toll.append((bar.of, bar.code, np.flatnonzero(mine)))

    def free_with(self, offer: Offer) -> Floats:
        """``(R, N)`` room when everything that may leave has left."""
        free = self._free.copy()
        leaving = np.flatnonzero(offer.status)
        rows = self._c.row[leaving]
        for r in range(len(free)):
            free[r] += np.bincount(rows, weights=self._c.req[r, leaving], minlength=free.shape[1])
        return free

    # -- one node ------------------------------------------------------------------------------------------

    def scan(
        self, offer: Offer, free: Floats, rows: Ints, demand: Floats, conflict: Bools | None, gone: Bools | None = None
    ) -> Prices:
        """``(E,)`` the price of a demand ``(R, E)`` on each of these nodes ``(E,)``; NEVER where it does not fit. With
        ``gone``, where no node occurs twice, the pods that leave are noted there.
        """
        if self._lower and gone is None:
            # One resource at a time, with the order that is exact for it: whatever leaves for all, leaves for each.
            asked = np.flatnonzero(self.demand.request.any(axis=0)).tolist()
            first = np.zeros(len(rows), dtype=np.int64)
            prices = []
            for r in asked:
                order = self._order_for(offer, r)
                orders = None if order is None else (order[None], first)
                prices.append(self._scan(offer, free[[r]], rows, demand[[r]], conflict, orders, [r]))
            return np.asarray(np.maximum.reduce(prices))
        if self.thorough:
            return self._thorough(offer, free, rows, demand, conflict, gone)
        return self._quick(offer, free, rows, demand, conflict, gone)

    def _thorough(
        self, offer: Offer, free: Floats, rows: Ints, demand: Floats, conflict: Bools | None, gone: Bools | None
    ) -> Prices:
        """All sets of pods that may come back, on nodes with few that may leave."""
        c = self._c
        noted = None if gone is None else np.zeros_like(gone)
        price = self._quick(offer, free, rows, demand, conflict, noted)
        for row in distinct(rows).tolist():
            pods = np.arange(c.start[row], c.start[row] + c.count[row])
            pods = pods[offer.status[pods] == MAY]
            entries = np.flatnonzero(rows == row)
            if not 0 < len(pods) <= _THOROUGH or not (price[entries].real < NEVER.real).any():
                continue
            sets = _sets(len(pods))
            worth: Prices = sets @ offer.price[pods]
            order = np.lexsort((-worth.imag, -worth.real))
            slack = free[:, [row]] - demand[:, entries]
            held: Floats = c.req[:, pods] @ sets[order].T
            fine: Bools = np.all(held[:, None, :] <= slack[:, :, None], axis=0)
            if conflict is not None:
                fine &= (sets[order] @ conflict[pods].astype(np.float64)) < 1.0
            best = order[fine.argmax(axis=1)]
            paid = complex(offer.price[pods].sum()) - worth[best]
            better = fine.any(axis=1) & (paid < price[entries])
            price[entries[better]] = paid[better]
            if noted is not None and better.any():
                noted[pods] = sets[best[0]] == 0
        if gone is not None and noted is not None:
            gone |= noted
        self.work += _ROUND * len(rows)
        return price

    def _quick(
        self, offer: Offer, free: Floats, rows: Ints, demand: Floats, conflict: Bools | None, gone: Bools | None
    ) -> Prices:
        """Pods come back in each of the orders; the best holds."""
        stack = self._stack(offer)
        if len(stack) == 1:
            first = None if offer.dear is None else (stack, np.zeros(len(rows), dtype=np.int64))
            return self._scan(offer, free, rows, demand, conflict, first, None, gone)
        turns = np.repeat(np.arange(len(stack)), len(rows))
        tiled = np.tile(demand, len(stack)), np.tile(rows, len(stack))
        prices = self._scan(offer, free, tiled[1], tiled[0], conflict, (stack, turns), None).reshape(len(stack), -1)
        best: Prices = prices[0].copy()
        chosen = np.zeros(len(rows), dtype=np.int64)
        for n in range(1, len(stack)):
            better = prices[n] < best
            best[better] = prices[n][better]
            chosen[better] = n
        if gone is not None:
            self._scan(offer, free, rows, demand, conflict, (stack, chosen), None, gone)
        return best

    def _order_for(self, offer: Offer, r: int) -> Ints | None:
        """``(V,)`` the order that is exact for one resource: the dearest first, of those the smallest; None if it is
        that of the candidates.
        """
        if offer.by_resource is None:
            offer.by_resource = {}
        if r not in offer.by_resource:
            c = self._c
            price, same = offer.price, c.row[1:] == c.row[:-1]
            falls = ~same | (price[1:] <= price[:-1])
            grows = ~same | (price[1:] < price[:-1]) | (c.req[r, 1:] >= c.req[r, :-1])
            offer.by_resource[r] = None
            if not (falls & grows).all():
                offer.by_resource[r] = np.lexsort((c.req[r], -price.imag, -price.real, c.row))
        return offer.by_resource[r]

    def _stack(self, offer: Offer) -> Ints:
        """``(orders, V)`` the orders in which pods come back: pods that are dearer than their place says before all
        others of their node.
        """
        if offer.dear is None:
            return self._orders_on_node
        if offer.orders is None:
            keys = [self._c.row[order] * 2 + ~offer.dear[order] for order in self._orders_on_node]
            orders = zip(self._orders_on_node, keys, strict=True)
            offer.orders = np.array([order[np.argsort(key, kind="stable")] for order, key in orders])
        return offer.orders

    def _scan(
        self,
        offer: Offer,
        free: Floats,
        rows: Ints,
        demand: Floats,
        conflict: Bools | None,
        orders: tuple[Ints, Ints] | None,
        resources: list[int] | None,
        gone: Bools | None = None,
    ) -> Prices:
        """The same with the order ``orders[0][orders[1][e]]`` for each entry; None is the first of all."""
        c = self._c
        counts = c.count[rows]
        by_count = np.argsort(-counts, kind="stable")
        rows, counts = rows[by_count], counts[by_count]
        starts = c.start[rows]
        slack = free[:, rows] - demand[:, by_count]
        cost: Prices = np.where((slack >= 0).all(axis=0), 0j, NEVER)
        req = c.req if resources is None else c.req[resources]
        deepest = int(counts[0]) if len(counts) else 0
        until = np.searchsorted(-counts, -np.arange(deepest), side="left")  # entries with more than j pods
        self.work += int(until.sum()) + _ROUND * deepest
        turns = None if orders is None else orders[1][by_count]
        for j, n in enumerate(until.tolist()):
            p = starts[:n] + j
            if orders is not None and turns is not None:
                p = orders[0][turns[:n], p]
            may = offer.status[p] == MAY
            need = req[:, p]
            put = may & (need <= slack[:, :n]).all(axis=0)
            if conflict is not None:
                put &= ~conflict[p]
                cost[:n][conflict[p] & (offer.status[p] == STAYS)] = NEVER
            slack[:, :n] -= need * put
            left = may & ~put
            cost[:n] += offer.price[p] * left
            if gone is not None:
                gone[p[left]] = True
        out = np.empty_like(cost)
        out[by_count] = cost
        return out

    def _capacity(self, free: Floats, k: int) -> Ints:
        """``(N,)`` members of one kind that nodes hold with this room."""
        used = self.demand.request[k] > 0
        most = 1 if self.demand.rules.exclusive[k, k] else self.demand.need[k]
        room = (
            np.floor(free[used] / self.demand.request[k][used, None]).min(axis=0)
            if used.any()
            else np.full(free.shape[1], float(most))
        )
        return np.where(self._mask[k], np.clip(room, 0, most), 0).astype(np.int64)

    def _curves(
        self, offer: Offer, free: Floats, k: int, base: Floats | None, taken: Bools | None, within: Bools | None
    ) -> Prices:
        """``(X, N)`` the price of 1, 2, ... members of a kind on each node, beside a ``base`` demand ``(R, N)``; nodes
        with a kind that excludes this one are ``taken``.
        """
        size = free.shape[1]
        room = free if base is None else free - base
        most = self._capacity(room, k)
        if taken is not None:
            most[taken] = 0
        if within is not None:
            most[~within] = 0
        width = int(most.max(initial=0))
        out: Prices = np.full((width, size), NEVER)
        if not width:
            return out
        numbers = [np.flatnonzero(most >= x) for x in range(1, width + 1)]
        rows = np.concatenate(numbers)
        members = np.repeat(np.arange(1, width + 1), [len(n) for n in numbers])
        demand = members * self.demand.request[k][:, None]
        if base is None or not base.any():
            out[members - 1, rows] = self.scan(offer, free, rows, demand, self._conflict[k])
            return out
        before = np.zeros(size, dtype=np.complex128)
        before[numbers[0]] = self.scan(offer, free, numbers[0], base[:, numbers[0]], None)
        price = self.scan(offer, free, rows, demand + base[:, rows], self._conflict[k])
        out[members - 1, rows] = np.where(price.real < NEVER.real, price - before[rows], NEVER)
        return out

    # -- all nodes -----------------------------------------------------------------------------------------

    def best(self, offer: Offer, within: Bools | None = None) -> Placing | None:
        """The places with the least price, of nodes ``within`` if given; None when none were found."""
        free = self.free_with(offer)
        if self._kinds == 1:
            counts, price, bound = self._alike(offer, free, within) or (None, 0j, 0j)
        else:
            counts, price, bound = self._several(offer, free, within) or (None, 0j, 0j)
        if counts is None:
            return None
        if self._lower:
            return Placing(counts, np.zeros(0, dtype=np.bool_), price, bound)
        gone = self.leaving(offer, free, counts)
        paid = complex(offer.price[gone & (offer.status == MAY)].sum())
        return Placing(counts, gone, paid, bound)

    def possible(self, offer: Offer) -> bool:
        """Is there room for each kind by itself when everything that may leave has left? Never wrongly False."""
        free = self.free_with(offer)
        span = self.demand.rules.span if self._kinds == 1 else None
        for k, need in enumerate(self.demand.need):
            room = self._capacity(free, k).astype(np.float64)
            if (span.held(room) if span is not None else float(room.sum())) < need:
                return False
        return True

    def price_by_domain(self, offer: Offer, codes: Ints, domains: int) -> Prices:
        """``(domains,)`` the price of all members, which are alike, in each domain; NEVER if they do not fit."""
        curves = self._curves(offer, self.free_with(offer), 0, None, None, None)
        out: Prices = np.full(domains, NEVER)
        for domain in range(domains):
            found = choose(curves[:, codes == domain], self.demand.need[0])
            if found is not None:
                out[domain] = found.price
        return out

    def bound(self, offer: Offer) -> complex | None:
        """No places cost less than this; None where that is not known. For a search with ``lower``."""
        free = self.free_with(offer)
        if self._kinds == 1:
            found = self._alike(offer, free, None)
            return NEVER if found is None else found[2]
        best: complex | None = None
        for domain in self._domains(None):
            table = self._table(offer, free, domain)
            if table is None:
                return None
            if best is None or _key(table[2]) < _key(best):
                best = table[2]
        return best

    def leaving(self, offer: Offer, free: Floats, counts: Ints) -> Bools:
        """``(V,)`` what leaves for so many members of each kind on each node."""
        gone: Bools = offer.status == GONE
        rows = np.flatnonzero(counts.any(axis=0))
        demand = self.demand.request.T @ counts[:, rows].astype(np.float64)
        conflict = None
        for k in np.flatnonzero(counts.any(axis=1)).tolist():
            here = self._conflict[k]
            if here is not None:
                there = counts[k][self._c.row] > 0
                conflict = here & there if conflict is None else conflict | (here & there)
        if len(rows):
            self.scan(offer, free, rows, demand, conflict, gone)
        for k, code, pods in self._toll:
            domains = distinct(code[np.flatnonzero(counts[k])])
            inside = np.zeros(int(code.max(initial=0)) + 2, dtype=np.bool_)
            inside[domains] = True
            inside[-1] = False
            there = pods[inside[code[self._c.row[pods]]]]
            gone[there[offer.status[there] != STAYS]] = True
        return gone

    def _alike(self, offer: Offer, free: Floats, within: Bools | None) -> tuple[Ints, complex, complex] | None:
        need = self.demand.need[0]
        curves = self._curves(offer, free, 0, None, None, within)
        span = self.demand.rules.span
        curves = self._with_tolls(offer, curves)
        if span is None:
            found = choose(curves, need)
            return None if found is None else (found.counts[None], found.price, found.bound)
        if span.kind == TOGETHER:
            return self._together(curves, span, need)
        if span.kind == APART:
            return self._apart(curves, span, need)
        return self._spread(curves, span, need)

    def _with_tolls(self, offer: Offer, curves: Prices) -> Prices:
        """With what has to leave elsewhere in the domain before a member may go to a node. Where several members may
        share a domain each place pays for itself: dearer than it is, never cheaper than it can be had.
        """
        if not self._toll or not len(curves) or self._lower:
            return curves
        for _, code, pods in self._toll:
            domain = code[self._c.row[pods]]
            price = np.where(offer.status[pods] == MAY, offer.price[pods], 0j)
            price = np.where(offer.status[pods] == STAYS, NEVER, price)
            size = int(code.max(initial=0)) + 1
            here, there = np.zeros(curves.shape[1], dtype=np.complex128), np.zeros(size + 1, dtype=np.complex128)
            np.add.at(there, domain[domain >= 0], price[domain >= 0])
            np.add.at(here, self._c.row[pods], price)
            more = np.where(code >= 0, there[code] - here, 0j)
            blocked = there[code].real >= NEVER.real
            curves = np.where((code >= 0) & blocked, NEVER, curves + more)
            curves = np.where(curves.real >= NEVER.real, NEVER, curves)
        return curves

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
                tables[d, t] = None if found is None else (found.bound if self._lower else found.price, found.counts)
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

    # -- several kinds -------------------------------------------------------------------------------------

    def _several(self, offer: Offer, free: Floats, within: Bools | None) -> tuple[Ints, complex, complex] | None:
        best: tuple[Ints, complex, complex] | None = None
        for domain in self._domains(within):
            found = self._table(offer, free, domain)
            if found is None:
                found = self._in_turn(offer, free, domain)
            if found is not None and (best is None or _key(found[1]) < _key(best[1])):
                best = found
        return best

    def _domains(self, within: Bools | None) -> Iterator[Bools | None]:
        span = self.demand.rules.span
        if span is None or span.kind in (SPREAD, APART):
            yield within
            return
        for domain in range(span.size):
            here = span.code == domain
            yield here if within is None else here & within

    def _options(self, free: Floats, within: Bools | None) -> tuple[list[tuple[int, ...]], list[Ints]] | None:
        """The numbers of each kind that some node can hold, and the nodes that can."""
        most = [self._capacity(free, k) for k in range(self._kinds)]
        if within is not None:
            most = [np.where(within, m, 0) for m in most]
        ranges = [range(int(m.max(initial=0)) + 1) for m in most]
        if int(np.prod([len(r) for r in ranges])) > 16 * _OPTIONS:
            return None
        options: list[tuple[int, ...]] = []
        nodes: list[Ints] = []
        for vector in product(*ranges):
            some = [k for k, x in enumerate(vector) if x]
            if not some or any(self.demand.rules.exclusive[i, j] for i in some for j in some if i < j):
                continue
            asked = self.demand.request.T @ np.array(vector, dtype=np.float64)
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

    def _table(self, offer: Offer, free: Floats, within: Bools | None) -> tuple[Ints, complex, complex] | None:
        """Exact for few members: a table over the number of members placed of each kind, node by node."""
        need = self.demand.need
        states = int(np.prod([n + 1 for n in need]))
        if states * sum(need) > _TABLE:
            return None
        found = self._options(free, within)
        if found is None:
            return None
        options, nodes = found
        if not options or states * len(options) * sum(need) > _TABLE:
            return None
        size = free.shape[1]
        costs: Prices = np.full((len(options), size), NEVER)
        kept = np.zeros(size, dtype=np.bool_)
        for some, conflict in self._by_conflict(options):
            rows = np.concatenate([nodes[n] for n in some])
            of = np.repeat(some, [len(nodes[n]) for n in some])
            demand = self.demand.request.T @ np.array(options, dtype=np.float64)[of].T
            costs[of, rows] = self.scan(offer, free, rows, demand, conflict)
        for n in range(len(options)):
            # Of the places for one filling no more can matter than there are members: the cheapest.
            kept[nodes[n][np.argsort(costs[n, nodes[n]], kind="stable")[: sum(need)]]] = True
        rows = np.flatnonzero(kept)
        if states * len(options) * len(rows) > _TABLE:
            return None
        self.work += states * len(options) * len(rows) // 4
        return self._filled(options, costs, rows)

    def _by_conflict(self, options: Sequence[tuple[int, ...]]) -> Iterator[tuple[list[int], Bools | None]]:
        """The options (numbers) that the same pods keep off, and those pods."""
        found: dict[tuple[int, ...], list[int]] = {}
        for n, vector in enumerate(options):
            kinds = tuple(k for k, x in enumerate(vector) if x and self._conflict[k] is not None)
            found.setdefault(kinds, []).append(n)
        for kinds, some in found.items():
            conflict: Bools | None = None
            for k in kinds:
                here = self._conflict[k]
                conflict = here if conflict is None or here is None else conflict | here
            yield some, conflict

    def _filled(
        self, options: Sequence[tuple[int, ...]], costs: Prices, rows: Ints
    ) -> tuple[Ints, complex, complex] | None:
        need = self.demand.need
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
        return counts, price, price

    def _in_turn(self, offer: Offer, free: Floats, within: Bools | None) -> tuple[Ints, complex, complex] | None:
        """One kind after another in several orders, and each again beside the others as long as that helps."""
        best: tuple[Ints, complex] | None = None
        for order in self._orders(free):
            counts: Ints = np.zeros((self._kinds, free.shape[1]), dtype=np.int64)
            price: complex | None = None
            for turn in range(_ROUNDS):
                before = counts.copy()
                if not all(self._again(offer, free, counts, k, within) for k in order):
                    break
                now = self._priced(offer, free, counts)
                if price is not None and _key(now) >= _key(price):
                    counts = before
                    break
                price = now
                if turn == 0 and best is not None and _key(now) >= _key(best[1]) and np.array_equal(counts, best[0]):
                    break
            if price is not None and (best is None or _key(price) < _key(best[1])):
                best = counts, price
        return None if best is None else (best[0], best[1], 0j)

    def _priced(self, offer: Offer, free: Floats, counts: Ints) -> complex:
        if not self._lower:
            gone = self.leaving(offer, free, counts)
            return complex(offer.price[gone & (offer.status == MAY)].sum())
        return 0j

    def _again(self, offer: Offer, free: Floats, counts: Ints, k: int, within: Bools | None) -> bool:
        """Place the members of one kind anew, those of the others staying where they are."""
        counts[k] = 0
        base = self.demand.request.T @ counts.astype(np.float64)
        rivals = counts[self.demand.rules.exclusive[k]]
        taken = rivals.any(axis=0) if len(rivals) else None
        curves = self._curves(offer, free, k, base if base.any() else None, taken, within)
        found = choose(curves, self.demand.need[k])
        if found is None:
            return False
        counts[k] = found.counts
        return True

    def _orders(self, free: Floats) -> list[tuple[int, ...]]:
        """The kinds with the fewest places first, the largest first, and other orders."""
        share = (self.demand.request / np.maximum(free.max(axis=1, initial=1.0), 1.0)).max(axis=1)
        nodes = self._mask.sum(axis=1)
        kinds = range(self._kinds)
        wanted = [
            tuple(sorted(kinds, key=lambda k: (-share[k], nodes[k], k))),
            tuple(sorted(kinds, key=lambda k: (nodes[k], -share[k], k))),
            tuple(sorted(kinds, key=lambda k: (share[k], nodes[k], k))),
        ]
        if self._kinds <= 3:
            wanted += list(permutations(kinds))
        return list(dict.fromkeys(wanted))[:_ORDERS]


def _key(price: complex) -> tuple[float, float]:
    return price.real, price.imag


@cache
def _sets(size: int) -> Floats:
    """``(2 ** size, size)``: all sets of so many pods, as zeros and ones."""
    numbers = np.arange(2**size)[:, None]
    return np.asarray((numbers >> np.arange(size)) & 1, dtype=np.float64)
