"""The running pods that a preemptor may evict, singly or as part of a unit, and those that it may not evict yet."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gangsched.core.arrays import Bools, Ints, isin
from gangsched.core.decision import UnitRef
from gangsched.core.options import Options
from gangsched.core.preemption.blocks import ATOMIC, ELASTIC, MINIMAL, NO_SLOTS, OFF, Owners, Part, mode_of, ref_of
from gangsched.core.preemption.harm import Unsaved
from gangsched.core.preemption.loop_guard import LoopGuard
from gangsched.core.preemption.patience import Patience, member_too_young, too_young
from gangsched.core.state.membership import Membership
from gangsched.core.state.podtable import ASSUMED, PROTECTED, STARTING, TERMINATING
from gangsched.core.state.refused_removals import RefusedRemoval
from gangsched.core.state.snapshot import Snapshot
from gangsched.messages import causes
from gangsched.model.dialects import role_of
from gangsched.model.parts import members_to_keep, needed
from gangsched.model.records import SINGLE, Gang, GangId, Pod
from gangsched.model.times import render_time

#: At most so many pods without a group are listed as too young to be evicted.
MANY_YOUNG = 100


@dataclass(eq=False)
class Eligible:
    """The pods that may be taken by a preemptor of this ``priority``: only those of strictly lower ones. ``usable`` is
    ``(N,)``: nodes that some member could use; pods elsewhere are taken only as part of a whole unit. ``inviolable``
    are slots of pods that their disruption budgets do not let go, ``condemned`` those that are to leave anyway.
    ``binding`` are gangs of ours whose bindings are on their way; of those ``queued`` quota decides whose turn it is.
    ``patience`` says which pods have not run long enough at ``now``; ``eligible_at`` is then the first moment at which
    more may be taken, and ``later`` the number of units that wait for such a moment. ``spared`` says why others stay;
    ``owners`` whose pods end together, ``unsaved`` how much work is lost with whom, ``guard`` which workloads are
    spared where quota decides. ``refused`` says by slot of which pods the API server has refused the removal.

    ``ok`` ``(slots,)`` are pods that may be taken singly. ``live_slots`` are those of all that do not terminate.
    """

    snapshot: Snapshot
    membership: Membership
    options: Options
    own: frozenset[GangId]
    priority: int
    usable: Bools
    inviolable: frozenset[int] = frozenset()
    binding: frozenset[GangId] = frozenset()
    patience: Patience | None = None
    now: float = 0.0
    queued: Collection[GangId] = ()
    condemned: frozenset[int] = frozenset()
    owners: Owners | None = None
    unsaved: Unsaved | None = None
    guard: LoopGuard | None = None
    refused: Mapping[int, RefusedRemoval] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.inviolable = self.inviolable.union(self.refused)
        if self.patience is not None and not self.patience.longest:
            self.patience = None
        self.spared: list[tuple[UnitRef, str]] = []
        self.eligible_at: float | None = None
        self.eligible_later = 0
        self.young: dict[int, float] = {}
        self._late: set[int] = set()
        table = self.snapshot.table
        size = table.size
        columns = self.snapshot.columns
        slots = table.occupied()
        flags = table.flags[slots]
        if self.condemned:  # to a choice they terminate already
            flags = np.where(isin(slots, sorted(self.condemned)), flags | TERMINATING, flags)
        lower = table.priority[slots] < self.priority
        self.live_slots: Ints = slots[(flags & TERMINATING) == 0]
        healthy = columns.flag("ready") & ~columns.flag("deleting")
        rows = table.row[slots]
        takeable = lower & ((flags & (TERMINATING | PROTECTED | ASSUMED)) == 0) & healthy[rows] & self.usable[rows]
        if self.queued:
            takeable &= ~isin(table.gang[slots], [table.gang_number(gang) for gang in self.queued])
        if self.inviolable:
            takeable &= ~isin(slots, sorted(self.inviolable))
        # A preemptor whose Job is suspended to make room for it may not start, so its plan would come to nothing.
        beside = self.owners.beside(self.own) if self.owners is not None else []
        if beside:
            takeable &= ~isin(slots, beside)
        self.ok: Bools = np.zeros(size, dtype=np.bool_)
        self.ok[slots[takeable]] = True
        #: Return the pods that may be evicted, if they have run long enough.
        self.takeable: Ints = slots[takeable]
        self._never: Bools = table.priority[:size] >= self.priority
        self._never |= (table.flags[:size] & (PROTECTED | ASSUMED)) != 0
        self._never[[*self.inviolable, *beside]] = True
        for slot, (until, why) in sorted(self.refused.items()):
            pod = self.pod(slot)
            if pod.priority < self.priority and pod.gang not in self.own:
                text = causes.removal_refused(why=why, time=render_time(until))
                self.spared.append((UnitRef("Pod", pod.key), text))
                self.eligible_at = min(until, self.eligible_at or until)
        if self.patience is not None:
            self._find_young(slots[((flags & TERMINATING) == 0) & lower], self.patience)

    def _find_young(self, slots: Ints, patience: Patience) -> None:
        """Note which of these pods have not run long enough: none may be taken, nor a whole with one of them."""
        table = self.snapshot.table
        recent = (table.started[slots] + patience.longest > self.now) | ((table.flags[slots] & STARTING) != 0)
        seen = [table.slot_of[uid] for uid in patience.begun_lately(self.now) if uid in table.slot_of]
        if seen:
            recent |= isin(slots, seen)
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
        waiting = [until for until, _, _ in single if not math.isinf(until)]
        if waiting:
            self.wait_for(min(waiting), len(waiting))

    def wait_for(self, moment: float, units: int = 1) -> None:
        """More may be taken from this moment on, if it ever comes."""
        if math.isinf(moment):
            return
        self.eligible_later += units
        self.eligible_at = moment if self.eligible_at is None else min(self.eligible_at, moment)

    def live(self, gang: GangId) -> Ints:
        """Slots of the pods of a gang that take room and do not terminate."""
        table = self.snapshot.table
        members = self.membership.members.get(gang, {})
        found = [table.slot_of[uid] for uid in members if uid in table.slot_of]
        found = [s for s in found if table.row[s] >= 0 and not table.flags[s] & TERMINATING]
        return np.array([s for s in found if s not in self.condemned], dtype=np.int64)

    def unsaved_since(self, pod: Pod) -> float:
        """Since when the work of a pod is unsaved."""
        found = self.unsaved
        return pod.started if found is None else float(found.since[self.snapshot.table.slot_of[pod.uid]])

    def pod(self, slot: int) -> Pod:
        """The record in a slot that is in use."""
        pod = self.snapshot.table.pods[slot]
        if pod is None:
            raise ValueError(f"slot {slot} holds no pod")
        return pod

    def part_of(
        self,
        gang: GangId,
        slots: Ints,
        barred: Collection[int] = (),
        most: int | None = None,
        *,
        of_queue: Bools | None = None,
    ) -> tuple[Part, bool, list[int]]:
        """A gang with these slots, whether its mode allows evicting it whole, and those of its slots that could be
        evicted one by one after their minimum run time. ``barred`` may not go one by one, and no more than ``most``
        may. A gang of a queue is taken apart as far as its surplus goes, of those pods that are ``of_queue``.
        """
        spec = self.membership.spec(gang)
        mode = mode_of(spec, self.options)
        ok = self.ok
        if of_queue is not None:
            mode, ok = mode if mode == ELASTIC else ATOMIC, of_queue
        # A group whose object is gone says nothing about how few members it can live with: all of them.
        minimum = members_to_keep(spec)[0] if spec is not None else len(slots)
        bound, one_by_one = slots.tolist(), mode in (OFF, MINIMAL)
        surplus = max(0, len(bound) - minimum) if mode == ELASTIC else 0
        if surplus:
            barred = {*barred, *self._above_others(bound), *self._fragile(spec, bound)}
        able: list[int] = []
        if one_by_one or surplus:
            able = [s for s in slots[ok[slots]].tolist() if s not in barred]
        if surplus:
            able = self._beyond_roles(spec, slots, able)
        limit = len(able) if one_by_one else min(len(able), surplus)
        late: list[int] = []
        if self._late and (surplus or one_by_one):
            late = [s for s in bound if s in self._late and s not in barred]
        limit = limit if most is None else min(limit, most)
        part = Part(gang, ref_of(self.membership, (gang,)), bound, able if limit else [], limit, minimum, mode != OFF)
        return part, not one_by_one, late

    def _above_others(self, slots: Sequence[int]) -> list[int]:
        """Return the pods that own others of them, as a driver of Spark owns its executors, which
        are deleted with it.
        """
        above = {owner.uid for s in slots if (owner := self.pod(s).owner) is not None}
        return [s for s in slots if self.pod(s).uid in above]

    def _fragile(self, spec: Gang | None, slots: Sequence[int]) -> list[int]:
        """Return the pods without which the owner of the gang fails."""
        if spec is None or not spec.fragile:
            return []
        return [s for s in slots if role_of(self.pod(s), spec) in spec.fragile]

    def _beyond_roles(self, spec: Gang | None, slots: Ints, able: list[int]) -> list[int]:
        """Return the surplus pods of each role: the last ones."""
        roles = members_to_keep(spec)[1] if spec is not None else {}
        if spec is None or not (roles or spec.parts):
            return able
        left = Counter(role_of(self.pod(s), spec) for s in slots.tolist())
        left.subtract(needed(spec.parts, left, left) if spec.parts is not None else roles)
        out = []
        for slot in reversed(able):
            role = role_of(self.pod(slot), spec)
            if left[role] > 0:
                out.append(slot)
            left[role] -= 1
        return out[::-1]

    def spare_young(self, ref: UnitRef, whole: Ints, late: list[int], takes_whole: bool) -> bool:
        """Return True if the whole may be taken as far as the run time of its members is concerned. Otherwise record
        until when it is spared.

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

    def unit_priority(self, by_gang: Mapping[GangId, Ints], alone: Ints = NO_SLOTS) -> int:
        """Return the highest priority of the gangs, and of pods without a gang in the slots ``alone``. A gang without a
        priority counts by its members, which a class without admission may lower.
        """
        out: list[int] = self.snapshot.table.priority[alone].tolist()
        for gang, slots in by_gang.items():
            own = self.membership.own_priority(gang)
            if own is not None:
                out.append(own)
            elif len(slots):
                highest = self.snapshot.table.priority[slots].max()
                out.append(int(min(highest, self.membership.most_priority(gang))))
        return max(out, default=0)

    def queued_apart(self, group: Collection[GangId]) -> bool:
        """Return True if quota decides for none of these gangs whether it may be a victim."""
        return not self.queued or not any(gang in self.queued for gang in group)

    def whole_allowed(self, slots: Ints, priority: int) -> bool:
        """No member may be protected or of a priority that is not lower."""
        return len(slots) > 0 and priority < self.priority and not self._never[slots].any()
