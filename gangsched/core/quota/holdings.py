"""What pods hold of quota: by the flavors that they were given, or by those of the node on which they run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gangsched.core.quota.workloads import PODS, Admission, Cell
from gangsched.model.queues import ClusterQueue, ResourceFlavor
from gangsched.model.records import NO_LABELS, Labels, Node, PodShape

#: ``((resource, flavor), …)`` of one pod, in name order.
Flavors = tuple[tuple[str, str], ...]


def used(shape: PodShape, flavors: Flavors) -> Iterator[tuple[Cell, int]]:
    """What a pod holds in these flavors."""
    of = dict(flavors)
    for resource, units in shape.requests:
        if resource in of and resource != PODS:
            yield (of[resource], resource), units
    if PODS in of:
        yield (of[PODS], PODS), 1


def flavors_of_node(
    shape: PodShape, queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor], node: Node | None
) -> Flavors:
    """The first flavor of each resource group whose labels the node has, else its first."""
    asked = {name for name, units in shape.requests if units} | {PODS}
    labels = node.labels if node is not None else NO_LABELS
    out: list[tuple[str, str]] = []
    for group in queue.groups:
        names = [f.flavor for f in group.flavors]
        fitting = (n for n in names if n in flavors and _is_of(labels, flavors[n]))
        chosen = next(fitting, names[0])
        out += [(resource, chosen) for resource in group.resources if resource in asked]
    return tuple(sorted(out))


def _is_of(labels: Labels, flavor: ResourceFlavor) -> bool:
    return all(labels.get(key) == value for key, value in flavor.labels.items())


def holds_less(before: Admission, after: Admission) -> bool:
    """Is there anything of which others may have more now?"""
    if before.workload.queue != after.workload.queue or (after.evicted and not before.evicted):
        return True
    now = dict(after.usage)
    return any(units > now.get(cell, 0) for cell, units in before.usage)
