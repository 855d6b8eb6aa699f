"""Schedulers of others that bind pods: against these nodes are held.

A scheduler name by itself proves nothing, because any user may write any name into a pod. A name counts while a pod of
it is on a node and its binding was seen. Pods that were there when the process started count too. A pod that its user
has created with a ``nodeName`` does not count, nor does a static pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from gangsched.model.records import GangId, Pod


class Rivals:
    """The pods of other schedulers, as far as it matters who binds them."""

    def __init__(self, is_ours: Callable[[GangId], bool]) -> None:
        self._is_ours = is_ours
        self._on_nodes: Counter[str] = Counter()
        self._binds: set[str] = set()
        self._listed = False
        #: The UIDs of pods that wait for other schedulers, by the name of these.
        self.waiting: dict[str, set[str]] = {}

    def listed(self) -> None:
        """All pods that were there at the start are known."""
        self._listed = True

    def seen(self, old: Pod | None, pod: Pod) -> None:
        """A pod has a new record instead of the ``old`` one, or is new."""
        self._forget(old)
        ours = self._is_ours(pod.gang)
        if pod.live and not (pod.node or pod.gates or ours):
            self.waiting.setdefault(pod.scheduler, set()).add(pod.uid)
        if pod.node:
            self._on_nodes[pod.scheduler] += 1
            bound = not old.node if old is not None else not self._listed
            if bound and not ours and not pod.static:
                self._binds.add(pod.scheduler)

    def gone(self, pod: Pod) -> None:
        """A pod no longer exists."""
        self._forget(pod)
        if not self._on_nodes[pod.scheduler]:
            del self._on_nodes[pod.scheduler]
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
