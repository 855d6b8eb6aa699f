"""The API server's side of every write: who may change what, and what the answer is.

Checks and outcomes are those of a real API server, as the scheduler's HTTP adapter reports them
(:class:`~gangsched.core.events.WriteDone`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.clock import Timing, VirtualClock
from gangsched.cluster.sim.controllers import selects
from gangsched.cluster.sim.faults import AFTER, BEFORE, Faults
from gangsched.cluster.sim.history import SCHEDULER, Cause, Detail, History
from gangsched.cluster.sim.store import Store
from gangsched.core.actions import (
    Action,
    AllocateClaim,
    AskRemoval,
    Bind,
    BindVolume,
    ClaimWrite,
    GangStatus,
    HoldNode,
    JobStatus,
    Mark,
    NodeWrite,
    Nominate,
    PodRef,
    PodWrite,
    ReleaseClaim,
    ReleaseNode,
    Remove,
    Report,
    ReserveClaim,
    ResumeJob,
    SelectNode,
    SetCondition,
    SetGroupStatus,
    SuspendJob,
    Unmark,
    WithdrawNomination,
    Write,
)
from gangsched.core.events import Changed, Gone, Outcome, WriteDone
from gangsched.model.budgets import asks_budgets, is_charged
from gangsched.model.constraints import Directives
from gangsched.model.devices import MAX_RESERVED
from gangsched.model.held import Held
from gangsched.model.jobsets import JOBSET, JobSet
from gangsched.model.records import Budget, Condition, Job, Pod
from gangsched.model.volumes import ClaimRef, PersistentVolume, PersistentVolumeClaim

#: Reason of DisruptionTarget when the Eviction API sets it.
BY_EVICTION = "EvictionByEvictionAPI"

Answer = Callable[[WriteDone], None]


class Verdict(NamedTuple):
    """An outcome, and the server's message."""

    outcome: Outcome
    message: str = ""


_OK = Verdict(Outcome.OK)
_GONE = Verdict(Outcome.GONE, "no pod with this name and UID")


