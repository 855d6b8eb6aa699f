"""Victim units: what goes together or stays, gangs and the Jobs and JobSets that would end with some of their pods."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gangsched.core.arrays import Floats, Ints, distinct, isin, runs
from gangsched.core.decision import UnitRef
from gangsched.core.preemption.blocks import NO_SLOTS, Block, Ending, Known, Owners, Part, by_key, joined, ref_of
from gangsched.core.preemption.eligible import Eligible
from gangsched.core.preemption.harm import Loss
from gangsched.core.state.jobs import family_of
from gangsched.core.state.membership import Membership
from gangsched.core.state.podtable import TERMINATING
from gangsched.messages import causes
from gangsched.model.records import JOB, GangId

#: Above every priority.
_NEVER = 2**31


def _ref_of(membership: Membership, endings: Sequence[Ending], parts: list[Part], slots: Ints) -> UnitRef:
    """One gang, or one Job or JobSet, if that is all; else the gangs that it is of."""
    if len(parts) == 1 and parts[0].grouped:
        return parts[0].ref
    grouped = [part.gang for part in parts if part.grouped]
    if not grouped or (len(endings) == 1 and len(endings[0].slots) == len(slots)):
        return UnitRef(family_of(endings[0].owner), endings[0].owner.key)
    return ref_of(membership, grouped)


class JobsThatEnd:
    """The Jobs and JobSets that end with pods that may leave, as ``owners`` know them, and what that means to those."""

    def __init__(self, eligible: Eligible, owners: Owners) -> None:
        self._eligible = eligible
        self._owners = owners
        self._table = eligible.snapshot.table

    def together(self, slots: Ints, numbers: Sequence[int]) -> Iterator[tuple[list[int], tuple[Ending, ...]]]:
        """Return what ends together if pods in these slots, or some of these gangs (numbers), are evicted: the gangs in
        key order, and the Jobs and JobSets.
        """
        ids = self._table.gang_ids
        for endings, gangs in joined(*self._endings(slots, numbers)):
            yield sorted(gangs, key=lambda n: by_key(ids[n])), tuple(endings)

    def _endings(self, slots: Ints, numbers: Sequence[int]) -> tuple[list[Ending], dict[int, tuple[int, ...]]]:
        """The Jobs that pods in these slots or of these gangs end with, and so on: whatever one of them takes along.
        With them the gangs that are decided with each gang.
        """
        table = self._table
        found: dict[str, Ending] = {}
        groups: dict[int, tuple[int, ...]] = {}
        todo = list(numbers)
        while True:
            fresh: list[int] = []
            while todo:
                number = todo.pop()
                if number not in groups:
                    groups[number] = self._decided_with(number)
                    todo += [n for n in groups[number] if n != number]
                    fresh.append(number)
            asked = np.zeros(len(table.gang_ids) + 1, dtype=np.bool_)  # the last is that of a free slot, -1
            asked[fresh] = True
            members = np.flatnonzero(asked[table.gang[: table.size]])
            more = {e.owner.uid: e for e in self._owners.endings(np.concatenate([slots, members]))}
            todo = [n for uid, e in more.items() if uid not in found for n in e.gangs if n not in groups]
            found |= more
            if not todo:
                return sorted(found.values(), key=lambda e: (e.owner.key, e.owner.uid)), groups
            slots = NO_SLOTS

    def _decided_with(self, number: int) -> tuple[int, ...]:
        """The gangs of the GangGroup of this gang."""
        theirs = map(self._table.gang_number, self._eligible.membership.group(self._table.gang_ids[number])[0])
        return tuple(n for n in theirs if n >= 0)

    def survived(
        self, endings: Sequence[Ending], by_gang: Mapping[GangId, Ints]
    ) -> tuple[frozenset[int], dict[GangId, int]]:
        """Slots that may not go one by one, and how many of a gang may: what the Jobs survive.

        Of a Job with pods in several gangs, or in one that has other pods too, only certain pods may be evicted singly.
        Of a Job with pods without a gang, these pods may.
        """
        table = self._table
        barred: set[int] = set()
        caps: dict[GangId, int] = {}
        for job in (j for ending in endings for j in ending.jobs if j.limit < len(j.slots)):
            grouped = [s for s in job.slots if not table.alone[table.gang[s]]]
            gangs = {table.gang_ids[table.gang[s]] for s in grouped}
            barred.update(s for s in grouped if s not in job.free)
            if len(gangs) == 1 and len(grouped) == len(job.slots):
                (gang,) = gangs
                if len(by_gang[gang]) == len(grouped):
                    caps[gang] = job.limit
                    continue
            may = [s for s in grouped if s in job.free]
            order = sorted(may, key=lambda s: (not self._eligible.ok[s], int(table.priority[s]), int(table.tie[s])))
            barred.update(order[job.limit if len(grouped) == len(job.slots) else 0 :])
        return frozenset(barred), caps

    def alone(self, endings: Iterable[Ending]) -> Iterator[Part]:
        """The pods without a gang of each of their Jobs."""
        table = self._table
        for job in (j for ending in endings for j in ending.jobs):
            slots = [s for s in job.slots if table.alone[table.gang[s]]]
            if slots:
                single = [s for s in slots if self._eligible.ok[s] and s in job.free] if job.limit else []
                gang = min((table.gang_ids[table.gang[s]] for s in slots), key=by_key)
                ref = UnitRef(JOB, job.job.key)
                yield Part(gang, ref, slots, single, min(job.limit, len(slots)), 0, counts=False)


class Departure(NamedTuple):
    """Pods that are evicted together: a whole ``block``, or some members of one gang of a block (``part``). Without a
    block: pods that leave each by itself.
    """

    slots: list[int]
    block: Block | None = None
    part: Part | None = None


@dataclass(eq=False)
class Units(Eligible):
    """The blocks that a preemptor may take from; ``loose`` are slots of pods without a group, units by themselves."""

    def __post_init__(self) -> None:
        super().__post_init__()
        #: Budgets without which there would be a choice, where they may not be broken.
        self.over_budgets: tuple[str, ...] = ()
        #: How many pods the smallest choice has that was found, where it has more than there may be victims.
        self.over_cap = 0
        #: Workloads that are spared so that evictions do not lead in a circle, with the reasons.
        self.protected: list[str] = []
        #: The search ended before it had found a choice, or that there is none.
        self.cut_short = False
        #: Nothing was found, and it is not proven that there is nothing.
        self.unproven = False
        self.blocks: list[Block] = []
        self.loose: Ints = NO_SLOTS
        #: By number of a block: why it may be taken, where that is not its priority.
        self.reasons: dict[int, str] = {}
        self.added: dict[int, Block] = {}
        #: Gangs (numbers) of which all live pods may be taken, and Jobs of which some may not.
        self._complete: set[int] = set()
        self._kept_jobs: set[int] = set()
        self._blocks_by_gang: dict[int, Block] | None = None
        self._leaving: tuple[Ints, Ints] | None = None
        if len(self.takeable):
            self._build()

    # -- building ------------------------------------------------------------------------------------------

    def _build(self) -> None:
        table, live = self.snapshot.table, self.live_slots
        gangs = table.gang[self.takeable]
        alone = table.alone[gangs]
        self.loose = self.takeable[alone & self.ok[self.takeable]]
        found = np.flatnonzero(np.bincount(gangs[~alone]))
        numbers = found.tolist()
        size = table.size
        kept = np.flatnonzero((table.gang[:size] >= 0) & ~self.ok & ((table.flags[:size] & TERMINATING) == 0))
        self._complete = set(found[np.bincount(table.gang[kept], minlength=len(table.gang_ids))[found] == 0].tolist())
        self._kept_jobs = set(distinct(table.job[kept]).tolist())
        if self.owners is not None and (table.job[:size] >= 0).any():
            jobs = JobsThatEnd(self, self.owners)
            done: set[int] = set()
            ending: list[Ints] = [NO_SLOTS]
            for mine, endings in jobs.together(self.takeable, numbers):
                done.update(mine)
                ending += (e.slots for e in endings)
                block = self._known(mine, endings)
                if block is None:
                    block = self._made([table.gang_ids[n] for n in mine], {}, jobs, endings)
                self.blocks += [block] if block is not None else []
            self.loose = self.loose[~isin(self.loose, np.concatenate(ending))]
            numbers = [n for n in numbers if n not in done]
        self._gangs(numbers, live)

    def _gangs(self, numbers: list[int], live: Ints) -> None:
        """Blocks of the gangs with these numbers, in key order."""
        ids = self.snapshot.table.gang_ids
        ready = {n: block for n in numbers if (block := self._known_gang(n)) is not None}
        bound = self._by_gang([n for n in numbers if n not in ready], live)
        done: set[GangId] = set()
        keys = {n: by_key(ids[n]) for n in numbers}
        for number in sorted(numbers, key=keys.__getitem__):
            block = ready.get(number)
            if block is None and ids[number] not in done:
                group, _ = self.membership.group(ids[number])
                done.update(group)
                block = self._made(group, bound)
            if block is not None:
                self.blocks.append(block)

    def _may_all_go(self, numbers: Sequence[int], endings: Sequence[Ending]) -> bool:
        """Return True if this is one gang or Job and all of its live pods may be taken."""
        if len(numbers) > 1 or (numbers and numbers[0] not in self._complete):
            return False
        return not endings or all(ending.numbers.isdisjoint(self._kept_jobs) for ending in endings)

    def _known(self, numbers: Sequence[int], endings: tuple[Ending, ...]) -> Block | None:
        """The block of these as it was made in an earlier decision, if nothing has changed."""
        if not self._may_all_go(numbers, endings):
            return None
        return self._known_gang(numbers[0], endings) if numbers else self._if_unchanged(endings[0].known, endings)

    def _known_gang(self, number: int, endings: tuple[Ending, ...] = ()) -> Block | None:
        """That of a gang, and of its Jobs that are ``endings``."""
        found: Known | None = self.snapshot.table.known.get(number)
        if found is None or number not in self._complete:
            return None
        gang = self.snapshot.table.gang_ids[number]
        spec = self.membership.spec(gang)
        if (spec is not found.spec and spec != found.spec) or gang in self.own or gang in self.binding:
            return None
        return self._if_unchanged(found, endings)

    def _if_unchanged(self, known: Known | None, endings: tuple[Ending, ...]) -> Block | None:
        if known is None or known.options is not self.options or known.endings != endings:
            return None
        return known.block if known.block.priority < self.priority else None

    def add(self, block: Block, reason: str) -> None:
        """One more block, which may be taken for this reason whatever its priority is."""
        self.blocks.append(block)
        self.reasons[block.number] = reason
        self.added[block.number] = block
        self._blocks_by_gang = self._leaving = None

    def _by_gang(self, numbers: list[int], live: Ints) -> dict[int, Ints]:
        """Of these slots, those of each of these gangs."""
        gang = self.snapshot.table.gang
        asked = np.zeros(len(self.snapshot.table.gang_ids), dtype=np.bool_)
        asked[numbers] = True
        slots = live[asked[gang[live]]]
        order, starts, found = runs(gang[slots])
        return dict(zip(found.tolist(), np.split(slots[order], starts[1:]), strict=bool(len(order))))

    def _made(
        self,
        group: Sequence[GangId],
        bound: Mapping[int, Ints],
        jobs: JobsThatEnd | None = None,
        endings: tuple[Ending, ...] = (),
    ) -> Block | None:
        """The block of these gangs, and of those of ``jobs`` that are ``endings``; None if nothing of it may be taken.
        ``bound`` are the live slots of gangs (numbers), where they are known.
        """
        table = self.snapshot.table
        numbers = [table.gang_number(gang) for gang in group]
        by_gang = {g: bound[n] if n in bound else self.live(g) for g, n in zip(group, numbers, strict=True)}
        whole = np.concatenate([*by_gang.values(), *(e.slots for e in endings)])
        if endings:
            whole = distinct(whole)
            by_gang = {g: whole[table.gang[whole] == n] for g, n in zip(group, numbers, strict=True)}
        # Of a gang that is the preemptor's, or is being bound, no member leaves.
        fixed = not (self.own.isdisjoint(group) and self.binding.isdisjoint(group))
        if fixed and not endings:
            if self.own.isdisjoint(group):
                self.spared.append((ref_of(self.membership, group), causes.BEING_BOUND))
            return None
        parts: list[Part] = []
        late: list[int] = []
        takes_whole = bool(endings)
        barred, most = jobs.survived(endings, by_gang) if jobs is not None else (frozenset[int](), {})
        for gang, slots in by_gang.items() if not fixed else ():
            part, whole_too, young = self.part_of(gang, slots, barred, most.get(gang))
            parts.append(part)
            late += young
            takes_whole |= whole_too
        parts += jobs.alone(endings) if jobs is not None else ()
        ref = _ref_of(self.membership, endings, parts, whole) if endings else ref_of(self.membership, group)
        singles = any(part.single for part in parts)
        priority = self.unit_priority(by_gang, whole[table.alone[table.gang[whole]]])
        if takes_whole and (fixed or not self.queued_apart(group) or not self.whole_allowed(whole, priority)):
            why = causes.job_would_end(less="more" if singles else "any") if endings else causes.MEMBER_NOT_EVICTABLE
            self.spared.append((ref, why))
            takes_whole = False
        if self.young:
            takes_whole = self.spare_young(ref, whole, late, takes_whole)
        if not takes_whole and not singles:
            return None
        gangs = tuple(distinct(table.gang[whole]).tolist()) if endings else tuple(numbers)
        block = Block(max(gangs), ref, parts, whole.tolist() if takes_whole else [], priority, gangs)
        spec = self.membership.spec(group[0]) if group else None
        if priority < self.priority and self._may_all_go(numbers, endings) and (spec is None or not spec.group):
            known = Known(self.options, spec, block, endings)
            if group:
                table.known[numbers[0]] = known
            else:
                endings[0].known = known
        return block

    @property
    def empty(self) -> bool:
        """There is nothing that may be taken."""
        return not self.blocks and not len(self.loose)

    def everything(self) -> Ints:
        """All slots that may be taken, singly or as part of a whole, ascending."""
        return self.leaving()[0]

    def leaving(self) -> tuple[Ints, Ints]:
        """All slots that may be taken, and the lowest priority under which each counts then: its own where it may
        leave by itself, that of its unit.
        """
        if self._leaving is None:
            table = self.snapshot.table
            least = np.full(table.size, _NEVER)
            wholes = [b for b in self.blocks if b.whole]
            singles = np.array([s for b in self.blocks for s in b.singles], dtype=np.int64)
            if wholes:
                arrays = [b.array for b in wholes]
                of_blocks = np.repeat([b.priority for b in wholes], [*map(len, arrays)])
                least[np.concatenate(arrays)] = of_blocks
            least[self.loose] = table.priority[self.loose]
            least[singles] = np.minimum(least[singles], table.priority[singles])
            slots = np.flatnonzero((least < _NEVER) & (table.row[: table.size] >= 0))
            self._leaving = slots, least[slots]
        return self._leaving

    def touched(self, taken: Collection[int]) -> list[Block]:
        """Blocks of which something is taken."""
        if self._blocks_by_gang is None:
            self._blocks_by_gang = {number: block for block in self.blocks for number in block.gangs}
        gang = self.snapshot.table.gang
        slots = np.fromiter(taken, dtype=np.int64, count=len(taken))
        numbers = distinct(gang[slots]).tolist()
        found = {b.number: b for n in numbers if (b := self._blocks_by_gang.get(n)) is not None}
        return sorted(found.values(), key=lambda b: b.parts[0].gang)

    def surplus(self, block: Block, works: Floats) -> list[int]:
        """Members that the block can do without, those of low priority and little work (``(slots,)``) first."""
        table = self.snapshot.table
        out: list[int] = []
        for part in block.parts:
            order = sorted(part.single, key=lambda s: (int(table.priority[s]), float(works[s]), int(table.tie[s])))
            out += order[: part.limit]
        return out

    # -- costs of a choice ---------------------------------------------------------------------------------

    def departures(self, taken: set[int]) -> Iterator[Departure]:
        """Yield the pods that are evicted together with these slots: pods without a group, then block by block."""
        slots = np.sort(np.fromiter(taken, dtype=np.int64, count=len(taken)))
        yield Departure(slots[isin(slots, self.loose)].tolist())
        for block in self.touched(taken):
            if self.is_whole(block, taken):
                yield Departure(block.whole, block)
                continue
            for part in block.parts:
                gone = [s for s in part.bound if s in taken]
                if gone:  # pods without a gang are of a Job that survives this
                    yield Departure(gone, block, part) if part.grouped else Departure(gone)

    def losses(self, taken: set[int]) -> tuple[list[Loss], list[int]]:
        """``(losses, interrupted)`` of taking these slots, as :func:`~.harm.harm` wants them."""
        losses: list[Loss] = []
        interrupted: list[int] = []
        there = self.snapshot.table.pods
        for slots, block, part in self.departures(taken):
            pods = (pod for s in slots if (pod := there[s]) is not None)
            if block is not None and part is None:
                losses.extend([Loss(pod, block.priority) for pod in pods])
                interrupted += [block.priority] * block.interrupts
                continue
            losses.extend([Loss(pod, pod.priority) for pod in pods])
            if part is not None and part.counts and len(part.bound) - len(slots) < part.minimum:
                interrupted.append(max(loss.level for loss in losses[-len(slots) :]))
        return losses, interrupted

    @staticmethod
    def is_whole(block: Block, taken: set[int]) -> bool:
        """True when the block counts as taken whole: all of it, and more than its surplus allows singly."""
        if not block.whole or not taken.issuperset(block.whole):
            return False
        return any(len(part.bound) > part.limit for part in block.parts)
