"""What may never happen, checked on a history after the fact. Each function returns sentences, none if all is well."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import (
    Entry,
    History,
    Moment,
    drained_by,
    ends_object,
    marked_so,
    minimum_of,
    moment,
    preemptor_of,
    removal,
    rolled_back_for,
)
from gangsched.core.actuation.records import read_owners
from gangsched.core.ledger.condemned import Cause
from gangsched.core.options import Options
from gangsched.messages import notes
from gangsched.model.children import JOBSET_NAME
from gangsched.model.jobsets import JobSet
from gangsched.model.records import Gang, GangId, Job, Node, Pod
from gangsched.model.volumes import PersistentVolumeClaim
from tests.judge.disrupted import (
    broken_gangs,
    drained_before_marked,
    drained_while_open,
    marked_while_open,
    overspent_budgets,
)

_DEFAULTS = Options()
#: The plan of what is left of a gang of which a member was removed.
_REST = notes.rest_of(plan="")
#: A mark that the disruption controller takes back so soon after it was written (seconds) is one that a plan needs:
#: that controller waits for twice as long.
_HELD_SECONDS = 60.0


def violations(history: History, options: Options = _DEFAULTS) -> list[str]:
    """All that is wrong in a finished run of a scheduler with these options, by any of the checks below."""
    checks: tuple[Callable[[History], list[str]], ...] = (
        over_allocated,
        rejected_by_kubelet,
        partial_gangs,
        phases_out_of_order,
        early_binds,
        unplanned_removals,
        unplanned_suspensions,
        abandoned_marks,
        drained_while_open,
        marked_while_open,
        drained_before_marked,
        bound_before_volumes,
        overspent_budgets,
    )
    found = [f"{check.__name__}: {text}" for check in checks for text in check(history)]
    return found + [f"{broken_gangs.__name__}: {text}" for text in broken_gangs(history, options)]


def over_allocated(history: History) -> list[str]:
    """Nodes on which the scheduler bound a pod for which there was no room beside the pods bound there."""
    out = []
    now = Moment()
    for entry in history:
        now.apply(entry)
        if entry.verb == log.BIND and entry.actor == log.SCHEDULER and entry.outcome == log.OK:
            node = str(entry.detail["node"])
            lacking = _lacking(now.nodes.get(node), now.pods_on(node), entry.record)
            out += [f"{_when(entry)} {entry.object} on {node}: {text}" for text in lacking]
    return out


def _lacking(node: Node | None, pods: Iterable[Pod], last: Pod) -> list[str]:
    """Of what the last of these pods asks for, which resources the node has less of than all of them ask for."""
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


def rejected_by_kubelet(history: History) -> list[str]:
    """Pods that a kubelet turned away."""
    return [f"{_when(e)} {e.object} on {e.detail['node']}: {e.detail['reason']}" for e in history.of(log.REJECT)]


def partial_gangs(history: History) -> list[str]:
    """Gangs of which the scheduler has bound some members and never as many as the gang needs.

    Meant for the end of a run, when no decision is in flight. Members that were there from the start count as
    bound; so do those that have finished or been removed since: it is the scheduler's binding that is judged. A
    rollback undoes it.
    """
    gangs: dict[tuple[str, str, str], Gang] = {}
    members: dict[GangId, dict[str, Pod]] = defaultdict(dict)
    ever_bound: dict[GangId, set[str]] = defaultdict(set)
    ours: set[GangId] = set()
    undone: set[str] = set()
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
        if rolled_back_for(entry) and entry.outcome == log.OK:
            undone.add(entry.uid)
    out = []
    for gang in sorted(ours):
        minimum = minimum_of(gang, gangs, members[gang].values())
        bound = len(ever_bound[gang] - undone)
        if 0 < bound < minimum:
            out.append(f"{gang.key}: {bound} bound of at least {minimum}")
    return out


class Round(msgspec.Struct):
    """One plan of one gang as it was carried out: numbers of history entries.

    ``nominated``, ``marked`` and ``removed`` hold the first such entry per pod; ``bound`` those of members, and
    ``withdrawn`` those that ended their nominations.
    """

    gang: str
    plan: str
    nominated: dict[str, int] = {}
    marked: dict[str, int] = {}
    removed: dict[str, int] = {}
    bound: dict[str, int] = {}
    withdrawn: dict[str, int] = {}


def rounds(history: History) -> list[Round]:  # noqa: C901, PLR0912
    """The plans that nominated, in the order of their first nomination, and those of suspended Jobs: they have no
    members to nominate, and a plan of theirs begins with its first mark. That is one after which a list of victims
    stands when none stood, though the Job has removed some: all on the list before have left, or have been unmarked.

    A mark belongs to the newest plan of the gang that its message names, a removal to the plan that it was written
    for if that has marked the victim, else to the mark that its victim
    bears, a bind to the plan whose nomination the pod bears: one that was withdrawn before binds no more.
    """
    out: list[Round] = []
    jobs: dict[str, str] = {}
    left: set[str] = set()
    newest: dict[str, Round] = {}
    nominated_for: dict[str, Round] = {}
    by_plan: dict[str, Round] = {}
    marked_for: dict[str, Round] = {}
    for entry in history:
        by_us = isinstance(entry.record, Job | JobSet) and entry.record.suspended_by
        if by_us and entry.verb in (log.SUSPEND, log.EXISTS):
            jobs[entry.object] = f"of the Job suspended by entry {entry.number}"
            newest[entry.object] = Round(entry.object, jobs[entry.object])
            out.append(newest[entry.object])
        if entry.kind == "Pod" and (ends_object(entry) or (isinstance(entry.record, Pod) and not entry.record.live)):
            left.add(entry.uid)
        if entry.outcome != log.OK or entry.kind != "Pod":
            continue
        if entry.verb == log.NOMINATE:
            plan = str(entry.detail["plan"])
            gang = _gang_key(entry)
            if plan not in by_plan:
                by_plan[plan] = Round(gang, plan)
                out.append(by_plan[plan])
            nominated_for[entry.uid] = by_plan[plan]
            newest.update(dict.fromkeys((gang, _job_key(entry), _jobset_key(entry)), by_plan[plan]))
            by_plan[plan].nominated.setdefault(entry.uid, entry.number)
        elif entry.verb == log.MARK and not (entry.uid in left and _written_again(entry, out)):
            owners = owners_in(str(entry.detail.get("owners", "")), str(entry.detail["message"]))
            out += _of_the_rest(owners, by_plan)
            named = {name: by_plan.get(plan) or newest.get(name) for name, plan in owners}
            plans = {name: each for name, each in named.items() if each is not None}
            for name, each in plans.items():
                if each.plan == jobs.get(each.gang) and each.removed:
                    listed = (uid for uid in each.marked if marked_for.get(uid) is each)
                    if entry.uid not in each.marked and all(uid in each.removed or uid in left for uid in listed):
                        plans[name] = newest[name] = Round(each.gang, each.plan)
                        out.append(plans[name])
                plans[name].marked.setdefault(entry.uid, entry.number)
            said = preemptor_of(str(entry.detail["message"]))
            if said in plans:
                marked_for[entry.uid] = plans[said]
        elif entry.verb == log.WITHDRAW:
            if (found := nominated_for.pop(entry.uid, None)) is not None:
                found.withdrawn.setdefault(entry.uid, entry.number)
        elif entry.verb == log.UNMARK:
            marked_for.pop(entry.uid, None)
        elif removal(entry) and entry.uid in marked_for and drained_by(entry) is None and not rolled_back_for(entry):
            # Two gangs may need the same victim's room: the mark is then that of the later, the removal either's.
            found = _has_marked(entry, newest, out) or marked_for[entry.uid]
            found.removed.setdefault(entry.uid, entry.number)
        elif entry.verb == log.BIND and (found := nominated_for.get(entry.uid)) is not None:
            found.bound.setdefault(entry.uid, entry.number)
    return out


def _of_the_rest(owners: Iterable[tuple[str, str]], by_plan: dict[str, Round]) -> list[Round]:
    """The plans of what is left of gangs that these owners of a mark begin."""
    made = {plan: Round(name, plan) for name, plan in owners if plan.startswith(_REST) and plan not in by_plan}
    by_plan.update(made)
    return list(made.values())


def _written_again(entry: Entry, known: Iterable[Round]) -> bool:
    """Is it the mark by which a victim was evicted? The eviction has set the condition in its own words."""
    said = preemptor_of(str(entry.detail["message"]))
    return not entry.detail.get("owners") and any(each.gang == said and entry.uid in each.marked for each in known)


def owners_in(data: str, message: str) -> list[tuple[str, str]]:
    """For whom a victim was marked, each with its plan; where only the words of the mark tell, without."""
    owners = read_owners(data)
    if owners is not None:
        return [(owner.name, owner.plan) for owner in owners if owner.cause == Cause.PREEMPTION.value]
    return [(preemptor_of(message), "")]


def _has_marked(removed: Entry, newest: Mapping[str, Round], known: Sequence[Round]) -> Round | None:
    """The plan of the gang for which the pod was removed that has marked it. What is left of a plan that was given up
    goes on to leave for that, whatever its gang has planned since.
    """
    said = preemptor_of(str(removed.detail.get("mark", "")))
    theirs = (newest.get(said), *(each for each in reversed(known) if each.gang == said))
    return next((each for each in theirs if each is not None and removed.uid in each.marked), None)


def phases_out_of_order(history: History) -> list[str]:
    """Plans of which a nomination came after a mark, or a mark after a removal."""
    out = []
    for each in rounds(history):
        for before, after, text in (
            (each.nominated, each.marked, "nominated after a victim was marked"),
            (each.marked, each.removed, "marked after a victim was removed"),
        ):
            first = min(after.values(), default=len(history))
            out += [f"{each.gang} plan {each.plan}: {_name(history, n)} {text}" for n in before.values() if n > first]
    return out


def early_binds(history: History) -> list[str]:
    """Members of preempting gangs that were bound before the last victim of their plan was gone or finished, unless all
    of them fitted beside what was there: other room may have turned up.

    The marks are the list of victims: one that another gang has marked since stands on that gang's list alone, and a
    process that starts anew cannot know that it ever stood on another.
    """
    free_at: dict[str, int] = {}
    for entry in history:
        if ends_object(entry) or (isinstance(entry.record, Pod) and entry.record.finished):
            free_at.setdefault(entry.uid, entry.number)
    out = []
    known = rounds(history)
    for each in known:
        until: dict[str, int] = {}
        for uid in each.removed:
            later = (other.marked[uid] for other in known if uid in other.marked and other.gang != each.gang)
            moved = min((n for n in later if n > each.marked[uid]), default=len(history))
            until[uid] = min(free_at.get(uid, len(history)), moved)
        last = max(until.values(), default=-1)
        early = sorted(number for number in each.bound.values() if number < last)
        if early and not _all_fitted(history, each, early[0]):
            for entry in (history.entries[number] for number in early):
                member = f"{entry.object} of {each.gang}, plan {each.plan},"
                out.append(
                    f"{_when(entry)[:-1]} on {entry.detail['node']}: {member} bound while victims were still there"
                )
    return out


def _all_fitted(history: History, plan: Round, first: int) -> bool:
    """Was there room for as many members of the plan as the gang lacked, where they were to be bound, when the first of
    them was? Bindings that failed before, or were carried out later, count as well; who is bound already is there.
    """
    began = max((number for number in plan.removed.values() if number < first), default=0)
    now = moment(history, first)
    waiting = [now.pods[uid] for uid in plan.nominated if uid in now.pods and not now.pods[uid].bound]
    lacking: Counter[GangId] = Counter(pod.gang for pod in waiting)
    nodes: dict[str, str] = {}
    for entry in history.of(log.BIND, actor=log.SCHEDULER):
        pod = now.pods.get(entry.uid)
        if entry.number <= began or pod is None or pod.bound or pod.gang not in lacking:
            continue
        if entry.number <= first or entry.uid not in nodes:
            nodes[entry.uid] = str(entry.detail["node"])
    for gang, most in lacking.items():
        members = [pod for pod in now.pods.values() if pod.gang == gang]
        needed = minimum_of(gang, now.gangs, members) - sum(pod.bound for pod in members)
        lacking[gang] = max(1, min(most, needed))
    there: dict[str, list[Pod]] = defaultdict(list)
    for uid, node in nodes.items():  # in the order in which they were asked for
        pod = now.pods[uid]
        if lacking[pod.gang]:
            lacking[pod.gang] -= 1
            there[node].append(pod)
    beside = {node: [*now.pods_on(node), *pods] for node, pods in there.items()}
    fitted = not any(_lacking(now.nodes.get(node), beside[node], pod) for node, pods in there.items() for pod in pods)
    return fitted and not any(lacking.values())


def unplanned_removals(history: History) -> list[str]:
    """Pods that the scheduler removed without having marked them for a gang that had nominated before, as members of a
    gang that it rolls back, or as those of a queue that is drained.
    """
    covered = {uid for each in rounds(history) for uid in each.removed}
    out = []
    for entry in history:
        if not removal(entry) or entry.outcome != log.OK or not entry.changed or _rolled_back(history, entry):
            continue  # who was terminating already goes on terminating
        if drained_by(entry) is not None and marked_so(history, entry):
            continue
        if entry.uid not in covered:
            out.append(f"{_when(entry)} {entry.object} was removed without a mark")
    return out


def unplanned_suspensions(history: History) -> list[str]:
    """Pods that ran when the scheduler suspended their Job, and that it had not marked before. Others may have taken
    the mark back: a Job bears none that its suspension could depend on.

    Meant for clusters in which no other scheduler binds pods: one may come between the last mark and the suspension.
    """
    out = []
    pods: dict[str, Pod] = {}
    marked: set[str] = set()
    for entry in history:
        if entry.actor == log.SCHEDULER and entry.verb in (log.MARK, log.UNMARK) and entry.outcome == log.OK:
            (marked.add if entry.verb == log.MARK else marked.discard)(entry.uid)
        if isinstance(entry.record, Pod):
            pods[entry.record.uid] = entry.record
        elif entry.kind == "Pod" and ends_object(entry):
            pods.pop(entry.uid, None)
        elif entry.verb == log.SUSPEND and entry.outcome == log.OK and entry.changed:
            mine = [p for p in pods.values() if p.bound and p.live and _leaves_with(p, entry.record)]
            unmarked = [p for p in mine if p.uid not in marked]
            out += [f"{_when(entry)} {p.key} left with {entry.object} without a mark" for p in unmarked]
    return out


def _leaves_with(pod: Pod, job: object) -> bool:
    """Is it a pod of this Job, or of a Job of this JobSet?"""
    if isinstance(job, JobSet):
        return pod.namespace == job.namespace and pod.labels.get(JOBSET_NAME) == job.name
    return isinstance(job, Job) and pod.owner is not None and pod.owner.uid == job.uid


def abandoned_marks(history: History, judged_until: float = math.inf) -> list[str]:
    """Pods that were marked and live on, and whose mark the scheduler did not take back.

    Who has ended or terminates is not harmed, whoever saw to that: it is the Job controller that deletes the pods of a
    suspended Job, and they may take long to be gone. The disruption controller leaves the marks of such pods alone too.

    Meant for the end of a run, when no decision is in flight. Of a run that was ended in the middle of things, what the
    scheduler has done about a mark after ``judged_until`` (seconds from the start) may go on. A mark that the
    disruption controller had to take back was abandoned too, unless it had been written for another plan just before:
    that controller counts from the first of the marks that follow each other.
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
        elif entry.verb == log.UNMARK and entry.uid in marked:
            mark = marked.pop(entry.uid)
            held = entry.at_seconds - mark.at_seconds < _HELD_SECONDS
            if entry.actor == log.DISRUPTION_CONTROLLER and not held:
                out.append(f"{_when(mark)} {entry.object} was marked, and left so for the controller to clear")
    return out + [
        f"{_when(mark)} {mark.object} was marked and is neither removed nor unmarked"
        for uid, mark in marked.items()
        if tried[uid] <= judged_until
    ]


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
                out.append(f"{_when(entry)} {record.volume_name} is bound to a second claim")
        elif isinstance(record, Pod) and record.volumes is not None and entry.verb == log.BIND:
            known = (claims.get((record.namespace, name)) for name in record.volumes.claims)
            if entry.actor == log.SCHEDULER and not all(c is not None and c.bound for c in known):
                out.append(f"{_when(entry)} {entry.object} was bound before its volumes")
    return out


