"""What is watched: one row for each resource, with how its objects become records and events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gangsched.cluster.changes import CHANGED, Changed, coscheduling_gang
from gangsched.cluster.kube.decode import Undecodable
from gangsched.core import events
from gangsched.core.events import Event
from gangsched.model import convert_refused, jobsets, queues, wire, wire_jobsets, wire_queues, wire_volumes
from gangsched.model.convert import Converter
from gangsched.model.dialects import coscheduling, koordinator, upstream
from gangsched.model.errors import FieldError
from gangsched.model.records import Owner


@dataclass(frozen=True)
class Resource:
    """One resource of the API.

    ``changed`` makes the event of a decoded object (raises :class:`~gangsched.model.errors.FieldError`), that of its
    type unless given; ``gone`` makes the event of an object that no longer exists from its namespace, name and UID.
    ``optional`` resources may be absent or forbidden without holding up the first decision. ``metadata_only``: nothing
    else is asked for. ``refused`` makes the event of an object that could not be understood for a reason and must be
    counted all the same, beside the one that tells of it; without one what was known of it stays.
    """

    name: str
    path: str
    kind: str
    wire_type: type[Any]
    gone: Callable[[str, str, str], Event]
    changed: Changed = lambda convert, raw: CHANGED[type(raw)](convert, raw)
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


def _selector_resource(name: str, path: str, wire_type: type[Any]) -> Resource:
    """Objects of which only the selector is read. Without them nothing but the default spreading is lost."""
    kind = wire_type.__name__
    return Resource(
        name=name,
        path=path,
        kind=kind,
        wire_type=wire_type,
        gone=lambda namespace, name, _uid: events.PodSelectorGone(kind, namespace, name),
        optional=True,
    )


def _storage_resource(group: str, name: str, wire_type: type[Any]) -> Resource:
    """Objects that only pods with volumes need: those do not run without them, all others do."""
    kind = wire_type.__name__
    return Resource(
        name=name,
        path=f"/apis/{group}/v1/{name}" if group else f"/api/v1/{name}",
        kind=kind,
        wire_type=wire_type,
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
        gone=lambda _namespace, name, _uid: events.NamespaceGone(name),
    ),
    Resource(
        name="priorityclasses",
        path="/apis/scheduling.k8s.io/v1/priorityclasses",
        kind="PriorityClass",
        wire_type=wire.PriorityClass,
        gone=lambda _namespace, name, _uid: events.PriorityClassGone(name),
        refused=_refused_class,
    ),
    Resource(
        name="nodes",
        path="/api/v1/nodes",
        kind="Node",
        wire_type=wire.Node,
        gone=lambda _namespace, name, _uid: events.NodeGone(name),
    ),
    Resource(
        name="poddisruptionbudgets",
        path="/apis/policy/v1/poddisruptionbudgets",
        kind="PodDisruptionBudget.policy",
        wire_type=wire.PodDisruptionBudget,
        gone=lambda namespace, name, _uid: events.BudgetGone(namespace, name),
        refused=_refused_budget,
    ),
    Resource(
        name="jobs",
        path="/apis/batch/v1/jobs",
        kind="Job.batch",
        wire_type=wire.Job,
        gone=lambda namespace, name, _uid: events.JobGone(namespace, name),
        refused=_refused_job,
    ),
    _selector_resource("services", "/api/v1/services", wire.Service),
    _selector_resource("replicationcontrollers", "/api/v1/replicationcontrollers", wire.ReplicationController),
    _selector_resource("replicasets", "/apis/apps/v1/replicasets", wire.ReplicaSet),
    _selector_resource("statefulsets", "/apis/apps/v1/statefulsets", wire.StatefulSet),
    _storage_resource("", "persistentvolumes", wire_volumes.PersistentVolume),
    _storage_resource("", "persistentvolumeclaims", wire_volumes.PersistentVolumeClaim),
    _storage_resource(_STORAGE, "storageclasses", wire_volumes.StorageClass),
    _storage_resource(_STORAGE, "csinodes", wire_volumes.CSINode),
    _storage_resource(_STORAGE, "csidrivers", wire_volumes.CSIDriver),
    _storage_resource(_STORAGE, "csistoragecapacities", wire_volumes.CSIStorageCapacity),
    _storage_resource(_STORAGE, "volumeattachments", wire_volumes.VolumeAttachment),
    # Finished pods too: a member that has succeeded counts towards its gang's minimum, and one that is created again
    # after a failure must not wait for it.
    Resource(
        name="pods",
        path="/api/v1/pods",
        kind="Pod",
        wire_type=wire.Pod,
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
    gone: Callable[[str, str, str], Event]
    changed: Changed = lambda convert, raw: CHANGED[type(raw)](convert, raw)
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


def _group_api(family: str, versions: tuple[str, ...], wire_type: type[Any]) -> ServedApi:
    """The PodGroups of a gang API."""
    return ServedApi(
        family,
        "podgroups",
        versions,
        "PodGroup",
        wire_type,
        gone=lambda namespace, name, _uid: events.GangGone(family, namespace, name),
    )


def _queue_api(plural: str, wire_type: type[Any]) -> ServedApi:
    """A kind of queue object."""
    kind = wire_type.__name__
    return ServedApi(
        queues.GROUP,
        plural,
        queues.VERSIONS,
        kind,
        wire_type,
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
    _group_api(upstream.FAMILY, upstream.VERSIONS, wire.UpstreamPodGroup),
    _group_api(koordinator.FAMILY, ("v1alpha1",), wire.SigsPodGroup),
    replace(_group_api(coscheduling.FAMILY, ("v1alpha1",), wire.SigsPodGroup), changed=coscheduling_gang),
    _queue_api("resourceflavors", wire_queues.ResourceFlavor),
    _queue_api("cohorts", wire_queues.Cohort),
    _queue_api("clusterqueues", wire_queues.ClusterQueue),
    _queue_api("localqueues", wire_queues.LocalQueue),
    _queue_api("workloadpriorityclasses", wire_queues.WorkloadPriorityClass),
    ServedApi(
        jobsets.GROUP,
        "jobsets",
        (jobsets.VERSION,),
        jobsets.JOBSET,
        wire_jobsets.JobSet,
        gone=lambda namespace, name, _uid: events.JobSetGone(namespace, name),
        refused=_refused_jobset,
    ),
    KUEUE_WORKLOADS,
)
