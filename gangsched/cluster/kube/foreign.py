"""Pods that others have bound since a decision of ours was made: what it rests on may not be so any more.

A binding waits for its turn, for a token and for a connection. Other schedulers bind pods to the same nodes meanwhile,
and nobody is asked before a Binding is accepted: the API server knows no room. So what the watch has brought in the
meantime is looked at once more as the bytes are about to leave; then only those races are left that nobody but the
API server could decide.

News is told apart from what is known by counting: every batch of events that is delivered raises a sequence number, and
a decision bears the number of events that had been taken in when it was made.
"""

from __future__ import annotations

from collections.abc import Sequence

from gangsched.cluster.kube.latest import MOST, put_latest
from gangsched.core.actions import Bind
from gangsched.core.events import Event, PodChanged, PodGone
from gangsched.model.records import Pod


class Foreign:
    """Per node, the newest binding that is not ours. Not thread-safe; belongs to the I/O loop.

    So many nodes, and so many bindings of ours that have not been seen yet, are remembered at ``most``. What is older
    than that is forgotten: then a binding is sent that might have been held back, or held back for one of our own.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._delivered = 0
        self._bound: set[str] = set()  # UIDs of pods that have been seen on a node
        self._ours: dict[str, str] = {}  # by UID, the node that a binding of ours that nobody has seen yet names
        self._newest: dict[str, tuple[int, str, str]] = {}  # by node: sequence number, namespace, name; oldest first

    def delivered(self, events: Sequence[Event]) -> None:
        """These events are on their way to the decision thread; to be called for every one of them, in order."""
        self._delivered += len(events)
        bound = self._bound
        for event in events:
            if isinstance(event, PodChanged):
                pod = event.pod
                if pod.node and pod.uid not in bound:
                    self._seen(pod)
            elif isinstance(event, PodGone):
                bound.discard(event.uid)
                self._ours.pop(event.uid, None)

    def overtakes(self, action: Bind, known: int) -> str:
        """Has somebody else bound a pod to the node of a binding that was decided when ``known`` events had been taken
        in? Who, in words; empty if not.

        Nor is a binding overtaken that may have taken effect already: to send it again is the way to know.
        """
        uid = action.pod.uid
        newest = self._newest.get(action.node)
        if newest is None or newest[0] <= known or self._ours.get(uid) == action.node or uid in self._bound:
            return ""
        return f"{newest[1]}/{newest[2]} has been bound to {action.node} since this was decided"

    def leaves(self, action: Bind) -> None:
        """This binding is being sent."""
        if action.pod.uid not in self._bound:
            put_latest(self._ours, action.pod.uid, action.node, self._most)

    def failed(self, action: Bind) -> None:
        """It is known that this binding has not taken effect."""
        self._ours.pop(action.pod.uid, None)

    def _seen(self, pod: Pod) -> None:
        """A pod is seen on a node for the first time."""
        if pod.finished:
            return
        self._bound.add(pod.uid)
        if self._ours.pop(pod.uid, None) != pod.node:
            put_latest(self._newest, pod.node, (self._delivered, pod.namespace, pod.name), self._most)
