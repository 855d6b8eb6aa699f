"""Schedulers of others that bind pods: against these nodes are held.

A scheduler name by itself proves nothing, because any user may write any name, and any ``nodeName``, into a new pod. A
name counts if one of its pods shows what users cannot write:

- A pod that was pending is on a node. Only a binding does that.
- A pending pod has ``PodScheduled=False`` from a scheduler. Only components may write the status of pods.
- A pod in ``kube-system`` is on a node. Only administrators create pods there, and a process that starts finds such
  pods of kube-scheduler in every cluster. Static pods have no scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from gangsched.model.records import GangId, Pod

#: The namespace of the control plane.
_SYSTEM = "kube-system"
#: The API server writes this reason itself, whatever the name of the scheduler.
_GATED = "SchedulingGated"


class Rivals:
    """The pods of other schedulers, as far as it matters who binds them."""

    def __init__(self, is_ours: Callable[[GangId], bool]) -> None:
        self._is_ours = is_ours
        self._on_nodes: Counter[str] = Counter()
        self._binds: set[str] = set()
        #: The UIDs of pods that wait for other schedulers, by the name of these.
        self.waiting: dict[str, set[str]] = {}

    def seen(self, old: Pod | None, pod: Pod) -> None:
        """A pod has a new record instead of the ``old`` one, or is new."""
        self._forget(old)
        ours = self._is_ours(pod.gang)
        if pod.live and not (pod.node or pod.gates or ours):
            self.waiting.setdefault(pod.scheduler, set()).add(pod.uid)
        if pod.node:
            self._on_nodes[pod.scheduler] += 1
        if not ours and _was_scheduled(old, pod):
            self._binds.add(pod.scheduler)

    def forget_pod(self, pod: Pod) -> None:
        """Forget a pod that no longer exists."""
        self._forget(pod)
        if not self._on_nodes[pod.scheduler]:
            del self._on_nodes[pod.scheduler]
            if pod.scheduler not in self.waiting:
                self._binds.discard(pod.scheduler)

    def _forget(self, pod: Pod | None) -> None:
        if pod is None:
            return
        waiting = self.waiting.get(pod.scheduler)
        if waiting is not None:
            waiting.discard(pod.uid)
            if not waiting:
                del self.waiting[pod.scheduler]
        if pod.node:
            self._on_nodes[pod.scheduler] -= 1

    def bind(self, pod: Pod) -> bool:
        """Return whether the scheduler of this pod is another one, and binds pods."""
        return pod.scheduler in self._binds and not self._is_ours(pod.gang)

    def wait(self) -> bool:
        """Return whether a pod waits for another scheduler that binds pods."""
        return not self._binds.isdisjoint(self.waiting)


def _was_scheduled(old: Pod | None, pod: Pod) -> bool:
    """Return whether the pod shows that a scheduler of its name is at work. ``old`` is its record before."""
    if pod.node:
        bound = old is not None and not old.node
        return not pod.static and (bound or pod.namespace == _SYSTEM)
    condition = pod.scheduled_condition
    return condition is not None and condition.status == "False" and condition.reason != _GATED
