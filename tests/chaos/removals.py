"""Removals, judged by what the process that asks for them had been told: whom they may be for, and what they cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from gangsched.cluster.sim.controllers import selects
from gangsched.cluster.sim.history import preemptor_of
from gangsched.core.actions import Action, Remove, SuspendJob, WithdrawNomination
from gangsched.core.actuation.records import owners_of
from gangsched.core.decision import PREEMPT, Decision
from gangsched.core.events import Changed, Event
from gangsched.core.ledger.condemned import Cause
from gangsched.core.options import Options
from gangsched.core.preemption.blocks import mode_of
from gangsched.model.budgets import is_charged
from gangsched.model.children import JOBSET_NAME
from gangsched.model.records import PREEMPT_NEVER, SINGLE, Budget, GangId, Pod
from tests.chaos.told import Life, Told
from tests.judge.disrupted import leaves_whole


class Allowed(Life):
    """No pod is removed that has ended, whose priority is not below that of the gang for which it leaves, or for a gang
    that lacks nobody or does not preempt. In drains and rollbacks only a pod that has ended is forbidden; a rollback
    takes members of its gang that a controller makes again.
    """

    def asks(self, action: Action) -> Iterator[str]:
        """What is wrong with a removal."""
        if isinstance(action, Remove):
            yield from self._wrong(self.told.pods.get(action.pod.uid), action.pod.key, preemptor_of(action.mark))
        elif isinstance(action, SuspendJob):
            queue = not action.preemptor or " " in action.preemptor
            for pod in _in_job(self.told, action):
                yield from self._wrong(pod, pod.key, "" if queue else action.preemptor)

    def _wrong(self, victim: Pod | None, key: str, preemptor: str) -> Iterator[str]:
        text = _may_not(self.told, victim, preemptor)
        if text:
            yield f"{key} is removed for {preemptor or 'no gang'}: {text}"


def _in_job(told: Told, action: SuspendJob) -> list[Pod]:
    """The pods that run in the Job or JobSet that is suspended."""
    job = action.job
    return [
        pod
        for pod in told.pods.values()
        if pod.namespace == job.namespace
        and pod.bound
        and pod.live
        and (
            (pod.owner is not None and pod.owner.uid == job.uid)
            or (job.kind == "JobSet" and pod.labels.get(JOBSET_NAME) == job.name)
        )
    ]


def _may_not(told: Told, victim: Pod | None, preemptor: str) -> str:
    """Why this pod may not be evicted for this gang (empty: for none), as far as is known; empty when it may."""
    if victim is None or victim.finished or not victim.node:
        return "it is known to be gone" if victim is None else "it has ended" if victim.finished else "it is not bound"
    if not preemptor:
        return _no_member(victim)
    if victim.gang.family != SINGLE and told.lacking(victim.gang):
        return ""  # what is left of a gang that has lost a member is finished
    gang = told.named(preemptor)
    namespace, _, name = preemptor.partition("/")
    job = told.jobs.get((namespace, name))
    if job is not None and job.template is not None and (gang is None or job.queue.local_queue):
        both = bool(job.queue.local_queue) and bool(told.queue_of(victim))
        return "" if both else _not_lower(victim, job.template.priority)
    if preemptor in told.jobsets:
        return ""  # its Jobs are its members, and its templates their priority: that is not looked at
    if gang is None:
        return "nobody is left of that gang"
    if victim.gang == gang:
        return "it is one of them"
    members, known = told.members(gang), told.group(gang)
    if PREEMPT_NEVER in (*(p.preemption_policy for p in members if p.live), known.preemption_policy if known else None):
        return "that gang does not preempt"
    if not told.lacking(gang):
        return "that gang lacks nobody"
    if not any(p.live and not p.node for p in members):
        return "nobody of that gang waits"
    both = bool(told.queue_of(victim)) and any(map(told.queue_of, members))
    return "" if both else _not_lower(victim, told.priority(gang))


def _no_member(victim: Pod) -> str:
    """Why a pod may not leave in a rollback, if it leaves in one."""
    for owner in owners_of(victim):
        names = {f"{victim.namespace}/{victim.owner.name}" if victim.owner is not None else "", victim.gang.key}
        if owner.cause == Cause.ROLLBACK.value and owner.name not in names:
            return "it is no member"
        if owner.cause == Cause.ROLLBACK.value and (victim.owner is None or victim.owner.kind == "DaemonSet"):
            return "nobody makes it again"
    return ""


def _not_lower(victim: Pod, priority: int) -> str:
    return "" if victim.priority < priority else f"its priority {victim.priority} is not below {priority}"


class Charged(Life):
    """What leaves for other plans is gone for each plan: it takes no more of a budget than the budget allows beside
    them, but for pods that it says are beyond, and of a gang that leaves as a whole it takes its surplus or all.

    A plan is judged with its first removal: its list may change until then. It may stand where a budget allows less by
    then. A budget's status accounts for what was removed before it was told anew.
    """

    #: The settings of the scheduler.
    options = Options()

    def __init__(self, told: Told) -> None:
        super().__init__(told)
        self._last: dict[str, Decision] = {}
        self._begun: set[int] = set()
        self._allowed: dict[int, dict[str, int]] = {}
        self._spent: dict[str, set[str]] = defaultdict(set)

    def hears(self, event: Event) -> None:
        """A status that is another than before may count all that have left."""
        if isinstance(event, Changed) and isinstance(event.record, Budget):
            before, now = self.told.budgets.get(event.record.key), event.record
            if before is None or (before.allowed, before.disrupted) != (now.allowed, now.disrupted):
                self._spent.pop(now.key, None)

    def decides(self, decision: Decision) -> None:
        """It makes this decision."""
        self._last[decision.gang.key] = decision
        self._allowed[id(decision)] = {key: budget.allowed or 0 for key, budget in self.told.budgets.items()}

    def asks(self, action: Action) -> Iterator[str]:
        """What is wrong with the first removal of a plan. One whose members lose their nominations is over."""
        if isinstance(action, WithdrawNomination) and action.pod.uid in self.told.pods:
            gang = self.told.pods[action.pod.uid].gang.key
            last = self._last.get(gang)
            if last is not None and action.pod.uid in {place.uid for place in last.placements}:
                del self._last[gang]
        leaves: list[Pod] = []
        if isinstance(action, Remove) and action.pod.uid in self.told.pods:
            leaves = [self.told.pods[action.pod.uid]]
        elif isinstance(action, SuspendJob):
            leaves = _in_job(self.told, action)
        preemptor = action.preemptor if isinstance(action, SuspendJob) else ""
        if isinstance(action, Remove):
            preemptor = preemptor_of(action.mark)
        decision = self._last.get(preemptor)
        if decision is not None and decision.outcome == PREEMPT and id(decision) not in self._begun:
            self._begun.add(id(decision))
            yield from self._wrong(decision)
        beyond = {victim.uid for each in self._last.values() for victim in each.victims if victim.over_budget}
        for pod in (each for each in leaves if each.uid not in beyond):
            for key, budget in self.told.budgets.items():
                if selects(budget, pod) and is_charged(budget, pod):
                    self._spent[key].add(pod.uid)

    def _wrong(self, decision: Decision) -> Iterator[str]:
        told, about = self.told, f"{decision.gang.key} takes"
        there = [(v, told.pods[v.uid]) for v in decision.victims if v.uid in told.pods and told.pods[v.uid].live]
        for key, budget in sorted(told.budgets.items()):
            charged = [(v, p) for v, p in there if selects(budget, p) and is_charged(budget, p)]
            within = {p.uid: p.key for v, p in charged if not v.over_budget}
            spent = self._spent[key]
            most = max(budget.allowed or 0, self._allowed[id(decision)].get(key, len(within)))
            allowed = max(0, most - len(spent - within.keys()))
            if len(within) > allowed and within.keys() - spent:
                yield f"{about} {sorted(within.values())} of {key}, which allows {allowed} beside {len(spent)} others"
        others = {v.uid for d in self._last.values() if d is not decision for v in d.victims}
        for gang in sorted({p.gang for _, p in there if p.gang.family != SINGLE}):
            yield from (f"{about} {text}" for text in self._broken(gang, {v.uid for v, _ in there}, others))

    def _broken(self, gang: GangId, victims: set[str], others: set[str]) -> Iterator[str]:
        """How much of a gang is taken, if it leaves as a whole then and not all of it does."""
        told, spec = self.told, self.told.group(gang)
        placed = [p for p in told.placed(gang) if p.node in told.nodes or not p.node]
        before = {p.uid for p in placed if p.uid in victims or not (told.leaving(p) or p.uid in others)}
        stay, minimum = before - victims, spec.min_member if spec is not None else 1
        if stay and leaves_whole(mode_of(spec, self.options), len(before), len(stay), minimum):
            yield f"{len(before) - len(stay)} of {len(before)} of {gang.key}"
