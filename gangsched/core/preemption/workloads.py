"""Workloads as victims on nodes: what the walk through quota's candidates asks of nodes at each step.

A workload that the quota rules choose is evicted as a whole, whatever its pods' priority. Of an elastic gang, the
surplus is evicted first, one by one. If that is enough, the rest stays. Pods without a queue leave by priority. No
candidate goes whose place in the order is later than need be: the order stands for harm.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints, isin
from gangsched.core.decision import UnitRef
from gangsched.core.preemption.blocks import Block, Part, ref_of
from gangsched.core.preemption.fit import Fit
from gangsched.core.preemption.harm import Budgets, Harm, Loss, harm
from gangsched.core.preemption.patience import Patience, member_too_young
from gangsched.core.preemption.units import JobsThatEnd, Units
from gangsched.core.quota.gang_workloads import Managed
from gangsched.core.quota.preemption import Step, Taken, Target, whole
from gangsched.core.quota.workloads import Holder, less
from gangsched.core.state.podtable import ASSUMED, PROTECTED
from gangsched.core.watchdog import Watchdog
from gangsched.messages import causes
from gangsched.model.queues import GROUP as KUEUE
from gangsched.model.records import GangId

#: Above every priority: places in the order are no priorities.
_PLACES = 2**40
#: A step is one look at the cluster; looking at more pods than this at once counts as more steps.
_PODS_PER_STEP = 400


class WorkloadsOnNodes:
    """The nodes of one search; see :class:`~gangsched.core.quota.preemption.Nodes`. ``units`` has the pods without a
    queue, ``fit`` the simulated nodes with nothing taken. ``works`` ``(slots,)`` is the lost work of each pod.
    Workloads with a pod in ``overdue`` (UIDs) free nothing. A candidate with exactly the slots of one of ``left_out``
    is no target. With ``within_budgets`` no disruption budget is exceeded. The walk ends without a choice when the
    steps are spent, or the watchdog says so.
    """

    def __init__(  # noqa: PLR0913
        self,
        units: Units,
        fit: Fit,
        budgets: Budgets,
        max_steps: int,
        watchdog: Watchdog,
        managed: Managed,
        overdue: frozenset[str] | set[str],
        works: Floats,
        left_out: Collection[tuple[int, ...]] = (),
        *,
        within_budgets: bool,
    ) -> None:
        self.units = units
        self.fit = fit
        self.budgets = budgets
        self.stopped = False
        self._steps = 0
        self._max_steps = max_steps
        self._watchdog = watchdog
        self._managed = managed
        self._overdue = overdue
        self._works = works
        self._left_out = left_out
        self._within = within_budgets
        self._counts: dict[int, int] = {}

    @property
    def steps(self) -> int:
        """Search steps spent."""
        return self._steps + self.fit.steps

    def exhausted(self) -> bool:
        """Return True if the steps are spent or the watchdog has ended the search."""
        if self.steps >= self._max_steps or self._watchdog.barks():
            self.stopped = True
        return self.stopped

    # -- candidates ----------------------------------------------------------------------------------------

    def taken_of(self, holder: Holder, reason: str) -> list[Step]:
        """The surplus members of a workload that may be evicted, then all others if all of them may be."""
        uid = holder.admission.workload.uid
        if holder.evicted:
            return [] if is_overdue(self._managed, uid, self._overdue) else [whole(holder, reason)]
        block = add_workload(self.units, self._managed.gangs_of(uid), reason, uid)
        if block is None:
            return []
        singly = self.units.surplus(block, self._works)
        tree, gone = self._managed.quota.tree, self._allowed_of(singly)
        surplus: list[Target] = []
        amounts = holder.amounts
        for slot in gone:
            own = tree.indexed(self._managed.held_by(uid, [self.units.pod(slot)]))
            surplus.append(Target(holder, reason, holder.priority, (slot,), own, surplus=True))
            amounts = less(amounts, own)
        out: list[Step] = [surplus] if surplus else []
        rest = tuple(s for s in block.whole if s not in set(singly))
        if rest and len(gone) == len(singly) and rest not in self._left_out and self._within_budgets(block.whole):
            out.append((Target(holder, reason, holder.priority, rest, amounts),))
        return out

    def _allowed_of(self, slots: Sequence[int]) -> list[int]:
        """Return the slots that may be evicted one by one, in order."""
        may = [s for s in slots if (s,) not in self._left_out]
        if self._within_budgets(may):
            return may
        out: list[int] = []
        for slot in may:
            if self._within_budgets([*out, slot]):
                out.append(slot)
        return out

    def without_queue(self) -> Iterator[Target]:
        """Single pods and whole units that hold no quota, lowest priority first: single pods, then wholes."""
        units, works = self.units, self._works
        pods = units.loose.tolist()
        blocks = [b for b in units.blocks if b.number not in units.reasons]
        pods += [s for block in blocks for s in units.surplus(block, works)]
        # Priority, whether it is a whole, work lost, name and slots.
        items: list[tuple[int, bool, float, str, tuple[int, ...]]] = [
            (units.pod(s).priority, False, float(works[s]), units.pod(s).key, (s,)) for s in pods
        ]
        items += [
            (b.priority, True, float(works[b.array].sum()), b.ref.name, tuple(b.whole)) for b in blocks if b.whole
        ]
        for level, _, _, _, slots in sorted(items):
            if self.exhausted():
                return
            if self._allowed(slots):
                yield Target(None, "", level, slots)

    def _allowed(self, slots: Sequence[int]) -> bool:
        return tuple(slots) not in self._left_out and self._within_budgets(slots)

    def _within_budgets(self, slots: Sequence[int]) -> bool:
        if not self._within or not self.budgets:
            return True
        gone = [*self._counts, *slots]
        self._steps += len(gone) // _PODS_PER_STEP
        return not self.budgets.beyond([self.units.pod(s) for s in dict.fromkeys(gone)])

    # -- what is taken -------------------------------------------------------------------------------------

    def fits(self) -> bool:
        """Return True if the gang fits on nodes now."""
        self._steps += 1
        return self.fit.fits()

    def leaves(self, target: Target) -> None:
        """The pods leave, those aside that others have taken."""
        new = [s for s in target.slots if not self._counts.get(s)]
        for slot in target.slots:
            self._counts[slot] = self._counts.get(slot, 0) + 1
        self.fit.remove(np.array(new, dtype=np.int64))

    def returns(self, target: Target) -> None:
        """The pods come back, those aside that others have taken."""
        back = []
        for slot in target.slots:
            self._counts[slot] -= 1
            if not self._counts[slot]:
                del self._counts[slot]
                back.append(slot)
        if back:
            self.fit.give_back(np.array(back, dtype=np.int64))

    def harm(self, victims: Sequence[Taken], cluster: Mapping[str, float], now: float) -> Harm:
        """Return the cost of these, by their indexes in the order; ``cluster`` has the allocatable amount of each
        resource.
        """
        pods = {s: self.units.pod(s) for taken in victims for s in taken.target.slots}
        losses, interrupted = [], []
        for taken in victims:
            interrupted += [_PLACES + taken.place] * (not taken.target.surplus)
            losses += [Loss(pods.pop(s), _PLACES + taken.place) for s in taken.target.slots if s in pods]
        return harm(losses, interrupted, self.budgets, cluster, now, self.units.unsaved_since)


def is_overdue(managed: Managed, uid: str, overdue: frozenset[str] | set[str]) -> bool:
    """Return True if the workload has one of these overdue pods. Then its quota does not come back, either."""
    return bool(overdue) and any(pod.uid in overdue for pod in managed.pods_of(uid))


def add_workload(units: Units, gangs: tuple[GangId, ...], reason: str, uid: str) -> Block | None:
    """The block of a workload (UID) that may go for this reason: all of it, and the surplus of elastic gangs by itself.
    None if nothing of it may be evicted.

    Pods that terminate are no part of it; of a workload that has only such the block is empty, and no unit.
    """
    table = units.snapshot.table
    number = max(table.gang_number(g) for g in gangs)
    if number in units.added:
        return units.added[number]
    by_gang = {gang: units.live(gang) for gang in gangs}
    whole = np.concatenate(list(by_gang.values()))
    ref = ref_of(units.membership, gangs)
    if not units.binding.isdisjoint(gangs):
        units.spared.append((ref, causes.BEING_BOUND))
        return None
    priority = units.unit_priority(by_gang)
    spared = units.guard.spares(uid, priority, [units.pod(s) for s in whole.tolist()]) if units.guard else None
    if spared is not None:
        units.spared.append((ref, spared.why))
        units.protected.append(f"{ref.name}: {spared.why}")
        if spared.until:
            units.wait_for(spared.until)
        return None
    stay = (table.flags[whole] & (PROTECTED | ASSUMED)) != 0
    stay |= isin(whole, sorted(units.inviolable))
    if stay.any():
        units.spared.append((ref, causes.MEMBER_NOT_EVICTABLE))
    elif units.patience is not None:
        stay = _young(units, units.patience, ref, whole)
    parts = _parts(units, by_gang, whole[~stay])
    if stay.any() and not any(part.single for part in parts):
        return None
    goes = [] if stay.any() else whole.tolist()
    block = Block(number, ref, parts, goes, priority, tuple(map(table.gang_number, gangs)))
    if len(whole):
        units.add(block, reason)
    return block


def _parts(units: Units, by_gang: Mapping[GangId, Ints], may: Ints) -> list[Part]:
    """The gangs of a workload, each with the members that it can do without among those that ``may`` leave, as far as
    their Jobs survive that. Kueue's own groups leave as Kueue has them leave: whole.
    """
    table, columns = units.snapshot.table, units.snapshot.columns
    healthy = (columns.flag("ready") & ~columns.flag("deleting"))[table.row[may]]
    singly: Bools = np.zeros(table.size, dtype=np.bool_)
    if all(gang.family != KUEUE for gang in by_gang):
        singly[may[healthy]] = True
    barred, most = frozenset[int](), dict[GangId, int]()
    if units.owners is not None and singly.any():
        endings = units.owners.endings(np.concatenate(list(by_gang.values())))
        others = {table.gang_ids[n] for ending in endings for n in ending.gangs}
        live = {gang: units.live(gang) for gang in others if gang not in by_gang} | dict(by_gang)
        barred, most = JobsThatEnd(units, units.owners).survived(endings, live)
    return [units.part_of(g, slots, barred, most.get(g), of_queue=singly)[0] for g, slots in by_gang.items()]


def _young(units: Units, patience: Patience, ref: UnitRef, whole: Ints) -> Bools:
    """``(whole,)`` the members of a workload that have not run long enough."""
    pods = [units.pod(s) for s in whole.tolist()]
    until = {p.key: patience.spared_until(p, units.membership.spec(p.gang)) for p in pods}
    youngest = max(pods, key=lambda p: (until[p.key], p.key), default=None)
    if youngest is not None and until[youngest.key] > units.now:
        minimum = patience.minimum(youngest, units.membership.spec(youngest.gang))
        units.spared.append((ref, member_too_young(youngest, minimum, until[youngest.key])))
        units.wait_for(until[youngest.key])
    return np.array([until[p.key] > units.now for p in pods], dtype=np.bool_)
