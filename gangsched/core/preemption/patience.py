"""How long a victim has run at least, and how long a gang waits before it evicts. Both are off by default.

Annotations of a PriorityClass go over the configuration. A group with a PriorityClass of its own has it for its
members. Pods of a class may also tolerate preemption by some priorities for a time
(:mod:`gangsched.model.preemptible`), which is one more minimum run time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import takewhile

from gangsched.core.options import Options
from gangsched.core.state.membership import Membership
from gangsched.messages import causes
from gangsched.model.dialects.objects import preemption_delay
from gangsched.model.preemptible import TOLERATION_SECONDS
from gangsched.model.queues import foreign_queue
from gangsched.model.records import Gang, GangId, Pod, PriorityClass
from gangsched.model.times import render_duration, render_time

#: Of a pod whose class has a negative toleration.
FOR_EVER = causes.TOLERATES_PREEMPTION


class Patience:
    """Answers both questions for one state of the cluster. ``classes`` are the PriorityClasses by name.

    A preemptor of this ``priority`` may find that pods tolerate it for a time, or for ever. ``queue`` is its queue, if
    that is one of another API: such queues may protect their pods from those of the same queue, and from others.

    ``seen`` has the observed start times of pods by UID, in order. They are of the scheduler's clock, so they take
    precedence over timestamps of the API server. Others have only those.
    """

    def __init__(
        self,
        membership: Membership,
        classes: Mapping[str, PriorityClass],
        options: Options,
        seen: dict[str, float] | None = None,
        priority: int = 2**31,
        queue: str = "",
    ) -> None:
        self._membership = membership
        self._priority = priority
        self._seen = {} if seen is None else seen
        self._classes = classes
        self._options = options
        self._queue = queue
        own = [max(c.minimum_run_time_seconds or 0.0, self._toleration(c)) for c in classes.values()]
        own += [seconds for both in membership.minimum_run_times.values() for seconds in both]
        #: No pod has to run longer than this, in seconds; it may be infinite.
        self.longest = max([options.minimum_run_time_seconds, *own])

    # -- victims -------------------------------------------------------------------------------------------

    def minimum(self, pod: Pod, spec: Gang | None) -> float:
        """Seconds that a pod of this gang runs before it may be evicted."""
        found = self._classes.get((spec.priority_class if spec is not None else "") or pod.priority_class)
        own = found.minimum_run_time_seconds if found is not None else None
        own = self._options.minimum_run_time_seconds if own is None else own
        if spec is not None and self._membership.minimum_run_times:
            queue = foreign_queue(spec.family, spec.queue_name)
            of_queue = self._membership.minimum_run_times.get(queue, (0.0, 0.0))
            own = max(own, of_queue[0 if queue == self._queue else 1])
        return own if found is None else max(own, self._toleration(found))

    def _toleration(self, found: PriorityClass) -> float:
        """Seconds for which pods of this class tolerate preemption by this preemptor."""
        if self._priority >= found.preemptable_from:
            return 0.0
        for_ever = math.isinf(found.toleration_seconds) and TOLERATION_SECONDS in self._options.ignore_keys
        return 0.0 if for_ever else found.toleration_seconds

    def spared_until(self, pod: Pod, spec: Gang | None) -> float:
        """The moment from which the pod may be evicted, as far as its run time is concerned."""
        minimum = self.minimum(pod, spec)
        return self._seen.get(pod.uid, pod.runs_since) + minimum if minimum else 0.0

    def begun_lately(self, now: float) -> list[str]:
        """UIDs of the pods that were seen to begin so lately that a minimum may not be over yet."""
        return list(takewhile(lambda uid: self._seen[uid] + self.longest > now, reversed(self._seen)))

    # -- preemptors ----------------------------------------------------------------------------------------

    def delay(self, pending: Mapping[GangId, Sequence[Pod]]) -> float:
        """Seconds that gangs with these pending members, decided together, wait before they evict.

        It is the longest that any of them asks for.
        """
        return max((self._delay(gang, pods) for gang, pods in pending.items()), default=0.0)

    def _delay(self, gang: GangId, pods: Sequence[Pod]) -> float:
        spec = self._membership.spec(gang)
        if spec is not None and spec.preemption_delay_seconds is not None:
            return spec.preemption_delay_seconds
        own = [seconds for p in pods if (seconds := preemption_delay(p.hints)) is not None]
        if own:
            return max(own)
        names = {spec.priority_class} if spec is not None and spec.priority_class else {p.priority_class for p in pods}
        found = [self._class_delay(name) for name in names]
        return max(found, default=self._options.preemption_delay_seconds)

    def _class_delay(self, name: str) -> float:
        found = self._classes.get(name)
        own = found.preemption_delay_seconds if found is not None else None
        return self._options.preemption_delay_seconds if own is None else own


def too_young(seconds: float, until: float) -> str:
    """Why a pod is spared for now."""
    if math.isinf(until):
        return f"it {FOR_EVER}"
    return causes.minimum_run_time(duration=render_duration(seconds), time=render_time(until))


def member_too_young(pod: Pod, seconds: float, until: float) -> str:
    """Why a unit is spared for now: ``pod`` is the member that keeps it longest."""
    if math.isinf(until):
        return causes.member(pod=pod.key, why=FOR_EVER)
    late = causes.not_run_for_minimum(duration=render_duration(seconds))
    return causes.member_protected_until(pod=pod.key, late=late, time=render_time(until))


def delayed(seconds: float, until: float) -> str:
    """Why a gang does not evict yet."""
    return causes.preemption_delay(duration=render_duration(seconds), time=render_time(until))
