"""Reports to the owners of evicted pods: the pods and their Events do not last, owners do.

Jobs, JobSets and groups of ours get a condition; other owners an Event, since their status is not ours to
write. Each is written once for all of its pods that a plan takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gangsched.core.actions import pod_reference
from gangsched.core.lifecycle import admission, report, suspension
from gangsched.model.jobsets import JOBSET
from gangsched.model.records import JOB
from gangsched.model.times import render_time

if TYPE_CHECKING:
    from gangsched.core.decision import Victim
    from gangsched.core.groups import Group
    from gangsched.core.lifecycle.run import Run
    from gangsched.model.records import GangId, Pod

#: The condition of Jobs and JobSets; that of groups is made of their status.
CONDITION = f"gangsched.dev/{report.PODS_EVICTED}"


def lose(run: Run, group: Group, victims: Iterable[Victim], plan: str) -> None:
    """These victims are being removed for the group."""
    lost: dict[tuple[report.Reference, GangId | None], list[Victim]] = {}
    for victim in victims:
        pod = run.world.pods.get(victim.uid)
        for owner in _owners(run, pod) if pod is not None else ():
            lost.setdefault(owner, []).append(victim)
    for (about, gang), theirs in lost.items():
        text = report.evicted_for(group.name, theirs, plan)
        last = f"{render_time(run.now)}: {text}"
        if gang is not None:
            run.evicted[gang] = last  # its status follows when the pods change
        elif about[1] in (JOB, JOBSET):
            admission.set_conditions(run, about, (CONDITION, "True", report.PREEMPTED, last))
        else:
            trigger = pod_reference(run.trigger(group))
            run.actions.append(report.event(about, "Normal", report.PODS_EVICTED, "Preempting", text, trigger))


def _owners(run: Run, pod: Pod) -> Iterator[tuple[report.Reference, GangId | None]]:
    """What a pod belongs to; with its gang where that is a group whose status is ours to write."""
    job, membership, gang = run.world.jobs.owner_of(pod), run.world.membership, pod.gang
    if job is not None:
        yield pod_reference(suspension.reference(job)), None
    elif pod.owner is not None:
        yield ("", pod.owner.kind, pod.namespace, pod.owner.name, pod.owner.uid), None
    spec = membership.objects.get((gang.family, gang.namespace, gang.name))
    if spec is not None and spec.kind not in (JOB, JOBSET):
        about = report.group_reference(gang.family, spec.kind, gang.namespace, gang.name, spec.uid)
        yield about, gang if membership.is_ours(gang) else None
