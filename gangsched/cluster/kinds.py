"""The kinds of objects, in one table: where the API has them, what record each becomes, and who reads it.

Watches, discovery, snapshots and manifests go by this table. Beside it stands what only manifests need: kinds that say
nothing to a scheduler, and the keys that objects may have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

import msgspec

from gangsched.core.events import Gone, Record
from gangsched.model import (
    convert_devices,
    convert_queues,
    convert_refused,
    devices,
    jobsets,
    pod_clique_sets,
    pod_quotas,
    queues,
    raw_devices,
    volumes,
    wire,
)
from gangsched.model.convert import Converter, daemon_set, job_set, pod_selector
from gangsched.model.dialects import DIALECTS, kai, koordinator, operators, upstream, volcano
from gangsched.model.dialects.dialect import api_group
from gangsched.model.dialects.operator_specs import OperatorObject
from gangsched.model.errors import FieldError
from gangsched.model.unsubmitted import (
    RAY_SERVICE,
    TRAINER,
    VCJOB_GROUP,
    ClusterTrainingRuntime,
    TrainingRuntime,
    VolcanoJob,
)

UPSTREAM = upstream.FAMILY
STORAGE = "storage.k8s.io"

#: Makes the record of a decoded object; raises :class:`~gangsched.model.errors.FieldError`.
ToRecord: TypeAlias = Callable[[Converter, Any], Record]
#: Makes the record of an object (or of an :class:`Undecodable`) that could not be understood for a reason, if it must
#: be counted all the same.
Refused: TypeAlias = Callable[[Converter, Any, FieldError], Record | None]


class Undecodable(NamedTuple):
    """An object whose types are not those of its API; ``metadata`` is what could be read of it, ``body`` its JSON."""

    metadata: wire.ObjectMeta
    message: str
    body: bytes = b"{}"


class Kind(msgspec.Struct, frozen=True):
    """One kind, as which objects of a ``type`` are decoded that become a ``record``. ``group`` is empty for the core
    API; ``versions`` are those that are read, the preferred one first. Each object of a ``family`` is a gang.

    A kind that is not ``everywhere`` is watched where it is served, in the first of its versions that is. ``optional``
    kinds may be absent or forbidden without holding up the first decision. ``refused`` makes the record of what could
    not be understood, beside the event that tells of it; without one what was known of it stays. ``metadata_only``:
    only metadata is requested, and manifests are not read. ``watched`` is False for what only manifests say something
    about. ``within`` limits the kind to one namespace.
    """

    name: str
    group: str
    plural: str
    type: type[wire.Object]
    record: ToRecord
    versions: tuple[str, ...] = ("v1",)
    namespaced: bool = True
    family: str = ""
    optional: bool = False
    everywhere: bool = True
    refused: Refused | None = None
    metadata_only: bool = False
    watched: bool = True
    within: str = ""

    @property
    def resource(self) -> str:
        """As the resource is called; with its group, if that need not be there."""
        return self.plural if self.everywhere else f"{self.plural}.{self.group}"

    @property
    def full_name(self) -> str:
        """With the group after a dot."""
        return f"{self.name}.{self.group}" if self.group else self.name

    @property
    def api_version(self) -> str:
        """``batch/v1``, or ``v1``; the preferred one."""
        return f"{self.group}/{self.versions[0]}" if self.group else self.versions[0]

    @property
    def api_versions(self) -> str:
        """The possible values of ``apiVersion``, for messages."""
        return " or ".join(self.at(version).api_version for version in self.versions)

    @property
    def path(self) -> str:
        """The URL path of all objects."""
        space = f"namespaces/{quote(self.within, safe='')}/" if self.within else ""
        return f"/{'apis' if self.group else 'api'}/{self.api_version}/{space}{self.plural}"

    def at(self, version: str) -> Kind:
        """The same in one version."""
        return msgspec.structs.replace(self, versions=(version,))

    def deletion(self, namespace: str, name: str, uid: str) -> Gone:
        """Return the event that the object with this name and UID no longer exists."""
        return Gone("PodGroup" if self.family else self.name, namespace, name, uid, self.family or self.group)


def _plain(convert: Callable[[Any], Record]) -> ToRecord:
    """Of what needs nothing that is known of other objects."""
    return lambda _, raw: convert(raw)


def _if_decoded(count: Callable[[Converter, Any], Record | None]) -> Refused:
    """Nothing is known of an object whose types are wrong."""
    return lambda convert, raw, _: None if isinstance(raw, Undecodable) else count(convert, raw)


def _refused_pod(convert: Converter, raw: Any, error: FieldError) -> Record:
    """A pod takes room whether it is understood or not."""
    if isinstance(raw, Undecodable):
        return convert_refused.undecodable_pod(convert, raw.metadata, raw.body, error)
    return convert_refused.refused_pod(convert, raw, error)


def _refused_budget(_convert: Converter, raw: Any, _error: FieldError) -> Record:
    """An unreadable budget grants nothing."""
    if isinstance(raw, Undecodable):
        raw = wire.PodDisruptionBudget(raw.metadata, wire.PodDisruptionBudgetSpec(selector=wire.LabelSelector()))
    return convert_refused.refused_budget(raw)


def _no_record(_convert: Converter, _raw: Any) -> Record:
    """It says nothing by itself: PodGroups that name it are checked against it."""
    raise AssertionError("a Workload has no record")


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


def _everywhere(group: str, plural: str, kind: type[wire.Object], record: ToRecord, **more: Any) -> Kind:
    return Kind(kind.__name__.removeprefix("Raw"), group, plural, kind, record, **more)


def _selector(group: str, plural: str, kind: type[wire.Object]) -> Kind:
    """Without them little is lost: the default spreading."""
    return _everywhere(group, plural, kind, _plain(pod_selector), optional=True)


def _of_some_pods(
    group: str, plural: str, kind: type[wire.Object], convert: Callable[[Any], Record], *, namespaced: bool = False
) -> Kind:
    """Without them little is lost: pods with volumes, or Jobs that are suspended."""
    return _everywhere(group, plural, kind, _plain(convert), namespaced=namespaced, optional=True)


def _where_served(name: str, group: str, plural: str, kind: type[wire.Object], record: ToRecord, **more: Any) -> Kind:
    return Kind(name, group, plural, kind, record, **more, optional=True, everywhere=False)


def _queue(plural: str, kind: type[wire.Object], convert: Callable[[Any], Record], **more: Any) -> Kind:
    more = {"namespaced": False} | more
    group, record = queues.GROUP, _plain(convert)
    name = kind.__name__.removeprefix("Raw")
    return _where_served(name, group, plural, kind, record, versions=queues.VERSIONS, **more)


def _operator(each: operators.Operator) -> Kind:
    def record(known: Converter, raw: Any) -> Record:
        return operators.gang_from_object(each.kind, raw, known.shape_of_template)

    more: dict[str, Any] = {"versions": each.versions, "family": each.family}
    return _where_served(each.kind, each.group, each.plural, OperatorObject, record, **more)


def _of_devices() -> Iterator[Kind]:
    """Without them little is lost: pods with claims wait."""

    def kind(name: str, decoded: type[wire.Object], convert: Callable[[Any], Record], **more: Any) -> Kind:
        more = {"versions": devices.VERSIONS, "namespaced": False} | more
        plural = "deviceclasses" if name == "DeviceClass" else f"{name.lower()}s"
        return _where_served(name, devices.GROUP, plural, decoded, _plain(convert), **more)

    of = convert_devices
    yield kind("DeviceClass", raw_devices.RawDeviceClass, of.device_class)
    counted = _if_decoded(lambda _, raw: of.refused_slice(raw))
    yield kind("ResourceSlice", raw_devices.RawResourceSlice, of.resource_slice, refused=counted)
    yield kind("DeviceTaintRule", raw_devices.RawDeviceTaintRule, of.taint_rule, versions=devices.RULE_VERSIONS)
    yield kind("ResourceClaimTemplate", raw_devices.RawResourceClaimTemplate, of.claim_template, namespaced=True)
    counted = _if_decoded(lambda _, raw: of.refused_claim(raw))
    yield kind("ResourceClaim", raw_devices.RawResourceClaim, of.resource_claim, namespaced=True, refused=counted)


def _stateful_set(known: Converter, raw: wire.StatefulSet) -> Record:
    gang = operators.gang_from_object(operators.STATEFUL_SET, raw, known.shape_of_template)
    return msgspec.structs.replace(pod_selector(raw), gang=gang)


def _topologies() -> Iterator[Kind]:
    """The kinds that name domains for gangs."""
    for name, group, plural, decoded, convert in (
        (
            "ClusterNetworkTopology",
            "scheduling.koordinator.sh",
            "clusternetworktopologies",
            koordinator.NetworkTopologyObject,
            _plain(koordinator.layers_from_object),
        ),
        ("Topology", kai.TOPOLOGY_GROUP, "topologies", kai.RawTopology, _plain(kai.topology_from_object)),
        ("HyperNode", volcano.TOPOLOGY_GROUP, "hypernodes", volcano.RawHyperNode, _plain(volcano.hyper_node)),
    ):
        yield _where_served(name, group, plural, decoded, convert, versions=("v1alpha1",), namespaced=False)


def _kinds() -> Iterator[Kind]:
    yield _everywhere("", "namespaces", wire.Namespace, Converter.namespace, namespaced=False)
    counted = _if_decoded(lambda _, raw: convert_refused.refused_class(raw))
    convert: Any = Converter.priority_class
    yield _everywhere(UPSTREAM, "priorityclasses", wire.PriorityClass, convert, namespaced=False, refused=counted)
    yield _everywhere("", "nodes", wire.Node, Converter.node, namespaced=False)
    convert = Converter.budget
    yield _everywhere("policy", "poddisruptionbudgets", wire.PodDisruptionBudget, convert, refused=_refused_budget)
    yield _everywhere("batch", "jobs", wire.Job, Converter.job, refused=_if_decoded(convert_refused.refused_job))
    yield _selector("", "services", wire.Service)
    yield _selector("", "replicationcontrollers", wire.ReplicationController)
    yield _selector("apps", "replicasets", wire.ReplicaSet)
    yield _everywhere("apps", "statefulsets", wire.StatefulSet, _stateful_set, optional=True)
    yield _of_some_pods("", "resourcequotas", pod_quotas.RawResourceQuota, pod_quotas.resource_quota, namespaced=True)
    yield _of_some_pods("", "persistentvolumes", volumes.RawPersistentVolume, volumes.volume)
    yield _of_some_pods("", "persistentvolumeclaims", volumes.RawPersistentVolumeClaim, volumes.claim, namespaced=True)
    yield _of_some_pods(STORAGE, "storageclasses", volumes.RawStorageClass, volumes.storage_class)
    yield _of_some_pods(STORAGE, "csinodes", volumes.RawCSINode, volumes.csi_node)
    yield _of_some_pods(STORAGE, "csidrivers", volumes.RawCSIDriver, volumes.csi_driver)
    yield _of_some_pods(
        STORAGE, "csistoragecapacities", volumes.RawCSIStorageCapacity, volumes.storage_capacity, namespaced=True
    )
    yield _of_some_pods(STORAGE, "volumeattachments", volumes.RawVolumeAttachment, volumes.attachment)
    # Finished pods too: a member that has succeeded counts towards its gang's minimum, and one that is created again
    # after a failure must not wait for it.
    yield _everywhere("", "pods", wire.Pod, Converter.pod, refused=_refused_pod)
    for each in (*DIALECTS, upstream.COMPOSITE):
        if each.decoded_as is not None and each.gang_from_object is not None:
            record = _plain(each.gang_from_object)
            more = {"versions": each.versions, "family": each.family}
            yield _where_served(each.kind, api_group(each), each.plural, each.decoded_as, record, **more)
        if each.queue is not None:
            decoded, versions = each.queue[0], each.queue_versions or each.versions
            queue = _where_served("Queue", each.family, "queues", decoded, _plain(each.queue[1]), namespaced=False)
            yield msgspec.structs.replace(queue, versions=versions)
    yield from _topologies()
    yield from _of_devices()
    yield _queue("resourceflavors", convert_queues.RawResourceFlavor, convert_queues.resource_flavor)
    yield _queue("cohorts", convert_queues.RawCohort, convert_queues.cohort)
    yield _queue("clusterqueues", convert_queues.RawClusterQueue, convert_queues.cluster_queue)
    yield _queue("localqueues", convert_queues.RawLocalQueue, convert_queues.local_queue, namespaced=True)
    yield _queue(
        "workloadpriorityclasses", convert_queues.RawWorkloadPriorityClass, convert_queues.workload_priority_class
    )
    record, counted = job_set, _if_decoded(convert_refused.refused_jobset)
    jobset = _where_served(jobsets.JOBSET, jobsets.GROUP, "jobsets", jobsets.RawJobSet, record, refused=counted)
    yield jobset.at(jobsets.VERSION)
    yield from (_operator(each) for each in operators.OPERATORS.values() if each.kind != operators.STATEFUL_SET)
    versions = (*upstream.VERSIONS, "v1alpha1")
    yield Kind("Workload", UPSTREAM, "workloads", Workload, _no_record, versions, watched=False)
    unsubmitted: tuple[tuple[str, str, str, type[wire.Object], str], ...] = (
        ("Job", VCJOB_GROUP, "jobs", VolcanoJob, "v1alpha1"),
        (RAY_SERVICE, operators.RAY, "rayservices", OperatorObject, "v1"),
        (pod_clique_sets.KIND, pod_clique_sets.GROUP, "podcliquesets", pod_clique_sets.PodCliqueSet, "v1alpha1"),
        *(
            (name, pod_clique_sets.GROUP, plural, pod_clique_sets.TopologyBinding, "v1alpha1")
            for name, plural in (
                ("ClusterTopologyBinding", "clustertopologybindings"),
                ("ClusterTopology", "clustertopologies"),
            )
        ),
        ("TrainingRuntime", TRAINER, "trainingruntimes", TrainingRuntime, "v1alpha1"),
        ("ClusterTrainingRuntime", TRAINER, "clustertrainingruntimes", ClusterTrainingRuntime, "v1alpha1"),
    )
    for name, group, plural, decoded, version in unsubmitted:
        space = decoded not in (ClusterTrainingRuntime, pod_clique_sets.TopologyBinding)
        yield Kind(name, group, plural, decoded, _no_record, (version,), namespaced=space, watched=False)


#: By name and group, the kinds that are read.
KINDS: Mapping[tuple[str, str], Kind] = {(kind.name, kind.group): kind for kind in _kinds()}
#: Kueue's Workloads, of which only the owners are read. No other API has a resource of that name.
KUEUE_WORKLOADS = msgspec.structs.replace(
    _queue("workloads", convert_queues.RawKueueWorkload, convert_queues.kueue_workload, namespaced=True),
    name="Workload",
    metadata_only=True,
)
#: Pods that say that a DaemonSet owns them are believed where it exists.
DAEMON_SETS = _everywhere("apps", "daemonsets", wire.DaemonSet, _plain(daemon_set), optional=True, metadata_only=True)
#: What is watched on every cluster, and what only where it is served.
CORE_KINDS = (*(kind for kind in KINDS.values() if kind.everywhere and kind.watched), DAEMON_SETS)
SERVED_KINDS = (*(kind for kind in KINDS.values() if not kind.everywhere), KUEUE_WORKLOADS)


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
        (each.kind, api_group(each)): _keys(_spec_of(each.decoded_as), ())
        for each in (*DIALECTS, upstream.COMPOSITE)
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
