"""Nodes on which other schedulers have made room for pods of theirs: these are left to them."""

from __future__ import annotations

from collections.abc import Callable

from gangsched.core.agenda import Page
from gangsched.model.records import GangId, Pod

#: A nomination that has not been used for so long (seconds), with nothing on its node to wait for, is left alone.
UNUSED_SECONDS = 120.0


class ForeignNominations:
    """Pods by UID, each with the node to which another scheduler has nominated it. ``ours`` says whether a gang is for
    this scheduler; ``terminates`` whether a pod that terminates is on a node.

    ``moved`` has the nodes that were left to such pods, and are now (empty: none), change by change; whoever has read
    it clears it.
    """

    def __init__(self, ours: Callable[[GangId], bool], terminates: Callable[[str], bool], due: Page[str]) -> None:
        self.changed_nodes: list[tuple[str, str]] = []
        self._ours = ours
        self._terminates = terminates
        self._pods: dict[str, Pod] = {}
        self._due = due

    def __bool__(self) -> bool:
        return bool(self._pods)

    def seen(self, old: Pod | None, pod: Pod, now: float) -> None:
        """A pod has a new record instead of the ``old`` one, or is new."""
        node = self._node(pod)
        if not node:
            self.forget_pod(pod.uid)
        elif old is None or self._node(old) != node:
            known = self._pods.get(pod.uid)
            self.changed_nodes.append((known.nominated_node if known is not None else "", node))
            self._pods[pod.uid] = pod
            self._due.at(pod.uid, now + UNUSED_SECONDS)
        elif pod.uid in self._pods:
            self._pods[pod.uid] = pod

    def forget_pod(self, uid: str) -> None:
        """Forget a pod that no longer exists, or is not nominated any more."""
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self.changed_nodes.append((pod.nominated_node, ""))
            self._due.never(uid)

    def freed(self, node: str, now: float) -> None:
        """A pod that terminated has left this node: only from now on it can be used."""
        for uid, pod in self._pods.items():
            if pod.nominated_node == node:
                self._due.at(uid, now + UNUSED_SECONDS)

    def above(self, priority: int) -> list[Pod]:
        """The pods of higher priority to which their nodes are left."""
        return [self._pods[uid] for uid in sorted(self._pods) if self._pods[uid].priority > priority]

    def lapsed(self, now: float) -> list[str]:
        """The nodes that need not be left to a pod any more, because it has not used them in time."""
        nodes = []
        for uid in self._due.due(now):
            node = self._pods[uid].nominated_node
            if self._terminates(node):
                self._due.at(uid, now + UNUSED_SECONDS)
            else:
                del self._pods[uid]
                nodes.append(node)
        return nodes

    def _node(self, pod: Pod) -> str:
        waits = pod.nominated_node and pod.live and not pod.node and not self._ours(pod.gang)
        return pod.nominated_node if waits else ""
