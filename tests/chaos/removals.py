"""Removals that were sent although the scheduler had been told by then that their victim need not, or may not, leave.

A removal is sent some time after it was asked for, if it has to wait for its turn; until then it can be recalled.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.controllers import selects
from gangsched.cluster.sim.history import Entry, drained_by
from gangsched.cluster.sim.invariants import owners_in, preemptor_of
from gangsched.core.actions import Action, Mark, Nominate, Removal
from gangsched.core.actuation.records import read_intent, read_owners
from gangsched.model.children import JOBSET_NAME
from gangsched.model.jobsets import JobSet
from gangsched.model.records import PREEMPT_NEVER, Budget, Job, Pod
from tests.chaos.play import Played
from tests.chaos.rooms import KEPT_SECONDS
from tests.chaos.told import AT_ONCE, Batch, Told, short_of


class _Plan(msgspec.Struct):
    """A plan of one gang, as it was asked for: members (UIDs) with their nodes, victims (UIDs), and the budgets as they
    were when it was made. ``number`` is that of the victims. ``again`` says that the one before, which had victims too,
    was given up without having removed anybody.
    """

    ident: str
    places: dict[str, str]
    budgets: dict[str, Budget]
    again: bool
    number: int
    victims: list[str] = []
    begun: bool = False


class _Sent(msgspec.Struct):
    """A removal that took effect, when it was sent, and for which gang (``namespace/name``); empty: in a drain or a
    rollback.
    """

    at_seconds: float
    entry: Entry
    preemptor: str


def unwanted_removals(played: Played) -> list[str]:
    """Victims that were evicted although it was known by then that they may not be: they had ended, their priority is
    not below the lowest of the gang for which they leave, or that does not preempt. Or that they need not be: the gang
    lacks nobody, or all of it fits beside them. Or that they break a budget which allowed it when the plan was made, so
    that others may be better victims.

    The last two are asked before the first of a list has left, and the very last once in a row of plans, lest a budget
    keeps the gang waiting for ever. Between workloads of queues it is not priority that decides. A unit of which a pod
    was removed is finished, whatever has become of its preemptor; a process that takes over cannot tell that from one
    that bears a mark, or bore one, and that a user has deleted. In drains and rollbacks only who had ended counts.
    """
    wholes = _wholes(played.batches)
    removals = sorted(_sent(played, played.world.timing.write_seconds), key=lambda each: each.entry.number)
    opens: dict[tuple[str, str], int] = {}  # by unit and preemptor the first of the entries
    for each in removals:
        unit = wholes.get((each.entry.uid, each.preemptor), "")
        opens.setdefault((unit, each.preemptor), each.entry.number)
    over = {v.uid for decision in played.decisions for v in decision.victims if v.over_budget}
    out = []
    for sent, told, plans in _walk(removals, played.batches):
        if not sent.preemptor:
            if text := _ended(told.pods.get(sent.entry.uid)):
                out.append(f"{sent.entry.object}, sent at {sent.at_seconds:.3f} s: {text}")
            continue
        about = f"{sent.entry.object}, sent at {sent.at_seconds:.3f} s for {sent.preemptor}"
        if isinstance(sent.entry.record, Job | JobSet):
            out += [f"{about}: {text}" for text in _of_job(told, sent.entry.record, sent.preemptor)]
            if sent.preemptor in plans:
                plans[sent.preemptor].begun = True
            continue
        plan, victim = plans.get(sent.preemptor), told.pods.get(sent.entry.uid)
        if plan is not None and sent.entry.uid not in plan.victims:
            plan = None
        unit = wholes.get((sent.entry.uid, sent.preemptor), "")
        owners = (gang for uid, gang in wholes if uid == sent.entry.uid)  # the others of it may bear another's mark
        opened_before = bool(unit) and any(opens.get((unit, g), sent.entry.number) < sent.entry.number for g in owners)
        if unit and sent.preemptor not in plans:
            leaving = (uid for (uid, gang), its in wholes.items() if (gang, its) == (sent.preemptor, unit))
            opened_before = opened_before or any(
                (pod := told.pods.get(uid)) is None or pod.deleting_since is not None for uid in leaving
            )
        text = _ended(victim) if opened_before else _may_not(told, victim, sent.preemptor)
        if not (text or opened_before or plan is None or _begun(told, plan, sent.preemptor)):
            text = _need_not(told, plans, plan, sent.at_seconds) or _tightened(told, plan, over)
        if text:
            out.append(f"{about}: {text}")
        if plan is not None:
            plan.begun = True
    return out


def _wholes(batches: Iterable[Batch]) -> dict[tuple[str, str], str]:
    """The unit with which a victim (UID) leaves whole for a gang (``namespace/name``), as its marks say."""
    marks = (action for batch in batches for action in batch.actions if isinstance(action, Mark))
    return {
        (mark.pod.uid, owner.name): f"{owner.kind} {owner.unit}"
        for mark in marks
        for owner in read_owners(mark.owners) or ()
        if owner.unit and not owner.partial
    }


def _begun(told: Told, plan: _Plan, preemptor: str) -> bool:
    """Has somebody of the list left for it, or leaves by now, be it for another? Who is gone while the removal has no
    answer may have, and so may those whose answer was lost while others of the same moment have none yet.
    """
    leaves = any((pod := told.pods.get(uid)) is not None and pod.deleting_since is not None for uid in plan.victims)
    may_have = {uid for uid in told.removals.values() if uid not in told.pods} | told.lost.get(preemptor, set())
    return plan.begun or leaves or not may_have.isdisjoint(plan.victims)


def _sent(played: Played, write_seconds: float) -> Iterator[_Sent]:
    """What was removed, and the Jobs that were suspended for gangs."""
    for entry in played.world.history.of(log.DELETE, log.EVICT, log.SUSPEND, actor=log.SCHEDULER):
        said = str(entry.detail.get("preemptor", "")) or preemptor_of(str(entry.detail.get("mark", "")))
        if drained_by(entry) is not None:
            said = ""
        if entry.outcome == log.OK and entry.changed and (said or entry.verb != log.SUSPEND):
            yield _Sent(entry.at_seconds - write_seconds, entry, said)


def _walk(removals: Iterable[_Sent], batches: list[Batch]) -> Iterator[tuple[_Sent, Told, dict[str, _Plan]]]:
    """Each removal with what its process knew in the moment in which it was sent, and the plans of that process, by
    gang (``namespace/name``). One whose turn comes in the very moment in which something is told has left before.
    """
    waiting = deque(sorted(removals, key=lambda sent: (sent.at_seconds, sent.entry.number)))
    told, plans, process, asked = Told(), dict[str, _Plan](), 0, set[str]()
    for batch in batches:
        while waiting and (early := batch.at_seconds - waiting[0].at_seconds) >= -AT_ONCE:
            if early <= AT_ONCE and waiting[0].entry.uid not in asked:
                break
            sent = waiting.popleft()
            if batch.process == process:  # else it died of its last batch, and what it would have recalled went off
                yield sent, told, plans
        if batch.process != process:
            told, plans, process, asked = Told(), {}, batch.process, set()
        for event in batch.events:
            told.hear(event, batch.at_seconds)
        for action in batch.actions:
            _follow(plans, told, action)
            told.asked(action)
            asked.update([action.pod.uid] if isinstance(action, Removal) else ())
    for sent in waiting:
        yield sent, told, plans


def _follow(plans: dict[str, _Plan], told: Told, action: Action) -> None:
    """What this action means for the plans of its process."""
    match action:
        case Nominate() if action.pod.uid in told.pods:
            gang = told.pods[action.pod.uid].gang.key
            known = plans.get(gang)
            if known is None or known.ident != action.plan:
                again = known is not None and known.number > 0 and not known.begun
                intent = read_intent(action.message)
                known = plans[gang] = _Plan(
                    action.plan, {}, told.budgets.copy(), again, intent.victims if intent is not None else 0
                )
            known.places[action.pod.uid] = action.node
        case Mark():
            for gang, plan in owners_in(action.owners, action.message):
                known = plans.get(gang)
                if known is not None and plan in (known.ident, "") and action.pod.uid not in known.victims:
                    known.victims.append(action.pod.uid)


# -- may it leave? ------------------------------------------------------------------------------------------------


def _may_not(told: Told, victim: Pod | None, preemptor: str) -> str:
    """Why this pod may not be evicted for this gang, as far as is known; empty when it may."""
    ended = _ended(victim)
    if victim is None or ended:
        return ended
    gang = told.named(preemptor)
    namespace, _, name = preemptor.partition("/")
    job = told.jobs.get((namespace, name))
    if job is not None and job.template is not None and (gang is None or job.queue.local_queue):
        both = bool(job.queue.local_queue) and told.queued(victim)
        return "" if both else _not_lower(victim, job.template.priority)
    if preemptor in told.jobsets:
        return ""  # its Jobs are its members, and its templates their priority: that is not looked at
    if gang is None:
        return "nobody is left of that gang"
    if victim.gang == gang:
        return "it is one of them"
    members = told.members(gang)
    known = told.group(gang)
    policies = [*(p.preemption_policy for p in members if p.live), known.preemption_policy if known else None]
    if PREEMPT_NEVER in policies:
        return "that gang does not preempt"
    if not told.lacking(gang):
        return "that gang lacks nobody"
    if not any(p.live and not p.node for p in members):
        return "nobody of that gang waits"
    both = told.queued(victim) and any(map(told.queued, members))
    return "" if both else _not_lower(victim, told.priority(gang))


def _ended(victim: Pod | None) -> str:
    """Why nobody can be evicted there any more; empty when somebody can."""
    if victim is None:
        return "it was known to be gone"
    if victim.finished or not victim.node:
        return "it was known to have ended" if victim.finished else "it was not bound"
    return ""


def _not_lower(victim: Pod, priority: int) -> str:
    return "" if victim.priority < priority else f"its priority {victim.priority} is not below {priority}"


def _of_job(told: Told, job: Job | JobSet, preemptor: str) -> list[str]:
    """The same of a Job or JobSet that is suspended, for each of its pods that ran."""
    ran = [p for p in told.pods.values() if p.namespace == job.namespace and p.bound and p.live]
    if isinstance(job, JobSet):
        mine = [p for p in ran if p.labels.get(JOBSET_NAME) == job.name]
    else:
        mine = [p for p in ran if p.owner is not None and p.owner.uid == job.uid]
    texts = ((pod, _may_not(told, pod, preemptor)) for pod in mine)
    return [f"{pod.key}: {text}" for pod, text in texts if text]


# -- must it leave? -----------------------------------------------------------------------------------------------


def _need_not(told: Told, plans: Mapping[str, _Plan], plan: _Plan, now: float) -> str:
    """Do all members that were nominated fit on their nodes although everybody stays who is there? Whoever is nominated
    or was to be bound there has the room, too, and so may who moves. Nothing is said where somebody waits for volumes,
    a node has taints, the room of somebody who has left may be kept for his gang, or quota may be what is short.
    """
    waiting = {uid: pod for uid, pod in told.pods.items() if pod.live and not pod.node}
    if not plan.places.keys() <= waiting.keys() or any(pod.volumes is not None for pod in waiting.values()):
        return ""
    victims = (pod for uid in plan.victims if (pod := told.pods.get(uid)) is not None)
    if any(map(told.queued, victims)) and any(told.queued(waiting[uid]) for uid in plan.places):
        return ""
    coming: dict[str, set[str]] = defaultdict(set)
    for uid, pod in waiting.items():
        own = plan.places.get(uid, "")
        wanted = (other.places.get(uid, "") for other in plans.values())
        anywhere = plan.places.values() if uid in told.moving else ()
        for name in [own] if own else {pod.nominated_node, told.tried.get(uid, ""), *wanted, *anywhere}:
            coming[name].add(uid)
    for name in set(plan.places.values()):
        node = told.nodes.get(name)
        if node is None or node.unschedulable or node.taints or not node.ready or node.deleting:
            return ""
        there = [p for p in told.pods.values() if p.node == name and p.bound]
        if now - told.left.get(name, -math.inf) < 2 * KEPT_SECONDS:
            return ""
        if short_of(node, [*there, *map(told.pods.__getitem__, coming[name])]):
            return ""
    return "all members fit beside everybody who is there"


def _tightened(told: Told, plan: _Plan, over: Collection[str]) -> str:
    """Does a budget allow fewer victims now than when the plan was made, beyond those announced as ``over`` one?"""
    if plan.again:
        return ""
    standing = [pod for uid in plan.victims if (pod := told.pods.get(uid)) is not None and pod.live]
    now, then = _beyond(told.budgets, standing), _beyond(plan.budgets, standing)
    said = _draws(told.budgets, [pod for pod in standing if pod.uid in over])
    broken = [key for key in sorted(now) if now[key] > max(then[key], said[key])]
    return f"it would break {', '.join(broken)}, which it did not when its plan was made" if broken else ""


def _beyond(budgets: Mapping[str, Budget], victims: Iterable[Pod]) -> Counter[str]:
    """How many of the victims each budget (by its key) does not allow; none where all are allowed."""
    allowed = Counter({key: budget.allowed or 0 for key, budget in budgets.items()})
    return _draws(budgets, victims) - allowed


def _draws(budgets: Mapping[str, Budget], victims: Iterable[Pod]) -> Counter[str]:
    """How many of the victims are charged to each budget. One that is counted as disrupted already is not."""
    return Counter(
        key
        for pod in victims
        for key, budget in budgets.items()
        if selects(budget, pod) and pod.name not in budget.disrupted
    )
