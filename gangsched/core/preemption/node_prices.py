"""The price of members on a node: the pods that have to be evicted there.

*Prices* are for all nodes at once: all that may leave a node leaves, and comes back in order as far as there is room
beside the members. With one resource that is short, putting back the most harmful first and of those the least useful
is exact.

*Fillings* are for clusters with few pods a node. A filling is a number of members of each kind, and a minimal set of
pods without which there is room for them. Pods of a node that no rule tells apart are one class, and of those the ones
that would come back last leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints, distinct
from gangsched.core.preemption.candidates import NEVER, Candidates, Prices
from gangsched.core.preemption.demand import Demand

STAYS, MAY, GONE = 0, 1, 2
#: The fixed cost of one round over the pods of all nodes, in pods read, and the number of rounds of the rest.
_ROUND, _ROUNDS = 300, 6
#: The most sets of pods of one node that are all tried if requested: a millisecond.
_SETS = 4096


class Offer(msgspec.Struct, eq=False):
    """The candidates: ``status`` ``(V,)`` is STAYS, MAY at its price, or GONE already; ``price`` ``(V,)`` is that of
    each pod; ``dear`` ``(V,)`` are pods priced above their order on the node: they are put back before all others.
    """

    status: Ints
    price: Prices
    dear: Bools | None = None
    settled: frozenset[int] = frozenset()  # limited sets of which more may leave, at what the price says
    # Computed at first use: the room without all candidates, and the order in which pods are put back, for all
    # resources and for each.
    room: Floats | None = None
    order: Ints | None = None
    by_resource: dict[int, Ints | None] = {}

    def paid(self, gone: Bools) -> complex:
        """The price of these pods (``(V,)``), those gone already aside."""
        return complex(self.price[gone & (self.status == MAY)].sum())


class NodePrices:
    """Prices of members of a demand. With ``lower`` a price is a lower bound of what leaving a node costs, whatever the
    shapes of pods.

    ``work`` counts nodes x pods looked at. ``mask`` ``(K, N)``: where a kind may go when pods leave; ``conflict``: by
    kind, ``(V,)`` pods that have to leave where it goes. ``company`` ``(V,)``: pods near which members have to be,
    which help as victims only where others like them stay. ``thorough`` ``(N,)``: nodes on which all sets of pods that
    may come back are compared.
    """

    def __init__(self, candidates: Candidates, demand: Demand, *, lower: bool = False) -> None:
        self.c = candidates
        self.demand = demand
        self.lower = lower
        self.work = 0
        self.kinds = len(demand.need)
        self.thorough: Bools | None = None
        self.conflict: list[Bools | None] = [None] * self.kinds
        self.mask = demand.mask.copy()
        self._toll: list[tuple[int, Ints, Ints]] = []
        self.company: Bools = np.zeros(candidates.size, dtype=np.bool_)
        self._read_bars()

    # -- rules ---------------------------------------------------------------------------------------------

    def _read_bars(self) -> None:
        """Pods that keep a kind off: candidates have to leave where it goes, others close the place for good."""
        c = self.c
        for bar in self.demand.rules.bars:
            if bar.company:
                self.mask[bar.of] &= bar.open()
                self.company |= bar.hits[c.slot]
                continue
            mine = bar.hits[c.slot]
            codes = bar.code[c.row]
            movable = np.bincount(codes[mine & (codes >= 0)], minlength=len(bar.counts))
            closed = bar.counts > movable
            self.mask[bar.of] &= (bar.code < 0) | ~closed[bar.code]
            if not mine.any():
                continue
            found = self.conflict[bar.of]
            self.conflict[bar.of] = mine if found is None else found | mine
            if not bar.by_node:
                self._toll.append((bar.of, bar.code, np.flatnonzero(mine)))

    def room(self, offer: Offer) -> Floats:
        """``(R, N)`` room when everything that may leave has left."""
        if offer.room is None:
            offer.room = self.c.room_without(offer.status != STAYS)
        return offer.room

    # -- one node ------------------------------------------------------------------------------------------

    def scan(
        self, offer: Offer, rows: Ints, demand: Floats, conflict: Bools | None, gone: Bools | None = None
    ) -> Prices:
        """``(E,)`` the price of a demand ``(R, E)`` on each of these nodes ``(E,)``; NEVER where it does not fit. With
        ``gone``, where no node occurs twice, the pods that leave are noted there.
        """
        if self.lower:  # whatever leaves for all resources, leaves for each
            asked = np.flatnonzero(self.demand.request.any(axis=0)).tolist()
            return np.asarray(np.maximum.reduce([self.scan_one(offer, rows, demand, r, conflict) for r in asked]))
        if offer.dear is not None and offer.order is None:
            # Pods that are dearer than their place says come back before all others of their node.
            offer.order = np.argsort(self.c.row * 2 + ~offer.dear, kind="stable")
        if self.thorough is None:
            return self._scan(offer, rows, demand, conflict, offer.order, None, gone)
        noted: Bools = np.zeros(self.c.size, dtype=np.bool_)
        price = self._scan(offer, rows, demand, conflict, offer.order, None, noted)
        for row in distinct(rows[self.thorough[rows]]).tolist():
            entries = np.flatnonzero((rows == row) & (price.real < NEVER.real))
            if len(entries):
                self._all_sets(offer, row, demand[:, entries], conflict, price, entries, noted)
        if gone is not None:
            gone |= noted
        return price

    def _all_sets(
        self, offer: Offer, row: int, demand: Floats, conflict: Bools | None, price: Prices, of: Ints, gone: Bools
    ) -> None:
        """Lower the prices ``of`` these demands ``(R, E)`` on a node to those of the best sets of its pods, where
        there are not too many, and note the pods that leave for the last. Pods that hold and cost the same are one
        class, of which those with the least work leave.
        """
        c = self.c
        pods = c.start[row] + np.flatnonzero(offer.status[c.start[row] : c.start[row] + c.count[row]] == MAY)
        in_the_way = np.zeros(len(pods), dtype=np.bool_) if conflict is None else conflict[pods]
        classes: dict[tuple[object, ...], list[int]] = {}
        looks = zip(c.req[:, pods].T.tolist(), offer.price.real[pods].tolist(), in_the_way.tolist(), strict=True)
        for pod, (held, *look) in zip(pods.tolist(), looks, strict=True):
            classes.setdefault((*held, *look), []).append(pod)
        shape = [len(some) + 1 for some in classes.values()]
        self.work += _ROUND * _ROUNDS
        if not shape or np.prod(shape, dtype=np.float64) > _SETS:
            return
        leave = np.indices(shape).reshape(len(shape), -1)
        cost: Prices = np.zeros(leave.shape[1], dtype=np.complex128)
        back: Floats = np.zeros((len(c.req), leave.shape[1]))
        fine: Bools = np.ones(leave.shape[1], dtype=np.bool_)
        for number, (key, some) in zip(leave, classes.items(), strict=True):
            cost += np.append(0j, np.cumsum(offer.price[some[::-1]]))[number]
            back += c.req[:, some[0], None] * (len(some) - number)
            if key[-1]:
                fine[number < len(some)] = False
        self.work += len(cost) * demand.shape[1]
        order = np.flatnonzero(fine)[np.argsort(cost[fine], kind="stable")]
        slack = self.room(offer)[:, [row]] - demand
        fits: Bools = np.all(back[:, None, order] <= slack[:, :, None], axis=0)
        best = order[fits.argmax(axis=1)]
        better = fits.any(axis=1) & (cost[best] < price[of])
        price[of[better]] = cost[best[better]]
        if better[-1]:
            for number, some in zip(leave[:, best[-1]].tolist(), classes.values(), strict=True):
                gone[some] = np.arange(len(some)) >= len(some) - number

    def fingerprint(self, row: int) -> bytes:
        """Return bytes that are equal for nodes that are alike."""
        c, pods = self.c, slice(self.c.start[row], self.c.start[row] + self.c.count[row])
        return bytes(c.free[:, row].tobytes() + c.req[:, pods].tobytes() + c.level[pods].tobytes())

    def unsure(self, offer: Offer, k: int) -> Floats:
        """``(N,)`` what a member of a kind costs at least on each node where that is not known; NEVER elsewhere, and
        where the order of pods is exact for each resource, and so for all.
        """
        asked = np.flatnonzero(self.demand.request.any(axis=0)).tolist()
        if len(asked) < 2 or all(self.order_for(offer, r) is None for r in asked):
            return np.full(len(self.c.count), NEVER.real)
        some = self.curves(offer, k)
        self.lower = True
        least = self.curves(offer, k)
        self.lower = False
        each = (least / np.arange(1, len(least) + 1)[:, None]).real.min(axis=0, initial=NEVER.real)
        return np.where((least < some).any(axis=0), each, NEVER.real)

    def scan_one(self, offer: Offer, rows: Ints, demand: Floats, r: int, conflict: Bools | None = None) -> Prices:
        """The least price as far as one resource matters, with the order that is exact for it."""
        return self._scan(offer, rows, demand, conflict, self.order_for(offer, r), [r])

    def order_for(self, offer: Offer, r: int) -> Ints | None:
        """``(V,)`` the order that is exact for one resource: the dearest first, of those the smallest; None if it is
        that of the candidates.
        """
        if r not in offer.by_resource:
            c = self.c
            price, same = offer.price.real, c.row[1:] == c.row[:-1]
            falls = ~same | (price[1:] <= price[:-1])
            grows = ~same | (price[1:] < price[:-1]) | (c.req[r, 1:] >= c.req[r, :-1])
            offer.by_resource[r] = None
            if not (falls & grows).all():
                offer.by_resource[r] = np.lexsort((-offer.price.imag, c.req[r], -price, c.row))
        return offer.by_resource[r]

    def _scan(
        self,
        offer: Offer,
        rows: Ints,
        demand: Floats,
        conflict: Bools | None,
        order: Ints | None,
        resources: list[int] | None,
        gone: Bools | None = None,
    ) -> Prices:
        """The same with pods that come back in this order (``(V,)``, node by node); None is that of the candidates."""
        c = self.c
        counts = c.count[rows]
        by_count = np.argsort(-counts, kind="stable")
        rows, counts = rows[by_count], counts[by_count]
        starts = c.start[rows]
        some = slice(None) if resources is None else resources
        req = c.req[some]
        slack = np.take(self.room(offer)[some], rows, axis=1) - np.take(demand[some], by_count, axis=1)
        cost: Prices = np.where((slack >= 0).all(axis=0), 0j, NEVER)
        deepest = int(counts[0]) if len(counts) else 0
        until = np.searchsorted(-counts, -np.arange(deepest), side="left")  # entries with more than j pods
        self.work += int(until.sum()) + _ROUND * (deepest + _ROUNDS)
        for j, n in enumerate(until.tolist()):
            p = starts[:n] + j
            if order is not None:
                p = order[p]
            may = offer.status[p] == MAY
            need = np.take(req, p, axis=1)
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

    def capacity(self, free: Floats, k: int) -> Ints:
        """``(N,)`` members of one kind that nodes hold with this room."""
        return self.demand.whole(k, free, self.mask[k]).astype(np.int64)

    def curves(self, offer: Offer, k: int, base: Floats | None = None, taken: Bools | None = None) -> Prices:
        """``(X, N)`` the price of 1, 2, ... members of a kind on each node, beside a ``base`` demand ``(R, N)``; nodes
        that are ``taken`` hold none.
        """
        free = self.room(offer)
        most = self.capacity(free if base is None else free - base, k)
        if taken is not None:
            most[taken] = 0
        width = int(most.max(initial=0))
        out: Prices = np.full((width, len(most)), NEVER)
        if not width:
            return out
        numbers = [np.flatnonzero(most >= x) for x in range(1, width + 1)]
        rows = np.concatenate(numbers)
        members = np.repeat(np.arange(1, width + 1), [len(n) for n in numbers])
        demand = members * self.demand.request[k][:, None]
        if base is None or not base.any():
            out[members - 1, rows] = self.scan(offer, rows, demand, self.conflict[k])
            return out
        before = np.zeros(len(most), dtype=np.complex128)
        before[numbers[0]] = self.scan(offer, numbers[0], base[:, numbers[0]], None)
        price = self.scan(offer, rows, demand + np.take(base, rows, axis=1), self.conflict[k])
        out[members - 1, rows] = np.where(price.real < NEVER.real, price - before[rows], NEVER)
        return out

    def leaving(self, offer: Offer, counts: Ints) -> Bools:
        """``(V,)`` what leaves for so many members of each kind on each node."""
        gone: Bools = offer.status == GONE
        rows = np.flatnonzero(counts.any(axis=0))
        demand = self.demand.request.T @ counts[:, rows].astype(np.float64)
        conflict = None
        for k in np.flatnonzero(counts.any(axis=1)).tolist():
            here = self.conflict[k]
            if here is not None:
                there = counts[k][self.c.row] > 0
                conflict = here & there if conflict is None else conflict | (here & there)
        if len(rows):
            self.scan(offer, rows, demand, conflict, gone)
        for k, code, pods in self._toll:
            domains = distinct(code[np.flatnonzero(counts[k])])
            inside = np.zeros(int(code.max(initial=0)) + 2, dtype=np.bool_)
            inside[domains] = True
            inside[-1] = False
            there = pods[inside[code[self.c.row[pods]]]]
            gone[there[offer.status[there] != STAYS]] = True
        return gone

    def with_tolls(self, offer: Offer, curves: Prices) -> Prices:
        """With what has to leave elsewhere in the domain before a member may go to a node. Where several members may
        share a domain each place pays for itself: dearer than it is, never cheaper than it can be had.
        """
        if not self._toll or not len(curves) or self.lower:
            return curves
        for _, code, pods in self._toll:
            domain = code[self.c.row[pods]]
            price = np.where(offer.status[pods] == MAY, offer.price[pods], 0j)
            price = np.where(offer.status[pods] == STAYS, NEVER, price)
            size = int(code.max(initial=0)) + 1
            here, there = np.zeros(curves.shape[1], dtype=np.complex128), np.zeros(size + 1, dtype=np.complex128)
            np.add.at(there, domain[domain >= 0], price[domain >= 0])
            np.add.at(here, self.c.row[pods], price)
            more = np.where(code >= 0, there[code] - here, 0j)
            blocked = there[code].real >= NEVER.real
            curves = np.where((code >= 0) & blocked, NEVER, curves + more)
            curves = np.where(curves.real >= NEVER.real, NEVER, curves)
        return curves


#: Limits up to which all are tried: pods in all, sets of pods of one node, kinds of members on one node, and fillings
#: in all. With a quarter of the sets or of the kinds together, or half of the fillings, 20 tight mixes come out the
#: same.
_PODS, _ALL_SETS, _VECTORS, _FILLINGS = 2000, 16384, 64, 4000
#: The fixed cost of a number of members on a node, in nodes x pods, and the most for all: a tenth of a second.
_VECTOR, _WORK = 1000, 3_000_000


class Fillings(msgspec.Struct, eq=False):
    """``row`` ``(F,)`` the node of each, ``members`` ``(F, K)``; ``pods`` the indices of those that leave, filling by
    filling, ``of`` the filling of each.
    """

    row: Ints
    members: Ints
    pods: Ints
    of: Ints


def fillings_of(nodes: NodePrices) -> Fillings | None:
    """All fillings; None if there are too many. It counts as work of the ``nodes``."""
    c, demand = nodes.c, nodes.demand
    if c.size > _PODS:
        return None
    key = _classes(c, nodes.conflict)
    rows: list[int] = []
    members: list[tuple[int, ...]] = []
    leaving: list[Ints] = []
    last = nodes.work + _WORK
    for node in np.flatnonzero(nodes.mask.any(axis=0)).tolist():
        pods = np.arange(c.start[node], c.start[node] + c.count[node])
        pods = pods[c.single[pods] | (c.unit[pods] >= 0)]
        by_class: dict[int, list[int]] = {}
        for pod in pods.tolist():
            by_class.setdefault(int(key[pod]), []).append(pod)
        classes = list(by_class.values())
        shape = tuple(len(some) + 1 for some in classes)
        if np.prod(shape, dtype=np.float64) > _ALL_SETS:
            return None
        taken = np.indices(shape).reshape(len(shape), int(np.prod(shape, dtype=np.int64)))
        room = c.free[:, node, None] + (c.req[:, [some[0] for some in classes]][:, :, None] * taken[None]).sum(axis=1)
        most = [demand.whole(k, room[:, -1:], nodes.mask[k, [node]]) for k in range(nodes.kinds)]
        ranges = [range(int(m[0]) + 1) for m in most]
        vectors = np.prod([len(r) for r in ranges], dtype=np.float64)
        if vectors > _VECTORS:
            return None
        nodes.work += int(vectors) * (_VECTOR + room.size // 8)
        if nodes.work > last:
            return None
        here: list[tuple[tuple[int, ...], int]] = []
        for vector in product(*ranges):
            if not any(vector) or not demand.together(vector):
                continue
            least = _smallest(demand, vector, room, taken, shape, _in_the_way(nodes, vector, classes))
            here += [(vector, number) for number in least.tolist()]
            if len(here) > _FILLINGS:
                return None
        for vector, number in _undominated(here, taken):
            rows.append(node)
            members.append(vector)
            some = [p for k, n in enumerate(taken[:, number].tolist()) if n for p in classes[k][-n:]]
            leaving.append(np.array(some, dtype=np.int64))
        if len(rows) > _FILLINGS:
            return None
    sizes = np.array([len(some) for some in leaving], dtype=np.int64)
    everything = np.concatenate(leaving) if leaving else np.zeros(0, dtype=np.int64)
    return Fillings(
        np.array(rows, dtype=np.int64),
        np.array(members, dtype=np.int64).reshape(len(rows), len(demand.need)),
        everything,
        np.repeat(np.arange(len(rows)), sizes),
    )


def _classes(c: Candidates, conflicts: Sequence[Bools | None]) -> Ints:
    """``(V,)`` equal numbers for pods that hold the same, count the same, and are bound by the same rules."""
    bound = np.zeros(c.size, dtype=np.int64)
    known: dict[tuple[int, int], int] = {}
    sets = [limited.pods for limited in c.limited] + [np.flatnonzero(some) for some in conflicts if some is not None]
    for number, pods in enumerate(sets):
        for pod in pods.tolist():
            bound[pod] = known.setdefault((int(bound[pod]), number), len(known) + 1)
    seen: dict[tuple[object, ...], int] = {}
    columns = zip(c.req.T.tolist(), c.level.tolist(), c.unit.tolist(), c.single.tolist(), bound.tolist(), strict=True)
    out = [seen.setdefault((tuple(held), *rest), len(seen)) for held, *rest in columns]
    return np.array(out, dtype=np.int64)


def _in_the_way(nodes: NodePrices, vector: tuple[int, ...], classes: Sequence[Sequence[int]]) -> list[int]:
    """The classes (numbers) that keep these members off the node, whatever room there is."""
    conflicts = [some for k, some in enumerate(nodes.conflict) if vector[k] and some is not None]
    return [n for n, pods in enumerate(classes) if any(some[pods[0]] for some in conflicts)]


def _smallest(
    demand: Demand, vector: tuple[int, ...], room: Floats, taken: Ints, shape: tuple[int, ...], leave: Sequence[int]
) -> Ints:
    """The sets (numbers) that make room for these members, the classes that have to ``leave`` among them, and none of
    which does with a pod less.
    """
    asked = (demand.request * np.array(vector)[:, None]).sum(axis=0)
    fits = (room >= asked[:, None]).all(axis=0)
    for k in leave:
        fits &= taken[k] == shape[k] - 1
    least = fits.copy()
    step = 1
    for k in range(len(shape) - 1, -1, -1):
        some = np.flatnonzero(taken[k] > 0)
        least[some] &= ~fits[some - step]
        step *= shape[k]
    return np.flatnonzero(least)


def _undominated(fillings: list[tuple[tuple[int, ...], int]], taken: Ints) -> list[tuple[tuple[int, ...], int]]:
    """Without those that make room for no more members than another, for which the same pods leave or fewer."""
    members = np.array([vector for vector, _ in fillings], dtype=np.int64)
    leaving = taken[:, [number for _, number in fillings]].T
    out = []
    for n, filling in enumerate(fillings):
        better = (members >= members[n]).all(axis=1) & (leaving <= leaving[n]).all(axis=1)
        if np.count_nonzero(better) == 1:  # no two are equal in both
            out.append(filling)
    return out
