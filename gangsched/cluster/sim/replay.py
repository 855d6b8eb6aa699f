"""The cluster as it was at any moment of a history."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gangsched.cluster.sim import history as log
from gangsched.cluster.sim.history import Entry, History
from gangsched.model.records import Budget, Gang, Node, Pod


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
