"""The cluster as it was at any moment of a history."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import Entry, History
from gangsched.model import dialects
from gangsched.model.records import Budget, Gang, GangId, Node, Pod

#: The gang in the message of the mark of a member that leaves because its gang is bound in part.
_ROLLED_BACK = re.compile(r"rolling back a gang that is bound in part: ([^,\s]+)")


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
    told_only = entry.verb in (log.EVENT, log.DECIDE)
    return entry.record is None and entry.changed and entry.outcome == log.OK and not told_only


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
    """Did the scheduler ask for a pod to be deleted or evicted?"""
    return entry.actor == log.SCHEDULER and entry.verb in (log.DELETE, log.EVICT)


def rolled_back_for(entry: Entry) -> str:
    """``namespace/gang`` of a gang that was bound in part, if its member was removed for that; else empty."""
    found = _ROLLED_BACK.search(str(entry.detail.get("mark", ""))) if removal(entry) else None
    return found[1] if found else ""
