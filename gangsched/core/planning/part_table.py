"""The cheapest assignments of parts to domains, one after another.

What parts cost in a domain depends on how many of each kind are in it, and not on which of them. So a table over the
domains of a level and the numbers of equal parts has the least price (min-plus). A domain that holds narrower ones has
the table of these as its price. Members of several kinds in one domain are priced by what each kind costs alone, and
all of them if they were as small as the smallest: a bound that is never too high.

The next assignments are those without what an earlier one had in one of its domains (Lawler 1972).
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, product
from typing import NamedTuple, Protocol

import msgspec
import numpy as np

from gangsched.core.arrays import Ints
from gangsched.core.planning.part_tree import Assignment, Branch, Keys, Labels, Leaf, PartTree
from gangsched.core.planning.topology import Level
from gangsched.core.preemption.candidates import NEVER, Prices, rank
from gangsched.model.records import Pod

#: How many of each kind of part or member, sorted.
Counts = tuple[tuple[int, int], ...]
#: What is not to be in a domain.
Ban = tuple[Keys, int, Counts]
#: Looks for each assignment: bans may lead to one that is known, or that cannot keep siblings apart.
_LOOKS = 4
#: Numbers of parts in a table. With more, the parts are placed in turn.
_STATES = 1_000
#: Ways to keep equal parts in the levels that they rather have.
_WAYS = 64


class Costs(Protocol):
    """The prices of members in one domain."""

    #: Price of a part that is outside a level that it rather has.
    miss: complex

    def kind_of(self, pod: Pod) -> int:
        """Return the kind of a member."""

    def price(self, level: Level, number: int, members: Counts) -> complex:
        """Return a price of these members in a domain that is never too high; NEVER if they do not fit."""


class Candidate(NamedTuple):
    """An assignment with its price; ``exact`` if no assignment costs less."""

    price: complex
    assignment: Assignment
    used: tuple[Ban, ...]


class _Kin(NamedTuple):
    """What equal branches have in common."""

    keys: Keys
    soft: tuple[Keys, ...]
    apart: bool
    pin: int | None
    barred: frozenset[int]
    members: Counts | None
    children: Counts


class _Spread(msgspec.Struct, eq=False):
    """Parts (``classes``) of so many ``parents`` over the domains ``numbers``. ``options`` and ``picks`` say how many
    are in each, or ``given`` does.
    """

    price: complex
    classes: tuple[int, ...] = ()
    need: tuple[int, ...] = ()
    parents: int = 1
    given: dict[int, list[int]] | None = None
    numbers: list[int] = []
    options: list[list[tuple[int, ...]]] = []
    picks: list[Ints] = []

    def shares(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield each domain that has some, and how many of each class."""
        if self.given is not None:
            yield from ((number, tuple(vector)) for number, vector in self.given.items() if any(vector))
            return
        left = list(self.need)
        for number, options, pick in reversed([*zip(self.numbers, self.options, self.picks, strict=True)]):
            chosen = int(pick[tuple(left)])
            if chosen:
                vector = options[chosen - 1]
                left = [n - x for n, x in zip(left, vector, strict=True)]
                yield number, vector


class _Opened(NamedTuple):
    """The classes of parts in one domain: leaves whose members may be anywhere ``here``; parts that need a narrower
    domain by its keys, and of how many parents they are; and parts that rather have a narrower one.
    """

    here: Counter[int]
    inner: dict[Keys, Counter[int]]
    limits: dict[Keys, int]
    soft: Counter[int]


class _Best(msgspec.Struct, eq=False):
    """The least price of parts in one domain: those over narrower domains by their keys, and how many of each class
    are ``inside`` the level that they rather have, where some have one: these are the parts ``instead``.
    """

    price: complex
    spreads: dict[Keys, _Spread] = {}
    inside: dict[int, int] | None = None
    instead: tuple[Counts, int] = ((), 1)


