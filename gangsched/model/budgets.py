"""The budgets that apply to the eviction of a pod, as in the Eviction API.

Read from pkg/registry/core/pod/storage/eviction.go of Kubernetes 1.37: a pod that has not started, or has ended, is
deleted whatever its budgets say. One that is not ready is no loss to a budget with ``AlwaysAllow``, or with enough
healthy pods beside it. The allowed disruptions are computed as in pkg/controller/disruption.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from gangsched.model.records import Budget, Pod

#: Controllers that own pods and have no scale. With one of their pods, the disruption controller cannot compute a
#: budget that is counted from the scale, and allows no disruption.
WITHOUT_SCALE = ("Job", "DaemonSet", "Node")


def asks_budgets(pod: Pod) -> bool:
    """Return True if budgets have a say in the eviction of a pod: on its node it may have started."""
    return not (pod.node and pod.phase == "Pending") and not pod.finished


def is_charged(budget: Budget, pod: Pod) -> bool:
    """Return True if the eviction of a pod takes a disruption from a budget that selects it."""
    if not asks_budgets(pod):
        return False
    return pod.ready or not (budget.always_allow or budget.healthy >= budget.desired > 0)


def desired_healthy(budget: Budget, expected: int) -> int:
    """Return how many of ``expected`` pods a budget wants healthy; without a number in its spec, one."""
    if budget.max_unavailable is not None:
        return max(0, expected - _scaled(budget.max_unavailable, expected))
    return 1 if budget.min_available is None else _scaled(budget.min_available, expected)


def is_known(budget: Budget, pods: Iterable[Pod]) -> bool:
    """Return True if the disruption controller can compute a budget over these pods. A share, and what may be missing,
    are counted from the scale of the controllers. Behind a pod without an owner a controller is assumed that has one.
    """
    if budget.max_unavailable is None and not str(budget.min_available).endswith("%"):
        return True
    return not any(pod.owner is not None and pod.owner.kind in WITHOUT_SCALE for pod in pods)


def _scaled(value: int | str, total: int) -> int:
    """A number, or a percentage of ``total`` rounded up."""
    if isinstance(value, str) and value.endswith("%"):
        return math.ceil(int(value[:-1]) * total / 100)
    return int(value)