class ApiServer:
    """Takes actions, makes them take effect a little later, and answers after that.

    ``in_flight`` counts writes that have not been answered yet.
    """

    def __init__(self, clock: VirtualClock, store: Store, history: History, timing: Timing, faults: Faults) -> None:
        self.in_flight = 0
        self._clock = clock
        self._store = store
        self._history = history
        self._timing = timing
        self._faults = faults

    def submit(
        self,
        action: Action,
        answer: Answer,
        lost: Callable[[], bool] = lambda: False,
        over: Callable[[], None] = lambda: None,
    ) -> None:
        """Start one action; ``answer`` is called when its outcome has come back, for those that are answered, and
        ``over`` for all.

        ``lost`` is called when it reaches the server: True if its sender has died on the way, and nothing arrives.
        """
        fault = self._faults.write(action)
        self.in_flight += 1

        def arrive() -> None:
            if lost():
                self.in_flight -= 1
                return
            outcome = Verdict(fault.outcome, fault.message)
            if fault.fails == BEFORE:
                self._note(action, outcome, {"fault": BEFORE})
            else:
                real = self._execute(action)
                if fault.fails != AFTER:
                    outcome = real
                else:
                    self._note(action, outcome, {"fault": AFTER})
            self._clock.after(self._timing.write_seconds + fault.answer_delay_seconds, lambda: done(outcome))

        def done(outcome: Verdict) -> None:
            self.in_flight -= 1
            if isinstance(action, Write):
                answer(WriteDone(action.id, outcome.outcome, outcome.message))
            over()

        self._clock.after(fault.delay_seconds + self._timing.write_seconds, arrive)

    def not_sent(self, action: Action) -> Verdict:
        """An action that is not sent after all."""
        outcome = Verdict(Outcome.OUTDATED, "not wanted any more before it was sent")
        self._note(action, outcome)
        return outcome

    # ------------------------------------------------------------------------------------------------- what they do

    def _execute(self, action: Action) -> Verdict:
        match action:
            case Report():
                self._report(action)
                return _OK
            case GangStatus():
                return self._gang_status(action)
            case SetGroupStatus(group):
                gang = self._store.gangs.get((group.family, group.namespace, group.name))
                status = {**(gang.status or {} if gang is not None else {}), **action.status}
                return self._gang_status(GangStatus(group.family, group.namespace, group.name, group.uid, status))
        outcome = self._outcome(action)
        if outcome.outcome is not Outcome.OK:
            self._note(action, outcome)
        return outcome

    def _outcome(self, action: Write | SetCondition) -> Verdict:
        match action:
            case BindVolume():
                return self._bind_volume(action)
            case SelectNode():
                return self._select_node(action)
            case AllocateClaim() | ReserveClaim() | ReleaseClaim():
                return self._write_claim(action)
            case SuspendJob() | ResumeJob():
                return self._suspend_or_resume(action)
            case HoldNode() | ReleaseNode():
                return self._hold_or_release(action)
        pod = self._store.pod(action.pod.namespace, action.pod.name, action.pod.uid)
        return _GONE if pod is None else self._write(action, pod)

    def _bind_volume(self, action: BindVolume) -> Verdict:
        volume = self._store.storage("PersistentVolume", "", action.volume)
        if not isinstance(volume, PersistentVolume) or volume.uid != action.volume_uid:
            return Verdict(Outcome.GONE, "no volume with this name and UID")
        ref = ClaimRef(action.pod.namespace, action.claim, action.claim_uid)
        if volume.claim != ref and volume.version != action.version:
            return Verdict(Outcome.CONFLICT, f"persistentvolume {volume.name} has been changed")
        changed = msgspec.structs.replace(volume, claim=ref)
        cause = Cause(SCHEDULER, log.BIND_VOLUME, _said(action))
        self._store.apply(Changed(changed), cause)
        return _OK

    def _write_claim(self, action: ClaimWrite) -> Verdict:
        """Return the final result of the adapter: another version of the claim alone is no obstacle."""
        claim = self._store.claim(action.claim.namespace, action.claim.name)
        if claim is None or claim.uid != action.claim.uid:
            return Verdict(Outcome.GONE, "no claim with this name and UID")
        changed: Any
        wanted = tuple((each.resource, each.name, each.uid) for each in action.consumers)
        if isinstance(action, ReleaseClaim):
            gone = {each.uid for each in action.consumers}
            left = tuple(each for each in claim.reserved_for if each[2] not in gone)
            if left == claim.reserved_for:
                return _OK
            changed = msgspec.structs.replace(claim, reserved_for=left, allocation=claim.allocation if left else None)
        else:
            as_decided = claim.allocation == action.allocation
            if as_decided and set(wanted) <= set(claim.reserved_for):
                return _OK
            if claim.deleting:
                return Verdict(Outcome.CONFLICT, f"resourceclaim {claim.name} is being deleted")
            if not as_decided and (claim.allocation is not None or isinstance(action, ReserveClaim)):
                return Verdict(Outcome.CONFLICT, f"resourceclaim {claim.name} was allocated by another client")
            reserved = tuple(dict.fromkeys((*claim.reserved_for, *wanted)))
            if len(reserved) > MAX_RESERVED:
                return Verdict(Outcome.REFUSED, f"resourceclaim {claim.name} has too many consumers")
            changed = msgspec.structs.replace(claim, reserved_for=reserved, allocation=action.allocation)
        self._store.apply(Changed(changed), Cause(SCHEDULER, verb_of(action), _said(action)))
        return _OK

    def _suspend_or_resume(self, action: SuspendJob | ResumeJob) -> Verdict:
        """Return the final result of the adapter: another version of the Job alone is no obstacle."""
        ref = action.job
        find = self._store.jobset if ref.kind == JOBSET else self._store.job
        job: Job | JobSet | None = find(ref.namespace, ref.name)
        if job is None or job.uid != ref.uid:
            return Verdict(Outcome.GONE, f"no {ref.kind} with this name and UID")
        suspend = isinstance(action, SuspendJob)
        if job.suspended == suspend:
            return _OK
        if job.finished:
            return Verdict(Outcome.CONFLICT, f"{ref.kind} {job.key} has finished")
        by = "" if isinstance(action, ResumeJob) and action.held else action.scheduler
        if not suspend and job.suspended_by != by:
            return Verdict(Outcome.CONFLICT, f"{ref.kind} {job.key} has been suspended by another client")
        since, by = (self._clock.stamp, action.scheduler) if suspend else (0.0, "")
        evicted = job.evicted or suspend  # as the status says by then
        changed = msgspec.structs.replace(
            job, suspended=suspend, suspended_by=by, suspended_since=since, evicted=evicted
        )
        if isinstance(action, ResumeJob) and action.templates is not None:
            changed = _given(changed, action.templates)
        self._store.apply(Changed(changed), Cause(SCHEDULER, verb_of(action), _said(action)))
        return _OK

    def _hold_or_release(self, action: HoldNode | ReleaseNode) -> Verdict:
        """Return the final result of the adapter: another version of the node alone is no obstacle."""
        node = self._store.nodes.get(action.node.name)
        if node is None or (node.uid or node.name) != action.node.uid:
            return Verdict(Outcome.GONE, "no node with this name and UID")
        place = node.held.place if node.held is not None else len(node.taints)
        held = Held(action.value, place) if isinstance(action, HoldNode) else None
        cause = Cause(SCHEDULER, verb_of(action), _said(action))
        self._store.apply(Changed(msgspec.structs.replace(node, held=held)), cause)
        return _OK

    def _select_node(self, action: SelectNode) -> Verdict:
        claim = self._store.storage("PersistentVolumeClaim", action.pod.namespace, action.claim)
        if not isinstance(claim, PersistentVolumeClaim) or claim.uid != action.claim_uid:
            return Verdict(Outcome.GONE, "no claim with this name and UID")
        changed = msgspec.structs.replace(claim, selected_node=action.node)
        self._store.apply(Changed(changed), Cause(SCHEDULER, log.SELECT_NODE, _said(action)))
        return _OK

    def _write(self, action: PodWrite | SetCondition, pod: Pod) -> Verdict:
        now = self._clock.stamp
        match action:
            case Bind(node=node):
                return self._bind(action, pod, node)
            case Nominate():
                intent = Condition("True", "Nominated", action.message, now)
                return self._update(action, pod, nominated_node=action.node, intent=_since(intent, pod.intent))
            case WithdrawNomination():
                intent = Condition("False", action.reason, action.message, now)
                return self._update(action, pod, nominated_node="", intent=_since(intent, pod.intent))
            case Mark():
                mark = Condition("True", action.reason, action.message, now) if action.message else pod.disruption
                owned = "Owned" if action.message else "Announced"
                return self._mark(action, pod, mark, Condition("True", owned, action.owners, now))
            case Unmark():
                mark = Condition("False", action.reason, action.message, now)
                return self._mark(action, pod, mark, Condition("False", "Withdrawn", "", now))
            case SetCondition():
                condition = Condition("False", action.reason, action.message, now)
                return self._update(action, pod, scheduled_condition=_since(condition, pod.scheduled_condition))
            case AskRemoval():
                return self._eviction_of(pod) if action.evict else _OK
            case Remove(mark=mark) if mark and pod.deleting_since is None and not pod.disruption_target:
                return Verdict(Outcome.CONFLICT, "its mark does not stand any more")
            case Remove(evict=True):
                return self._evict(action, pod)
        return self._delete(action, pod)

    def _mark(self, action: Mark | Unmark, pod: Pod, mark: Condition | None, owners: Condition) -> Verdict:
        since = _since(mark, pod.disruption) if mark is not None else None
        fields = {"disruption": since, "evicted_for": _since(owners, pod.evicted_for)}
        return self._update(action, pod, **fields)

    def _bind(self, action: Bind, pod: Pod, node: str) -> Verdict:
        if pod.deleting_since is not None:
            return Verdict(Outcome.CONFLICT, f"pod {pod.key} is being deleted and cannot be bound")
        if pod.node:
            return Verdict(Outcome.CONFLICT, f"pod {pod.key} is already bound to {pod.node}")
        if pod.gates:
            return Verdict(Outcome.CONFLICT, f"pod {pod.key} has scheduling gates: {', '.join(pod.gates)}")
        bound = Condition("True", since=self._clock.stamp)
        return self._update(action, pod, node=node, nominated_node="", scheduled_condition=bound)

    def _delete(self, action: Remove, pod: Pod) -> Verdict:
        """Set the deletionTimestamp; what no kubelet has to stop is gone at once."""
        if not pod.node or pod.finished or pod.grace_seconds <= 0:
            self._store.apply(Gone("Pod", pod.namespace, pod.name, pod.uid), _cause(action))
            return _OK
        if pod.deleting_since is not None:
            return self._update(action, pod)
        return self._update(action, pod, deleting_since=self._clock.stamp + pod.grace_seconds)

    def _evict(self, action: Remove, pod: Pod) -> Verdict:
        """The eviction subresource: budgets protect running pods that are not going away already."""
        if not _budgets_protect(pod):
            return self._delete(action, pod)
        if (verdict := self._eviction_of(pod)) is not _OK:
            return verdict
        for budget in (each for each in self._budgets_of(pod) if is_charged(each, pod)):
            names_, left = tuple(sorted({*budget.disrupted, pod.name})), (budget.allowed or 0) - 1
            spent = msgspec.structs.replace(budget, allowed=left, disrupted=names_)
            cause = Cause(log.API_SERVER, log.BUDGET, {"disruptionsAllowed": left})
            self._store.apply(Changed(spent), cause)
        condition = Condition("True", BY_EVICTION, "Eviction API: evicting", self._clock.stamp)
        evicted = msgspec.structs.replace(pod, disruption=condition)
        self._store.put_pod(evicted, Cause(log.API_SERVER, log.CONDITION, {"reason": BY_EVICTION}))
        outcome = self._delete(action, evicted)
        if action.mark:
            self._clock.after(2 * self._timing.write_seconds, lambda: self._restore_mark(action))
        return outcome

    def _budgets_of(self, pod: Pod) -> list[Budget]:
        return [budget for budget in self._store.budgets.values() if selects(budget, pod)]

    def _eviction_of(self, pod: Pod) -> Verdict:
        """Return the answer of the budgets to an eviction of the pod."""
        budgets = self._budgets_of(pod) if _budgets_protect(pod) else []
        charged = [budget for budget in budgets if is_charged(budget, pod)]
        if len(budgets) > 1:
            names = ", ".join(b.name for b in budgets)
            return Verdict(Outcome.REFUSED, f"pod {pod.key} is under several PodDisruptionBudgets ({names})")
        if charged and (charged[0].outdated or not charged[0].allowed):
            return Verdict(Outcome.BLOCKED, f"PodDisruptionBudget {charged[0].key} allows no disruption now")
        return _OK

    def _restore_mark(self, action: Remove) -> None:
        """An eviction replaces the mark by its own; the scheduler puts it back while the pod is there."""
        pod = self._store.pod(action.pod.namespace, action.pod.name, action.pod.uid)
        if pod is not None:
            mark = Condition("True", action.reason, action.mark, self._clock.stamp)
            changed = msgspec.structs.replace(pod, disruption=_since(mark, pod.disruption))
            self._store.put_pod(changed, Cause(SCHEDULER, log.MARK, {"message": action.mark}))

    def _gang_status(self, action: GangStatus) -> Verdict:
        if isinstance(action, JobStatus):
            return _OK  # conditions of Jobs are not read here
        gang = self._store.gangs.get((action.family, action.namespace, action.name))
        if gang is None or gang.uid != action.uid:
            return _GONE
        changed = msgspec.structs.replace(gang, status=dict(action.status))
        phase = action.status.get("phase")
        self._store.apply(Changed(changed), Cause(SCHEDULER, log.STATUS, {"phase": str(phase)} if phase else {}))
        return _OK

    def _report(self, action: Report) -> None:
        _, kind, namespace, name, uid = action.regarding
        detail = {"type": action.kind, "reason": action.reason, "note": action.note}
        key = f"{namespace}/{name}" if namespace else name
        self._history.add(Cause(SCHEDULER, log.EVENT, detail), kind, key, uid=uid)

    def _update(self, action: Write | SetCondition, pod: Pod, **fields: object) -> Verdict:
        self._store.put_pod(msgspec.structs.replace(pod, **fields), _cause(action, pod))
        return _OK

    def _note(self, action: Action, outcome: Verdict, more: Detail = log.NO_DETAIL) -> None:
        """A write that had no effect, or whose answer is lost, is part of the history too."""
        detail: dict[str, Any] = {"message": outcome.message, **more}
        if isinstance(action, Report):
            kind, key, uid = action.regarding[1], "/".join(filter(None, action.regarding[2:4])), action.regarding[4]
        elif isinstance(action, SuspendJob | ResumeJob):
            kind, key, uid = action.job.kind, action.job.key, action.job.uid
        elif isinstance(action, ClaimWrite):
            kind, key, uid = "ResourceClaim", action.claim.key, action.claim.uid
        elif isinstance(action, NodeWrite):
            kind, key, uid = "Node", action.node.name, action.node.uid
        elif isinstance(action, GangStatus):
            kind, key, uid = "PodGroup", f"{action.namespace}/{action.name}", action.uid
        else:
            kind, key, uid = "Pod", action.pod.key, action.pod.uid
        cause = Cause(SCHEDULER, verb_of(action), {**_said(action), **detail})
        self._history.add(cause, kind, key, uid=uid, outcome=outcome.outcome, changed=False)


