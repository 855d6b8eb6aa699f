"""Why a pod is evicted, why another is spared or is never evicted, and why nothing helps, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice

import msgspec
import numpy as np

from gangsched.core.arrays import Bools, Ints, isin
from gangsched.core.decision import (
    BIND,
    MAX_MESSAGE,
    PREEMPT,
    WAIT,
    Awaited,
    Reason,
    Spared,
    UnitRef,
    Victim,
    beyond_budgets,
)
from gangsched.core.options import Options
from gangsched.core.preemption.blocks import Block
from gangsched.core.preemption.demand import FreeRoom, Resources
from gangsched.core.preemption.harm import Budgets, render_lost_work
from gangsched.core.preemption.search import Choice
from gangsched.core.preemption.units import Units
from gangsched.core.quota.preemption import REASON_TEXT
from gangsched.core.state.podtable import ASSUMED, PROTECTED, TERMINATING, PodClass, PodTable
from gangsched.core.state.simulation import Simulation
from gangsched.messages import causes
from gangsched.messages.text import are, join_names, pluralize
from gangsched.model.preemptible import BY_OWNER, OF_DAEMONSET, STATIC, protection
from gangsched.model.records import GangId, Pod
from gangsched.model.times import render_time

#: Why pods without a queue are evicted.
LOWER_PRIORITY = "LowerPriority"
#: A plan lists at most so many spared units: enough to understand it, not a copy of the cluster.
MAX_SPARED = 100


def victims(units: Units, choice: Choice, budgets: Budgets, options: Options) -> tuple[Victim, ...]:
    """The victims by namespace/name, each with its unit and why it goes."""
    taken = set(choice.taken)
    beyond = budgets.beyond([units.pod(s) for s in sorted(taken)]) if budgets else set()
    out = []
    for slots, block, part in units.departures(taken):
        whole = block is not None and part is None
        partial = part is not None and len(slots) < len(part.bound)
        reason = units.reasons.get(block.number, LOWER_PRIORITY) if block is not None else LOWER_PRIORITY
        texts: dict[int, str] = {}
        for slot in slots:
            pod = units.pod(slot)
            unit = part.ref if part is not None else block.ref if block is not None else UnitRef("Pod", pod.key)
            level = block.priority if block is not None and whole else pod.priority
            if level not in texts:
                lower = _why(unit, whole, partial, level, units.priority)
                text = lower if reason == LOWER_PRIORITY else _for_quota(unit, reason, partial=partial)
                texts[level] = text if block is None else _with_loss(text, units, slots)
            why = texts[level] if block is not None else _with_loss(texts[level], units, [slot])
            over, method = pod.uid in beyond, options.removal
            victim = Victim.of(pod, unit, why, partial=partial, over_budget=over, method=method, reason=reason)
            out.append(msgspec.structs.replace(victim, budgets=budgets.keys(pod)) if over else victim)
    return tuple(sorted(out, key=lambda v: v.key))


def _with_loss(text: str, units: Units, slots: Sequence[int]) -> str:
    """With the work that is lost with the unit, where its owner says something about that."""
    lost = (
        render_lost_work([units.pod(s) for s in slots], slots, units.unsaved, units.now)
        if units.unsaved is not None
        else ""
    )
    return f"{text}; {lost}" if lost else text


def _for_quota(unit: UnitRef, reason: str, *, partial: bool) -> str:
    """Kueue's words about the quota that it gives back."""
    said = REASON_TEXT[reason]
    if partial:
        return causes.rest_of_unit_runs(needed=said, unit_kind=unit.kind, unit=unit.name)
    return said if unit.kind == "Pod" else f"{said}{causes.and_unit_leaves(unit_kind=unit.kind, unit=unit.name)}"


def _why(unit: UnitRef, whole: bool, partial: bool, priority: int, preemptor: int) -> str:
    needed = causes.lower_priority(priority=priority, preemptor=preemptor)
    if whole:
        return causes.unit_leaves_whole(needed=needed, unit_kind=unit.kind, unit=unit.name)
    if unit.kind == "Pod":
        return needed
    if partial:
        return causes.rest_of_unit_runs(needed=needed, unit_kind=unit.kind, unit=unit.name)
    return causes.of_unit(needed=needed, unit_kind=unit.kind, unit=unit.name)


def spared(units: Units, choice: Choice, victims: Sequence[Victim]) -> tuple[Spared, ...]:
    """Return units that could have been evicted and were not, and those that can never be evicted. Of more than
    MAX_SPARED, units with an evicted part come first. Of pods not those that leave with their owner all the same.
    """
    listed = _listed(_spared(units, set(choice.taken)))
    pods = {s.unit.name for s in listed if s.unit.kind == "Pod"}
    leaving = {v.key for v in victims} if pods else set()
    return tuple(s for s in listed if s.unit.kind != "Pod" or s.unit.name not in leaving)


