"""Nodes to which other schedulers have nominated pods: they have made room there, and are about to use it.

Room on such a node is left to a pending pod of strictly higher priority than the gang that is decided, until it is
bound or deleted, its nomination changes, or so much time has passed without a terminating pod on that node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gangsched.core.agenda import Page
from gangsched.model.records import Pod

#: A nomination that has not been used for so long (seconds), with nothing on its node to wait for, is left alone.
UNUSED_SECONDS = 120.0


class ForeignNominations:
    """Pods by UID, each with the node to which another scheduler has nominated it. ``ours`` says whether a pod is for
    this scheduler; ``terminates`` whether a pod that terminates is on a node.
    """

    def __init__(self, ours: Callable[[Pod], bool], terminates: Callable[[str], bool], due: Page[str]) -> None:
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
            self.gone(pod.uid)
        elif old is None or self._node(old) != node:
            self._pods[pod.uid] = pod
            self._due.at(pod.uid, now + UNUSED_SECONDS)
        elif pod.uid in self._pods:
            self._pods[pod.uid] = pod

    def gone(self, uid: str) -> None:
        """The pod no longer exists, or is not nominated any more."""
        if self._pods.pop(uid, None) is not None:
            self._due.never(uid)

    def freed(self, node: str, now: float) -> None:
        """A pod that terminated has left this node: only from now on it can be used."""
        for uid, pod in self._pods.items():
            if pod.nominated_node == node:
                self._due.at(uid, now + UNUSED_SECONDS)

    def node_of(self, uid: str) -> str:
        """The node that is left to this pod; empty without one."""
        pod = self._pods.get(uid)
        return pod.nominated_node if pod is not None else ""

    def above(self, priority: int) -> Iterator[Pod]:
        """The pods of higher priority to which their nodes are left."""
        return (self._pods[uid] for uid in sorted(self._pods) if self._pods[uid].priority > priority)

    def lapsed(self, now: float) -> list[str]:
        """The nodes that need not be left to a pod any more, because it has not used them in time."""
        nodes = []
        for uid in self._due.due(now):
            node = self._pods[uid].nominated_node
            if self._terminates(node):
                self._due.at(uid, now + UNUSED_SECONDS)
            else:
                self.gone(uid)
                nodes.append(node)
        return nodes

    def _node(self, pod: Pod) -> str:
        waits = pod.live and not pod.node and not self._ours(pod)
        return pod.nominated_node if waits else ""