def reference(pod: Pod) -> PodRef:
    """This incarnation of the pod, as actions name it."""
    return PodRef(pod.namespace, pod.name, pod.uid)


#: By kind of action: what the history calls it, and what it keeps of it.
_TOLD: Mapping[type[Any], tuple[str, tuple[str, ...]]] = {
    Bind: (log.BIND, ("node",)),
    Nominate: (log.NOMINATE, ("node", "plan", "message")),
    WithdrawNomination: (log.WITHDRAW, ("reason", "message")),
    Mark: (log.MARK, ("message", "owners")),
    Unmark: (log.UNMARK, ("message",)),
    Remove: (log.DELETE, ("mark",)),
    AskRemoval: (log.ASK, ()),
    BindVolume: (log.BIND_VOLUME, ("volume", "claim")),
    SelectNode: (log.SELECT_NODE, ("node", "claim")),
    AllocateClaim: (log.ALLOCATE, ("allocation", "consumers")),
    ReserveClaim: (log.RESERVE, ("consumers",)),
    ReleaseClaim: (log.RELEASE_CLAIM, ("consumers",)),
    SuspendJob: (log.SUSPEND, ("preemptor", "plan")),
    ResumeJob: (log.RESUME, ()),
    HoldNode: (log.HOLD, ("value",)),
    ReleaseNode: (log.RELEASE, ()),
    SetCondition: (log.CONDITION, ("reason", "message")),
    Report: (log.EVENT, ()),
}


