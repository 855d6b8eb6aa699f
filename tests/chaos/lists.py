"""Lists of victims that were begun: who is removed first, and why the others were let off.

A gang that has removed some of its list removes the rest, also when another process takes over in between. It lets the
others off, and may choose anew, only where something has changed for which the plan could not know: each such change is
an excuse for the moment between the plan's first nomination and the end of the list, and for the objects it touches.
"""

from __future__ import annotations

import math

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim import invariants
from gangsched.cluster.sim.history import Entry, History
from gangsched.cluster.sim.invariants import Round
from gangsched.cluster.sim.replay import ends_object
from gangsched.core.actions import Bind, Mark, Nominate, SelectNode, WithdrawNomination
from gangsched.model.records import Budget, Job, Pod
from tests.chaos.part_checks import RACE_SECONDS
from tests.chaos.play import Played

#: What happens to the list's own pods, to the gang's members, and to room on nodes.
_TOUCHES = (log.USER, log.KUBELET, log.JOB_CONTROLLER, log.JOBSET_CONTROLLER, log.DISRUPTION_CONTROLLER, log.POD_GC)


def second_lists(played: Played) -> list[str]:
    """Lists of which somebody was removed and somebody else was let off, although nothing had changed."""
    history = played.world.history
    return [
        f"{each.gang} has removed {len(each.removed)} of {len(each.marked)} (plan {each.plan}), and let off {names}"
        for each in invariants.rounds(history)
        if each.nominated and (names := _let_off(played, each)) and not _excused(played, each)
    ]


def _let_off(played: Played, each: Round) -> list[str]:
    """Victims that live under no mark any more, of a list of which somebody has been removed."""
    if not each.removed:
        return []
    history = played.world.history
    over = _over(history, each)
    standing = set(each.marked) - set(each.removed)
    out = []
    unmarked: set[str] = set()  # by others, and not marked again: another process cannot know of these
    for entry in history.entries[: over + 1]:
        if entry.uid not in standing or entry.kind != "Pod":
            continue
        if ends_object(entry) or (isinstance(entry.record, Pod) and not entry.record.live):
            standing.discard(entry.uid)
        elif entry.verb == log.MARK and entry.outcome == log.OK:
            if each.gang in _marked_for(entry):
                unmarked.discard(entry.uid)
        elif entry.verb == log.UNMARK and entry.actor != log.SCHEDULER:
            unmarked.add(entry.uid)
        elif entry.number <= min(each.removed.values()) or not _taken_back(entry) or entry.uid in unmarked:
            continue
        elif not _on_another_list(played, each, entry):
            out.append(entry.object)
    return out


def _marked_for(mark: Entry) -> list[str]:
    """The gangs for which a victim leaves by this mark."""
    found = invariants.owners_in(str(mark.detail.get("owners", "")), str(mark.detail["message"]))
    return [gang for gang, _ in found]


def _taken_back(entry: Entry) -> bool:
    """Has the scheduler taken a mark back? Those that others take back it writes again."""
    return entry.verb == log.UNMARK and entry.outcome == log.OK and entry.actor == log.SCHEDULER


def _on_another_list(played: Played, each: Round, unmark: Entry) -> bool:
    """Did the victim bear the mark of another gang when the process died that knew of both? Two plans may need the same
    pod to leave; the marks are what a process that comes after reads, and they had one list by then.
    """
    marks = (e for e in played.world.history.of(log.MARK) if e.uid == unmark.uid and e.number < unmark.number)
    last = max((e for e in marks if e.outcome == log.OK), key=lambda e: e.number, default=None)
    text = str(last.detail["message"]) if last is not None else ""
    if last is None or each.gang in _marked_for(last):
        return False
    wrote = [
        b.process
        for b in played.batches
        if b.at_seconds <= last.at_seconds
        and any(isinstance(a, Mark) and a.pod.uid == unmark.uid and a.message == text for a in b.actions)
    ]
    then = [b.process for b in played.batches if b.at_seconds <= unmark.at_seconds]
    return bool(wrote) and wrote[-1] != then[-1]


def _over(history: History, each: Round) -> int:
    """The number of the entry with which nobody follows the list any more."""
    unmarked = [
        e.number
        for e in history.of(log.UNMARK)
        if e.uid in each.marked and e.number > min(each.removed.values()) and _taken_back(e)
    ]
    return min(unmarked, default=len(history.entries) - 1)


