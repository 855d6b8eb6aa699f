"""What evictions may not do together, checked on a history after the fact: see :mod:`.invariants`.

Plans that are made in one moment share budgets and gangs. Whatever each of them says, all of them together leave no
gang behind of which too few members run, and take no more of a budget than was planned.

Where queues are drained the marks are the intent: a pod that leaves for a queue bears its mark, all pods of its
workload bore theirs before the first one left, and the queue was being drained then.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.controllers import desired_healthy, selects
from gangsched.cluster.sim.history import (
    Entry,
    History,
    drained_by,
    drained_queue,
    ends_object,
    minimum_of,
    removal,
    rolled_back_for,
)
from gangsched.core.events import Outcome
from gangsched.core.options import Options
from gangsched.core.preemption.blocks import ATOMIC, ELASTIC, MINIMAL, mode_of
from gangsched.model.dialects import gang_from_member
from gangsched.model.queues import STOP_DRAIN, ClusterQueue, LocalQueue
from gangsched.model.records import SINGLE, Budget, Gang, GangId, Pod

#: What others have done is known so late at most: a plan that was carried out by then could not heed it (seconds).
_KNOWN_SECONDS = 1.0
#: The API server does not let the pod go: by what a budget or an admission plug-in says, or its mark is gone.
_REFUSED = (Outcome.BLOCKED, Outcome.REFUSED, Outcome.CONFLICT)


def broken_gangs(history: History, options: Options) -> list[str]:
    """Gangs that evictions for others brought below their minimum, and of which members run on at the end, with those
    of their GangGroup. Only gangs that leave as a whole then, and not where the API refused to let the others go.
    """
    objects: dict[tuple[str, str, str], Gang] = {}
    known: dict[str, Pod] = {}
    running: dict[GangId, set[str]] = defaultdict(set)
    lost_at: dict[GangId, float] = {}
    begun: dict[GangId, tuple[Entry, frozenset[str]]] = {}
    refused: dict[str, float] = {}
    for entry in history:
        if isinstance(entry.record, Gang):
            objects[entry.record.family, entry.record.namespace, entry.record.name] = entry.record
        elif entry.kind == "PodGroup" and ends_object(entry):
            objects = {key: spec for key, spec in objects.items() if spec.key != entry.object}
        if entry.actor == log.USER and entry.kind == "PodGroup":
            lost_at.update((gang, entry.at_seconds) for gang in running if gang.key == entry.object)
        if removal(entry) and entry.outcome in _REFUSED:
            refused[entry.uid] = entry.at_seconds
        pod = _pod(entry, known)
        if pod is None or pod.gang.family == SINGLE:
            continue
        gang, before = pod.gang, len(running[pod.gang])
        _keep(running[gang], entry)
        now = len(running[gang])
        if now >= before:
            continue
        if not _for_a_gang(entry):
            lost_at[gang] = entry.at_seconds
            continue
        minimum, mode = _needs(gang, objects, known), _mode(gang, objects, known, options)
        known_by_then = entry.at_seconds - lost_at.get(gang, -_KNOWN_SECONDS) >= _KNOWN_SECONDS
        if known_by_then and leaves_whole(mode, before, now, minimum):
            left = (uid for each in _together(gang, objects, running) for uid in running[each])
            begun.setdefault(gang, (entry, frozenset(left)))
    out = []
    for gang, (entry, then) in sorted(begun.items(), key=lambda item: item[1][0].number):
        stay = [uid for each in _together(gang, objects, running) for uid in sorted(then & running[each])]
        lacks = len(running[gang]) < _needs(gang, objects, known)
        stopped = any(refused.get(uid, -math.inf) >= entry.at_seconds - _KNOWN_SECONDS for uid in then)
        if stay and lacks and not stopped:
            out.append(f"{_when(entry)} {entry.object} was evicted, and {len(stay)} of {gang.key} run on without it")
    return out


def leaves_whole(mode: str, before: int, now: int, minimum: int) -> bool:
    """Of a gang with this mode and minimum, of which so many members ran before and now: do those leave, too?"""
    return mode == ATOMIC or (mode == ELASTIC and now < minimum <= before)


def _mode(
    gang: GangId, objects: Mapping[tuple[str, str, str], Gang], known: Mapping[str, Pod], options: Options
) -> str:
    """How it may be taken apart; where its object is gone that is not known, and its pods may go one by one."""
    spec = objects.get((gang.family, gang.namespace, gang.name))
    members = (pod for pod in known.values() if pod.gang == gang)
    return MINIMAL if spec is None and not any(map(gang_from_member, members)) else mode_of(spec, options)


def _needs(gang: GangId, objects: Mapping[tuple[str, str, str], Gang], known: Mapping[str, Pod]) -> int:
    """How many members have to run: those that have succeeded count for the minimum, as where a gang is bound."""
    members = [pod for pod in known.values() if pod.gang == gang]
    return minimum_of(gang, objects, members) - sum(pod.phase == "Succeeded" for pod in members)


def overspent_budgets(history: History) -> list[str]:
    """Budgets of which evictions for gangs took more than they allowed, beyond what the decisions announced."""
    budgets: dict[str, Budget] = {}
    known: dict[str, Pod] = {}
    running: dict[str, set[str]] = defaultdict(set)
    most: Counter[str] = Counter()
    lost_at: dict[str, float] = {}
    said: set[str] = set()
    planned: Counter[str] = Counter()
    beyond: Counter[str] = Counter()
    for entry in history:
        if isinstance(entry.record, Budget):
            budget = budgets[entry.record.key] = entry.record
            there = (p for p in known.values() if _covers(budget, p) and p.live and p.bound)
            running[budget.key].update(p.uid for p in there)
        said.update(entry.detail.get("overBudget", ()) if entry.verb == log.DECIDE else ())
        pod = _pod(entry, known)
        if pod is None:
            continue
        for key, budget in budgets.items():
            if not _covers(budget, pod):
                continue
            before = len(running[key])
            most[key] = max(most[key], before)
            _keep(running[key], entry)
            if len(running[key]) >= before:
                continue
            if not _for_a_gang(entry):
                lost_at[key] = entry.at_seconds
            elif entry.at_seconds - lost_at.get(key, -_KNOWN_SECONDS) >= _KNOWN_SECONDS:
                planned[key] += entry.object in said
                beyond[key] += before <= desired_healthy(budget, most[key])
    return [f"{key}: {beyond[key]} beyond it, {planned[key]} planned" for key in budgets if beyond[key] > planned[key]]


def _covers(budget: Budget, pod: Pod) -> bool:
    """Does this budget, whose numbers are known, count the pod?"""
    numbers = budget.min_available is not None or budget.max_unavailable is not None
    return numbers and selects(budget, pod)


def _pod(entry: Entry, known: dict[str, Pod]) -> Pod | None:
    """The pod that an entry changes, as it is then, or as it was last if it is gone; ``known`` are the last records."""
    if entry.kind != "Pod" or not entry.changed or entry.outcome != log.OK or entry.verb == log.EVENT:
        return None
    if isinstance(entry.record, Pod):
        known[entry.uid] = entry.record
        return entry.record
    return known.pop(entry.uid, None)


def _keep(running: set[str], entry: Entry) -> None:
    """The pod of an entry runs, or does not any more."""
    pod = entry.record
    if isinstance(pod, Pod) and pod.live and pod.bound:
        running.add(entry.uid)
    else:
        running.discard(entry.uid)


def _for_a_gang(entry: Entry) -> bool:
    """Did the scheduler remove the pod, for a preemptor?"""
    return removal(entry) and drained_by(entry) is None and not rolled_back_for(entry)


def _together(gang: GangId, objects: Mapping[tuple[str, str, str], Gang], others: Iterable[GangId]) -> list[GangId]:
    """The gang, with those of these that are in a GangGroup with it."""
    spec = objects.get((gang.family, gang.namespace, gang.name))
    return [other for other in others if other == gang or (spec is not None and other.key in spec.group)]


def _when(entry: Entry) -> str:
    return f"at {entry.at_seconds:.3f} s:"


#: A queue that is opened is known so late at most, with the writes that are on their way then.
_OPENED_SECONDS = 1.0


def drained_while_open(history: History, lag_seconds: float = _OPENED_SECONDS) -> list[str]:
    """Pods that were removed, and Jobs that were suspended, because of a queue that did not drain then, nor up to
    ``lag_seconds`` before.
    """
    out = []
    for entry, drained_at in _with_queues(history):
        queue = drained_by(entry)
        late = queue is not None and entry.at_seconds - drained_at.get(queue, -math.inf) > lag_seconds
        if queue is not None and late and entry.outcome == log.OK and entry.changed:
            out.append(f"at {entry.at_seconds:.3f} s: {entry.object} left for {' '.join(queue)}, which was not drained")
    return out


def marked_while_open(history: History, lag_seconds: float = 2 * _OPENED_SECONDS) -> list[str]:
    """Pods that stayed, and bore the mark of a drained queue for more than ``lag_seconds`` after it was opened.

    Meant for runs in which a process of the scheduler is alive all the time, and its writes do not fail for long.
    """
    marked: dict[str, tuple[str, str]] = {}
    out: dict[str, str] = {}
    for entry, drained_at in _with_queues(history):
        for uid, queue in marked.items():
            if entry.at_seconds - drained_at.get(queue, -math.inf) > lag_seconds:
                out.setdefault(uid, f"at {entry.at_seconds:.3f} s: {uid} is still marked for {' '.join(queue)}")
        if entry.kind == "Pod" and (isinstance(entry.record, Pod) or ends_object(entry)):
            mark = _mark(entry.record)
            if mark is not None:
                marked[entry.uid] = mark
            else:
                marked.pop(entry.uid, None)
    return list(out.values())


def drained_before_marked(history: History) -> list[str]:
    """Pods that ran when the first of their workload was removed because its queue is drained, and that were marked for
    that only afterwards.
    """
    bound: dict[str, int] = {}
    first: dict[str, int] = {}
    known: set[tuple[str, str]] = set()
    out = []
    for entry in history:
        if isinstance(entry.record, Pod) and entry.record.bound:
            bound.setdefault(entry.uid, entry.number)
        if drained_by(entry) is not None and entry.verb != log.SUSPEND and entry.outcome == log.OK and entry.changed:
            first[str(entry.detail["mark"])] = entry.number
        elif entry.verb == log.MARK and entry.outcome == log.OK:
            text = str(entry.detail["message"])
            before = (entry.uid, text) in known
            known.add((entry.uid, text))
            if not before and text in first and bound.get(entry.uid, len(history)) < first[text]:
                out.append(f"at {entry.at_seconds:.3f} s: {entry.object} was marked after another of {text}")
    return out


def _with_queues(history: History) -> Iterator[tuple[Entry, dict[tuple[str, str], float]]]:
    """Every entry, with the last moment (seconds) at which each queue (kind and name) drained, up to then. A queue that
    does now has no end of that: infinity.
    """
    drained_at: dict[tuple[str, str], float] = {}
    for entry in history:
        name = entry.kind, entry.object
        changed = isinstance(entry.record, ClusterQueue | LocalQueue) or ends_object(entry)
        if isinstance(entry.record, ClusterQueue | LocalQueue) and entry.record.stop == STOP_DRAIN:
            drained_at[name] = math.inf
        elif changed and drained_at.get(name) == math.inf:
            drained_at[name] = entry.at_seconds
        yield entry, drained_at


def _mark(pod: Pod | None) -> tuple[str, str] | None:
    """The queue for which a pod that does not leave yet is marked."""
    if pod is None or not pod.live or pod.disruption is None or pod.disruption.status != "True":
        return None
    return drained_queue(pod.disruption.message)
