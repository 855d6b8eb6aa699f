"""Which running pods a preemptor may take, singly or as part of a whole, and which not yet.

*Patience* is how long a victim has run at least, and how long a gang waits before it evicts. Both are off by default.
Annotations of a PriorityClass go over the configuration. A group with a PriorityClass of its own has it for its
members. Pods of a class may also tolerate preemption by some priorities for a time
(:mod:`gangsched.model.preemptible`), which is one more minimum run time.

The *loop guard* spares workloads where quota decides, so that no eviction leads in a circle back to the first: quota
lets a workload evict another whose pods have a higher priority than its own. Where these may evict a third, which may
evict the first, all would take turns for ever.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from gangsched.core.arrays import Bools, Ints, isin
from gangsched.core.decision import UnitRef
from gangsched.core.options import Options
from gangsched.core.preemption.blocks import ATOMIC, ELASTIC, MINIMAL, NO_SLOTS, OFF, Owners, Part, mode_of, ref_of
from gangsched.core.preemption.harm import Unsaved
from gangsched.core.quota.assignment import QuotaAssignment
from gangsched.core.state.membership import Membership
from gangsched.core.state.podtable import ASSUMED, PROTECTED, STARTING, TERMINATING
from gangsched.core.state.sightings import RefusedRemoval, unit_of
from gangsched.core.state.snapshot import Snapshot
from gangsched.core.world.world import World
from gangsched.messages import causes
from gangsched.messages.text import counted
from gangsched.model.dialects import role_of
from gangsched.model.dialects.objects import preemption_delay
from gangsched.model.parts import kept, needed
from gangsched.model.preemptible import TOLERATION_SECONDS
from gangsched.model.queues import foreign_queue
from gangsched.model.records import SINGLE, Gang, GangId, Pod, PriorityClass
from gangsched.model.times import render_duration, render_time

#: Of a pod whose class has a negative toleration.
FOR_EVER = causes.TOLERATES_PREEMPTION


class Patience:
    """Answers both questions for one state of the cluster. ``classes`` are the PriorityClasses by name.

    A preemptor of this ``priority`` may find that pods tolerate it for a time, or for ever. ``queue`` is its queue, if
    that is one of another API: such queues may protect their pods from those of the same queue, and from others.

    ``seen`` has, by UID and in the order of the times, when pods were seen to begin to run: by the scheduler's clock,
    so it takes precedence over their stamps, which are of the API server's. Others have only those.
    """

    def __init__(
        self,
        membership: Membership,
        classes: Mapping[str, PriorityClass],
        options: Options,
        seen: dict[str, float] | None = None,
        priority: int = 2**31,
        queue: str = "",
    ) -> None:
        self._membership = membership
        self._priority = priority
        self._seen = {} if seen is None else seen
        self._classes = classes
        self._options = options
        self._queue = queue
        own = [max(c.minimum_run_time_seconds or 0.0, self._toleration(c)) for c in classes.values()]
        own += [seconds for both in membership.minimum_run_times.values() for seconds in both]
        #: No pod has to run longer than this, in seconds; it may be infinite.
        self.longest = max([options.minimum_run_time_seconds, *own])

    # -- victims -------------------------------------------------------------------------------------------

    def minimum(self, pod: Pod, spec: Gang | None) -> float:
        """Seconds that a pod of this gang runs before it may be evicted."""
        found = self._classes.get((spec.priority_class if spec is not None else "") or pod.priority_class)
        own = found.minimum_run_time_seconds if found is not None else None
        own = self._options.minimum_run_time_seconds if own is None else own
        if spec is not None and self._membership.minimum_run_times:
            queue = foreign_queue(spec.family, spec.queue_name)
            of_queue = self._membership.minimum_run_times.get(queue, (0.0, 0.0))
            own = max(own, of_queue[0 if queue == self._queue else 1])
        return own if found is None else max(own, self._toleration(found))

    def _toleration(self, found: PriorityClass) -> float:
        """Seconds for which pods of this class tolerate preemption by this preemptor."""
        if self._priority >= found.preemptable_from:
            return 0.0
        for_ever = math.isinf(found.toleration_seconds) and TOLERATION_SECONDS in self._options.ignore_keys
        return 0.0 if for_ever else found.toleration_seconds

    def spared_until(self, pod: Pod, spec: Gang | None) -> float:
        """The moment from which the pod may be evicted, as far as its run time is concerned."""
        minimum = self.minimum(pod, spec)
        return self._seen.get(pod.uid, pod.runs_since) + minimum if minimum else 0.0

    def begun_lately(self, now: float) -> list[str]:
        """UIDs of the pods that were seen to begin so lately that a minimum may not be over yet."""
        return list(takewhile(lambda uid: self._seen[uid] + self.longest > now, reversed(self._seen)))

    # -- preemptors ----------------------------------------------------------------------------------------

    def delay(self, pending: Mapping[GangId, Sequence[Pod]]) -> float:
        """Seconds that gangs with these pending members, decided together, wait before they evict.

        It is the longest that any of them asks for.
        """
        return max((self._delay(gang, pods) for gang, pods in pending.items()), default=0.0)

    def _delay(self, gang: GangId, pods: Sequence[Pod]) -> float:
        spec = self._membership.spec(gang)
        if spec is not None and spec.preemption_delay_seconds is not None:
            return spec.preemption_delay_seconds
        own = [seconds for p in pods if (seconds := preemption_delay(p.hints)) is not None]
        if own:
            return max(own)
        names = {spec.priority_class} if spec is not None and spec.priority_class else {p.priority_class for p in pods}
        found = [self._class_delay(name) for name in names]
        return max(found, default=self._options.preemption_delay_seconds)

    def _class_delay(self, name: str) -> float:
        found = self._classes.get(name)
        own = found.preemption_delay_seconds if found is not None else None
        return self._options.preemption_delay_seconds if own is None else own


def too_young(seconds: float, until: float) -> str:
    """Why a pod is spared for now."""
    if math.isinf(until):
        return f"it {FOR_EVER}"
    return causes.minimum_run_time(duration=render_duration(seconds), time=render_time(until))


def member_too_young(pod: Pod, seconds: float, until: float) -> str:
    """Why a unit is spared for now: ``pod`` is the member that keeps it longest."""
    if math.isinf(until):
        return causes.member(pod=pod.key, why=FOR_EVER)
    late = causes.not_run_for_minimum(duration=render_duration(seconds))
    return causes.member_protected_until(pod=pod.key, late=late, time=render_time(until))


def delayed(seconds: float, until: float) -> str:
    """Why a gang does not evict yet."""
    return causes.preemption_delay(duration=render_duration(seconds), time=render_time(until))


class Spared(NamedTuple):
    """Why a workload is, and until when (seconds); 0: as long as priorities are what they are."""

    why: str
    until: float


class LoopGuard:
    """What one preemptor must not take; its pods have this ``priority``. A unit that was evicted ``limit`` times in an
    hour is protected (0: never).
    """

    def __init__(self, world: World, gate: QuotaAssignment, priority: int, limit: int, now: float) -> None:
        self._evictions = world.evictions
        self._holders = gate.managed.quota.holders.by_uid
        self._workload = gate.workload
        self._nodes_alone = not gate.mode.needs_preemption
        self._priority = priority
        self._limit = limit
        self._now = now

    def spares(self, uid: str, priority: int, pods: Sequence[Pod]) -> Spared | None:
        """Is the workload with this UID, whose pods have this priority, not to be evicted?"""
        holder = self._holders.get(uid)
        if self._priority > priority and (holder is None or self._workload.priority > holder.priority):
            return None
        if self._nodes_alone:
            why = causes.QUOTA_SUFFICES
            return Spared(causes.of_pods_and_queue(why=why), 0.0)
        units = {unit_of(pod) for pod in pods} if self._limit else ()
        until = max((self._evictions.protected_until(unit, self._limit, self._now) for unit in units), default=0.0)
        if until <= self._now:
            return None
        times = max(self._evictions.times(unit, self._now) for unit in units)
        why = causes.evicted_often(times=counted(times, "time"))
        return Spared(causes.evictable_again(why=why, time=render_time(until)), until)


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
        self.later = 0
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
        self.ok: Bools = np.zeros(size, dtype=np.bool_)
        self.ok[slots[takeable]] = True
        #: Those that may be taken, if they have run long enough.
        self.takeable: Ints = slots[takeable]
        self._never: Bools = table.priority[:size] >= self.priority
        self._never |= (table.flags[:size] & (PROTECTED | ASSUMED)) != 0
        self._never[list(self.inviolable)] = True
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
        self.later += units
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
        """A gang with these slots, whether it may be taken whole as far as its mode is concerned, and those of its
        slots that could go one by one if they had run long enough. ``barred`` may not go one by one, and no more than
        ``most`` may. A gang of a queue is taken apart as far as its surplus goes, of those pods that are ``of_queue``.
        """
        spec = self.membership.spec(gang)
        mode = mode_of(spec, self.options)
        ok = self.ok
        if of_queue is not None:
            mode, ok = mode if mode == ELASTIC else ATOMIC, of_queue
        # A group whose object is gone says nothing about how few members it can live with: all of them.
        minimum = kept(spec)[0] if spec is not None else len(slots)
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
        """Those that own others of them, as a driver of Spark its executors: once it is gone they are deleted too."""
        above = {owner.uid for s in slots if (owner := self.pod(s).owner) is not None}
        return [s for s in slots if self.pod(s).uid in above]

    def _fragile(self, spec: Gang | None, slots: Sequence[int]) -> list[int]:
        """Those without which the owner of the gang fails, whatever is left of it."""
        if spec is None or not spec.fragile:
            return []
        return [s for s in slots if role_of(self.pod(s), spec) in spec.fragile]

    def _beyond_roles(self, spec: Gang | None, slots: Ints, able: list[int]) -> list[int]:
        """Those that the gang does not need of their role: the last of each."""
        roles = kept(spec)[1] if spec is not None else {}
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

    def unit_priority(self, by_gang: Mapping[GangId, Ints], alone: Ints = NO_SLOTS) -> int:
        """The highest of the gangs' own priorities or, where a gang has none, of its members', which a class that
        nothing has admitted may lower; and of those of pods without a gang in the slots ``alone``.
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
        """Is it for none of these gangs that quota decides whose turn it is to leave?"""
        return not self.queued or not any(gang in self.queued for gang in group)

    def whole_allowed(self, slots: Ints, priority: int) -> bool:
        """No member may be protected or of a priority that is not lower."""
        return len(slots) > 0 and priority < self.priority and not self._never[slots].any()