class PartTable:
    """The assignments of a tree, by their prices."""

    def __init__(self, tree: PartTree, costs: Costs) -> None:
        self._tree = tree
        self._costs = costs
        self._kins: list[_Kin] = []
        self._like: list[Branch] = []
        self._class_of: dict[_Kin, int] = {}
        self._classes: dict[int, tuple[Branch, int]] = {}
        self._inner: dict[tuple[Keys, int, Keys], list[int]] = {}
        self._best: dict[tuple[Keys, int, Counts, int], _Best] = {}
        self._bans: frozenset[Ban] = frozenset()
        self._sizes: dict[int, int] = {}

    def cheapest(self, most: int) -> Iterator[Candidate]:
        """Yield up to so many assignments, the cheapest first."""
        turn, seen = count(), set[frozenset[tuple[Leaf, Labels]]]()
        first = self._without(frozenset())
        heap = [(rank(first.price), next(turn), first, frozenset[Ban]())] if first is not None else []
        looks = _LOOKS * most
        while heap and most > 0 and looks > 0:
            looks -= 1
            _, _, candidate, bans = heapq.heappop(heap)
            key = frozenset(candidate.assignment.within.items())
            if key not in seen and self._tree.keeps_apart(candidate.assignment):
                seen.add(key)
                most -= 1
                yield candidate
            for ban in candidate.used:
                other = self._without(bans | {ban})
                if other is not None:
                    heapq.heappush(heap, (rank(other.price), next(turn), other, bans | {ban}))

    def _without(self, bans: frozenset[Ban]) -> Candidate | None:
        self._bans, self._best = bans, {}
        root = self._tree.root
        group = ((self._class(root), 1),), 1
        found = self._least((), 0, *group)
        if found.price.real >= NEVER.real:
            return None
        within: dict[Leaf, Labels] = {}
        used: list[Ban] = []
        misses = self._deal([root], (), 0, group, within, used)
        for leaf in root.leaves():
            pin = self._tree.pin(leaf) if leaf.keys else None
            if pin is not None and leaf.leaf is not None:
                within.setdefault(leaf.leaf, self._tree.labels(leaf.keys, pin))
        return Candidate(found.price, Assignment(within, misses), tuple(used))

    # -- equal parts ---------------------------------------------------------------------------------------

    def _class(self, branch: Branch) -> int:
        known = self._classes.get(id(branch))
        if known is not None:
            return known[1]
        members = None
        if branch.leaf is not None:
            members = _counts(Counter(map(self._costs.kind_of, branch.members)))
        children = _counts(Counter(map(self._class, branch.children)))
        pin = self._tree.pin(branch)
        kin = _Kin(branch.keys, branch.soft, branch.apart, pin, branch.barred, members, children)
        found = self._class_of.setdefault(kin, len(self._kins))
        if found == len(self._kins):
            self._kins.append(kin)
            self._like.append(branch)
        self._classes[id(branch)] = branch, found
        return found

    def _inside(self, branch: Branch) -> Branch | None:
        """The branch if it has to be in the level that it rather has; None if its members run outside one."""
        keys = branch.soft[0]
        if branch.bound and self._tree.level(keys).common([row for _, row in branch.bound]) is None:
            return None
        return _narrowed(branch, keys, branch.soft[1:])

    # -- prices --------------------------------------------------------------------------------------------

    def _least(self, keys: Keys, number: int, group: Counts, parents: int) -> _Best:
        """The least price of these parts in one domain, where they are parts of so many ``parents``."""
        known = self._best.get((keys, number, group, parents))
        if known is None:
            known = self._best[keys, number, group, parents] = self._computed(keys, number, group, parents)
        return known

    def _computed(self, keys: Keys, number: int, group: Counts, parents: int) -> _Best:
        opened = self._opened(keys, group, parents)
        if opened.soft:
            return self._softly(keys, number, opened, parents)
        spreads, price = {}, 0j
        for below, classes in opened.inner.items():
            spreads[below] = self._spread(keys, number, below, _counts(classes), opened.limits[below])
            price += spreads[below].price
            if price.real >= NEVER.real:
                return _Best(NEVER)
        if opened.here:
            members = _counts(self._members([opened.here, *opened.inner.values()]))
            price = max(price, self._costs.price(self._tree.level(keys), number, members), key=rank)
        return _Best(price, spreads)

    def _opened(self, keys: Keys, group: Counts, parents: int) -> _Opened:
        """What is in these parts, as far as no narrower domain is needed. Parts without members count not at all."""
        out = _Opened(Counter(), {}, {}, Counter())
        stack = [(group, parents)]
        while stack:
            parts, of = stack.pop()
            for below in {self._kins[number].keys for number, _ in parts} - {keys}:
                out.limits[below] = out.limits.get(below, 0) + of
            for number, times in parts:
                kin = self._kins[number]
                if not self._size(number):
                    continue
                if kin.keys != keys:
                    out.inner.setdefault(kin.keys, Counter())[number] += times
                elif kin.soft:
                    out.soft[number] += times
                elif kin.members is not None:
                    out.here[number] += times
                else:
                    stack.append((tuple((child, n * times) for child, n in kin.children), times))
        return out

    def _softly(self, keys: Keys, number: int, opened: _Opened, parents: int) -> _Best:
        """The least price with any number of the parts in the levels that they rather have."""
        ways = [range(times, -1, -1) for times in opened.soft.values()]
        if math.prod(map(len, ways)) > _WAYS:
            ways = [range(times, -1, -times) for times in opened.soft.values()]
        if math.prod(map(len, ways)) > _WAYS:
            ways = [range(times, times - 1, -1) for times in opened.soft.values()]
        best = _Best(NEVER)
        parents = max(opened.limits.values(), default=parents)
        rest = sum(opened.inner.values(), opened.here)
        for inside in [*product(*ways), (0,) * len(ways)]:
            chosen = dict(zip(opened.soft, inside, strict=True))
            some = self._chosen(opened.soft, chosen)
            if some is None:
                continue
            misses = sum((opened.soft[n] - k) * len(self._kins[n].soft) for n, k in chosen.items())
            group = _counts(rest + some)
            found = self._least(keys, number, group, parents).price
            if found.real < NEVER.real and rank(found + misses * self._costs.miss) < rank(best.price):
                best = _Best(found + misses * self._costs.miss, {}, chosen, (group, parents))
        return best

    def _chosen(self, soft: Mapping[int, int], inside: Mapping[int, int]) -> Counter[int] | None:
        """The parts with so many of each class inside the level that they rather have, the others outside."""
        group = Counter[int]()
        for number, times in soft.items():
            branch = self._like[number]
            if inside[number]:
                within = self._inside(branch)
                if within is None:
                    return None
                group[self._class(within)] += inside[number]
            if times > inside[number]:
                group[self._class(_narrowed(branch, branch.keys, ()))] += times - inside[number]
        return group

    def _size(self, number: int) -> int:
        """How many members of a part are to be placed."""
        if number not in self._sizes:
            self._sizes[number] = sum(self._members([Counter({number: 1})]).values())
        return self._sizes[number]

    def _members(self, parts: Sequence[Counter[int]]) -> Counter[int]:
        """The members of parts, by kind."""
        out, stack = Counter[int](), [*parts]
        while stack:
            for number, times in stack.pop().items():
                kin = self._kins[number]
                out.update({kind: n * times for kind, n in kin.members or ()})
                stack.append(Counter({child: n * times for child, n in kin.children}))
        return out

    # -- over domains --------------------------------------------------------------------------------------

    def _domains(self, keys: Keys, number: int, below: Keys) -> list[int]:
        """The domains of a narrower level in one domain."""
        known = self._inner.get((keys, number, below))
        if known is None:
            codes = self._tree.level(below).codes
            here = codes[(self._tree.level(keys).codes == number) & (codes >= 0)]
            known = self._inner[keys, number, below] = np.unique(here).tolist()
        return known

    def _spread(self, keys: Keys, number: int, below: Keys, group: Counts, parents: int) -> _Spread:
        """Parts over the domains of a narrower level, at the least price."""
        classes, need = tuple(n for n, _ in group), tuple(times for _, times in group)
        out = _Spread(NEVER, classes, need, parents)
        shape = tuple(times + 1 for times in need)
        if math.prod(shape) > _STATES:
            return self._in_turn(keys, number, below, out)
        table: Prices = np.full(shape, NEVER)
        table[(0,) * len(need)] = 0j
        for each in self._domains(keys, number, below):
            options, prices = self._options(below, each, out)
            if not options:
                continue
            now, pick = table.copy(), np.zeros(shape, dtype=np.int64)
            for n, (vector, price) in enumerate(zip(options, prices, strict=True)):
                to = tuple(slice(x, None) for x in vector)
                origin = tuple(slice(None, times + 1 - x) for x, times in zip(vector, need, strict=True))
                moved = table[origin] + price
                better = moved < now[to]
                now[to][better] = moved[better]
                pick[to][better] = n + 1
            table = now
            out.numbers.append(each)
            out.options.append(options)
            out.picks.append(pick)
        price = complex(table[need])
        out.price = NEVER if price.real >= NEVER.real else price
        return out

    def _options(self, below: Keys, number: int, of: _Spread) -> tuple[list[tuple[int, ...]], list[complex]]:
        """How many of each class a domain may have, and the price of that."""
        most = []
        for n, times in enumerate(of.need):
            one = [0] * len(of.need)
            one[n] = top = times
            while top and self._priced(below, number, of, one) is None:
                one[n] = top = top - 1
            most.append(top)
        options: list[tuple[int, ...]] = []
        prices: list[complex] = []
        for vector in product(*(range(top + 1) for top in most)):
            price = self._priced(below, number, of, vector) if any(vector) else None
            if price is not None and (below, number, _group(of.classes, vector)) not in self._bans:
                options.append(vector)
                prices.append(price)
        return options, prices

    def _in_turn(self, keys: Keys, number: int, below: Keys, out: _Spread) -> _Spread:
        """The same where parts are too different for a table: the largest first, each where it adds least."""
        domains = self._domains(keys, number, below)
        given = {each: [0] * len(out.need) for each in domains}
        price = dict.fromkeys(domains, 0j)
        order = sorted(range(len(out.need)), key=lambda n: -self._size(out.classes[n]))
        for n in (each for each in order for _ in range(out.need[each])):
            best: tuple[tuple[float, float], int] | None = None
            for each in domains:
                given[each][n] += 1
                more = self._priced(below, each, out, given[each])
                if more is not None and (below, each, _group(out.classes, given[each])) not in self._bans:
                    best = min(filter(None, (best, (rank(more - price[each]), each))))
                given[each][n] -= 1
            if best is None:
                return out
            given[best[1]][n] += 1
            price[best[1]] = self._priced(below, best[1], out, given[best[1]]) or 0j
        out.given = given
        out.price = sum(price.values(), 0j)
        return out

    def _priced(self, below: Keys, number: int, of: _Spread, vector: Sequence[int]) -> complex | None:
        """The price of so many of each class in a domain; None if they may not be there together."""
        kins = [self._kins[each] for each, x in zip(of.classes, vector, strict=True) if x]
        if any(kin.pin not in (None, number) or number in kin.barred for kin in kins):
            return None
        if sum(vector) > of.parents and any(kin.apart for kin in kins):
            return None
        group = _group(of.classes, vector)
        price = self._least(below, number, group, sum(vector)).price
        return price if price.real < NEVER.real else None

    # -- which part where ----------------------------------------------------------------------------------

    def _deal(
        self,
        branches: Sequence[Branch],
        keys: Keys,
        number: int,
        group: tuple[Counts, int],
        within: dict[Leaf, Labels],
        used: list[Ban],
    ) -> int:
        """Give each leaf the labels of its domain; returns how many parts are outside a level that they rather have."""
        best = self._least(keys, number, *group)
        here, inner, soft = self._laid_out(branches, keys)
        misses = 0
        if best.inside is not None:
            left, others = dict(best.inside), [*here, *(each for some in inner.values() for each in some)]
            for branch in soft:
                of = self._class(branch)
                inside = self._inside(branch) if left[of] else None
                left[of] -= inside is not None
                misses += 0 if inside is not None else len(branch.soft)
                others.append(inside or _narrowed(branch, branch.keys, ()))
            return misses + self._deal(others, keys, number, best.instead, within, used)
        labels = self._tree.labels(keys, number) if keys else ()
        for branch in here:
            if branch.leaf is not None:
                within[branch.leaf] = labels
        for below, some in inner.items():
            misses += self._dealt(best.spreads[below], below, some, within, used)
        return misses

    def _dealt(
        self, spread: _Spread, below: Keys, branches: Sequence[Branch], within: dict[Leaf, Labels], used: list[Ban]
    ) -> int:
        by_class: dict[int, list[Branch]] = {}
        for branch in branches:
            by_class.setdefault(self._class(branch), []).append(branch)
        shares = [*spread.shares()]
        dealt: dict[int, list[Branch]] = {number: [] for number, _ in shares}
        for at, of in enumerate(spread.classes):
            places = [number for number, vector in shares for _ in range(vector[at])]
            chosen = _dealt_apart(by_class[of], places) if self._kins[of].apart else by_class[of]
            for branch, number in zip(chosen, places, strict=True):
                dealt[number].append(branch)
        misses = 0
        for number, vector in shares:
            group = _group(spread.classes, vector)
            used.append((below, number, group))
            misses += self._deal(dealt[number], below, number, (group, sum(vector)), within, used)
        return misses

    def _laid_out(
        self, branches: Sequence[Branch], keys: Keys
    ) -> tuple[list[Branch], dict[Keys, list[Branch]], list[Branch]]:
        """As :meth:`_opened`, of the branches themselves."""
        here, inner, soft = [], dict[Keys, list[Branch]](), []
        stack = [*reversed(branches)]
        while stack:
            branch = stack.pop()
            if not self._size(self._class(branch)):
                continue
            if branch.keys != keys:
                inner.setdefault(branch.keys, []).append(branch)
            elif branch.soft:
                soft.append(branch)
            elif branch.leaf is not None:
                here.append(branch)
            else:
                stack.extend(reversed(branch.children))
        return here, inner, soft


