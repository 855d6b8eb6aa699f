"""Victim units: what goes together or stays.

A *block* is everything that may be taken of one gang (of one GangGroup, of one single pod): single pods up to a
limit per gang, or the whole, everywhere in the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from gangsched.core.decision import UnitRef
from gangsched.core.membership import Membership
from gangsched.core.options import Options
from gangsched.core.podtable import ASSUMED, PROTECTED, TERMINATING
from gangsched.core.preemption.harm import Loss
from gangsched.core.snapshot import Bools, Snapshot
from gangsched.model.records import SINGLE, Gang, GangId, Pod

OFF, MINIMAL, ATOMIC, ELASTIC = "off", "minimal", "atomic", "elastic"


class Part(msgspec.Struct):
    """One gang inside a block.

    ``bound`` are the slots of its bound, live pods; ``single`` those of them that may be taken one by one, at
    most ``limit`` of them; ``minimum`` is its min_member. ``counts`` is False where groups are ignored.
    """

    gang: GangId
    ref: UnitRef
    bound: list[int]
    single: list[int]
    limit: int
    minimum: int
    counts: bool = True


class Block(msgspec.Struct):
    """What may be taken together. ``whole`` are all its slots, or empty when it cannot be taken whole.

    ``priority`` is that of the whole unit; ``ref`` names the whole unit.
    """

    number: int
    ref: UnitRef
    parts: list[Part]
    whole: list[int]
    priority: int

    @property
    def singles(self) -> list[int]:
        """Slots that may be taken one by one (each part up to its limit)."""
        return [s for part in self.parts for s in part.single]


class Units:
    """The blocks that a preemptor may take from.

    ``priority`` is the preemptor's; only strictly lower ones are taken. ``usable`` is ``(N,)``: nodes that some
    member could use; pods elsewhere are taken only as part of a whole unit. ``inviolable`` are slots of pods that
    their disruption budgets do not let go.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        membership: Membership,
        options: Options,
        own: Sequence[GangId],
        priority: int,
        usable: Bools,
        inviolable: frozenset[int] = frozenset(),
    ) -> None:
        self.snapshot = snapshot
        self.membership = membership
        self.options = options
        self.priority = priority
        self._own = frozenset(own)
        self._inviolable = inviolable
        self._usable = usable
        self.blocks: list[Block] = []
        self.spared: list[tuple[UnitRef, str]] = []
        self._build()

    # -- building ------------------------------------------------------------------------------------------

    def _build(self) -> None:
        table = self.snapshot.table
        columns = self.snapshot.columns
        slots = table.occupied()
        rows = table.row[slots]
        healthy = columns.flag("ready") & ~columns.flag("deleting")
        flags = table.flags[slots]
        takeable = (
            (table.priority[slots] < self.priority)
            & ((flags & (TERMINATING | PROTECTED | ASSUMED)) == 0)
            & healthy[rows]
            & self._usable[rows]
        )
        if self._inviolable:
            takeable &= ~np.isin(slots, np.array(sorted(self._inviolable), dtype=np.int64))
        if not takeable.any() and not (table.priority[slots] < self.priority).any():
            return
        live = (flags & TERMINATING) == 0
        wanted = np.unique(table.gang[slots[takeable]])
        # One pass groups the live pods of the gangs in question; the rest of the cluster is not walked.
        mine = live & np.isin(table.gang[slots], wanted)
        bound: dict[int, list[int]] = {}
        for slot, number in zip(slots[mine].tolist(), table.gang[slots[mine]].tolist(), strict=True):
            bound.setdefault(number, []).append(slot)
        single_ok = set(slots[takeable].tolist())
        done: set[GangId] = set()
        gangs = sorted(
            (table.gang_ids[n] for n in wanted.tolist()), key=lambda g: (g.namespace, g.name, g.family, g.scheduler)
        )
        for gang in gangs:
            if gang in done:
                continue
            if gang.family == SINGLE:
                self._single_pod(gang, bound[table.gang_number(gang)])
                continue
            group, _ = self.membership.group(gang)
            done.update(group)
            if self._own.intersection(group):
                continue
            by_gang = {g: self._sorted(bound.get(table.gang_number(g)) or self._find(g)) for g in group}
            self._block(group, by_gang, single_ok)

    def _single_pod(self, gang: GangId, slots: list[int]) -> None:
        if gang in self._own:
            return
        ref = UnitRef("Pod", gang.key)
        part = Part(gang, ref, slots, slots, 1, 1, False)
        self.blocks.append(Block(len(self.blocks), ref, [part], [], int(self.snapshot.table.priority[slots[0]])))

    def _sorted(self, slots: list[int]) -> list[int]:
        return sorted(slots, key=lambda s: self.pod(s).name)

    def _find(self, gang: GangId) -> list[int]:
        table = self.snapshot.table
        members = self.membership.members.get(gang, {})
        found = [table.slot_of[uid] for uid in members if uid in table.slot_of]
        return [s for s in found if table.row[s] >= 0 and not table.flags[s] & TERMINATING]

    def pod(self, slot: int) -> Pod:
        """The record in a slot that is in use."""
        pod = self.snapshot.table.pods[slot]
        if pod is None:
            raise ValueError(f"slot {slot} holds no pod")
        return pod

    def _mode(self, spec: Gang | None) -> str:
        mode = self.options.gang_mode
        if spec is not None and spec.disruption == "gang":
            return ATOMIC
        if spec is not None and spec.disruption == "pod" and self.options.pod_disruption_mode == "honor":
            return OFF if mode == OFF else MINIMAL
        return mode

    def _block(self, group: tuple[GangId, ...], by_gang: dict[GangId, list[int]], single_ok: set[int]) -> None:
        parts: list[Part] = []
        takes_whole = False
        for gang in group:
            spec = self.membership.spec(gang)
            bound = by_gang[gang]
            mode = self._mode(spec)
            # A group whose object is gone says nothing about how few members it can live with: all of them.
            minimum = spec.min_member if spec is not None else len(bound)
            single = [s for s in bound if s in single_ok]
            if mode in (OFF, MINIMAL):
                limit = len(single)
            elif mode == ELASTIC:
                limit = max(0, len(bound) - minimum)
                takes_whole = True
            else:
                limit = 0
                takes_whole = True
            ref = UnitRef(spec.kind if spec is not None else "PodGroup", gang.key)
            parts.append(Part(gang, ref, bound, single if limit else [], limit, minimum, mode != OFF))
        whole: list[int] = []
        priority = self._unit_priority(group, by_gang)
        if takes_whole:
            whole = [s for gang in group for s in by_gang[gang]]
            if not self._whole_allowed(whole, priority):
                self.spared.append((self._ref(parts), "it has a member that may not be evicted"))
                whole = []
        if whole or any(p.single for p in parts):
            self.blocks.append(Block(len(self.blocks), self._ref(parts), parts, whole, priority))

    @staticmethod
    def _ref(parts: list[Part]) -> UnitRef:
        if len(parts) == 1:
            return parts[0].ref
        return UnitRef("GangGroup", ",".join(p.ref.name for p in parts))

    def _unit_priority(self, group: tuple[GangId, ...], by_gang: dict[GangId, list[int]]) -> int:
        """The highest of the gangs' own priorities or, where a gang has none, of its members'."""
        out = []
        for gang in group:
            spec = self.membership.spec(gang)
            if spec is not None and spec.priority is not None:
                out.append(spec.priority)
            else:
                out.extend(self.pod(s).priority for s in by_gang[gang])
        return max(out, default=0)

    def _whole_allowed(self, slots: list[int], priority: int) -> bool:
        table = self.snapshot.table
        return (
            bool(slots)
            and priority < self.priority
            and not any(table.flags[s] & (PROTECTED | ASSUMED) for s in slots)
            and not any(table.priority[s] >= self.priority for s in slots)
            and not any(s in self._inviolable for s in slots)
        )

    def block_of(self, slot: int) -> Block:
        """The block that a slot belongs to."""
        return next(b for b in self.blocks if any(slot in p.bound for p in b.parts))

    # -- what a choice costs -------------------------------------------------------------------------------

    def losses(self, taken: set[int]) -> tuple[list[Loss], list[int]]:
        """``(losses, interrupted)`` of taking these slots, as :func:`~.harm.harm` wants them."""
        losses: list[Loss] = []
        interrupted: list[int] = []
        for block in self.blocks:
            mine = [s for part in block.parts for s in part.bound if s in taken]
            if not mine:
                continue
            if block.whole and self.is_whole(block, taken):
                interrupted.extend([block.priority] * len(block.parts))
                losses.extend(Loss(self.pod(s), block.priority) for s in mine)
                continue
            losses.extend(Loss(self.pod(s), self.pod(s).priority) for s in mine)
            for part in block.parts:
                gone = [s for s in part.bound if s in taken]
                if part.counts and gone and len(part.bound) - len(gone) < part.minimum:
                    interrupted.append(max(self.pod(s).priority for s in gone))
        return losses, interrupted

    @staticmethod
    def is_whole(block: Block, taken: set[int]) -> bool:
        """True when the block counts as taken whole: all of it, and more than its surplus allows singly."""
        if not block.whole or not all(s in taken for s in block.whole):
            return False
        return any(len(part.bound) > part.limit for part in block.parts)

    def victim_unit(self, slot: int, taken: set[int], block: Block) -> tuple[UnitRef, bool]:
        """``(unit, partial)`` of one victim: the whole block or its own gang, and whether live members stay."""
        if len(block.parts) > 1 and self.is_whole(block, taken):
            return block.ref, False
        part = next(p for p in block.parts if slot in p.bound)
        return part.ref, any(s not in taken for s in part.bound)