def _rolled_back(history: History, removal: Entry) -> bool:
    name = rolled_back_for(removal)
    if not name or not marked_so(history, removal):
        return False
    pod = next((e.record for e in history if e.uid == removal.uid and isinstance(e.record, Pod)), None)
    if pod is None:
        return False
    of_job = pod.owner is not None and name == f"{pod.namespace}/{pod.owner.name}"  # with a queue it is the gang
    return of_job or name == pod.gang.key


def _gang_key(entry: Entry) -> str:
    assert isinstance(entry.record, Pod)
    return entry.record.gang.key


def _job_key(entry: Entry) -> str:
    """The Job that owns a pod: with a queue, it is the gang that messages name. The gang's own key without one."""
    assert isinstance(entry.record, Pod)
    owner = entry.record.owner
    return f"{entry.record.namespace}/{owner.name}" if owner is not None and owner.kind == "Job" else _gang_key(entry)


def _jobset_key(entry: Entry) -> str:
    """The same of the JobSet."""
    assert isinstance(entry.record, Pod)
    name = entry.record.labels.get(JOBSET_NAME)
    return f"{entry.record.namespace}/{name}" if name else _gang_key(entry)


def _name(history: History, number: int) -> str:
    return history.entries[number].object


def _when(entry: Entry) -> str:
    return f"at {entry.at_seconds:.3f} s:"