def _counts(counter: Counter[int]) -> Counts:
    return tuple(sorted((each, times) for each, times in counter.items() if times))


def _dealt_apart(branches: Sequence[Branch], places: Sequence[int]) -> list[Branch]:
    """A branch for each of these places, no two siblings in the same if that is possible: the fullest place first takes
    one of each of those families that have most left.
    """
    left: dict[int, list[Branch]] = {}
    for branch in branches:
        left.setdefault(branch.family, []).append(branch)
    chosen: dict[int, list[Branch]] = {}
    for number, times in sorted(Counter(places).items(), key=lambda item: -item[1]):
        families = sorted((family for family in left if left[family]), key=lambda family: -len(left[family]))
        chosen[number] = [left[family].pop(0) for family in families[:times]]
        while len(chosen[number]) < times:
            chosen[number].append(next(some for some in left.values() if some).pop(0))
    return [chosen[number].pop(0) for number in places]


def _group(classes: Sequence[int], vector: Sequence[int]) -> Counts:
    return tuple((each, x) for each, x in zip(classes, vector, strict=True) if x)


def _narrowed(branch: Branch, keys: Keys, soft: tuple[Keys, ...]) -> Branch:
    """The branch in a domain of these keys, with all that is below it."""

    def inside(inner: Keys) -> Keys:
        return tuple(dict.fromkeys((*keys, *inner)))

    children = tuple(
        _narrowed(child, inside(child.keys), tuple(map(inside, child.soft))) if keys != branch.keys else child
        for child in branch.children
    )
    return msgspec.structs.replace(branch, keys=keys, soft=soft, apart=False, barred=frozenset(), children=children)
