"""Victim units: what goes together or stays, gangs and the Jobs and JobSets that would end with some of their pods."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
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


class JobBlocks:
    """Makes ``blocks`` of what is ``eligible``. Of the gangs ``complete`` (numbers) all live pods may be taken."""

    def __init__(self, eligible: Eligible, owners: Owners, complete: Collection[int]) -> None:
        self.blocks: list[Block] = []
        self._eligible = eligible
        self._owners = owners
        self._complete = complete
        self._table = eligible.snapshot.table
        #: Numbers of Jobs with pods that may not be taken.
        self._partial: frozenset[int] = frozenset()

    def left(self, slots: Ints, numbers: list[int], loose: Ints) -> tuple[list[int], Ints]:
        """Make them, for pods in ``slots``, which may leave if they have run long enough, and the gangs of such pods
        (``numbers``); returns the gangs, and of the pods without one (``loose``) those, that no Job takes along.
        """
        endings, groups = self._endings(slots, numbers)
        if not endings:
            return numbers, loose
        table = self._table
        kept = (table.job[: table.size] >= 0) & ~self._eligible.ok & ((table.flags[: table.size] & TERMINATING) == 0)
        self._partial = frozenset(table.job[np.flatnonzero(kept)].tolist())
        done: set[int] = set()
        for together, gangs in joined(endings, groups):
            done |= gangs
            self._together(tuple(together), sorted(gangs, key=self._gang_key))
        taken = isin(loose, np.concatenate([ending.slots for ending in endings]))
        return [n for n in numbers if n not in done], loose[~taken]

    def _gang_key(self, number: int) -> tuple[str, str, str, str]:
        return by_key(self._table.gang_ids[number])

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
        membership, gang = self._eligible.membership, self._table.gang_ids[number]
        spec = membership.spec(gang)
        if spec is None or not spec.group:
            return (number,)
        theirs = (self._table.gang_number(g) for g in membership.group(gang)[0])
        return tuple(n for n in theirs if n >= 0)

    def _together(self, endings: tuple[Ending, ...], gangs: list[int]) -> None:
        """The block of these Jobs and gangs (numbers)."""
        table, eligible = self._table, self._eligible
        ready = self._remembered(endings, gangs)
        if ready is not None:
            self.blocks.append(ready)
            return
        group = tuple(table.gang_ids[n] for n in gangs)
        slots = distinct(np.concatenate([*map(eligible.live, group), *(e.slots for e in endings)]))
        by_gang = {gang: slots[table.gang[slots] == n] for gang, n in zip(group, gangs, strict=True)}
        alone = slots[table.alone[table.gang[slots]]]
        # Of a gang that is the preemptor's, or is being bound, no member leaves.
        fixed = not (eligible.own.isdisjoint(group) and eligible.binding.isdisjoint(group))
        parts, late = ([], []) if fixed else self._gang_parts(endings, by_gang)
        parts += [part for ending in endings for part in self._alone_parts(ending)]
        ref = _ref_of(eligible.membership, endings, parts, slots)
        priority = max([eligible.unit_priority(group, by_gang), *table.priority[alone].tolist()])
        whole = not fixed and eligible.queued_apart(group) and eligible.whole_allowed(slots, priority)
        if not whole:
            less = "more" if any(p.single for p in parts) else "any"
            eligible.spared.append((ref, causes.job_would_end(less)))
        if eligible.young:
            whole = eligible.spare_young(ref, slots, late, whole)
        if not whole and not any(p.single for p in parts):
            return
        numbers = distinct(table.gang[slots])
        array = slots if whole else NO_SLOTS
        block = Block(int(numbers.max()), ref, parts, array.tolist(), priority, array, numbers)
        self.blocks.append(block)
        if whole and eligible.ok[slots].all():
            self._remember(endings, gangs, block)

    def _gang_parts(self, endings: Sequence[Ending], by_gang: dict[GangId, Ints]) -> tuple[list[Part], list[int]]:
        """The gangs, and slots that could go one by one if they had run long enough."""
        barred, caps = self._survived(endings, by_gang)
        parts, late = [], []
        for gang, slots in by_gang.items():
            part, _, young = self._eligible.part_of(gang, slots, barred)
            part.limit = min(part.limit, caps.get(gang, part.limit))
            if not part.limit:
                part.single = []
            parts.append(part)
            late += young
        return parts, late

    def _remember(self, endings: tuple[Ending, ...], gangs: Sequence[int], block: Block) -> None:
        """For later decisions, where it is one Job or one gang."""
        options, table = self._eligible.options, self._table
        if not gangs:
            endings[0].known = Known(options, None, block, endings)
        elif len(gangs) == 1:
            spec = self._eligible.membership.spec(table.gang_ids[gangs[0]])
            table.known[gangs[0]] = Known(options, spec, block, endings)

    def _remembered(self, endings: tuple[Ending, ...], gangs: Sequence[int]) -> Block | None:
        """The block of these as it was made in an earlier decision, if nothing has changed."""
        table, eligible = self._table, self._eligible
        if len(gangs) > 1 or (gangs and gangs[0] not in self._complete):
            return None
        found = table.known.get(gangs[0]) if gangs else endings[0].known
        if not isinstance(found, Known) or found.options is not eligible.options or found.endings != endings:
            return None
        if gangs:
            gang = table.gang_ids[gangs[0]]
            if eligible.membership.spec(gang) != found.spec or gang in eligible.own or gang in eligible.binding:
                return None
        if not all(e.numbers.isdisjoint(self._partial) for e in endings):
            return None
        return found.block if found.block.priority < eligible.priority else None

    def _survived(
        self, endings: Sequence[Ending], by_gang: dict[GangId, Ints]
    ) -> tuple[frozenset[int], dict[GangId, int]]:
        """Slots that may not go one by one, and how many of a gang may: what the Jobs survive.

        Of a Job with pods in several gangs, or in one that has other pods too, a certain few may go; of one with pods
        without a gang, those.
        """
        table = self._table
        barred: set[int] = set()
        caps: dict[GangId, int] = {}
        for job in (j for ending in endings for j in ending.jobs if j.limit < len(j.slots)):
            grouped = [s for s in job.slots if not table.alone[table.gang[s]]]
            gangs = {table.gang_ids[table.gang[s]] for s in grouped}
            if len(gangs) == 1 and len(grouped) == len(job.slots):
                (gang,) = gangs
                if len(by_gang[gang]) == len(grouped):
                    caps[gang] = job.limit
                    continue
            order = sorted(grouped, key=lambda s: (not self._eligible.ok[s], int(table.priority[s]), int(table.tie[s])))
            barred.update(order[job.limit if len(grouped) == len(job.slots) else 0 :])
        return frozenset(barred), caps

    def _alone_parts(self, ending: Ending) -> list[Part]:
        """The pods without a gang of each of its Jobs."""
        table = self._table
        out = []
        for job in ending.jobs:
            slots = [s for s in job.slots if table.alone[table.gang[s]]]
            if slots:
                single = [s for s in slots if self._eligible.ok[s]] if job.limit else []
                gang = min((table.gang_ids[table.gang[s]] for s in slots), key=by_key)
                ref = UnitRef(JOB, job.job.key)
                out.append(Part(gang, ref, slots, single, min(job.limit, len(slots)), 0, counts=False))
        return out


def _ref_of(membership: Membership, endings: Sequence[Ending], parts: list[Part], slots: Ints) -> UnitRef:
    """One gang, or one Job or JobSet, if that is all; else the gangs that it is of."""
    if len(parts) == 1 and parts[0].grouped:
        return parts[0].ref
    grouped = [part for part in parts if part.grouped]
    if not grouped or (len(endings) == 1 and len(endings[0].slots) == len(slots)):
        return UnitRef(family_of(endings[0].owner), endings[0].owner.key)
    return ref_of(membership, [part.gang for part in grouped])


class Departure(NamedTuple):
    """What leaves together: a whole ``block``; of a block some members of one gang (``part``); or a pod by itself."""

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
        numbers = np.flatnonzero(np.bincount(gangs[~alone]))
        complete: set[int] = set()
        sizes: dict[int, int] = {}  # how many live pods each gang has, those aside of which some are on their way out
        if len(numbers):
            count = int(numbers[-1]) + 1
            ok = np.bincount(table.gang[live[self.ok[live]]], minlength=count)[numbers]
            pods = np.bincount(table.gang[live])[numbers]
            sizes = dict(zip(numbers.tolist(), pods.tolist(), strict=True))
            for slot in self.condemned:
                sizes.pop(int(table.gang[slot]), None)
            complete = set(numbers[ok == pods].tolist()).intersection(sizes)
        left = numbers.tolist()
        if self.owners is not None and (table.job[: table.size] >= 0).any():
            jobs = JobBlocks(self, self.owners, complete)
            left, self.loose = jobs.left(self.takeable, left, self.loose)
            self.blocks += jobs.blocks
        if left:
            self._gangs(left, complete, sizes, live)

    def _gangs(self, numbers: list[int], complete: set[int], sizes: Mapping[int, int], live: Ints) -> None:
        """Blocks of the gangs with these numbers, in key order. Of ``complete`` ones all live pods may be taken."""
        ids, known, spec_of = self.snapshot.table.gang_ids, self.snapshot.table.known, self.membership.spec
        order = sorted(numbers, key=lambda n: by_key(ids[n]))
        ready: dict[int, Block] = {}
        for number in order:
            found: Known | None = known.get(number)
            if (
                found is not None
                and (number in complete or self._only_whole(found.block, sizes.get(number)))
                and found.block.priority < self.priority
                and found.options is self.options
                and ((spec := spec_of(ids[number])) is found.spec or spec == found.spec)
                and ids[number] not in self.own
                and ids[number] not in self.binding
            ):
                ready[number] = found.block
        bound = self._by_gang([n for n in numbers if n not in ready], live)
        done: set[int] = set()
        for number in order:
            if number in ready:
                self.blocks.append(ready[number])
            elif number not in done:
                done.update(self._make(number, bound, number in complete, sizes.get(number)))

    def _only_whole(self, block: Block, size: int | None) -> bool:
        """Is this what may be taken of a gang of so many pods, whichever of them could go by themselves: all of it?"""
        return (
            size == len(block.whole)
            and block.gangs is None
            and not self.young
            and all(len(part.bound) <= part.minimum for part in block.parts)
            and not self._never[block.array].any()
        )

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

    def _make(self, number: int, bound: dict[int, Ints], complete: bool, size: int | None) -> list[int]:
        """The block of one gang and those decided with it; returns their numbers."""
        table = self.snapshot.table
        gang = table.gang_ids[number]
        group, _ = self.membership.group(gang)
        numbers = [table.gang_number(g) for g in group]
        if self.own.intersection(group):
            return numbers
        if not self.binding.isdisjoint(group):
            self.spared.append((UnitRef("PodGroup", gang.key), causes.BEING_BOUND))
            return numbers
        before = len(self.blocks)
        by_gang = {g: bound[n] if n in bound else self.live(g) for g, n in zip(group, numbers, strict=True)}
        self._block(group, by_gang, max(numbers))
        if len(group) > 1 or len(self.blocks) == before or self.blocks[-1].priority >= self.priority:
            return numbers
        if complete or self._only_whole(self.blocks[-1], size):
            table.known[number] = Known(self.options, self.membership.spec(gang), self.blocks[-1])
        return numbers

    def _block(self, group: tuple[GangId, ...], by_gang: dict[GangId, Ints], number: int) -> None:
        parts: list[Part] = []
        late: list[int] = []
        takes_whole = False
        for gang in group:
            part, whole_too, young = self.part_of(gang, by_gang[gang])
            parts.append(part)
            late += young
            takes_whole |= whole_too
        whole = np.concatenate([by_gang[gang] for gang in group])
        priority = self.unit_priority(group, by_gang)
        ref = ref_of(self.membership, group)
        if takes_whole and not self.whole_allowed(whole, priority):
            self.spared.append((ref, causes.MEMBER_NOT_EVICTABLE))
            takes_whole = False
        if self.young:
            takes_whole = self.spare_young(ref, whole, late, takes_whole)
        if takes_whole or any(p.single for p in parts):
            slots = [s for part in parts for s in part.bound] if takes_whole else []
            array = whole if takes_whole else NO_SLOTS
            self.blocks.append(Block(number, ref, parts, slots, priority, array))

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
                of_blocks = np.repeat([b.priority for b in wholes], [len(b.array) for b in wholes])
                least[np.concatenate([b.array for b in wholes])] = of_blocks
            least[self.loose] = table.priority[self.loose]
            least[singles] = np.minimum(least[singles], table.priority[singles])
            slots = np.flatnonzero((least < _NEVER) & (table.row[: table.size] >= 0))
            self._leaving = slots, least[slots]
        return self._leaving

    def touched(self, taken: Collection[int]) -> list[Block]:
        """Blocks of which something is taken."""
        if self._blocks_by_gang is None:
            number_of = self.snapshot.table.gang_number
            self._blocks_by_gang = {b.number: b for b in self.blocks}
            several = (b for b in self.blocks if len(b.parts) > 1)
            self._blocks_by_gang.update({number_of(p.gang): b for b in several for p in b.parts})
            of_jobs = ((b, b.gangs) for b in self.blocks if b.gangs is not None)
            self._blocks_by_gang.update({n: b for b, numbers in of_jobs for n in numbers.tolist()})
        gang = self.snapshot.table.gang
        slots = np.fromiter(taken, dtype=np.int64, count=len(taken))
        numbers = distinct(gang[slots]).tolist()
        found = {b.number: b for n in numbers if (b := self._blocks_by_gang.get(n)) is not None}
        return sorted(found.values(), key=lambda b: b.parts[0].gang)

    def loose_taken(self, taken: Collection[int]) -> list[int]:
        """Those of the slots whose pods have no group."""
        slots = np.fromiter(taken, dtype=np.int64, count=len(taken))
        slots.sort()
        loose = np.zeros(self.snapshot.table.size, dtype=np.bool_)
        loose[self.loose] = True
        found: list[int] = slots[loose[slots]].tolist()
        return found

    def surplus(self, block: Block, works: Floats) -> list[int]:
        """Members that the block can do without, those of low priority and little work (``(slots,)``) first."""
        table = self.snapshot.table
        out: list[int] = []
        for part in block.parts:
            order = sorted(part.single, key=lambda s: (int(table.priority[s]), float(works[s]), int(table.tie[s])))
            out += order[: part.limit]
        return out

    # -- what a choice costs -------------------------------------------------------------------------------

    def departures(self, taken: set[int]) -> Iterator[Departure]:
        """What leaves together when these slots are taken: pods without a group, then block by block."""
        yield from (Departure([slot]) for slot in self.loose_taken(taken))
        for block in self.touched(taken):
            if self.is_whole(block, taken):
                yield Departure(block.whole, block)
                continue
            for part in block.parts:
                gone = [s for s in part.bound if s in taken]
                if part.grouped and gone:
                    yield Departure(gone, block, part)
                else:  # pods of a Job that survives this
                    yield from (Departure([slot]) for slot in gone)

    def losses(self, taken: set[int]) -> tuple[list[Loss], list[int]]:
        """``(losses, interrupted)`` of taking these slots, as :func:`~.harm.harm` wants them."""
        losses: list[Loss] = []
        interrupted: list[int] = []
        for slots, block, part in self.departures(taken):
            pods = map(self.pod, slots)
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
