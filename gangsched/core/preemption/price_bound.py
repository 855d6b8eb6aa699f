"""A lower bound for members of several kinds: what their places cost at least, by prices for the members.

The Lagrangian relaxation of the numbers that are needed: whatever a member of each kind is thought to be *worth*, all
of them together are, less what nodes would gain by taking members for that, is no more than any places cost. Nodes look
at one resource, and count in whole members: a table over the amounts that some members add up to has the most worth for
each (a bounded knapsack, in the pieces of Martello and Toth 1990, 3.2). Nodes that are equal are looked at once. The
worth is moved along the subgradient, by the step of Polyak 1969 towards the price of the plan in hand.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints
from gangsched.core.preemption.node_prices import MAY, NodePrices, Offer

#: Steps of the worth: with 40 the bound moves no more in the families of tests/bench.
_STEPS = 40
#: Distinct amounts in a table, and for which nodes are asked: more of them make a bound closer, and dearer. With half
#: the amounts, or a quarter of the cells, as many plans are proven of 24.
_CELLS, _AMOUNTS = 1024, 48
#: What sums over all nodes may be off by, as a share of what is added up.
_ROUNDED = 1e-12


class _Classes(NamedTuple):
    """Equal nodes: ``costs`` ``(A, C)`` of each amount on a node of each class, how many such nodes there are, and
    which of ``masks`` (kinds that may go there) is theirs.
    """

    costs: Floats
    nodes: Floats
    mask: Ints
    masks: list[Bools]


class _Amounts(NamedTuple):
    """One resource ``r`` in cells of ``size``: what each kind takes, and the cells from which on nodes are asked, so
    that members up to ``last`` count as no more than they.
    """

    r: int
    size: float
    takes: Ints
    first: Ints
    last: Ints


class PriceBound:
    """Bounds with the prices of these nodes, which are a lower bound by themselves."""

    def __init__(self, nodes: NodePrices) -> None:
        self._nodes = nodes
        self._demand = nodes.demand
        self._need: Ints = np.array(nodes.demand.need, dtype=np.int64)
        exclusive = nodes.demand.rules.exclusive
        #: Members of each kind on one node, and whether there is one in all.
        self._most: Ints = np.where(exclusive.diagonal(), 1, self._need)
        self._single = bool(exclusive.all())

    def bound(self, offer: Offer, enough: float) -> float:
        """No places cost less; no more is looked for than more than ``enough`` less one."""
        best = 0.0
        for r in np.flatnonzero(self._demand.request.any(axis=0)).tolist():
            amounts = self._amounts(offer, r)
            if amounts is not None:
                best = max(best, self._at_best_worth(self._classes(offer, amounts), amounts, enough))
            if best > enough - 1.0:
                break
        return best

    def _amounts(self, offer: Offer, r: int) -> _Amounts | None:
        """Amounts that some members add up to; None where none take more than another."""
        asked = self._demand.request[:, r]
        usable = self._nodes.mask.any(axis=0)
        top = min(float(self._nodes.room(offer)[r][usable].max(initial=0.0)), float((asked * self._need).sum()))
        size = float(np.gcd.reduce(asked.astype(np.int64)))
        if size <= 0 or top < size:
            return None
        size = max(size, top / _CELLS)
        takes = np.floor(asked / size + 1e-9).astype(np.int64)
        cells = int(top / size + 1e-9) + 1
        reached = np.zeros(cells, dtype=np.bool_)
        reached[0] = True
        for k, pieces in enumerate(map(_pieces, self._most.tolist())):
            for piece in pieces if takes[k] else ():
                step = piece * int(takes[k])
                if step < cells:
                    reached[step:] |= reached[: cells - step].copy()
        first = np.flatnonzero(reached)
        if len(first) > _AMOUNTS:
            first = first[np.linspace(0, len(first) - 1, _AMOUNTS).astype(np.int64)]
        return _Amounts(r, size, takes, first, np.append(first[1:], cells) - 1)

    def _classes(self, offer: Offer, amounts: _Amounts) -> _Classes:
        nodes, c, r = self._nodes, self._nodes.c, amounts.r
        found = nodes.order_for(offer, r)
        order = np.arange(len(c)) if found is None else found
        paid = order[((offer.status == MAY) & (offer.price.real > 0))[order]]
        row = c.row[paid]
        place = np.arange(len(row)) - np.searchsorted(row, row)
        looks: Floats = np.zeros((len(c.count), 1 + 2 * (int(place.max(initial=-1)) + 1)))
        # With more room than for the most members and all that has a price, all of that comes back.
        most = (amounts.first[-1] + 1) * amounts.size + np.bincount(row, weights=c.req[r, paid], minlength=len(looks))
        looks[:, 0] = np.minimum(nodes.room(offer)[r], most)
        looks[row, 1 + 2 * place] = offer.price[paid].real
        looks[row, 2 + 2 * place] = c.req[r, paid]
        masks, by_looks = np.ascontiguousarray(nodes.mask.T), dict[tuple[bytes, bytes], list[int]]()
        for node in np.flatnonzero(masks.any(axis=1)).tolist():
            by_looks.setdefault((masks[node].tobytes(), looks[node].tobytes()), []).append(node)
        rows = np.array([some[0] for some in by_looks.values()], dtype=np.int64)
        number = {mask: n for n, mask in enumerate(dict.fromkeys(mask for mask, _ in by_looks))}
        demand: Floats = np.zeros((len(self._demand.request[0]), len(amounts.first) * len(rows)))
        demand[r] = np.repeat(amounts.first * amounts.size, len(rows))
        costs = nodes.scan_one(offer, np.tile(rows, len(amounts.first)), demand, r).real
        costs[: len(rows)] = 0.0  # members that take nothing of the resource
        return _Classes(
            costs.reshape(len(amounts.first), len(rows)),
            np.array([float(len(some)) for some in by_looks.values()]),
            np.array([number[mask] for mask, _ in by_looks], dtype=np.int64),
            [np.frombuffer(mask, dtype=np.bool_) for mask in number],
        )

    def _at_best_worth(self, classes: _Classes, amounts: _Amounts, enough: float) -> float:
        asked = self._demand.request[:, amounts.r]
        worth = asked * (enough / max(1e-9, float((asked * self._need).sum())))
        best = 0.0
        for _ in range(_STEPS):
            bound, missing = self._at_worth(classes, amounts, worth)
            best = max(best, bound)
            length = float((missing * missing).sum())
            if best > enough - 1.0 + 1e-6 or not length:
                break
            worth = np.maximum(0.0, worth + missing * ((enough - bound) / length))
        return best

    def _at_worth(self, classes: _Classes, amounts: _Amounts, worth: Floats) -> tuple[float, Floats]:
        """The bound, and ``(K,)`` how many members would be missing if nodes took those that gain them most."""
        missing = self._need.astype(np.float64)
        bound = float(missing @ worth)
        for number, mask in enumerate(classes.masks):
            here = np.flatnonzero(classes.mask == number)
            most, members = self._filled(amounts, worth, mask)
            gain = most[amounts.last][:, None] - classes.costs[:, here]
            best = gain.argmax(axis=0)
            gained = np.maximum(gain[best, np.arange(len(here))], 0.0)
            some = classes.nodes[here] * (gained > 0)
            bound -= float(gained @ classes.nodes[here])
            missing -= members[:, amounts.last[best]] @ some
        self._nodes.work += classes.costs.size
        return bound - _ROUNDED * float(self._need @ worth), missing

    def _filled(self, amounts: _Amounts, worth: Floats, mask: Bools) -> tuple[Floats, Ints]:
        """``(cells,)`` the most worth of members of these kinds that take so many cells or fewer, and ``(K, cells)``
        how many of each kind those are.
        """
        cells = int(amounts.last[-1]) + 1
        most: Floats = np.zeros(cells)
        members: Ints = np.zeros((len(worth), cells), dtype=np.int64)
        if self._single:
            for k in np.flatnonzero(mask & (worth > 0)).tolist():
                better = np.flatnonzero(worth[k] > most[amounts.takes[k] :]) + int(amounts.takes[k])
                most[better] = worth[k]
                members[:, better] = 0
                members[k, better] = 1
            return most, members
        for k in np.flatnonzero(mask & (worth > 0)).tolist():
            take = int(amounts.takes[k])
            for piece in _pieces(int(self._most[k])):
                step = piece * take
                if step >= cells:
                    break
                with_it = most[: cells - step] + piece * worth[k]
                better = np.flatnonzero(with_it > most[step:])
                added = members[:, better].copy()
                added[k] += piece
                most[step + better] = with_it[better]
                members[:, step + better] = added
        return most, members


def _pieces(count: int) -> list[int]:
    """Numbers of which some add up to each number up to ``count``, and to none above it."""
    out, piece = [], 1
    while count > 0:
        out.append(min(piece, count))
        count -= piece
        piece *= 2
    return out
