"""Kinds that only manifests have, or that say nothing to a scheduler, and the keys that objects may have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gangsched.cluster import kinds
from gangsched.cluster.kinds import UPSTREAM, Kind
from gangsched.model import queues, wire
from gangsched.model.dialects import DIALECTS, upstream


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


def _no_record(_convert: Any, _raw: Any) -> Any:
    """It says nothing by itself: PodGroups that name it are checked against it."""
    raise AssertionError("a Workload has no record")


#: By name and group, the kinds that are read from manifests.
KINDS: Mapping[tuple[str, str], Kind] = {
    **kinds.KINDS,
    ("Workload", UPSTREAM): Kind(
        "Workload", UPSTREAM, "workloads", Workload, _no_record, (*upstream.VERSIONS, "v1alpha1")
    ),
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


def _spec_of(kind: type[wire.Object]) -> type[Any]:
    """As what the spec of these objects is decoded."""
    found: type[Any] = next(field.type for field in msgspec.structs.fields(kind) if field.name == "spec")
    return found


#: All keys of the specs that are checked for misspelt keys: what is read, and what the API has beside that.
SPEC_KEYS: dict[tuple[str, str], frozenset[str]] = {
    **{
        ("PodGroup", each.family): _keys(_spec_of(each.decoded_as), each.unread)
        for each in DIALECTS
        if each.decoded_as is not None
    },
    **{
        (name, queues.GROUP): _keys(_spec_of(KINDS[name, queues.GROUP].type), unread)
        for name, unread in (
            ("ClusterQueue", ["admissionScope", "concurrentAdmissionPolicy"]),
            ("Cohort", []),
            ("LocalQueue", ["fairSharing"]),
            ("ResourceFlavor", []),
        )
    },
}

#: Keys of a pod's spec; keys that look like one and are none are misspelt.
POD_SPEC_KEYS = _keys(wire.PodSpec, _UNREAD_OF_PODS)
