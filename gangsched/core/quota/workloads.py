"""What a gang is to quota: pod sets with requests, a priority, a place in a queue; once admitted, usage by flavor.

Rules: https://kueue.sigs.k8s.io/docs/concepts/workload/ . Amounts are integers in base units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from gangsched.messages import causes
from gangsched.model.queues import WorkloadPriorityClass
from gangsched.model.records import PodShape

#: The resource that counts pods; it costs quota only where a queue covers it.
PODS = "pods"

#: A workload's place in its queue: priority first, then who has waited longest, then UID.
Place = tuple[int, float, str]

#: ``(flavor, resource)``: what quota is counted in.
Cell = tuple[str, str]
Amounts = tuple[tuple[Cell, int], ...]


class PodSet(msgspec.Struct, frozen=True, gc=False):
    """``count`` equal pods of a workload. ``shape`` has the requests of one pod, its selectors and tolerations."""

    name: str
    count: int
    shape: PodShape

    def requests(self, covered: Mapping[str, int]) -> dict[str, int]:
        """Requests of all its pods by resource, in name order; ``pods`` only if it is in ``covered``."""
        out = {name: units * self.count for name, units in self.shape.requests if name != PODS}
        if PODS in covered:
            out[PODS] = self.count
        return dict(sorted(out.items()))


class Workload(msgspec.Struct, frozen=True, gc=False):
    """A gang that waits for quota or has it.

    ``queue`` is its ClusterQueue. ``priority`` is for quota only. ``queued`` (seconds) is its place among equals: when
    it was created; being preempted does not change it. ``local_queue`` is ``namespace/name``.
    """

    namespace: str
    name: str
    uid: str
    queue: str
    pod_sets: tuple[PodSet, ...]
    priority: int = 0
    queued: float = 0.0
    local_queue: str = ""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def place(self) -> Place:
        """Its place in its queue."""
        return -self.priority, self.queued, self.uid


class Admission(msgspec.Struct, frozen=True, gc=False):
    """A workload that holds quota.

    The priority of ``workload`` is that by which it may be displaced. ``usage`` is what it holds. ``since`` (seconds)
    is when it got it. ``evicted``: its eviction has begun, and it holds its quota until it is gone.
    """

    workload: Workload
    usage: Amounts
    since: float = 0.0
    evicted: bool = False

    @property
    def order(self) -> tuple[int, float, str]:
        """Who is displaced first within a queue: lower priority, then the latest to be admitted, then UID."""
        return self.workload.priority, -self.since, self.workload.uid


def pod_sets(shapes: Iterable[PodShape]) -> tuple[PodSet, ...]:
    """Pods of a gang by shape, in the order in which each shape comes first; ``main`` if there is only one."""
    counts: dict[PodShape, int] = {}
    for shape in shapes:
        counts[shape] = counts.get(shape, 0) + 1
    if len(counts) == 1:
        return tuple(PodSet("main", n, s) for s, n in counts.items())
    return tuple(PodSet(f"role-{i}", n, s) for i, (s, n) in enumerate(counts.items()))


def workload_priority(
    class_name: str, classes: Mapping[str, WorkloadPriorityClass], pod_priority: int
) -> tuple[int, str]:
    """``(priority, problem)`` of a workload: that of its WorkloadPriorityClass, without one that of its pods."""
    if not class_name:
        return pod_priority, ""
    found = classes.get(class_name)
    if found is None:
        return pod_priority, causes.not_found("WorkloadPriorityClass", class_name)
    return found.value, ""


_BINARY = (("Ei", 2**60), ("Pi", 2**50), ("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def quantity(resource: str, units: int) -> str:
    """An exact quantity for messages: ``cpu`` 1500 -> "1500m", ``memory`` 2**30 -> "1Gi", else the number."""
    if resource == "cpu":
        return str(units // 1000) if units % 1000 == 0 else f"{units}m"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for suffix, size in _BINARY:
            if units and units % size == 0:
                return f"{units // size}{suffix}"
    return str(units)
