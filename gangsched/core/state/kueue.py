"""What Kueue admits itself on the same cluster: recognised by the marks that it leaves on pods, and by its Workloads.

Of the pods that it admits one by one Kueue's webhook marks each as it is created: a label, and a scheduling gate until
it is admitted. The template of a Job gets a label when Kueue starts it; while the Job waits, nothing on it tells, but
there is a Workload whose owner it is. (https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/)
"""

from __future__ import annotations

from collections.abc import Iterable

from gangsched.core.state.jobs import Jobs, templates_of
from gangsched.messages import causes
from gangsched.model.queues import KUEUE_LABELS, KUEUE_PREFIX
from gangsched.model.records import GangId, Owner, Pod


def mark_of(pod: Pod) -> str:
    """What on a pod says that Kueue admits it, in words; empty if nothing does."""
    gate = next((each for each in pod.gates if each.startswith(KUEUE_PREFIX)), "")
    if gate:
        return causes.scheduling_gate(gate)
    label = next((each for each in KUEUE_LABELS if each in pod.labels), "")
    return f"label {label}" if label else ""


class AdmittedByKueue:
    """The marks of pods (by UID) of each gang, and the Workloads (``namespace/name``) of each object (UID) with some.

    ``at_work`` says that there has been such a Workload.
    """

    def __init__(self) -> None:
        self.at_work = False
        self._marks: dict[GangId, dict[str, str]] = {}
        self._owners: dict[str, tuple[Owner, ...]] = {}
        self._workloads: dict[str, set[str]] = {}

    def pod_set(self, old: Pod | None, pod: Pod) -> None:
        """A pod was created or changed."""
        if old is not None:
            self.pod_dropped(old)
        mark = mark_of(pod)
        if mark:
            self._marks.setdefault(pod.gang, {})[pod.uid] = mark

    def pod_dropped(self, pod: Pod) -> None:
        """A pod is gone, or not what it was (its last record) any more."""
        marks = self._marks.get(pod.gang)
        if marks is not None:
            marks.pop(pod.uid, None)
            if not marks:
                del self._marks[pod.gang]

    def mark_on(self, gang: GangId) -> str:
        """What on a pod of the gang says that Kueue admits it; empty if nothing does."""
        return min(self._marks.get(gang, {}).values(), default="")

    def admits(self, gangs: Iterable[GangId], jobs: Jobs) -> str:
        """How it is known that Kueue admits these gangs, in words; empty if it is not. A mark on a template will be one
        on each pod.
        """
        for gang in gangs:
            mark = self.mark_on(gang)
            owner = None if mark else jobs.of_gang(gang)
            if owner is not None:
                mark = self.workload_of(owner.uid, owner.owner.uid if owner.owner is not None else "")
                mark = mark or next(filter(None, map(mark_of, templates_of(owner))), "")
            if mark:
                return mark
        return ""

    def workload_set(self, key: str, owners: tuple[Owner, ...]) -> Iterable[Owner]:
        """A Workload was created or changed, or is gone (without owners); returns those for which that is news."""
        before = self._owners.get(key, ())
        if before == owners:
            return ()
        for each in before:
            workloads = self._workloads.get(each.uid, set())
            workloads.discard(key)
            if not workloads:
                self._workloads.pop(each.uid, None)
        for each in owners:
            self._workloads.setdefault(each.uid, set()).add(key)
        if owners:
            self.at_work = True
            self._owners[key] = owners
        else:
            self._owners.pop(key, None)
        return dict.fromkeys((*before, *owners))

    def workload_of(self, *uids: str) -> str:
        """The Workload of the first of these objects that has one, in words; empty if none has."""
        found = next((self._workloads[uid] for uid in uids if uid in self._workloads), None)
        return f"Workload {min(found)}" if found else ""
