"""Topology domains: the nodes that share a value of a node label, of which a gang asks for one.

A *level* is a set of label keys; its domains are the combinations of values that nodes have. A gang with required
keys only has one level. Each preferred key adds a narrower one, which is tried before and given up when need be.
Domains are counted first, all at once, by a bound that is never too low; only the promising ones are searched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.placement.placer import Want
from gangsched.core.preemption.harm import Floor
from gangsched.core.preemption.search import Choice
from gangsched.core.preemption.units import Units
from gangsched.core.state.podtable import PodClass
from gangsched.core.state.simulation import Restriction, Simulation
from gangsched.core.state.snapshot import Bools, Floats, Ints, Snapshot
from gangsched.messages import causes

OUTSIDE = causes.OUTSIDE_TOPOLOGY_DOMAIN
#: Domains of one level in which a gang is placed without evictions before the rest is left out.
MAX_PLACEMENTS = 64
#: Domains of one level in which victims are searched before the rest is left out.
MAX_SEARCHES = 16
#: Priorities that are distinguished when domains are ranked for evictions.
_MAX_STEPS = 16
#: Below every priority: nothing need be evicted as far as counting can tell.
_NOBODY = -(2**62)


class Domain(msgspec.Struct, frozen=True, eq=False):
    """One domain: the index of its level and its number there, ``key=value``, and what it means for a simulation.

    The whole cluster is a domain too, without a label and without a restriction.
    """

    level: int
    number: int
    label: str
    restriction: Restriction | None


class Level:
    """The domains of some label keys together, in the order of their values.

    ``codes`` is ``(N,)``: the domain of each node, -1 where a key is missing. ``names`` are the values, by domain.
    ``only`` is the domain that members are bound in already, or None. Without keys, the cluster is one domain.
    """

    def __init__(self, snapshot: Snapshot, keys: tuple[str, ...]) -> None:
        self.keys = keys
        self.codes: Ints = np.zeros(snapshot.size, dtype=np.int64)
        self.names: list[tuple[str, ...]] = [()]
        self.only: int | None = None
        if keys:
            self._number(snapshot)

    def _number(self, snapshot: Snapshot) -> None:
        columns = [snapshot.columns.label(key) for key in self.keys]
        values = np.array([column.codes for column in columns], dtype=np.int64)
        labelled = np.flatnonzero((values >= 0).all(axis=0))
        combined = values[0, labelled]
        for n in range(1, len(columns)):
            combined = combined * (len(columns[n].values) + 1) + values[n, labelled]
        _, first, where = np.unique(combined, return_index=True, return_inverse=True)
        at = labelled[first]
        names = [tuple(c.values[v] for c, v in zip(columns, values[:, row].tolist(), strict=True)) for row in at]
        order = sorted(range(len(names)), key=names.__getitem__)
        rank = np.empty(len(names), dtype=np.int64)
        rank[order] = np.arange(len(names))
        self.names = [names[n] for n in order]
        self.codes = np.full(snapshot.size, -1, dtype=np.int64)
        self.codes[labelled] = rank[where.reshape(-1)]

    def common(self, rows: Sequence[int]) -> int | None:
        """The domain that all these rows are in, and that is open; None when there is none."""
        found = {int(self.codes[row]) for row in rows}
        if len(found) != 1 or found == {-1} or (self.only is not None and found != {self.only}):
            return None
        return found.pop()

    def label(self, number: int) -> str:
        """``key=value``, several joined by commas."""
        return ",".join(f"{k}={v}" for k, v in zip(self.keys, self.names[number], strict=True))

    def restriction(self, number: int | None) -> Restriction | None:
        """The restriction that the domain means for a simulation (None: no domain at all)."""
        if not self.keys:
            return None
        allowed = self.codes == number if number is not None else np.zeros(len(self.codes), dtype=np.bool_)
        missing = self.codes < 0
        refused = (_unlabelled(self.keys), missing), (OUTSIDE, ~allowed & ~missing)
        return Restriction(allowed, refused)


class Capacity(NamedTuple):
    """Per domain, ``(D,)``: pending members that might find room there at most, how many times all of them would,
    and whether that is enough. Counted by resources and by what nodes refuse; never too low.
    """

    members: Floats
    room: Floats
    enough: Bools


class DomainDemand:
    """The requests of the pending members of one or several gangs, for counting. ``sim`` is not restricted."""

    def __init__(self, pipeline: Pipeline, sim: Simulation, wants: Sequence[Want]) -> None:
        classes: dict[int, PodClass] = {}
        of_gang: list[dict[int, int]] = []
        for want in wants:
            counts: dict[int, int] = {}
            for pod in want.members:
                found = sim.snapshot.class_of(pod)
                classes[found.ident] = found
                counts[found.ident] = counts.get(found.ident, 0) + 1
            of_gang.append(counts)
        self._classes = [(*sim.snapshot.vector(c.shape), pipeline.static_mask(c, sim)) for c in classes.values()]
        self._counts = np.array([[counts.get(i, 0) for i in classes] for counts in of_gang], dtype=np.float64)
        self._needed = np.array([want.required for want in wants], dtype=np.float64)

    def capacity(self, level: Level, free: Floats) -> Capacity:
        """The number of members that each domain of a level could take; ``free`` is ``(R, N)``."""
        if not self._classes:
            nothing = np.zeros(len(level.names))
            return Capacity(nothing, nothing, nothing > 0)
        inside = np.flatnonzero(level.codes >= 0)
        codes = level.codes[inside]
        slots: Floats = np.zeros((len(self._classes), len(level.names)))
        for n, (index, amounts, mask) in enumerate(self._classes):
            here = np.floor((free[index][:, inside] / amounts[:, None]).min(axis=0))
            slots[n] = np.bincount(codes, weights=np.maximum(here, 0.0) * mask[inside], minlength=len(level.names))
        asked = self._counts.sum(axis=0)
        members = np.minimum(slots, asked[:, None]).sum(axis=0)
        enough = members >= max(1.0, float(self._needed.sum()))
        for counts, needed in zip(self._counts, self._needed, strict=True):
            enough &= np.minimum(slots, counts[:, None]).sum(axis=0) >= needed
        return Capacity(members, (slots / asked[:, None]).min(axis=0), enough)

    @property
    def needed(self) -> float:
        """Members without which nothing starts."""
        return float(self._needed.sum())


class Candidate(NamedTuple):
    """A domain to search victims in: there, a pod of at least ``priority`` has to leave."""

    priority: int
    domain: Domain


class Ranked(NamedTuple):
    """Domains to search, the most promising first; ``rest`` is the priority of the best one that was left out."""

    candidates: list[Candidate]
    rest: int | None


class Topology:
    """What a gang, or a GangGroup as one, asks of the nodes as they are now, in a snapshot that is settled.

    ``constraints`` are (label key, required?), outermost first. ``bound`` are ``(member, row)`` of the members that
    have a node. ``levels`` go from the narrowest to what is required; a level of preferred keys is left out when
    bound members are not in one domain of it. ``problem`` says in words why no domain at all can be used.
    """

    def __init__(
        self, snapshot: Snapshot, constraints: Sequence[tuple[str, bool]], bound: Sequence[tuple[str, int]]
    ) -> None:
        self._bound = [row for _, row in bound]
        self.problem = ""
        self.levels: list[Level] = []
        sets = _key_sets(constraints)
        for keys in sets:
            level = Level(snapshot, keys)
            required = keys == sets[-1]
            if self._bound:
                level.only = level.common(self._bound)
            if level.only is None and self._bound and keys:
                if required:
                    self.problem = split_over(level, bound)
            elif not level.names and required:
                self.problem = causes.no_node_has_label(keys=_keys(keys))
            if required or (level.names and (level.only is not None or not self._bound)):
                self.levels.append(level)
        #: False when the gang asks for nothing.
        self.constrained = len(self.levels) > 1 or bool(self.levels[-1].keys)

    def domain(self, level: int, number: int) -> Domain:
        """One domain of a level."""
        found = self.levels[level]
        return Domain(level, number, found.label(number), found.restriction(number))

    @property
    def nowhere(self) -> Domain:
        """No node at all, because of :attr:`problem`; the whole cluster for a gang that asks for nothing."""
        return Domain(len(self.levels) - 1, -1, "", self.levels[-1].restriction(None))

    def home(self, rows: Sequence[int]) -> Domain | None:
        """The narrowest domain that holds all these rows."""
        for n, level in enumerate(self.levels):
            number = level.common(rows) if rows else None
            if number is not None:
                return self.domain(n, number)
        return None

    def label_of(self, rows: Sequence[int]) -> str | None:
        """The label of the narrowest domain that holds these rows and the bound members."""
        found = self.home([*rows, *self._bound])
        return found.label or None if found is not None else None

    def allows(self, rows: Sequence[int]) -> bool:
        """Return True if these rows, with the bound members, satisfy what is required."""
        return not self.problem and (not rows or self.levels[-1].common([*rows, *self._bound]) is not None)

    def around(self, domain: Domain | None) -> Iterator[Domain]:
        """The domain, then the wider ones that it lies in; for None the whole cluster."""
        if domain is None or not self.constrained:
            yield self.domain(len(self.levels) - 1, 0)
            return
        yield domain
        inside = np.flatnonzero(self.levels[domain.level].codes == domain.number)
        for n in range(domain.level + 1, len(self.levels)):
            yield self.domain(n, int(self.levels[n].codes[inside[0]]) if len(inside) else 0)

    def packed(self, level: int, demand: DomainDemand, free: Floats) -> tuple[list[Domain], bool]:
        """Domains of a level that might hold the gang, the best packed first, and whether some were left out.

        First those that take most of the pending members, then those with least room beyond that, then the smallest.
        """
        found = self.levels[level]
        if not found.keys:
            return [self.domain(level, 0)], False
        capacity = demand.capacity(found, free)
        numbers = np.flatnonzero(capacity.enough & self._open(found))
        sizes = np.bincount(found.codes[found.codes >= 0], minlength=len(found.names))[numbers]
        order = numbers[np.lexsort((sizes, np.round(capacity.room[numbers], 9), -capacity.members[numbers]))]
        return [self.domain(level, n) for n in order[:MAX_PLACEMENTS].tolist()], len(order) > MAX_PLACEMENTS

    def nearest(self, demand: DomainDemand, free: Floats) -> Domain:
        """Of the domains that are required, the one that comes nearest to holding the gang."""
        level = self.levels[-1]
        if not level.keys:
            return self.domain(len(self.levels) - 1, 0)
        capacity = demand.capacity(level, free)
        numbers = np.flatnonzero(self._open(level))
        best = numbers[np.lexsort((-capacity.room[numbers], -capacity.members[numbers]))[0]]
        return self.domain(len(self.levels) - 1, int(best))

    def evictable(
        self, level: int, demand: DomainDemand, free: Floats, slots: Ints, snapshot: Snapshot, price: PriceByDomain
    ) -> Ranked:
        """Domains of a level that might hold the gang when pods in ``slots`` leave, the least harmful first as far as
        room alone can tell. They are ordered by their price, and by the lowest priority up to which all pods have to
        leave before there is room enough.
        """
        found = self.levels[level]
        if not found.keys:
            return Ranked([Candidate(_NOBODY, self.domain(level, 0))], None)
        free = free.copy()
        capacity = demand.capacity(found, free)
        priority = np.full(len(found.names), _NOBODY)
        enough = capacity.enough.copy()
        for group, lowest in _steps(snapshot.table.priority[slots]):
            _add(free, slots[group], snapshot)
            capacity = demand.capacity(found, free)
            new = capacity.enough & ~enough
            priority[new] = lowest
            enough |= new
        numbers = np.flatnonzero(enough & self._open(found))
        prices = price(found.codes, len(found.names))[numbers] if len(numbers) > 1 else np.zeros(len(numbers))
        order = numbers[np.lexsort((numbers, priority[numbers], prices.imag, prices.real))]
        chosen = [Candidate(int(priority[n]), self.domain(level, n)) for n in order[:MAX_SEARCHES].tolist()]
        return Ranked(chosen, int(priority[order[MAX_SEARCHES]]) if len(order) > MAX_SEARCHES else None)

    @property
    def within(self) -> Bools:
        """``(N,)``: nodes that are in some domain that the gang may use."""
        level = self.levels[-1]
        return level.codes >= 0 if level.only is None else level.codes == level.only

    def _open(self, level: Level) -> Bools:
        out = np.ones(len(level.names), dtype=np.bool_)
        if level.only is not None:
            out[:] = False
            out[level.only] = True
        return out

    def sentence(self, domain: Domain) -> str:
        """A note about the topology beside the reasons of the nodes."""
        level = self.levels[-1]
        if self.problem or not level.keys:
            return self.problem
        if level.only is not None:
            return causes.bound_in_domain(domain=level.label(level.only))
        count = len(level.names)
        best = (
            causes.nearest_of_domains(count=count, nearest=domain.label)
            if count > 1
            else causes.only_domain(domain=domain.label)
        )
        return causes.one_domain_needed(keys=_keys(level.keys), best=best)


class DomainPlan(NamedTuple):
    """The least harmful plan over several domains; ``steps`` and ``stopped`` are those of all searches together."""

    domain: Domain
    units: Units
    choice: Choice


#: The least price of places in each domain, ``(domains,)``, from a node's domain ``(N,)`` (-1: none) and their number.
PriceByDomain = Callable[[Ints, int], npt.NDArray[np.complex128]]
#: Searches one domain with so many steps: the units, the choice if there is one, and the steps spent.
SearchIn = Callable[[Domain, int], tuple[Units, Choice | None, int]]


def least_harmful(levels: Sequence[Ranked], search: SearchIn, max_steps: int) -> tuple[DomainPlan | None, bool]:
    """The plan with the least harm, or one in a narrower domain that does no more harm (names aside). The second says
    whether a domain was left out that might be better.

    ``levels`` come from what is required to the narrowest. The searches share ``max_steps``. Domains in which a pod of
    higher priority would be evicted than in a plan that is known are not searched.
    """
    left = max_steps
    waiting = sum(len(level.candidates) for level in levels)
    stopped = left_out = unknown = False
    best: DomainPlan | None = None
    floors: list[Floor] = []
    for turn, level in enumerate(levels):
        found: DomainPlan | None = None
        for candidate in level.candidates:
            waiting -= 1
            if _is_worse(candidate.priority, found or best):
                continue
            # A level of one domain is the whole cluster: it deserves more than an equal share.
            share = left // 2 if len(level.candidates) == 1 and waiting else left // (waiting + 1)
            units, choice, spent = search(candidate.domain, max(1, share))
            left = max(0, left - spent)
            if choice is None:
                unknown |= turn == 0 and units.unproven
                continue
            stopped |= choice.stopped
            if turn == 0 and choice.floor is not None:
                floors.append(choice.floor)
            if found is None or choice.harm < found.choice.harm:
                found = DomainPlan(candidate.domain, units, choice)
        left_out |= level.rest is not None and not _is_worse(level.rest, found or best)
        unknown |= turn == 0 and left_out
        if found is None and best is None:
            break  # what does not fit in the wider domains does not fit in a part of one
        if best is None or (found is not None and found.choice.harm[:-1] <= best.choice.harm[:-1]):
            best = found
    if best is None:
        return None, left_out
    # What is required is one of the domains of the first level: the least of all of them bounds the harm.
    floor = Floor(0, ()) if unknown and best.choice.floor is not None else min(floors, default=None)
    choice = msgspec.structs.replace(best.choice, steps=max_steps - left, stopped=stopped, floor=floor)
    return DomainPlan(best.domain, best.units, choice), left_out


def _is_worse(priority: int, known: DomainPlan | None) -> bool:
    """A pod of this priority leaving is more harm than all of a known plan."""
    if known is None or known.choice.harm.beyond_budget:
        return False
    levels = known.choice.harm.levels
    return priority > (levels[0][0] if levels else _NOBODY)


def all_as_nominated(wishes: Mapping[str, int], rows: Mapping[str, int]) -> bool:
    """Return True if every member (UID) went to the row that it is nominated to."""
    return all(wishes.get(uid) == row for uid, row in rows.items())


def _key_sets(constraints: Sequence[tuple[str, bool]]) -> list[tuple[str, ...]]:
    """The label keys of each level, the narrowest first: preferred keys are given up from the innermost outwards."""
    out = []
    for depth in range(len(constraints), -1, -1):
        keys = (key for n, (key, required) in enumerate(constraints) if required or n < depth)
        out.append(tuple(dict.fromkeys(keys)))
    return list(dict.fromkeys(out))


def _steps(priorities: Ints) -> Iterator[tuple[Ints, int]]:
    """Positions by priority, lowest first, in a bounded number of groups, each with the lowest priority in it."""
    order = np.argsort(priorities, kind="stable")
    distinct, starts = np.unique(priorities[order], return_index=True)
    groups = np.array_split(np.arange(len(distinct)), min(_MAX_STEPS, len(distinct))) if len(distinct) else []
    ends = np.append(starts, len(order))
    for group in groups:
        yield order[ends[group[0]] : ends[group[-1] + 1]], int(distinct[group[0]])


def _add(free: Floats, slots: Ints, snapshot: Snapshot) -> None:
    """These pods leave."""
    table = snapshot.table
    amounts = snapshot.shape_matrix()[table.shape[slots]]
    for i in np.flatnonzero(amounts.any(axis=0)).tolist():
        free[i] += np.bincount(table.row[slots], weights=amounts[:, i], minlength=free.shape[1])


def split_over(level: Level, bound: Sequence[tuple[str, int]]) -> str:
    """Why members that are bound already leave no domain for the others."""
    without = sorted(name for name, row in bound if level.codes[row] < 0)
    if without:
        return causes.bound_outside_domains(pod=without[0], keys=_keys(level.keys))
    places: dict[int, str] = {}
    for name, row in sorted(bound):
        places.setdefault(int(level.codes[row]), name)
    listed = ", ".join(f"{level.label(n)} ({places[n]})" for n in sorted(places)[:5])
    return causes.bound_in_several_domains(count=len(places), domains=listed)


def _keys(keys: Sequence[str]) -> str:
    return ", ".join(keys)


def _unlabelled(keys: Sequence[str]) -> str:
    return causes.label_missing(keys=_keys(keys))
