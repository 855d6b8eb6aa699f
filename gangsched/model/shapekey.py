"""What the shape of a pod follows from, for comparing two pods: that takes a tenth of the time of making a shape."""

from __future__ import annotations

from gangsched.model import wire
from gangsched.model.requests import RESIZE_PENDING


def shape_key(spec: wire.PodSpec, status: wire.PodStatus) -> tuple[object, ...] | None:
    """Pods for which this is equal have the same shape. None where the pod's own labels or its volumes have a say."""
    if (
        spec.affinity is not None
        or spec.topology_spread_constraints
        or any(v.image is not None for v in spec.volumes or ())
        or any(c.type == RESIZE_PENDING for c in status.conditions or ())
    ):
        return None
    return (
        spec.containers,
        spec.init_containers,
        spec.resources,
        spec.overhead,
        spec.node_selector,
        spec.tolerations,
        spec.resource_claims,
        spec.host_network,
        spec.host_users,
        status.container_statuses,
        status.init_container_statuses,
        status.resources,
        status.allocated_resources,
    )