def _budgets_protect(pod: Pod) -> bool:
    return bool(pod.node) and asks_budgets(pod) and pod.deleting_since is None


def verb_of(action: Action) -> str:
    """The name of the action in the history."""
    if isinstance(action, Remove) and action.evict:
        return log.EVICT
    return _TOLD[type(action)][0] if type(action) in _TOLD else log.STATUS


def _said(action: Action) -> dict[str, Any]:
    """The entry of an action in the history."""
    said = {name: getattr(action, name) for name in _TOLD.get(type(action), ("", ()))[1]}
    if isinstance(action, BindVolume | SelectNode):
        said["claim"] = f"{action.pod.namespace}/{action.claim}"
    if isinstance(action, ClaimWrite):
        said["consumers"] = [each.name for each in action.consumers]
    if isinstance(action, AllocateClaim):
        said["allocation"] = ["/".join(each.device) for each in action.allocation.devices]
    return {} if isinstance(action, Remove) and not action.mark else said


def _cause(action: Write | SetCondition, pod: Pod | None = None) -> Cause:
    detail = _said(action)
    if pod is not None and pod.node and isinstance(action, Remove | Mark):
        detail["node"] = pod.node
    return Cause(SCHEDULER, verb_of(action), detail)


def _given(job: Job | JobSet, templates: Sequence[Directives]) -> Job | JobSet:
    """A Job or JobSet whose templates have this of their flavors."""
    if isinstance(job, Job):
        return msgspec.structs.replace(job, added=templates[0])
    replicated = tuple(
        msgspec.structs.replace(each, job=msgspec.structs.replace(each.job, added=added))
        for each, added in zip(job.replicated, templates, strict=True)
    )
    return msgspec.structs.replace(job, replicated=replicated)


def _since(new: Condition, old: Condition | None) -> Condition:
    """The same condition keeps the time of its last transition."""
    if old is not None and old.status == new.status:
        return msgspec.structs.replace(new, since=old.since)
    return new
