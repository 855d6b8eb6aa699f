"""Victim units: what goes together or stays."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence

import numpy as np

from gangsched.core.arrays import Bools, Floats, Ints, distinct, isin, runs
from gangsched.core.decision import UnitRef
from gangsched.core.options import Options
from gangsched.core.preemption.blocks import (
    ELASTIC,
    MINIMAL,
    NO_SLOTS,
    OFF,
    Block,
    Known,
    Part,
    by_key,
    mode_of,
    ref_of,
)
from gangsched.core.preemption.harm import Loss
from gangsched.core.preemption.job_blocks import JobBlocks
from gangsched.core.preemption.owners import Owners
from gangsched.core.preemption.patience import Patience, member_too_young, too_young
from gangsched.core.state.membership import Membership
from gangsched.core.state.podtable import ASSUMED, PROTECTED, STARTING, TERMINATING
from gangsched.core.state.snapshot import Snapshot
from gangsched.model.records import SINGLE, Gang, GangId, Pod

#: At most so many pods without a group are listed as too young to be evicted.
MANY_YOUNG = 100


class Units:
    """The blocks that a preemptor may take from, and ``loose``: slots of pods without a group, each a unit by itself.

    ``priority`` is the preemptor's; only strictly lower ones are taken. ``usable`` is ``(N,)``: nodes that some
    member could use; pods elsewhere are taken only as part of a whole unit. ``inviolable`` are slots of pods that
    their disruption budgets do not let go, ``condemned`` those that are to leave anyway. ``binding`` are gangs of ours
    whose bindings are on their way. ``patience`` says which pods have not run long enough at ``now``; ``eligible_at``
    is then the first moment at which more may be taken, and ``later`` the number of units that wait for such a moment.
    ``owners`` says whose pods end together.
    """

    def __init__(  # noqa: PLR0913
        self,
        snapshot: Snapshot,
        membership: Membership,
        options: Options,
        own: Sequence[GangId],
        priority: int,
        usable: Bools,
        inviolable: frozenset[int] = frozenset(),
        binding: Collection[GangId] = (),
        patience: Patience | None = None,
        now: float = 0.0,
        queued: Collection[GangId] = (),
        condemned: Collection[int] = (),
        owners: Owners | None = None,
    ) -> None:
        self.snapshot = snapshot
        self.membership = membership
        self.options = options
        self.priority = priority
        self.own = frozenset(own)
        self.inviolable = inviolable
        #: Budgets without which there would be a choice, where they may not be broken.
        self.over_budgets: tuple[str, ...] = ()
        #: The search ended before it had found a choice, or that there is none.
        self.cut_short = False
        #: Nothing was found, and it is not proven that there is nothing.
        self.unproven = False
        self.binding = frozenset(binding)
        self._usable = usable
        self.blocks: list[Block] = []
        self.loose: Ints = np.zeros(0, dtype=np.int64)
        self._blocks_by_gang: dict[int, Block] | None = None
        self._everything: Ints | None = None
        self._never: Bools = np.zeros(0, dtype=np.bool_)
        self.ok: Bools = np.zeros(0, dtype=np.bool_)
        self.spared: list[tuple[UnitRef, str]] = []
        self.eligible_at: float | None = None
        self.later = 0
        self.patience = patience if patience is not None and patience.longest else None
        self.now = now
        self.young: dict[int, float] = {}
        self._late: set[int] = set()
        #: By number of a block: why it may be taken, where that is not its priority.
        self.reasons: dict[int, str] = {}
        self.added: dict[int, Block] = {}
        self.queued = queued
        self._owners = owners
        self._condemned = frozenset(map(int, condemned))
        self._build()

    # -- building ------------------------------------------------------------------------------------------

    def _build(self) -> None:
        table = self.snapshot.table
        columns = self.snapshot.columns
        slots = table.occupied()
        rows = table.row[slots]
        healthy = columns.flag("ready") & ~columns.flag("deleting")
        flags = table.flags[slots]
        if self._condemned:  # to a choice they terminate already
            gone = isin(slots, sorted(self._condemned))
            flags = np.where(gone, flags | TERMINATING, flags)
        takeable = (
            (table.priority[slots] < self.priority)
            & ((flags & (TERMINATING | PROTECTED | ASSUMED)) == 0)
            & healthy[rows]
            & self._usable[rows]
        )
        if self.queued:
            queued = sorted(table.gang_number(gang) for gang in self.queued)
            takeable &= ~np.isin(table.gang[slots], np.array(queued, dtype=np.int64))
        if self.inviolable:
            takeable &= ~np.isin(slots, np.array(sorted(self.inviolable), dtype=np.int64))
        if not takeable.any() and not (table.priority[slots] < self.priority).any():
            return
        live = (flags & TERMINATING) == 0
        gangs = table.gang[slots]
        self.ok = np.zeros(table.size, dtype=np.bool_)
        self.ok[slots[takeable]] = True
        size = table.size
        self._never = ((table.flags[:size] & (PROTECTED | ASSUMED)) != 0) | (table.priority[:size] >= self.priority)
        self._never[list(self.inviolable)] = True
        if self.patience is not None:
            self._find_young(slots[live & (table.priority[slots] < self.priority)], self.patience)
        ok = self.ok[slots]
        alone = table.alone[gangs]
        self.loose = slots[ok & alone]
        numbers = np.flatnonzero(np.bincount(gangs[takeable & ~alone]))
        complete: set[int] = set()
        if len(numbers):
            count = int(numbers[-1]) + 1
            whole = np.bincount(gangs[ok], minlength=count)[numbers] == np.bincount(gangs[live])[numbers]
            complete = set(numbers[whole].tolist()) - {int(table.gang[slot]) for slot in self._condemned}
        left = numbers.tolist()
        if self._owners is not None and (table.job[slots] >= 0).any():
            left = JobBlocks(self, self._owners, complete).add(slots[takeable], left)
        if left:
            self._gangs(left, complete, slots[live])

    def _find_young(self, slots: Ints, patience: Patience) -> None:
        """Note which of these pods have not run long enough: none may be taken, nor a whole with one of them."""
        table = self.snapshot.table
        recent = (table.started[slots] + patience.longest > self.now) | ((table.flags[slots] & STARTING) != 0)
        seen = [table.slot_of[uid] for uid in patience.begun_lately(self.now) if uid in table.slot_of]
        if seen:
            recent |= np.isin(slots, seen)
        specs: dict[GangId, Gang | None] = {}
        single: list[tuple[float, str, int]] = []
        for slot in slots[recent].tolist():
            pod = self.pod(slot)
            if pod.gang not in specs:
                specs[pod.gang] = self.membership.spec(pod.gang)
            until = patience.spared_until(pod, specs[pod.gang])
            if until <= self.now:
                continue
            self.young[slot] = until
            if self.ok[slot]:
                self.ok[slot] = False
                self._late.add(slot)
                if pod.gang.family == SINGLE:
                    single.append((until, pod.key, slot))
        for until, key, slot in heapq.nsmallest(MANY_YOUNG, single):
            self.spared.append((UnitRef("Pod", key), too_young(patience.minimum(self.pod(slot), None), until)))
        if single:
            self.wait_for(min(single)[0], len(single))

    def wait_for(self, moment: float, units: int = 1) -> None:
        """More may be taken from this moment on."""
        self.later += units
        self.eligible_at = moment if self.eligible_at is None else min(self.eligible_at, moment)

    def _gangs(self, numbers: list[int], complete: set[int], live: Ints) -> None:
        """Blocks of the gangs with these numbers, in key order. Of ``complete`` ones all live pods may be taken."""
        ids, known, spec_of = self.snapshot.table.gang_ids, self.snapshot.table.known, self.membership.spec
        order = sorted(numbers, key=lambda n: by_key(ids[n]))
        ready: dict[int, Block] = {}
        for number in order:
            found: Known | None = known.get(number) if number in complete else None
            if (
                found is not None
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
                done.update(self._make(number, bound, number in complete))

    def add(self, block: Block, reason: str) -> None:
        """One more block, which may be taken for this reason whatever its priority is."""
        self.blocks.append(block)
        self.reasons[block.number] = reason
        self.added[block.number] = block
        self._blocks_by_gang = self._everything = None

    def _by_gang(self, numbers: list[int], live: Ints) -> dict[int, Ints]:
        """Of these slots, those of each of these gangs."""
        gang = self.snapshot.table.gang
        asked = np.zeros(len(self.snapshot.table.gang_ids), dtype=np.bool_)
        asked[numbers] = True
        slots = live[asked[gang[live]]]
        order, starts, found = runs(gang[slots])
        return dict(zip(found.tolist(), np.split(slots[order], starts[1:]), strict=bool(len(order))))

    def _make(self, number: int, bound: dict[int, Ints], complete: bool) -> list[int]:
        """The block of one gang and those decided with it; returns their numbers."""
        table = self.snapshot.table
        gang = table.gang_ids[number]
        group, _ = self.membership.group(gang)
        numbers = [table.gang_number(g) for g in group]
        if self.own.intersection(group):
            return numbers
        if not self.binding.isdisjoint(group):
            self.spared.append((UnitRef("PodGroup", gang.key), "it is being bound"))
            return numbers
        before = len(self.blocks)
        by_gang = {g: bound[n] if n in bound else self.live(g) for g, n in zip(group, numbers, strict=True)}
        self._block(group, by_gang, max(numbers))
        if complete and len(group) == 1 and len(self.blocks) > before and self.blocks[-1].priority < self.priority:
            table.known[number] = Known(self.options, self.membership.spec(gang), self.blocks[-1])
        return numbers

    def live(self, gang: GangId) -> Ints:
        """Slots of the pods of a gang that take room and do not terminate."""
        table = self.snapshot.table
        members = self.membership.members.get(gang, {})
        found = [table.slot_of[uid] for uid in members if uid in table.slot_of]
        found = [s for s in found if table.row[s] >= 0 and not table.flags[s] & TERMINATING]
        return np.array([s for s in found if s not in self._condemned], dtype=np.int64)

    def pod(self, slot: int) -> Pod:
        """The record in a slot that is in use."""
        pod = self.snapshot.table.pods[slot]
        if pod is None:
            raise ValueError(f"slot {slot} holds no pod")
        return pod

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
        if takes_whole and not self.whole_allowed(whole, priority):
            self.spared.append((ref_of(parts), "it has a member that may not be evicted"))
            takes_whole = False
        if self.young:
            takes_whole = self.spare_young(ref_of(parts), whole, late, takes_whole)
        if takes_whole or any(p.single for p in parts):
            slots = whole.tolist() if takes_whole else []
            array = whole if takes_whole else NO_SLOTS
            self.blocks.append(Block(number, ref_of(parts), parts, slots, priority, array))

    def part_of(self, gang: GangId, slots: Ints, barred: Collection[int] = ()) -> tuple[Part, bool, list[int]]:
        """A gang with these slots, whether it may be taken whole as far as its mode is concerned, and those of its
        slots that could go one by one if they had run long enough. ``barred`` may not go one by one.
        """
        spec = self.membership.spec(gang)
        mode = mode_of(spec, self.options)
        # A group whose object is gone says nothing about how few members it can live with: all of them.
        minimum = spec.min_member if spec is not None else len(slots)
        able = [s for s in slots[self.ok[slots]].tolist() if s not in barred]
        limit = 0
        if mode in (OFF, MINIMAL):
            limit = len(able)
        elif mode == ELASTIC:
            limit = max(0, len(slots) - minimum)
        late: list[int] = []
        if self._late and (limit or mode in (OFF, MINIMAL)):
            late = [s for s in slots.tolist() if s in self._late and s not in barred]
        ref = UnitRef(spec.kind if spec is not None else "PodGroup", gang.key)
        part = Part(gang, ref, slots.tolist(), able if limit else [], limit, minimum, mode != OFF)
        return part, mode not in (OFF, MINIMAL), late

    def spare_young(self, ref: UnitRef, whole: Ints, late: list[int], takes_whole: bool) -> bool:
        """May the whole be taken, as far as the run time of its members is concerned? Says until when not.

        ``late`` are the members that could go one by one if they had run long enough.
        """
        keeping = [s for s in whole.tolist() if s in self.young] if takes_whole else []
        if self.patience is None or not (keeping or late):
            return takes_whole
        # A whole waits for the last of its members; members that go one by one do not wait for each other.
        slot = (max if keeping else min)(keeping or late, key=lambda s: (self.young[s], self.pod(s).key))
        pod = self.pod(slot)
        minimum = self.patience.minimum(pod, self.membership.spec(pod.gang))
        self.spared.append((ref, member_too_young(pod, minimum, self.young[slot])))
        self.wait_for(min(self.young[s] for s in (slot, *late)))
        return not keeping and takes_whole

    def unit_priority(self, group: tuple[GangId, ...], by_gang: dict[GangId, Ints]) -> int:
        """The highest of the gangs' own priorities or, where a gang has none, of its members'."""
        out = []
        for gang in group:
            spec = self.membership.spec(gang)
            if spec is not None and spec.priority is not None:
                out.append(spec.priority)
            elif len(by_gang[gang]):
                out.append(int(self.snapshot.table.priority[by_gang[gang]].max()))
        return max(out, default=0)

    def queued_apart(self, group: Collection[GangId]) -> bool:
        """Is it for none of these gangs that quota decides whose turn it is to leave?"""
        return not self.queued or not any(gang in self.queued for gang in group)

    def whole_allowed(self, slots: Ints, priority: int) -> bool:
        """No member may be protected or of a priority that is not lower."""
        return len(slots) > 0 and priority < self.priority and not self._never[slots].any()

    @property
    def empty(self) -> bool:
        """There is nothing that may be taken."""
        return not self.blocks and not len(self.loose)

    def everything(self) -> Ints:
        """All slots that may be taken, singly or as part of a whole."""
        if self._everything is None:
            listed = np.zeros(self.snapshot.table.size, dtype=np.bool_)
            for block in self.blocks:
                listed[block.array if block.whole else block.singles] = True
            listed &= self.snapshot.table.row[: len(listed)] >= 0
            self._everything = np.concatenate([np.flatnonzero(listed), self.loose])
        return self._everything

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

    def losses(self, taken: set[int]) -> tuple[list[Loss], list[int]]:
        """``(losses, interrupted)`` of taking these slots, as :func:`~.harm.harm` wants them."""
        pods = self.snapshot.table.pods
        losses: list[Loss] = []
        interrupted: list[int] = []
        losses.extend(Loss(pod, pod.priority) for s in self.loose_taken(taken) if (pod := pods[s]) is not None)
        for block in self.touched(taken):
            if self.is_whole(block, taken):
                interrupted.extend(block.priority for part in block.parts if part.counts)
                losses.extend([Loss(pod, block.priority) for s in block.whole if (pod := pods[s]) is not None])
                continue
            for part in block.parts:
                gone = [pod for s in part.bound if s in taken and (pod := pods[s]) is not None]
                losses.extend(Loss(pod, pod.priority) for pod in gone)
                if part.counts and gone and len(part.bound) - len(gone) < part.minimum:
                    interrupted.append(max(pod.priority for pod in gone))
        return losses, interrupted

    @staticmethod
    def is_whole(block: Block, taken: set[int]) -> bool:
        """True when the block counts as taken whole: all of it, and more than its surplus allows singly."""
        if not block.whole or not taken.issuperset(block.whole):
            return False
        return any(len(part.bound) > part.limit for part in block.parts)
