"""Features that a node must declare (``status.declaredFeatures``) before a pod may run there.

The rules are those by which kube-scheduler's NodeDeclaredFeatures infers requirements from a pod's spec (Kubernetes
1.36). Older API servers drop or refuse the fields that require a feature, so nothing is inferred there.
"""

from __future__ import annotations

from gangsched.model import wire

RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
USER_NAMESPACE_ON_HOST_NETWORK = "UserNamespacesHostNetworkSupport"


def required_node_features(spec: wire.PodSpec) -> tuple[str, ...]:
    """Names of features, sorted."""
    out = []
    containers = (*spec.containers, *(spec.init_containers or ()))
    if any(rule.action == "RestartAllContainers" for c in containers for rule in c.restart_policy_rules or ()):
        out.append(RESTART_ALL_CONTAINERS)
    if spec.host_network and spec.host_users is False:
        out.append(USER_NAMESPACE_ON_HOST_NETWORK)
    return tuple(out)
