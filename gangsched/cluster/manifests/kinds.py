"""Which kinds of objects are read, and which are known to say nothing to a scheduler."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from gangsched.model import jobsets, queues, wire, wire_queues, wire_volumes
from gangsched.model.dialects.operators import OPERATORS, OperatorObject
from gangsched.model.wire_jobsets import JobSet

SIGS, COSCHEDULING, UPSTREAM = "scheduling.sigs.k8s.io", "scheduling.x-k8s.io", "scheduling.k8s.io"
STORAGE = "storage.k8s.io"


class PodGroupTemplate(wire.Wire):
    """The name of one template of a Workload; what else it says is copied into the PodGroup."""

    name: str = ""


class WorkloadSpec(wire.Wire):
    """The templates under the names that the versions gave them."""

    pod_group_templates: list[PodGroupTemplate] | None = None
    pod_groups: list[PodGroupTemplate] | None = None


class Workload(wire.Object):
    """``scheduling.k8s.io`` Workload."""

    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)


AnyObject = (
    wire.Pod
    | wire.Node
    | wire.Namespace
    | wire.PriorityClass
    | wire.PodDisruptionBudget
    | wire.SigsPodGroup
    | wire.UpstreamPodGroup
    | wire.Job
    | wire.Service
    | wire.ReplicationController
    | wire.ReplicaSet
    | wire.StatefulSet
    | JobSet
    | OperatorObject
    | Workload
    | wire_volumes.PersistentVolume
    | wire_volumes.PersistentVolumeClaim
    | wire_volumes.StorageClass
    | wire_volumes.CSINode
    | wire_volumes.CSIDriver
    | wire_volumes.CSIStorageCapacity
    | wire_volumes.VolumeAttachment
    | wire_queues.ClusterQueue
    | wire_queues.Cohort
    | wire_queues.LocalQueue
    | wire_queues.ResourceFlavor
    | wire_queues.WorkloadPriorityClass
)


class Kind(msgspec.Struct, frozen=True):
    """One kind that is read. ``group`` is empty for the core API."""

    name: str
    group: str
    versions: tuple[str, ...]
    type: type[AnyObject]
    namespaced: bool = True

    @property
    def api_versions(self) -> str:
        """What ``apiVersion`` may be, for messages."""
        return " or ".join(f"{self.group}/{v}" if self.group else v for v in self.versions)


KINDS: dict[tuple[str, str], Kind] = {
    (k.name, k.group): k
    for k in (
        Kind("Pod", "", ("v1",), wire.Pod),
        Kind("Node", "", ("v1",), wire.Node, namespaced=False),
        Kind("Namespace", "", ("v1",), wire.Namespace, namespaced=False),
        Kind("PriorityClass", UPSTREAM, ("v1",), wire.PriorityClass, namespaced=False),
        Kind("PodDisruptionBudget", "policy", ("v1",), wire.PodDisruptionBudget),
        Kind("PodGroup", SIGS, ("v1alpha1",), wire.SigsPodGroup),
        Kind("PodGroup", COSCHEDULING, ("v1alpha1",), wire.SigsPodGroup),
        Kind("PodGroup", UPSTREAM, ("v1beta1", "v1alpha3", "v1alpha2"), wire.UpstreamPodGroup),
        Kind("Workload", UPSTREAM, ("v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"), Workload),
        Kind("Job", "batch", ("v1",), wire.Job),
        Kind("Service", "", ("v1",), wire.Service),
        Kind("ReplicationController", "", ("v1",), wire.ReplicationController),
        Kind("ReplicaSet", "apps", ("v1",), wire.ReplicaSet),
        Kind("StatefulSet", "apps", ("v1",), wire.StatefulSet),
        Kind("PersistentVolume", "", ("v1",), wire_volumes.PersistentVolume, namespaced=False),
        Kind("PersistentVolumeClaim", "", ("v1",), wire_volumes.PersistentVolumeClaim),
        Kind("StorageClass", STORAGE, ("v1",), wire_volumes.StorageClass, namespaced=False),
        Kind("CSINode", STORAGE, ("v1",), wire_volumes.CSINode, namespaced=False),
        Kind("CSIDriver", STORAGE, ("v1",), wire_volumes.CSIDriver, namespaced=False),
        Kind("CSIStorageCapacity", STORAGE, ("v1",), wire_volumes.CSIStorageCapacity),
        Kind("VolumeAttachment", STORAGE, ("v1",), wire_volumes.VolumeAttachment, namespaced=False),
        Kind("ClusterQueue", queues.GROUP, queues.VERSIONS, wire_queues.ClusterQueue, namespaced=False),
        Kind("Cohort", queues.GROUP, queues.VERSIONS, wire_queues.Cohort, namespaced=False),
        Kind("LocalQueue", queues.GROUP, queues.VERSIONS, wire_queues.LocalQueue),
        Kind("ResourceFlavor", queues.GROUP, queues.VERSIONS, wire_queues.ResourceFlavor, namespaced=False),
        Kind(
            "WorkloadPriorityClass",
            queues.GROUP,
            queues.VERSIONS,
            wire_queues.WorkloadPriorityClass,
            namespaced=False,
        ),
        Kind(jobsets.JOBSET, jobsets.GROUP, (jobsets.VERSION,), JobSet),
        *(Kind(each.kind, each.group, each.versions, OperatorObject) for each in OPERATORS.values()),
    )
}

#: Controllers whose pods a manifest does not have yet: worth saying that they are not made up here.
TEMPLATED = frozenset(("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "CronJob"))

#: Kinds that have no bearing on a decision. The list only makes the warning sound less alarming.
UNREAD = frozenset(
    (
        "APIService",
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "ControllerRevision",
        "CustomResourceDefinition",
        "EndpointSlice",
        "Endpoints",
        "Event",
        "HorizontalPodAutoscaler",
        "Ingress",
        "IngressClass",
        "Lease",
        "LimitRange",
        "MutatingWebhookConfiguration",
        "NetworkPolicy",
        "PodTemplate",
        "ResourceQuota",
        "Role",
        "RoleBinding",
        "RuntimeClass",
        "Secret",
        "ServiceAccount",
        "ValidatingWebhookConfiguration",
    )
)

#: Fields of a pod's spec that the API has beside those that are read.
_UNREAD_OF_PODS = (
    "activeDeadlineSeconds",
    "automountServiceAccountToken",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "ephemeralContainers",
    "hostAliases",
    "hostIPC",
    "hostPID",
    "hostname",
    "hostnameOverride",
    "imagePullSecrets",
    "os",
    "readinessGates",
    "restartPolicy",
    "runtimeClassName",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "subdomain",
    "workloadRef",
)


def _keys(spec: type[Any], unread: Iterable[str]) -> frozenset[str]:
    return frozenset((*(field.encode_name for field in msgspec.structs.fields(spec)), *unread))


#: All keys of the specs that are checked for misspelt keys: what is read, and what the API has beside that.
SPEC_KEYS: dict[tuple[str, str], frozenset[str]] = {
    ("PodGroup", SIGS): _keys(wire.SigsPodGroupSpec, ["minResources"]),
    ("PodGroup", COSCHEDULING): _keys(wire.SigsPodGroupSpec, ["minResources"]),
    ("PodGroup", UPSTREAM): _keys(wire.UpstreamPodGroupSpec, ["parentCompositePodGroupName", "resourceClaims"]),
    ("ClusterQueue", queues.GROUP): _keys(
        wire_queues.ClusterQueueSpec, ["admissionScope", "concurrentAdmissionPolicy"]
    ),
    ("Cohort", queues.GROUP): _keys(wire_queues.CohortSpec, []),
    ("LocalQueue", queues.GROUP): _keys(wire_queues.LocalQueueSpec, ["fairSharing"]),
    ("ResourceFlavor", queues.GROUP): _keys(wire_queues.ResourceFlavorSpec, []),
}

#: Keys of a pod's spec; keys that look like one and are none are misspelt.
POD_SPEC_KEYS = _keys(wire.PodSpec, _UNREAD_OF_PODS)
