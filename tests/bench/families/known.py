"""A cluster with the least harm that any plan for it can do, and the arithmetic by which generators know it.

Harm (a) and (b) is a vector: pods beyond a budget, then gangs and pods for each priority from the highest down. Vectors
are added up and compared part by part from the left, so one whole number with a digit per part stands for one: sums
and comparisons of such numbers are those of the vectors (digits never overflow: a part is below 2**24).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import product

import msgspec

from gangsched.core.events import Event
from gangsched.core.preemption.harm import Harm
from gangsched.model.constraints import PodShape
from tests.oracle.case import Case

_DIGIT = 24
#: Levels of harm, as in :class:`~gangsched.core.preemption.harm.Harm`: priority, gangs interrupted, pods evicted.
Levels = tuple[tuple[int, int, int], ...]
#: A part of harm: ``pdb``, or ``gangs`` or ``pods`` of a priority.
Part = tuple[str, int]


class Least(msgspec.Struct, frozen=True):
    """The least harm: pods beyond a budget, then gangs and pods by priority. ``work`` is the least work lost of the
    plans that do no more harm than that, where the family knows it. From the part ``doubt`` on, nothing is proven but
    that harm need not be more than this.
    """

    beyond: int
    levels: Levels
    work: float | None = None
    doubt: Part | None = None

    @property
    def pods(self) -> int:
        """How many pods leave."""
        return sum(pods for _, _, pods in self.levels)


class Cluster(Case):
    """A case with its optimum. ``more`` are objects that a case has no place for: volumes, queues.

    ``victims`` (UIDs) are the only ones that the rules of quota allow, where quota alone binds; empty elsewhere.

    ``same`` are cases that the exact oracle understands (it knows no ports, volumes, domains): the least of their
    optima is the optimum of this cluster. Made for small clusters only.
    """

    least: Least = Least(0, ())
    more: tuple[Event, ...] = ()
    same: tuple[Case, ...] = ()
    victims: frozenset[str] = frozenset()

    def events(self) -> list[Event]:
        """All of it, as the core takes it in."""
        return [*self.more, *super().events()]


class Scale:
    """Harm as whole numbers, for clusters whose victims have these priorities."""

    def __init__(self, priorities: Iterable[int]) -> None:
        self.levels = sorted(set(priorities), reverse=True)
        self._at = {p: 2 * (len(self.levels) - i) for i, p in enumerate(self.levels)}

    def pod(self, priority: int, count: int = 1) -> int:
        """So many pods of a priority."""
        return count << (_DIGIT * (self._at[priority] - 2))

    def gang(self, priority: int, count: int = 1) -> int:
        """So many gangs of a priority, without their pods."""
        return count << (_DIGIT * (self._at[priority] - 1))

    def beyond(self, count: int = 1) -> int:
        """So many pods beyond a budget, beside what they are as pods."""
        return count << (_DIGIT * 2 * len(self.levels))

    def least(self, cost: int, work: float | None = None) -> Least:
        """Back to the vector."""
        mask = (1 << _DIGIT) - 1
        levels = []
        for priority in self.levels:
            at = _DIGIT * (self._at[priority] - 2)
            pods, gangs = (cost >> at) & mask, (cost >> (at + _DIGIT)) & mask
            if pods or gangs:
                levels.append((priority, gangs, pods))
        return Least(cost >> (_DIGIT * 2 * len(self.levels)), tuple(levels), work)


class Kind(msgspec.Struct, frozen=True):
    """Equal pods of one node: ``takes`` of each resource, what the loss of one costs, how many there are.

    With ``all_go`` none of them may stay beside a member: they hold its port.
    """

    takes: tuple[tuple[str, int], ...]
    cost: int
    count: int
    all_go: bool = False


@cache
def price(
    kinds: tuple[Kind, ...], free: tuple[tuple[str, int], ...], wanted: tuple[tuple[str, int], ...]
) -> int | None:
    """The least cost of evicting pods of these kinds so that ``wanted`` fits, None if it does not even without all.

    Every choice of counts is looked at, but for the last kind, of which the least number that is enough is best.
    """
    room, need = dict(free), dict(wanted)
    if all(room.get(r, 0) >= n for r, n in need.items()) and not any(k.all_go for k in kinds):
        return 0
    if not kinds:
        return None
    *others, last = kinds
    best: int | None = None
    for counts in product(*(range(k.count if k.all_go else 0, k.count + 1) for k in others)):
        cost = sum(k.cost * n for k, n in zip(others, counts, strict=True))
        if best is not None and cost >= best:
            continue
        left = dict(need)
        for kind, n in zip(others, counts, strict=True):
            for resource, amount in kind.takes:
                if resource in left:
                    left[resource] -= n * amount
        enough = _enough(last, {r: n - room.get(r, 0) for r, n in left.items()})
        if enough is not None and (best is None or cost + last.cost * enough < best):
            best = cost + last.cost * enough
    return best


def _enough(kind: Kind, short: Mapping[str, int]) -> int | None:
    """How many pods of a kind make up for what is short; None if there are not so many."""
    takes = dict(kind.takes)
    count = kind.count if kind.all_go else 0
    for resource, missing in short.items():
        if missing > 0:
            if not takes.get(resource):
                return None
            count = max(count, -(-missing // takes[resource]))
    return count if count <= kind.count else None


def times(requests: Mapping[str, int], count: int) -> tuple[tuple[str, int], ...]:
    """What so many equal members ask for, their slots included."""
    return tuple(sorted((r, n * count) for r, n in requests.items()))


#: Members of each kind.
Counts = tuple[int, ...]
#: What one node of a kind can hold at which cost, and how many such nodes there are.
Option = tuple[Mapping[Counts, int], int]
#: What nodes of one kind cost: with 1, 2, ... members on it (None: not possible), and how many such nodes there are.
Curve = tuple[tuple["int | None", ...], int]


def cheapest(curves: Sequence[Curve], need: int) -> list[int | None]:
    """The least cost of placing 0, 1, ..., ``need`` equal members on nodes with these curves; None: they do not fit.

    Exact: where each further member on a node costs no less than the one before, the cheapest steps are the optimum
    (and can be taken in order); otherwise all ways to share the members out are tried, node by node.
    """
    if all(_convex(curve) for curve, _ in curves):
        steps: list[tuple[int, int]] = []
        for curve, copies in curves:
            before = 0
            for cost in curve:
                if cost is None:
                    break
                steps.append((cost - before, copies))
                before = cost
        out: list[int | None] = [0]
        for step, copies in sorted(steps):
            for _ in range(min(copies, need + 1 - len(out))):
                out.append((out[-1] or 0) + step)
        return out + [None] * (need + 1 - len(out))
    options: list[Option] = [
        ({(x,): c for x, c in enumerate(curve, 1) if c is not None}, copies) for curve, copies in curves
    ]
    table = together(options, (need,))
    return [table.get((t,)) for t in range(need + 1)]


def _convex(curve: Sequence[int | None]) -> bool:
    steps, before = [], 0
    for cost in curve:
        if cost is None:
            break
        steps.append(cost - before)
        before = cost
    return steps == sorted(steps)


def together(options: Iterable[Option], need: Counts) -> dict[Counts, int]:
    """The least cost for each number of members of each kind, up to ``need``. An option is what one node can hold at
    which cost, and how many such nodes there are. Exact: every node is tried with everything that it can hold; of equal
    nodes no more are looked at than there are members.
    """
    table: dict[Counts, int] = {(0,) * len(need): 0}
    for choices, copies in options:
        for _ in range(min(copies, sum(need))):
            grown = dict(table)
            for placed, cost in table.items():
                for counts, price_of in choices.items():
                    reached = tuple(map(sum, zip(placed, counts, strict=True)))
                    if all(a <= b for a, b in zip(reached, need, strict=True)):
                        known = grown.get(reached)
                        if known is None or cost + price_of < known:
                            grown[reached] = cost + price_of
            if grown == table:
                break
            table = grown
    return table


def requests_of(shape: PodShape) -> dict[str, int]:
    """What a pod takes of a node, its slot included."""
    return {**dict(shape.requests), "pods": 1}


def least_of(harm: Harm, *, with_work: bool = False) -> Least:
    """The parts of harm that are compared."""
    return Least(harm.beyond_budget, harm.levels, harm.work if with_work else None)
