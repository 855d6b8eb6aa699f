"""Everything that happened in the simulated cluster, in order: for output, and for checks after the fact."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from gangsched.cluster.sim.clock import VirtualClock
from gangsched.core.events import Outcome

#: Further facts, ready for JSON.
Detail: TypeAlias = Mapping[str, Any]
NO_DETAIL: Detail = {}

#: Who did it.
INPUT, USER, SCHEDULER, API_SERVER, KUBELET = "input", "user", "scheduler", "api-server", "kubelet"
DISRUPTION_CONTROLLER, POD_GC = "disruption-controller", "pod-gc"
VOLUME_CONTROLLER, JOB_CONTROLLER, JOBSET_CONTROLLER = "volume-controller", "job-controller", "jobset-controller"

#: What was done to an object.
EXISTS, CREATE, CHANGE, GONE = "exists", "create", "change", "gone"
BIND, NOMINATE, WITHDRAW, MARK, UNMARK = "bind", "nominate", "withdraw", "mark", "unmark"
DELETE, EVICT = "delete", "evict"
CONDITION, EVENT, STATUS, DECIDE = "condition", "event", "status", "decide"
ADMIT, RUN, REJECT, SUCCEED, BUDGET = "admit", "run", "reject", "succeed", "budget"
SUSPEND, RESUME, FAIL, COMPLETE = "suspend", "resume", "fail", "complete"
BIND_VOLUME, SELECT_NODE, PROVISION = "bind-volume", "select-node", "provision"

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

    def of(self, *verbs: str, actor: str | None = None) -> Iterator[Entry]:
        """Entries with one of these verbs, by this actor if one is given."""
        return (e for e in self.entries if e.verb in verbs and actor in (None, e.actor))
