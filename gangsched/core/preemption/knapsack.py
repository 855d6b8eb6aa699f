"""How many members each place takes so that all find one, at the least price.

A multiple-choice knapsack: place ``n`` (a node, or a domain) takes ``x`` members for ``costs[x - 1, n]``, and the sum
of all ``x`` is to be ``m``. The lower convex hulls of all places, drawn from in the order of their slopes, give the
bound of the Lagrangian relaxation, and the optimum where they end exactly at ``m`` (Sinha and Zoltners 1979). Otherwise
the places that the bound leaves open are decided by dynamic programming (Pisinger 1995: the core).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gangsched.core.arrays import Floats, Ints, distinct
from gangsched.core.preemption.candidates import NEVER, Prices

#: Places in the core, and as many more for each member that one place may take: with 32 and more, 4,000 random
#: instances of up to 200 places came out as with all places in it.
_CORE, _CORE_PER_MEMBER = 40, 8


class Taking(NamedTuple):
    """``counts`` ``(N,)`` members of each place, their ``price``, and a lower ``bound`` of any other choice."""

    counts: Ints
    price: complex
    bound: complex


def choose(costs: Prices, members: int) -> Taking | None:
    """The least price for so many members; None when the places do not hold them. ``costs`` is ``(X, N)``."""
    width, places = costs.shape
    counts: Ints = np.zeros(places, dtype=np.int64)
    if members <= 0:
        return Taking(counts, 0j, 0j)
    if not costs.size:
        return None
    if width == 1:
        first = costs[0]
        open_ = np.flatnonzero(first.real < NEVER.real)
        if len(open_) < members:
            return None
        chosen = open_[np.argsort(first[open_], kind="stable")[:members]]
        counts[chosen] = 1
        price = complex(first[chosen].sum())
        return Taking(counts, price, price)
    node, gain, slope = hull(costs, np.arange(1, width + 1)[:, None])
    total = np.cumsum(gain)
    if not len(total) or total[-1] < members:
        return _all_ways(costs, np.arange(places), counts, members, 0j) if _capacity(costs) >= members else None
    last = int(np.searchsorted(total, members))
    np.add.at(counts, node[:last], gain[:last])
    price = _price(costs, counts)
    missing = members - (int(total[last - 1]) if last else 0)
    bound = price + missing * complex(slope[last])
    if missing == gain[last]:
        counts[node[last]] += gain[last]
        return Taking(counts, bound, bound)
    return _core(costs, counts, members, complex(slope[last]), bound)


def hull(costs: Prices, amounts: Ints) -> tuple[Ints, Ints, Prices]:
    """The steps of the lower hulls, cheapest member first: the place, the members gained, the price of each. ``costs``
    ``(X, N)`` are those of so many members, ``amounts`` ``(X, N)`` or ``(X, 1)``.
    """
    width, places = costs.shape
    amounts = np.broadcast_to(amounts, costs.shape)
    at: Ints = np.zeros(places, dtype=np.int64)
    paid: Prices = np.zeros(places, dtype=np.complex128)
    nothing: Ints = at[:0]
    steps: list[tuple[Ints, Ints, Prices]] = [(nothing, nothing, paid[:0])]
    alive = np.flatnonzero(costs.real.min(axis=0, initial=NEVER.real) < NEVER.real)
    while len(alive):
        ahead = amounts[:, alive] - at[alive]
        slope = np.where(
            (ahead > 0) & (costs[:, alive].real < NEVER.real),
            (costs[:, alive] - paid[alive]) / np.maximum(ahead, 1),
            NEVER,
        )
        # Of equal slopes the longest step, so that slopes of one place never fall.
        best = width - 1 - slope[::-1].argmin(axis=0)
        lowest = slope[best, np.arange(len(alive))]
        good = lowest.real < NEVER.real
        alive, best, lowest = alive[good], best[good], lowest[good]
        steps.append((alive, amounts[best, alive] - at[alive], lowest))
        at[alive] = amounts[best, alive]
        paid[alive] = costs[best, alive]
    node, gain, slope = (np.concatenate([s[i] for s in steps]) for i in range(3))
    order = np.argsort(slope, kind="stable")
    return node[order], gain[order], slope[order]


def _price(costs: Prices, counts: Ints) -> complex:
    used = np.flatnonzero(counts)
    return complex(costs[counts[used] - 1, used].sum())


def _capacity(costs: Prices) -> int:
    most = np.where(costs.real < NEVER.real, np.arange(1, len(costs) + 1)[:, None], 0).max(axis=0)
    return int(most.sum())


def _core(costs: Prices, counts: Ints, members: int, rate: complex, bound: complex) -> Taking | None:
    """Decide the places anew whose other choices cost least more than their share of the bound."""
    width, places = costs.shape
    turns = np.arange(1, width + 1)[:, None]
    surplus = np.where(costs.real < NEVER.real, costs - rate * turns, NEVER)
    all_choices = np.concatenate([np.zeros((1, places), dtype=np.complex128), surplus])
    now = all_choices[counts, np.arange(places)]
    all_choices[counts, np.arange(places)] = NEVER
    regret = all_choices.min(axis=0) - now
    some = _CORE + _CORE_PER_MEMBER * width
    used, unused = np.flatnonzero(counts > 0), np.flatnonzero(counts == 0)
    core = np.concatenate(
        [group[np.argsort(regret[group], kind="stable")[:some]] for group in (used, unused) if len(group)]
    )
    fixed = counts.copy()
    fixed[core] = 0
    found = _all_ways(costs, core, fixed, members, bound)
    if found is None and len(core) < places:
        found = _all_ways(costs, np.arange(places), np.zeros(places, dtype=np.int64), members, bound)
    if found is None:
        return None
    # Whatever is outside the core cannot be part of a better choice if even its cheapest change is too dear.
    outside = np.ones(places, dtype=np.bool_)
    outside[core] = False
    exact = not outside.any() or complex(bound + regret[outside].min()).real > found.price.real - 1e-6
    return Taking(found.counts, found.price, found.price if exact else bound)


def _all_ways(costs: Prices, core: Ints, fixed: Ints, members: int, bound: complex) -> Taking | None:
    """Dynamic programming over the places of the core, with ``fixed`` members elsewhere."""
    width = len(costs)
    open_ = members - int(fixed.sum())
    best: Prices = np.full(open_ + 1, NEVER)
    best[0] = 0j
    picks = np.zeros((len(core), open_ + 1), dtype=np.int64)
    for turn, n in enumerate(core.tolist()):
        now = best.copy()
        for x in range(1, min(width, open_) + 1):
            cost = costs[x - 1, n]
            if cost.real >= NEVER.real:
                continue
            moved = best[: open_ + 1 - x] + cost
            better = moved < now[x:]
            now[x:][better] = moved[better]
            picks[turn, x:][better] = x
        best = now
    if best[open_].real >= NEVER.real:
        return None
    counts = fixed.copy()
    left = open_
    for turn in range(len(core) - 1, -1, -1):
        x = int(picks[turn, left])
        counts[core[turn]] += x
        left -= x
    price = _price(costs, counts)
    return Taking(counts, price, min(bound, price, key=lambda p: (p.real, p.imag)) if bound else price)


def cover(gains: Ints, prices: Prices | Floats, wanted: int) -> Ints | None:
    """The numbers of those of ``(n,)`` things that together gain at least what is ``wanted``, at the least price; None
    where all of them gain less. A table over what is gained.
    """
    order = np.lexsort((-gains, prices.imag, prices.real))
    order = order[gains[order] > 0]
    kept = np.zeros(len(order), dtype=np.bool_)
    for gain in distinct(gains[order]).tolist():
        # Of those that gain as much or more no more can matter than are enough by themselves: the cheapest.
        before = np.cumsum(gains[order] >= gain) - 1
        kept |= (gains[order] == gain) & (before * gain < wanted)
    order = order[kept]
    best = np.full(wanted + 1, NEVER.real, dtype=prices.dtype)
    best[0] = 0.0
    better = np.zeros((len(order), wanted + 1), dtype=np.bool_)
    with_it = np.empty_like(best)
    for turn, (gain, price) in enumerate(zip(gains[order].tolist(), prices[order].tolist(), strict=True)):
        with_it[:gain] = price
        with_it[gain:] = best[: wanted + 1 - gain] + price if gain <= wanted else price
        np.less(with_it, best, out=better[turn])
        np.copyto(best, with_it, where=better[turn])
    if best[wanted].real >= NEVER.real:
        return None
    out, left = [], wanted
    for turn in range(len(order) - 1, -1, -1):
        if better[turn, left]:
            out.append(int(order[turn]))
            left = max(0, left - int(gains[order[turn]]))
    return np.array(out, dtype=np.int64)
