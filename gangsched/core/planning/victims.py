"""The victims of one gang: the least harmful choice, or, where quota decides, the first in its order. It also finds the
pods, terminating or not, that have to be gone before the members fit on their nodes.

There may be a cap on how many victims one decision has. A choice of the least harm that has too many is searched again
with pods of different priority alike: below a threshold and above it. With a threshold above all, that is the choice of
fewest pods; the lower it is, the more the victims' priority counts. What is found is where the search for the least
harm within the cap begins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import NamedTuple

import msgspec

from gangsched.core.arrays import Bools
from gangsched.core.decision import Awaited
from gangsched.core.framework.pipeline import Pipeline
from gangsched.core.ledger.condemned import Condemned
from gangsched.core.options import Options
from gangsched.core.planning.context import SchedulingContext
from gangsched.core.planning.part_costs import VictimPrices
from gangsched.core.planning.part_table import Candidate, PartTable
from gangsched.core.planning.part_tree import Assignment
from gangsched.core.planning.parts import Parts
from gangsched.core.planning.topology import MAX_SEARCHES, Domain, least_harmful
from gangsched.core.preemption import explain
from gangsched.core.preemption.blocks import Owners
from gangsched.core.preemption.candidates import rank
from gangsched.core.preemption.demand import demands_of
from gangsched.core.preemption.fit import fit_for
from gangsched.core.preemption.harm import Budgets, Floor, gap, share, unsaved, work_lost
from gangsched.core.preemption.loop_guard import LoopGuard
from gangsched.core.preemption.removal import budgets_of, by_suspension
from gangsched.core.preemption.search import NO_LIMITS, Choice, Limits, Search
from gangsched.core.preemption.units import Units
from gangsched.core.preemption.workloads import WorkloadsOnNodes, add_workload, is_overdue
from gangsched.core.quota.assignment import QuotaAssignment
from gangsched.core.quota.preemption import Taken
from gangsched.core.quota.tree import Indexed
from gangsched.core.quota.workloads import Holder
from gangsched.core.state.refused_removals import RefusedRemoval
from gangsched.core.state.simulation import Simulation
from gangsched.core.world.world import World
from gangsched.messages import causes
from gangsched.messages.text import pluralize
from gangsched.model.records import GangId, Pod


class Cap(NamedTuple):
    """``most`` victims are allowed, because of this ``setting``."""

    most: int
    setting: str


def cap_of(options: Options, required: int) -> Cap | None:
    """The most victims for gangs that are decided together and need so many members; None if there is no cap."""
    found = []
    if options.max_victims:
        found.append(Cap(options.max_victims, "preemption.maxVictims"))
    if options.max_victims_per_member:
        most = math.floor(options.max_victims_per_member * required + 1e-9)
        found.append(Cap(most, "preemption.maxVictimsPerMember"))
    return min(found, default=None)


class PartsPlan(NamedTuple):
    """A plan with these parts in these domains."""

    parts: Parts
    assignment: Assignment
    units: Units
    choice: Choice

    @property
    def order(self) -> tuple[object, ...]:
        """The smaller is the better plan: levels that parts rather have count after harm, and names last."""
        return self.choice.harm[:-1], self.assignment.misses, self.choice.harm.names


def _floor_of(searches: Sequence[tuple[Parts, Search]]) -> Floor:
    """The least harm that any assignment of these parts does."""
    out = []
    for parts, search in searches:
        lowest = next(PartTable(parts.tree, VictimPrices(search, lower=True)).cheapest(1), None)
        floor = search.floor_of(lowest.price) if lowest is not None else None
        if lowest is not None and floor is None:
            return _UNKNOWN
        out += [floor] if floor is not None else []
    return min(out, default=_UNKNOWN)


#: So many units that leave whole are taken to be gone, when assignments are looked for.
MAX_UNITS = 8
#: So many assignments are tried after the best one, and more as long as these take fewer steps.
MAX_IN_VAIN, STEPS_IN_VAIN = 4, 1_500
#: Nothing is known of how little harm is possible.
_UNKNOWN = Floor(0, ())


class VictimsOf:
    """The search for one gang's victims; ``context`` is where its members could go, ``budgets`` what it may disrupt."""

    def __init__(self, context: SchedulingContext) -> None:
        self._context = context
        self._world = context.world
        self._gate = context.gate if isinstance(context.gate, QuotaAssignment) else None
        self.budgets = budgets_of(context.world, context.ledger.condemned, context.group)
        self._unsaved = unsaved(context.world, context.now, always=context.options.harm_by_work)
        self._cap = cap_of(context.options, context.required)
        self._smallest: list[int] = []  # choices found that have more victims than that
        #: By the slots of a choice what of the workloads that hold quota leaves with it.
        self._displaced: dict[frozenset[int], list[tuple[Holder, Indexed]]] = {}

    def search(self) -> tuple[Units, Choice | None]:
        """Look for victims, in every domain that may turn out to be the best. Without a choice, the units are all that
        may be taken anywhere. Workloads that are displaced are noted in the gate.
        """
        context = self._context
        if context.parts is not None:
            units, choice = self._in_parts()
        elif context.topology.constrained:
            units, choice = self._in_domains()
        else:
            units, choice, _ = self._here(context.options.search_steps)
        if choice is None:
            units.over_cap = min(self._smallest, default=0)
        if choice is not None and self._gate is not None:
            displaced = self._displaced[choice.taken]
            self._gate.freed = [(holder.node, amounts) for holder, amounts in displaced]
            evicted = {holder.admission.workload.uid for holder, _ in displaced if holder.evicted}
            self._gate.awaited = tuple(_leaving_anyway(self._world, context.ledger.condemned, evicted))
        return units, choice

    def _in_parts(self) -> tuple[Units, Choice | None]:
        """Look for victims with the parts in the domains that cost least, then in others, as long as these may be
        better; and so with each choice of parts.
        """
        context, steps = self._context, self._context.options.search_steps
        best, searches, left = None, list[tuple[Parts, Search]](), steps
        everything: Units | None = None
        for parts in context.choices:
            context.choose(parts)
            sim = context.planned()
            units = self._candidates(context.usable(sim))
            everything = everything or units
            if units.empty:
                continue
            search = self._least_harm(units, sim, 0)
            searches.append((parts, search))
            best, left = self._assigned(parts, search, best, left)
            everything.unproven |= units.unproven
        if best is None:
            return everything if everything is not None else self._candidates(context.usable(context.planned())), None
        context.choose(best.parts)
        context.assign(best.assignment)
        floor = None if best.choice.floor is None else _floor_of(searches)
        return best.units, msgspec.structs.replace(best.choice, steps=steps - left, floor=floor)

    def _assigned(
        self, parts: Parts, search: Search, best: PartsPlan | None, left: int
    ) -> tuple[PartsPlan | None, int]:
        """The best plan with these parts, if it is better; and how many steps are left."""
        context, tried, in_vain, since = self._context, 0, 0, left
        for candidate in self._in_order_of_price(parts, search):
            floor = search.floor_of(candidate.price)
            if best is not None and floor is not None and gap(best.choice.harm, floor) is None:
                break
            if in_vain >= MAX_IN_VAIN and since - left > STEPS_IN_VAIN:
                context.left_out = True
                break
            tried += 1
            context.assign(candidate.assignment)
            found, choice, spent = self._here(max(1, left // 2))
            left = max(0, left - spent)
            plan = PartsPlan(parts, candidate.assignment, found, choice) if choice is not None else None
            if plan is not None and (best is None or plan.order < best.order):
                best, in_vain, since = plan, 0, left
            elif best is not None:
                in_vain += 1
            else:
                search.units.unproven = True
        context.left_out |= tried == MAX_SEARCHES
        return best, left

    @staticmethod
    def _in_order_of_price(parts: Parts, search: Search) -> Iterator[Candidate]:
        """Assignments of these parts, the cheapest first. A unit that leaves whole empties several domains: what else
        leaves is looked for with each of the largest of these gone, too.
        """

        def with_unit(number: int, price: complex) -> Iterator[Candidate]:
            table = PartTable(parts.tree, VictimPrices(search, gone=number))
            return (each._replace(price=each.price + price) for each in table.cheapest(1))

        found = [PartTable(parts.tree, VictimPrices(search)).cheapest(MAX_SEARCHES)]
        codes = parts.tree.level(parts.narrowest).codes
        found += [with_unit(number, price) for number, price in search.spanning(codes, MAX_UNITS)]
        return islice(merge(*found, key=lambda each: rank(each.price)), MAX_SEARCHES)

    def _candidates(self, usable: Bools) -> Units:
        """All that may leave on these nodes, where quota decides that too."""
        units = self._units(usable)
        if self._gate is not None:
            managed = self._gate.managed
            eligible = managed.quota.eligible(self._gate.workload, self._gate.assignment)
            for uid, reason in eligible.items():
                if not is_overdue(managed, uid, self._world.sightings.overdue):
                    add_workload(units, managed.gangs_of(uid), reason, uid)
        return units

    def _in_domains(self) -> tuple[Units, Choice | None]:
        context, topology = self._context, self._context.topology
        context.domain = None
        sim = context.planned()
        units = self._candidates(context.usable(sim) & topology.within)
        if units.empty:
            return units, None
        demand, slots = context.demand(sim), units.everything()
        price = self._least_harm(units, sim, 0).price_by_domain
        widest_first = reversed(range(len(topology.levels)))
        ranked = [topology.evictable(n, demand, sim.free, slots, sim.snapshot, price) for n in widest_first]

        def search(domain: Domain, steps: int) -> tuple[Units, Choice | None, int]:
            context.domain = domain
            return self._here(steps)

        plan, left_out = least_harmful(ranked, search, context.options.search_steps)
        context.left_out |= left_out
        if plan is None:
            return units, None
        context.domain = plan.domain
        return plan.units, plan.choice

    def _here(self, max_steps: int) -> tuple[Units, Choice | None, int]:
        """Look for victims in the present domain; the last is the number of steps spent."""
        found = self._in_this_domain(max_steps)
        self._context.watchdog.steps += found[2]
        return found

    def _in_this_domain(self, max_steps: int) -> tuple[Units, Choice | None, int]:
        base = self._context.planned()
        units = self._units(self._context.usable(base))
        if self._gate is not None:
            return self._with_quota(self._gate, units, base, max_steps)
        if units.empty:
            return units, None, 0
        search = self._least_harm(units, base, max_steps)
        choice, spent = search.run(), search.spent
        if choice is not None and self._cap is not None and len(choice.taken) > self._cap.most:
            choice, more = self._within_cap(units, choice, self._cap.most, max_steps - spent)
            spent += more
        self._context.left_out |= units.cut_short
        return units, choice, spent

    def _within_cap(self, units: Units, choice: Choice, most: int, max_steps: int) -> tuple[Choice | None, int]:
        """The least harmful choice of at most so many victims that was found, where this one has more; and the steps
        spent.
        """
        spent = 0
        sizes = [len(choice.taken)]
        found: list[Choice] = []

        def search_within(limits: Limits, budgets: Budgets = self.budgets) -> Choice | None:
            nonlocal spent
            search = self._least_harm(units, self._context.planned(), max(0, max_steps - spent), budgets, limits)
            choice = search.run()
            spent += search.spent
            if choice is not None:
                sizes.append(len(choice.taken))
                found.extend([choice] if len(choice.taken) <= most else [])
            return choice

        search_within(Limits(bands=()))
        if not found and not self._context.options.strict_budgets:
            search_within(Limits(bands=()), Budgets(()))
        if not found:
            self._smallest.append(min(sizes))
            return None, spent
        levels = sorted(
            {*units.snapshot.table.priority[units.everything()].tolist(), *(b.priority for b in units.blocks)}
        )
        low, high = 0, len(levels) - 1
        while low < high:
            middle, before = (low + high) // 2, len(found)
            search_within(Limits(bands=(levels[middle],)))
            if len(found) > before:
                high = middle
            else:
                low = middle + 1
        return search_within(Limits(most=most, known=tuple(found))), spent

    def _least_harm(
        self,
        units: Units,
        sim: Simulation,
        max_steps: int,
        budgets: Budgets | None = None,
        limits: Limits = NO_LIMITS,
    ) -> Search:
        """The search among these units, not yet begun."""
        context = self._context
        return Search(
            units,
            sim,
            context.placer,
            context.wants,
            self.budgets if budgets is None else budgets,
            context.cluster(),
            context.now,
            max_steps,
            context.watchdog,
            strict=context.options.strict_budgets,
            limits=limits,
        )

    @property
    def over_cap(self) -> str:
        """Why there was no choice, if it is for the number of victims alone."""
        if self._cap is None or not self._smallest:
            return ""
        return causes.no_choice_of_at_most(
            victims=pluralize(self._cap.most, "victim"), setting=self._cap.setting, smallest=min(self._smallest)
        )

    # -- where quota decides -------------------------------------------------------------------------------

    def _with_quota(
        self, gate: QuotaAssignment, units: Units, base: Simulation, max_steps: int
    ) -> tuple[Units, Choice | None, int]:
        """In the order of the queue rules, without those that exceed disruption budgets, and only if that is not enough
        with them.
        """
        if self.budgets:
            found = self._in_order(gate, units, base, max_steps, within_budgets=True)
            if found[1] is not None:
                return found
            base = self._context.planned()
        return self._in_order(gate, units, base, max_steps, within_budgets=False)

    def _in_order(
        self, gate: QuotaAssignment, units: Units, base: Simulation, max_steps: int, *, within_budgets: bool
    ) -> tuple[Units, Choice | None, int]:
        """The first in the order of the queue rules. As long as it has more victims than there may be, the one with the
        least room for each of its pods is left out of the order.
        """
        context, world, spent = self._context, self._world, 0
        left_out: set[tuple[int, ...]] = set()
        while True:
            nodes = self._nodes(gate, units, base, max_steps - spent, left_out, within_budgets=within_budgets)
            choice, victims = self._first(gate, units, nodes)
            spent += nodes.steps
            if choice is None or self._cap is None:
                return units, choice, spent
            named = explain.victims(units, choice, self.budgets, context.options)
            condemned, options = context.ledger.condemned, context.options
            count = len(by_suspension(named, world, condemned, options, context.priority, self.budgets))
            if count <= self._cap.most:
                return units, choice, spent
            self._smallest.append(count)
            left_out.add(min((v.target.slots for v in victims if v.target.slots), key=self._room_for_each))
            base = context.planned()

    def _room_for_each(self, slots: Collection[int]) -> tuple[float, int]:
        """Share of the cluster that each of these pods requests on average; and how few they are."""
        pods, cluster = self._world.snapshot.table.pods, self._context.cluster()
        total = sum(share(pod, cluster) for s in slots if (pod := pods[s]) is not None)
        return total / max(1, len(slots)), -len(slots)

    def _nodes(
        self,
        gate: QuotaAssignment,
        units: Units,
        base: Simulation,
        max_steps: int,
        left_out: Collection[tuple[int, ...]],
        *,
        within_budgets: bool,
    ) -> WorkloadsOnNodes:
        context = self._context
        demand = demands_of(base, context.placer.pipeline, context.wants)[0]
        return WorkloadsOnNodes(
            units,
            fit_for(base, context.placer, context.wants, demand),
            self.budgets,
            max_steps,
            context.watchdog,
            gate.managed,
            self._world.sightings.overdue,
            work_lost(units.snapshot, context.cluster(), context.now, self._unsaved),
            left_out,
            within_budgets=within_budgets,
        )

    def _first(
        self, gate: QuotaAssignment, units: Units, nodes: WorkloadsOnNodes
    ) -> tuple[Choice | None, Sequence[Taken]]:
        context = self._context
        victims = gate.managed.quota.victims(gate.workload, gate.assignment, nodes)
        if victims is None:
            units.cut_short = nodes.stopped
            context.left_out |= nodes.stopped
            return None, ()
        taken = frozenset(slot for each in victims for slot in each.target.slots)
        harm = nodes.harm(victims, context.cluster(), context.now)
        choice = Choice(taken, harm, nodes.steps, nodes.stopped, nodes.fit.rows())
        if context.options.strict_budgets and choice.harm.beyond_budget:
            units.over_budgets = self.budgets.exceeded(map(units.pod, choice.taken))
            return None, ()
        targets = (each.target for each in victims)
        self._displaced[taken] = [(t.holder, t.amounts) for t in targets if t.holder is not None]
        return choice, victims

    # -- candidates ----------------------------------------------------------------------------------------

    def _units(self, usable: Bools) -> Units:
        """The units that may be taken, except those for which quota decides that."""
        context, world = self._context, self._world
        queued: Collection[GangId] = self._gate.managed.holding() if self._gate is not None else ()
        condemned = frozenset(map(int, context.condemned() if context.ledger.condemned.records else ()))
        limit, guard = context.options.protect_after_evictions, None
        if self._gate is not None:
            guard = LoopGuard(world, self._gate, context.priority, limit, context.now)
        return Units(
            world.snapshot,
            world.membership,
            context.options,
            frozenset(context.gangs),
            context.priority,
            usable,
            self._unbreakable() | self._slow(),
            frozenset(context.ledger.binding),
            context.patience,
            context.now,
            queued,
            condemned,
            Owners(world, condemned) if world.jobs else None,
            self._unsaved,
            guard,
            self._refused(),
        )

    def _refused(self) -> dict[int, RefusedRemoval]:
        """By slot, the pods of which the API server has refused the removal lately."""
        slots = self._world.snapshot.table.slot_of
        found = self._world.refused_removals.at(self._context.now)
        return {slots[uid]: each for uid, each in found.items() if uid in slots}

    def _unbreakable(self) -> frozenset[int]:
        """In strict mode: slots of lower-priority pods that their budgets do not let go."""
        if not self._context.options.strict_budgets or not self.budgets:
            return frozenset()
        table = self._world.snapshot.table
        lower = [p for p in table.pods if p is not None and p.live and p.priority < self._context.priority]
        return frozenset(table.slot_of[uid] for uid in self.budgets.unbreakable(lower))

    def _slow(self) -> frozenset[int]:
        """Slots of the pods that would take too long to leave, where these are to be spared."""
        asked, world = self._context.asked, self._world
        if not asked.spare_slow:
            return frozenset()
        table = world.snapshot.table
        slow = (p.uid for p in table.pods if p is not None and p.live and world.leaves_by(p) > asked.wait_until)
        return frozenset(table.slot_of[uid] for uid in slow)


def _leaving_anyway(world: World, condemned: Condemned, uids: Iterable[str]) -> Iterator[Awaited]:
    """The pods of these workloads (UIDs) that are on their way out already."""
    for uid in sorted(uids):
        for pod in world.managed.pods_of(uid):
            if pod.node and (pod.deleting_since is not None or pod.uid in condemned):
                yield Awaited(pod.key, pod.node, pod.uid)


def awaited(
    sim: Simulation, pipeline: Pipeline, members: Sequence[tuple[int, Pod]], leaving: Container[int]
) -> tuple[Awaited, ...]:
    """Return which of the terminating pods (slots) have to be gone. Members and simulation are as in :func:`needed`."""
    table, nodes = sim.snapshot.table, sim.snapshot.nodes
    found = needed(sim, pipeline, members, lambda pod: table.slot_of[pod.uid] in leaving)
    return tuple(Awaited(p.key, nodes[int(table.row[table.slot_of[p.uid]])].name, p.uid) for p in found)


def needed(
    sim: Simulation,
    pipeline: Pipeline,
    members: Sequence[tuple[int, Pod]],
    might_go: Callable[[Pod], bool],
    most: float = math.inf,
) -> list[Pod]:
    """Of the pods that ``might_go``, those that have to: a smallest set by name, node by node, then of pods elsewhere
    whose terms (or those of the members) reach so far; a part of it when those of a node make it ``most`` or more.

    ``members`` are those to be placed, ``(row, pod)`` in the order in which they were. The simulation is left with
    these pods lifted.
    """
    by_row: dict[int, list[Pod]] = {}
    for row, pod in members:
        by_row.setdefault(row, []).append(pod)
    out = _on_their_nodes(sim, pipeline, by_row, might_go, most)
    if len(out) >= most:
        return out
    classes = {c.ident: c for c in (sim.snapshot.class_of(pod) for _, pod in members)}
    if not all(pipeline.only_counts(c, sim) for c in classes.values()) and not _all_hold(sim, pipeline, members):
        out += _elsewhere(sim, pipeline, members, might_go)
    return out


def _on_their_nodes(
    sim: Simulation, pipeline: Pipeline, by_row: dict[int, list[Pod]], might_go: Callable[[Pod], bool], most: float
) -> list[Pod]:
    slot_of = sim.snapshot.table.slot_of
    start = sim.mark()
    out: list[Pod] = []
    for row in sorted(by_row):
        if len(out) >= most:
            break
        leaving = [p for p in sim.snapshot.pods_on(sim.snapshot.nodes[row].name) if might_go(p)]
        if not leaving:
            continue
        places = [(row, member) for member in by_row[row]]
        if _all_hold(sim, pipeline, places):
            leaving = []
        leaving.sort(key=lambda p: (p.deleting_since is not None, p.key))  # rather for those that leave for certain
        for pod in leaving:
            sim.lift(slot_of[pod.uid])
        for pod in leaving:
            sim.put_back(slot_of[pod.uid])
            if not _all_hold(sim, pipeline, places):
                sim.lift(slot_of[pod.uid])
                out.append(pod)
        for member in by_row[row]:
            sim.place(sim.snapshot.class_of(member), row)
    sim.rollback(start)
    for one in out:
        sim.lift(slot_of[one.uid])
    return out


def _elsewhere(
    sim: Simulation, pipeline: Pipeline, members: Sequence[tuple[int, Pod]], might_go: Callable[[Pod], bool]
) -> list[Pod]:
    """Of those that are still there, those without whose leaving the members do not fit: halves that need not leave are
    put back together.
    """
    table = sim.snapshot.table
    lifted = set(sim.lifted().tolist())
    slots = [
        slot
        for slot in table.occupied().tolist()
        if slot not in lifted and (pod := table.pods[slot]) is not None and might_go(pod)
    ]
    for slot in slots:
        sim.lift(slot)
    if not _all_hold(sim, pipeline, members):
        # Not one after another in this order: what is in the way cannot be distinguished from what is not.
        for slot in slots:
            sim.put_back(slot)
        return []

    def must_go(part: list[Pod]) -> list[Pod]:
        for pod in part:
            sim.put_back(table.slot_of[pod.uid])
        if _all_hold(sim, pipeline, members):
            return []
        for pod in part:
            sim.lift(table.slot_of[pod.uid])
        if len(part) == 1:
            return part
        middle = len(part) // 2
        return [*must_go(part[:middle]), *must_go(part[middle:])]

    pods = sorted((pod for slot in slots if (pod := table.pods[slot]) is not None), key=lambda p: p.key)
    return must_go(pods) if pods else []


def _all_hold(sim: Simulation, pipeline: Pipeline, members: Sequence[tuple[int, Pod]]) -> bool:
    """Return True if these members fit where they are to go, one after another, as things are now."""
    mark = sim.mark()
    fits = pipeline.hold(((row, sim.snapshot.class_of(pod)) for row, pod in members), sim)
    sim.rollback(mark)
    return fits
