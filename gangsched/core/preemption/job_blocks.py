"""Blocks of the Jobs and JobSets that would end, with the gangs that have pods of theirs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from gangsched.core.arrays import Ints, distinct, isin
from gangsched.core.decision import UnitRef
from gangsched.core.preemption.blocks import NO_SLOTS, Block, Known, Part, by_key, ref_of
from gangsched.core.preemption.eligible import Eligible
from gangsched.core.preemption.owners import Ending, Owners, joined
from gangsched.core.state.jobs import family_of
from gangsched.core.state.podtable import TERMINATING
from gangsched.messages import causes
from gangsched.model.records import JOB, GangId


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
        ref = _ref_of(endings, parts, slots)
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


def _ref_of(endings: Sequence[Ending], parts: list[Part], slots: Ints) -> UnitRef:
    """One gang, or one Job or JobSet, if that is all; else the gangs that it is of."""
    if len(parts) == 1 and parts[0].grouped:
        return parts[0].ref
    grouped = [part for part in parts if part.grouped]
    if not grouped or (len(endings) == 1 and len(endings[0].slots) == len(slots)):
        return UnitRef(family_of(endings[0].owner), endings[0].owner.key)
    return ref_of(grouped)
