"""What evictions may not do together, checked on a history after the fact: see :mod:`.invariants`.

Plans that are made in one moment share budgets and gangs. Whatever each of them says, all of them together leave no
gang behind of which too few members run, and take no more of a budget than was planned.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.controllers import selects
from gangsched.cluster.sim.history import (
    Entry,
    History,
    drained_by,
    ends_object,
    minimum_of,
    removal,
    rolled_back_for,
)
from gangsched.core.lifecycle import report
from gangsched.core.lifecycle.broken import FINISH_AFTER_SECONDS
from gangsched.core.options import Options
from gangsched.core.preemption.blocks import ATOMIC, ELASTIC, MINIMAL, mode_of
from gangsched.model.budgets import asks_budgets, desired_healthy
from gangsched.model.dialects import gang_from_member
from gangsched.model.queues import STOP_DRAIN, ClusterQueue, LocalQueue
from gangsched.model.records import SINGLE, Budget, Gang, GangId, Pod
from tests.judge.rounds import when

#: Until then what is left of a gang has been finished, or tried: writes may fail, and a leader may have to come first.
_FINISHED_SECONDS = 2 * FINISH_AFTER_SECONDS
_Key = tuple[str, str, str]


def broken_gangs(history: History, options: Options) -> list[str]:
    """Gangs that a removal for a plan brought below their minimum, that are below it at the end, and of which members
    run, or of their GangGroup, long after they had to be finished. An Event says so where that may not be.
    """
    objects: dict[_Key, Gang] = {}
    known: dict[str, Pod] = {}
    running: dict[GangId, set[str]] = defaultdict(set)
    broken: dict[GangId, Entry] = {}
    for entry in history:
        if isinstance(entry.record, Gang):
            objects[entry.record.family, entry.record.namespace, entry.record.name] = entry.record
            # By a smaller minimum it is whole again, and what it loses later is another matter.
            broken = {g: at for g, at in broken.items() if len(running[g]) < _needs(g, objects, known)}
        elif entry.kind == "PodGroup" and ends_object(entry):
            objects = {key: spec for key, spec in objects.items() if spec.key != entry.object}
        if entry.verb == log.EVENT and entry.detail.get("reason") == report.GANG_BROKEN:
            broken = {g: at for g, at in broken.items() if entry.uid not in running[g] and entry.object != g.key}
        pod = _pod(entry, known)
        if pod is None or pod.gang.family == SINGLE:
            continue
        gang, before = pod.gang, len(running[pod.gang])
        _keep(running[gang], entry)
        now, minimum = len(running[gang]), _needs(gang, objects, known)
        if now >= minimum:
            broken.pop(gang, None)
        elif _for_a_gang(entry) and leaves_whole(_mode(gang, objects, known, options), before, now, minimum):
            broken.setdefault(gang, entry)
    end = history.entries[-1].at_seconds if len(history) else 0.0
    out = []
    for gang, entry in broken.items():
        spec = objects.get((gang.family, gang.namespace, gang.name))
        group = [each for each in running if each == gang or (spec is not None and each.key in spec.group)]
        stay = sum(len(running[each]) for each in group)
        if stay and end - entry.at_seconds > _FINISHED_SECONDS and len(running[gang]) < _needs(gang, objects, known):
            out.append(f"{when(entry)} {entry.object} was evicted, and {stay} of {gang.key} run on without it")
    return out


def leaves_whole(mode: str, before: int, now: int, minimum: int) -> bool:
    """Of a gang with this mode and minimum, of which so many members ran before and now: do those leave, too?"""
    return mode == ATOMIC or (mode == ELASTIC and now < minimum <= before)


def _mode(gang: GangId, objects: Mapping[_Key, Gang], known: Mapping[str, Pod], options: Options) -> str:
    """How it may be taken apart; where its object is gone that is not known, and its pods may go one by one."""
    spec = objects.get((gang.family, gang.namespace, gang.name))
    members = (pod for pod in known.values() if pod.gang == gang)
    return MINIMAL if spec is None and not any(map(gang_from_member, members)) else mode_of(spec, options)


def _needs(gang: GangId, objects: Mapping[_Key, Gang], known: Mapping[str, Pod]) -> int:
    """How many members have to run: those that have succeeded count for the minimum, as where a gang is bound."""
    members = [pod for pod in known.values() if pod.gang == gang]
    return minimum_of(gang, objects, members) - sum(pod.phase == "Succeeded" for pod in members)


def overspent_budgets(history: History) -> list[str]:
    """Budgets of which evictions for gangs took more than they allowed, beyond what the decisions announced."""
    budgets: dict[str, Budget] = {}
    known: dict[str, Pod] = {}
    running: dict[str, set[str]] = defaultdict(set)
    most: Counter[str] = Counter()
    said: set[str] = set()
    planned: Counter[str] = Counter()
    beyond: Counter[str] = Counter()
    for entry in history:
        if isinstance(entry.record, Budget):
            budget = budgets[entry.record.key] = entry.record
            there = (p for p in known.values() if _covers(budget, p) and asks_budgets(p) and p.live and p.bound)
            running[budget.key].update(p.uid for p in there)
        said.update(entry.detail.get("overBudget", ()) if entry.verb == log.DECIDE else ())
        pod = _pod(entry, known)
        for key, budget in budgets.items() if pod is not None else ():
            if pod is None or not _covers(budget, pod) or not (asks_budgets(pod) or pod.uid in running[key]):
                continue  # a pod that has not started is charged to no budget
            before = len(running[key])
            most[key] = max(most[key], before)
            _keep(running[key], entry)
            if len(running[key]) < before and _for_a_gang(entry):
                planned[key] += entry.object in said
                beyond[key] += before <= desired_healthy(budget, most[key])
    return [f"{key}: {beyond[key]} beyond it, {planned[key]} planned" for key in budgets if beyond[key] > planned[key]]


def _covers(budget: Budget, pod: Pod) -> bool:
    """Return whether this budget, whose numbers are known, counts the pod."""
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
    """Return whether the scheduler removed the pod for a preemptor."""
    return removal(entry) and drained_by(entry) is None and not rolled_back_for(entry)


#: A queue that is opened is known so late at most, with the writes that are on their way then.
_OPENED_SECONDS = 1.0


def drained_while_open(history: History, lag_seconds: float = _OPENED_SECONDS) -> list[str]:
    """Pods that were removed, and Jobs that were suspended, because of a queue that did not drain then, nor up to
    ``lag_seconds`` before.
    """
    drains: dict[tuple[str, str], float] = {}  # until when; a queue that drains now has no end of that
    out = []
    for entry in history:
        name = entry.kind, entry.object
        if isinstance(entry.record, ClusterQueue | LocalQueue) and entry.record.stop == STOP_DRAIN:
            drains[name] = math.inf
        elif drains.get(name) == math.inf and (entry.record is not None or ends_object(entry)):
            drains[name] = entry.at_seconds
        queue = drained_by(entry) if entry.outcome == log.OK and entry.changed else None
        if queue is not None and entry.at_seconds - drains.get(queue, -math.inf) > lag_seconds:
            out.append(f"{when(entry)} {entry.object} left for {' '.join(queue)}, which was not drained")
    return out
