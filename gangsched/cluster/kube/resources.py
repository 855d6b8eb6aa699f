"""What is watched: one row for each resource, with how its objects become records and events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gangsched.cluster.kube.decode import Undecodable
from gangsched.core import events
from gangsched.core.events import Event
from gangsched.model import (
    convert_jobsets,
    convert_queues,
    convert_refused,
    convert_volumes,
    jobsets,
    queues,
    wire,
    wire_jobsets,
    wire_queues,
    wire_volumes,
)
from gangsched.model.convert import Converter
from gangsched.model.dialects import coscheduling, koordinator, upstream
from gangsched.model.errors import FieldError
from gangsched.model.queues import QueueObject
from gangsched.model.records import Owner, PodSelector
from gangsched.model.volumes import StorageObject


@dataclass(frozen=True)
class Resource:
    """One resource of the API.

    ``changed`` makes the event of a decoded object (raises :class:`~gangsched.model.errors.FieldError`);
    ``gone`` makes the event of an object that no longer exists from its namespace, name and UID. ``optional``
    resources may be absent or forbidden without holding up the first decision. ``metadata_only``: nothing else is asked
    for. ``refused`` makes the event of an object that could not be understood for a reason and must be counted all the
    same, beside the one that tells of it; without one what was known of it stays.
    """

    name: str
    path: str
    kind: str
    wire_type: type[Any]
    changed: Callable[[Converter, Any], Event]
    gone: Callable[[str, str, str], Event]
    query: Mapping[str, str] = field(default_factory=dict)
    optional: bool = False
    metadata_only: bool = False
    refused: Callable[[Converter, Any, FieldError], Event | None] | None = None


def _refused_pod(convert: Converter, raw: Any, error: FieldError) -> Event:
    """A pod takes room whether it is understood or not."""
    if isinstance(raw, Undecodable):
        return events.PodChanged(convert_refused.undecodable_pod(convert, raw.metadata, raw.body, error))
    return events.PodChanged(convert_refused.refused_pod(convert, raw, error))


def _refused_budget(_convert: Converter, raw: Any, _error: FieldError) -> Event:
    """A budget that nobody can read grants nothing."""
    if isinstance(raw, Undecodable):
        raw = wire.PodDisruptionBudget(raw.metadata, wire.PodDisruptionBudgetSpec(selector=wire.LabelSelector()))
    return events.BudgetChanged(convert_refused.refused_budget(raw))


def _refused_class(_convert: Converter, raw: Any, _error: FieldError) -> Event | None:
    """Without its value nothing is known of a class."""
    if isinstance(raw, Undecodable):
        return None
    return events.PriorityClassChanged(convert_refused.refused_class(raw))


def _refused_job(convert: Converter, raw: Any, _error: FieldError) -> Event | None:
    """Without its counts nothing is known of a Job."""
    return None if isinstance(raw, Undecodable) else events.JobChanged(convert_refused.refused_job(convert, raw))


def _refused_jobset(convert: Converter, raw: Any, _error: FieldError) -> Event | None:
    """The same for a JobSet."""
    found = None if isinstance(raw, Undecodable) else convert_refused.refused_jobset(convert, raw)
    return None if found is None else events.JobSetChanged(found)


def _selector_resource(
    name: str, path: str, kind: str, wire_type: type[Any], convert: Callable[[Any], PodSelector]
) -> Resource:
    """Objects of which only the selector is read. Without them nothing but the default spreading is lost."""
    return Resource(
        name=name,
        path=path,
        kind=kind,
        wire_type=wire_type,
        changed=lambda _convert, raw: events.PodSelectorChanged(convert(raw)),
        gone=lambda namespace, name, _uid: events.PodSelectorGone(kind, namespace, name),
        optional=True,
    )


def _storage_resource(group: str, name: str, wire_type: type[Any], convert: Callable[[Any], StorageObject]) -> Resource:
    """Objects that only pods with volumes need: those do not run without them, all others do."""
    kind = wire_type.__name__
    return Resource(
        name=name,
        path=f"/apis/{group}/v1/{name}" if group else f"/api/v1/{name}",
        kind=kind,
        wire_type=wire_type,
        changed=lambda _convert, raw: events.StorageChanged(convert(raw)),
        gone=lambda namespace, name, _uid: events.StorageGone(kind, namespace, name),
        optional=True,
    )


_STORAGE = "storage.k8s.io"

CORE_RESOURCES: tuple[Resource, ...] = (
    Resource(
        name="namespaces",
        path="/api/v1/namespaces",
        kind="Namespace",
        wire_type=wire.Namespace,
        changed=lambda convert, raw: events.NamespaceChanged(convert.namespace(raw)),
        gone=lambda _namespace, name, _uid: events.NamespaceGone(name),
    ),
    Resource(
        name="priorityclasses",
        path="/apis/scheduling.k8s.io/v1/priorityclasses",
        kind="PriorityClass",
        wire_type=wire.PriorityClass,
        changed=lambda convert, raw: events.PriorityClassChanged(convert.priority_class(raw)),
        gone=lambda _namespace, name, _uid: events.PriorityClassGone(name),
        refused=_refused_class,
    ),
    Resource(
        name="nodes",
        path="/api/v1/nodes",
        kind="Node",
        wire_type=wire.Node,
        changed=lambda convert, raw: events.NodeChanged(convert.node(raw)),
        gone=lambda _namespace, name, _uid: events.NodeGone(name),
    ),
    Resource(
        name="poddisruptionbudgets",
        path="/apis/policy/v1/poddisruptionbudgets",
        kind="PodDisruptionBudget.policy",
        wire_type=wire.PodDisruptionBudget,
        changed=lambda convert, raw: events.BudgetChanged(convert.budget(raw)),
        gone=lambda namespace, name, _uid: events.BudgetGone(namespace, name),
        refused=_refused_budget,
    ),
    Resource(
        name="jobs",
        path="/apis/batch/v1/jobs",
        kind="Job.batch",
        wire_type=wire.Job,
        changed=lambda convert, raw: events.JobChanged(convert.job(raw)),
        gone=lambda namespace, name, _uid: events.JobGone(namespace, name),
        refused=_refused_job,
    ),
    _selector_resource("services", "/api/v1/services", "Service", wire.Service, Converter.service),
    _selector_resource(
        "replicationcontrollers",
        "/api/v1/replicationcontrollers",
        "ReplicationController",
        wire.ReplicationController,
        Converter.replication_controller,
    ),
    _selector_resource(
        "replicasets", "/apis/apps/v1/replicasets", "ReplicaSet", wire.ReplicaSet, Converter.replica_set
    ),
    _selector_resource(
        "statefulsets", "/apis/apps/v1/statefulsets", "StatefulSet", wire.StatefulSet, Converter.stateful_set
    ),
    _storage_resource("", "persistentvolumes", wire_volumes.PersistentVolume, convert_volumes.volume),
    _storage_resource("", "persistentvolumeclaims", wire_volumes.PersistentVolumeClaim, convert_volumes.claim),
    _storage_resource(_STORAGE, "storageclasses", wire_volumes.StorageClass, convert_volumes.storage_class),
    _storage_resource(_STORAGE, "csinodes", wire_volumes.CSINode, convert_volumes.csi_node),
    _storage_resource(_STORAGE, "csidrivers", wire_volumes.CSIDriver, convert_volumes.csi_driver),
    _storage_resource(
        _STORAGE, "csistoragecapacities", wire_volumes.CSIStorageCapacity, convert_volumes.storage_capacity
    ),
    _storage_resource(_STORAGE, "volumeattachments", wire_volumes.VolumeAttachment, convert_volumes.attachment),
    # Finished pods too: a member that has succeeded counts towards its gang's minimum, and one that is created again
    # after a failure must not wait for it.
    Resource(
        name="pods",
        path="/api/v1/pods",
        kind="Pod",
        wire_type=wire.Pod,
        changed=lambda convert, raw: events.PodChanged(convert.pod(raw)),
        gone=events.PodGone,
        refused=_refused_pod,
    ),
)


@dataclass(frozen=True)
class ServedApi:
    """Objects that are watched only where they are served: the resource ``plural`` of the API group ``family``, in the
    first of ``versions`` that is served. Nothing waits for one that is not or is forbidden. All else is as in
    :class:`Resource`.
    """

    family: str
    plural: str
    versions: tuple[str, ...]
    kind: str
    wire_type: type[Any]
    changed: Callable[[Converter, Any], Event]
    gone: Callable[[str, str, str], Event]
    metadata_only: bool = False
    refused: Callable[[Converter, Any, FieldError], Event | None] | None = None

    @property
    def name(self) -> str:
        """As the resource is called with its group."""
        return f"{self.plural}.{self.family}"

    def resource(self, version: str) -> Resource:
        """The row for one served version."""
        return Resource(
            name=self.name,
            path=f"/apis/{self.family}/{version}/{self.plural}",
            kind=f"{self.kind}.{self.family}",
            wire_type=self.wire_type,
            changed=self.changed,
            gone=self.gone,
            optional=True,
            metadata_only=self.metadata_only,
            refused=self.refused,
        )


def _group_api(
    family: str, versions: tuple[str, ...], wire_type: type[Any], convert: Callable[[Any], Any]
) -> ServedApi:
    """The PodGroups of a gang API."""
    return ServedApi(
        family,
        "podgroups",
        versions,
        "PodGroup",
        wire_type,
        changed=lambda _convert, raw: events.GangChanged(convert(raw)),
        gone=lambda namespace, name, _uid: events.GangGone(family, namespace, name),
    )


def _queue_api(plural: str, wire_type: type[Any], convert: Callable[[Any], QueueObject]) -> ServedApi:
    """A kind of queue object."""
    kind = wire_type.__name__
    return ServedApi(
        queues.GROUP,
        plural,
        queues.VERSIONS,
        kind,
        wire_type,
        changed=lambda _convert, raw: events.QueueObjectChanged(convert(raw)),
        gone=lambda namespace, name, _uid: events.QueueObjectGone(kind, namespace, name),
    )


def _owners(raw: wire_queues.KueueWorkload) -> tuple[Owner, ...]:
    return tuple(Owner(o.kind, o.name, o.uid) for o in raw.metadata.owner_references or ())


#: Kueue's Workloads, of which only is asked who owns them. Nobody else serves a resource of that name.
KUEUE_WORKLOADS = ServedApi(
    queues.GROUP,
    "workloads",
    queues.VERSIONS,
    "Workload",
    wire_queues.KueueWorkload,
    changed=lambda _convert, raw: events.KueueAdmits(raw.metadata.namespace, raw.metadata.name, _owners(raw)),
    gone=lambda namespace, name, _uid: events.KueueAdmits(namespace, name),
    metadata_only=True,
)

SERVED_APIS: tuple[ServedApi, ...] = (
    _group_api(upstream.FAMILY, upstream.VERSIONS, wire.UpstreamPodGroup, Converter.upstream_gang),
    _group_api(koordinator.FAMILY, ("v1alpha1",), wire.SigsPodGroup, Converter.sigs_gang),
    _group_api(coscheduling.FAMILY, ("v1alpha1",), wire.SigsPodGroup, Converter.coscheduling_gang),
    _queue_api("resourceflavors", wire_queues.ResourceFlavor, convert_queues.resource_flavor),
    _queue_api("cohorts", wire_queues.Cohort, convert_queues.cohort),
    _queue_api("clusterqueues", wire_queues.ClusterQueue, convert_queues.cluster_queue),
    _queue_api("localqueues", wire_queues.LocalQueue, convert_queues.local_queue),
    _queue_api("workloadpriorityclasses", wire_queues.WorkloadPriorityClass, convert_queues.workload_priority_class),
    ServedApi(
        jobsets.GROUP,
        "jobsets",
        (jobsets.VERSION,),
        jobsets.JOBSET,
        wire_jobsets.JobSet,
        changed=lambda convert, raw: events.JobSetChanged(convert_jobsets.job_set(convert, raw)),
        gone=lambda namespace, name, _uid: events.JobSetGone(namespace, name),
        refused=_refused_jobset,
    ),
    KUEUE_WORKLOADS,
)
