"""What taints of controllers say about a node: it comes back by itself, it is about to be removed, or neither.

Sources: the node lifecycle controller, cloud providers, Cluster Autoscaler (utils/taints) and Karpenter
(pkg/apis/v1/taints.go). Pods do not tolerate these taints to use a node.
"""

from __future__ import annotations

from gangsched.model.constraints import Taint

CORDONED = "node.kubernetes.io/unschedulable"
_OF_NODE_CONTROLLER = "node.kubernetes.io/"
#: Taken off when the node has started.
_STARTING = frozenset(
    (
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cloudprovider.kubernetes.io/shutdown",
        "karpenter.sh/unregistered",
        "node.cilium.io/agent-not-ready",
    )
)
_STARTUP_PREFIXES = (
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
)
#: The node is deleted soon.
_GOING = frozenset(
    (
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        "cloud.google.com/impending-node-termination",
    )
)


def is_of_state(taint: Taint) -> bool:
    """Return True if a taint says that the node is cordoned, not ready or not started: it is taken off again."""
    return taint.key.startswith((_OF_NODE_CONTROLLER, *_STARTUP_PREFIXES)) or taint.key in _STARTING


def is_of_removal(taint: Taint) -> bool:
    """Return True if a taint says that the node is about to be removed."""
    return taint.key in _GOING