def _spared(units: Units, taken: set[int]) -> Iterator[Spared]:
    touched = units.touched(taken)
    yield from (Spared(b.ref, _only_some(b)) for b in touched if b.whole and not units.is_whole(b, taken))
    yield from (Spared(ref, reason) for ref, reason in units.spared)
    numbers = {b.number for b in touched}
    why = causes.FITS_WITHOUT_ITS_ROOM
    yield from (Spared(b.ref, why) for b in units.blocks if b.number not in numbers)
    yield from _loose(units, why, taken)


def _only_some(block: Block) -> str:
    if all(part.grouped for part in block.parts):
        return causes.ONLY_MEMBERS_BEYOND_MINIMUM
    return causes.LOSS_NOT_SURVIVED


def _loose(units: Units, reason: str, taken: Collection[int] = ()) -> Iterator[Spared]:
    """Return as many remaining pods without a group as are listed: those with the lowest hashes of their names. They do
    not depend on the order of arrival and are found faster than the first names.
    """
    slots = units.loose[~isin(units.loose, list(taken))]
    tie = units.snapshot.table.tie[slots]
    if len(slots) > MAX_SPARED:
        lowest = np.argpartition(tie, MAX_SPARED)[:MAX_SPARED]
        slots, tie = slots[lowest], tie[lowest]
    yield from (Spared(UnitRef("Pod", units.pod(s).key), reason) for s in slots[np.argsort(tie)].tolist())


def _listed(out: Iterable[Spared]) -> tuple[Spared, ...]:
    return tuple(sorted(islice(out, MAX_SPARED), key=lambda s: (s.unit.kind, s.unit.name)))


def not_considered(units: Units | None, in_the_way: Sequence[Spared] = ()) -> tuple[Spared, ...]:
    """Return units that were spared because no victims were found. Units ``in_the_way`` come first."""
    if units is None:
        return ()
    why = _why_none(units)
    blocks = (Spared(block.ref, why) for block in units.blocks)
    return _listed(chain(in_the_way, (Spared(ref, reason) for ref, reason in units.spared), blocks, _loose(units, why)))


def _why_none(units: Units) -> str:
    """What is known of units that could have been taken where none are."""
    if units.over_cap:
        return causes.NO_FEW_VICTIMS
    if units.over_budgets:
        return causes.NO_VICTIMS_WITHIN_BUDGETS
    if units.cut_short:
        return causes.SEARCH_CUT_SHORT
    return causes.EVICTING_DOES_NOT_HELP


def no_plan(units: Units | None, budgets: Budgets | None = None) -> str:
    """Why there is no set of victims. ``budgets`` are given where they may not be broken."""
    if units is not None and units.over_budgets:
        allowed = _budgets(units.over_budgets)
        text = causes.fits_only_beyond_budget(allowed=allowed)
        if units.unproven:
            text = causes.no_victims_within(allowed=allowed)
    elif units is None or units.empty:
        text = causes.NO_LOWER_PRIORITY_PODS
    elif units.cut_short:
        text = causes.NO_VICTIMS_BEFORE_CUT
    elif units.unproven:
        text = causes.NO_VICTIMS_FOUND
    else:
        count = len(units.everything())
        pods = causes.ONLY_LOWER_PRIORITY_POD if count == 1 else causes.all_lower_priority_pods(count=count)
        text = causes.would_not_fit_even_if(pods=pods)
    if units is not None and units.eligible_later and units.eligible_at is not None:
        run = "has" if units.eligible_later == 1 else "have"
        text += causes.and_minimum_run_times(
            units=pluralize(units.eligible_later, "unit"), run=run, time=render_time(units.eligible_at)
        )
    if units is not None and units.refused:
        slot = min(units.refused, key=lambda s: units.pod(s).key)
        text += causes.and_refused_removals(
            pods=pluralize(len(units.refused), "pod"), pod=units.pod(slot).key, why=units.refused[slot].why
        )
    kept = [units.pod(s) for s in sorted(units.inviolable - units.refused.keys())] if units is not None else []
    if kept and budgets is not None:
        names = sorted({b.key for p in kept for b in budgets.matching(p)})
        text += causes.and_kept_pods(pods=pluralize(len(kept), "further pod"), names=_budgets(names))
    return text


def message(nodes: int, reasons: Iterable[Reason], why_not: str, topology: str = "") -> str:
    """``0/N nodes are available: ...``, reasons in the order of their text, as kube-scheduler prints them."""
    parts = sorted(r.sentence for r in reasons)
    text = causes.nodes_available(nodes=nodes)
    text += f": {', '.join(parts)}." if parts else "."
    if why_not:
        text += f" preemption: {why_not if why_not.endswith('.') else why_not + '.'}"
    if topology:
        text += f" topology: {topology}."
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 4] + " ..."


