"""Which pods their owners have excluded from preemption, in every dialect that has a mark for it.

Sources: Koordinator ``scheduling.koordinator.sh/disable-preemptible`` and
``quota.scheduling.koordinator.sh/preemptible`` (labels); Volcano ``volcano.sh/preemptable`` (the annotation wins
over the label, an unreadable value means "false"); Godel ``godel.bytedance.com/can-be-preempted`` (annotation).
"""

from __future__ import annotations

from gangsched.model.records import Pod

_TRUE = ("true", "True", "TRUE", "t", "T", "1")


def protected(pod: Pod, evict_daemonset_pods: bool = False) -> bool:
    """True when the pod may never be a victim, whatever its priority."""
    if pod.static:
        return True
    if pod.owner is not None and pod.owner.kind == "DaemonSet" and not evict_daemonset_pods:
        return True
    labels, hints = pod.labels, pod.hints
    if labels.get("scheduling.koordinator.sh/disable-preemptible") == "true":
        return True
    if labels.get("quota.scheduling.koordinator.sh/preemptible") == "false":
        return True
    volcano = hints.get("volcano.sh/preemptable", labels.get("volcano.sh/preemptable"))
    if volcano is not None and volcano not in _TRUE:
        return True
    return hints.get("godel.bytedance.com/can-be-preempted") in ("false", "False", "0")
