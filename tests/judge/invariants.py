"""What may never happen, checked on a history after the fact. Each function returns sentences, none if all is well."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import Entry, History, Moment, ends_object, minimum_of, rolled_back_for
from gangsched.core.actuation.records import read_owners
from gangsched.core.options import Options
from gangsched.messages import notes
from gangsched.model.records import Gang, GangId, Node, Pod
from gangsched.model.times import parse_time
from gangsched.model.volumes import PersistentVolumeClaim
from tests.judge.disrupted import broken_gangs, drained_while_open, overspent_budgets
from tests.judge.rounds import Round, rounds, when

_DEFAULTS = Options()
#: A plan waits so long at most before it writes the marks that it needs once more; the disruption controller takes back
#: those that stand for twice as long.
_HELD_SECONDS = 60.0


def violations(history: History, options: Options = _DEFAULTS) -> list[str]:
    """All that is wrong in a finished run of a scheduler with these options beside which nobody changes the cluster."""
    checks: tuple[Callable[[History], list[str]], ...] = (
        over_allocated,
        partial_gangs,
        shared_victims,
        phases_out_of_order,
        unmarked_removals,
        abandoned_marks,
        drained_while_open,
        bound_before_volumes,
        overspent_budgets,
    )
    found = [f"{check.__name__}: {text}" for check in checks for text in check(history)]
    return found + [f"{broken_gangs.__name__}: {text}" for text in broken_gangs(history, options)]


def over_allocated(history: History) -> list[str]:
    """Nodes on which the scheduler bound a pod for which there was no room beside the pods there, victims included, and
    pods that a kubelet turned away.
    """
    out = [f"{when(e)} {e.object} on {e.detail['node']}: {e.detail['reason']}" for e in history.with_verbs(log.REJECT)]
    now = Moment()
    for entry in history:
        now.apply(entry)
        if entry.verb == log.BIND and entry.actor == log.SCHEDULER and entry.outcome == log.OK:
            node = str(entry.detail["node"])
            lacking = short_of(now.nodes.get(node), now.pods_on(node), entry.record)
            out += [f"{when(entry)} {entry.object} on {node}: {text}" for text in lacking]
    return out


def short_of(node: Node | None, pods: Iterable[Pod], last: Pod) -> list[str]:
    """Of what the last of these pods asks for, the resources of which the node has less than all of them ask for."""
    if node is None:
        return ["there is no such node"]
    used: dict[str, int] = defaultdict(int)
    for pod in pods:
        for resource, units in (*pod.shape.requests, ("pods", 1)):
            used[resource] += units
    room = dict(node.allocatable)
    asked = {"pods", *(resource for resource, units in last.shape.requests if units)}
    return [
        f"{resource} {units} of {room.get(resource, 0)}"
        for resource, units in sorted(used.items())
        if units > room.get(resource, 0) and resource in asked
    ]


def partial_gangs(history: History) -> list[str]:
    """Gangs of which the scheduler has bound some members and never as many as the gang needs.

    Members that were there from the start count as bound; so do those that have finished or been removed since: it is
    the scheduler's binding that is judged. A rollback undoes it.
    """
    gangs: dict[tuple[str, str, str], Gang] = {}
    members: dict[GangId, dict[str, Pod]] = defaultdict(dict)
    ever_bound: dict[GangId, set[str]] = defaultdict(set)
    ours: set[GangId] = set()
    for entry in history:
        record = entry.record
        if isinstance(record, Gang):
            gangs[record.family, record.namespace, record.name] = record
        elif isinstance(record, Pod):
            members[record.gang][record.uid] = record
            if record.node:
                ever_bound[record.gang].add(record.uid)
            if entry.verb == log.BIND and entry.actor == log.SCHEDULER and entry.outcome == log.OK:
                ours.add(record.gang)
    undone = {entry.uid for entry in history if rolled_back_for(entry) and entry.outcome == log.OK}
    out = []
    for gang in sorted(ours):
        minimum = minimum_of(gang, gangs, members[gang].values())
        bound = len(ever_bound[gang] - undone)
        if 0 < bound < minimum:
            out.append(f"{gang.key}: {bound} bound of at least {minimum}")
    return out


# -- evictions -----------------------------------------------------------------------------------------------------


def shared_victims(history: History) -> list[str]:
    """Pods on which more than one plan stands."""
    return rounds(history).shared


def phases_out_of_order(history: History) -> list[str]:
    """Plans of which a nomination came after a mark, or a mark of a pod that ran by then after a removal, and those for
    gangs of pods that nominated nobody.
    """
    out, ran = [], dict[str, int]()
    jobs = {entry.object for entry in history if entry.kind in ("Job", "JobSet")}
    for entry in history:
        if isinstance(entry.record, Pod) and entry.record.bound:
            ran.setdefault(entry.uid, entry.number)
    for plan in rounds(history).plans.values():
        for before, after, text in (
            (plan.nominated, plan.marked, "nominated after a victim was marked"),
            (plan.marked, plan.removed, "marked after a victim was removed"),
        ):
            first = min(after.values(), default=len(history))
            late = (n for uid, n in before.items() if n > first and (before is plan.nominated or ran[uid] < first))
            out += [_about(history, n, plan, f"{history.entries[n].object} {text}") for n in late]
        nominates = plan.cause == "preemption" and plan.owner not in jobs and not is_rest(plan)
        if plan.removed and nominates and not plan.nominated:
            out.append(_about(history, min(plan.removed.values()), plan, "nobody was nominated for it"))
    return out


def is_rest(plan: Round) -> bool:
    """Return whether a plan finishes a gang that was left below its minimum: nobody waits for that room."""
    return plan.plan.startswith(notes.rest_of(plan=""))


def _about(history: History, number: int, plan: Round, text: str) -> str:
    return f"{when(history.entries[number])} {plan.owner}, plan {plan.plan}: {text}"


def unmarked_removals(history: History) -> list[str]:
    """Pods that the scheduler removed, by themselves or with their Job, without having marked them."""
    return rounds(history).unmarked


def abandoned_marks(history: History, judged_until: float = math.inf) -> list[str]:
    """Pods that run on at the end with a mark, or that the disruption controller had to take one off which no plan had
    written of late. What has ended or terminates is not harmed by it.

    What was done about a mark after ``judged_until`` (seconds from the start) may go on.
    """
    marked: dict[str, Entry] = {}
    tried: dict[str, float] = {}
    out = []
    for entry in history:
        if entry.kind == "Pod" and entry.verb in (log.MARK, log.UNMARK) and entry.actor == log.SCHEDULER:
            tried[entry.uid] = entry.at_seconds
        if entry.kind != "Pod" or entry.outcome != log.OK:
            continue
        if ends_object(entry) or (isinstance(entry.record, Pod) and not entry.record.live):
            marked.pop(entry.uid, None)
        elif entry.verb == log.MARK:
            marked[entry.uid] = entry
        elif entry.verb == log.UNMARK:
            mark = marked.pop(entry.uid, entry)
            if entry.actor == log.DISRUPTION_CONTROLLER and entry.at_seconds - mark.at_seconds >= _HELD_SECONDS:
                out.append(f"{when(mark)} {entry.object} was marked, and left so for the controller to clear")
    left = (mark for uid, mark in marked.items() if tried[uid] <= judged_until)
    return out + [f"{when(mark)} {mark.object} was marked and is neither removed nor unmarked" for mark in left]


def left_too_early(history: History, start: float = 0.0) -> list[str]:
    """Pods that were marked or removed before the time that stood on them as the earliest. The history begins at
    ``start``, in seconds since the epoch.
    """
    out, times = [], dict[str, float]()
    for entry in history:
        if entry.actor != log.SCHEDULER or entry.outcome != log.OK or not entry.changed:
            continue
        if entry.verb == log.MARK:
            found = read_owners(entry.detail.get("owners", "")) or ()
            times[entry.uid] = min((parse_time(o.not_before, "") for o in found), default=0.0)
        early = times.get(entry.uid, 0.0) - (start + entry.at_seconds)
        acts = entry.verb in (log.DELETE, log.EVICT) or (entry.verb == log.MARK and entry.detail["message"])
        if acts and early > 0:
            out.append(f"{when(entry)} {entry.object} was told to have {early:.3f} s more")
    return out


# -- volumes -------------------------------------------------------------------------------------------------------


def bound_before_volumes(history: History) -> list[str]:
    """Pods that the scheduler bound before all of their claims were, and volumes that two claims got."""
    claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
    holder: dict[str, tuple[str, str]] = {}
    out = []
    for entry in history:
        record = entry.record
        if isinstance(record, PersistentVolumeClaim):
            claims[record.key] = record
            if record.bound and holder.setdefault(record.volume_name, record.key) != record.key:
                out.append(f"{when(entry)} {record.volume_name} is bound to a second claim")
        elif isinstance(record, Pod) and record.volumes is not None and entry.verb == log.BIND:
            known = (claims.get((record.namespace, name)) for name in record.volumes.claims)
            if entry.actor == log.SCHEDULER and not all(c is not None and c.bound for c in known):
                out.append(f"{when(entry)} {entry.object} was bound before its volumes")
    return out