def summary(outcome: str, placed: int, gone: Sequence[Victim], awaiting: Sequence[Awaited], lost: str = "") -> str:
    """One sentence for an outcome with placements. ``lost`` is the work that is lost, where that is known."""
    members = pluralize(placed, "member")
    if outcome == BIND:
        return causes.can_start_now(members=members)
    waits = pluralize(len(awaiting), "pod" if any(a.plan for a in awaiting) else "terminating pod")
    if outcome == WAIT:
        return causes.can_start_when(members=members, waits=waits, are=are(len(awaiting)))
    if outcome == PREEMPT:
        text = causes.can_start_after(members=members, pods=pluralize(len(gone), "pod"), are=are(len(gone)))
        text += beyond_budgets(gone)
        text += causes.and_gone(waits=waits, are=are(len(awaiting))) if awaiting else ""
        return f"{text}; {lost}" if lost else text
    return ""


def _budgets(names: Sequence[str]) -> str:
    """``PodDisruptionBudget ns/a allows`` or ``PodDisruptionBudgets ns/a, ns/b allow``; three are named at most."""
    if len(names) == 1:
        return f"PodDisruptionBudget {names[0]} allows"
    return f"PodDisruptionBudgets {join_names(names, 3)} allow"


#: So many are named in a message; the plan lists more.
_NAMED = 3
#: More than so many are not looked for: a gang of 1,000 that wants whole nodes can have 5,000 in its way (300 ms).
MOST_IN_THE_WAY = 100


def never_victims(table: PodTable) -> Ints:
    """Slots of the pods on nodes that are never victims, whatever the preemptor's priority is."""
    slots = table.occupied()
    flags = table.flags[slots]
    return np.asarray(slots[((flags & PROTECTED) != 0) & ((flags & (TERMINATING | ASSUMED)) == 0)])


def no_victims_anyway(table: PodTable, slots: Ints, own: Collection[GangId], priority: int, options: Options) -> Bools:
    """Return ``(n,)``: pods that would be no victims of a preemptor of this priority even without protection. These are
    pods of its own gangs, and marked pods whose priority is not lower.

    DaemonSet and static pods are not among them at any priority: people expect room on a node where nothing else runs.
    """
    out = isin(table.gang[slots], [table.gang_number(gang) for gang in own])
    high = table.priority[slots] >= priority
    pods = (table.pods[slot] for slot in slots[high].tolist())
    out[high] |= np.array([pod is not None and _reason(pod, options) in BY_OWNER for pod in pods], dtype=np.bool_)
    return out


def room_for(pod: PodClass, sim: Simulation, slots: Ints, usable: Bools) -> int:
    """On how many places on ``usable`` nodes there is room for a pod of this class once those in these slots have left.

    Many gangs wait in a full cluster: whether to try to place one without these pods has to be found out quickly.
    """
    index, amounts = sim.snapshot.vector(pod.shape)
    room = FreeRoom(Resources(sim, index))
    rows, held = room.held(slots)
    room.free[:, rows] += held
    return int((room.free[:, usable] // amounts[:, None]).min(axis=0).clip(min=0).sum())


def in_the_way(pods: Sequence[Pod], options: Options) -> list[Spared]:
    """Why each of them stays, by name."""
    return [Spared(UnitRef("Pod", p.key), _reason(p, options)) for p in sorted(pods, key=lambda p: p.key)]


def fits_without(pods: Sequence[Pod], options: Options) -> str:
    """``it would fit without 2 pods of DaemonSet kube-system/agent and static pod kube-system/x, which are never
    evicted``. From MOST_IN_THE_WAY pods on there may be more.
    """
    kinds = sorted(Counter(_kind(p, options) for p in pods).items())
    parts = [f"{pluralize(number, 'pod')} of {name}" if many else name for (name, many), number in kinds[:_NAMED]]
    if len(kinds) > _NAMED:
        parts.append(f"{sum(number for _, number in kinds[_NAMED:])} more")
    listed = " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]
    if len(pods) >= MOST_IN_THE_WAY:
        return causes.fits_without_many_protected(pods=listed)
    return causes.fits_without_protected(pods=listed, are="is" if len(pods) == 1 else "are")


def _kind(pod: Pod, options: Options) -> tuple[str, bool]:
    """Return the name of the pod here, and whether others share it: names of a DaemonSet's pods change."""
    why = _reason(pod, options)
    if why == OF_DAEMONSET and pod.owner is not None:
        return f"DaemonSet {pod.namespace}/{pod.owner.name}", True
    return f"{'static ' if why == STATIC else ''}pod {pod.key}", False


def _reason(pod: Pod, options: Options) -> str:
    return protection(pod, options.evict_daemonset_pods)
