"""Which pods their owners have excluded from preemption, in every dialect that has a mark for it.

Sources: Koordinator ``scheduling.koordinator.sh/disable-preemptible`` and
``quota.scheduling.koordinator.sh/preemptible`` (labels); Volcano ``volcano.sh/preemptable`` (the annotation wins
over the label, an unreadable value means "false"); Godel ``godel.bytedance.com/can-be-preempted`` (annotation);
KAI ``kai.scheduler/preemptibility`` (label), and that of its PodGroups;
Koordinator's ``scheduling.koordinator.sh/eviction-cost``, of which the largest number says never.
"""

from __future__ import annotations

from gangsched.messages import causes
from gangsched.model.records import Pod

_TRUE = ("true", "True", "TRUE", "t", "T", "1")


#: Why a pod may never be a victim.
STATIC = causes.STATIC_POD
OF_DAEMONSET = causes.DAEMON_SET_POD
COSTS_TOO_MUCH = causes.EVICTION_COST_NEVER
MARKED = causes.NOT_PREEMPTIBLE
#: Of these those that owners decide.
BY_OWNER = (MARKED, COSTS_TOO_MUCH)


def protection(pod: Pod, evict_daemonset_pods: bool = False) -> str:
    """Why the pod may never be a victim, whatever its priority; empty if it may."""
    if pod.static:
        return STATIC
    if pod.owner is not None and pod.owner.kind == "DaemonSet" and not evict_daemonset_pods:
        return OF_DAEMONSET
    if _marked(pod):
        return MARKED
    return COSTS_TOO_MUCH if pod.stakes.never else ""


def _marked(pod: Pod) -> bool:
    labels, hints = pod.labels, pod.hints
    if pod.kept or labels.get("kai.scheduler/preemptibility") == "non-preemptible":
        return True
    if labels.get("scheduling.koordinator.sh/disable-preemptible") == "true":
        return True
    if labels.get("quota.scheduling.koordinator.sh/preemptible") == "false":
        return True
    volcano = hints.get("volcano.sh/preemptable", labels.get("volcano.sh/preemptable"))
    if volcano is not None and volcano not in _TRUE:
        return True
    return hints.get("godel.bytedance.com/can-be-preempted") in ("false", "False", "0")


def protected(pod: Pod, evict_daemonset_pods: bool = False) -> bool:
    """True when the pod may never be a victim, whatever its priority."""
    return bool(protection(pod, evict_daemonset_pods))