def _excused(played: Played, each: Round) -> bool:
    """Has anything changed between the first nomination and the end of the list that is no doing of its own?"""
    history = played.world.history
    over = _over(history, each)
    began, ended = history.entries[min(each.nominated.values())].at_seconds, history.entries[over].at_seconds
    if ended - began >= played.scenario.options.timeout_seconds:
        return True
    if _outbid(played, each, began - RACE_SECONDS, ended) or _relieved(played, each, ended):
        return True
    if _weaker_evicts(played, each, began, ended):
        return True
    window = (e for e in history.entries[: over + 1] if e.at_seconds >= began - RACE_SECONDS)
    return any(_matters(entry, each) for entry in window)


def _outbid(played: Played, each: Round, since: float, until: float) -> bool:
    """Did the scheduler ask for room for a gang of higher priority in this time, and begin to keep it from the list's
    own? What has become of that since does not matter.
    """
    gang_of, decided, own = _gangs(played, each, -math.inf)
    stronger = {gang for gang, priority in decided if priority > own and gang != each.gang}
    asked = (a for batch in played.batches if since <= batch.at_seconds <= until for a in batch.actions)
    return any(isinstance(a, Nominate | Bind | SelectNode) and gang_of.get(a.pod.uid) in stronger for a in asked)


def _weaker_evicts(played: Played, each: Round, since: float, until: float) -> bool:
    """Were others evicted in this time for a gang of lower priority? That room is the list's own, as long as it wants
    it, and some victims may not be needed any more.
    """
    _, decided, own = _gangs(played, each, -math.inf)
    weaker = {gang for gang, priority in decided if priority < own}
    removals = played.world.history.of(log.DELETE, log.EVICT, actor=log.SCHEDULER)
    return any(
        since <= e.at_seconds <= until and e.outcome == log.OK and e.uid not in each.marked
        for e in removals
        if invariants.preemptor_of(str(e.detail.get("mark", ""))) in weaker
    )


def _relieved(played: Played, each: Round, until: float) -> bool:
    """Did the scheduler give up, after the list was made and until this time, the nomination of a gang of at least its
    priority that had been nominated before? That room was not there for the list's own, and when it is, some victims
    are not needed any more.
    """
    gang_of, decided, own = _gangs(played, each, math.inf)
    before = {gang for gang, priority in decided if priority >= own and gang != each.gang}
    made, stood = False, set()
    for action in (a for batch in played.batches if batch.at_seconds <= until for a in batch.actions):
        if isinstance(action, Nominate) and action.pod.uid in each.nominated and action.plan == each.plan:
            made = True
        elif isinstance(action, Nominate) and not made and gang_of.get(action.pod.uid) in before:
            stood.add(action.pod.uid)
        elif isinstance(action, WithdrawNomination) and action.pod.uid in stood:
            stood.discard(action.pod.uid)
            if made:
                return True
    return False


def _gangs(played: Played, each: Round, unknown: float) -> tuple[dict[str, str], list[tuple[str, int]], float]:
    """The gang of each pod (by UID), the gangs that were decided with their priorities, and the lowest with which the
    list's own was, if it was at all.
    """
    gang_of = {e.uid: e.record.gang.key for e in played.world.history if isinstance(e.record, Pod)}
    decided = [(d.gang.key, d.priority) for d in played.decisions]
    return gang_of, decided, min((priority for gang, priority in decided if gang == each.gang), default=unknown)


def _matters(entry: Entry, each: Round) -> bool:
    """May this have made a plan impossible, or needless?"""
    if entry.actor == log.SCHEDULER:
        wrote = entry.verb in (log.DELETE, log.EVICT, log.NOMINATE, log.BIND, log.MARK)
        ours = entry.uid in each.marked or entry.uid in each.nominated
        return wrote and (
            (ours and entry.outcome not in (log.OK, "transient")) or (not ours and entry.verb == log.BIND)
        )
    if entry.actor not in _TOUCHES:
        return False
    if entry.uid in each.removed:
        return entry.actor == log.USER  # the others leave as they were told to
    if isinstance(entry.record, Job | Budget) or entry.kind in ("Node", "PodGroup", "PodDisruptionBudget"):
        return entry.actor == log.USER
    if not isinstance(entry.record, Pod) and not ends_object(entry):
        return entry.actor == log.USER
    frees = ends_object(entry) or (isinstance(entry.record, Pod) and not entry.record.live)
    return entry.actor == log.USER or frees
