"""Everything that happened in the simulated cluster, in order: for output, and for checks after the fact; and the
cluster as it was at any moment of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from gangsched.cluster.sim.clock import VirtualClock
from gangsched.core.events import Outcome
from gangsched.model import dialects
from gangsched.model.records import Budget, Gang, GangId, Node, Pod

#: Further facts, ready for JSON.
Detail: TypeAlias = Mapping[str, Any]
NO_DETAIL: Detail = {}

#: The actor.
INPUT, USER, SCHEDULER, API_SERVER, KUBELET = "input", "user", "scheduler", "api-server", "kubelet"
DISRUPTION_CONTROLLER, POD_GC = "disruption-controller", "pod-gc"
CLAIM_CONTROLLER, VOLUME_CONTROLLER, JOB_CONTROLLER, JOBSET_CONTROLLER = (
    "claim-controller",
    "volume-controller",
    "job-controller",
    "jobset-controller",
)

#: An action on an object.
EXISTS, CREATE, CHANGE, GONE = "exists", "create", "change", "gone"
BIND, NOMINATE, WITHDRAW, MARK, UNMARK = "bind", "nominate", "withdraw", "mark", "unmark"
DELETE, EVICT, ASK, HOLD, RELEASE = "delete", "evict", "ask", "hold", "release"
CONDITION, EVENT, STATUS, DECIDE = "condition", "event", "status", "decide"
ADMIT, RUN, REJECT, SUCCEED, BUDGET = "admit", "run", "reject", "succeed", "budget"
SUSPEND, RESUME, FAIL, COMPLETE = "suspend", "resume", "fail", "complete"
BIND_VOLUME, SELECT_NODE, PROVISION = "bind-volume", "select-node", "provision"
ALLOCATE, RESERVE, RELEASE_CLAIM, MAKE_CLAIM = "allocate", "reserve", "release-claim", "make-claim"

OK = Outcome.OK


class Cause(msgspec.Struct, frozen=True, gc=False):
    """Who changes an object, what that is called, and what else is worth knowing."""

    actor: str
    verb: str
    detail: Detail = NO_DETAIL


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One thing that happened.

    ``at_seconds`` counts from the start of the simulation; ``object`` is ``namespace/name`` (or a name);
    ``outcome`` is ``ok`` or why a write had no effect. ``changed`` tells writes that took effect from those that
    found the object as it should be. ``record`` is the object afterwards (None when it is gone); it is not part of
    the output.
    """

    number: int
    at_seconds: float
    actor: str
    verb: str
    kind: str
    object: str
    uid: str = ""
    outcome: Outcome = OK
    changed: bool = True
    detail: Detail = NO_DETAIL
    record: Any = None

    def as_json(self) -> dict[str, Any]:
        """The entry as ``gangsched simulate`` prints it; seconds are rounded to milliseconds."""
        out: dict[str, Any] = {
            "at": round(self.at_seconds, 3),
            "actor": self.actor,
            "verb": self.verb,
            "kind": self.kind,
            "object": self.object,
        }
        if self.outcome != OK:
            out["outcome"] = self.outcome
        if self.detail:
            out["detail"] = dict(self.detail)
        return out


class History:
    """The entries, oldest first. Two runs with the same input have equal histories."""

    def __init__(self, clock: VirtualClock) -> None:
        self.entries: list[Entry] = []
        self._clock = clock
        self._listeners: list[Callable[[Entry], None]] = []

    def subscribe(self, listener: Callable[[Entry], None]) -> None:
        """Call ``listener`` with every entry from now on, in the moment in which it is added."""
        self._listeners.append(listener)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def add(
        self,
        cause: Cause,
        kind: str,
        key: str,
        *,
        uid: str = "",
        outcome: Outcome = OK,
        changed: bool = True,
        record: Any = None,
    ) -> None:
        """Append what happens now."""
        entry = Entry(
            number=len(self.entries),
            at_seconds=self._clock.elapsed_seconds,
            actor=cause.actor,
            verb=cause.verb,
            kind=kind,
            object=key,
            uid=uid,
            outcome=outcome,
            changed=changed,
            detail=cause.detail,
            record=record,
        )
        self.entries.append(entry)
        for listener in self._listeners:
            listener(entry)

    def with_verbs(self, *verbs: str, actor: str | None = None) -> Iterator[Entry]:
        """Entries with one of these verbs, by this actor if one is given."""
        return (e for e in self.entries if e.verb in verbs and actor in (None, e.actor))


