"""The fewest single pods that make room for so many equal members.

Per node: which of its pods make room for one more member, for two, ... All sets of up to three pods are looked at, and
the first so many in the order of each resource. Then how many members each node is to gain, all nodes together, by
dynamic programming (a knapsack with choices). Gangs and disruption budgets that can spare only some of their pods put
a price on them that rises as long as too many are chosen (Lagrangian relaxation, subgradient steps); each round's
choice is made legal and filled up greedily, and the best one is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations

import msgspec
import numpy as np

from gangsched.core.state.snapshot import Bools, Floats, Ints

#: Of the pods of one node so many are looked at, the most useful; and sets of at most so many of them, all.
_MOST_PODS = 14
_SET_SIZE = 3
#: How often prices are raised, and by how much (in pods) for each pod too many.
_ROUNDS = 8
_RAISE = 0.35
#: Prices paid for nothing, in pods, that may stay in a choice that counts as the best.
_PAID = 0.5
#: No node gains more members than this.
_MANY = 16


class Room(msgspec.Struct):
    """``missing`` members, each asking for ``amounts`` ``(R,)``, are to go to ``allowed`` nodes ``(N,)`` with ``free``
    ``(R, N)`` left.
    """

    free: Floats
    amounts: Floats
    allowed: Bools
    missing: int


class Offer(msgspec.Struct, frozen=True, gc=False):
    """A pod that may leave: its row, what it holds ``(R,)``, the work lost with it, and the groups that can only spare
    some of their pods: those of its gang, those under a disruption budget.
    """

    slot: int
    row: int
    held: tuple[float, ...]
    work: float
    groups: tuple[int, ...] = ()


class Option(msgspec.Struct, frozen=True, gc=False):
    """Pods of one node that make room for ``gain`` more members. ``cost`` is their number, and less than 1 for work;
    ``uses`` has the group of each pod that is in one, once per pod.
    """

    gain: int
    cost: float
    slots: tuple[int, ...]
    uses: tuple[int, ...]


class _Table:
    """The options of all nodes, node by node: arrays ``(options,)``, and ``(options, groups)`` of what they use."""

    def __init__(self, options: Sequence[Sequence[Option]], groups: Sequence[int]) -> None:
        self.flat = [o for some in options for o in some]
        self.node = np.repeat(np.arange(len(options)), [len(some) for some in options])
        self.gain = np.array([o.gain for o in self.flat], dtype=np.int64)
        self.cost = np.array([o.cost for o in self.flat])
        self.starts = np.cumsum([0, *(len(some) for some in options)])
        place = {g: n for n, g in enumerate(groups)}
        self.uses = np.zeros((len(self.flat), len(groups)))
        for n, option in enumerate(self.flat):
            for group in option.uses:
                self.uses[n, place[group]] += 1.0


class Fewest:
    """Finds the fewest pods again and again; what was found for a node is kept for as long as nothing changes there.

    ``unit`` scales work lost so that all of it together weighs less than one pod. ``work`` counts what was looked at;
    ``margin`` is what the dearest member of the last choice cost.
    """

    def __init__(self, unit: float) -> None:
        self._unit = unit
        self._known: dict[tuple[object, ...], tuple[Option, ...]] = {}
        self.work = 0
        self.margin = 1.0

    def choose(
        self,
        room: Room,
        offers: Sequence[Offer],
        spare: Mapping[int, int],
        *,
        partly: bool = False,
        fewer: float = np.inf,
    ) -> list[int] | None:
        """Slots of the offers; None when no set was found that is enough, or with ``partly`` one that makes room for
        as many members as possible. ``spare`` says how many of each group may go; with ``fewer``, only a set of fewer
        pods than that is of interest.
        """
        by_row: dict[int, list[Offer]] = {}
        for offer in offers:
            if room.allowed[offer.row]:
                by_row.setdefault(offer.row, []).append(offer)
        found = [self._options(room, row, mine) for row, mine in sorted(by_row.items())]
        found = [some for some in found if some]
        possible = sum(max(o.gain for o in some) for some in found)
        if not found or (possible < room.missing and not partly):
            return [] if partly else None
        groups = sorted({g for some in found for o in some for g in o.uses})
        table = _Table(found, groups)
        limit = np.array([float(spare[g]) for g in groups])
        wanted = min(room.missing, possible)
        best: tuple[int, float, list[int]] | None = None
        price = np.zeros(len(groups))
        for turn in range(_ROUNDS // 2 if partly else _ROUNDS):
            priced = table.cost + table.uses @ price
            chosen = self._knapsack(table, priced, wanted)
            # Whatever the prices, no legal set costs less than this.
            if not partly and float(priced[chosen].sum() - price @ limit) >= fewer - 1e-6:
                return None
            over = table.uses[chosen].sum(axis=0) - limit
            legal = self._legal(table, priced, chosen, limit, wanted)
            gain, cost = int(table.gain[legal].sum()), round(float(table.cost[legal].sum()), 9)
            if best is None or (-min(gain, wanted), cost) < (-best[0], best[1]):
                best = min(gain, wanted), cost, legal
            if not (over > 0).any() and float(price @ over) > -_PAID:  # nothing is priced that is not used up
                break
            price = np.maximum(0.0, price + _RAISE / (1.0 + turn / 4.0) * np.clip(over, -2.0, 2.0))
        if best is None or (best[0] < room.missing and not partly):
            return None
        if best[2]:
            self.margin = float((table.cost[best[2]] / table.gain[best[2]]).max())
        return sorted(s for n in best[2] for s in table.flat[n].slots)

    # -- one node ------------------------------------------------------------------------------------------

    def _options(self, room: Room, row: int, offers: Sequence[Offer]) -> tuple[Option, ...]:
        """What the node can gain: the cheapest set for each gain and for each use of the groups."""
        free = room.free[:, row]
        pods = tuple((o.slot, o.groups) for o in offers)
        key = (row, min(room.missing, _MANY), *free.tolist(), *room.amounts.tolist(), pods)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._sets(free, room, offers)
        return found

    def _sets(self, free: Floats, room: Room, offers: Sequence[Offer]) -> tuple[Option, ...]:
        held = np.array([o.held for o in offers])
        works = np.array([o.work for o in offers]) * self._unit
        wanted = room.amounts
        before = max(0.0, float(np.floor((free / wanted).min())))
        lacking = np.maximum(wanted * (before + 1.0) - free, 0.0)
        useful = np.minimum(held / wanted, 1.0)[:, lacking > 0].sum(axis=1)
        first = np.lexsort((works, -np.round(useful, 9)))
        sets = [_spread(_subsets(min(len(offers), _MOST_PODS)), first, len(offers))]
        if len(offers) > _SET_SIZE:
            orders = [first, *(np.lexsort((works, -held[:, i])) for i in range(held.shape[1]))]
            sets += [_prefixes(order) for order in orders]
        members = np.concatenate(sets)
        gains = np.floor((free[:, None] + held.T @ members.T) / wanted[:, None] + 1e-9).min(axis=0) - before
        gains = np.minimum(gains, min(room.missing, _MANY))
        some = np.flatnonzero(gains > 0)
        self.work += len(members) + 4 * len(some)
        cost = members[some].sum(axis=1) + members[some] @ works
        groups = [o.groups for o in offers]
        best: dict[tuple[int, tuple[int, ...]], tuple[float, int]] = {}
        for n, gain, price in zip(some.tolist(), gains[some].tolist(), np.round(cost, 12).tolist(), strict=True):
            uses = tuple(sorted(g for i in np.flatnonzero(members[n]).tolist() for g in groups[i]))
            key = int(gain), uses
            if key not in best or (price, n) < best[key]:
                best[key] = price, n
        out = []
        for (gain, uses), (price, n) in sorted(best.items()):
            plain = best.get((gain, ()))
            if uses and plain is not None and plain[0] <= price:
                continue
            slots = tuple(offers[i].slot for i in np.flatnonzero(members[n]).tolist())
            out.append(Option(gain, price, slots, uses))
        return tuple(out)

    # -- all nodes -----------------------------------------------------------------------------------------

    def _knapsack(self, table: _Table, priced: Floats, wanted: int) -> list[int]:
        """One option at most of each node, so that all gains together are ``wanted``, as cheaply as possible.

        Nodes that can gain one member only are taken in the order of their price; dynamic programming is for the rest.
        """
        order = np.lexsort((priced, table.gain, table.node))
        first = np.append(True, (np.diff(table.node[order]) != 0) | (np.diff(table.gain[order]) != 0))
        kept = order[first]  # of each node and gain the cheapest
        several = np.bincount(table.node, weights=table.gain > 1, minlength=len(table.starts) - 1) > 0
        ones = kept[~several[table.node[kept]]]
        ones = ones[np.argsort(priced[ones], kind="stable")][:wanted]
        best = np.full(wanted + 1, np.inf)
        best[0] = 0.0
        picks: list[Ints] = []
        rest = kept[several[table.node[kept]]]
        for options in np.split(rest, np.flatnonzero(np.diff(table.node[rest])) + 1) if len(rest) else ():
            now = best.copy()
            pick = np.full(wanted + 1, -1, dtype=np.int64)
            for n in options.tolist():
                gain = min(int(table.gain[n]), wanted)
                moved = np.concatenate([np.full(gain, best[0]), best[: wanted + 1 - gain]]) + priced[n]
                better = moved < now - 1e-12
                now[better] = moved[better]
                pick[better] = n
            picks.append(pick)
            best = now
        self.work += 30 * len(picks) + len(table.flat)
        sums = np.concatenate([[0.0], np.cumsum(priced[ones])])
        singly = int(np.argmin(np.round(sums + best[wanted - np.arange(len(sums))], 9)))
        out: list[int] = ones[:singly].tolist()
        left = wanted - singly
        for pick in reversed(picks):
            n = int(pick[left])
            if n >= 0:
                out.append(n)
                left = max(0, left - int(table.gain[n]))
        return out

    def _legal(self, table: _Table, priced: Floats, chosen: list[int], limit: Floats, wanted: int) -> list[int]:
        """Of a choice as much as the groups can spare, the cheapest per member first; then filled up."""
        left = limit.copy()
        now: dict[int, int] = {}
        missing = wanted
        for n in sorted(chosen, key=lambda n: (priced[n] / table.gain[n], n)):
            if (table.uses[n] <= left).all():
                left -= table.uses[n]
                now[int(table.node[n])] = n
                missing -= int(table.gain[n])
        if missing <= 0:
            return list(now.values())
        gain, cost = table.gain.astype(np.float64), priced.copy()
        spared = np.zeros_like(table.uses)
        for node, n in now.items():
            _upgrade(table, node, n, gain, cost, spared)
        while missing > 0:
            fine = (gain > 0) & (table.uses - spared <= left).all(axis=1)
            self.work += 50
            if not fine.any():
                break
            ratio = np.where(fine, cost / np.minimum(np.maximum(gain, 1e-9), missing), np.inf)
            n = int(np.argmin(np.round(ratio, 9)))
            node = int(table.node[n])
            left -= table.uses[n] - spared[n]
            missing -= int(gain[n])
            now[node] = n
            _upgrade(table, node, n, gain, cost, spared)
        return list(now.values())


def _upgrade(table: _Table, node: int, n: int, gain: Floats, cost: Floats, spared: Floats) -> None:
    """A node has option ``n`` now: what its other options would gain, cost and use beside it."""
    mine = slice(int(table.starts[node]), int(table.starts[node + 1]))
    more, dearer = float(gain[n]), float(cost[n])
    gain[mine] -= more
    cost[mine] -= dearer
    spared[mine] = table.uses[n]


@cache
def _subsets(size: int) -> Floats:
    """``(sets, size)``: all sets of one to :data:`_SET_SIZE` of so many pods, as zeros and ones."""
    chosen = [c for n in range(1, _SET_SIZE + 1) for c in combinations(range(size), n)]
    out = np.zeros((len(chosen), size))
    for n, some in enumerate(chosen):
        out[n, list(some)] = 1.0
    return out


def _spread(sets: Floats, order: Ints, width: int) -> Floats:
    """The sets, told of the first pods of an order, as sets of all pods."""
    out = np.zeros((len(sets), width))
    out[:, order[: sets.shape[1]]] = sets
    return out


def _prefixes(order: Ints) -> Floats:
    """The first four, five, ... pods of an order, as sets."""
    out = np.zeros((len(order) - _SET_SIZE, len(order)))
    for n in range(len(out)):
        out[n, order[: _SET_SIZE + 1 + n]] = 1.0
    return out
