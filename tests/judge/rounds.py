"""The plans of a history as they were carried out, read off the records that stand on pods."""

from __future__ import annotations

import msgspec

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import Entry, History, ends_object, removal
from gangsched.core.actuation.records import EvictionOwner, read_owners
from gangsched.model.children import JOBSET_NAME
from gangsched.model.jobsets import JobSet
from gangsched.model.records import Job, Pod


class Round(msgspec.Struct):
    """One plan, of the gang or queue ``owner``: of pods (UIDs) the number of the entry with which each was first
    ``nominated``, ``marked`` and ``removed``, or left with its Job, and of members that of their binding and of the end
    of their nomination.
    """

    plan: str
    owner: str
    cause: str = "preemption"
    nominated: dict[str, int] = {}
    marked: dict[str, int] = {}
    removed: dict[str, int] = {}
    bound: dict[str, int] = {}
    withdrawn: dict[str, int] = {}


class Rounds(msgspec.Struct):
    """All plans, in the order in which they began; the pods that were removed without a mark of ours, and the marks
    that name more than one plan, as sentences.
    """

    plans: dict[str, Round] = {}
    unmarked: list[str] = []
    shared: list[str] = []
    _pods: dict[str, Pod] = {}
    _marks: dict[str, EvictionOwner] = {}
    _nominated: dict[str, Round] = {}

    def apply(self, entry: Entry) -> None:
        """Go on to the state after this entry."""
        pod = self._pods.get(entry.uid)
        if entry.actor == log.SCHEDULER and entry.outcome == log.OK:
            if entry.kind == "Pod" and pod is not None:
                self._written(entry, pod)
            elif entry.verb == log.SUSPEND and entry.changed:
                for each in [each for each in self._pods.values() if _runs_in(each, entry.record)]:
                    self._leaves(entry, each)
        if isinstance(entry.record, Pod):
            self._pods[entry.uid] = entry.record
        elif entry.kind == "Pod" and ends_object(entry):
            self._pods.pop(entry.uid, None)

    def _plan(self, plan: str, owner: str, cause: str = "preemption") -> Round:
        return self.plans.setdefault(plan, Round(plan, owner, cause))

    def _written(self, entry: Entry, pod: Pod) -> None:
        uid = entry.uid
        match entry.verb:
            case log.NOMINATE:
                made = self._nominated[uid] = self._plan(str(entry.detail["plan"]), pod.gang.key)
                made.nominated.setdefault(uid, entry.number)
            case log.WITHDRAW if uid in self._nominated:
                self._nominated.pop(uid).withdrawn.setdefault(uid, entry.number)
            case log.BIND if uid in self._nominated:
                self._nominated[uid].bound.setdefault(uid, entry.number)
            case log.MARK if entry.detail["message"]:
                owners = read_owners(str(entry.detail.get("owners", ""))) or ()
                if len(owners) > 1:
                    self.shared.append(f"{when(entry)} {entry.object} leaves for {', '.join(o.name for o in owners)}")
                for owner in owners[:1]:
                    self._marks[uid] = owner
                    plan = self._plan(owner.plan, owner.name, owner.cause)
                    if pod.live:
                        plan.marked.setdefault(uid, entry.number)
            case log.UNMARK:
                self._marks.pop(uid, None)
            case _ if removal(entry) and entry.changed:
                self._leaves(entry, pod)

    def _leaves(self, entry: Entry, pod: Pod) -> None:
        mark = self._marks.get(pod.uid)
        if mark is not None:
            self.plans[mark.plan].removed.setdefault(pod.uid, entry.number)
        else:
            self.unmarked.append(f"{when(entry)} {pod.key} was removed without a mark")


def rounds(history: History) -> Rounds:
    """What was carried out in this history."""
    out = Rounds()
    for entry in history:
        out.apply(entry)
    return out


def _runs_in(pod: Pod, job: object) -> bool:
    """Return whether a pod runs in this Job, or in a Job of this JobSet."""
    if not (pod.bound and pod.live):
        return False
    if isinstance(job, JobSet):
        return pod.namespace == job.namespace and pod.labels.get(JOBSET_NAME) == job.name
    return isinstance(job, Job) and pod.owner is not None and pod.owner.uid == job.uid


def when(entry: Entry) -> str:
    """The moment of an entry, as sentences begin with it."""
    return f"at {entry.at_seconds:.3f} s:"