#: The gang in the message of the mark of a member that leaves because its gang is bound in part.
_ROLLED_BACK = re.compile(r"rolling back a gang that is bound in part: ([^,\s]+)")

#: Matches kind and name of a drained queue in the DisruptionTarget condition of a pod, or in the text of a suspended
#: Job. The preemptor in the message of a victim's DisruptionTarget condition.
_PREEMPTOR = re.compile(r"preemptor: ([^,\s]+)")
_DRAINED = re.compile(r"(?:^|draining )((?:Cluster|Local)Queue) ([^,\s]+)(?:, which is stopped: |$)")


class Moment(msgspec.Struct):
    """Objects by identity: nodes by name, pods by UID, groups by (family, namespace, name), budgets by key."""

    nodes: dict[str, Node] = {}
    pods: dict[str, Pod] = {}
    gangs: dict[tuple[str, str, str], Gang] = {}
    budgets: dict[str, Budget] = {}

    def pods_on(self, node: str) -> Iterator[Pod]:
        """Pods that take room on the node."""
        return (p for p in self.pods.values() if p.node == node and p.bound)

    def apply(self, entry: Entry) -> None:
        """Go on to the state after this entry."""
        match entry.record:
            case Node() as node:
                self.nodes[node.name] = node
            case Pod() as pod:
                self.pods[pod.uid] = pod
            case Gang() as gang:
                self.gangs[gang.family, gang.namespace, gang.name] = gang
            case Budget() as budget:
                self.budgets[budget.key] = budget
            case None if ends_object(entry):
                self.pods.pop(entry.uid, None)
                self.nodes.pop(entry.object if entry.kind == "Node" else "", None)


def ends_object(entry: Entry) -> bool:
    """True for the entry after which the object no longer exists."""
    told_only = entry.verb in (EVENT, DECIDE)
    return entry.record is None and entry.changed and entry.outcome == OK and not told_only


def moment(history: History, number: int) -> Moment:
    """The state just before the entry with this number; ``len(history)`` gives the state at the end."""
    out = Moment()
    for entry in history.entries[:number]:
        out.apply(entry)
    return out


def minimum_of(ident: GangId, gangs: Mapping[tuple[str, str, str], Gang], pods: Iterable[Pod]) -> int:
    """How many members a gang needs: as its object says, or else as these members do."""
    known = gangs.get((ident.family, ident.namespace, ident.name))
    if known is not None:
        return known.min_member
    described = (dialects.gang_from_member(p) for p in pods)
    return max((g.min_member for g in described if g is not None), default=1)


def removal(entry: Entry) -> bool:
    """Return True if the entry is the scheduler's request to delete or evict a pod."""
    return entry.actor == SCHEDULER and entry.verb in (DELETE, EVICT)


def rolled_back_for(entry: Entry) -> str:
    """``namespace/gang`` of a gang that was bound in part, if its member was removed for that; else empty."""
    found = _ROLLED_BACK.search(str(entry.detail.get("mark", ""))) if removal(entry) else None
    return found[1] if found else ""


def drained_by(entry: Entry) -> tuple[str, str] | None:
    """Kind and name of the queue because of which the scheduler removed a pod, or suspended a Job; None for others."""
    if entry.actor != SCHEDULER or entry.verb not in (DELETE, EVICT, SUSPEND):
        return None
    return drained_queue(str(entry.detail.get("preemptor" if entry.verb == SUSPEND else "mark", "")))


def drained_queue(message: str) -> tuple[str, str] | None:
    """Kind and name of the queue that a mark names because it is drained; None for other marks."""
    found = _DRAINED.search(message)
    return (found[1], found[2]) if found else None


def preemptor_of(message: str) -> str:
    """``namespace/gang`` for whose sake a victim was marked; empty when the message does not say."""
    found = _PREEMPTOR.search(message)
    return found[1] if found else ""


def marked_so(history: History, removal: Entry) -> bool:
    """True if the pod had the mark for which it was removed. Another plan may have written its own over it since."""
    marked = False
    for entry in history.entries[: removal.number]:
        if entry.uid == removal.uid and entry.outcome == OK and entry.verb in (MARK, UNMARK):
            same = entry.verb == MARK and entry.detail["message"] == removal.detail["mark"]
            marked = same or (marked and entry.verb == MARK)
    return marked
