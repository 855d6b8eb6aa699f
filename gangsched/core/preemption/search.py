"""The search for victims: a complete plan first, then a better one, and how good it is.

1. Without any budget broken, and with as little as possible at high priorities: the lowest priority up to which pods
   have to leave is found by counting, and places for the members are searched there (:mod:`.settle`), with gangs
   interrupted where single pods are not enough (:mod:`.gangs`). This ends with a plan that works.
2. As long as the budget of steps lasts, other gangs are tried, and all ways when there are few units.
3. Whatever is not needed comes back (:mod:`.fit`), and :mod:`.lower_bound` says how far from the least harm that
is.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Ints, distinct
from gangsched.core.decision import Gap
from gangsched.core.placement.placer import Placer, Want
from gangsched.core.preemption.branch_and_bound import BranchAndBound
from gangsched.core.preemption.candidates import Candidates, Prices, Tariff
from gangsched.core.preemption.demand import Demand, demands_of
from gangsched.core.preemption.few_owners import TURNS, OwnersOfPods
from gangsched.core.preemption.fit import CountedFit, Fit, Returnable, fit_for, reprieve, rows_of
from gangsched.core.preemption.gangs import Interruptions
from gangsched.core.preemption.harm import Budgets, Floor, Harm, Loss, gap, harm, place, weights, whose, work_lost
from gangsched.core.preemption.lower_bound import LowerBound
from gangsched.core.preemption.node_prices import GONE, MAY, STAYS, NodePrices, Offer, fillings_of
from gangsched.core.preemption.places import Places, Placing
from gangsched.core.preemption.program import Program, Proof, floor_of
from gangsched.core.preemption.settle import Settled, Settler
from gangsched.core.preemption.units import Units
from gangsched.core.state.simulation import Simulation
from gangsched.core.watchdog import Watchdog

#: Nodes x pods looked at in about one step.
_PER_STEP = 3000
#: Steps that one search spends at most on giving back what is not needed.
_REPRIEVE_STEPS = 15_000
#: Steps beyond which a first choice is not looked at once more, whatever the budget: with hundreds of kinds that would
#: take as many again.
_DEAR = 5_000
#: Questions for less work lost, where it is proven that no other choice breaks or interrupts less. Without them 3 of 90
#: small clusters lose more, with a third none of 67.
_WORK_LOOKS = 300


class FoundPlan(msgspec.Struct, frozen=True):
    """Victims (slots) with which the gang fits, what they cost, and rows as those of a :class:`Choice`."""

    harm: Harm
    taken: frozenset[int]
    rows: dict[str, int]


class Choice(msgspec.Struct, frozen=True):
    """The victims: slots of the pod table; what they cost; what it took to find them.

    ``rows`` are nodes on which members (by UID) are known to fit then; empty where placing them is no search. No plan
    does less harm than ``floor``.
    """

    taken: frozenset[int]
    harm: Harm
    steps: int
    stopped: bool
    rows: dict[str, int]
    floor: Floor | None = None

    @property
    def gap(self) -> Gap | None:
        """How far the harm may be from the least; None if it is the least."""
        return None if self.floor is None else gap(self.harm, self.floor)


class Limits(msgspec.Struct, frozen=True):
    """Limits of a choice beside making room.

    With ``bands`` (ascending), priorities up to the first are equal, and those up to each further one. Gangs do not
    count: the fewest victims in the highest band win, then in the next. With ``most`` there are no more victims than
    that, and better choices are looked for than those ``known``.
    """

    bands: tuple[int, ...] | None = None
    most: int | None = None
    known: tuple[Choice, ...] = ()


NO_LIMITS = Limits()


class Search:
    """One search for the least harmful choice of ``units`` that makes room for ``wants`` in the simulation ``sim``, in
    which nothing has been taken. ``cluster`` has the allocatable amount of each resource; ``max_steps`` and the
    ``watchdog`` bound what is tried beyond the first plan; with ``strict`` no budget is exceeded; ``limits`` are
    further conditions.
    """

    def __init__(  # noqa: PLR0913
        self,
        units: Units,
        sim: Simulation,
        placer: Placer,
        wants: Sequence[Want],
        budgets: Budgets,
        cluster: Mapping[str, float],
        now: float,
        max_steps: int,
        watchdog: Watchdog,
        *,
        strict: bool = False,
        limits: Limits = NO_LIMITS,
    ) -> None:
        self.units = units
        self.budgets = budgets
        self._limits = limits
        self.cluster = cluster
        self.now = now
        self.max_steps = max_steps
        self.strict = strict
        self._watchdog = watchdog
        self.stopped = False
        self.steps = 0
        self._demands = demands_of(sim, placer.pipeline, wants)
        demand = self._demands[0]
        self.fit: Fit = fit_for(sim, placer, wants, demand)
        table = units.snapshot.table
        self.works = weights(table.cost[: table.size], work_lost(units.snapshot, cluster, now, units.unsaved))
        self._proved_none = False
        self._looks = -1
        #: Steps spent on giving back what is not needed, beside those of the search; and those of it when it began.
        self._reprieving = self._reprieve_began = 0
        self._up_to = math.inf  # what counts under a higher priority stays
        self._places: list[Places] = []
        self._best: FoundPlan | None = None  # of those found
        self._seen: set[frozenset[int]] = set()
        self._weighed: tuple[frozenset[int], Harm] | None = None
        self._workers: list[NodePrices | Interruptions | LowerBound | Proof] = []

    @cached_property
    def candidates(self) -> Candidates:
        """The candidates as arrays."""
        return Candidates(self.units, self.budgets, self._demands[0], self.works, self._limits.bands, self._up_to)

    @cached_property
    def _bound(self) -> LowerBound:
        bound = LowerBound(self.candidates, self._demands[0])
        self._workers.append(bound)
        return bound

    # -- the whole search ----------------------------------------------------------------------------------

    def run(self) -> Choice | None:
        """The least harmful choice found; None when none was found. ``units`` says then what is known of why not.

        Every plan that a search comes across is reprieved, and the least harmful is kept. A longer search comes across
        those of a shorter one, in the same order, and so it never does more harm.
        """
        reaches = self._reaches()
        if not reaches:
            return None
        for up_to in reaches:
            self._begin(up_to)
            for plan in self._found():
                self._keep(plan)
            if self._best is not None:
                break
        least = self._improve()
        self._concentrate()
        best = self._tried(self._best, least)
        if best is None:
            self._note_refusal()
            return None
        return Choice(best.taken, best.harm, self.spent, self.stopped, best.rows, self._floor(best.harm, least))

    def _reaches(self) -> list[float]:
        """Up to which priorities to search: to the lowest at which counting finds room, and if there is no plan, to
        all. A plan of the former is better than any with a higher priority. It takes a third of the time if most
        priorities are not needed. Empty if there is no room even without all candidates, which is known in a tenth of
        the time of reading the candidates.
        """
        if self._limits.known:
            return [math.inf]
        slots, least = self.units.leaving()

        def room(level: float) -> bool:
            return any(d.counts(d.resources.without(slots[least <= level])) for d in self._demands)

        # With budgets priorities are not what counts first.
        narrow = not self.budgets and self._limits is NO_LIMITS
        levels = [*(distinct(least).tolist()[:-1] if narrow else ()), math.inf]
        enough = levels[bisect_left(levels, True, key=room) :]
        return [enough[0], math.inf] if len(enough) > 1 else enough

    def _begin(self, up_to: float) -> None:
        """Search anew, with what counts under higher priorities left out."""
        if up_to == self._up_to:
            return
        self._up_to = up_to
        self._places.clear()
        for name in ("candidates", "_bound", "_program"):
            self.__dict__.pop(name, None)

    def _keep(self, plan: FoundPlan) -> None:
        if plan.taken not in self._seen:
            self._seen.add(plan.taken)
            plan = self._reprieved(plan)
            if self._best is None or plan.harm < self._best.harm:
                self._best = plan

    def _floor(self, cost: Harm, least: Floor | None) -> Floor | None:
        """The higher of two floors: that of the program, and that of the nodes by themselves; None where victims are
        compared by what is lost, which neither bounds.
        """
        if self.candidates.by_work:
            return None
        if least is not None and gap(cost, least) is None:
            return least
        other = self._bound.floor(cost)
        return other if least is None or _nearer(gap(cost, other), gap(cost, least)) else least

    def _improve(self) -> Floor | None:
        """Find better plans, and say how little harm is possible, in clusters that are small enough."""
        best, program = self._best, self._program
        if best is None or program is None or gap(best.harm, self._bound.floor(best.harm)) is None:
            return None

        def adopt(placing: Placing, units: frozenset[int]) -> Harm | None:
            plan, before = self._checked(self._demands[0], placing, units), self._best
            if plan is None or before is None or not self._few(plan.taken) or not plan.harm < before.harm:
                return None
            self._keep(plan)
            return self._best.harm if self._best is not before and self._best is not None else None

        proof = Proof(program, adopt, self._late)
        self._workers.append(proof)
        return floor_of(proof.run(best.harm))

    def _concentrate(self) -> None:
        """Find plans that are equal in what counts more, and in which fewer owners lose pods."""
        c = self.candidates
        if self._limits is not NO_LIMITS or c.by_work or self._best is None or not self._places:
            return
        demand, hard = self._demands[0], not self._best.harm.beyond_budget
        owners = OwnersOfPods(c, self._best.taken)
        for turn in range(TURNS):
            if self._late() or not owners.may_be_fewer(self._best.taken):
                return
            works = owners.works(self._best.taken if turn else None)
            other = Candidates(self.units, self.budgets, demand, works, None, self._up_to)
            places = Places(other, demand)
            self._workers.append(places.nodes)
            taken = owners.chosen(other, places, hard=hard)
            plan = self._fitting(taken) if taken is not None else None
            if plan is not None:
                self._keep(plan)

    def _fitting(self, taken: frozenset[int]) -> FoundPlan | None:
        """The plan with just these victims; None if it is none."""
        base = self.fit.save()
        self.fit.remove(np.array(sorted(taken), dtype=np.int64))
        rows = self.fit.rows() if self.fit.fits() else None
        self.fit.restore(base)
        return None if rows is None else FoundPlan(self._harm_of(taken), taken, rows)

    @cached_property
    def _program(self) -> Program | None:
        if len(self._demands) != 1 or not self._places or self.candidates.by_work:
            return None
        fillings = fillings_of(self._places[0].nodes)
        return None if fillings is None else Program(self.candidates, self._demands[0], fillings, self._limits.most)

    def _found(self) -> Iterator[FoundPlan]:
        """Plans that work."""
        for demand in self._demands:
            places = Places(self.candidates, demand)
            self._places.append(places)
            self._workers.append(places.nodes)
            if self._limits.known:
                continue
            for choices in self._settled(demand, places):
                checked = (self._checked(demand, one.placing, one.units) for one in choices)
                plans = [plan for plan in checked if plan is not None]
                yield from plans
                if plans:
                    break
        for choice in self._limits.known:
            yield FoundPlan(self.harm_of(set(choice.taken)), choice.taken, choice.rows)

    def _few(self, taken: Collection[int]) -> bool:
        return self._limits.most is None or len(taken) <= self._limits.most

    def _note_refusal(self) -> None:
        """Say in ``units`` what is known of why there is no choice: that there is none, or that none was found."""
        closed = self.candidates.closed
        if not self._fits_without(np.zeros_like(closed)):
            return
        if self.strict and closed.any() and not self._fits_without(closed):
            self._proved_none = True
        self.units.unproven = not self._proved_none
        self.units.cut_short = self.units.unproven and self.stopped
        if self.strict:
            for demand, places in zip(self._demands, self._places, strict=True):
                for choices in self._up_from(demand, places, np.zeros_like(closed), hard=False):
                    plan = self._checked(demand, choices[0].placing, choices[0].units)
                    if plan is None:
                        continue
                    plan = self._reprieved(plan)
                    if plan.harm.beyond_budget:
                        self.units.over_budgets = self.budgets.exceeded(map(self.units.pod, plan.taken))
                        return

    def _fits_without(self, stays: Bools) -> bool:
        """Return True if the gang fits without the pods that may leave, except those that stay. The units of those stay
        whole.
        """
        c = self.candidates
        gone = ~stays
        for unit in c.units_of:
            if unit.whole and stays[unit.pods].any():
                gone[unit.pods] &= c.single[unit.pods]
        if not any(self._possible(places, gone) for places in self._places):
            return False
        base = self.fit.save()
        self.fit.remove(c.slot[gone])
        fits = self.fit.fits() or not self.fit.monotone
        self.fit.restore(base)
        return fits

    def price_by_domain(self, codes: Ints, domains: int) -> Prices:
        """``(domains,)`` the least price of places in each domain as far as room tells: every pod by itself, a unit for
        its pods' part. ``codes`` ``(N,)`` are the nodes' domains, -1 for none.
        """
        c, offer = self.candidates, self._apart()
        out: Prices = np.zeros(domains, dtype=np.complex128)
        for part in self._demands[0].parts():
            out = np.maximum(out, Places(c, part).price_by_domain(offer, codes, domains))
        return out

    def _apart(self) -> Offer:
        """All candidates, each by itself, a unit for its pods' part."""
        c = self.candidates
        tariff = Tariff(c, np.ones(c.size, dtype=np.bool_))
        price = tariff.pods + np.where(c.closed, tariff.beyond, 0j)
        sizes = np.array([len(u.slots) for u in c.units_of] + [1])
        price = price + np.append(tariff.units, 0j)[c.unit] / sizes[c.unit]
        return Offer(np.full(c.size, MAY), price, c.closed)

    @property
    def demand(self) -> Demand:
        """The demand of the members; of several ways to choose them, the easiest."""
        return self._demands[0]

    def curves(self, *, lower: bool = False, gone: int | None = None) -> Callable[[list[int]], Prices]:
        """Return what gives ``(X, N)`` the price of 1, 2, ... members on each node: of one kind, or of several as if
        all were as small as the smallest. With ``lower``, whatever the shapes of pods, no price is less. The unit
        ``gone`` (a number) has left already.
        """
        offer, demand = self._apart(), self.demand
        if gone is not None:
            offer.status[self.candidates.units_of[gone].pods] = GONE

        def of(kinds: list[int]) -> Prices:
            part = demand if len(demand.need) == 1 else demand.part(kinds, alone=len(kinds) == 1)
            return Places(self.candidates, part, lower=lower).nodes.curves(offer, 0)

        return of

    def spanning(self, codes: Ints, most: int) -> list[tuple[int, complex]]:
        """Units (numbers) that leave whole and have pods in several domains, with their prices: at most so many, those
        with most pods. ``codes`` ``(N,)`` are the domains of nodes, -1 for none.
        """
        c = self.candidates
        tariff = Tariff(c, np.ones(c.size, dtype=np.bool_))
        found = [
            (-len(unit.pods), n)
            for n, unit in enumerate(c.units_of)
            if unit.whole and len(np.unique(codes[c.row[unit.pods]])) > 1
        ]
        return [(n, complex(tariff.whole[n])) for _, n in sorted(found)[:most]]

    def floor_of(self, price: complex) -> Floor | None:
        """The floor of a price that adds up pods alone; None if some pod leaves with others or within limits."""
        c = self.candidates
        if c.units_of or c.limited or self.budgets or c.by_work:
            return None
        found = Tariff(c, np.ones(c.size, dtype=np.bool_)).harm(price)
        return None if found is None else Floor(found.beyond_budget, found.levels)

    # -- places --------------------------------------------------------------------------------------------

    def _settled(self, demand: Demand, places: Places) -> Iterator[list[Settled]]:
        """Choices of places, the first without a budget exceeded and with as little as possible at high priorities."""
        c = self.candidates
        limits = any(limited.budget for limited in c.limited)
        company = places.nodes.company
        for kept in (company, np.zeros_like(company)) if company.any() else (company,):
            yield from self._up_from(demand, places, kept, hard=True)
            if limits and not self.strict:
                yield from self._up_from(demand, places, kept, hard=False)

    def _up_from(self, demand: Demand, places: Places, kept: Bools, *, hard: bool) -> Iterator[list[Settled]]:
        """With pods up to ever higher priorities, those ``kept`` aside: the first choice, and ever better ones."""
        c = self.candidates
        closed = (c.closed & hard) | kept
        levels = c.levels if c.size else np.zeros(1, dtype=np.int64)
        low, high = (0, len(levels) - 1) if hard else (len(levels) - 1, len(levels) - 1)
        while low < high:
            middle = (low + high) // 2
            if self._possible(places, (c.level <= levels[middle]) & ~closed):
                high = middle
            else:
                low = middle + 1
        for level in levels[low:].tolist():
            below = (c.level <= level) & ~closed
            if not self._possible(places, below):
                continue
            tariff = Tariff(c, below)
            settler = Settler(c, places, tariff, below, hard=hard)
            usable = np.flatnonzero((c.unit_level <= level) & (c.drawn_whole(np.flatnonzero(closed)) == 0)).tolist()
            count = CountedFit(demand, alone=len(demand.need) == 1)
            interruptions = Interruptions(settler, count, usable, self._late, self._proven)
            self._workers.append(interruptions)
            first = interruptions.first()
            if first is None:
                continue
            found = [first]
            if not self._proven(first) and self._program is None and self.spent < _DEAR:
                found += settler.refined(first, self._late)
                found += interruptions.improved(found[-1])
            yield found

    def _proven(self, settled: Settled) -> bool:
        """Return True if it is known that no choice breaks fewer budgets or interrupts less, as far as that decides."""
        if self.candidates.by_work:
            return False
        cost = settled.harm
        if cost is None:
            cost = self._harm_of(self.candidates.slots_of(settled.placing.gone, sorted(settled.units)))
        return gap(cost, self._bound.floor(cost)) is None

    def _possible(self, places: Places, below: Bools) -> bool:
        return places.possible(Offer(np.where(below, MAY, STAYS), np.zeros(len(below), dtype=np.complex128)))

    # -- checks --------------------------------------------------------------------------------------------

    def _checked(self, demand: Demand, placing: Placing, interrupted: frozenset[int]) -> FoundPlan | None:
        """The plan with these places, and the units (numbers) interrupted for them; None when the members do not fit
        so.
        """
        fit = self.fit
        taken = self.candidates.slots_of(placing.gone, sorted(interrupted))
        base = fit.save()
        fit.remove(np.array(sorted(taken), dtype=np.int64))
        fit.hint(rows_of(demand, placing.counts))
        if not fit.fits():
            taken = self._enlarged(placing, interrupted, taken)
        rows = fit.rows() if taken else {}
        fit.restore(base)
        return FoundPlan(self._harm_of(taken), taken, rows) if taken else None

    def _reprieved(self, plan: FoundPlan) -> FoundPlan:
        """The plan with whatever is not needed put back. That takes steps of its own, a number which the search's does
        not change: a longer search comes across the same plans, and is never worse.
        """
        fit = self.fit
        base, spent = fit.save(), fit.steps
        self._reprieve_began = spent
        fit.remove(np.array(sorted(plan.taken), dtype=np.int64))
        fit.hint(plan.rows, least=not self.candidates.by_work and gap(plan.harm, self._bound.floor(plan.harm)) is None)
        back = reprieve(fit, self._returnable(plan.taken), self._too_late) if fit.fits() else []
        rows = fit.rows() if back or not plan.rows else plan.rows
        fit.restore(base)
        self._reprieving += fit.steps - spent
        fit.steps = spent
        if not back:
            return FoundPlan(plan.harm, plan.taken, rows)
        left = plan.taken.difference(s for slots in back for s in slots.tolist())
        return FoundPlan(self._harm_of(left), left, rows)

    def _enlarged(self, placing: Placing, interrupted: frozenset[int], taken: frozenset[int]) -> frozenset[int]:
        """More victims until all filters agree: single pods and then whole units, those on the nodes that are the
        cheapest for members first; none if they never do.
        """
        c, fit = self.candidates, self.fit
        legal = self._legal(placing, interrupted)
        company = np.logical_or.reduce([places.nodes.company for places in self._places])[legal]
        legal = legal if company.all() else legal[~company]
        price = np.zeros(len(c.count))
        np.add.at(price, c.row[legal], 1.0 + 1e6 * (c.level[legal] - c.level.min(initial=0)))
        used = placing.counts.any(axis=0)
        order = np.lexsort((np.arange(len(price)), price, ~used))
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        closed = c.closed
        out = set(taken)
        for units in ([], [u for u in c.units_of if u.whole and not (self.strict and closed[u.pods].any())]):
            most = max(4, 2 * int(used.sum()))
            while True:
                more = set(c.slot[legal[rank[c.row[legal]] < most]].tolist())
                for unit in units:
                    if (rank[c.row[unit.pods]] < most).any():
                        more.update(unit.slots.tolist())
                fit.remove(np.array(sorted(more - out), dtype=np.int64))
                out |= more
                if fit.fits():
                    exceeded = self.strict and self.budgets.beyond([self.units.pod(s) for s in sorted(out)])
                    return frozenset() if exceeded else frozenset(out)
                if most >= len(order):
                    break
                most *= 4
        return frozenset()

    def _legal(self, placing: Placing, interrupted: frozenset[int]) -> Ints:
        """Indices of pods that may leave together with these units, within all limits."""
        c = self.candidates
        fine = c.single.copy()
        freed = {n for u in interrupted for n in c.units_of[u].limited}
        for number, limited in enumerate(c.limited):
            if number not in freed and not (limited.budget and not self.strict):
                first = np.argsort(~placing.gone[limited.pods], kind="stable")
                fine[limited.pods[first][limited.limit :]] = False
        return np.flatnonzero(fine)

    def _returnable(self, taken: frozenset[int]) -> list[Returnable]:
        """The units of these victims as they can come back."""
        units, by_work = self.units, self.candidates.by_work
        table = units.snapshot.table
        wholes = [d.block for d in units.departures(set(taken)) if d.block is not None and d.part is None]
        beyond = self.budgets.beyond(list(map(units.pod, taken))) if self.budgets else ()
        exceeds = {s for s in taken if units.pod(s).uid in beyond} if beyond else set()
        gone = {s for block in wholes for s in block.whole}
        out = []
        for block in wholes:
            spared = set(units.surplus(block, self.works))
            core = np.array([s for s in block.whole if s not in spared], dtype=np.int64)
            work = float(self.works[block.array].sum())
            size = (-work, -len(block.whole)) if by_work else (-len(block.whole), -work)
            order = (exceeds.isdisjoint(block.whole), -block.priority, 0, *size, block.ref.name)
            out.append(Returnable(block.array, core if spared else core[:0], order))
        singles = np.array(sorted(taken - gone), dtype=np.int64)
        mine = Counter(whose(units.pod(slot)) for slot in singles.tolist())
        crowd = np.bincount(np.maximum(table.row[singles], 0), minlength=units.snapshot.size)
        for slot in singles.tolist():
            row, work = int(table.row[slot]), float(self.works[slot])
            order = (
                slot not in exceeds,
                -int(table.priority[slot]),
                1,
                *((-work, -int(crowd[row])) if by_work else (-int(crowd[row]), mine[whose(units.pod(slot))], -work)),
                f"{row:06d} {table.tie[slot]}",
            )
            out.append(Returnable(np.array([slot], dtype=np.int64), singles[:0], order))
        return out

    # -- few units -----------------------------------------------------------------------------------------

    def _tried(self, best: FoundPlan | None, least: Floor | None) -> FoundPlan | None:
        """With few units, look through everything that could be better."""
        exact = BranchAndBound(
            self.units,
            self.fit,
            self.harm_of,
            self._spend_step,
            self.works,
            self.budgets,
            self._few,
            strict=self.strict,
        )
        if not exact.small:
            return best
        floor = None if best is None else self._floor(best.harm, least)
        self._looks = _WORK_LOOKS if best is not None and floor is not None and gap(best.harm, floor) is None else -1
        known, before = (best.harm, best.taken) if best is not None else (None, frozenset())
        cost, taken = exact.run(known, before)
        if cost is None:
            self._proved_none = exact.complete
            return None
        if taken == before:
            return best
        plan = self._reprieved(FoundPlan(cost, taken, {}))
        return plan if best is None or plan.harm < best.harm else best

    def _spend_step(self) -> bool:
        """One more question; False when the budget does not allow it."""
        self.steps += 1
        self._looks -= 1
        return self._looks != 0 and not self._late()

    # -- what it costs -------------------------------------------------------------------------------------

    def _harm_of(self, taken: frozenset[int]) -> Harm:
        """The harm of these slots, cached because it is read repeatedly."""
        if self._weighed is None or self._weighed[0] != taken:
            self._weighed = taken, self.harm_of(set(taken))
        return self._weighed[1]

    def harm_of(self, taken: set[int]) -> Harm:
        """The harm of these slots."""
        losses, interrupted = self.units.losses(taken)
        if self._limits.bands is not None:
            losses = [Loss(loss.pod, bisect_left(self._limits.bands, loss.level)) for loss in losses]
            interrupted = []
        since, by_work = self.units.unsaved_since, self.candidates.by_work
        return harm(losses, interrupted, self.budgets, self.cluster, self.now, since, by_work=by_work)

    @property
    def spent(self) -> int:
        """Steps spent."""
        return self.steps + self.fit.steps + sum(worker.work for worker in self._workers) // _PER_STEP

    def _too_late(self) -> bool:
        """Return True if the plan must be taken as it is, although some of its victims may not be needed."""
        if self._reprieving + self.fit.steps - self._reprieve_began >= _REPRIEVE_STEPS or self._watchdog.barks():
            self.stopped = True
            return True
        return False

    def _late(self) -> bool:
        if self.spent >= self.max_steps or self._watchdog.barks():
            self.stopped = True
        return self.stopped


def _nearer(one: Gap | None, other: Gap | None) -> bool:
    """Return True if the first gap is less than the second: at a later component, or by fewer."""
    if one is None or other is None:
        return one is None
    here, there = (place((g.component, g.priority)) for g in (one, other))
    return here > there or (here == there and one.at_most < other.at_most)
